#!/usr/bin/env python3
"""Records what kube-apiservers say of themselves, each of them a release: src/embedded/data, and the schemas of the built-in kinds.

    tools/record-server.py 36=ASSETS 37=ASSETS

ASSETS is a folder with kube-apiserver and etcd. Each server runs twice: with default flags for tools/record-api.py, and with all APIs for
tools/record-schema.py. tools/union.py joins the recordings of the releases; the encoded document of OpenAPI is kept once for each release.
Recordings stay in target/recordings.
"""
import gzip
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORDINGS = ROOT / "target/recordings"
DATA = ROOT / "src/embedded/data"
SCHEMA = ROOT / "crates/kubernetes-object/src/schema/types.txt"
ALL_APIS = ["--runtime-config=api/all=true", "--feature-gates=AllAlpha=true,AllBeta=true"]
TABLES = {"discovery.json": False, "tables.json": False, "rbac.json": True, "openapi-v3.json": True, "openapi-v2.json": True}


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, **options)


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def make_certificates(folder: pathlib.Path) -> None:
    def openssl(*words):
        run("openssl", *words, cwd=folder, stderr=subprocess.DEVNULL)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.crt", "-days", "2", "-subj", "/CN=ca")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    for name, subject, extra in (("admin", "/O=system:masters/CN=admin", []), ("server", "/CN=server", ["-extfile", "names"])):
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject)
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-out", f"{name}.crt",
                "-days", "2", *extra)
    openssl("genrsa", "-out", "accounts.key", "2048")


class Server:
    """A kube-apiserver with an etcd of its own, until the end of the `with`."""

    def __init__(self, assets: pathlib.Path, flags: list):
        self.assets, self.flags = assets, flags

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        at = pathlib.Path(self.folder.name)
        make_certificates(at)
        etcd, peers, port = free_port(), free_port(), free_port()
        self.url = f"https://127.0.0.1:{port}"
        self.files = [at / "ca.crt", at / "admin.crt", at / "admin.key"]
        log = (at / "log").open("w")
        address = f"http://127.0.0.1:{etcd}"
        self.processes = [subprocess.Popen(command, cwd=at, stdout=log, stderr=log) for command in (
            [self.assets / "etcd", f"--data-dir={at / 'data'}", f"--listen-client-urls={address}", f"--advertise-client-urls={address}",
             f"--listen-peer-urls=http://127.0.0.1:{peers}"],
            [self.assets / "kube-apiserver", f"--etcd-servers={address}", f"--secure-port={port}", "--bind-address=127.0.0.1",
             "--client-ca-file=ca.crt", "--tls-cert-file=server.crt", "--tls-private-key-file=server.key",
             "--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=accounts.key",
             "--service-account-signing-key-file=accounts.key", "--authorization-mode=Node,RBAC",
             "--service-cluster-ip-range=10.0.0.0/24", *self.flags],
        )]
        context = ssl.create_default_context(cafile=self.files[0])
        context.load_cert_chain(*self.files[1:])
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
        for _ in range(120):
            try:
                self.get("/readyz")
                # The aggregator has the documents of all groups a moment later.
                self.get("/openapi/v2")
                return self
            except (urllib.error.URLError, ConnectionError):
                time.sleep(1)
        sys.exit((at / "log").read_text())

    def get(self, path: str) -> bytes:
        with self.opener.open(self.url + path, timeout=60) as response:
            return response.read()

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()
        self.folder.cleanup()


def settled(read):
    """What `read` returns twice in a row: a server adds documents for a while after its start."""
    before = read()
    while (now := read()) != before:
        before = now
        time.sleep(2)
    return before


def record(release: str, assets: pathlib.Path) -> None:
    folder = RECORDINGS / release
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "openapi").mkdir(parents=True)
    with Server(assets, []) as server:
        settled(lambda: server.get("/openapi/v3"))
        run(sys.executable, ROOT / "tools/record-api.py", server.url, *server.files, folder)
    with Server(assets, ALL_APIS) as server:
        for path in json.loads(settled(lambda: server.get("/openapi/v3")))["paths"]:
            (folder / "openapi" / (path.replace("/", "_") + ".json")).write_bytes(server.get(f"/openapi/v3/{path}"))
    with (folder / "types.txt").open("w") as file:
        run(sys.executable, ROOT / "tools/record-schema.py", folder / "openapi", stdout=file)


def union(name: str, releases: list) -> bytes:
    recordings = [f"{release}={RECORDINGS / release / name}" for release in releases]
    return run(sys.executable, ROOT / "tools/union.py", *recordings, stdout=subprocess.PIPE).stdout


def main() -> None:
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    if not given:
        sys.exit(__doc__)
    for release, assets in given.items():
        record(release, pathlib.Path(assets).resolve())
    releases = sorted(given, key=int)
    for name, is_compressed in TABLES.items():
        text = union(name, releases)
        path = DATA / (f"{name}.gz" if is_compressed else name)
        path.write_bytes(gzip.compress(text, compresslevel=9, mtime=0) if is_compressed else text)
    for release in releases:
        shutil.copy(RECORDINGS / release / "openapi-v2.pb.gz", DATA / f"openapi-v2-1.{release}.pb.gz")
    SCHEMA.write_bytes(union("types.txt", releases))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    main()
