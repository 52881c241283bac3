#!/usr/bin/env python3
"""Runs the pages of docs/src that lead through a task, as a reader does.

    run.py [PAGE ...]

Without names all pages of PAGES but those of SELDOM run. The blocks of a page run in their order, in one shell and in an empty folder:

- `sh`: the commands must succeed.
- `console`: each command must print what follows it; `…` stands for any text.

A comment before a block changes this:

- `<!-- page: save FILE -->`: the block is a file of the reader.
- `<!-- page: terminal -->`: the command runs in another terminal until the end of the page.
- `<!-- page: until -->`: the block is repeated until it prints this, for what takes effect a moment later.
- `<!-- page: skip -->`: the block does not run. The page says so.

Ports of the page are replaced by free ones. kubectl, kube-apiserver and etcd are in KUBEBUILDER_ASSETS, other programs in
target/e2e-assets, the Python of E2E_PYTHON has pytest, and the program is in target/debug. Work files and logs are in target/pages.
"""
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "chart"))

import tools  # noqa: E402

tools.WORK = tools.ROOT / "target/pages"

from cluster import CONTROLLERS, PATIENCE, Cluster, Process, free_port  # noqa: E402
from kubelet import Pod  # noqa: E402
from tools import ASSETS, BINARY, HELM, ROOT, WORK, Failed, expect  # noqa: E402

SERVERS = Path(os.environ.get("KUBEBUILDER_ASSETS", ASSETS))
PYTHON = Path(os.environ.get("E2E_PYTHON", ROOT / "target/e2e-python/bin/python"))
SECONDS, PAGE_SECONDS = 90 * PATIENCE, 900 * PATIENCE
BLOCK = re.compile(r"(?:^<!-- page: (?P<how>.+?) -->\n+)?^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", re.M | re.S)
# The ports that pages name; the words before are those of flags and URLs.
PORT = re.compile(r"(?<=[:=])(6443|6444|7443|8443|9443|10280|10281|19443)(?!\d)")
END = "the-command-has-ended"


class Shell:
    """The reader's shell."""

    def __init__(self, folder, environment):
        self.process = subprocess.Popen(["bash", "--norc"], cwd=folder, env=environment, text=True, errors="replace", stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def run(self, command):
        """Returns the exit code and the output of the command."""
        self.process.stdin.write(f"{{ {command}\n}} </dev/null\nprintf '\\n{END} %s\\n' $?\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.startswith(END):
                return int(line.split()[1]), "".join(lines).removesuffix("\n")
            lines.append(line)
        raise Failed(f"{command}: the shell has ended\n{''.join(lines)}")

    def stop(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Reader:
    """Somebody who follows the page."""

    def __init__(self, page):
        self.page = page
        self.text = (ROOT / "docs/src" / f"{page}.md").read_text()
        self.folder = WORK / page
        shutil.rmtree(self.folder, ignore_errors=True)
        self.home = self.folder / "work"
        self.home.mkdir(parents=True)
        self.ports, self.terminals = {}, []
        programs = self.folder / "bin"
        programs.mkdir()
        for name, target in {"kube-admission-proxy": BINARY, "kubectl": SERVERS / "kubectl", "helm": HELM}.items():
            (programs / name).symlink_to(target)
        (self.home / "charts").symlink_to(ROOT / "charts")
        self.environment = {
            **os.environ, **tools.HOMES, "TERM": "dumb", "KUBECONFIG": str(self.home / "kubeconfig"),
            # The flags of the Makefile, so that Go compiles nothing twice. Go does not see a change of the program.
            "CGO_ENABLED": "0", "GOFLAGS": "-trimpath -gcflags=all=-dwarf=false -count=1",
            "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT": f"{SECONDS:.0f}s", "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT": f"{SECONDS:.0f}s",
            "PATH": f"{programs}:{PYTHON.parent}:{os.environ['PATH']}"}

    def __enter__(self):
        self.shell = Shell(self.home, self.environment)
        # A command that waits for ever ends with its shell.
        self.patience = threading.Timer(PAGE_SECONDS, self.shell.stop)
        self.patience.start()
        return self

    def __exit__(self, *_):
        self.patience.cancel()
        self.shell.stop()
        for terminal in self.terminals:
            terminal.kill()
            terminal.wait()

    def with_ports(self, text):
        return PORT.sub(lambda found: self.port(found[1]), text)

    def port(self, of_page):
        if of_page not in self.ports:
            self.ports[of_page] = str(free_port())
        return self.ports[of_page]

    def as_page(self, output):
        for of_page, port in self.ports.items():
            output = re.sub(rf"\b{port}\b", of_page, output)
        return output

    def follow(self):
        ran = 0
        for block in BLOCK.finditer(self.text):
            how, _, argument = (block["how"] or "").partition(" ")
            text, language = block["text"], block["language"]
            if how == "save":
                path = self.home / argument
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self.with_ports(text))
            elif how == "terminal":
                self.open_terminal(text)
                ran += 1
            elif language == "console" and how in ("", "until"):
                self.play(text, patient=how == "until")
                ran += 1
            elif language == "sh" and not how:
                # The shell ends with a command that fails.
                self.shell.run(f"set -e\n{self.with_ports(text)}set +e")
                ran += 1
            else:
                expect(how in ("", "skip"), f"{self.page}: unknown: {how}")
        expect(ran > 0, f"{self.page} has no commands")

    def open_terminal(self, text):
        """Runs the proxy in the background, and waits until it is ready."""
        command = self.with_ports(text.replace("\\\n", " ")).strip()
        if "port-forward" in command:
            return  # The processes in place of pods listen on this machine.
        expect(command.startswith("kube-admission-proxy serve "), f"{self.page}: another program than serve: {command}")
        # As the defaults, but free.
        health = f"127.0.0.1:{self.port('10280')}"
        command += f" --health-bind-address={health}"
        if "--secure-port" not in command:
            command += f" --secure-port={self.port('6443')}"
        with (self.folder / f"terminal-{len(self.terminals)}.log").open("w") as log:
            started = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=self.home, env=self.environment, stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=subprocess.STDOUT)
        self.terminals.append(started)
        end = time.monotonic() + SECONDS
        while not is_ready(health):
            expect(started.poll() is None, f"{text}the program has ended\n{self.logs()}")
            expect(time.monotonic() < end, f"{text}the program is not ready\n{self.logs()}")
            time.sleep(0.1)

    def play(self, text, patient):
        """Runs the commands of a session, and compares their outputs."""
        for step in re.split(r"^\$ ", text, flags=re.M)[1:]:
            command, _, expected = step.partition("\n")
            pattern = re.compile(re.escape(without_ages(expected)).replace("…", ".*"), re.S)
            end = time.monotonic() + (SECONDS if patient else 0)
            while True:
                _, output = self.shell.run(self.with_ports(command))
                output = without_ages(self.as_page(output))
                if pattern.fullmatch(output):
                    break
                if time.monotonic() >= end:
                    raise Failed(f"$ {command}\nthe page has:\n{expected}\nbut the command prints:\n{output}\n{self.logs()}")
                time.sleep(0.2)

    def logs(self):
        logs = sorted(self.folder.glob("terminal-*.log"))
        return "\n".join(f"{log}:\n{log.read_text(errors='replace')[-1500:]}" for log in logs)


def without_ages(output):
    """The output with the age of each object as that of a new one, and with two spaces between columns."""
    lines = [re.sub(r"(?<= )\d+m?\d*s$", "0s", line.rstrip()) for line in output.rstrip().splitlines()]
    return "\n".join(re.sub(r"(?<=\S)(?: {2,}|\t)(?=\S)", "  ", line) for line in lines)


def is_ready(address):
    try:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def alone(page):
    """A reader without a cluster."""
    with Reader(page) as reader:
        reader.follow()


def with_go_module(page):
    """A reader with the requirements of a Go project, which are those of e2e/assets, and with the archive of a release."""
    with Reader(page) as reader:
        assets = ROOT / "e2e/assets"
        module = (assets / "go.mod").read_text().replace("module kube-admission-proxy/e2e/assets", "module example.com/shop")
        (reader.home / "go.mod").write_text(module)
        shutil.copy(assets / "go.sum", reader.home)
        name = "kube-admission-proxy-0.1.0-linux-amd64"
        (reader.folder / name).mkdir()
        # A script in the place of the binary, which takes seconds to compress.
        script = reader.folder / name / "kube-admission-proxy"
        script.write_text(f'#!/bin/sh\nexec {BINARY} "$@"\n')
        script.chmod(0o755)
        archive = reader.folder / f"{name}.tar.gz"
        subprocess.run(["tar", "-czf", archive, "-C", reader.folder, name], check=True)
        reader.shell.run(f"export RELEASES=file://{reader.folder} SHA256={hashlib.sha256(archive.read_bytes()).hexdigest()}")
        reader.follow()


def with_cluster(page):
    """A reader with a kubeconfig of a cluster's administrator: a kube-apiserver."""
    with Cluster() as cluster, Reader(page) as reader:
        cluster.client.kubeconfig(reader.home / "kubeconfig")
        reader.follow()


def in_an_emergency(page):
    """A reader with a cluster in which everything is installed that the page takes out."""
    image = "--set image.repository=registry.example.com/kube-admission-proxy"
    with Cluster() as cluster, Reader(page) as reader:
        cluster.client.kubeconfig(reader.home / "kubeconfig")
        for command in (
            f"helm install front-end charts/kube-admission-proxy --namespace gateway --create-namespace {image}"
            " --values charts/kube-admission-proxy/presets/webhook-only.yaml"
            """ --set-json 'networkPolicy.apiServers=[{"ipBlock":{"cidr":"192.0.2.10/32"}}]'""",
            f"helm install proxy charts/kube-admission-proxy --namespace gateway {image}",
            "helm upgrade proxy charts/kube-admission-proxy --namespace gateway --reuse-values --set verbosity=2",
            "kube-admission-proxy print guard --admitted-mark=gateway/proxy --proxy-user=proxy --upstream-identity=requestheader"
            " | kubectl apply -f -",
            "kubectl create namespace shop",
            "kubectl label namespace shop inject.kube-admission-proxy.dev/clients=true",
            "kubectl -n shop create deployment web --image=nginx",
        ):
            code, output = reader.shell.run(command)
            expect(code == 0, f"{command}\n{output}")
        reader.follow()


GATEWAY = "/api/v1/namespaces/gateway/pods"
FRONT_END = "front-end-kube-admission-proxy"


class Kubelet(threading.Thread):
    """Runs the pods of the front end: one process of this machine stands for all pods of a revision."""

    def __init__(self, client, address, ports):
        super().__init__(daemon=True)
        self.client, self.address, self.ports = client, address, ports
        self.ending, self.revision, self.pod, self.error = threading.Event(), None, None, None

    def run(self):
        try:
            while not self.ending.wait(0.3):
                self.sync()
        except (Failed, OSError, KeyError) as error:
            self.error = error

    def sync(self):
        code, found = self.client.send("GET", GATEWAY)
        for pod in sorted(found.get("items", []) if code == 200 else [], key=lambda pod: pod["metadata"]["creationTimestamp"]):
            if any(condition["type"] == "Ready" for condition in pod.get("status", {}).get("conditions", [])):
                continue
            revision = pod["metadata"]["labels"]["pod-template-hash"]
            if revision != self.revision:
                self.start_revision(revision)
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}]}
            self.client.do("PATCH", f"{GATEWAY}/{pod['metadata']['name']}/status", {"status": status},
                           content_type="application/merge-patch+json")

    def start_revision(self, revision):
        # Both revisions have the same ports.
        if self.pod:
            self.pod.stop()
        deployment = self.client.get(f"/apis/apps/v1/namespaces/gateway/deployments/{FRONT_END}")
        self.pod, self.revision = Pod(self.client, deployment, f"pod-{revision}", "127.0.0.1"), revision
        self.pod.become_ready()
        path = "/apis/discovery.k8s.io/v1/namespaces/gateway/endpointslices"
        self.client.send("POST", path, {
            "metadata": {"name": "webhook", "labels": {"kubernetes.io/service-name": f"{FRONT_END}-webhook"}}, "addressType": "IPv4",
            "endpoints": [{"addresses": [self.address], "conditions": {"ready": True}}],
            "ports": [{"name": "webhook", "port": self.ports["webhook"], "protocol": "TCP"}]})

    def stop(self):
        self.ending.set()
        self.join()
        if self.pod:
            self.pod.process.kill()


def own_address():
    """An address of this machine that is none of the loopback interface, which no EndpointSlice may have."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unconnected:
        unconnected.connect(("192.0.2.1", 9))
        return unconnected.getsockname()[0]


@contextlib.contextmanager
def controllers(cluster):
    """kube-controller-manager with the controllers that make pods."""
    kubeconfig = cluster.client.as_user(CONTROLLERS).kubeconfig(cluster.folder / "controllers.json")
    names = ["deployment-controller", "replicaset-controller", "serviceaccount-controller", "root-ca-certificate-publisher-controller"]
    process = Process("kube-controller-manager", [
        ASSETS / "kube-controller-manager", f"--kubeconfig={kubeconfig}", f"--controllers={','.join(names)}", "--leader-elect=false",
        "--use-service-account-credentials", f"--root-ca-file={cluster.authority}", f"--secure-port={free_port()}",
        f"--cert-dir={cluster.folder}/controllers", f"--service-account-private-key-file={cluster.folder}/accounts.key"])
    try:
        yield
        process.must_run()
    finally:
        process.kill()


def managed(page):
    """A reader with a cluster that has controllers, and processes in place of the pods of the front end."""
    # With aggregated routing the API server needs no network of Services.
    with Cluster("--enable-aggregator-routing") as cluster, controllers(cluster), Reader(page) as reader:
        client = cluster.client
        client.kubeconfig(reader.home / "kubeconfig")
        client.do("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", {
            "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}}, "addressType": "IPv4",
            "endpoints": [{"addresses": ["192.0.2.10"]}], "ports": [{"name": "https", "port": 443}]})
        ports = {"https": int(reader.port("6443")), "webhook": free_port(), "health": free_port()}
        machine = WORK / "machine.json"
        machine.write_text(json.dumps({
            "upstream": {"server": client.server}, "serving": {"port": ports["https"], "healthPort": ports["health"]},
            "webhook": {"port": ports["webhook"]}, "shutdown": {"delaySeconds": 0, "drainSeconds": 5}}))
        helm = reader.folder / "bin/helm"
        helm.unlink()
        helm.write_text(f'#!/bin/sh\ncase $1 in upgrade) exec {HELM} "$@" --values {machine};; *) exec {HELM} "$@";; esac\n')
        helm.chmod(0o755)
        kubelet = Kubelet(client, own_address(), ports)
        kubelet.start()
        try:
            reader.follow()
        except Failed as failed:
            raise Failed(f"{failed}\nthe pods: {kubelet.error}") from None
        finally:
            kubelet.stop()


# Each page, and how a reader is placed.
PAGES = {
    "audit-managed": with_cluster, "charts": alone, "compatibility": with_cluster, "emergency": in_an_emergency, "envtest": with_go_module,
    "k3s": with_cluster, "managed": managed, "pytest": alone, "two-teams": alone}
# These need programs that take minutes to compile.
SELDOM = {"managed"}


def main():
    WORK.mkdir(parents=True, exist_ok=True)
    chosen = sys.argv[1:] or [page for page in PAGES if page not in SELDOM]
    if unknown := [page for page in chosen if page not in PAGES]:
        sys.exit(f"no page {', '.join(unknown)}; there are: {', '.join(PAGES)}")
    failures = 0
    for page in chosen:
        start = time.monotonic()
        try:
            PAGES[page](page)
        except Failed as failed:
            failures += 1
            print(f"{page}: FAILED\n{failed}", file=sys.stderr)
        else:
            print(f"{page}: ok ({time.monotonic() - start:.1f} s)", flush=True)
    if failures:
        sys.exit(f"{failures} pages failed")


if __name__ == "__main__":
    main()
