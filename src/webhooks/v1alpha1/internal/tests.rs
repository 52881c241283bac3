//! The conversions that the recorded reviews do not contain, by the conversions of Kubernetes 1.8.

use super::*;
use serde_json::json;

fn written(group: &str, version: &str, kind: &str, object: Value) -> Value {
    let object = Object::from_value(object).unwrap();
    let text = write(&GroupVersionKind::new(group, version, kind), &object).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

fn pod(spec: Value) -> Value {
    written("", "v1", "Pod", json!({"metadata": {"name": "p"}, "spec": spec}))
}

#[test]
fn the_namespaces_of_the_host_belong_to_the_security_context() {
    let pod = pod(json!({"hostNetwork": true, "hostPID": true, "securityContext": {"runAsUser": 5}}));
    let context = &pod["Spec"]["SecurityContext"];
    assert_eq!(
        (&context["HostNetwork"], &context["HostPID"], &context["HostIPC"]),
        (&json!(true), &json!(true), &json!(false))
    );
    assert_eq!(context["RunAsUser"], 5);
    assert_eq!(pod["Spec"].get("HostNetwork"), None);
}

#[test]
fn a_pod_always_has_a_security_context() {
    assert_eq!(pod(json!({}))["Spec"]["SecurityContext"]["HostNetwork"], false);
}

#[test]
fn the_old_field_names_the_service_account_if_the_new_one_does_not() {
    assert_eq!(pod(json!({"serviceAccount": "old"}))["Spec"]["ServiceAccountName"], "old");
    let both = pod(json!({"serviceAccount": "old", "serviceAccountName": "new"}));
    assert_eq!(both["Spec"]["ServiceAccountName"], "new");
}

#[test]
fn old_annotations_of_init_containers_are_dropped() {
    let annotations = json!({"pod.beta.kubernetes.io/init-containers": "[]", "a": "b"});
    let metadata = json!({"name": "p", "annotations": annotations});
    let pod = written("", "v1", "Pod", json!({"metadata": metadata}));
    assert_eq!(pod["annotations"], json!({"a": "b"}));
    let alone = json!({"annotations": {"pod.alpha.kubernetes.io/init-containers": "[]"}});
    let template = written("", "v1", "PodTemplate", json!({"template": {"metadata": alone}}));
    assert_eq!(template["Template"].get("annotations"), None);
}

#[test]
fn the_source_of_a_volume_is_written_in_place() {
    let volumes = json!([{"name": "v", "hostPath": {"path": "/x"}}, {"name": "c", "configMap": {"name": "m"}}]);
    let pod = pod(json!({"volumes": volumes}));
    let volume = &pod["Spec"]["Volumes"][0];
    assert_eq!((&volume["Name"], &volume["HostPath"]), (&json!("v"), &json!({"Path": "/x", "Type": null})));
    assert_eq!(volume["EmptyDir"], Value::Null);
    let map = json!({"Name": "m", "Items": null, "DefaultMode": null, "Optional": null});
    assert_eq!(pod["Spec"]["Volumes"][1]["ConfigMap"], map);
}

#[test]
fn the_handler_of_a_probe_is_written_in_place() {
    let probe = json!({"httpGet": {"port": "web", "path": "/"}, "periodSeconds": 3});
    let pod = pod(json!({"containers": [{"name": "c", "livenessProbe": probe}]}));
    let probe = &pod["Spec"]["Containers"][0]["LivenessProbe"];
    assert_eq!(
        (&probe["HTTPGet"]["Port"], &probe["PeriodSeconds"], &probe["Exec"]),
        (&json!("web"), &json!(3), &Value::Null)
    );
    assert_eq!(probe.get("Handler"), None);
}

#[test]
fn quantities_are_texts_and_maps_keep_their_keys() {
    let resources = json!({"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": 1}});
    let pod = pod(json!({"containers": [{"name": "c", "resources": resources}]}));
    let resources = json!({"Limits": {"cpu": "500m", "memory": "1Gi"}, "Requests": {"cpu": "1"}});
    assert_eq!(pod["Spec"]["Containers"][0]["Resources"], resources);
}

#[test]
fn fields_that_1_8_does_not_have_are_left_out() {
    let pod = pod(
        json!({"enableServiceLinks": true, "containers": [{"name": "c", "startupProbe": {}}], "ephemeralContainers": []}),
    );
    let text = pod.to_string().to_lowercase();
    for field in ["enableservicelinks", "startupprobe", "ephemeralcontainers", "managedfields", "apiversion"] {
        assert!(!text.contains(field), "{field}");
    }
}

#[test]
fn metadata_lies_at_the_top_and_leaves_out_empty_values() {
    let metadata = json!({"name": "p", "namespace": "", "labels": {}, "finalizers": [], "generation": 0,
        "deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0, "managedFields": [{}],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"}]});
    let mut binding = written("", "v1", "Binding", json!({"metadata": metadata}));
    binding.as_object_mut().unwrap().remove("Target");
    let want = json!({"name": "p", "creationTimestamp": null, "deletionTimestamp": "2020-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 0,
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"}]});
    assert_eq!(binding, want);
}

#[test]
fn the_texts_of_a_secret_are_among_its_data() {
    let secret = json!({"data": {"a": "eA==", "b": "eA=="}, "stringData": {"b": "y"}, "type": "Opaque"});
    let secret = written("", "v1", "Secret", secret);
    assert_eq!(secret["Data"], json!({"a": "eA==", "b": "eQ=="}));
    assert_eq!(written("", "v1", "Secret", json!({}))["Data"], Value::Null);
}

#[test]
fn a_config_map_always_has_data() {
    assert_eq!(written("", "v1", "ConfigMap", json!({}))["Data"], json!({}));
}

#[test]
fn empty_lists_and_missing_lists_differ() {
    let role = |rules: Value| {
        let role = json!({"metadata": {"name": "r"}, "rules": rules});
        written("rbac.authorization.k8s.io", "v1", "Role", role)["Rules"].clone()
    };
    assert_eq!((role(json!([])), role(Value::Null)), (json!([]), Value::Null));
}

#[test]
fn a_replication_controller_has_its_template() {
    let controller =
        json!({"spec": {"replicas": 2, "selector": {"a": "b"}, "template": {"metadata": {"labels": {"a": "b"}}}}});
    let spec = &written("", "v1", "ReplicationController", controller)["Spec"];
    assert_eq!((&spec["Replicas"], &spec["Selector"]), (&json!(2), &json!({"a": "b"})));
    assert_eq!(
        (&spec["Template"]["labels"], &spec["Template"]["Spec"]["Containers"]),
        (&json!({"a": "b"}), &Value::Null)
    );
    assert_eq!(written("", "v1", "ReplicationController", json!({}))["Spec"]["Template"], Value::Null);
}

#[test]
fn annotations_of_workloads_become_the_fields_that_they_replace() {
    let annotated = |name: &str| json!({"metadata": {"name": "d", "annotations": {name: "7", "a": "b"}}, "spec": {"minReadySeconds": 3}});
    for version in ["v1", "v1beta2"] {
        let set = written("apps", version, "DaemonSet", annotated("deprecated.daemonset.template.generation"));
        assert_eq!((&set["Spec"]["TemplateGeneration"], &set["Spec"]["MinReadySeconds"]), (&json!(7), &json!(3)));
        assert_eq!(set["annotations"], json!({"a": "b"}));
        let deployment = written("apps", version, "Deployment", annotated("deprecated.deployment.rollback.to"));
        assert_eq!(deployment["Spec"]["RollbackTo"], json!({"Revision": 7}));
    }
    assert_eq!(written("apps", "v1", "DaemonSet", json!({}))["Spec"]["TemplateGeneration"], 0);
    assert_eq!(written("apps", "v1", "Deployment", json!({}))["Spec"]["RollbackTo"], Value::Null);
}

#[test]
fn a_stateful_set_always_has_an_observed_generation() {
    let status = written("apps", "v1", "StatefulSet", json!({}))["Status"].clone();
    assert_eq!((&status["ObservedGeneration"], &status["CollisionCount"]), (&json!(0), &Value::Null));
}

#[test]
fn numbers_or_texts_keep_their_form() {
    let update = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}});
    let deployment = written("apps", "v1", "Deployment", json!({"spec": {"strategy": update}}));
    assert_eq!(deployment["Spec"]["Strategy"]["RollingUpdate"], json!({"MaxUnavailable": "25%", "MaxSurge": 0}));
}

#[test]
fn an_autoscaler_has_metrics() {
    let cpu = |percentage: u8| {
        let resource = json!({"Name": "cpu", "TargetAverageUtilization": percentage, "TargetAverageValue": null});
        json!({"Type": "Resource", "Object": null, "Pods": null, "Resource": resource})
    };
    let scaler = |object: Value| written("autoscaling", "v1", "HorizontalPodAutoscaler", object);
    assert_eq!(scaler(json!({}))["Spec"]["Metrics"], json!([cpu(80)]));
    let spec = json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 50});
    let got = scaler(json!({"spec": spec, "status": {"currentCPUUtilizationPercentage": 9}}));
    assert_eq!((&got["Spec"]["Metrics"], &got["Spec"]["MaxReplicas"]), (&json!([cpu(50)]), &json!(3)));
    assert_eq!(got["Status"]["CurrentMetrics"][0]["Resource"]["CurrentAverageUtilization"], 9);
    let metric = r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"1"}}]"#;
    let conditions = r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":null}]"#;
    let annotations = json!({"autoscaling.alpha.kubernetes.io/metrics": metric, "autoscaling.alpha.kubernetes.io/conditions": conditions});
    let got = scaler(json!({"metadata": {"annotations": annotations}, "spec": spec}));
    assert_eq!(got["Spec"]["Metrics"][0]["Pods"], json!({"MetricName": "m", "TargetAverageValue": "1"}));
    assert_eq!((&got["Spec"]["Metrics"][1], got.get("annotations")), (&cpu(50), None));
    assert_eq!(got["Status"]["Conditions"][0]["Type"], "AbleToScale");
}

#[test]
fn a_network_policy_of_extensions_has_lists() {
    let spec = json!({"podSelector": {}, "ingress": [{}]});
    let policy = written("extensions", "v1beta1", "NetworkPolicy", json!({"spec": spec}));
    let rule = json!({"Ports": [], "From": null});
    assert_eq!((&policy["Spec"]["Ingress"], &policy["Spec"]["Egress"]), (&json!([rule]), &json!([])));
    let policy = written("networking.k8s.io", "v1", "NetworkPolicy", json!({"spec": {"podSelector": {}}}));
    assert_eq!((&policy["Spec"]["Ingress"], &policy["Spec"]["Egress"]), (&Value::Null, &Value::Null));
}

#[test]
fn subjects_of_the_first_version_get_a_group() {
    let subjects =
        json!([{"kind": "User", "name": "*"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s"}]);
    let binding = written("rbac.authorization.k8s.io", "v1alpha1", "RoleBinding", json!({"subjects": subjects}));
    let group = "rbac.authorization.k8s.io";
    let subject =
        |kind: &str, group: &str, name: &str| json!({"Kind": kind, "APIGroup": group, "Name": name, "Namespace": ""});
    let want = [
        subject("Group", group, "system:authenticated"),
        subject("Group", group, "g"),
        subject("ServiceAccount", "", "s"),
    ];
    assert_eq!(binding["Subjects"], json!(want));
}

#[test]
fn an_eviction_keeps_the_names_of_its_options() {
    let eviction = json!({"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 5, "dryRun": ["All"]}});
    let want = json!({"name": "p", "creationTimestamp": null, "DeleteOptions": {"gracePeriodSeconds": 5}});
    assert_eq!(written("policy", "v1", "Eviction", eviction), want);
}

#[test]
fn the_scale_of_an_old_version_has_a_label_selector() {
    let scale = json!({"status": {"replicas": 1, "selector": {"a": "b"}, "targetSelector": "a=b"}});
    let old = written("extensions", "v1beta1", "Scale", scale);
    assert_eq!(old["Status"], json!({"Replicas": 1, "Selector": {"matchLabels": {"a": "b"}}}));
    let scale = written("autoscaling", "v1", "Scale", json!({"status": {"selector": "a=b"}}));
    assert_eq!(scale["Status"], json!({"Replicas": 0, "Selector": "a=b"}));
}

#[test]
fn values_of_wrong_types_are_zero_values() {
    for value in [json!(1), json!("x"), json!([1, "x", {}]), json!({"a": 1}), json!(true)] {
        let object = json!({"metadata": value, "spec": {"containers": value, "hostNetwork": value, "nodeSelector": value,
            "volumes": [value, {"name": value, "hostPath": value}], "securityContext": value}, "status": value, "data": value});
        for kind in ["Pod", "ConfigMap", "Secret", "Service"] {
            let got = written("", "v1", kind, object.clone());
            assert_eq!(got.get("creationTimestamp"), Some(&Value::Null), "{kind} {value}");
        }
    }
}
