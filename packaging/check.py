#!/usr/bin/env python3
"""Checks the files of a release: check.py FOLDER. Needs mandoc and lintian."""
import argparse
import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import yaml


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    sums = dict(reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines())
    for name, digest in sums.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
            sys.exit(f"{name} has not the checksum of SHA256SUMS")
    for check in (image, archive, package, krew, bill):
        check(folder)
        print(f"{check.__name__}: ok")


def one(folder, pattern):
    found = list(folder.glob(pattern))
    if len(found) != 1:
        sys.exit(f"{len(found)} files {pattern} in {folder}")
    return found[0]


def opened(data):
    return tarfile.open(fileobj=io.BytesIO(data))


def image(folder):
    """Every blob has its digest, and the layer holds what the configuration starts, and no shell."""
    with opened(one(folder, "*.oci.tar").read_bytes()) as layout:
        files = {file.name: layout.extractfile(file).read() for file in layout if file.isfile()}

    def blob(descriptor):
        data = files[f"blobs/{descriptor['digest'].replace(':', '/')}"]
        assert f"sha256:{hashlib.sha256(data).hexdigest()}" == descriptor["digest"] and len(data) == descriptor["size"]
        return data

    (reference,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blob(reference))
    config, (layer,) = json.loads(blob(manifest["config"])), [gzip.decompress(blob(layer)) for layer in manifest["layers"]]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    assert config["config"]["User"] == "65532:65532"
    with opened(layer) as root:
        modes = {file.name: file.mode for file in root if file.isfile()}
        assert all(file.uid == file.gid == 0 and not file.mode & 0o6022 for file in root)
    (start,) = config["config"]["Entrypoint"]
    assert [path for path, mode in modes.items() if mode & 0o111] == [start.removeprefix("/")], modes
    assert "etc/ssl/certs/ca-certificates.crt" in modes


def archive(folder):
    """The manual pages are clean, and the binary starts."""
    with tempfile.TemporaryDirectory() as target, opened(gzip.decompress(one(folder, "*-linux-*.tar.gz").read_bytes())) as files:
        files.extractall(target, filter="data")
        (root,) = Path(target).iterdir()
        pages = sorted((root / "man").iterdir())
        lint = subprocess.run(["mandoc", "-Tlint", *pages], stdout=subprocess.PIPE, text=True)
        if lint.stdout or lint.returncode:
            sys.exit(lint.stdout)
        subprocess.run(["bash", "-n", root / "completions/bash"], check=True)
        subprocess.run([root / "kube-admission-proxy", "plugins"], check=True, stdout=subprocess.DEVNULL)


def package(folder):
    command = ["lintian", "--fail-on=error,warning,info", "--tag-display-limit=0", "--allow-root", one(folder, "*.deb")]
    subprocess.run(command, check=True)


def krew(folder):
    """The manifest names the archive that is there, and files in it."""
    spec = yaml.safe_load((folder / "admission.yaml").read_text())["spec"]
    (platform,) = spec["platforms"]
    data = (folder / platform["uri"].rsplit("/", 1)[1]).read_bytes()
    assert hashlib.sha256(data).hexdigest() == platform["sha256"]
    with opened(gzip.decompress(data)) as files:
        names = files.getnames()
    for file in platform["files"]:
        assert any(name.endswith(file["from"].removeprefix("*")) for name in names), file


def bill(folder):
    """The bill of materials names the libraries and no folder of this machine, and the archive has the licences of the same libraries."""
    text = one(folder, "*.cdx.json").read_text()
    assert str(Path(__file__).resolve().parent.parent) not in text
    described = json.loads(text)
    assert described["bomFormat"] == "CycloneDX" and "serialNumber" not in described
    assert described["metadata"]["component"]["name"] == "kube-admission-proxy"
    libraries = {component["name"] for component in described["components"]}
    assert len(libraries) > 50 and {"rustls", "hyper", "kube-client"} <= libraries, libraries
    with opened(gzip.decompress(one(folder, "*-linux-*.tar.gz").read_bytes())) as files:
        (notices,) = [file for file in files if file.name.endswith("/THIRD-PARTY.txt")]
        lines = files.extractfile(notices).read().decode().splitlines()
        named = {line.split()[0] for line in lines if line.startswith("    ") and line.strip()}
    own = {"kube-admission-proxy", "kubernetes-cel", "kubernetes-object"}
    assert libraries - own <= named, libraries - own - named


if __name__ == "__main__":
    main()
