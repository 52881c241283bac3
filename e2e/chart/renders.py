"""Tests of the rendered chart, which need no API server."""
import difflib
import functools
import json
import re
import shutil

from tools import (
    BINARY,
    CHART,
    EXPRESSIONS,
    HELM,
    HERE,
    NAMESPACE,
    ROOT,
    UNITTEST,
    WORK,
    Failed,
    cases,
    decode,
    expect,
    of_kind,
    proxy_container,
    succeed,
    template,
)

GOLDEN = CHART / "tests/golden"

# Settings that the chart refuses, and the text of the refusal.
REFUSALS = [
    ("replicaCount=two", "at '/replicaCount': got string, want integer"),
    ("replicas=2", "additional properties 'replicas' not allowed"),
    ("upstream.identty=impersonate", "at '/upstream': additional properties 'identty' not allowed"),
    ("upstream.kind=remote", "at '/upstream/kind': value must be one of 'inCluster', 'kubeconfig', 'embedded'"),
    ("upstream.identity=requestheader", "upstream.identity=requestheader needs upstream.kind=kubeconfig: the kubeconfig holds the "
                                        "client certificate of the front proxy"),
    ("upstream.kind=kubeconfig", "upstream.kind=kubeconfig needs upstream.kubeconfigSecret.name: the Secret that holds the kubeconfig"),
    ("upstream.kubeconfigSecret.name=x", "upstream.kubeconfigSecret.name has no effect with upstream.kind=inCluster: set "
                                         "upstream.kind=kubeconfig"),
    ("upstream.kind=embedded", "upstream.kind=embedded needs replicaCount=1 without autoscaling: each replica would have objects of "
                               "its own"),
    ("upstream.kind=embedded,replicaCount=1,upstream.identity=passthrough",
     "upstream.identity=passthrough has no effect with upstream.kind=embedded"),
    ("upstream.server=kubernetes", "at '/upstream/server': 'kubernetes' does not match pattern"),
    ('admission.enablePlugins=["PodSecurty"]', "admission.enablePlugins: PodSecurty is no plugin; `kube-admission-proxy plugins` lists "
                                               "all"),
    ('admission={"enablePlugins":["PodSecurity"],"disablePlugins":["PodSecurity"]}',
     "PodSecurity is in admission.enablePlugins and in admission.disablePlugins"),
    ('admission.pluginConfig={"EventRateLimit":{}}', "the configuration of EventRateLimit has no effect: the plugin is not enabled"),
    ('admission.manifests={"PodSecurity":{"a.yaml":""}}', "at '/admission/manifests': additional properties 'PodSecurity' not allowed"),
    ('admission.manifests={"ValidatingAdmissionPolicy":{"a.txt":""}}', "invalid propertyName 'a.txt'"),
    ('admission={"manifests":{"MutatingAdmissionPolicy":{"a.yaml":""}},"pluginConfig":{"MutatingAdmissionPolicy":'
     '{"staticManifestsDir":"/x"}}}', "admission.manifests.MutatingAdmissionPolicy and staticManifestsDir in "
                                      "admission.pluginConfig.MutatingAdmissionPolicy exclude each other"),
    ('admission={"manifests":{"MutatingAdmissionPolicy":{"a.yaml":""}},"featureGates":{"ManifestBasedAdmissionControlConfig":false}}',
     "admission.manifests needs the feature gate ManifestBasedAdmissionControlConfig, which admission.featureGates turns off"),
    ("admission.timeout=5", "at '/admission/timeout': got number, want string"),
    ("admission.timeout=5x", "at '/admission/timeout': '5x' does not match pattern"),
    ("admission.circuitBreaker.failures=1001", "at '/admission/circuitBreaker/failures': maximum: got 1,001, want 1,000"),
    ('authentication.clientCA={"configMap":"a","secret":"b"}', "authentication.clientCA.configMap and authentication.clientCA.secret "
                                                               "exclude each other"),
    ('authentication.requestHeader.allowedNames=["front"]', "authentication.requestHeader has no effect without "
                                                            "authentication.requestHeader.configMap or "
                                                            "authentication.requestHeader.secret"),
    ("tls.mode=none", "at '/tls/mode': value must be one of 'auto', 'given', 'cert-manager'"),
    ("upstream.kind=kubeconfig,upstream.kubeconfigSecret.name=x",
     "tls.mode=auto needs upstream.kind=inCluster: the proxy keeps the certificate in a Secret of the API server in front of which it "
     "runs. With upstream.kind=kubeconfig set tls.mode=given or tls.mode=cert-manager"),
    ('tls={"mode":"given","dnsNames":["proxy.example.com"]}', "tls.dnsNames and tls.ipAddresses have no effect with tls.mode=given"),
    ("tls.certManager.issuerRef.name=internal", "tls.certManager.issuerRef has no effect without tls.mode=cert-manager"),
    ('audit.volume={"emptyDir":{}}', "audit.volume has no effect without audit.policy"),
    ("audit.policy.kind=Policy,webhook.enabled=true,webhook.only=true,webhook.callers.tokenSecret.name=x",
     "audit.policy has no effect with webhook.only=true: the API server writes the audit events of reviews"),
    ("image.repository=", "image.repository is not set, and no image is published. Make one with `make image`, push it to a registry of "
                          "yours, and set image.repository, such as registry.example.com/kube-admission-proxy"),
    ("image.digest=latest", "at '/image/digest': 'latest' does not match pattern"),
    ("service.nodePort=30443", "service.nodePort has no effect with service.type=ClusterIP"),
    ("ingress.enabled=true", "ingress.enabled needs ingress.hosts"),
    ('ingress={"enabled":true,"hosts":["api.example.com"]}',
     "ingress.enabled needs ingress.annotations with the annotation by which the controller passes TLS through"),
    ('ingress={"hosts":["api.example.com:443"]}', "at '/ingress/hosts/0': 'api.example.com:443' does not match pattern"),
    ("tlsRoute.enabled=true", "tlsRoute.enabled needs tlsRoute.parentRefs and tlsRoute.hostnames"),
    ("tlsRoute.enabled=true,deployment.enabled=false,tls.mode=given",
     "tlsRoute.enabled has no effect without a Service for clients"),
    ("tlsRoute.version=v2", "at '/tlsRoute/version': value must be one of 'v1', 'v1alpha3', 'v1alpha2'"),
    ("metrics.serviceMonitor.enabled=true,metrics.podMonitor.enabled=true",
     "metrics.serviceMonitor.enabled and metrics.podMonitor.enabled exclude each other"),
    ("serving.port=443", "at '/serving/port': minimum: got 443, want 1,024"),
    ("serving.port=10280", "serving.port and serving.healthPort must differ"),
    ("networkPolicy.enabled=true,hostNetwork=true", "networkPolicy.enabled has no effect with hostNetwork=true: a NetworkPolicy does "
                                                    "not select pods of the host's network"),
    ("autoscaling.enabled=true,autoscaling.minReplicas=11", "autoscaling.minReplicas is more than autoscaling.maxReplicas"),
    ("guard.enabled=true,upstream.kind=embedded,replicaCount=1,tls.mode=given",
     "guard.enabled needs upstream.kind=inCluster and deployment.enabled=true"),
    ("guard.enabled=true,upstream.identity=passthrough",
     "guard.enabled does not work with upstream.identity=passthrough, which sends no mark"),
    ("guard.action=deny", "at '/guard/action': value must be one of 'Audit', 'Warn', 'Deny'"),
    ("tenants.secret=x", "tenants.secret has no effect without tenants.profiles"),
    ('tenants={"profiles":{"Blue":{}}}', "invalid propertyName 'Blue'"),
    ('tenants={"profiles":{"blue":{"admission":{"enablePlugins":["PodSecurty"]}}}}',
     "tenants.profiles.blue.admission.enablePlugins: PodSecurty is no plugin"),
    ("inject.enabled=true,webhook.enabled=true,webhook.only=true,webhook.callers.tokenSecret.name=x",
     "inject.enabled does not work with a disabled plugin InClusterClients, or with webhook.only=true"),
    ("inject.clusterAuthority=true", "inject.clusterAuthority has no effect without inject.enabled and tls.mode=given"),
    ("webhook.only=true", "webhook.only has no effect without webhook.enabled"),
    ("webhook.enabled=true", "webhook.enabled needs webhook.callers.clientCA, webhook.callers.tokenSecret or webhook.callers.anonymous"),
    ("webhook.enabled=true,webhook.callers.anonymous=true",
     "webhook.callers.anonymous needs networkPolicy.enabled and networkPolicy.apiServers, because everybody who reaches the front end may "
     "send reviews"),
    ("webhook.enabled=true,webhook.callers.anonymous=true,networkPolicy.enabled=true",
     "webhook.callers.anonymous needs networkPolicy.enabled and networkPolicy.apiServers"),
    ("webhook.enabled=true,webhook.callers.tokenSecret.name=x,webhook.callers.anonymousFromEverywhere=true",
     "webhook.callers.anonymousFromEverywhere has no effect without webhook.callers.anonymous"),
    ("webhook.enabled=true,webhook.callers.clientCA.secret=x", "webhook.callers.clientCA needs webhook.callers.allowedNames"),
    ("webhook.enabled=true,webhook.callers.tokenSecret.name=x,webhook.caBundle=x", "webhook.caBundle has no effect with tls.mode=auto"),
    ('webhook={"enabled":true,"plugins":["ValidatingAdmissionWebhook"],"callers":{"tokenSecret":{"name":"x"}}}',
     "webhook.plugins: ValidatingAdmissionWebhook cannot run in the front end"),
    ('webhook={"enabled":true,"plugins":["AlwaysPullImages"],"callers":{"tokenSecret":{"name":"x"}}}',
     "webhook.plugins: AlwaysPullImages is not enabled: name it in admission.enablePlugins as well, or set webhook.only"),
    ("upstream.admittedMark=main", "at '/upstream/admittedMark': 'main' does not match pattern"),
    ("serviceAccount.create=false", "serviceAccount.create=false needs serviceAccount.name"),
    ('extraArgs=["v=2"]', "at '/extraArgs/0': 'v=2' does not match pattern '^-'"),
]

# Flags of serve for which the chart has no value.
WITHOUT_VALUE = {
    "--admission-control",  # the old form of admission.enablePlugins
    "--upstream-impersonator-kubeconfig",  # extraArgs, as the following one
    "--upstream-own-user",
    "--webhook-tls-cert-file",  # that of clients, as the following one
    "--webhook-tls-private-key-file",
    "--emulated-version",  # extraArgs, as the following ones
    "--min-compatibility-version",
    "--tls-sni-cert-key",
    "--tls-min-version",
    "--tls-cipher-suites",
    "--cert-dir",  # the certificate is in a Secret
    "--memory-limit",  # the container's, which the cgroup tells
    "--logging-format",  # extraArgs, as the following ones
    "--vmodule",
    "--slow-request-threshold",
    "--profiling",
    "--write-kubeconfig",  # for the embedded API server without a given certificate, as the following ones
    "--advertise-address",
    "--allow-privileged",
    "--api-audiences",
    "--controllers",
    "--data-dir",
    "--event-ttl",
    "--quota-backend-bytes",
    "--runtime-config",
    "--service-account-issuer",
    "--service-account-jwks-uri",
    "--service-account-key-file",
    "--service-account-max-token-expiration",
    "--service-account-signing-key-file",
    "--service-cluster-ip-range",
    "--audit-annotations",  # extraArgs, as the following ones
    "--audit-log-format",
    "--audit-log-maxsize",
    "--audit-log-maxbackup",
    "--audit-log-maxage",
    "--audit-log-compress",
    "--audit-log-mode",
    "--audit-log-batch-buffer-size",
    "--audit-log-batch-max-size",
    "--audit-log-batch-max-wait",
    "--audit-log-batch-throttle-enable",
    "--audit-log-batch-throttle-qps",
    "--audit-log-batch-throttle-burst",
    "--audit-log-truncate-enabled",
    "--audit-log-truncate-max-batch-size",
    "--audit-log-truncate-max-event-size",
    "--audit-log-version",
    "--audit-webhook-config-file",
    "--audit-webhook-initial-backoff",
    "--audit-webhook-mode",
    "--audit-webhook-batch-buffer-size",
    "--audit-webhook-batch-max-size",
    "--audit-webhook-batch-max-wait",
    "--audit-webhook-batch-throttle-enable",
    "--audit-webhook-batch-throttle-qps",
    "--audit-webhook-batch-throttle-burst",
    "--audit-webhook-truncate-enabled",
    "--audit-webhook-truncate-max-batch-size",
    "--audit-webhook-truncate-max-event-size",
    "--audit-webhook-version",
}


def rendered(name, files):
    """The manifests of a case. The sidecar is rendered as a dependency of another chart."""
    chart = CHART
    if name == "sidecar":
        chart, values = WORK / "sidecar", WORK / "sidecar-values.yaml"
        shutil.rmtree(chart, ignore_errors=True)
        shutil.copytree(HERE / "sidecar", chart)
        shutil.copytree(CHART, chart / "charts/kube-admission-proxy")
        lines = "".join(f"  {line}" for file in files for line in file.read_text().splitlines(keepends=True))
        values.write_text(f"kube-admission-proxy:\n{lines}")
        files = [values]
    code, manifests, errors = template(files, chart=chart)
    expect(code == 0, f"{name}: {errors}")
    return manifests


@functools.cache
def all_rendered():
    """The manifests of all cases, by name."""
    return {name: rendered(name, files) for name, files in cases().items()}


def lint():
    for files in cases().values():
        values = [part for file in files for part in ("--values", file)]
        succeed(HELM, "lint", "--strict", CHART, *values)


def refusals():
    for setting, text in REFUSALS:
        code, _, errors = template(settings=[setting])
        expect(code != 0 and text in errors, f"{setting} should be refused with:\n{text}\nbut the answer is:\n{errors}")


def schema_covers_values():
    """Every value has a schema, and every property of the schema is a value."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = {key for key, (default, _) in documented_values().items() if default is not None}

    def properties(node, path):
        for key, below in node.get("properties", {}).items():
            yield from properties(below, [*path, key]) if "properties" in below else [".".join([*path, key])]

    of_schema = set(properties(schema, []))
    def meet(one, other):
        return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")

    missing = {value for value in values if not any(meet(value, known) for known in of_schema)}
    unknown = {known for known in of_schema if not any(meet(value, known) for value in values)}
    expect(not missing and not unknown, f"without a schema: {missing}; without a value: {unknown}")


def golden(record=False):
    """The manifests are the recorded ones."""
    every = all_rendered()
    if record:
        shutil.rmtree(GOLDEN, ignore_errors=True)
        GOLDEN.mkdir(parents=True)
    for name, manifests in every.items():
        path = GOLDEN / f"{name}.yaml"
        if record:
            path.write_text(manifests)
        before = path.read_text() if path.exists() else ""
        changes = difflib.unified_diff(before.splitlines(), manifests.splitlines(), str(path), "rendered", lineterm="", n=2)
        expect(before == manifests, "`make record-chart` records the chart again:\n" + "\n".join(changes))
    recorded = {path.stem for path in GOLDEN.glob("*.yaml")}
    expect(recorded == set(every), f"recorded cases that do not exist: {recorded - set(every)}")


def suites():
    """The suites of helm-unittest."""
    succeed(UNITTEST, "--strict", CHART)


def checksums():
    """The pods restart when a file changes that the proxy reads at its start only, and not when it follows the file."""
    def checksum(setting):
        code, manifests, errors = template(settings=[setting])
        expect(code == 0, errors)
        return pod_of(decode(manifests))["metadata"]["annotations"]["checksum/config"]

    before = checksum("verbosity=0")
    expect(checksum("upstream.server=https://192.0.2.1") != before, "a change of the kubeconfig restarts no pod")
    expect(checksum('tenants.profiles={"blue":{"members":[]}}') == before, "a change of a tenant restarts the pods")


def templates_read_nothing():
    """The templates have no hooks, and no functions whose result depends on the cluster, the time or chance."""
    functions = r"lookup|rand\w+|gen\w+(CA|Cert|Key)\w*|uuidv4|now|getHostByName|htpasswd|bcrypt"
    pattern = rf"helm\.sh/hook|\b({functions})\b|\.Capabilities\.APIVersions"
    for path in (CHART / "templates").iterdir():
        found = [match[0] for match in re.finditer(pattern, path.read_text())]
        expect(not found, f"{path}: {found}")


def only_the_proxy_runs():
    """No case has a Job, a Pod, or an image of others but those that its values name."""
    for name, manifests in all_rendered().items():
        objects = decode(manifests)
        running = {found["kind"] for found in objects} & {"Job", "CronJob", "Pod", "DaemonSet", "StatefulSet"}
        expect(not running, f"{name}: {running}")
        images = set(re.findall(r"^ *-? *image: (\S+)", manifests, re.M))
        foreign = {image for image in images if "kube-admission-proxy" not in image}
        expect(name in ("everything", "sidecar") or not foreign, f"{name}: {foreign}")


def every_template_has_a_suite():
    tested = "\n".join(path.read_text() for path in (CHART / "tests").glob("*_test.yaml"))
    templates = {path.name for path in (CHART / "templates").glob("*.yaml")}
    missing = {name for name in templates if f"template: {name}\n" not in tested}
    expect(not missing, f"helm-unittest tests nothing of {missing}")


def strict_decoding():
    for name, manifests in all_rendered().items():
        try:
            objects = decode(manifests)
        except Failed as failed:
            raise Failed(f"{name}: {failed}") from None
        names = [(found["kind"], found["metadata"]["name"]) for found in objects]
        expect(len(names) == len(set(names)), f"{name}: two objects of one name among {names}")


@functools.cache
def deployments():
    """The names of the cases with pods, and their objects."""
    every = {name: decode(manifests) for name, manifests in all_rendered().items()}
    return {name: objects for name, objects in every.items() if of_kind(objects, "Deployment")}


def pod_of(objects):
    return of_kind(objects, "Deployment")[0]["spec"]["template"]


def flags_of(objects, *concerned):
    """The flags of these names in the pods' command line."""
    args = proxy_container(pod_of(objects)["spec"])["args"]
    return [arg for arg in args if arg.split("=")[0] in concerned]


PLUGIN_FLAGS = ("--enable-admission-plugins", "--disable-admission-plugins")


def without_names(objects):
    """The objects without the metadata that the chart chooses."""
    return json.dumps([{**found, "metadata": {}} for found in objects], sort_keys=True)


def rights():
    """The rules of the ClusterRoles are those that the program prints for the rendered flags."""
    compared = 0
    order = functools.partial(json.dumps, sort_keys=True)
    for name, objects in deployments().items():
        roles = {role["metadata"]["name"]: role["rules"] for role in of_kind(objects, "ClusterRole")}
        if not roles:
            continue
        flags = flags_of(objects, *PLUGIN_FLAGS, "--upstream-identity", "--upstream-impersonator", "--enable-aggregator-routing",
                         "--webhook-configurations")
        if "--webhook-only=true" in flags_of(objects, "--webhook-only"):
            flags += ["--webhook-only", *flags_of(objects, "--webhook-admission-plugins")]
        # Tenants have plugins of their own.
        tenants = [found for found in of_kind(objects, "ConfigMap") if found["metadata"]["name"].endswith("-tenants")]
        plugins = set(re.findall(r"^ +- (\w+)$", "\n".join(text for found in tenants for text in found["data"].values()), re.M))
        flags += [f"--enable-admission-plugins={','.join(sorted(plugins))}"] if plugins else []
        printed = {found["metadata"]["name"]: found for found in decode(succeed(BINARY, "print", "rbac", *flags))
                   if "rules" in found}
        for suffix in ("", "-impersonator"):
            role = roles.pop(f"{NAMESPACE}:{fullname(objects)}{suffix}", [])
            expected = printed.get(f"kube-admission-proxy{suffix}", {"rules": []})["rules"]
            of_values = [rule for rule in role if rule.get("apiGroups") == ["example.com"]]
            expect(sorted((rule for rule in role if rule not in of_values), key=order) == sorted(expected, key=order),
                   f"{name}: the rules of {suffix or 'the pods'} are not those of `kube-admission-proxy print rbac {' '.join(flags)}`")
        expect(not roles, f"{name}: further ClusterRoles: {list(roles)}")
        tokens = [role["rules"] for role in of_kind(objects, "Role") if role["metadata"]["name"].endswith("-token")]
        expected = printed.get("kube-admission-proxy-impersonator-token")
        expect(tokens == ([expected["rules"]] if expected else []), f"{name}: the Role for tokens is {tokens}")
        compared += 1
    expect(compared > 4, "too few ClusterRoles were compared")


def fullname(objects):
    return of_kind(objects, "Deployment")[0]["metadata"]["name"]


def proxy_user(objects):
    account = pod_of(objects)["spec"]["serviceAccountName"]
    return f"--proxy-user=system:serviceaccount:{NAMESPACE}:{account}"


def guard():
    """The guard is that of the program, for the users and groups in the values."""
    exempt = {"everything": ["--action=Deny", "--exempt-groups=addons"], "managed": [
        "--action=Warn", "--exempt-users=system:serviceaccount:kube-system:cloud-controller-manager", "--exempt-groups=eks:addons"]}
    for name, flags in exempt.items():
        objects = deployments()[name]
        flags = [*flags, *flags_of(objects, "--admitted-mark"), proxy_user(objects), "--upstream-identity=requestheader"]
        policy, binding = decode(succeed(BINARY, "print", "guard", *flags))
        rendered = [of_kind(objects, "ValidatingAdmissionPolicy")[0], of_kind(objects, "ValidatingAdmissionPolicyBinding")[0]]
        binding["spec"]["policyName"] = rendered[0]["metadata"]["name"]

        def in_order(one):
            for condition in one["spec"]["matchConditions"]:
                condition["expression"] = sorted(re.split(r"[\s,]+", condition["expression"]))
            return one

        expect(without_names([in_order(rendered[0]), rendered[1]]) == without_names([in_order(policy), binding]),
               f"{name}: the guard is not that of `kube-admission-proxy print guard {' '.join(flags)}`")


def webhooks():
    """The webhook configurations are those of the program."""
    compared = 0
    for name, objects in deployments().items():
        if not flags_of(objects, "--webhook-bind-address"):
            continue
        flags = [*flags_of(objects, *PLUGIN_FLAGS, "--webhook-admission-plugins"), proxy_user(objects),
                 f"--service={NAMESPACE}/{fullname(objects)}-webhook"]
        if name != "everything":
            flags += flags_of(objects, "--admitted-mark")
        order = functools.partial(json.dumps, sort_keys=True)
        rendered = [found for kind in ("Mutating", "Validating") for found in of_kind(objects, f"{kind}WebhookConfiguration")]
        (policy,) = {hook["failurePolicy"] for configuration in rendered for hook in configuration["webhooks"]}
        printed = decode(succeed(BINARY, "print", "webhooks", f"--failure-policy={policy}", *flags))
        for configuration in (*printed, *rendered):
            for hook in configuration["webhooks"]:
                hook["rules"].sort(key=order)
        expect(without_names(rendered) == without_names(printed),
               f"{name}: the configurations are not those of `kube-admission-proxy print webhooks {' '.join(flags)}`")
        compared += 1
    expect(compared == 6, f"{compared} cases have the webhook front end")


def flags():
    """Every rendered flag exists, and every flag is rendered."""
    known = set(re.findall(r"^ +(?:-\w, )?(--[a-z][-a-z0-9]*)", succeed(BINARY, "serve", "--help"), re.M))
    used = set()
    for name, objects in deployments().items():
        names = {arg.split("=")[0] for arg in proxy_container(pod_of(objects)["spec"])["args"][1:]}
        expect(names <= known, f"{name}: flags that do not exist: {names - known}")
        used |= names
    missing = known - used - WITHOUT_VALUE - {"--help"}
    expect(not missing, f"flags that no case renders: {missing}")


def metrics():
    """Prometheus accepts the alerts, the dashboard's expressions parse, and both select metrics of docs/src/metrics.md."""
    table = (ROOT / "docs/src/metrics.md").read_text()
    kinds = dict(re.findall(r"^\| `([a-z_]+)` \| (\w+)", table, re.M))
    histograms = {f"{name}_{part}" for name, kind in kinds.items() if kind == "histogram" for part in ("bucket", "count", "sum")}
    # Prometheus itself makes `up`.
    known = set(kinds) | histograms | {"up"}
    groups = [found["spec"] for objects in deployments().values() for found in of_kind(objects, "PrometheusRule")]
    rules = [rule for found in groups for group in found["groups"] for rule in group["rules"]]
    dashboard = json.loads((CHART / "files/dashboard.json").read_text())
    # Grafana replaces these variables.
    of_dashboard = [text.replace("$__rate_interval", "5m") for text in values_of(dashboard, "expr")]
    expect(rules and of_dashboard, "no expressions")
    expressions = sorted({rule["expr"] for rule in rules} | set(of_dashboard))
    for found in groups:
        checked = prometheus_reads(found, expressions)
        expect(not checked["rules"], checked["rules"])
    wrong = {"groups": [{"name": "g", "rules": [{"alert": "A", "expr": "up", "annotations": {"summary": "{{ $label.pod }}"}}]}]}
    expect(prometheus_reads(wrong, [])["rules"], "a wrong template of an annotation is not found")
    for expression, result in zip(expressions, checked["expressions"], strict=True):
        expect("error" not in result, f"{expression}: {result}")
        unknown = set(result["metrics"]) - known
        expect(result["metrics"] and not unknown, f"{expression}: not in docs/src/metrics.md: {unknown}")
    variables = set(re.findall(r"label_values\((\w+),", json.dumps(dashboard["templating"])))
    expect(variables and variables <= known, f"variables of the dashboard: {variables - known}")


def prometheus_reads(groups, expressions):
    return json.loads(succeed(EXPRESSIONS, stdin=json.dumps({"rules": json.dumps(groups), "expressions": expressions})))


def values_of(value, key):
    """The texts of this key, anywhere in a value."""
    if isinstance(value, dict):
        yield from (text for name, text in value.items() if name == key and isinstance(text, str))
        value = list(value.values())
    if isinstance(value, list):
        for below in value:
            yield from values_of(below, key)


def documented_values():
    """The values of values.yaml: their defaults and comments, by key."""
    found, above, comment = {}, [], []
    for line in (CHART / "values.yaml").read_text().splitlines():
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if text.startswith("#"):
            comment.append(text[1:].strip())
        elif not text:
            comment = []
        elif match := re.match(r"([A-Za-z_]+):(?: (.*))?$", text):
            above = [(depth, key) for depth, key in above if depth < indent] + [(indent, match[1])]
            found[".".join(key for _, key in above)] = (match[2], " ".join(comment))
            comment = []
        elif text.startswith("- "):  # an item of the list above
            found[".".join(key for _, key in above)] = ("[…]", found[".".join(key for _, key in above)][1])
            above.append((indent, "[]"))
    found = {key: value for key, value in found.items() if "[]" not in key}
    # A map is a row only if it has a comment.
    return {key: value for key, value in found.items() if value[0] is not None or value[1]}


def comments():
    """Every value, or a map around it, has a comment."""
    values = documented_values()

    def has_comment(key):
        return values.get(key, (None, ""))[1] or "." in key and has_comment(key.rpartition(".")[0])

    missing = [key for key in values if not has_comment(key)]
    expect(not missing, f"values.yaml: no comment on {missing}")


def readme(record=False):
    """The table of values in the chart's README is that of values.yaml."""
    path = CHART / "README.md"
    rows = ["| value | default | meaning |", "| --- | --- | --- |"]
    for key, (default, comment) in documented_values().items():
        shown = f"`{default}`" if default is not None else ""
        rows.append(f"| `{key}` | {shown} | {comment.replace('|', chr(92) + '|')} |")
    start, end = "<!-- values -->\n", "<!-- end of values -->\n"
    before, rest = path.read_text().split(start)
    text = before + start + "\n" + "\n".join(rows) + "\n\n" + end + rest.split(end)[1]
    if record:
        path.write_text(text)
    expect(path.read_text() == text, f"{path}: `make record-chart` writes the table of values again")


ALL = [lint, suites, checksums, refusals, schema_covers_values, golden, templates_read_nothing, only_the_proxy_runs,
       every_template_has_a_suite, strict_decoding, rights, guard, webhooks, flags, metrics, comments, readme]
