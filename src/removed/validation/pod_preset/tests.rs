use crate::removed::POD_PRESETS;
use crate::removed::validation::names::{key_errors, label_errors, qualified_name_errors, variable_errors};
use crate::removed::validation::tests::{self, OLD_SUBDOMAIN};
use serde_json::{Value, json};

/// Checks the errors of a preset with this spec.
#[track_caller]
pub(super) fn check(spec: Value, expected: &[&str]) {
    tests::check(&POD_PRESETS, json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec}), expected);
}

/// Checks the errors of a variable, without the path of the variable.
#[track_caller]
fn check_variable(variable: Value, expected: &[&str]) {
    let expected: Vec<_> = expected.iter().map(|line| format!("spec.env[0].{line}")).collect();
    let expected: Vec<_> = expected.iter().map(String::as_str).collect();
    check(json!({"env": [variable]}), &expected);
}

/// Checks the errors of the source of a variable, without its path.
#[track_caller]
fn check_source(source: Value, expected: &[&str]) {
    let expected: Vec<_> = expected.iter().map(|line| format!("valueFrom{line}")).collect();
    let expected: Vec<_> = expected.iter().map(String::as_str).collect();
    check_variable(json!({"name": "A", "valueFrom": source}), &expected);
}

#[test]
fn a_preset_has_at_least_one_list() {
    let why = "spec.volumes.env.envFrom.volumeMounts: Required value: must specify at least one";
    check(json!({}), &[why]);
    check(json!({"selector": {}, "env": null}), &[why]);
    for list in ["env", "envFrom", "volumeMounts", "volumes"] {
        check(json!({ list: [] }), &[]);
    }
}

#[test]
fn the_parts_are_validated_in_the_order_of_kube_apiserver() {
    check(
        json!({"selector": {"matchExpressions": [{"key": "a", "operator": "x"}]}, "env": [{}], "envFrom": [{}], "volumes": [{}],
            "volumeMounts": [{}]}),
        &[
            "spec.selector.matchExpressions[0].operator: Invalid value: \"x\": not a valid selector operator",
            "spec.volumes[0]: Required value: must specify a volume type",
            "spec.volumes[0].name: Required value",
            "spec.env[0].name: Required value",
            "spec.envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
            "spec.volumeMounts[0].name: Required value",
            "spec.volumeMounts[0].name: Not found: \"\"",
            "spec.volumeMounts[0].mountPath: Required value",
        ],
    );
}

#[test]
fn a_variable_has_a_name() {
    check_variable(json!({"name": "A", "value": "b"}), &[]);
    check_variable(json!({"value": "b"}), &["name: Required value"]);
    check_variable(json!({"name": "1"}), &[&format!("name: Invalid value: \"1\": {}", variable_errors("1")[0])]);
    check_variable(json!({"name": "..a"}), &["name: Invalid value: \"..a\": must not start with '..'"]);
    check(json!({"env": [{"name": "A"}, {"name": "A"}]}), &[]);
}

#[test]
fn a_variable_has_one_source() {
    let none = ": Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`";
    check_source(json!({}), &[none]);
    let selector = json!({"name": "a", "key": "b"});
    check_source(json!({"configMapKeyRef": selector}), &[]);
    check_source(json!({"secretKeyRef": selector}), &[]);
    let two = ": Invalid value: \"\": may not have more than one field specified at a time";
    check_source(json!({"configMapKeyRef": selector, "secretKeyRef": selector}), &[two]);
    let value = "valueFrom: Invalid value: \"\": may not be specified when `value` is not empty";
    check_variable(json!({"name": "A", "value": "b", "valueFrom": {"secretKeyRef": selector}}), &[value]);
    let both = json!({"configMapKeyRef": selector, "secretKeyRef": selector});
    check_variable(json!({"name": "A", "value": "b", "valueFrom": both}), &[value]);
    check_variable(json!({"name": "A", "value": "b", "valueFrom": {}}), &[&format!("valueFrom{none}")]);
}

#[test]
fn a_key_belongs_to_a_named_object() {
    for source in ["configMapKeyRef", "secretKeyRef"] {
        let empty = format!(".{source}.name: Invalid value: \"\": {OLD_SUBDOMAIN}");
        check_source(json!({ source: {} }), &[&empty, &format!(".{source}.key: Required value")]);
        let dash = format!(".{source}.name: Invalid value: \"a-\": {OLD_SUBDOMAIN}");
        let key = format!(".{source}.key: Invalid value: \"/\": {}", key_errors("/")[0]);
        check_source(json!({ source: {"name": "a-", "key": "/"} }), &[&dash, &key]);
        let dots = format!(".{source}.key: Invalid value: \"..\": must not be '..'");
        check_source(json!({ source: {"name": "a", "key": ".."} }), &[&dots]);
    }
}

#[test]
fn a_variable_takes_fields_of_the_pod() {
    let check_path = |path: &str, expected: &[&str]| {
        check_source(json!({"fieldRef": {"apiVersion": "v1", "fieldPath": path}}), expected);
    };
    for path in ["metadata.name", "status.podIPs", "spec.host", "metadata.labels['a/b']", "metadata.annotations['A']"] {
        check_path(path, &[]);
    }
    check_source(json!({"fieldRef": {}}), &[".fieldRef.apiVersion: Required value"]);
    check_path("", &[".fieldRef.fieldPath: Required value"]);
    check_source(
        json!({"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}}),
        &[
            ".fieldRef.fieldPath: Invalid value: \"metadata.name\": error converting fieldPath: unsupported pod version: v2",
        ],
    );
    for path in ["x", "metadata.name['a'] ", "['a']"] {
        let why = format!(
            ".fieldRef.fieldPath: Invalid value: \"{path}\": error converting fieldPath: field label not supported: {path}"
        );
        check_path(path, &[&why]);
    }
    check_path(
        "spec['a']",
        &[
            ".fieldRef.fieldPath: Invalid value: \"spec['a']\": error converting fieldPath: field label does not support \
           subscript: spec['a']",
        ],
    );
    for path in ["metadata.labels", "status.phase"] {
        let why = format!(
            ".fieldRef.fieldPath: Unsupported value: \"{path}\": supported values: \"metadata.name\", \"metadata.namespace\", \
             \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", \"status.hostIP\", \"status.podIP\", \
             \"status.podIPs\""
        );
        check_path(path, &[&why]);
    }
}

#[test]
fn a_subscript_is_a_key_of_labels_or_annotations() {
    for (path, key) in [("metadata.labels['/a']", "/a"), ("metadata.annotations['/A']", "/A")] {
        let why = format!(".fieldRef: Invalid value: \"{key}\": {}", qualified_name_errors("/a")[0]);
        check_source(json!({"fieldRef": {"apiVersion": "v1", "fieldPath": path}}), &[&why]);
    }
    let upper = format!(".fieldRef: Invalid value: \"A/a\": prefix part {OLD_SUBDOMAIN}");
    check_source(json!({"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels['A/a']"}}), &[&upper]);
    check_source(json!({"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.annotations['A/a']"}}), &[]);
}

#[test]
fn a_variable_takes_resources_of_its_container() {
    check_source(json!({"resourceFieldRef": {"resource": "limits.cpu"}}), &[]);
    check_source(json!({"resourceFieldRef": {}}), &[".resourceFieldRef.resource: Required value"]);
    check_source(
        json!({"resourceFieldRef": {"resource": "cpu", "divisor": "7"}}),
        &[".resourceFieldRef.resource: Unsupported value: \"cpu\": supported values: \"limits.cpu\", \
           \"limits.ephemeral-storage\", \"limits.memory\", \"requests.cpu\", \"requests.ephemeral-storage\", \
           \"requests.memory\""],
    );
}

#[test]
fn a_divisor_is_a_unit() {
    let bytes = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";
    for (resource, divisor, error) in [
        ("limits.cpu", json!("0"), None),
        ("limits.cpu", json!("1"), None),
        ("limits.cpu", json!(1), None),
        ("limits.cpu", json!("1000m"), None),
        ("limits.cpu", json!("0.001"), None),
        ("limits.cpu", json!("1k"), Some(("1m and 1", "cpu"))),
        ("requests.cpu", json!(2), Some(("1m and 1", "cpu"))),
        ("limits.memory", json!("1Mi"), None),
        ("limits.memory", json!("1000"), None),
        ("limits.memory", json!("1024"), Some((bytes, "memory"))),
        ("requests.memory", json!("1m"), Some((bytes, "memory"))),
        ("limits.ephemeral-storage", json!("1Ei"), None),
        ("requests.ephemeral-storage", json!("2Gi"), Some((bytes, "local ephemeral storage"))),
    ] {
        let error = error.map(|(supported, what)| {
            format!(
                ".resourceFieldRef.divisor: Invalid value: \"{resource}\": only divisor's values {supported} are supported with \
                 the {what} resource"
            )
        });
        let expected: Vec<_> = error.iter().map(String::as_str).collect();
        check_source(json!({"resourceFieldRef": {"resource": resource, "divisor": divisor}}), &expected);
    }
}

#[test]
fn variables_come_from_one_object() {
    check(json!({"envFrom": [{"prefix": "P_", "configMapRef": {"name": "a"}}, {"secretRef": {"name": "a-"}}]}), &[]);
    check(
        json!({"envFrom": [{"prefix": "1"}]}),
        &[
            &format!("spec.envFrom[0].prefix: Invalid value: \"1\": {}", variable_errors("1")[0]),
            "spec.envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
        ],
    );
    check(
        json!({"envFrom": [{"configMapRef": {}, "secretRef": {"name": "A"}}]}),
        &[
            "spec.envFrom[0].configMapRef.name: Required value",
            &format!("spec.envFrom[0].secretRef.name: Invalid value: \"A\": {OLD_SUBDOMAIN}"),
            "spec.envFrom: Invalid value: \"\": may not have more than one field specified at a time",
        ],
    );
}

#[test]
fn a_mount_has_a_volume_and_a_path_of_its_own() {
    let volumes = json!([{"name": "v", "emptyDir": {}}, {"name": "V", "emptyDir": {}}]);
    let invalid = format!("spec.volumes[1].name: Invalid value: \"V\": {}", label_errors("V")[0]);
    check(
        json!({"volumes": volumes, "volumeMounts": [{"name": "V", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}]}),
        &[
            &invalid,
            "spec.volumeMounts[0].name: Not found: \"V\"",
            "spec.volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique",
        ],
    );
    check(
        json!({"volumeMounts": [{"name": "nope", "mountPath": "/a"}]}),
        &["spec.volumeMounts[0].name: Not found: \"nope\""],
    );
    check(
        json!({"volumeMounts": [{}, {}]}),
        &[
            "spec.volumeMounts[0].name: Required value",
            "spec.volumeMounts[0].name: Not found: \"\"",
            "spec.volumeMounts[0].mountPath: Required value",
            "spec.volumeMounts[1].name: Required value",
            "spec.volumeMounts[1].name: Not found: \"\"",
            "spec.volumeMounts[1].mountPath: Required value",
            "spec.volumeMounts[1].mountPath: Invalid value: \"\": must be unique",
        ],
    );
}

#[test]
fn a_mount_has_one_path_in_the_volume() {
    let check_mount = |fields: Value, expected: &[&str]| {
        let mut mount = json!({"name": "v", "mountPath": "/a"});
        mount.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        check(json!({"volumes": [{"name": "v", "emptyDir": {}}], "volumeMounts": [mount]}), expected);
    };
    check_mount(json!({"subPath": "a/b"}), &[]);
    check_mount(json!({"subPathExpr": "$(A)/b"}), &[]);
    for propagation in ["Bidirectional", "HostToContainer", "None"] {
        check_mount(json!({"mountPropagation": propagation}), &[]);
    }
    check_mount(
        json!({"subPath": "/a/..", "subPathExpr": "/..", "mountPropagation": "x"}),
        &[
            "spec.volumeMounts.subPath: Invalid value: \"/a/..\": must be a relative path",
            "spec.volumeMounts.subPath: Invalid value: \"/a/..\": must not contain '..'",
            "spec.volumeMounts[0].subPathExpr: Invalid value: \"/..\": subPathExpr and subPath are mutually exclusive",
            "spec.volumeMounts.subPathExpr: Invalid value: \"/..\": must be a relative path",
            "spec.volumeMounts.subPathExpr: Invalid value: \"/..\": must not contain '..'",
            "spec.volumeMounts.mountPropagation: Unsupported value: \"x\": supported values: \"Bidirectional\", \
             \"HostToContainer\", \"None\"",
        ],
    );
}
