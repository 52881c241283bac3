//! Built-in kinds in versions that are off by default (`--runtime-config`): in every media type, and the responses if a version is not
//! served.

use crate::harness::{
    Api, Pair, Proxy, Request, User, Webhook, eventually, field, get, patch, pki, post, protobuf_of, put, upstream,
};
use serde_json::json;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const GATES: &str = "--feature-gates=ClusterTrustBundle=true,PodCertificateRequest=true";
const APIS: &str = "--runtime-config=certificates.k8s.io/v1alpha1=true,certificates.k8s.io/v1beta1=true,\
                    admissionregistration.k8s.io/v1beta1=true,coordination.k8s.io/v1beta1=true";

/// A create in protobuf, or an update if there is a name.
fn write(group_version: &str, kind: &str, collection: &str, name: Option<&str>, object: &[Vec<u8>]) -> Request {
    let (method, name) = name.map_or(("POST", String::new()), |name| ("PUT", format!("/{name}")));
    let body = protobuf_of(group_version, kind, &object.concat());
    Request::new(method, &format!("/apis/{group_version}/{collection}{name}")).body(PROTOBUF, body)
}

fn text(number: u8, text: &str) -> Vec<u8> {
    field(number, text.as_bytes())
}

fn message(number: u8, fields: &[Vec<u8>]) -> Vec<u8> {
    field(number, &fields.concat())
}

#[test]
fn kinds_that_are_off_by_default_are_written_in_protobuf() {
    let webhook = Webhook::start();
    let plugins = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"];
    let pair = Pair::alone(&plugins, &[GATES.to_owned()], &[], &[APIS.to_owned()]);
    for kind in ["Mutating", "Validating"] {
        let configuration = webhook.about_everything(kind, &format!("/allow/{}", kind.to_lowercase()));
        let path = format!("/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations", kind.to_lowercase());
        pair.set_up(&[post(&path, &configuration)]);
    }
    let named = |name: &str| message(1, &[text(1, name)]);
    let certificate = std::fs::read_to_string(pki().ca()).unwrap();
    let bundle = |name: &str| [named(name), message(2, &[text(2, &certificate)])];
    let request = |name: &str| {
        let names =
            [text(1, "e2e.test/signer"), text(2, "pod"), text(3, "pod-uid"), text(4, "default"), text(5, "uid")];
        [named(name), message(2, &names)]
    };
    let policy = |name: &str| {
        let rule = message(2, &[text(1, ""), text(2, "v1"), text(3, "secrets")]);
        let rules = message(3, &[message(2, &[text(1, "CREATE"), rule])]);
        let mutation = [text(2, "JSONPatch"), message(4, &[text(1, "[]")])];
        [named(name), message(2, &[message(2, &[rules]), message(4, &mutation), text(7, "Never")])]
    };
    let candidate = |name: &str| {
        [
            named(name),
            message(2, &[text(1, "lease"), text(4, "1.36.0"), text(5, "1.36.0"), text(6, "OldestEmulationVersion")]),
        ]
    };
    let (certificates, admission) = ("certificates.k8s.io", "admissionregistration.k8s.io");
    let mut steps = Vec::new();
    for version in ["v1alpha1", "v1beta1"] {
        let group_version = format!("{certificates}/{version}");
        let name = format!("bundle-{version}");
        let path = format!("/apis/{group_version}/clustertrustbundles/{name}");
        steps.push(write(&group_version, "ClusterTrustBundle", "clustertrustbundles", None, &bundle(&name)));
        steps.push(write(&group_version, "ClusterTrustBundle", "clustertrustbundles", Some(&name), &bundle(&name)));
        steps.push(patch(&path, "strategic", &json!({"metadata": {"labels": {"a": "b"}}})));
        let applied = json!({"apiVersion": group_version, "kind": "ClusterTrustBundle", "metadata": {"name": name, "annotations": {"c": "d"}}});
        steps.push(patch(&format!("{path}?fieldManager=e2e"), "apply", &applied));
        steps.push(get(&path));
    }
    let beta = format!("{certificates}/v1beta1");
    let requests = "namespaces/default/podcertificaterequests";
    steps.push(write(&beta, "PodCertificateRequest", requests, None, &request("refused")));
    steps.push(write(&beta, "PodCertificateRequest", requests, Some("missing"), &request("missing")));
    let policies = "mutatingadmissionpolicies";
    let beta = format!("{admission}/v1beta1");
    steps.push(write(&beta, "MutatingAdmissionPolicy", policies, None, &policy("policy")));
    steps.push(write(&beta, "MutatingAdmissionPolicy", policies, Some("policy"), &policy("policy")));
    steps.push(get(&format!("/apis/{beta}/{policies}/policy")));
    let candidates = "namespaces/default/leasecandidates";
    steps.push(write("coordination.k8s.io/v1beta1", "LeaseCandidate", candidates, None, &candidate("candidate")));
    // The body has the kind of the URL in another version.
    steps.push(write(
        &format!("{certificates}/v1alpha1"),
        "PodCertificateRequest",
        "clustertrustbundles",
        None,
        &bundle("other"),
    ));
    let steps: Vec<(User, Request)> = steps.into_iter().map(|step| (User::admin(), step)).collect();
    pair.compare_asked(
        &webhook,
        |api| {
            let probe = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}});
            eventually("webhooks that are known", || {
                api.send(&User::admin(), post("/api/v1/namespaces/default/configmaps?dryRun=All", &probe));
                let asked = webhook.take();
                let phases = ["/allow/mutating", "/allow/validating"];
                phases.iter().all(|path| asked.iter().any(|review| review.path.starts_with(path))).then_some(())
            });
        },
        &steps,
    );
}

#[test]
fn an_unserved_resource_is_not_found() {
    let proxy = Proxy::before(upstream(), &[]);
    for path in [
        "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations",
        "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions",
        "/apis/certificates.k8s.io/v1beta1/clustertrustbundles",
        "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/workloads",
        "/apis/apps/v1beta1/namespaces/default/deployments",
        "/apis/extensions/v1beta1/namespaces/default/ingresses",
        "/apis/example.com/v1/namespaces/default/things",
    ] {
        for request in [post(path, &json!({"kind": "Any"})), put(&format!("{path}/a"), &json!({"kind": "Any"}))] {
            let [expected, found] = [upstream() as &Api, &proxy].map(|api| api.send(&User::admin(), request.clone()));
            assert_eq!((found.status, found.text()), (expected.status, expected.text()), "{path}");
        }
    }
}
