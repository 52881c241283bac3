//! The plugin's decisions, as a kube-apiserver 1.19 makes them.

use super::*;
use crate::admission::Operation;
use crate::cluster::FixedState;
use crate::plugins::checker::{Checked, attributes, check};
use serde_json::json;

fn preset(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "resourceVersion": format!("rv-{name}")}, "spec": spec})
}

fn of(cluster: Arc<Cluster>) -> PodPreset {
    PodPreset { presets: RemovedObjects::ApiServer(cluster.clone()), cluster }
}

fn plugin(presets: &[Value]) -> PodPreset {
    let presets = presets.iter().map(|preset| serde_json::from_value(preset.clone()).unwrap()).collect();
    of(Cluster::fixed(FixedState::default().cached::<Preset>(presets)))
}

fn pod(spec: Value) -> Value {
    json!({"metadata": {"name": "p", "namespace": "n", "labels": {"app": "web"}}, "spec": spec})
}

async fn created(presets: &[Value], pod: Value) -> Checked {
    check(&plugin(presets)).create("", "pods", pod).await
}

/// The container `c` after its creation in a pod of the one container.
async fn container(presets: &[Value], mut container: Value) -> Value {
    container["name"] = "c".into();
    let mut pod = created(presets, pod(json!({"containers": [container]}))).await.after();
    let mut container = pod["spec"]["containers"][0].take();
    container.as_object_mut().unwrap().remove("name");
    container
}

/// Whether the presets are applied to a pod of one container, or nothing is changed.
async fn is_applied(presets: &[Value], volumes: Value, container: Value) -> bool {
    let before = pod(json!({"volumes": volumes, "containers": [{"name": "a"}, container]}));
    let after = created(presets, before.clone()).await.after();
    let has_annotation = after["metadata"].get("annotations").is_some();
    assert_eq!(has_annotation, after != before);
    has_annotation
}

#[tokio::test]
async fn the_presets_items_follow_the_containers_own() {
    let presets = [preset(
        "b-db",
        json!({
            "selector": {"matchLabels": {"app": "web"}},
            "env": [{"name": "DB", "value": "db"}, {"name": "MODE", "value": "prod"}],
            "envFrom": [{"configMapRef": {"name": "cm"}}, {"prefix": "P_", "secretRef": {"name": "s"}}],
            "volumeMounts": [{"name": "cache", "mountPath": "/cache"}, {"name": "conf", "mountPath": "/etc/conf", "readOnly": true}],
            "volumes": [{"name": "cache", "emptyDir": {}}, {"name": "conf", "configMap": {"name": "conf"}}],
        }),
    )];
    let conf = json!({"name": "conf", "configMap": {"name": "conf", "defaultMode": 420}});
    let env = |own: Value| json!([own, {"name": "DB", "value": "db"}, {"name": "MODE", "value": "prod"}]);
    let from =
        |own: Value| json!([own, {"configMapRef": {"name": "cm"}}, {"prefix": "P_", "secretRef": {"name": "s"}}]);
    let mounts =
        json!([{"name": "cache", "mountPath": "/cache"}, {"name": "conf", "mountPath": "/etc/conf", "readOnly": true}]);
    let own = json!({"name": "OWN", "value": "o"});
    let source = json!({"configMapRef": {"name": "own"}});
    let given = pod(json!({"volumes": [{"name": "own", "emptyDir": {}}], "initContainers": [{"name": "i"}],
        "containers": [{"name": "c", "env": [own], "envFrom": [source]}]}));
    let init_env = json!([{"name": "DB", "value": "db"}, {"name": "MODE", "value": "prod"}]);
    let init_from = json!([{"configMapRef": {"name": "cm"}}, {"prefix": "P_", "secretRef": {"name": "s"}}]);
    let mut want = pod(json!({
        "volumes": [{"name": "own", "emptyDir": {}}, {"name": "cache", "emptyDir": {}}, conf],
        "initContainers": [{"name": "i", "env": init_env, "envFrom": init_from, "volumeMounts": mounts}],
        "containers": [{"name": "c", "env": env(own), "envFrom": from(source), "volumeMounts": mounts}],
    }));
    want["metadata"]["annotations"] = json!({"podpreset.admission.kubernetes.io/podpreset-b-db": "rv-b-db"});
    created(&presets, given).await.becomes(want);
}

#[tokio::test]
async fn the_selector_and_the_namespace_select_pods() {
    let with = |selector: Value| preset("p", json!({"selector": selector, "env": [{"name": "A", "value": "1"}]}));
    let mut elsewhere = with(json!({}));
    elsewhere["metadata"]["namespace"] = "other".into();
    let expression = |operator: &str| json!({"matchExpressions": [{"key": "app", "operator": operator}]});
    for (preset, applied) in [
        (with(json!({})), true),
        (with(json!({"matchLabels": {"app": "web"}})), true),
        (with(json!({"matchLabels": {"app": "db"}})), false),
        (with(expression("Exists")), true),
        (with(expression("DoesNotExist")), false),
        (elsewhere, false),
    ] {
        assert_eq!(
            is_applied(std::slice::from_ref(&preset), json!([]), json!({"name": "c"})).await,
            applied,
            "{preset}"
        );
    }
    let fault = "filtering pod presets failed: label selector conversion failed: {map[a:b] [{app Bogus []}]} for selector: \
                 \"Bogus\" is not a valid label selector operator";
    let mut bogus = expression("Bogus");
    bogus["matchLabels"] = json!({"a": "b"});
    created(&[with(bogus)], pod(json!({}))).await.was_refused(500, fault);
}

#[tokio::test]
async fn mirror_pods_and_excluded_pods_stay_unchanged() {
    let presets = [preset("p", json!({"env": [{"name": "A", "value": "1"}]}))];
    for (key, value, changes) in [
        (MIRROR, "x", false),
        (MIRROR, "", false),
        (EXCLUDE, "true", false),
        (EXCLUDE, "True", true),
        (EXCLUDE, "false", true),
    ] {
        let mut pod = pod(json!({"containers": [{"name": "c"}]}));
        pod["metadata"]["annotations"] = json!({key: value});
        let after = created(&presets, pod.clone()).await.after();
        assert_eq!(after != pod, changes, "{key}: {value}");
    }
}

#[tokio::test]
async fn env_conflicts_if_the_last_value_of_the_name_differs() {
    let presets = [preset("p", json!({"env": [{"name": "DB", "value": "db"}]}))];
    let db = |value: &str| json!({"name": "DB", "value": value});
    for (env, applied) in [
        (json!([]), true),
        (json!([db("db")]), true),
        (json!([db("x"), db("db")]), true),
        (json!([db("x")]), false),
        (json!([db("db"), db("x")]), false),
    ] {
        assert_eq!(is_applied(&presets, json!([]), json!({"name": "c", "env": env})).await, applied, "{env}");
    }
    let twice = container(&presets, json!({"env": [db("x"), db("db")]})).await;
    assert_eq!(twice, json!({"env": [db("x"), db("db")]}));
    let init = pod(json!({"initContainers": [{"name": "i", "env": [db("x")]}], "containers": [{"name": "c"}]}));
    created(&presets, init).await.stays_unchanged();
}

#[tokio::test]
async fn a_field_reference_without_a_version_equals_the_presets() {
    let reference = json!({"fieldRef": {"fieldPath": "metadata.name"}});
    let presets = [preset("p", json!({"env": [{"name": "N", "valueFrom": reference}]}))];
    let defaulted = json!({"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}});
    let env = json!([{"name": "N", "valueFrom": defaulted}]);
    assert_eq!(container(&presets, json!({"env": env})).await, json!({"env": env}));
}

#[tokio::test]
async fn volumes_and_mounts_conflict_by_name_and_by_path() {
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
    let presets = [preset(
        "p",
        json!({"volumes": [{"name": "cache", "emptyDir": {}}], "volumeMounts": [mount("cache", "/cache")]}),
    )];
    let with = |field: &str, value: Value| {
        let mut mount = mount("cache", "/cache");
        mount[field] = value;
        json!([mount])
    };
    for (volumes, mounts, applied) in [
        (json!([{"name": "cache", "emptyDir": {}}]), json!([mount("cache", "/cache")]), true),
        (json!([{"name": "cache", "emptyDir": {"medium": "Memory"}}]), json!([]), false),
        (json!([]), json!([mount("own", "/cache")]), false),
        (json!([]), json!([mount("cache", "/elsewhere")]), false),
        (json!([]), with("readOnly", json!(true)), false),
        (json!([]), with("subPath", json!("s")), false),
        (json!([]), json!([mount("own", "/cache/")]), true),
        (json!([]), json!([mount("own", "/cache/sub")]), true),
    ] {
        let container = json!({"name": "c", "volumeMounts": mounts});
        assert_eq!(is_applied(&presets, volumes.clone(), container).await, applied, "{volumes} {mounts}");
    }
}

#[tokio::test]
async fn presets_conflict_with_one_another_and_with_themselves() {
    let env = |values: &[&str]| {
        let env: Vec<Value> = values.iter().map(|value| json!({"name": "A", "value": value})).collect();
        json!({"env": env})
    };
    let (one, two) = (preset("a", env(&["1"])), preset("b", env(&["2"])));
    for (presets, applied) in [
        (vec![one.clone(), two], false),
        (vec![one.clone(), preset("b", env(&["1"]))], true),
        (vec![preset("a", env(&["1", "2"]))], false),
        (vec![preset("a", env(&["1", "1"]))], true),
    ] {
        assert_eq!(is_applied(&presets, json!([]), json!({"name": "c"})).await, applied, "{presets:?}");
    }
    let same = [one, preset("b", env(&["1"]))];
    assert_eq!(container(&same, json!({})).await, json!({"env": [{"name": "A", "value": "1"}]}));
}

#[tokio::test]
async fn several_presets_are_applied_in_the_order_of_their_names() {
    let with = |name: &str| preset(name, json!({"env": [{"name": name.to_uppercase(), "value": "1"}]}));
    let env = container(&[with("c"), with("a"), with("b")], json!({})).await;
    let names: Vec<&Value> = env["env"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["A", "B", "C"]);
}

#[tokio::test]
async fn a_source_of_the_environment_has_a_prefix_and_a_name() {
    let config = |fields: Value| {
        let mut source = json!({"configMapRef": {"name": "cm"}});
        source.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        source
    };
    let (cm, secret) = (config(json!({})), json!({"secretRef": {"name": "s"}}));
    let presets = [preset("p", json!({"envFrom": [cm, secret]}))];
    let optional = json!({"configMapRef": {"name": "cm", "optional": true}});
    let prefixed = config(json!({"prefix": "X_"}));
    for (own, want) in [
        (json!([]), json!({"envFrom": [cm, secret]})),
        (json!([secret]), json!({"envFrom": [secret, cm]})),
        (json!([prefixed]), json!({"envFrom": [prefixed, cm, secret]})),
        // A source that differs otherwise is no conflict: the container loses all its sources.
        (json!([optional, {"configMapRef": {"name": "own"}}]), json!({})),
    ] {
        assert_eq!(container(&presets, json!({"envFrom": own})).await, want, "{own}");
    }
    let twice = [preset("q", json!({"envFrom": [cm]})), preset("r", json!({"envFrom": [cm]}))];
    assert_eq!(container(&twice, json!({})).await, json!({"envFrom": [cm, cm]}));
    assert_eq!(container(&twice, json!({"envFrom": [cm]})).await, json!({"envFrom": [cm]}));
}

#[tokio::test]
async fn an_annotation_of_the_user_is_overwritten() {
    let presets = [preset("p", json!({"env": [{"name": "A", "value": "1"}]}))];
    let mut pod = pod(json!({"containers": [{"name": "c"}]}));
    let key = format!("{APPLIED}p");
    pod["metadata"]["annotations"] = json!({"own": "1", key.clone(): "mine"});
    let after = created(&presets, pod).await.after();
    assert_eq!(after["metadata"]["annotations"], json!({"own": "1", key: "rv-p"}));
}

#[tokio::test]
async fn a_second_pass_applies_presets_that_match_only_now() {
    let source = json!({"configMapRef": {"name": "cm"}});
    let early = json!({"selector": {"matchLabels": {"app": "web"}}, "env": [{"name": "DB"}], "envFrom": [source]});
    let late = json!({"selector": {"matchLabels": {"late": "yes"}}, "env": [{"name": "LATE"}]});
    let plugin = plugin(&[preset("early", early), preset("late", late)]);
    let given = pod(json!({"containers": [{"name": "c"}]}));
    let mut attributes = attributes(Operation::Create, "", "pods", Some(given), None);
    plugin.admit(&mut attributes).await.unwrap();
    assert!(attributes.object.as_mut().unwrap().set(&["metadata", "labels", "late"], "yes".into()));
    plugin.admit(&mut attributes).await.unwrap();
    let containers = attributes.object.unwrap().items(&["spec", "containers"]).to_vec();
    assert_eq!(containers, [json!({"name": "c", "env": [{"name": "DB"}, {"name": "LATE"}], "envFrom": [source]})]);
}

#[tokio::test]
async fn a_preset_that_cannot_be_decoded_refuses_the_pods_of_its_namespace() {
    let cluster = Cluster::fixed(FixedState::default().undecodable::<Preset>(&["n/p"]));
    let plugin = of(cluster);
    let mut elsewhere = pod(json!({}));
    elsewhere["metadata"]["namespace"] = "other".into();
    assert_eq!(check(&plugin).create("", "pods", pod(json!({}))).await.code(), Some(500));
    check(&plugin).create("", "pods", elsewhere).await.stays_unchanged();
}

#[tokio::test]
async fn no_preset_panics_for_pods_of_wrong_types() {
    let presets = [preset("p", json!({"env": [{"name": "A"}], "volumes": [{"name": "v"}]}))];
    for pod in [
        json!({"metadata": {"namespace": "n", "annotations": []}, "spec": {}}),
        json!({"metadata": {"namespace": "n"}, "spec": "text"}),
        json!({"metadata": {"namespace": "n"}, "spec": {"volumes": {}, "containers": {}}}),
        json!({"metadata": {"namespace": "n"}, "spec": {"volumes": [1], "containers": ["a", {"env": 1}]}}),
        json!({"metadata": {"namespace": "n"}, "spec": {"containers": [{"env": [1, {"name": []}], "envFrom": [[]]}]}}),
    ] {
        let _any_answer = created(&presets, pod).await.code();
    }
}

#[test]
fn only_creates_of_pods_are_handled() {
    for (operation, subresource, handled) in
        [(Operation::Create, "", true), (Operation::Update, "", false), (Operation::Create, "binding", false)]
    {
        let mut attributes = attributes(operation, "", "pods", None, None);
        attributes.subresource = subresource.to_owned();
        assert_eq!(SPEC.handles(&attributes), handled);
    }
}
