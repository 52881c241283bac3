use crate::admission::CallerAuthorizer;
use crate::authz::{self, Decision};
use crate::plugins::checker::Checked;
use crate::plugins::node_restriction::NodeRestriction;
use crate::plugins::node_restriction::tests::{by_node, may, plugin, plugin_of_1_37, why, with_pods, with_storage};
use serde_json::{Value, json};

const GROUP: &str = "certificates.k8s.io";
const RESOURCE: &str = "podcertificaterequests";

fn known() -> NodeRestriction {
    let pod = |name: &str, node: &str, account: &str| json!({"metadata": {"name": name}, "spec": {"nodeName": node, "serviceAccountName": account}});
    let mut mirror = pod("mirror", "n", "");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": ""});
    let pods = [pod("mine", "n", "sa"), pod("elsewhere", "other", "sa"), pod("lost", "n", "gone"), mirror];
    plugin(with_storage(with_pods(&pods), &[], &[]))
}

/// The plugin of 1.37, and the pod `mine` with a volume for the signer `example.com/mine`.
fn known_to_1_37() -> NodeRestriction {
    let source = |signer: &str| json!({"podCertificate": {"signerName": signer, "keyType": "ED25519"}});
    let projected = json!({"sources": [{"serviceAccountToken": {"path": "t"}}, source("example.com/mine")]});
    let volumes = json!([{"name": "e", "emptyDir": {}}, {"name": "v", "projected": projected}]);
    let pod = json!({"metadata": {"name": "mine"}, "spec": {"nodeName": "n", "serviceAccountName": "sa", "volumes": volumes}});
    plugin_of_1_37(with_storage(with_pods(&[pod]), &[], &[]))
}

/// A request for the pod `mine`, with the given fields changed.
fn request(changes: &[(&str, &str)]) -> Value {
    let mut spec = json!({"nodeName": "n", "nodeUID": "uid-n", "podName": "mine", "podUID": "mine",
                          "serviceAccountName": "sa", "serviceAccountUID": "uid-sa"});
    for (field, value) in changes {
        spec[*field] = json!(value);
    }
    json!({"metadata": {"name": "r", "namespace": "ns"}, "spec": spec})
}

async fn created(plugin: &NodeRestriction, changes: &[(&str, &str)]) -> Checked {
    by_node(plugin).create(GROUP, RESOURCE, request(changes)).await
}

#[tokio::test]
async fn certificates_are_for_pods_that_run_on_the_node() {
    let plugin = known();
    created(&plugin, &[]).await.stays_unchanged();
    let table: [(&[(&str, &str)], &str); 4] = [
        (
            &[("nodeName", "other")],
            "PodCertificateRequest.Spec.NodeName=\"other\", which is not the requesting node \"n\"",
        ),
        (
            &[("podName", "elsewhere"), ("podUID", "elsewhere")],
            "pod \"ns/elsewhere\" is not running on node \"n\" named in the PodCertificateRequest",
        ),
        (&[("podName", "mirror"), ("podUID", "mirror")], "pod \"ns/mirror\" is a mirror pod"),
        (
            &[("serviceAccountName", "other")],
            "PodCertificateRequest for pod \"ns/mine\" contains serviceAccountName (\"other\") that differs from running pod (\"sa\")",
        ),
    ];
    for (changes, text) in table {
        assert_eq!(why(created(&plugin, changes).await).unwrap(), text);
    }
}

#[tokio::test]
async fn a_fault_that_a_slow_cache_may_explain_is_an_error_and_no_refusal() {
    let plugin = known();
    let table: [(&[(&str, &str)], &str); 5] = [
        (
            &[("nodeUID", "u")],
            "PodCertificateRequest for pod \"ns/mine\" names node UID \"u\", inconsistent with the running node (\"uid-n\")",
        ),
        (
            &[("podName", "new")],
            "while retrieving pod \"ns/new\" named in the PodCertificateRequest: pod \"new\" not found",
        ),
        (
            &[("podUID", "u")],
            "PodCertificateRequest for pod \"ns/mine\" contains pod UID (\"u\") which differs from running pod \"mine\"",
        ),
        (
            &[("podName", "lost"), ("podUID", "lost"), ("serviceAccountName", "gone")],
            "while retrieving service account \"ns/gone\" named in the PodCertificateRequest: serviceaccount \"gone\" not found",
        ),
        (
            &[("serviceAccountUID", "u")],
            "PodCertificateRequest for pod \"ns/mine\" names service account UID \"u\", which differs from the running service \
             account (\"uid-sa\")",
        ),
    ];
    for (changes, text) in table {
        let status = created(&plugin, changes).await.was_refused(500, text);
        assert_eq!(status.reason, "");
    }
    let check = crate::plugins::checker::check(&plugin).user("system:node:new", &["system:nodes"]);
    check
        .create(GROUP, RESOURCE, request(&[("nodeName", "new")]))
        .await
        .was_refused(500, "while retrieving node \"new\" named in the PodCertificateRequest: node \"new\" not found");
}

#[tokio::test]
async fn a_node_only_makes_requests_and_only_where_they_are_on() {
    let mut plugin = known();
    let updated = why(by_node(&plugin).update(GROUP, RESOURCE, request(&[]), request(&[])).await).unwrap();
    assert_eq!(updated, "unexpected operation UPDATE");
    let status = why(by_node(&plugin).subresource("status").create(GROUP, RESOURCE, request(&[])).await).unwrap();
    assert_eq!(status, "unexpected subresource status");
    plugin.has_pod_certificates = false;
    assert_eq!(why(created(&plugin, &[]).await).unwrap(), "PodCertificateRequest feature gate is disabled");
    let mut wrong = request(&[]);
    wrong["spec"]["podName"] = json!(1);
    assert_eq!(by_node(&known()).create(GROUP, RESOURCE, wrong).await.code(), Some(403));
}

#[tokio::test]
async fn since_1_37_a_signer_is_one_that_a_volume_names_or_that_the_node_may_use() {
    fn rule(asked: &authz::AccessAttributes) -> Decision {
        let verb = asked.verb == "request-serviceaccounts-podcertificate-signer";
        let about = (&*asked.resource, &*asked.name, &*asked.namespace, &*asked.api_group, &*asked.api_version);
        may(asked.is_resource_request && verb && about == ("example.com:granted", "sa", "ns", GROUP, "v1"))
    }
    let text = "pod \"ns/mine\" does not mount a podCertificate projected volume for signer \"example.com/other\"";
    for (signer, expected) in
        [("example.com/mine", None), ("example.com/granted", None), ("example.com/other", Some(text))]
    {
        let request = request(&[("signerName", signer)]);
        let plugin = known_to_1_37();
        let checked = by_node(&plugin).caller(rule).create(GROUP, RESOURCE, request.clone()).await;
        assert_eq!(why(checked).as_deref(), expected);
        let before = NodeRestriction { since_1_37: false, ..known_to_1_37() };
        by_node(&before).create(GROUP, RESOURCE, request).await.stays_unchanged();
    }
    let plugin = known_to_1_37();
    let check = by_node(&plugin).authorizer(CallerAuthorizer::broken());
    let refused = check.create(GROUP, RESOURCE, request(&[("signerName", "example.com/other")])).await;
    let text = "error authorizing system:node:n to request podcertificaterequests for signer \"example.com/other\": it is broken";
    assert_eq!(why(refused).as_deref(), Some(text));
    // What 1.36 checks comes first.
    let status = created(&plugin, &[("podUID", "u")]).await;
    assert_eq!(status.code(), Some(500));
}
