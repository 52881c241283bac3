"""A real kube-apiserver on etcd, and clients of it."""
import base64
import http.client
import json
import os
import random
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request

from tools import ASSETS, WORK, Failed, expect, succeed

ADMINISTRATOR, CONTROLLERS = "administrator-of-the-test", "controllers-of-the-test"
PATIENCE = float(os.environ.get("E2E_PATIENCE", 1))
PATIENCE_SECONDS = 90


def free_port():
    """A port without a listener, below the ports that Linux gives to clients."""
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) != 0:
                return port


def eventually(what, attempt, seconds=PATIENCE_SECONDS):
    """Returns the first result of `attempt` that is true. The time is multiplied by E2E_PATIENCE."""
    end = time.monotonic() + seconds * PATIENCE
    while True:
        result = attempt()
        if result:
            return result
        expect(time.monotonic() < end, f"not in {seconds * PATIENCE:.0f} s: {what() if callable(what) else what}")
        time.sleep(0.2)


class Process:
    """A process with a log file."""

    def __init__(self, name, command, **options):
        self.log = WORK / f"{name}.log"
        with self.log.open("w") as log:
            self.running = subprocess.Popen([str(part) for part in command], stdout=log, stderr=subprocess.STDOUT, **options)

    def must_run(self):
        expect(self.running.poll() is None, f"{self.log}: the process ended with {self.running.returncode}\n{self.output()[-3000:]}")

    def output(self):
        return self.log.read_text(errors="replace")

    def kill(self):
        self.running.kill()
        self.running.wait()

    def stop(self, seconds=PATIENCE_SECONDS * PATIENCE):
        """Sends SIGTERM. Returns the exit code."""
        self.running.terminate()
        try:
            return self.running.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"{self.log}: the process does not end within {seconds} s of SIGTERM") from None


class Client:
    """Requests to an API server with a bearer token."""

    def __init__(self, port, authority, token=ADMINISTRATOR):
        self.port, self.authority, self.token = port, authority, token
        self.server = f"https://127.0.0.1:{port}"
        self.tls = ssl.create_default_context(cafile=authority)

    def as_user(self, token):
        return Client(self.port, self.authority, token)

    def send(self, method, path, body=None, content_type="application/json"):
        """Returns the code and the JSON of the answer; code 0 if there is none."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        request = urllib.request.Request(self.server + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self.tls, timeout=30 * PATIENCE) as answer:
                code, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            code, text = error.code, error.read()
        except (OSError, http.client.HTTPException) as error:
            return 0, {"message": str(error)}
        return code, json.loads(text) if text.startswith(b"{") else {"message": text.decode(errors="replace")}

    def do(self, method, path, body=None, **options):
        """Returns the JSON of an answer that must be a success."""
        code, answer = self.send(method, path, body, **options)
        expect(200 <= code < 300, f"{method} {path}: {code} {answer.get('message')}")
        return answer

    def get(self, path):
        return self.do("GET", path)

    def kubeconfig(self, path):
        """Writes a kubeconfig for these requests."""
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.server, "certificate-authority": str(self.authority)}}],
            "users": [{"name": "test", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
        path.write_text(json.dumps(config))
        return path


class Cluster:
    """A kube-apiserver with RBAC and its default plugins, and with further flags, on an etcd of its own."""

    def __init__(self, *flags):
        assets = os.environ.get("KUBEBUILDER_ASSETS", ASSETS)
        folder = WORK / "cluster"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.processes = []
        etcd, peer, port = (free_port() for _ in range(3))
        succeed("openssl", "genrsa", "-out", folder / "accounts.key", "2048")
        for name in ("clients", "front-proxies"):
            succeed("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", folder / f"{name}.key",
                    "-out", folder / f"{name}.crt")
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]}
        (folder / "audit-policy.json").write_text(json.dumps(policy))
        self.audit_log = folder / "audit.log"
        users = f'{ADMINISTRATOR},administrator,1,"system:masters"\n{CONTROLLERS},system:kube-controller-manager,2\n'
        (folder / "tokens.csv").write_text(users)
        self.start("etcd", f"{assets}/etcd", f"--data-dir={folder}/etcd", f"--listen-client-urls=http://127.0.0.1:{etcd}",
                   f"--advertise-client-urls=http://127.0.0.1:{etcd}", f"--listen-peer-urls=http://127.0.0.1:{peer}",
                   "--unsafe-no-fsync", "--log-level=error")
        self.start("kube-apiserver", f"{assets}/kube-apiserver", f"--etcd-servers=http://127.0.0.1:{etcd}", f"--secure-port={port}",
                   "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
                   f"--cert-dir={folder}", f"--client-ca-file={folder}/clients.crt",
                   f"--requestheader-client-ca-file={folder}/front-proxies.crt", "--requestheader-allowed-names=front-proxy",
                   "--requestheader-username-headers=X-Remote-User", "--requestheader-uid-headers=X-Remote-Uid",
                   "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
                   f"--token-auth-file={folder}/tokens.csv", "--authorization-mode=Node,RBAC",
                   f"--audit-policy-file={folder}/audit-policy.json", f"--audit-log-path={self.audit_log}",
                   f"--service-account-key-file={folder}/accounts.key",
                   f"--service-account-signing-key-file={folder}/accounts.key",
                   "--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.0.0.0/24",
                   # No controller makes the tokens and the ServiceAccounts.
                   "--disable-admission-plugins=ServiceAccount", *flags)
        self.folder = folder
        self.authority = folder / "apiserver.crt"
        self.port = port

    def __enter__(self):
        try:
            eventually("a certificate of the kube-apiserver", self.authority.exists)
            self.client = Client(self.port, self.authority)
            eventually("a kube-apiserver that is ready", self.is_ready)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def is_ready(self):
        for process in self.processes:
            process.must_run()
        # The hook that makes the roles and priority classes is a part of the check.
        return self.client.send("GET", "/readyz")[0] == 200

    def start(self, name, *command):
        self.processes.append(Process(name, command))

    def own_requests(self, user):
        """The audit events of the user's requests, without those of users that the user impersonates."""
        events = map(json.loads, self.audit_log.read_text().splitlines())
        own = [event for event in events if event["user"]["username"] == user and "impersonatedUser" not in event]
        expect(own, f"no request of {user}")
        return own

    def refusals(self, user):
        """The requests of the user that the API server answered with 403."""
        own = self.own_requests(user)
        return [f"{event['verb']} {event['requestURI']}" for event in own if event.get("responseStatus", {}).get("code") == 403]

    def front_proxy(self):
        """The certificate and the key of a front proxy that the API server trusts, as PEM."""
        key, request, certificate = (self.folder / f"front-proxy.{suffix}" for suffix in ("key", "csr", "crt"))
        succeed("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=front-proxy", "-keyout", key, "-out", request)
        # An extension makes a certificate of version 3.
        (self.folder / "extensions").write_text("extendedKeyUsage=clientAuth\n")
        succeed("openssl", "x509", "-req", "-extfile", self.folder / "extensions", "-in", request, "-CA", self.folder / "front-proxies.crt",
                "-CAkey", self.folder / "front-proxies.key", "-CAcreateserial", "-out", certificate)
        return certificate.read_bytes(), key.read_bytes()

    def stop(self):
        for process in reversed(self.processes):
            process.kill()


def encode(content):
    return base64.b64encode(content).decode()


def secret(name, data, kind="Opaque"):
    encoded = {key: encode(value) for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": name}, "data": encoded}
