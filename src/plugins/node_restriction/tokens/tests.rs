use crate::admission::CallerAuthorizer;
use crate::authz::{self, Decision};
use crate::plugins::node_restriction::NodeRestriction;
use crate::plugins::node_restriction::tests::{by_node, may, plugin, why, with_pods, with_storage};
use serde_json::{Value, json};

/// The plugin, in a cluster where the node `n` has the pod `mine` with the given volumes.
fn with_volumes(volumes: Value) -> NodeRestriction {
    let state = with_pods(&[
        json!({"metadata": {"name": "mine"}, "spec": {"nodeName": "n", "volumes": volumes}}),
        json!({"metadata": {"name": "elsewhere"}, "spec": {"nodeName": "other"}}),
    ]);
    let volume = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let volumes = [
        volume("csi", json!({"csi": {"driver": "tokens", "volumeHandle": "h"}})),
        volume("nfs", json!({"nfs": {"server": "s", "path": "p"}})),
        volume("cinder", json!({"cinder": {"volumeID": "v"}})),
        volume("mine-scratch", json!({"csi": {"driver": "tokens", "volumeHandle": "h"}})),
        volume("shared", json!({"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Shared"}})),
    ];
    let driver = |name: &str| json!({"metadata": {"name": name}, "spec": {"tokenRequests": [{"audience": "x"}, {"audience": name}]}});
    let drivers = [driver("tokens"), driver("cinder.csi.openstack.org"), driver("pd.csi.storage.gke.io")];
    plugin(with_storage(state, &volumes, &drivers))
}

fn request(audiences: Value, bound: Value) -> Value {
    json!({"metadata": {"name": "sa", "namespace": "ns"}, "spec": {"audiences": audiences, "boundObjectRef": bound}})
}

fn bound(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid})
}

async fn refusal(plugin: &NodeRestriction, request: Value) -> Option<String> {
    why(by_node(plugin).subresource("token").create("", "serviceaccounts", request).await)
}

/// The refusal of a token request with the audiences, for a pod with the volumes.
async fn of_audience(volumes: Value, audiences: Value) -> Option<String> {
    refusal(&with_volumes(volumes), request(audiences, bound("mine", "mine"))).await
}

#[tokio::test]
async fn a_token_is_bound_to_a_pod_of_the_node() {
    let mut plugin = with_volumes(json!([]));
    plugin.restricts_audiences = false;
    let unbound = "node requested token not bound to a pod";
    let table = [
        (bound("mine", "mine"), None),
        (Value::Null, Some(unbound)),
        (json!({"apiVersion": "v1", "kind": "Secret", "name": "mine", "uid": "mine"}), Some(unbound)),
        (json!({"kind": "Pod", "name": "mine", "uid": "mine"}), Some(unbound)),
        (bound("", "mine"), Some(unbound)),
        (bound("mine", ""), Some("node requested token with a pod binding without a uid")),
        (
            bound("mine", "stale"),
            Some(
                "the UID in the bound object reference (stale) does not match the UID in record. The object might have been \
                 deleted and then recreated",
            ),
        ),
        (bound("elsewhere", "elsewhere"), Some("node requested token bound to a pod scheduled on a different node")),
    ];
    for (bound, text) in table {
        assert_eq!(refusal(&plugin, request(json!(["any", "other"]), bound.clone())).await.as_deref(), text, "{bound}");
    }
    let unknown = request(json!([]), bound("new", "u"));
    let checked = by_node(&plugin).subresource("token").create("", "serviceaccounts", unknown).await;
    assert_eq!(checked.was_refused(404, "pod \"new\" not found").details.unwrap().kind, "pod");
}

#[tokio::test]
async fn service_accounts_themselves_are_not_looked_at() {
    let plugin = with_volumes(json!([]));
    let account = || json!({"metadata": {"name": "sa", "namespace": "ns"}});
    by_node(&plugin).create("", "serviceaccounts", account()).await.stays_unchanged();
    by_node(&plugin).subresource("token").update("", "serviceaccounts", account(), account()).await.stays_unchanged();
}

#[tokio::test]
async fn a_token_is_for_an_audience_that_a_volume_asks_for() {
    let projected = |audience: Value| json!([{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": audience}}]}}]);
    let claimed = |claim: &str| json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    let ephemeral = |name: &str| json!([{"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]);
    let inline = |driver: &str| json!([{"name": "v", "csi": {"driver": driver}}]);
    let none = |audience: &str| {
        Some(format!(
            "audience \"{audience}\" not found in pod spec volume, system:node:n is not authorized to request tokens for this audience"
        ))
    };
    let failed = |why: &str| Some(format!("error validating audience \"x\": {why}"));
    let x = || json!(["x"]);
    let table = [
        (projected(Value::Null), json!([]), None),
        (projected(json!("")), json!([""]), None),
        (projected(json!("x")), x(), None),
        (projected(json!("y")), x(), none("x")),
        (projected(json!("y")), json!([]), none("")),
        (projected(json!("x")), json!(["x", "y"]), Some("node may only request 0 or 1 audiences".to_owned())),
        (inline("tokens"), x(), None),
        (inline("tokens"), json!(["y"]), none("y")),
        (inline("new"), x(), failed("csidriver.storage.k8s.io \"new\" not found")),
        (claimed("csi"), x(), None),
        (claimed("nfs"), x(), none("x")),
        (claimed("cinder"), json!(["cinder.csi.openstack.org"]), None),
        (claimed("new"), x(), failed("persistentvolumeclaim \"new\" not found")),
        (claimed("unbound"), x(), failed("persistentvolume \"\" not found")),
        (claimed("shared"), x(), failed("kind(Shared) is not supported in csi migration")),
        (ephemeral("scratch"), x(), None),
        (ephemeral("other"), x(), failed("persistentvolumeclaim \"mine-other\" not found")),
        (json!([{"name": "v", "gcePersistentDisk": {"pdName": "p"}}]), json!(["pd.csi.storage.gke.io"]), None),
        (json!([{"name": "v", "hostPath": {"path": "/"}}]), x(), none("x")),
        (Value::Null, x(), none("x")),
    ];
    for (volumes, audiences, text) in table {
        assert_eq!(of_audience(volumes.clone(), audiences.clone()).await, text, "{volumes} {audiences}");
    }
}

#[tokio::test]
async fn since_1_37_the_text_says_only_that_the_node_lacks_the_right() {
    let plugin = NodeRestriction { since_1_37: true, ..with_volumes(json!([])) };
    let text = "system:node:n is not authorized to request tokens for audience \"x\"";
    let asked = || request(json!(["x"]), bound("mine", "mine"));
    assert_eq!(refusal(&plugin, asked()).await.as_deref(), Some(text));
    let before = with_volumes(json!([]));
    for (plugin, text) in [
        (plugin, "error authorizing system:node:n to request tokens for audience \"x\": it is broken"),
        (
            before,
            "audience \"x\" not found in pod spec volume, error authorizing system:node:n to request tokens for this audience: it is broken",
        ),
    ] {
        let check = by_node(&plugin).authorizer(CallerAuthorizer::broken()).subresource("token");
        assert_eq!(why(check.create("", "serviceaccounts", asked()).await).as_deref(), Some(text));
    }
}

#[tokio::test]
async fn a_failed_lookup_counts_only_if_no_volume_has_the_audience() {
    let claim = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
    let driver = |name: &str| json!({"name": name, "csi": {"driver": name}});
    let volumes = json!([claim("a"), driver("b"), claim("a"), driver("tokens")]);
    assert_eq!(of_audience(volumes.clone(), json!(["x"])).await, None);
    let text = "error validating audience \"y\": [persistentvolumeclaim \"a\" not found, csidriver.storage.k8s.io \"b\" not found]";
    assert_eq!(of_audience(volumes, json!(["y"])).await.as_deref(), Some(text));
}

#[tokio::test]
async fn a_node_with_the_right_to_an_audience_gets_the_token() {
    fn rule(asked: &authz::AccessAttributes) -> Decision {
        let verb = asked.verb == "request-serviceaccounts-token-audience";
        let about = (&*asked.resource, &*asked.name, &*asked.namespace, &*asked.api_group, &*asked.api_version);
        may(asked.is_resource_request && verb && about == ("granted", "sa", "ns", "", "v1"))
    }
    let plugin = with_volumes(json!([]));
    for (audience, code) in [("granted", None), ("other", Some(403))] {
        let request = request(json!([audience]), bound("mine", "mine"));
        let check = by_node(&plugin).caller(rule).subresource("token");
        assert_eq!(check.create("", "serviceaccounts", request).await.code(), code, "{audience}");
    }
}
