"""Tests of replicas that come and go under load. Each stored write has the mark of a policy that only the proxy has."""
import json
import subprocess
import time

from cluster import PATIENCE, Client, eventually
from install import DEPLOYMENT, Release, installation, made_authority, values
from tools import LOAD, WORK, expect

WRITES_PER_SECOND = 200
# The time until every node has learnt of a change of the endpoints. It is less than shutdown.delaySeconds.
PROPAGATION_SECONDS = 1
MARK = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: mark.static.k8s.io}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
      - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  mutations:
    - patchType: JSONPatch
      jsonPatch:
        expression: '[JSONPatch{op: "add", path: "/metadata/labels", value: {"admitted": "yes"}}]'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: mark.static.k8s.io}
spec: {policyName: mark.static.k8s.io}
"""


class Service:
    """The ready pods, in a file from which the writer takes the endpoint of each new connection."""

    def __init__(self, pods):
        self.path, self.pods = WORK / "endpoints", pods
        self.write()

    def write(self):
        temporary = self.path.with_suffix(".new")
        temporary.write_text("".join(f"{pod.address}:{pod.port('https')}\n" for pod in self.pods))
        temporary.rename(self.path)

    def add(self, pod):
        self.pods.append(pod)
        self.write()

    def remove(self, pod):
        time.sleep(PROPAGATION_SECONDS)
        self.pods.remove(pod)
        self.write()


class Writer:
    """A process that creates ConfigMaps with client-go."""

    def __init__(self, client, service, name, *flags):
        self.name = name
        kubeconfig = client.kubeconfig(WORK / "load-kubeconfig.json")
        command = [LOAD, f"--kubeconfig={kubeconfig}", f"--endpoints={service.path}", "--namespace=default", f"--prefix={name}",
                   f"--rate={WRITES_PER_SECOND}", *flags]
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def end(self, cluster):
        """Returns the errors, after a comparison of the acknowledged writes with the stored objects."""
        output, _ = self.process.communicate(timeout=60 * PATIENCE)
        found = json.loads(output)
        stored = {item["metadata"]["name"]: item for item in cluster.client.get("/api/v1/namespaces/default/configmaps")["items"]}
        stored = {name: item for name, item in stored.items() if name.startswith(f"{self.name}-")}
        written = found["written"]
        print(f"  {self.name}: {len(written)} writes, {len(found['errors'])} errors, {found['behind']} behind the rate", flush=True)
        expect(len(written) > 5 * WRITES_PER_SECOND, "too few writes")
        expect(len(written) == len(set(written)), "a write was acknowledged twice")
        expect(set(written) == set(stored), f"acknowledged and not stored: {sorted(set(written) - set(stored))[:9]}; stored and not "
                                            f"acknowledged: {sorted(set(stored) - set(written))[:9]}")
        unadmitted = [name for name, item in stored.items() if item["metadata"].get("labels") != {"admitted": "yes"}]
        expect(not unadmitted, f"{len(unadmitted)} objects were not admitted: {unadmitted[:9]}")
        return found["errors"]


def marked(server):
    given = values(server)
    given["admission"] = {"manifests": {"MutatingAdmissionPolicy": {"mark.yaml": MARK}}}
    given["audit"] = {}
    given["shutdown"] = {"delaySeconds": 3, "drainSeconds": 20}
    return given


def through(client, pod):
    """A client of the proxy, when the policy of its file is in force."""
    found = Client(pod.port("https"), made_authority(client))

    def is_marked():
        code, answer = found.send("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", {"metadata": {"name": "probe"}})
        return code == 201 and answer["metadata"].get("labels")

    eventually("the mark of the policy", is_marked)
    return found


def no_write_is_lost_with_a_replica():
    """One of two replicas is killed. The writer repeats what failed: every write is stored once, and admitted."""
    with installation() as (cluster, node):
        client = cluster.client
        Release(marked(client.server)).apply(client, "install")
        killed, other = (node.run(DEPLOYMENT, f"replica-{number}", f"127.0.0.{number}") for number in (1, 2))
        service = Service([killed, other])
        with Writer(through(client, killed), service, "killed", "--repeats") as writer:
            time.sleep(5)
            killed.process.kill()
            service.remove(killed)
            service.add(node.run(DEPLOYMENT, "replica-3", "127.0.0.3"))
            time.sleep(5)
            errors = writer.end(cluster)
        # The killed replica answers nothing. The others answer every request.
        broken = ("connection refused", "EOF", "connection reset", "connection lost", "broken pipe", "use of closed network connection")
        others = [error for error in errors if not any(text in error for text in broken)]
        expect(not others, f"errors that are not of the killed replica: {others[:9]}")


def no_write_fails_during_an_upgrade():
    """Both replicas are replaced, as a Deployment does. The writer repeats nothing beyond what client-go repeats."""
    with installation() as (cluster, node):
        client = cluster.client
        release = Release(marked(client.server))
        release.apply(client, "install")
        old = [node.run(DEPLOYMENT, f"old-{number}", f"127.0.0.{number}") for number in (1, 2)]
        service = Service(list(old))
        with Writer(through(client, old[0]), service, "upgraded") as writer:
            time.sleep(3)
            release.apply(client, "upgrade", verbosity=1)
            for number, pod in enumerate(old):
                service.add(node.run(DEPLOYMENT, f"new-{number}", f"127.0.0.{number + 3}"))
                pod.process.running.terminate()
                service.remove(pod)
                pod.stop()
            time.sleep(3)
            errors = writer.end(cluster)
        expect(not errors, f"{len(errors)} errors: {errors[:9]}")


ALL = [no_write_is_lost_with_a_replica, no_write_fails_during_an_upgrade]
