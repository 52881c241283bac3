#!/usr/bin/env python3
"""kube-rs's own tests that need a cluster, on the embedded API server.

    run.py [--lock] [--binary FILE]

The tests are those of the crates in CRATES, in the version of Cargo.lock and unchanged: cargo downloads the crates, and the tests are
compiled from copies of them in target/kube-rs, with the dependencies of Cargo.lock beside this file (--lock writes it and runs nothing).
The embedded API server has the admission plugins and the controllers of its defaults, kube-scheduler binds the pods to a node, and kwok
reports that they run.

tests.txt lists the tests that pass, left-out.txt those that cannot, each with a text of its failure and the reason.

Exit code 1: a test of tests.txt did not pass, a test of left-out.txt did not fail with its text, or a test that needs a cluster is in
neither list. The logs of the programs and the output of the tests are in target/kube-rs.
"""
import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / "target/kube-rs"
LOCK = HERE / "Cargo.lock"
ASSETS = ROOT / "target/e2e-assets"
KUBECTL = Path(os.environ.get("KUBEBUILDER_ASSETS") or ASSETS) / "kubectl"
CARGO = os.environ.get("CARGO", "cargo")
GO = os.environ.get("GO", "go")

CRATES = ["kube", "kube-client", "kube-runtime"]
# All features on which a test depends, except kubelet-debug: its test connects to a kubelet and not to an API server.
FEATURES = ["kube/derive", "kube/jsonpatch", "kube/openssl-tls", "kube/runtime", "kube/unstable-client", "kube/ws"]
# cargo package drops development dependencies that have only a path. The tests of these crates have one, in their Cargo.toml.orig.
USE_KUBE = ["kube-client", "kube-runtime"]
# These tests are ignored for Windows' sake and need no cluster.
NEED_NO_CLUSTER = "client::auth::"

NODE = "kwok"
PATIENCE = float(os.environ.get("E2E_PATIENCE", 1))
START_SECONDS = 60 * PATIENCE
TESTS_SECONDS = 300 * PATIENCE


# The tests.


def version():
    """Returns the version of kube in the program's Cargo.lock."""
    return re.search(r'^name = "kube"\nversion = "(.*)"$', (ROOT / "Cargo.lock").read_text(), re.M).group(1)


def make_workspace(lock):
    """Writes a workspace of copies of the crates into WORK. Cargo compiles the tests of no crate in its registry."""
    download = WORK / "download"
    (download / "src").mkdir(parents=True, exist_ok=True)
    (download / "src/lib.rs").touch()
    (download / "Cargo.toml").write_text(
        f'[package]\nname = "download"\nedition = "2024"\n\n[workspace]\n\n'
        f'[dependencies]\nkube = {{ version = "={version()}", features = ["derive", "runtime"] }}\n')
    metadata = json.loads(subprocess.check_output([CARGO, "metadata", "--format-version=1"], cwd=download, stderr=subprocess.DEVNULL))
    manifests = {package["name"]: Path(package["manifest_path"]) for package in metadata["packages"]}
    for crate in CRATES:
        shutil.rmtree(WORK / crate, ignore_errors=True)
        shutil.copytree(manifests[crate].parent, WORK / crate)  # with its times, which cargo compares
    for crate in USE_KUBE:
        with open(WORK / crate / "Cargo.toml", "a") as manifest:
            manifest.write('\n[dev-dependencies.kube]\npath = "../kube"\n')
    patched = "".join(f'{crate} = {{ path = "{crate}" }}\n' for crate in CRATES if crate != "kube")
    (WORK / "Cargo.toml").write_text(
        f'[workspace]\nresolver = "3"\nmembers = {json.dumps(CRATES)}\nexclude = ["download"]\n\n'
        f'[patch.crates-io]\n{patched}\n[profile.dev]\ndebug = "line-tables-only"\n')
    shutil.copyfile(ROOT / "Cargo.lock" if lock else LOCK, WORK / "Cargo.lock")
    if lock:
        subprocess.check_call([CARGO, "metadata", "--format-version=1"], cwd=WORK, stdout=subprocess.DEVNULL)
        shutil.copyfile(WORK / "Cargo.lock", LOCK)


def build():
    """Returns the binary of each crate's tests."""
    command = [CARGO, "test", "--locked", "--lib", "--no-run", "--quiet", f"--features={','.join(FEATURES)}",
               "--message-format=json", *(f"--package={crate}" for crate in CRATES)]
    environment = {**os.environ, "CARGO_TARGET_DIR": os.path.abspath(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))}
    built = subprocess.run(command, cwd=WORK, env=environment, text=True, stdout=subprocess.PIPE)
    messages = [json.loads(line) for line in built.stdout.splitlines()]
    if built.returncode:
        errors = [message["message"] for message in messages if message["reason"] == "compiler-message"]
        sys.exit("the tests of kube-rs do not build\n" + "".join(error["rendered"] for error in errors if error["level"] == "error"))
    binaries = {}
    for message in messages:
        if message.get("executable") and message["profile"]["test"]:
            binaries[message["target"]["name"].replace("_", "-")] = message["executable"]
    return binaries


def listed(binary):
    """Returns the tests of the binary that need a cluster."""
    lines = subprocess.check_output([binary, "--ignored", "--list"], text=True).splitlines()
    tests = [line.removesuffix(": test") for line in lines if line.endswith(": test")]
    return [test for test in tests if not test.startswith(NEED_NO_CLUSTER)]


def run(crate, binary, tests, environment):
    """Runs the tests; returns the result of each, and the output of those that failed."""
    try:
        done = subprocess.run([binary, "--ignored", "--exact", *tests], cwd=WORK / crate, env=environment, text=True, timeout=TESTS_SECONDS,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired as error:
        sys.exit(f"{crate}: the tests did not end after {TESTS_SECONDS} s:\n{(error.stdout or b'').decode()}")
    (WORK / f"{crate}.log").write_text(done.stdout)
    results = dict(re.findall(r"^test (\S+) \.\.\. (\w+)", done.stdout, re.M))
    outputs = dict(re.findall(r"^---- (\S+) stdout ----\n(.*?)(?=^---- |^failures:$)", done.stdout, re.M | re.S))
    return results, outputs


def entries(file):
    """Returns the lines of a list, each as the words before `|` and the texts after it."""
    lines = [line for line in (HERE / file).read_text().splitlines() if line and not line.startswith("#")]
    return {tuple(line.split("|")[0].split()): [text.strip() for text in line.split("|")[1:]] for line in lines}


# The cluster.


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


@contextlib.contextmanager
def running(name, command):
    """A program with a log, which ends with the context."""
    log = WORK / f"{name}.log"
    with open(log, "w") as output:
        child = subprocess.Popen([str(part) for part in command], stdout=output, stderr=subprocess.STDOUT, cwd=WORK)
    try:
        yield child
        if child.poll() is not None:
            sys.exit(f"{name} has ended by itself, with exit code {child.returncode}: {log}")
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def eventually(what, condition):
    end = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"no {what} after {START_SECONDS} s; the logs are in {WORK}")
        time.sleep(0.1)


def stages():
    """The files of kwok's own module by which nodes are ready, and pods run and end, at once."""
    module = json.loads(subprocess.check_output([GO, "mod", "download", "-json", "sigs.k8s.io/kwok"], cwd=ROOT / "e2e/assets"))
    folder = Path(module["Dir"]) / "kustomize/stage"
    files = [file for kind in ("node", "pod") for file in sorted((folder / kind / "fast").glob("*.yaml"))]
    return [f"--config={file}" for file in files if file.name != "kustomization.yaml"]


@contextlib.contextmanager
def cluster(binary):
    """The embedded API server with a scheduler and a node; gives the kubeconfig."""
    kubeconfig = WORK / "kubeconfig"
    kubeconfig.unlink(missing_ok=True)
    with contextlib.ExitStack() as programs:
        def start(name, *command):
            return programs.enter_context(running(name, command))

        def kubectl(*arguments, **options):
            return subprocess.run([KUBECTL, f"--kubeconfig={kubeconfig}", *arguments], text=True, capture_output=True, **options)

        server = start("server", binary, "serve", "--bind-address=127.0.0.1", f"--secure-port={free_port()}",
                       "--health-bind-address=127.0.0.1:0", "--authorization-mode=RBAC", f"--write-kubeconfig={kubeconfig}")
        eventually("API server",
                   lambda: server.poll() is not None or kubeconfig.exists() and kubectl("get", "--raw=/readyz").returncode == 0)
        start("kube-scheduler", ASSETS / "kube-scheduler", f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1",
              f"--secure-port={free_port()}", f"--cert-dir={WORK / 'kube-scheduler'}")
        start("kwok", ASSETS / "kwok", f"--kubeconfig={kubeconfig}", *stages(), f"--manage-single-node={NODE}")
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        kubectl("create", "--filename=-", input=json.dumps(node)).check_returncode()
        ready = "--output=jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        eventually("node that is ready", lambda: kubectl("get", "node", NODE, ready).stdout == "True")
        # The plugin TaintNodesByCondition has set it, and kube-controller-manager removes it from a node that is ready.
        kubectl("taint", "node", NODE, "node.kubernetes.io/not-ready:NoSchedule-").check_returncode()
        # The plugin ServiceAccount admits no pod before.
        eventually("service account", lambda: kubectl("get", "serviceaccount", "default").returncode == 0)
        yield kubeconfig


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lock", action="store_true", help="write Cargo.lock, from that of the program")
    parser.add_argument("--binary", metavar="FILE", type=Path, default=ROOT / "target/debug/kube-admission-proxy", help="the program")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    make_workspace(options.lock)
    if options.lock:
        return
    expected, left_out = entries("tests.txt"), entries("left-out.txt")
    binaries = build()
    wrong, passed = [], 0
    with cluster(options.binary.resolve()) as kubeconfig:
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
        for crate in CRATES:
            tests = listed(binaries[crate])
            names = {name for of, name in (*expected, *left_out) if of == crate}
            wrong += [f"{crate} {test}: in neither tests.txt nor left-out.txt" for test in tests if test not in names]
            wrong += [f"{crate} {test}: there is no such test" for test in sorted(names) if test not in tests]
            results, outputs = run(crate, binaries[crate], tests, environment)
            for of, test in expected:
                if of == crate and results.get(test) != "ok":
                    wrong.append(f"{crate} {test}: {results.get(test, 'did not run')}\n{outputs.get(test, '')}")
            for (of, test), (text, _reason) in left_out.items():
                if of == crate and (results.get(test) != "FAILED" or text not in outputs.get(test, "")):
                    wrong.append(f"{crate} {test}: {results.get(test, 'did not run')}, but left-out.txt says: {text}\n"
                                 f"{outputs.get(test, '')}")
            passed += list(results.values()).count("ok")
    for line in wrong:
        print(line)
    print(f"kube-rs {version()}: {passed} of {len(expected) + len(left_out)} tests pass, {len(left_out)} are left out")
    if wrong or passed != len(expected):
        sys.exit(f"FAILED; the output is in {WORK}")


if __name__ == "__main__":
    main()
