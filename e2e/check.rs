//! `check`: manifests are admitted without a cluster as kube-apiserver admits them.

use crate::harness::{ControlPlane, User, patch, post};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// The exit code and the output of `check` with files of these names and contents.
fn check(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kube-admission-proxy"));
    let output = command.arg("check").args(arguments).current_dir(folder).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.code(), text)
}

fn write(folder: &Path, name: &str, objects: &[Value]) {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    std::fs::write(folder.join(name), texts.join("\n---\n")).unwrap();
}

fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    pod
}

/// Manifests that kube-apiserver accepts or refuses for different reasons, in the namespace `checked`.
fn manifests(namespace: &str) -> Vec<Value> {
    let deployment = |name: &str, spec: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let selector = json!({"matchLabels": {"a": "b"}});
    let other = json!({"matchLabels": {"a": "c"}});
    let mut all = vec![
        pod("good", &json!({})),
        pod("privileged", &json!({"hostNetwork": true})),
        pod("typo", &json!({"nodename": "n"})),
        pod("without-containers", &json!({"containers": []})),
        pod("of-no-class", &json!({"priorityClassName": "none"})),
        pod("of-no-account", &json!({"serviceAccountName": "none"})),
        pod("wrong-type", &json!({"nodeName": 1})),
        deployment("fits", json!({"selector": selector, "template": template})),
        deployment("differs", json!({"selector": other, "template": template})),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Upper"}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 0}]}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t"}, "type": "kubernetes.io/tls"}),
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": {"schedule": "x", "jobTemplate": {"spec": {"template": template}}}}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "i"}, "spec": {}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}}),
    ];
    for object in &mut all {
        object["metadata"]["namespace"] = json!(namespace);
    }
    all
}

fn path_of(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let root = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
    let namespace = object["metadata"]["namespace"].as_str().unwrap();
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let plural = if kind == "ingress" { "ingresses".to_owned() } else { format!("{kind}s") };
    format!("{root}/namespaces/{namespace}/{plural}?fieldValidation=Strict")
}

#[test]
fn verdicts_and_texts_are_those_of_kube_apiserver() {
    // The plugins that are on by default.
    let server = ControlPlane::start("check-verdicts", &[]);
    let namespace = server.namespace("checked");
    let account = json!({"metadata": {"name": "default"}});
    server.accepts(post(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &account));
    let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}});
    server.accepts(patch(&format!("/api/v1/namespaces/{namespace}"), "merge", &labels));
    let folder = tempfile::tempdir().unwrap();
    let all = manifests(&namespace);
    let of_namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels["metadata"]["labels"]}});
    write(folder.path(), "all.yaml", &all);
    write(folder.path(), "namespace.yaml", &[of_namespace]);
    let (code, text) = check(folder.path(), &["namespace.yaml", "all.yaml", "--expand=false", "-o", "json"]);
    assert_eq!(code, Some(1), "{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    let objects = &report["objects"].as_array().unwrap()[1..];
    assert_eq!(objects.len(), all.len(), "{text}");
    for (object, found) in all.iter().zip(objects) {
        let answer = server.send(&User::admin(), post(&path_of(object), object));
        let errors = found["findings"].as_array().unwrap().iter().filter(|finding| finding["level"] == "error");
        let errors: Vec<(&Value, &Value)> = errors.map(|finding| (&finding["code"], &finding["message"])).collect();
        match answer.status {
            201 => assert!(errors.is_empty(), "{object}: {errors:?}"),
            code => assert_eq!(errors, [(&json!(code), &answer.json()["message"])], "{object}"),
        }
    }
}

#[test]
fn policies_quotas_and_definitions_among_the_files_have_an_effect() {
    let folder = tempfile::tempdir().unwrap();
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "replicas"},
        "spec": {
            "matchConstraints": {"resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}]},
            "validations": [{"expression": "object.spec.replicas <= 3", "message": "too many replicas"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "replicas"},
        "spec": {"policyName": "replicas", "validationActions": ["Deny"]},
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {"size": {"type": "integer", "maximum": 3}}},
            }}}}],
        },
    });
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "shop"}, "spec": {"hard": {"pods": "1"}}});
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "shop"}, "spec": {"size": 4}});
    let unknown = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "shop"},
        "spec": {"replicas": 4, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    });
    let mut small = deployment.clone();
    small["metadata"]["name"] = json!("small");
    small["spec"]["replicas"] = json!(2);
    small["spec"]["template"]["spec"]["priorityClassName"] = json!("none");
    let in_shop = |name: &str| {
        let mut pod = pod(name, &json!({}));
        pod["metadata"]["namespace"] = json!("shop");
        pod
    };
    write(folder.path(), "config.yaml", &[policy, binding, definition, quota]);
    write(folder.path(), "shop.yaml", &[deployment, small, in_shop("one"), in_shop("two"), widget, unknown]);
    let (code, text) = check(folder.path(), &["config.yaml", "shop.yaml"]);
    assert_eq!(code, Some(1), "{text}");
    let expected = "\
shop.yaml: Deployment \"d\"
  error: deployments.apps \"d\" is forbidden: ValidatingAdmissionPolicy 'replicas' with binding 'replicas' denied request: too many replicas
shop.yaml: Deployment \"small\"
  error: pod of Deployment \"small\": pods \"small-0-0\" is forbidden: no PriorityClass with name none was found
shop.yaml: Pod \"one\"
shop.yaml: Pod \"two\"
  error: pods \"two\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1
shop.yaml: Widget \"w\"
  error: Widget.example.com \"w\" is invalid: spec.size: Invalid value: 4: spec.size in body should be less than or equal to 3
shop.yaml: Gadget \"g\"
  not checked: the kind is neither built in nor defined by a CustomResourceDefinition among the files
";
    assert!(text.contains(expected), "{text}");
    // Nothing is left behind.
    let left = std::fs::read_dir(std::env::temp_dir()).unwrap();
    let left: Vec<_> = left
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("kube-admission-proxy-check"))
        .collect();
    assert!(left.len() < 4, "{left:?}");
}

#[test]
fn a_check_has_a_user_an_operation_and_a_state() {
    let folder = tempfile::tempdir().unwrap();
    let old = pod("p", &json!({}));
    let mut new = old.clone();
    new["spec"]["containers"][0]["name"] = json!("other");
    write(folder.path(), "old.yaml", std::slice::from_ref(&old));
    write(folder.path(), "new.yaml", &[new]);
    let (code, text) = check(folder.path(), &["new.yaml", "--operation=update", "--state=old.yaml"]);
    assert!(code == Some(1) && text.contains("pod updates may not change fields other than"), "{text}");
    let (code, text) = check(folder.path(), &["new.yaml", "--operation=update"]);
    assert!(code == Some(0) && text.contains("not checked: an update needs the object before it"), "{text}");
    let (code, text) = check(folder.path(), &["old.yaml", "--operation=delete"]);
    assert_eq!(code, Some(0), "{text}");
    // A user without rights is refused if roles decide.
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r", "namespace": "default"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]});
    let subject = json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "team"});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "r", "namespace": "default"}, "subjects": [subject], "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}});
    write(folder.path(), "roles.yaml", &[role, binding]);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    write(folder.path(), "both.yaml", &[old, map]);
    let arguments = ["both.yaml", "--state=roles.yaml", "--as=alice", "--as-group=team", "--authorization-mode=RBAC"];
    let (code, text) = check(folder.path(), &arguments);
    let expected = "\
both.yaml: Pod \"p\"
  error: pods is forbidden: User \"alice\" cannot create resource \"pods\" in API group \"\" in the namespace \"default\"
both.yaml: ConfigMap \"c\"
2 objects, 1 error, 0 warnings
";
    assert_eq!((code, text.as_str()), (Some(1), expected));
}
