"""Tests of what the values add to the proxy: the guard, in-cluster clients, the webhook front end, tenants."""
from cluster import Client, eventually, free_port
from install import DEPLOYMENT, FULLNAME, Release, installation, made_authority, values
from tools import NAMESPACE, expect

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
CLUSTER_OBJECT = f"{NAMESPACE}-{FULLNAME}"
CONFIGURATIONS = [f"{REGISTRATION}/{kind}webhookconfigurations/{CLUSTER_OBJECT}" for kind in ("mutating", "validating")]
MERGE = "application/merge-patch+json"


def pod(name):
    token = {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}, {"configMap": {"name": "kube-root-ca.crt"}}]}}
    return {"metadata": {"name": name}, "spec": {"serviceAccountName": "default", "volumes": [{"name": "token", **token}],
                                                 "containers": [{"name": "a", "image": "nginx", "imagePullPolicy": "Never"}]}}


def make_account(client, namespace):
    """Makes the service account that a controller makes."""
    client.do("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})


def pulls(made):
    return made["spec"]["containers"][0]["imagePullPolicy"]


def bundles(client):
    """The CA bundles of the webhook configurations."""
    return [hook["clientConfig"].get("caBundle") for path in CONFIGURATIONS for hook in client.get(path)["webhooks"]]


def with_webhook(server, **changes):
    given = values(server)
    given["admission"] = {"enablePlugins": ["AlwaysPullImages"]}
    given["webhook"] = {"enabled": True, "port": free_port(), "plugins": ["AlwaysPullImages", "PodSecurity"],
                        "callers": {"anonymous": True, "anonymousFromEverywhere": True}, **changes}
    if changes.get("only"):
        del given["audit"]
    return given


def reach(client, port):
    """Points the configurations at the port of the pod, in place of a network with Services."""
    for path in CONFIGURATIONS:
        found = client.get(path)
        for hook in found["webhooks"]:
            config = hook["clientConfig"]
            config["url"] = f"https://127.0.0.1:{port}{config.pop('service')['path']}"
        client.do("PUT", path, found)


def the_front_end_reviews_direct_writes():
    """The proxy writes the CA bundle, which upgrades leave alone."""
    with installation() as (cluster, node):
        client = cluster.client
        make_account(client, "default")
        release = Release(with_webhook(client.server, only=True))
        release.apply(client, "install")
        proxy = node.run(DEPLOYMENT, "front-end")
        eventually("CA bundles", lambda: all(bundles(client)), 20)
        for flags in ([], ["--server-side=false", "--force-conflicts=false"]):
            before = bundles(client)
            release.apply(client, "upgrade", *flags)
            expect(bundles(client) == before, f"an upgrade with {flags} changed the CA bundles")
        reach(client, proxy.port("webhook"))
        made = eventually(lambda: f"a review: {direct(client)}", lambda: reviewed(client), 20)
        expect(pulls(made) == "Always", made)
        release.helm(client, "uninstall", "proxy")
        for path in CONFIGURATIONS:
            expect(client.send("GET", path)[0] == 404, f"{path} is left")


def direct(client):
    return client.send("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod("direct"))


def reviewed(client):
    code, answer = direct(client)
    return answer if code == 201 and pulls(answer) == "Always" else None


def writes_past_the_proxy_are_refused():
    """The guard, in-cluster clients, and a front end that leaves out what the proxy has admitted."""
    with installation() as (cluster, node):
        client = cluster.client
        given = {**with_webhook(client.server), "guard": {"enabled": True}, "inject": {"enabled": True}}
        make_account(client, "default")
        release = Release(given)
        release.apply(client, "install")
        proxy = node.run(DEPLOYMENT, "guarded")
        eventually("CA bundles", lambda: all(bundles(client)), 20)
        through = Client(proxy.port("https"), made_authority(client))
        release.apply(through, "upgrade", guard={"enabled": True, "action": "Deny"})
        body = {"metadata": {"name": "past"}}
        maps = "/api/v1/namespaces/default/configmaps?dryRun=All"
        refusal = eventually("a refusal of the guard", lambda: refused(client, maps, body), 20)
        expect("writes go through the admission proxy" in refusal, refusal)
        through.do("POST", maps, body)

        labels = {"metadata": {"labels": {"inject.kube-admission-proxy.dev/clients": "true"}}}
        through.do("PATCH", "/api/v1/namespaces/default", labels, content_type=MERGE)
        # Kubelets are exempt; the administrator of the test is not.
        proxy.client = through
        proxy.sync()
        made = eventually("a pod that uses the proxy", lambda: injected(through), 20)
        sources = made["spec"]["volumes"][0]["projected"]["sources"]
        expect(sources[1]["configMap"]["name"] == "kube-admission-proxy-ca", sources)
        authority = "/api/v1/namespaces/default/configmaps/kube-admission-proxy-ca"
        published = eventually("the authority", lambda: client.send("GET", authority)[1].get("data"))
        expect(published["ca.crt"] == made_authority(client).read_text(), "another authority")


def refused(client, path, body):
    code, answer = client.send("POST", path, body)
    return answer["message"] if code == 403 else None


def injected(through):
    made = through.do("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod("client"))
    variables = {variable["name"]: variable["value"] for variable in made["spec"]["containers"][0].get("env", [])}
    return made if variables.get("KUBERNETES_SERVICE_HOST") == f"{FULLNAME}.{NAMESPACE}.svc" else None


def tenants_are_followed():
    with installation() as (cluster, node):
        client = cluster.client
        given = {**values(client.server), "admission": {}}

        def profile(plugins):
            return {"profiles": {"blue": {"members": [{"kind": "User", "name": "administrator"}], "namespaces": {"names": ["blue-*"]},
                                          "admission": {"enablePlugins": plugins}}}}

        release = Release({**given, "tenants": profile(["AlwaysPullImages"])})
        release.apply(client, "install")
        proxy = node.run(DEPLOYMENT, "tenants")
        through = Client(proxy.port("https"), made_authority(client))
        through.do("POST", "/tenants/blue/api/v1/namespaces", {"metadata": {"name": "blue-one"}})
        make_account(through, "blue-one")
        made = through.do("POST", "/tenants/blue/api/v1/namespaces/blue-one/pods?dryRun=All", pod("a"))
        expect(pulls(made) == "Always", made)
        expect(through.send("GET", "/tenants/red/version")[0] == 404, "an unknown tenant")
        release.apply(client, "upgrade", tenants=profile([]))
        expect(client.get(DEPLOYMENT)["spec"]["template"] == proxy.template, "a change of a tenant restarts the pods")
        proxy.sync()
        path = "/api/v1/namespaces/blue-one/pods?dryRun=All"
        eventually("the changed tenant", lambda: pulls(through.do("POST", path, pod("a"))) == "Never", 30)


ALL = [the_front_end_reviews_direct_writes, writes_past_the_proxy_are_refused, tenants_are_followed]
