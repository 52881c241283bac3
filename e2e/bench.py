#!/usr/bin/env python3
"""The figures of `make bench`: ratios against peers in one run, never absolute times.

Machines are noisy, so every figure is the median of many short rounds in which the peers take turns. Load goes to 127.0.0.1 only, in a
bounded number of requests. Needs nginx, h2load, openssl, and kube-apiserver and etcd in KUBEBUILDER_ASSETS.

    bench.py [--rounds N] [--binary FILE]
             [hop|apiserver|watches|create|protobuf|admission|namespaces|quota|webhooks|cel|policies|bindings ...]
"""
import argparse
import base64
import concurrent.futures
import contextlib
import functools
import json
import os
import pathlib
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROXY = ROOT / "target/release/kube-admission-proxy"  # or what --binary names
TOKEN = "bench-token"
PROXY_CPU, LOAD_CPU = "0", "1"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def need(name):
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    if assets and (pathlib.Path(assets) / name).exists():
        return str(pathlib.Path(assets) / name)
    found = shutil.which(name)
    if not found:
        sys.exit(f"bench: {name} is missing; CONTRIBUTING.md says what to install")
    return found


class Process:
    """A child that is ended with the bench, and what it costs."""

    running = []

    def __init__(self, name, argv, cpu=None, env=None):
        argv = ["taskset", "-c", cpu, *argv] if cpu else argv
        self.log = WORK / f"{name}.log"
        self.child = subprocess.Popen(argv, stdout=open(self.log, "wb"), stderr=subprocess.STDOUT, env={**os.environ, **(env or {})})
        self.name = name
        Process.running.append(self)

    def pids(self):
        pids = [self.child.pid]
        for task in pathlib.Path(f"/proc/{self.child.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # The thread has ended.
                pids += [int(pid) for pid in (task / "children").read_text().split()]
        return pids

    def cpu_microseconds(self):
        # `clock_getcpuclockid`: the clock of the process, which counts ended threads too.
        return sum(time.clock_gettime(~pid << 3 | 2) for pid in self.pids()) * 1e6

    def resident_kib(self, figure="VmRSS"):
        """Memory now, or at its peak, which is VmHWM."""
        status = pathlib.Path(f"/proc/{self.child.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith(figure)).split()[1])

    def forget_peak(self):
        """From now on VmHWM is the peak from now on."""
        pathlib.Path(f"/proc/{self.child.pid}/clear_refs").write_text("5")

    def check(self):
        if self.child.poll() is not None:
            sys.exit(f"bench: {self.name} ended:\n{self.log.read_text()[-2000:]}")

    def stop(self):
        self.child.terminate()
        self.child.wait(20)
        Process.running.remove(self)


def wait_for(url, process, seconds=90):
    end = time.time() + seconds
    while time.time() < end:
        process.check()
        try:
            if urllib.request.urlopen(url, timeout=1).status == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit(f"bench: {process.name} is not ready:\n{process.log.read_text()[-2000:]}")


def wait_for_port(port, process, seconds=90):
    end = time.time() + seconds
    while time.time() < end:
        process.check()
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    sys.exit(f"bench: {process.name} does not listen")


def certificates():
    def run(*argv):
        subprocess.run(["openssl", *argv], cwd=WORK, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    run("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2", "-subj", "/CN=bench")
    run("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (WORK / "san").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth\n")
    run("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-out", "server.crt",
        "-days", "2", "-extfile", "san")
    run("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "sa.key")
    run("ec", "-in", "sa.key", "-pubout", "-out", "sa.pub")
    (WORK / "tokens.csv").write_text(f'{TOKEN},admin,1,"system:masters"\n')


def kubeconfig(port):
    path = WORK / f"kubeconfig-{port}"
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(WORK / "ca.crt")}}],
        "users": [{"name": "bench", "user": {"token": TOKEN}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}]}))
    return path


def proxy(upstream, *flags, cpu=PROXY_CPU, threads="1", env=None):
    port, health = free_port(), free_port()
    process = Process(f"proxy-{port}", [
        str(PROXY), "serve", f"--upstream-kubeconfig={upstream}", "--bind-address=127.0.0.1", f"--secure-port={port}",
        f"--health-bind-address=127.0.0.1:{health}", f"--tls-cert-file={WORK}/server.crt",
        f"--tls-private-key-file={WORK}/server.key", f"--token-auth-file={WORK}/tokens.csv",
        "--authorization-mode=AlwaysAllow", *flags], cpu, {"TOKIO_WORKER_THREADS": threads, **(env or {})})
    return process, port, f"http://127.0.0.1:{health}/readyz"


NGINX = """worker_processes 1; daemon off; pid {work}/{name}.pid; error_log {work}/{name}.err crit;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_body_temp_path {work}/{name}.body; proxy_temp_path {work}/{name}.proxy;
  fastcgi_temp_path {work}/{name}.f; uwsgi_temp_path {work}/{name}.u; scgi_temp_path {work}/{name}.s;
  keepalive_requests 100000000; default_type application/json; sendfile on;
  {more}
  server {{
    listen 127.0.0.1:{port} ssl http2 reuseport; ssl_certificate {work}/server.crt; ssl_certificate_key {work}/server.key;
    ssl_protocols TLSv1.3; http2_max_concurrent_streams 128;
    {location}
  }}
}}
"""


def nginx(name, cpu, location, more=""):
    port = free_port()
    conf = WORK / f"{name}.conf"
    conf.write_text(NGINX.format(work=WORK, name=name, port=port, location=location, more=more))
    process = Process(name, [need("nginx"), "-p", str(WORK), "-c", str(conf)], cpu)
    wait_for_port(port, process)
    return process, port


def nginx_proxy(upstream_port, cpu=PROXY_CPU):
    """nginx doing what the proxy does with a read: TLS 1.3 on both sides, HTTP/2 to clients, verified and kept connections."""
    return nginx(
        f"peer-{upstream_port}", cpu,
        f"location / {{ proxy_pass https://origin; proxy_http_version 1.1; proxy_set_header Connection ''; proxy_ssl_verify on; "
        f"proxy_ssl_name localhost; proxy_ssl_trusted_certificate {WORK}/ca.crt; proxy_ssl_protocols TLSv1.3; proxy_buffers 8 64k; }}",
        f"upstream origin {{ server 127.0.0.1:{upstream_port}; keepalive 64; keepalive_requests 100000000; }}")


def load(port, path, requests, cpu=LOAD_CPU):
    """p50 in microseconds of so many GETs, one at a time, over one connection."""
    log = WORK / "load" / "h2load.log"
    log.parent.mkdir(exist_ok=True)
    log.unlink(missing_ok=True)
    out = subprocess.run(
        ["taskset", "-c", cpu, need("h2load"), f"-n{requests}", "-c1", "-m1", "-t1", f"--log-file={log}",
         "-H", f"authorization: Bearer {TOKEN}", f"https://127.0.0.1:{port}{path}"], capture_output=True, text=True, check=True).stdout
    if f"{requests} succeeded" not in out:
        sys.exit(f"bench: not every request succeeded:\n{out}")
    return statistics.median(int(line.split()[2]) for line in log.read_text().splitlines())


def median(values):
    return statistics.median(values)


def spread(values):
    return f"{median(values):.1f} ({min(values):.1f}-{max(values):.1f})"


def hop(rounds):
    """Pass-through GET of 1 KB and LIST of 1 MB, TLS on both sides, one thread, against nginx doing the same."""
    static = WORK / "static"
    folder = static / "api/v1/namespaces/default/configmaps"
    folder.mkdir(parents=True)
    (folder / "one").write_text(json.dumps({"kind": "ConfigMap", "apiVersion": "v1", "data": {"x": "y" * 960}}))
    items = [{"data": {"x": "y" * 1000}}] * 990
    (static / "api/v1/configmaps").write_text(json.dumps({"kind": "ConfigMapList", "apiVersion": "v1", "items": items}))
    origin, origin_port = nginx("origin", LOAD_CPU, f"location / {{ root {static}; }}")
    peer, peer_port = nginx_proxy(origin_port)
    ours, our_port, _ = proxy(kubeconfig(origin_port), no_proxy_plugins())
    wait_for_port(our_port, ours)
    for what, path, requests in [("GET 1 KB", "/api/v1/namespaces/default/configmaps/one", 1000), ("LIST 1 MB", "/api/v1/configmaps", 40)]:
        arms = {"direct": (origin, origin_port), "nginx": (peer, peer_port), "ours": (ours, our_port)}
        latency, cpu = {name: [] for name in arms}, {name: [] for name in arms}
        for _, port in arms.values():
            load(port, path, max(requests // 10, 10))
        for _ in range(rounds):
            for name, (process, port) in arms.items():
                before = process.cpu_microseconds()
                latency[name].append(load(port, path, requests))
                cpu[name].append((process.cpu_microseconds() - before) / requests)
        added = {name: [a - b for a, b in zip(latency[name], latency["direct"], strict=True)] for name in ("nginx", "ours")}
        cpu_ratio = [a / b for a, b in zip(cpu["ours"], cpu["nginx"], strict=True)]
        added_ratio = median(added["ours"]) / max(median(added["nginx"]), 1)
        print(f"{what}: CPU µs a request: ours {spread(cpu['ours'])}, nginx {spread(cpu['nginx'])}; ratio {median(cpu_ratio):.2f}")
        print(f"{what}: added p50 µs: ours {spread(added['ours'])}, nginx {spread(added['nginx'])}; ratio {added_ratio:.2f}")
    print(f"resident after the load: {ours.resident_kib() / 1024:.1f} MiB")
    for process in (ours, peer, origin):
        process.stop()


def apiserver(rounds):
    """GET through the proxy in front of a real kube-apiserver against direct, nginx for comparison; what is held when idle."""
    etcd, etcd_port = store()
    server, port = api_server("alone", etcd_port)
    ours, our_port, ready = proxy(kubeconfig(port), cpu=None, threads="2")
    wait_for(ready, ours)
    time.sleep(3)
    print(f"idle with the default plugins: {ours.resident_kib() / 1024:.1f} MiB resident")
    path = "/api/v1/namespaces/bench"
    make(port, "/api/v1/namespaces", {"metadata": {"name": "bench"}})
    peer, peer_port = nginx_proxy(port, cpu=None)
    ports = {"direct": port, "nginx": peer_port, "ours": our_port}
    latency = {name: [] for name in ports}
    for at in ports.values():
        load(at, path, 200, "0,1")
    for _ in range(rounds):
        for name, at in ports.items():
            latency[name].append(load(at, path, 400, "0,1"))
    for name in ("nginx", "ours"):
        ratio = [b / a for a, b in zip(latency["direct"], latency[name], strict=True)]
        print(f"GET from kube-apiserver: p50 µs direct {spread(latency['direct'])}, through {name} {spread(latency[name])}; "
              f"ratio {median(ratio):.3f}")
    for process in (ours, peer, server, etcd):
        process.stop()


def watches(_):
    """What 10,000 idle watches cost the proxy: at the peak, while all of them are opened at once, and a while after."""
    upstream_config = WORK / "embedded.kubeconfig"
    health = free_port()
    upstream = Process("embedded", [
        str(PROXY), "serve", "--bind-address=127.0.0.1", f"--secure-port={free_port()}", f"--health-bind-address=127.0.0.1:{health}",
        f"--write-kubeconfig={upstream_config}", "--max-requests-inflight=0"])
    wait_for(f"http://127.0.0.1:{health}/readyz", upstream)
    while not upstream_config.exists():
        time.sleep(0.1)
    ours, port, ready = proxy(upstream_config, cpu=None, threads="2")
    wait_for(ready, ours)
    time.sleep(1)
    before, count = ours.resident_kib(), 10_000
    load_watches = Process("h2load", [
        need("h2load"), f"-n{count}", "-c100", "-m100", "-t1", "-N120s", "-H", f"authorization: Bearer {TOKEN}",
        f"https://127.0.0.1:{port}/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=600"])
    # An idle process has a constant size: the allocator returns memory of the start-up some seconds later.
    last, since = 0, time.time()
    end = since + 60
    while time.time() < min(since + 12, end):
        time.sleep(1)
        now = ours.resident_kib()
        if abs(now - last) > 512:
            last, since = now, time.time()
    peak = ours.resident_kib("VmHWM")
    print(f"{count} idle watches: {(last - before) / count:.1f} KiB each ({before / 1024:.1f} -> {last / 1024:.1f} MiB), "
          f"{(peak - before) / count:.1f} KiB at the peak")
    for process in (load_watches, ours, upstream):
        process.stop()


PODS = "/api/v1/namespaces/bench/pods"
BODIES = {
    "json": ("application/json", ROOT / "e2e/bench/pod.json"),
    "protobuf": ("application/vnd.kubernetes.protobuf", ROOT / "e2e/bench/pod.pb"),
}
NO_SERVICE_ACCOUNTS = "--disable-admission-plugins=ServiceAccount"


def every_plugin():
    """All that kube-apiserver has."""
    text = subprocess.run([need("kube-apiserver"), "--help"], check=True, capture_output=True, text=True).stdout
    return text.split("Comma-delimited list of admission plugins: ")[1].split(".")[0].replace(" ", "")


def no_proxy_plugins():
    """The proxy disables only what it knows."""
    rows = subprocess.run([PROXY, "plugins"], check=True, capture_output=True, text=True).stdout.splitlines()[1:]
    return f"--disable-admission-plugins={','.join(row.split()[0] for row in rows)}"


def store():
    client, peer = free_port(), free_port()
    etcd = Process(f"etcd-{client}", [
        need("etcd"), "--data-dir", str(WORK / f"etcd-{client}"), "--listen-client-urls", f"http://127.0.0.1:{client}",
        "--advertise-client-urls", f"http://127.0.0.1:{client}", "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--unsafe-no-fsync",
        "--log-level", "error"])
    return etcd, client


def api_server(name, etcd_port, *flags):
    """A kube-apiserver with its own part of the store."""
    port = free_port()
    server = Process(f"kube-apiserver-{name}", [
        need("kube-apiserver"), f"--etcd-servers=http://127.0.0.1:{etcd_port}", f"--etcd-prefix=/{name}", f"--secure-port={port}",
        "--bind-address=127.0.0.1", f"--tls-cert-file={WORK}/server.crt", f"--tls-private-key-file={WORK}/server.key",
        f"--token-auth-file={WORK}/tokens.csv", f"--service-account-key-file={WORK}/sa.pub",
        f"--service-account-signing-key-file={WORK}/sa.key", "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC", "--endpoint-reconciler-type=none",
        f"--cert-dir={WORK}/run-{name}", *flags])
    wait_for_port(port, server)
    return server, port


def control_planes():
    """A kube-apiserver that admits as it does by itself, and one that leaves that to the proxy, with one store."""
    etcd, port = store()
    return etcd, api_server("admitting", port), api_server("plain", port, f"--disable-admission-plugins={every_plugin()}")


def make(port, path, body):
    """Makes one object, as soon as the server is ready for that."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    for _ in range(90):
        request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", json.dumps(body).encode(), headers)
        try:
            urllib.request.urlopen(request, timeout=5, context=ssl.create_default_context(cafile=WORK / "ca.crt"))
            return
        except urllib.error.HTTPError as refusal:
            if refusal.code == 409:
                return
        except OSError:
            pass
        time.sleep(1)
    sys.exit(f"bench: {path} cannot be made")


def load_creates(port, path, requests, form, cpu="0,1", rate=None):
    """p50 in microseconds of so many POSTs of one body, one at a time, over one connection; at most so many a second."""
    content_type, body = BODIES[form]
    log = WORK / "load" / "h2load.log"
    log.parent.mkdir(exist_ok=True)
    log.unlink(missing_ok=True)
    out = subprocess.run(
        ["taskset", "-c", cpu, need("h2load"), f"-n{requests}", "-c1", "-m1", "-t1", *([f"--rps={rate}"] if rate else []),
         f"--log-file={log}", f"--data={body}", "-H", f"content-type: {content_type}", "-H", f"accept: {content_type}",
         "-H", f"authorization: Bearer {TOKEN}", f"https://127.0.0.1:{port}{path}"], capture_output=True, text=True, check=True).stdout
    if f"status codes: {requests} 2xx" not in out:
        sys.exit(f"bench: not every create succeeded:\n{out}")
    return statistics.median(int(line.split()[2]) for line in log.read_text().splitlines())


def phases(ready):
    """Seconds in the admission phases of creates so far, and how many creates there were."""
    text = urllib.request.urlopen(ready.replace("/readyz", "/metrics"), timeout=5).read().decode()
    lines = [line for line in text.splitlines() if line.startswith("apiserver_admission_step_admission_duration_seconds_")]
    lines = [line for line in lines if 'operation="CREATE"' in line and 'rejected="false"' in line]
    total = sum(float(line.split()[-1]) for line in lines if "_sum{" in line)
    count = sum(float(line.split()[-1]) for line in lines if "_count{" in line and 'type="admit"' in line)
    return total, count


def admitted_creates(ready, *load):
    """The p50 of load_creates, and how many microseconds of a create the admission phases took, by the proxy's own metrics."""
    seconds, count = phases(ready)
    p50 = load_creates(*load)
    after = phases(ready)
    return p50, (after[0] - seconds) * 1e6 / (after[1] - count)


def creates(rounds, paths, forms):
    """Creates of a pod through the proxy in front of a kube-apiserver that admits nothing, against a kube-apiserver with the
    plugins that are on by default."""
    etcd, (peer, peer_port), (plain, plain_port) = control_planes()
    for port in (peer_port, plain_port):
        make(port, "/api/v1/namespaces", {"metadata": {"name": "bench"}})
        make(port, "/api/v1/namespaces/bench/serviceaccounts", {"metadata": {"name": "default"}})
    ours, our_port, ready = proxy(kubeconfig(plain_port), cpu=None, threads="2")
    bare, bare_port, bare_ready = proxy(kubeconfig(plain_port), no_proxy_plugins(), cpu=None, threads="2")
    for process, url in ((ours, ready), (bare, bare_ready)):
        wait_for(url, process)
    arms = {"direct": (peer, peer_port), "ours": (ours, our_port), "bare": (bare, bare_port)}
    for path, what, requests in paths:
        figures = {(name, form): ([], []) for name in arms for form in forms}
        in_phases = {form: [] for form in forms}
        for name, form in figures:
            load_creates(arms[name][1], path, 200, form)
        for _ in range(rounds):
            for (name, form), (latency, cpu) in figures.items():
                process, port = arms[name]
                before = process.cpu_microseconds()
                if name == "ours":
                    p50, microseconds = admitted_creates(ready, port, path, requests, form)
                    in_phases[form].append(microseconds)
                else:
                    p50 = load_creates(port, path, requests, form)
                latency.append(p50)
                cpu.append((process.cpu_microseconds() - before) / requests)
        for form in forms:
            (direct, direct_cpu), (through, cpu), (_, bare_cpu) = (figures[name, form] for name in arms)
            ratio = [a / b for a, b in zip(through, direct, strict=True)]
            print(f"{what}, {form}: p50 µs direct {spread(direct)}, through the proxy {spread(through)}; ratio {median(ratio):.2f} "
                  f"({min(ratio):.2f}-{max(ratio):.2f})")
            print(f"{what}, {form}: CPU µs a create: the proxy {spread(cpu)}, without its plugins {spread(bare_cpu)}; kube-apiserver "
                  f"with plugins {spread(direct_cpu)}")
            print(f"{what}, {form}: µs in the admission phases, by the proxy's own metrics: {spread(in_phases[form])}")
        if len(forms) > 1:
            ratio = [a / b for a, b in zip(figures["ours", "protobuf"][1], figures["ours", "json"][1], strict=True)]
            print(f"{what}: CPU of protobuf against JSON {median(ratio):.2f} ({min(ratio):.2f}-{max(ratio):.2f})")
    for process in (bare, ours, plain, peer, etcd):
        process.stop()


def create(rounds):
    """Creates of a 3.7 KB pod, tried and real."""
    creates(rounds, [(f"{PODS}?dryRun=All", "dry-run create", 150), (PODS, "create", 150)], ["json"])


def protobuf(rounds):
    """The same pod in protobuf against JSON."""
    creates(rounds, [(f"{PODS}?dryRun=All", "dry-run create", 150)], ["json", "protobuf"])


def settled_kib(process):
    """Memory once the allocator has given back what starting took."""
    time.sleep(8)
    return process.resident_kib()


def embedded(name, *flags):
    """An embedded API server, and the kubeconfig that leads to it."""
    config, health = WORK / f"{name}.kubeconfig", free_port()
    process = Process(f"embedded-{name}", [
        str(PROXY), "serve", "--bind-address=127.0.0.1", f"--secure-port={free_port()}", f"--health-bind-address=127.0.0.1:{health}",
        f"--write-kubeconfig={config}", *flags])
    wait_for(f"http://127.0.0.1:{health}/readyz", process)
    while not config.exists():
        time.sleep(0.1)
    return process, config


def proxy_kib(upstream_config, *flags):
    """What a proxy holds that has only started."""
    process, _, ready = proxy(upstream_config, *flags, cpu=None, threads="2")
    wait_for(ready, process)
    found = settled_kib(process)
    process.stop()
    return found


def namespaces(_):
    """What 10,000 cached namespaces hold, with and without the service account that each has, and in a kube-apiserver."""
    count, body = 10_000, WORK / "namespace.json"
    body.write_text(json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "generateName": "team-", "labels": {"pod-security.kubernetes.io/enforce": "baseline", "team": "checkout", "cost-center": "4711"},
        "annotations": {"example.com/owner": "checkout@example.com"}}}))
    BODIES["namespace"] = ("application/json", body)
    upstream, upstream_config = embedded("namespaces")
    etcd, etcd_port = store()

    def api_server_kib(fill):
        process, port = api_server("namespaces", etcd_port)
        make(port, "/api/v1/namespaces", {"metadata": {"name": "bench"}})
        found = settled_kib(process)
        if fill:
            load_creates(port, "/api/v1/namespaces", count, "namespace")
        process.stop()
        return found

    sets = {"namespaces": [NO_SERVICE_ACCOUNTS], "namespaces with service accounts": []}
    before = {what: proxy_kib(upstream_config, *flags) for what, flags in sets.items()}
    filler, port, ready = proxy(upstream_config, no_proxy_plugins(), cpu=None, threads="2")
    wait_for(ready, filler)
    load_creates(port, "/api/v1/namespaces", count, "namespace")
    filler.stop()
    for what, flags in sets.items():
        after = proxy_kib(upstream_config, *flags)
        print(f"{count} cached {what}: {(after - before[what]) / count:.2f} KiB each ({before[what] / 1024:.1f} -> {after / 1024:.1f} MiB)")
    upstream.stop()
    empty, full = api_server_kib(True), api_server_kib(False)
    print(f"{count} namespaces in kube-apiserver: {(full - empty) / count:.2f} KiB each ({empty / 1024:.1f} -> {full / 1024:.1f} MiB)")
    etcd.stop()


def create_rate(port, namespace, requests):
    """Pods made a second by 8 clients in this namespace."""
    content_type, body = BODIES["pod of any namespace"]
    out = subprocess.run(
        [need("h2load"), f"-n{requests}", "-c8", "-m1", "-t1", f"--data={body}", "-H", f"content-type: {content_type}",
         "-H", f"authorization: Bearer {TOKEN}", f"https://127.0.0.1:{port}/api/v1/namespaces/{namespace}/pods"],
        capture_output=True, text=True, check=True).stdout
    if f"status codes: {requests} 2xx" not in out:
        sys.exit(f"bench: not every create succeeded:\n{out}")
    return float(out.split("finished in ")[1].split(", ")[1].split()[0])


def send(port, method, path, body):
    """Sends one request that must succeed, or whose object must be there already; answers with the object."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", json.dumps(body).encode(), headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30, context=ssl.create_default_context(cafile=WORK / "ca.crt")) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refusal:
        if refusal.code != 409:
            sys.exit(f"bench: {method} {path}: {refusal.read().decode()}")


def make_limited(port, namespace):
    """Makes a namespace with a limit range and a quota that nobody reaches; there is no controller that would count it first."""
    make(port, "/api/v1/namespaces", {"metadata": {"name": namespace}})
    path, most = f"/api/v1/namespaces/{namespace}", {"pods": "1M", "requests.cpu": "1M", "requests.memory": "1000Ti"}
    send(port, "POST", f"{path}/serviceaccounts", {"metadata": {"name": "default"}})
    send(port, "POST", f"{path}/limitranges", {"metadata": {"name": "limits"}, "spec": {"limits": [
        {"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m", "memory": "64Mi"}}]}})
    made = send(port, "POST", f"{path}/resourcequotas", {"metadata": {"name": "most"}, "spec": {"hard": most}})
    if made:
        made["status"] = {"hard": most, "used": dict.fromkeys(most, "0")}
        send(port, "PUT", f"{path}/resourcequotas/most/status", made)


def quota(rounds):
    """What a ResourceQuota leaves of the rate at which 8 clients create pods, and what 1,000 other namespaces with quotas and limit
    ranges add to a create, against a kube-apiserver that has the same."""
    pod, body = json.loads((ROOT / "e2e/bench/pod.json").read_text()), WORK / "pod.json"
    del pod["metadata"]["namespace"]
    body.write_text(json.dumps(pod))
    BODIES["pod of any namespace"] = ("application/json", body)
    etcd, (peer, peer_port), (plain, plain_port) = control_planes()
    for port in (peer_port, plain_port):
        make(port, "/api/v1/namespaces", {"metadata": {"name": "bench"}})
        make(port, "/api/v1/namespaces/bench/serviceaccounts", {"metadata": {"name": "default"}})
        make_limited(port, "limited")
    ours, our_port, ready = proxy(kubeconfig(plain_port), cpu=None, threads="2")
    wait_for(ready, ours)
    time.sleep(3)  # until the caches have it
    arms = {"kube-apiserver": peer_port, "ours": our_port}
    rates = {(name, namespace): [] for name in arms for namespace in ("bench", "limited")}
    for round in range(rounds + 1):
        for (name, namespace), found in rates.items():
            rate = create_rate(arms[name], namespace, 400)
            if round:
                found.append(rate)
    for name in arms:
        without, with_one = rates[name, "bench"], rates[name, "limited"]
        ratio = [more / less for more, less in zip(with_one, without, strict=True)]
        print(f"quota: {name}: pods a second by 8 clients: without {spread(without)}, with one {spread(with_one)}; "
              f"ratio {median(ratio):.2f} ({min(ratio):.2f}-{max(ratio):.2f})")

    def dry_runs():
        """By arm: p50 in microseconds of a round each; and the proxy's own time in the phases."""
        latency, in_phases = {name: [] for name in arms}, []
        for round in range(rounds + 1):
            for name, port in arms.items():
                load = port, "/api/v1/namespaces/limited/pods?dryRun=All", 150, "pod of any namespace"
                p50, microseconds = admitted_creates(ready, *load) if name == "ours" else (load_creates(*load), None)
                if round:
                    latency[name].append(p50)
                    if microseconds:
                        in_phases.append(microseconds)
        return latency, in_phases

    (alone, alone_in_phases), names = dry_runs(), [f"limited-{number}" for number in range(1000)]
    for port in (peer_port, plain_port):
        with concurrent.futures.ThreadPoolExecutor(8) as makers:
            list(makers.map(functools.partial(make_limited, port), names))
    time.sleep(5)
    among, among_in_phases = dry_runs()
    for name in arms:
        print(f"quota: {name}: p50 µs of a dry-run create in a limited namespace: alone {spread(alone[name])}, "
              f"among 1,000 {spread(among[name])}; ratio {median(among[name]) / median(alone[name]):.3f}")
    print(f"quota: ours: µs in the admission phases: alone {spread(alone_in_phases)}, among 1,000 {spread(among_in_phases)}; "
          f"ratio {median(among_in_phases) / median(alone_in_phases):.3f}")
    for process in (ours, plain, peer, etcd):
        process.stop()


def admission(_):
    """What decoding, encoding and the plugins cost in the process."""
    subprocess.run(["cargo", "bench", "--quiet", "--bench", "writes"], cwd=ROOT, check=True)


def cel(_):
    """What an evaluation of an expression costs."""
    subprocess.run(["cargo", "bench", "--quiet", "--bench", "expressions"], cwd=ROOT, check=True)


REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"


def policy(name, resource="pods"):
    """A policy of one validation as users write them."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resource]}
    expression = "object.spec.containers.all(c, !c.image.endsWith(':latest') && !c.?securityContext.?privileged.orValue(false))"
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
    return {"metadata": {"name": name}, "spec": spec}


def binding(name, of):
    return {"metadata": {"name": name}, "spec": {"policyName": of, "validationActions": ["Deny"]}}


def drop(port, resource):
    request = urllib.request.Request(
        f"https://127.0.0.1:{port}{REGISTRATIONS}/{resource}", headers={"Authorization": f"Bearer {TOKEN}"}, method="DELETE")
    urllib.request.urlopen(request, timeout=60, context=ssl.create_default_context(cafile=WORK / "ca.crt"))


def policies(rounds):
    """What policies add to a create, against a kube-apiserver that has the same."""
    etcd, (peer, peer_port), (plain, plain_port) = control_planes()
    for port in (peer_port, plain_port):
        make(port, "/api/v1/namespaces", {"metadata": {"name": "bench"}})
        make(port, "/api/v1/namespaces/bench/serviceaccounts", {"metadata": {"name": "default"}})
    # The default view, `stored`, sends a dry run first, which is another request.
    submitted = "--validation-view=submitted"
    ours, our_port, ready = proxy(kubeconfig(plain_port), submitted, cpu=None, threads="2")
    none, none_port, none_ready = proxy(
        kubeconfig(plain_port), submitted, "--disable-admission-plugins=ValidatingAdmissionPolicy", cpu=None, threads="2")
    readies = {"ours": ready, "without": none_ready}
    for name, process in (("ours", ours), ("without", none)):
        wait_for(readies[name], process)
    arms = {"kube-apiserver": (peer, peer_port), "ours": (ours, our_port), "without": (none, none_port)}
    sets = {
        "100 that match": ([policy(f"p{i}") for i in range(100)], [binding(f"p{i}", f"p{i}") for i in range(100)]),
        "1 with 1,000 bindings": ([policy("p")], [binding(f"b{i}", "p") for i in range(1000)]),
        "1,000 that do not match": ([policy(f"p{i}", "configmaps") for i in range(1000)], [binding(f"p{i}", f"p{i}") for i in range(1000)]),
    }
    for what, (definitions, bindings) in sets.items():
        for port in (peer_port, plain_port):
            for resource, objects in (("validatingadmissionpolicies", definitions), ("validatingadmissionpolicybindings", bindings)):
                for object in objects:
                    make(port, f"{REGISTRATIONS}/{resource}", object)
        time.sleep(5)  # until both have seen and compiled them
        latency, cpu, in_phases = ({name: [] for name in arms} for _ in range(3))
        for _ in range(rounds):
            for name, (process, port) in arms.items():
                load = port, f"{PODS}?dryRun=All", 5 if name == "kube-apiserver" else 100, "json"
                before = process.cpu_microseconds()
                p50, microseconds = (load_creates(*load), 0) if name == "kube-apiserver" else admitted_creates(readies[name], *load)
                latency[name].append(p50)
                cpu[name].append((process.cpu_microseconds() - before) / load[2])
                in_phases[name].append(microseconds)

        def added(figures):
            return [more - less for more, less in zip(figures["ours"], figures["without"], strict=True)]

        ratio = [more / less for more, less in zip(latency["ours"], latency["without"], strict=True)]
        print(f"policies: {what}: p50 {median(ratio):.2f} times that without ({min(ratio):.2f}-{max(ratio):.2f}); added CPU µs "
              f"{spread(added(cpu))}, in the admission phases {spread(added(in_phases))}")
        print(f"policies: {what}: kube-apiserver: p50 µs {spread(latency['kube-apiserver'])}, CPU µs {spread(cpu['kube-apiserver'])}")
        print(f"policies: {what}: the proxy holds {ours.resident_kib() / 1024:.1f} MiB")
        for port in (peer_port, plain_port):
            drop(port, "validatingadmissionpolicybindings")
            drop(port, "validatingadmissionpolicies")
    for process in (ours, none, plain, peer, etcd):
        process.stop()


def bindings(_):
    """What 1,000 policies that have 100 bindings each hold."""
    count, each = 1_000, 100
    upstream, upstream_config = embedded("bindings", "--disable-admission-plugins=ValidatingAdmissionPolicy")
    before = proxy_kib(upstream_config)
    filler, port, ready = proxy(upstream_config, no_proxy_plugins(), cpu=None, threads="2")
    wait_for(ready, filler)
    body = WORK / "binding.json"
    BODIES["binding"] = ("application/json", body)
    for number in range(count):
        make(port, f"{REGISTRATIONS}/validatingadmissionpolicies", policy(f"p{number}"))
        body.write_text(json.dumps(binding(None, f"p{number}") | {"metadata": {"generateName": "b-"}}))
        load_creates(port, f"{REGISTRATIONS}/validatingadmissionpolicybindings", each, "binding")
    filler.stop()
    after = proxy_kib(upstream_config)
    print(f"{count} policies with {each} bindings each: {(after - before) / 1024:.1f} MiB ({before / 1024:.1f} -> {after / 1024:.1f} MiB)")
    upstream.stop()


def hook_server(*answers):
    """The server of webhooks that answer so."""
    binary, port = WORK / "hook", free_port()
    subprocess.run([need("go"), "build", "-o", binary, "e2e/bench/hook.go"], cwd=ROOT, check=True)
    process = Process("hook", [binary, f"127.0.0.1:{port}", WORK / "server.crt", WORK / "server.key", *answers])
    wait_for_port(port, process)
    return process, port


def slow_hooks(port, at_once):
    """Microseconds that the slowest of so many slow hooks takes if nothing stands between: as a client in C calls them at once."""
    log, body = WORK / "load" / "h2load.log", BODIES["config map"][1]
    log.unlink(missing_ok=True)
    subprocess.run(
        [need("h2load"), "--h1", f"-n{15 * at_once}", f"-c{at_once}", "-m1", "-t1", f"--log-file={log}", f"--data={body}",
         f"https://127.0.0.1:{port}/slow/validate"], capture_output=True, check=True)
    figures = sorted(int(line.split()[2]) for line in log.read_text().splitlines())
    # The quantile of the slowest of `at_once` calls; for a single call, the median.
    return figures[len(figures) * max(at_once - 1, 1) // max(at_once, 2)]


def hook_answer(**fields):
    """A review for whoever asks: of v1beta1, whose uid nobody compares."""
    return json.dumps({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "response": {"allowed": True, **fields}})


def hooks(kind, name, namespace, url, count):
    """A configuration of so many hooks for the config maps of a namespace, which may have the hook's number in its name."""
    ca = base64.b64encode((WORK / "ca.crt").read_bytes()).decode()
    webhooks = [{
        "name": f"hook-{number}.{name}.test", "sideEffects": "None", "admissionReviewVersions": ["v1beta1"],
        "clientConfig": {"url": url, "caBundle": ca},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.format(number)}}} for number in range(count)]
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": f"{kind}WebhookConfiguration", "metadata": {"name": name},
            "webhooks": webhooks}


def config_map(name, size):
    """A body of so many bytes, near enough."""
    body = WORK / f"{name.replace(' ', '-')}.json"
    body.write_text(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "c-"}, "data": {"x": "y" * size}}))
    BODIES[name] = ("application/json", body)


def webhooks(rounds):
    """What calls of webhooks cost the proxy, and kube-apiserver: dry-run creates of a config map of 1 KB, or 1 MB, in namespaces
    with different hooks, against one with none."""
    patch = base64.b64encode(json.dumps([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]).encode()).decode()
    hook, hook_port = hook_server(hook_answer(), hook_answer(patchType="JSONPatch", patch=patch))
    etcd, (peer, peer_port), (plain, plain_port) = control_planes()
    # The default view, `stored`, sends a dry run first, which is another request.
    ours, our_port, ready = proxy(kubeconfig(plain_port), "--validation-view=submitted", cpu=None, threads="2")
    config_map("config map", 1000)
    config_map("large config map", 1_000_000)
    registration = "/apis/admissionregistration.k8s.io/v1"
    for port in (peer_port, plain_port):
        make(port, "/api/v1/namespaces", {"metadata": {"name": "hooks-none"}})
        for kind, name, path, count in [
                ("Validating", "hooks-validating", "/validate", 1), ("Mutating", "hooks-mutating", "/mutate", 1),
                ("Validating", "hooks-ten", "/slow/validate", 10), ("Mutating", "hooks-ten-mutating", "/slow/mutate", 10),
                ("Validating", "hooks-large", "/validate", 10)]:
            make(port, "/api/v1/namespaces", {"metadata": {"name": name}})
            configuration = hooks(kind, name, name, f"https://127.0.0.1:{hook_port}{path}", count)
            make(port, f"{registration}/{kind.lower()}webhookconfigurations", configuration)
    wait_for(ready, ours)
    time.sleep(5)  # until the caches have it
    arms = {"the proxy": (ours, our_port), "kube-apiserver": (peer, peer_port)}
    path = "/api/v1/namespaces/{}/configmaps?dryRun=All"

    def measure(namespaces, requests, form="config map", each_round=lambda: None):
        """By namespace and arm: p50 and CPU in microseconds that its hooks add to a create, a round each. With each namespace comes
        how many creates without hooks are sent a second, if not as many as go: an API server that has had nothing to do while
        slow hooks were called takes a multiple of its time for the next request."""
        runs = [("hooks-none", rate) for rate in dict.fromkeys(namespaces.values())] + [(namespace, None) for namespace in namespaces]
        figures = {(*run, name): ([], []) for run in runs for name in arms}
        for round in range(rounds + 1):
            if round:
                each_round()
            for (namespace, rate, name), (latency, cpu) in figures.items():
                process, port = arms[name]
                before = process.cpu_microseconds()
                p50 = load_creates(port, path.format(namespace), requests, form, rate=rate)
                if round:
                    latency.append(p50)
                    cpu.append((process.cpu_microseconds() - before) / requests)

        def added_by(namespace, rate, name):
            kinds = zip(figures[namespace, None, name], figures["hooks-none", rate, name], strict=True)
            return [[a - b for a, b in zip(more, less, strict=True)] for more, less in kinds]

        return {(namespace, name): added_by(namespace, rate, name) for namespace, rate in namespaces.items() for name in arms}

    def say(what, of_arms):
        print(f"{what}: " + ", ".join(f"{name} {spread(figures)}" for name, figures in of_arms.items()))

    added = measure({"hooks-validating": None, "hooks-mutating": None}, 150)
    for what, namespace in [("validating call", "hooks-validating"), ("mutating call with a patch", "hooks-mutating")]:
        say(f"{what}: added CPU µs", {name: added[namespace, name][1] for name in arms})
        say(f"{what}: added p50 µs", {name: added[namespace, name][0] for name in arms})
    slowest, sums = [], []

    def call_hooks():
        slowest.append(slow_hooks(hook_port, 10))
        sums.append(10 * slow_hooks(hook_port, 1))

    added = measure({"hooks-ten": 80, "hooks-ten-mutating": 9}, 15, each_round=call_hooks)
    for what, namespace, bound, least in [
            ("10 validating calls of 10 ms", "hooks-ten", "the slowest of ten called at once", slowest),
            ("10 mutating calls of 10 ms", "hooks-ten-mutating", "ten called in turn", sums)]:
        p50, cpu = ({name: added[namespace, name][kind] for name in arms} for kind in (0, 1))
        say(f"{what}: added p50 µs", p50)
        say(f"{what}: more than {bound} ({spread(least)}), p50 µs",
            {name: [a - b for a, b in zip(figures, least, strict=True)] for name, figures in p50.items()})
        say(f"{what}: added CPU µs a call", {name: [figure / 10 for figure in figures] for name, figures in cpu.items()})
    # A heap that returns free memory at once holds only used memory.
    frugal, frugal_port, frugal_ready = proxy(
        kubeconfig(plain_port), "--validation-view=submitted", cpu=None, threads="2", env={"MIMALLOC_PURGE_DELAY": "0"})
    wait_for(frugal_ready, frugal)
    peaks = {}
    for namespace in ("hooks-none", "hooks-large"):
        for name, (process, port) in {**arms, "the proxy": (frugal, frugal_port)}.items():
            load_creates(port, path.format(namespace), 10, "large config map")
            process.forget_peak()
            before = process.resident_kib("VmHWM")
            load_creates(port, path.format(namespace), 30, "large config map")
            peaks[namespace, name] = (process.resident_kib("VmHWM"), before)
    frugal.stop()
    added = measure({"hooks-large": None}, 8, "large config map")
    for kind, what in enumerate(("p50", "CPU")):
        say(f"10 validating calls with an object of 1 MB: added {what} ms",
            {name: [figure / 1000 for figure in added["hooks-large", name][kind]] for name in arms})
    for name in arms:
        (peak, before), (none, _) = peaks["hooks-large", name], peaks["hooks-none", name]
        print(f"10 validating calls with an object of 1 MB: peak memory of {name}: {peak} KiB, without hooks {none} KiB: "
              f"{(peak - none) * 1024 / 1e6:.2f} times the object more ({before} KiB before)")
    none, none_port, none_ready = proxy(
        kubeconfig(plain_port), "--disable-admission-plugins=ValidatingAdmissionWebhook", cpu=None, threads="2")
    wait_for(none_ready, none)
    for number in range(10):
        name = f"elsewhere-{number}"
        configuration = hooks("Validating", name, f"elsewhere-{number}-{{}}", f"https://127.0.0.1:{hook_port}/validate", 100)
        make(plain_port, f"{registration}/validatingwebhookconfigurations", configuration)
    time.sleep(5)
    cpu, in_phases = [], []
    for _ in range(rounds):
        figures = []
        for process, port, at in ((ours, our_port, ready), (none, none_port, none_ready)):
            before = process.cpu_microseconds()
            _, microseconds = admitted_creates(at, port, path.format("hooks-none"), 150, "config map")
            figures.append(((process.cpu_microseconds() - before) / 150, microseconds))
        (with_them, with_them_in_phases), (without, without_in_phases) = figures
        cpu.append(with_them - without)
        in_phases.append(with_them_in_phases - without_in_phases)
    print(f"1,000 hooks that do not match: added CPU µs {spread(cpu)}, in the admission phases {spread(in_phases)}")
    for process in (ours, none, plain, peer, etcd, hook):
        process.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--binary", type=pathlib.Path, default=PROXY)
    parser.add_argument("parts", nargs="*", default=[])
    arguments = parser.parse_args()
    globals()["PROXY"] = arguments.binary
    parts = {"hop": hop, "apiserver": apiserver, "watches": watches, "create": create, "protobuf": protobuf, "admission": admission,
             "namespaces": namespaces, "quota": quota, "webhooks": webhooks, "cel": cel, "policies": policies, "bindings": bindings}
    if not PROXY.exists():
        sys.exit("bench: build it first: cargo build --release")
    for name in arguments.parts or parts:
        if name not in parts:
            sys.exit(f"bench: no part {name}; there are {', '.join(parts)}")
    certificates()
    for name in arguments.parts or parts:
        parts[name](arguments.rounds)


with tempfile.TemporaryDirectory(prefix="kube-admission-proxy-bench-") as folder:
    WORK = pathlib.Path(folder)
    os.chmod(WORK, 0o755)  # nginx' workers are nobody
    try:
        main()
    finally:
        for process in list(Process.running):
            process.child.kill()
