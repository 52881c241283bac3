"""Runs the container of the proxy in a Deployment as a kubelet would: volumes, command line and probes are those of the API."""
import base64
import shutil
import time
import urllib.error
import urllib.request

from cluster import PATIENCE, Process
from tools import BINARY, WORK, Failed, expect, proxy_container


class Node:
    """The pods of a test, which end with it."""

    def __init__(self, client):
        self.client, self.pods = client, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pod in self.pods:
            pod.process.kill()

    def start(self, deployment, name, address="127.0.0.1"):
        """Starts a pod of the Deployment at this path, with an address."""
        self.pods.append(Pod(self.client, self.client.get(deployment), name, address))
        return self.pods[-1]

    def run(self, deployment, name, address="127.0.0.1"):
        """Starts a pod of the Deployment at this path, with an address. Returns the pod when it is ready."""
        return self.start(deployment, name, address).become_ready()


class Pod:
    """A process for the container of the proxy. Paths of mounts are replaced by paths in a folder."""

    def __init__(self, client, deployment, name, address):
        self.client, self.namespace, self.address = client, deployment["metadata"]["namespace"], address
        self.template = deployment["spec"]["template"]
        self.spec = self.template["spec"]
        self.container = proxy_container(self.spec)
        self.folder = WORK / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.paths = {}
        self.versions = 0
        for mount in self.container["volumeMounts"]:
            self.paths[mount["mountPath"]] = self.folder / mount["mountPath"].strip("/").replace("/", "-")
        self.sync()
        empty = self.folder / "root"
        empty.mkdir()
        # The values of the tests bind the address 127.0.0.1.
        args = [self.replaced(argument).replace("bind-address=127.0.0.1", f"bind-address={address}") for argument in self.container["args"]]
        self.process = Process(name, [BINARY, *args], cwd=empty, env={})
        self.root = empty

    def replaced(self, text):
        # Longer paths first: a mount may be below another one.
        for path in sorted(self.paths, key=len, reverse=True):
            text = text.replace(path, str(self.paths[path]))
        return text

    def sync(self):
        """Writes the files of all volumes, as a kubelet does again and again."""
        self.versions += 1
        volumes = {volume["name"]: volume for volume in self.spec["volumes"]}
        for mount in self.container["volumeMounts"]:
            self.write(self.paths[mount["mountPath"]], self.files(volumes[mount["name"]]))

    def write(self, folder, files):
        """Writes the files behind a link, so that all of them change at once."""
        data = folder / f"..version_{self.versions}"
        data.mkdir(parents=True)
        for name, content in files.items():
            (data / name).write_bytes(self.replaced(content.decode()).encode())
            if not (folder / name).is_symlink():
                (folder / name).symlink_to(f"..data/{name}")
        (folder / "..new").symlink_to(data.name)
        (folder / "..new").rename(folder / "..data")

    def files(self, volume):
        """The files of a volume, from the API."""
        if found := volume.get("projected"):
            return {name: content for source in found["sources"] for name, content in self.files(source).items()}
        if found := volume.get("serviceAccountToken"):
            return {found["path"]: self.token(found["expirationSeconds"]).encode()}
        if found := volume.get("configMap"):
            stored = self.client.get(f"/api/v1/namespaces/{self.namespace}/configmaps/{found['name']}")
            data = {name: text.encode() for name, text in stored.get("data", {}).items()}
        elif found := volume.get("secret"):
            stored = self.client.get(f"/api/v1/namespaces/{self.namespace}/secrets/{found.get('secretName', found.get('name'))}")
            data = {name: base64.b64decode(text) for name, text in stored.get("data", {}).items()}
        else:
            raise Failed(f"a volume of an unknown kind: {volume}")
        return {item["path"]: data[item["key"]] for item in found["items"]} if "items" in found else data

    def token(self, seconds):
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.spec['serviceAccountName']}/token"
        return self.client.do("POST", path, review)["status"]["token"]

    def port(self, name):
        return next(port["containerPort"] for port in self.container["ports"] if port["name"] == name)

    def probe(self, kind):
        """The code and the text of a probe, 0 without an answer."""
        probe = self.container[kind]["httpGet"]
        return self.health(probe["path"], self.port(probe["port"]))

    def health(self, path, port=None):
        try:
            with urllib.request.urlopen(f"http://{self.address}:{port or self.port('health')}{path}", timeout=5 * PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def become_ready(self):
        """Probes as a kubelet does: the startup probe until it succeeds, then the two others."""
        startup = self.container["startupProbe"]
        for _ in range(startup["failureThreshold"]):
            self.process.must_run()
            if self.probe("startupProbe")[0] == 200:
                break
            time.sleep(startup["periodSeconds"])
        else:
            raise Failed(f"the startup probe fails: {self.health('/readyz?verbose')}\n{self.process.output()[-3000:]}")
        for kind in ("readinessProbe", "livenessProbe"):
            code, text = self.probe(kind)
            expect(code == 200, f"{kind}: {code} {text}")
        return self

    def stop(self):
        """Ends the pod within its grace period. The container's root file system is read-only, so nothing may be in its folder."""
        code = self.process.stop(self.spec["terminationGracePeriodSeconds"])
        expect(code == 0, f"{self.process.log}: exit code {code}")
        written = list(self.root.iterdir())
        expect(not written, f"the proxy wrote files: {written}")
