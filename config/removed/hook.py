#!/usr/bin/env python3
"""An external admission hook: refuses config maps with the name "secret".

hook.py FOLDER serves on this machine, with a certificate of its own. FOLDER gets the certificate and hook.yaml: the Service of the hook
with its endpoint, which --enable-aggregator-routing calls, and the configuration that names the Service.
"""
import base64
import json
import socket
import ssl
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

OBJECTS = """apiVersion: v1
kind: Service
metadata:
  name: hook
spec:
  ports:
  - port: 443
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: hook
  labels: {kubernetes.io/service-name: hook}
addressType: IPv4
endpoints:
- addresses: [%s]
ports:
- port: %d
---
apiVersion: admissionregistration.k8s.io/v1alpha1
kind: ExternalAdmissionHookConfiguration
metadata:
  name: hook
externalAdmissionHooks:
- name: names.example.com
  clientConfig:
    service: {namespace: default, name: hook}
    caBundle: %s
  rules:
  - operations: [CREATE]
    apiGroups: [""]
    apiVersions: [v1]
    resources: [configmaps]
"""


class Hook(BaseHTTPRequestHandler):
    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        # The object is Kubernetes' internal one: its metadata are at the top level.
        if review["spec"]["object"]["name"] == "secret":
            refusal = {"status": "Failure", "message": "put secrets into Secrets", "reason": "Forbidden", "code": 403}
            review["status"] = {"allowed": False, "status": refusal}
        else:
            review["status"] = {"allowed": True}
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def own_address():
    """The address of this machine on its way out: no endpoint may be a loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
        route.connect(("192.0.2.1", 9))
        return route.getsockname()[0]


def main():
    folder = Path(sys.argv[1])
    certificate, key = folder / "hook.crt", folder / "hook.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=hook", "-addext", "subjectAltName=DNS:hook.default.svc", "-out", certificate, "-keyout", key]
    subprocess.run(command, check=True, capture_output=True)
    server = HTTPServer((own_address(), 0), Hook)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    authority = base64.b64encode(certificate.read_bytes()).decode()
    (folder / "hook.yaml").write_text(OBJECTS % (*server.server_address, authority))
    server.serve_forever()


main()
