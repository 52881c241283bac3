use super::{InternalValues, RoundTripError, make};
use crate::kind::{GroupVersionKind, split_api_version};
use serde_json::{Value, json};

/// The object after the round trip.
fn made(mut object: Value, kept: &InternalValues) -> Result<Value, RoundTripError> {
    let (group, version) = split_api_version(object["apiVersion"].as_str().unwrap());
    let kind = GroupVersionKind::new(group, version, object["kind"].as_str().unwrap());
    make(&kind, object.as_object_mut().unwrap(), kept)?;
    Ok(object)
}

fn fresh(object: Value) -> Value {
    made(object, &InternalValues::default()).unwrap()
}

#[test]
fn the_old_name_of_the_service_account_follows_the_new_one() {
    let spec = |spec: Value| fresh(json!({ "apiVersion": "v1", "kind": "Pod", "spec": spec }))["spec"].take();
    for (given, expected) in [
        (json!({ "serviceAccount": "old" }), "old"),
        (json!({ "serviceAccountName": "new" }), "new"),
        (json!({ "serviceAccount": "old", "serviceAccountName": "new" }), "new"),
    ] {
        let spec = spec(given);
        assert_eq!((&spec["serviceAccount"], &spec["serviceAccountName"]), (&json!(expected), &json!(expected)));
    }
    assert_eq!(spec(json!({})).get("serviceAccount"), None);
}

#[test]
fn the_pod_template_of_every_kind_makes_the_round_trip() {
    let template = json!({ "metadata": { "annotations": { "pod.beta.kubernetes.io/init-containers": "x" } },
        "spec": { "serviceAccount": "a", "terminationGracePeriodSeconds": -1 } });
    let spec = json!({ "template": template });
    for (api_version, kind, spec, at) in [
        ("v1", "PodTemplate", json!({}), "/template"),
        ("v1", "ReplicationController", spec.clone(), "/spec/template"),
        ("apps/v1", "Deployment", spec.clone(), "/spec/template"),
        ("apps/v1", "DaemonSet", spec.clone(), "/spec/template"),
        ("apps/v1", "ReplicaSet", spec.clone(), "/spec/template"),
        ("apps/v1", "StatefulSet", spec.clone(), "/spec/template"),
        ("batch/v1", "Job", spec.clone(), "/spec/template"),
        ("batch/v1", "CronJob", json!({ "jobTemplate": { "spec": spec } }), "/spec/jobTemplate/spec/template"),
    ] {
        let object = json!({ "apiVersion": api_version, "kind": kind, "spec": spec, "template": template });
        let found = fresh(object).pointer(at).cloned();
        let expected = json!({ "metadata": {}, "spec":
            { "serviceAccount": "a", "serviceAccountName": "a", "terminationGracePeriodSeconds": -1 } });
        assert_eq!(found, Some(expected), "{kind}");
    }
}

#[test]
fn text_of_a_secret_becomes_data() {
    let data = json!({ "a": "eA==" });
    let text = json!({ "a": "é", "b": "" });
    let secret = fresh(json!({ "apiVersion": "v1", "kind": "Secret", "data": data, "stringData": text }));
    assert_eq!(secret["data"], json!({ "a": "w6k=", "b": "" }));
    assert_eq!(secret.get("stringData"), None);
}

#[test]
fn a_daemon_set_always_has_its_generation() {
    let name = "deprecated.daemonset.template.generation";
    let daemon_set = |metadata: Value| json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata });
    let annotated = |generation: &str| daemon_set(json!({ "annotations": { name: generation } }));
    let kind = GroupVersionKind::new("apps", "v1", "DaemonSet");
    let kept = InternalValues::of(&kind, annotated("5").as_object().unwrap());
    for (given, kept, expected) in [
        (annotated("+07"), InternalValues::default(), "7"),
        (daemon_set(json!({})), InternalValues::default(), "0"),
        (daemon_set(json!({})), kept.clone(), "5"),
        (annotated("7"), kept, "7"),
    ] {
        assert_eq!(made(given, &kept).unwrap()["metadata"]["annotations"][name], expected);
    }
    let refused = made(annotated("x"), &InternalValues::default());
    assert_eq!(refused.unwrap_err().to_string(), "strconv.ParseInt: parsing \"x\": invalid syntax");
    assert_eq!(
        InternalValues::of(&GroupVersionKind::new("v1", "", "Pod"), annotated("5").as_object().unwrap()),
        InternalValues::default()
    );
}

#[test]
fn an_autoscaler_keeps_in_annotations_what_its_version_has_no_fields_for() {
    let name = "autoscaling.alpha.kubernetes.io/metrics";
    let metrics = r#"[{"pods":{"targetAverageValue":"1000m","metricName":"<b>"},"type":"Pods"}]"#;
    let metadata = json!({ "annotations": { name: metrics, "autoscaling.alpha.kubernetes.io/conditions": "x" } });
    let object =
        json!({ "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": {} });
    let object = fresh(object);
    let written = r#"[{"type":"Pods","pods":{"metricName":"\u003cb\u003e","targetAverageValue":"1"}}]"#;
    assert_eq!(object["metadata"]["annotations"], json!({ name: written }));
    assert_eq!(object["spec"].get("targetCPUUtilizationPercentage"), None);
}

#[test]
fn the_internal_version_keeps_fields_that_an_autoscaler_lacks() {
    let name = |name: &str| format!("autoscaling.alpha.kubernetes.io/{name}");
    let pods = |name: &str| format!(r#"{{"type":"Pods","pods":{{"metricName":"{name}","targetAverageValue":"1"}}}}"#);
    let behavior = r#"{"ScaleUp":{"StabilizationWindowSeconds":1,"SelectPolicy":null,"Policies":null,"Tolerance":null},"ScaleDown":null}"#;
    let kind = GroupVersionKind::new("autoscaling", "v1", "HorizontalPodAutoscaler");
    let of = |annotations: &Value, spec: Value| {
        let metadata = json!({ "annotations": annotations });
        json!({ "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec })
    };
    let one = json!({ name("metrics"): format!("[{}]", pods("a")), name("behavior"): behavior });
    let two = json!({ name("metrics"): format!("[{},{}]", pods("a"), pods("b")) });
    let of_cpu = || json!({ "targetCPUUtilizationPercentage": 50 });
    // A metric in the annotation is duplicated unless a field sets the CPU target beside it.
    let twice = json!({ name("metrics"): format!("[{},{}]", pods("a"), pods("a")), name("behavior"): behavior });
    let more = json!({ name("metrics"): format!(r#"[{},{},{},{{"type":""}}]"#, pods("a"), pods("b"), pods("a")) });
    for (before, after, expected) in [
        (of(&one, of_cpu()), of(&json!({}), of_cpu()), json!({ name("behavior"): behavior })),
        (of(&one, of_cpu()), of(&json!({}), json!({})), one.clone()),
        (of(&one, of_cpu()), of(&one, of_cpu()), one.clone()),
        (of(&one, json!({})), of(&one, json!({})), twice),
        (of(&two, json!({})), of(&two, json!({})), more),
    ] {
        let kept = InternalValues::of(&kind, fresh(before.clone()).as_object().unwrap());
        assert_eq!(made(after.clone(), &kept).unwrap()["metadata"]["annotations"], expected, "{before} {after}");
    }
}
