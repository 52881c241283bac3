use super::*;
use crate::cluster::FixedState;
use crate::plugins::checker::{Checked, check};
use serde_json::json;

fn range(name: &str, items: Value) -> LimitRange {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "n"}, "spec": {"limits": items}})).unwrap()
}

fn plugin(items: Value) -> LimitRanger {
    LimitRanger::new(Cluster::fixed(FixedState::default().with::<LimitRange>(vec![range("r", items)])))
}

fn pod(containers: Value, init: Value) -> Value {
    json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": containers, "initContainers": init}})
}

fn container(name: &str, requests: Value, limits: Value) -> Value {
    json!({"name": name, "resources": {"requests": requests, "limits": limits}})
}

async fn validated(items: Value, pod: Value) -> Checked {
    check(&plugin(items)).validating().create("", "pods", pod).await
}

/// The message of a pod's refusal, without its common prefix.
async fn violation(items: Value, containers: Value, init: Value) -> Option<String> {
    let refusal = validated(items, pod(containers, init)).await.refusal()?;
    Some(refusal.message.replace("pods \"p\" is forbidden: ", ""))
}

#[tokio::test]
async fn containers_get_the_defaults_of_missing_resources() {
    let items = json!([
        {"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}},
        {"type": "Container", "default": {"cpu": "2"}},
        {"type": "Pod", "default": {"x": "1"}},
    ]);
    let given = pod(json!([container("a", json!({"cpu": "1"}), json!({}))]), json!([{"name": "i"}]));
    let mut want = pod(
        json!([container("a", json!({"cpu": "1"}), json!({"cpu": "2", "memory": "1Gi"}))]),
        json!([container("i", json!({"cpu": "100m"}), json!({"cpu": "2", "memory": "1Gi"}))]),
    );
    want["metadata"]["annotations"] = json!({ANNOTATION: "LimitRanger plugin set: cpu, memory limit for container a; cpu request \
        for init container i; cpu, memory limit for init container i"});
    check(&plugin(items)).create("", "pods", given).await.becomes(want);
    let other = json!([{"type": "Pod", "max": {"cpu": "1"}}]);
    check(&plugin(other)).create("", "pods", pod(json!([{"name": "a"}]), json!([]))).await.stays_unchanged();
}

#[tokio::test]
async fn a_resize_leaves_no_resources_nil() {
    use crate::plugins::checker::attributes;
    let resources = |list: &'static str, field: &'static str| {
        [Step::Field("spec"), Step::Field(list), Step::Item(0), Step::Field("resources"), Step::Field(field)]
    };
    let given = || pod(json!([{"name": "a"}]), json!([{"name": "i", "resources": {"requests": {"cpu": "1"}}}]));
    for (items, is_held) in [(Some(json!([{"type": "Pod", "min": {"cpu": "1"}}])), true), (None, false)] {
        let plugin = match items {
            Some(items) => plugin(items),
            None => LimitRanger::new(Cluster::fixed(FixedState::default().with::<LimitRange>(Vec::new()))),
        };
        let mut attributes = attributes(Operation::Update, "", "pods", Some(given()), Some(given()));
        attributes.subresource = "resize".into();
        attributes.object.as_mut().unwrap().settle();
        plugin.admit(&mut attributes).await.unwrap();
        let object = attributes.object.unwrap();
        assert!(!object.is_changed());
        assert_eq!(object.as_value(), &given());
        for path in [resources("containers", "limits"), resources("initContainers", "limits")] {
            assert_eq!(object.unwritten().is_at(&path), is_held, "{path:?}");
        }
    }
}

#[tokio::test]
async fn each_container_is_held_against_the_limits() {
    let one = |requests: Value, limits: Value| json!([container("a", requests, limits)]);
    let min = || json!([{"type": "Container", "min": {"cpu": "50m"}}]);
    let max = || json!([{"type": "Container", "max": {"cpu": "2"}}]);
    let ratio = || json!([{"type": "Container", "maxLimitRequestRatio": {"cpu": "1500m"}}]);
    for (items, requests, limits, want) in [
        (min(), json!({"cpu": "50m"}), json!({}), None),
        (min(), json!({"cpu": "40m"}), json!({}), Some("minimum cpu usage per Container is 50m, but request is 40m")),
        (min(), json!({}), json!({}), Some("minimum cpu usage per Container is 50m.  No request is specified")),
        (
            min(),
            json!({"cpu": "60m"}),
            json!({"cpu": "10m"}),
            Some("minimum cpu usage per Container is 50m, but limit is 10m"),
        ),
        (max(), json!({"cpu": "1"}), json!({"cpu": "2"}), None),
        (max(), json!({"cpu": "1"}), json!({}), Some("maximum cpu usage per Container is 2.  No limit is specified")),
        (max(), json!({}), json!({"cpu": "2001m"}), Some("maximum cpu usage per Container is 2, but limit is 2001m")),
        (
            max(),
            json!({"cpu": "3"}),
            json!({"cpu": "1"}),
            Some("maximum cpu usage per Container is 2, but request is 3"),
        ),
        (ratio(), json!({"cpu": "1"}), json!({"cpu": "1500m"}), None),
        (
            ratio(),
            json!({"cpu": "1"}),
            json!({"cpu": "2"}),
            Some("cpu max limit to request ratio per Container is 1500m, but provided ratio is 2.000000"),
        ),
        (
            ratio(),
            json!({}),
            json!({"cpu": "2"}),
            Some("cpu max limit to request ratio per Container is 1500m, but no request is specified or request is 0"),
        ),
        (
            ratio(),
            json!({"cpu": "2"}),
            json!({"cpu": "0"}),
            Some("cpu max limit to request ratio per Container is 1500m, but no limit is specified or limit is 0"),
        ),
    ] {
        assert_eq!(violation(items, one(requests, limits), json!([])).await.as_deref(), want);
    }
}

#[tokio::test]
async fn a_range_names_all_faults() {
    let items = json!([{"type": "Container", "min": {"cpu": "1", "memory": "1Gi"}}]);
    let found = violation(items, json!([{"name": "a"}]), json!([])).await.unwrap();
    assert_eq!(
        found,
        "[minimum cpu usage per Container is 1.  No request is specified, minimum memory usage per Container is 1Gi.  No request \
         is specified]"
    );
}

#[tokio::test]
async fn a_pod_counts_as_a_whole() {
    let items = || json!([{"type": "Pod", "max": {"cpu": "2"}}]);
    let limited = |cpu: &str| container("a", json!({}), json!({"cpu": cpu}));
    assert_eq!(violation(items(), json!([limited("1"), limited("1")]), json!([])).await, None);
    let text = "maximum cpu usage per Pod is 2, but limit is 3";
    assert_eq!(violation(items(), json!([limited("1"), limited("2")]), json!([])).await.as_deref(), Some(text));
    assert_eq!(violation(items(), json!([limited("1")]), json!([limited("3")])).await.as_deref(), Some(text));
    let mut own = pod(json!([limited("3")]), json!([]));
    own["spec"]["resources"] = json!({"limits": {"cpu": "1"}});
    validated(items(), own).await.stays_unchanged();
}

#[tokio::test]
async fn a_claim_is_held_against_its_own_items() {
    let items = json!([{"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}, {"type": "Container", "min": {"storage": "9Gi"}}]);
    for (size, want) in [
        ("1Gi", None),
        ("3Gi", Some("maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi")),
        ("1Mi", Some("minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi")),
    ] {
        let claim = json!({"metadata": {"name": "c", "namespace": "n"}, "spec": {"resources": {"requests": {"storage": size}}}});
        let plugin = plugin(items.clone());
        let checked = check(&plugin).validating();
        let found = checked.update("", "persistentvolumeclaims", claim.clone(), claim).await.refusal();
        let found = found.map(|status| status.message.replace("persistentvolumeclaims \"c\" is forbidden: ", ""));
        assert_eq!(found.as_deref(), want);
    }
}

#[tokio::test]
async fn updates_of_pods_count_only_as_a_resize_and_never_of_one_that_goes() {
    let items = json!([{"type": "Container", "min": {"cpu": "1"}}]);
    let bad = pod(json!([{"name": "a"}]), json!([]));
    let update = |check: crate::plugins::checker::Check<'static>, old: Value| {
        let bad = bad.clone();
        async move { check.update("", "pods", old, bad).await.code() }
    };
    let plugin: &'static LimitRanger = Box::leak(Box::new(plugin(items)));
    assert_eq!(update(check(plugin).validating(), bad.clone()).await, None);
    assert_eq!(update(check(plugin).validating().subresource("resize"), bad.clone()).await, Some(403));
    let mut going = bad.clone();
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(update(check(plugin).validating().subresource("resize"), going).await, None);
}

#[tokio::test]
async fn limit_ranges_that_the_cache_lacks_are_read_from_the_api_server() {
    let live = vec![range("r", json!([{"type": "Container", "min": {"cpu": "1"}}]))];
    let state = FixedState::default().with::<LimitRange>(vec![]).live::<LimitRange>(live);
    let plugin = LimitRanger::new(Cluster::fixed(state));
    let bad = pod(json!([{"name": "a"}]), json!([]));
    assert_eq!(check(&plugin).validating().create("", "pods", bad).await.code(), Some(403));
}
