"""Tests of the installed chart, in front of a real kube-apiserver with RBAC."""
import contextlib
import copy
import json
import os
import re
import shutil
import time
from datetime import datetime

import renders
from cluster import PATIENCE, Client, Cluster, encode, eventually, free_port, secret
from kubelet import Node
from tools import ASSETS, BINARY, CHART, HELM, NAMESPACE, RELEASE, ROOT, WORK, decode, expect, succeed

FULLNAME = "proxy-kube-admission-proxy"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{FULLNAME}"
TLS = f"{FULLNAME}-tls"
NAMESPACED = f"/api/v1/namespaces/{NAMESPACE}"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{FULLNAME}"
PREFIX = {"v1": "/api/v1"}
# The time from the answer to the last list of a cache to a successful readiness probe.
READY_SECONDS = 1

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: few-replicas.static.k8s.io}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  validations:
    - {expression: object.spec.replicas <= 5, message: at most 5 replicas}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: few-replicas.static.k8s.io}
spec: {policyName: few-replicas.static.k8s.io, validationActions: [Deny]}
"""


def values(upstream):
    """Values that replace addresses of a cluster by addresses of this machine, and enable something of everything."""
    port, health = free_port(), free_port()
    return {
        "image": {"repository": "registry.example.com/kube-admission-proxy"},
        "upstream": {"server": upstream},
        "serving": {"bindAddress": "127.0.0.1", "port": port, "healthPort": health},
        "shutdown": {"delaySeconds": 1, "drainSeconds": 20},
        "admission": {
            "enablePlugins": ["AlwaysPullImages", "NodeRestriction", "NamespaceAutoProvision", "EventRateLimit"],
            "pluginConfig": {"EventRateLimit": {
                "apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration",
                "limits": [{"type": "Server", "qps": 1000, "burst": 1000}]}},
            "manifests": {"ValidatingAdmissionPolicy": {"replicas.yaml": POLICY}},
            "aggregatorRouting": True,
        },
        "audit": {"policy": {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}},
    }


class Release:
    """The release, and a Helm that uses the kubeconfig of a client."""

    def __init__(self, given):
        self.given = given

    def helm(self, client, *command):
        kubeconfig = client.kubeconfig(WORK / "helm-kubeconfig.json")
        return succeed(HELM, *command, "--kubeconfig", kubeconfig, "--namespace", NAMESPACE)

    def apply(self, client, verb, *flags, **changes):
        path = WORK / "install-values.json"
        path.write_text(json.dumps({**self.given, **changes}))
        return self.helm(client, verb, RELEASE, CHART, "--values", path, *flags)


def object_path(found):
    group, kind = found["apiVersion"], found["kind"]
    plural = {"NetworkPolicy": "networkpolicies"}.get(kind, kind.lower() + "s")
    namespace = found["metadata"].get("namespace")
    return "/".join([PREFIX.get(group, f"/apis/{group}"), *(["namespaces", namespace] if namespace else []), plural,
                     found["metadata"]["name"]])


def prepare(client):
    """Makes what exists in a cluster before the chart: the namespace, and the authority that a controller publishes."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    client.do("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": labels}})
    root = {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": client.authority.read_text()}}
    client.do("POST", f"{NAMESPACED}/configmaps", root)


def given_certificate(client):
    """Makes the Secret of tls.mode=given. Returns the path of the certificate."""
    key, certificate = WORK / "serving.key", WORK / "serving.crt"
    succeed("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
            "/CN=proxy", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate)
    data = {"tls.crt": certificate.read_bytes(), "tls.key": key.read_bytes()}
    client.do("POST", f"{NAMESPACED}/secrets", secret(TLS, data, "kubernetes.io/tls"))
    return certificate


def made_authority(client):
    """The authority of the certificate that the proxy made, in a file."""
    path = WORK / "made-ca.crt"
    path.write_text(client.get(f"{NAMESPACED}/configmaps/{TLS}")["data"]["ca.crt"])
    return path


@contextlib.contextmanager
def installation(user=FULLNAME):
    """A cluster that is prepared, and a node for pods. At the end no request of the service account may have been refused."""
    with Cluster() as cluster, Node(cluster.client) as node:
        prepare(cluster.client)
        yield cluster, node
        refused = cluster.refusals(f"system:serviceaccount:{NAMESPACE}:{user}")
        expect(not refused, f"rights that {user} lacks: {refused}")


def a_release_serves_and_is_upgraded():
    with installation() as (cluster, node):
        lifecycle(cluster, node)


def a_pod_is_ready_when_its_caches_are_listed():
    with installation() as (cluster, node):
        client = cluster.client
        Release(values(client.server)).apply(client, "install")
        pod = node.start(DEPLOYMENT, "starting")
        started = time.time()
        while pod.probe("readinessProbe")[0] != 200:
            pod.process.must_run()
            expect(time.time() < started + 60 * PATIENCE, f"not ready: {pod.health('/readyz?verbose')}")
            time.sleep(0.01)
        ready = time.time()
        answered = [datetime.fromisoformat(event["stageTimestamp"]).timestamp() for event in cluster.own_requests(ACCOUNT)
                    if event["verb"] == "list" and event["stage"] == "ResponseComplete"]
        before = [answer for answer in answered if answer <= ready]
        expect(len(before) > 10, f"{len(before)} lists before the pod was ready")
        seconds = ready - max(before)
        print(f"  ready {ready - started:.2f} s after the start, {seconds:.2f} s after the last of {len(before)} lists", flush=True)
        expect(seconds < READY_SECONDS, f"ready {seconds:.2f} s after the last list")


def a_front_proxy_needs_the_printed_rights():
    """An upstream of a kubeconfig, with the identity requestheader and the ClusterRole that the program prints."""
    with installation(user="upstream") as (cluster, node):
        client = cluster.client
        certificate = given_certificate(client)
        given = {**values(client.server), "tls": {"mode": "given"}}
        given["upstream"] = {"kind": "kubeconfig", "identity": "requestheader", "kubeconfigSecret": {"name": "upstream"}}
        client.do("POST", f"{NAMESPACED}/serviceaccounts", {"metadata": {"name": "upstream"}})
        flags = ["--upstream-identity=requestheader", f"--enable-admission-plugins={','.join(given['admission']['enablePlugins'])}",
                 "--enable-aggregator-routing"]
        role = decode(succeed(BINARY, "print", "rbac", *flags))[0]
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        client.do("POST", f"{rbac}/clusterroles", role)
        client.do("POST", f"{rbac}/clusterrolebindings", {
            "metadata": {"name": "upstream"}, "subjects": [{"kind": "ServiceAccount", "name": "upstream", "namespace": NAMESPACE}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]}})
        client.do("POST", f"{NAMESPACED}/secrets", secret("upstream", {"kubeconfig": front_proxys_kubeconfig(cluster)}))
        Release(given).apply(client, "install")
        pod = node.run(DEPLOYMENT, "front-proxy")
        writes(Client(pod.port("https"), certificate), client)


def replicas_share_the_certificate_that_the_first_made():
    """An upgrade of the release, and the next pod, leave the certificate alone."""
    with installation() as (cluster, node):
        client = cluster.client
        release = Release(values(client.server))
        release.apply(client, "install")
        node.run(DEPLOYMENT, "first").process.kill()
        made = client.get(f"{NAMESPACED}/secrets/{TLS}")["data"]
        release.apply(client, "upgrade")
        second = node.run(DEPLOYMENT, "second")
        Client(second.port("https"), made_authority(client)).get("/version")
        expect(client.get(f"{NAMESPACED}/secrets/{TLS}")["data"] == made, "the certificate changed")


def front_proxys_kubeconfig(cluster):
    """A kubeconfig with the certificate of a front proxy, and a token for the proxy's own requests."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = cluster.client.do("POST", f"{NAMESPACED}/serviceaccounts/upstream/token", request)["status"]["token"]
    certificate, key = cluster.front_proxy()
    path = cluster.client.as_user(token).kubeconfig(WORK / "front-proxy-kubeconfig.json")
    config = json.loads(path.read_text())
    config["users"][0]["user"] |= {"client-certificate-data": encode(certificate), "client-key-data": encode(key)}
    config["clusters"][0]["cluster"] = {
        "server": cluster.client.server, "certificate-authority-data": encode(cluster.authority.read_bytes())}
    return json.dumps(config).encode()


def the_commands_of_the_documentation_succeed():
    """The blocks of docs/src/helm.md, in their order, from the root of the repository, as in e2e/pages/run.py."""
    blocks = re.findall(r"(?<!<!-- page: skip -->\n)^```sh\n(.*?)^```", (ROOT / "docs/src/helm.md").read_text(), re.M | re.S)
    expect(len(blocks) > 3, "docs/src/helm.md has too few commands")
    folder = WORK / "documentation"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "charts").symlink_to(ROOT / "charts")
    assets = os.environ.get("KUBEBUILDER_ASSETS", ASSETS)
    with Cluster() as cluster:
        kubeconfig = cluster.client.kubeconfig(folder / "kubeconfig")
        path = f"{ASSETS}:{assets}:{BINARY.parent}:{os.environ['PATH']}"
        for block in blocks:
            succeed("sh", "-ec", f"cd {folder}\n{block}", environment={"KUBECONFIG": str(kubeconfig), "PATH": path})


def lifecycle(cluster, node):
    client = cluster.client
    release = Release(values(client.server))
    notes = release.apply(client, "install")
    expect(f"{FULLNAME} is installed in the namespace {NAMESPACE}" in notes, notes)
    objects = decode(release.helm(client, "get", "manifest", RELEASE))
    for found in objects:
        client.get(object_path(found))

    first = node.run(DEPLOYMENT, "pod-1")
    through = Client(first.port("https"), made_authority(client))
    writes(through, client)
    pods_are_restricted(through, client)
    every_cache_is_read(first)
    rights_are_used(cluster)

    # The release is managed through its own proxy from here on.
    changed = {**release.given["admission"], "disablePlugins": ["LimitRanger"]}
    release.apply(through, "upgrade", replicaCount=3, admission=changed)
    upgraded = client.get(DEPLOYMENT)
    args = upgraded["spec"]["template"]["spec"]["containers"][0]["args"]
    expect(upgraded["spec"]["replicas"] == 3 and "--disable-admission-plugins=LimitRanger" in args, args)
    role = client.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{NAMESPACE}:{FULLNAME}")
    expect(not any("limitranges" in rule.get("resources", []) for rule in role["rules"]), "a right of a disabled plugin is left")
    release.helm(through, "rollback", RELEASE, "1")
    restored = client.get(DEPLOYMENT)
    expect(restored["spec"]["template"] == first.template, "the rollback does not restore the pod template")
    expect(restored["spec"]["replicas"] == 2, restored["spec"]["replicas"])

    # Client-side apply, which Helm 3 uses.
    first.stop()
    release.apply(client, "upgrade", "--server-side=false", "--force-conflicts=false", verbosity=2)
    node.run(DEPLOYMENT, "pod-2").stop()
    release.helm(client, "uninstall", RELEASE)
    for found in objects:
        code, _ = client.send("GET", object_path(found))
        expect(code == 404, f"{object_path(found)} is left after the uninstall: {code}")


def writes(through, direct):
    """Writes through the proxy that need the rights of the chart's ClusterRole."""
    namespace = "shop"
    through.do("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    at = f"/api/v1/namespaces/{namespace}"
    through.do("POST", f"{at}/serviceaccounts", {"metadata": {"name": "default"}})
    pod = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "nginx", "imagePullPolicy": "Never"}]}}
    made = through.do("POST", f"{at}/pods", pod)
    expect(made["spec"]["containers"][0]["imagePullPolicy"] == "Always", "AlwaysPullImages has no effect")
    patch = {"metadata": {"labels": {"a": "b"}}}
    through.do("PATCH", f"{at}/pods/web", patch, content_type="application/merge-patch+json")
    through.do("DELETE", f"{at}/pods/web", {"gracePeriodSeconds": 0})
    through.do("POST", "/api/v1/namespaces/unmade/configmaps", {"metadata": {"name": "one"}})

    labels = {"matchLabels": {"app": "web"}}
    deployment = {"metadata": {"name": "web"}, "spec": {"replicas": 9, "selector": labels, "template": {
        "metadata": {"labels": {"app": "web"}}, "spec": pod["spec"]}}}
    code, answer = through.send("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment)
    expect(code == 422 and "at most 5 replicas" in answer["message"], f"the policy from a file: {code} {answer}")

    service_account(through, direct, at)
    quota(through, direct, at)
    policy_with_parameters(through, at)
    custom_resource(through)
    through.do("DELETE", f"{at}/configmaps")


def service_account(through, direct, at):
    """The caller is a service account: its name, UID and extra fields are impersonated."""
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop"
    direct.do("POST", f"{rbac}/roles", {"metadata": {"name": "writer"}, "rules": rules})
    direct.do("POST", f"{rbac}/rolebindings", {
        "metadata": {"name": "writer"}, "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "shop"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "writer"}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = direct.do("POST", f"{at}/serviceaccounts/default/token", request)["status"]["token"]
    account = through.as_user(token)
    body = {"metadata": {"name": "of-the-account"}}
    eventually("a service account that may write", lambda: account.send("POST", f"{at}/configmaps", body)[0] in (201, 409))
    review = account.do("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    user = review["status"]["userInfo"]
    expect(user["username"] == "system:serviceaccount:shop:default" and user["uid"] and user["extra"], user)
    code, _ = account.send("GET", f"{at}/secrets")
    expect(code == 403, f"the service account may read secrets through the proxy: {code}")


def quota(through, direct, at):
    """ResourceQuota charges the status with the proxy's own rights."""
    hard = {"count/secrets": "3"}
    made = direct.do("POST", f"{at}/resourcequotas", {"metadata": {"name": "few"}, "spec": {"hard": hard}})
    made["status"] = {"hard": hard, "used": {"count/secrets": "0"}}
    direct.do("PUT", f"{at}/resourcequotas/few/status", made)
    names = iter(range(1000))

    def charged():
        body = secret(f"s{next(names)}", {})
        through.send("POST", f"{at}/secrets", body)
        return direct.get(f"{at}/resourcequotas/few")["status"]["used"]["count/secrets"] != "0"

    eventually("a quota that is charged", charged)


def policy_with_parameters(through, at):
    """Parameters may be of any kind, which the proxy lists and watches."""
    registration = "/apis/admissionregistration.k8s.io/v1"
    through.do("POST", f"{at}/configmaps", {"metadata": {"name": "bounds"}, "data": {"longest": "8"}})
    through.do("POST", f"{registration}/validatingadmissionpolicies", {"metadata": {"name": "short-names"}, "spec": {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                                                "resources": ["serviceaccounts"]}]},
        "validations": [{"expression": "size(object.metadata.name) <= int(params.data.longest)", "message": "too long"}]}})
    through.do("POST", f"{registration}/validatingadmissionpolicybindings", {"metadata": {"name": "short-names"}, "spec": {
        "policyName": "short-names", "validationActions": ["Deny"],
        "paramRef": {"name": "bounds", "namespace": "shop", "parameterNotFoundAction": "Deny"}}})

    def refused():
        code, answer = through.send("POST", f"{at}/serviceaccounts?dryRun=All", {"metadata": {"name": "a-long-name"}})
        return code == 422 and "too long" in answer["message"]

    eventually("a policy with parameters", refused)
    through.do("POST", f"{at}/serviceaccounts?dryRun=All", {"metadata": {"name": "short"}})
    for resource in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        through.do("DELETE", f"{registration}/{resource}/short-names")


def custom_resource(through):
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}}}}
    through.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
        "metadata": {"name": "widgets.example.com"}, "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]}})
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {}}
    eventually("a custom resource", lambda: through.send("POST", "/apis/example.com/v1/widgets", widget)[0] in (201, 409))
    through.do("DELETE", "/apis/example.com/v1/widgets/one")


def pods_are_restricted(through, direct):
    """PodSecurity, run by the proxy, accepts the pods of every case at the level restricted."""
    checked = 0
    for name, objects in renders.deployments().items():
        pod = renders.pod_of(objects)
        if pod["spec"].get("hostNetwork"):
            continue
        account = pod["spec"].get("serviceAccountName", "default")
        direct.send("POST", f"{NAMESPACED}/serviceaccounts", {"metadata": {"name": account}})
        body = copy.deepcopy(pod)
        body |= {"apiVersion": "v1", "kind": "Pod"}
        body["metadata"]["name"] = "checked"
        answer = eventually(
            lambda name=name, body=body: f"{name}: {attempt(through, body)}", lambda body=body: accepted(through, body), 20)
        expect(answer["spec"]["containers"], name)
        checked += 1
    expect(checked > 4, "too few cases have pods")
    body["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    code, answer = attempt(through, body)
    expect(code == 403 and 'violates PodSecurity "restricted:latest"' in answer["message"], f"{code} {answer}")


def attempt(through, body):
    return through.send("POST", f"{NAMESPACED}/pods?dryRun=All", body)


def accepted(through, body):
    code, answer = attempt(through, body)
    return answer if code == 201 else None


def every_cache_is_read(pod):
    """No check of readiness fails or warns."""
    code, text = pod.health("/readyz?verbose")
    lines = [line for line in text.splitlines() if line.startswith("[") and not line.endswith(" ok")]
    # The plugins for webhooks are on in this API server too.
    expect(code == 200 and all("webhooks-called-once" in line for line in lines), text)
    code, text = pod.health("/metrics")
    for metric in ("kube_admission_proxy_watch_last_event_seconds", "apiserver_admission_step_admission_duration_seconds_bucket"):
        expect(code == 200 and metric in text, f"{metric} is not served")


# Rights for requests that a cache or the aggregated discovery usually spares, or for objects that this test does not write.
SELDOM_USED = {
    ("get", "", "namespaces"), ("get", "", "serviceaccounts"), ("get", "apiextensions.k8s.io", "customresourcedefinitions"),
    ("get", "node.k8s.io", "runtimeclasses"), ("get", "/api/*"), ("get", "/apis/*"), ("get", "/openapi/*"),
    ("list", "resource.k8s.io", "resourceclaims"), ("get", "scheduling.k8s.io", "podgroups"), ("list", "scheduling.k8s.io", "podgroups"),
    ("get", "scheduling.k8s.io", "workloads"),
}


def rights_are_used(cluster):
    """The API server's audit log has a request of the service account for every right of the ClusterRole."""
    role = cluster.client.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{NAMESPACE}:{FULLNAME}")
    used = set()
    for event in cluster.own_requests(ACCOUNT):
        if found := event.get("objectRef"):
            resource = "/".join(part for part in (found["resource"], found.get("subresource")) if part)
            used.add((event["verb"], found.get("apiGroup", ""), resource))
        else:
            used.add((event["verb"], event["requestURI"].split("?")[0]))
    rights = {(verb, group, resource) for rule in role["rules"] for verb in rule["verbs"] for group in rule.get("apiGroups", [])
              for resource in rule.get("resources", [])}
    paths = {(verb, path) for rule in role["rules"] for verb in rule["verbs"] for path in rule.get("nonResourceURLs", [])}
    unused = {right for right in rights if right not in used and "*" not in right}
    unused |= {(verb, path) for verb, path in paths if not any(
        request[0] == verb and len(request) == 2 and re.fullmatch(path.replace("*", ".*"), request[1]) for request in used)}
    expect(unused <= SELDOM_USED, f"rights that nothing uses: {sorted(unused - SELDOM_USED)}")


ALL = [a_release_serves_and_is_upgraded, a_pod_is_ready_when_its_caches_are_listed, a_front_proxy_needs_the_printed_rights,
       replicas_share_the_certificate_that_the_first_made, the_commands_of_the_documentation_succeed]
