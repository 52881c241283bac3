use crate::plugins::checker::Checked;
use crate::plugins::node_restriction::NodeRestriction;
use crate::plugins::node_restriction::tests::{by_node, plugin, why, with_pods, with_storage};
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
