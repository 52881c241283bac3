use crate::plugins::node_restriction::NodeRestriction;
use crate::plugins::node_restriction::tests::{by_node, plugin, why, with_pods};
use serde_json::{Value, json};

fn known() -> NodeRestriction {
    let pod = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    plugin(with_pods(&[
        pod("mine", json!({"nodeName": "n"})),
        pod("elsewhere", json!({"nodeName": "other"})),
        pod("unbound", json!({})),
    ]))
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "ns"}})
}

fn owner() -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "uid-n", "controller": true})
}

fn mirror(owners: Value, spec: Value) -> Value {
    let mut spec = spec;
    if spec.get("nodeName").is_none() {
        spec["nodeName"] = "n".into();
    }
    json!({"metadata": {"name": "p", "namespace": "ns", "annotations": {"kubernetes.io/config.mirror": ""}, "ownerReferences": owners},
           "spec": spec})
}

#[tokio::test]
async fn a_node_makes_mirror_pods_that_belong_to_it() {
    let plugin = known();
    let text = |text: &str| Some(format!("node \"n\" {text}"));
    let changed = |field: &str, value: Value| {
        let mut owner = owner();
        owner[field] = value;
        owner
    };
    let free = || json!({});
    let blocking = || text("must not set blockOwnerDeletion on an owner reference");
    let single = || text("can only create pods with a single owner reference set to itself");
    let itself = || text("can only create pods with an owner reference set to itself");
    let controller = || text("can only create pods with a controller owner reference set to itself");
    let table = [
        (mirror(json!([owner()]), free()), None),
        (mirror(json!([owner(), owner()]), free()), None),
        (mirror(json!([changed("blockOwnerDeletion", json!(false))]), free()), None),
        (
            named("p"),
            Some(
                "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n\" can only create mirror pods"
                    .to_owned(),
            ),
        ),
        (
            mirror(json!([owner()]), json!({"nodeName": "other"})),
            text("can only create pods with spec.nodeName set to itself"),
        ),
        (mirror(json!([owner(), changed("uid", json!("u"))]), free()), single()),
        (mirror(Value::Null, free()), itself()),
        (mirror(json!([]), free()), itself()),
        (mirror(json!([changed("apiVersion", json!("v2"))]), free()), itself()),
        (mirror(json!([changed("kind", json!("Pod"))]), free()), itself()),
        (mirror(json!([changed("name", json!("other"))]), free()), itself()),
        (mirror(json!([changed("controller", json!(false))]), free()), controller()),
        (mirror(json!([changed("controller", Value::Null)]), free()), controller()),
        (mirror(json!([changed("blockOwnerDeletion", json!(true))]), free()), blocking()),
        (
            mirror(json!([changed("uid", json!("u"))]), free()),
            Some("node n UID mismatch: expected u got uid-n".to_owned()),
        ),
        (
            mirror(json!([owner()]), json!({"resourceClaims": [{"name": "c"}]})),
            text("can not create pods that reference resourceclaims"),
        ),
        (
            mirror(json!([owner()]), json!({"volumes": [{"name": "v", "new": {}}]})),
            Some("error checking mirror pod for API references: unknown volume type for volume  \"v\"".to_owned()),
        ),
    ];
    for (pod, text) in table {
        assert_eq!(why(by_node(&plugin).create("", "pods", pod.clone()).await), text, "{pod}");
    }
}

#[tokio::test]
async fn a_node_that_is_not_known_has_no_pods() {
    let plugin = known();
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "new", "uid": "u", "controller": true});
    let pod = mirror(json!([owner]), json!({"nodeName": "new"}));
    let check = crate::plugins::checker::check(&plugin).user("system:node:new", &["system:nodes"]);
    let status = check.create("", "pods", pod).await.was_refused(404, "node \"new\" not found");
    assert_eq!(status.details.unwrap().kind, "node");
}

#[tokio::test]
async fn a_node_deletes_and_evicts_what_is_bound_to_it() {
    let plugin = known();
    assert_eq!(why(by_node(&plugin).delete("", "pods", named("mine")).await), None);
    by_node(&plugin).subresource("eviction").create("", "pods", named("mine")).await.stays_unchanged();
    for name in ["elsewhere", "unbound"] {
        let deleted = why(by_node(&plugin).delete("", "pods", named(name)).await).unwrap();
        assert_eq!(deleted, "node \"n\" can only delete pods with spec.nodeName set to itself");
        let evicted = why(by_node(&plugin).subresource("eviction").create("", "pods", named(name)).await).unwrap();
        assert_eq!(evicted, "node n can only evict pods with spec.nodeName set to itself");
    }
    let text = "pod \"new\" not found";
    by_node(&plugin).delete("", "pods", named("new")).await.was_refused(404, text);
    by_node(&plugin).subresource("eviction").create("", "pods", named("new")).await.was_refused(404, text);
    let unnamed = by_node(&plugin).subresource("eviction").create("", "pods", named("")).await;
    assert_eq!(why(unnamed).unwrap(), "could not determine pod from request data");
}

#[tokio::test]
async fn a_node_writes_only_the_status_of_its_pods() {
    let plugin = known();
    let pod = |node: &str, labels: Value, status: Value| json!({"metadata": {"name": "mine", "namespace": "ns", "labels": labels}, "spec": {"nodeName": node}, "status": status});
    let extended =
        |name: &str| json!({"extendedResourceClaimStatus": {"resourceClaimName": name, "requestMappings": []}});
    let claims = |claims: Value| json!({ "resourceClaimStatuses": claims });
    let text = |text: &str| Some(format!("node \"n\" {text}"));
    let bare = || pod("n", json!({}), json!({}));
    let a = json!({"name": "a", "resourceClaimName": "c"});
    let b = json!({"name": "b"});
    let labels = || text("cannot update labels through pod status");
    let statuses = || text("cannot update resource claim statues");
    let table = [
        (bare(), pod("n", Value::Null, json!({"phase": "Running", "resourceClaimStatuses": []})), None),
        (
            pod("other", json!({}), json!({})),
            bare(),
            text("can only update pod status for pods with spec.nodeName set to itself"),
        ),
        (bare(), pod("n", json!({"a": ""}), json!({})), labels()),
        (pod("n", json!({"a": "1"}), json!({})), pod("n", json!({"a": "2"}), json!({})), labels()),
        (bare(), pod("n", json!({}), claims(json!([a]))), statuses()),
        (pod("n", json!({}), claims(json!([a, b]))), pod("n", json!({}), claims(json!([b, a]))), statuses()),
        (
            pod("n", json!({}), claims(json!([{"name": "a"}]))),
            pod("n", json!({}), claims(json!([{"name": "a", "resourceClaimName": ""}]))),
            statuses(),
        ),
        (pod("n", json!({}), extended("c")), pod("n", json!({}), extended("c")), None),
        (pod("n", json!({}), extended("c")), bare(), text("cannot update extended resource claim status")),
        (
            pod("n", json!({}), extended("c")),
            pod("n", json!({}), extended("d")),
            text("cannot update extended resource claim status"),
        ),
    ];
    for (old, new, text) in table {
        let checked = by_node(&plugin).subresource("status").update("", "pods", old.clone(), new.clone()).await;
        assert_eq!(why(checked), text, "{old} {new}");
    }
    for wrong in [json!({"resourceClaimStatuses": "x"}), json!({"extendedResourceClaimStatus": []}), json!("x")] {
        let checked =
            by_node(&plugin).subresource("status").update("", "pods", bare(), pod("n", json!({}), wrong)).await;
        assert_eq!(checked.code(), Some(403));
    }
}

#[tokio::test]
async fn since_1_37_a_node_keeps_the_allocatable_resources_of_claims() {
    let pod = |statuses: Value| {
        let status = json!({"nodeAllocatableResourceClaimStatuses": statuses});
        json!({"metadata": {"name": "mine", "namespace": "ns"}, "spec": {"nodeName": "n"}, "status": status})
    };
    let claim = |name: &str, quantity: &str| {
        let overhead = json!([{"name": "memory", "perPod": quantity}, {"name": "cpu", "perContainer": "1"}]);
        json!({"resourceClaimName": name, "containers": ["c"], "mapping": [{"name": "cpu", "quantity": quantity}], "overhead": overhead})
    };
    let without = |field: &str| {
        let mut claim = claim("a", "1");
        claim.as_object_mut().unwrap().remove(field);
        claim
    };
    let table = [
        (json!([]), Value::Null, true),
        (json!([claim("a", "1")]), json!([claim("a", "1000m")]), true),
        (
            json!([{"resourceClaimName": "a"}]),
            json!([{"resourceClaimName": "a", "containers": [], "mapping": null}]),
            true,
        ),
        (json!([claim("a", "1")]), json!([claim("a", "2")]), false),
        (json!([claim("a", "1")]), json!([claim("b", "1")]), false),
        (json!([claim("a", "1"), claim("b", "1")]), json!([claim("b", "1"), claim("a", "1")]), false),
        (json!([claim("a", "1")]), json!([]), false),
        (json!([claim("a", "1")]), json!([without("containers")]), false),
        (json!([claim("a", "1")]), json!([without("mapping")]), false),
        (json!([claim("a", "1")]), json!([without("overhead")]), false),
        (json!([]), json!("text"), false),
        (json!([]), json!([1]), false),
    ];
    for (old, new, is_same) in table {
        for (since_1_37, is_kept) in [(false, true), (true, is_same)] {
            let plugin = NodeRestriction { since_1_37, ..known() };
            let checked =
                by_node(&plugin).subresource("status").update("", "pods", pod(old.clone()), pod(new.clone())).await;
            assert_eq!(checked.code(), (!is_kept).then_some(403), "{old} {new}");
        }
    }
    let plugin = NodeRestriction { since_1_37: true, ..known() };
    let checked =
        by_node(&plugin).subresource("status").update("", "pods", pod(json!([])), pod(json!([claim("a", "1")]))).await;
    assert_eq!(why(checked).unwrap(), "node \"n\" cannot update node allocatable resource claim statuses");
}

#[tokio::test]
async fn other_changes_of_pods_are_refused_to_nodes() {
    let plugin = known();
    let mine = || named("mine");
    let updated = why(by_node(&plugin).update("", "pods", mine(), mine()).await).unwrap();
    assert_eq!(updated, "unexpected operation \"UPDATE\", node \"n\" can only create and delete mirror pods");
    let status = why(by_node(&plugin).subresource("status").delete("", "pods", mine()).await).unwrap();
    assert_eq!(status, "unexpected operation \"DELETE\"");
    let evicted = why(by_node(&plugin).subresource("eviction").update("", "pods", mine(), mine()).await).unwrap();
    assert_eq!(evicted, "unexpected operation UPDATE");
    for subresource in ["binding", "ephemeralcontainers", "resize", "log"] {
        let checked = by_node(&plugin).subresource(subresource).create("", "pods", mine()).await;
        let text = format!("unexpected pod subresource \"{subresource}\", only 'status' and 'eviction' are allowed");
        assert_eq!(why(checked).unwrap(), text);
    }
}
