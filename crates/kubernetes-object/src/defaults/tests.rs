use super::{Defaulting, apply};
use crate::kind::{GroupVersionKind, split_api_version};
use crate::normal::{self, NormalError};
use crate::round_trip::{self, InternalValues, RoundTripError};
use crate::{schema, typed};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::io::Read;
use std::sync::LazyLock;

/// Manifests and random objects of every kind, and Go's defaults of them, from `tools/default-vectors`.
static VECTORS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let mut text = String::new();
    GzDecoder::new(&include_bytes!("vectors.gz")[..]).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
});

fn kind_of(object: &Value) -> GroupVersionKind {
    let (group, version) = split_api_version(object["apiVersion"].as_str().unwrap());
    GroupVersionKind::new(group, version, object["kind"].as_str().unwrap())
}

fn with_defaults(mut object: Value) -> Value {
    apply(&kind_of(&object), &mut object, Defaulting::default());
    object
}

/// Returns the object with its defaults, after the conversion to the internal version and back.
fn decoded(object: Value) -> Result<Value, RoundTripError> {
    let (kind, mut object) = (kind_of(&object), with_defaults(object));
    round_trip::make(&kind, object.as_object_mut().unwrap(), &InternalValues::default())?;
    Ok(object)
}

/// The first path where two values differ; the current time matches any time.
fn difference(path: &str, found: &Value, expected: &Value) -> Option<String> {
    match (found, expected) {
        (Value::Object(one), Value::Object(other)) => one.keys().chain(other.keys()).find_map(|name| {
            let absent = Value::String("(absent)".to_owned());
            let (one, other) = (one.get(name).unwrap_or(&absent), other.get(name).unwrap_or(&absent));
            difference(&format!("{path}/{name}"), one, other)
        }),
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let mut pairs = one.iter().zip(other).enumerate();
            pairs.find_map(|(at, (one, other))| difference(&format!("{path}/{at}"), one, other))
        }
        (Value::String(_), Value::String(expected)) if expected == "now" => None,
        _ => (found != expected).then(|| format!("{path}: {found}, not {expected}")),
    }
}

#[test]
fn objects_get_what_kube_apiserver_gives_them() {
    let mut differences = Vec::new();
    for (line, vector) in VECTORS.iter().enumerate() {
        let (input, kind) = (&vector["input"], kind_of(&vector["input"]));
        let found = decoded(input.clone());
        if let Some(error) = vector.get("error") {
            assert_eq!(found.err().map(|why| why.to_string()).as_deref(), error.as_str(), "{input}");
            continue;
        }
        let found = found.unwrap();
        differences.extend(difference(&format!("{line} {}", kind.kind), &found, &vector["output"]));
    }
    assert_eq!(differences, Vec::<String>::new());
}

#[test]
fn defaults_are_given_once() {
    for vector in VECTORS.iter().filter(|vector| vector.get("error").is_none()) {
        let defaulted = with_defaults(vector["input"].clone());
        let once = decoded(vector["input"].clone()).unwrap();
        let twice = decoded(once.clone()).unwrap();
        let kind = kind_of(&once).kind;
        assert_eq!(difference(&kind, &with_defaults(defaulted.clone()), &defaulted), None);
        assert_eq!(difference(&kind, &with_defaults(once.clone()), &once), None);
        assert_eq!(difference(&kind, &twice, &once), None);
    }
}

#[test]
fn the_round_trip_may_be_made_later() {
    let is_timeless = |vector: &&Value| !vector["output"].to_string().contains(r#":"now""#);
    for vector in VECTORS.iter().filter(is_timeless) {
        let (input, kind) = (&vector["input"], kind_of(&vector["input"]));
        let at_once = normal::built_in(&kind, input.clone()).unwrap().map(|normal| normal.object);
        let Ok(typed) = typed::decode(&kind, input.clone()).unwrap() else { continue };
        let mut object = normal::defaulted(Defaulting::default(), &kind, typed).object;
        let later = normal::round_trip(&kind, &mut object, &InternalValues::default()).map(|()| object);
        assert_eq!(later.map_err(NormalError::from), at_once, "{input}");
    }
}

#[test]
fn every_built_in_kind_is_among_the_vectors() {
    let unseen: Vec<String> = schema::kinds()
        .map(|(kind, _)| kind)
        .filter(|kind| !VECTORS.iter().any(|vector| kind_of(&vector["input"]) == *kind))
        .map(|kind| kind.kind)
        .filter(|kind| !kind.ends_with("List") && !kind.ends_with("Options"))
        .collect();
    // No manifest can contain objects of these kinds.
    let mut unseen = unseen;
    unseen.sort();
    unseen.dedup();
    assert_eq!(unseen, ["APIGroup", "APIVersions", "Status", "WatchEvent"]);
}

#[test]
fn a_value_of_another_type_causes_no_panic() {
    let odd = [json!(null), json!(true), json!(-1), json!("text"), json!([1, null, "a"]), json!({ "a": 1 })];
    for vector in VECTORS.iter().step_by(5) {
        let input = &vector["input"];
        for (at, odd) in places(input, "").into_iter().step_by(3).zip(odd.iter().cycle()) {
            let mut object = input.clone();
            *object.pointer_mut(&at).unwrap() = odd.clone();
            apply(&kind_of(input), &mut object, Defaulting::default());
            let _ = round_trip::make(&kind_of(input), object.as_object_mut().unwrap(), &InternalValues::default());
        }
    }
    for odd in odd {
        let mut value = odd.clone();
        apply(&GroupVersionKind::new("", "v1", "Namespaces"), &mut value, Defaulting::default());
        assert_eq!(value, odd);
    }
}

fn places(value: &Value, path: &str) -> Vec<String> {
    let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (escaped(name), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    let is_header = |name: &str| path.is_empty() && (name == "apiVersion" || name == "kind");
    let mut places = Vec::new();
    for (name, value) in children.iter().filter(|(name, _)| !is_header(name)) {
        let path = format!("{path}/{name}");
        places.extend(self::places(value, &path));
        places.push(path);
    }
    places
}

#[test]
fn kinds_that_are_not_built_in_stay_as_they_are() {
    for (group, version, kind) in [("example.com", "v1", "Pod"), ("", "v2", "Pod"), ("apps", "v1beta1", "Deployment")] {
        let mut value = json!({ "spec": {} });
        apply(&GroupVersionKind::new(group, version, kind), &mut value, Defaulting::default());
        assert_eq!(value, json!({ "spec": {} }));
    }
}

/// The spec of a pod, with defaults.
fn spec(spec: Value) -> Value {
    with_defaults(json!({ "apiVersion": "v1", "kind": "Pod", "spec": spec }))["spec"].take()
}

#[test]
fn requests_follow_from_limits_in_pods_but_not_in_templates() {
    let containers = json!([{ "name": "a", "resources": { "limits": { "cpu": "1", "memory": "1Gi" }, "requests": { "cpu": "1m" } } }]);
    let pod = spec(json!({ "containers": containers }));
    assert_eq!(pod["containers"][0]["resources"]["requests"], json!({ "cpu": "1m", "memory": "1Gi" }));
    let template = json!({ "spec": { "containers": containers } });
    let deployment =
        with_defaults(json!({ "apiVersion": "apps/v1", "kind": "Deployment", "spec": { "template": template } }));
    let requests = deployment.pointer("/spec/template/spec/containers/0/resources/requests");
    assert_eq!(requests, Some(&json!({ "cpu": "1m" })));
}

#[test]
fn links_to_services_are_on_in_pods_only() {
    assert_eq!(spec(json!({}))["enableServiceLinks"], true);
    let template = with_defaults(json!({ "apiVersion": "v1", "kind": "PodTemplate" }));
    assert_eq!(template.pointer("/template/spec/enableServiceLinks"), None);
    assert_eq!(template.pointer("/template/spec/schedulerName"), Some(&json!("default-scheduler")));
}

#[test]
fn ports_are_those_of_the_host_in_its_network() {
    let containers =
        json!([{ "name": "a", "ports": [{ "containerPort": 80 }, { "containerPort": 81, "hostPort": 8081 }] }]);
    let ports = |pod: Value| pod["containers"][0]["ports"].clone();
    let outside = ports(spec(json!({ "containers": containers, "hostNetwork": false })));
    assert_eq!(outside[0], json!({ "containerPort": 80, "protocol": "TCP" }));
    let inside = ports(spec(json!({ "containers": containers, "hostNetwork": true })));
    assert_eq!((&inside[0]["hostPort"], &inside[1]["hostPort"]), (&json!(80), &json!(8081)));
}

#[test]
fn a_volume_without_a_source_is_an_empty_directory() {
    let pod = spec(json!({ "volumes": [{ "name": "a" }, { "name": "b", "nfs": { "server": "a", "path": "/" } }] }));
    assert_eq!(pod["volumes"][0], json!({ "name": "a", "emptyDir": {} }));
    assert_eq!(pod["volumes"][1].get("emptyDir"), None);
}

#[test]
fn a_pod_requests_what_its_containers_do_if_it_has_limits_of_its_own() {
    let container = |cpu: &str| json!({ "name": "a", "resources": { "requests": { "cpu": cpu } } });
    let containers = json!([container("500m"), container("250m")]);
    let requests = |resources: Value| {
        spec(json!({ "containers": containers, "resources": resources }))["resources"]["requests"].take()
    };
    assert_eq!(requests(json!({ "limits": { "memory": "1Gi" } })), json!({ "cpu": "750m", "memory": "1Gi" }));
    assert_eq!(requests(json!({ "requests": { "cpu": "2" } })), json!({ "cpu": "2" }));
    assert_eq!(requests(json!({})), json!(null));
}

#[test]
fn a_container_before_the_others_counts_where_it_takes_more() {
    let container = |cpu: &str, more: Value| {
        let mut container = json!({ "name": "a", "resources": { "requests": { "cpu": cpu } } });
        container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        container
    };
    let sidecar = container("100m", json!({ "restartPolicy": "Always" }));
    for (first, expected) in [("1", "1100m"), ("200m", "600m")] {
        let pod = spec(json!({
            "containers": [container("500m", json!({}))],
            "initContainers": [sidecar, container(first, json!({}))],
            "resources": { "limits": { "cpu": "4" } },
        }));
        assert_eq!(pod["resources"]["requests"]["cpu"], expected);
    }
}

#[test]
fn a_namespace_is_labelled_with_its_name_once_it_has_one() {
    let namespace =
        |metadata: Value| with_defaults(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata }));
    let label = |namespace: &Value| namespace.pointer("/metadata/labels/kubernetes.io~1metadata.name").cloned();
    let named = namespace(json!({ "name": "a", "labels": { "kubernetes.io/metadata.name": "b" } }));
    assert_eq!(label(&named), Some(json!("a")));
    assert_eq!(label(&namespace(json!({ "generateName": "a" }))), None);
}
