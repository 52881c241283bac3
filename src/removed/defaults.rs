//! Defaults of the removed kinds.

use super::Api;
use crate::kind::GroupVersionKind;
use crate::object::{Object, normal};
use serde_json::{Value, json};

/// Sets the defaults of a decoded object (`SetObjectDefaults_…`).
pub(crate) fn set_defaults(api: &Api, object: &mut Object) {
    match api.kind {
        "PodPreset" => set_preset_defaults(object),
        "PodSecurityPolicy" => {
            let allowed = ["spec", "allowPrivilegeEscalation"];
            if object.get(&["spec"]).is_some_and(Value::is_object) && object.get(&allowed).is_none() {
                let _ = object.set(&allowed, Value::Bool(true));
            }
        }
        "ExternalAdmissionHookConfiguration" => {
            let hooks = object.get_mut(&["externalAdmissionHooks"]).and_then(Value::as_array_mut);
            for hook in hooks.into_iter().flatten().filter_map(Value::as_object_mut) {
                hook.entry("failurePolicy").or_insert_with(|| Value::from("Ignore"));
            }
        }
        _ => {}
    }
}

/// Sets the defaults of a preset's environment and volumes: those that a pod with them gets.
fn set_preset_defaults(object: &mut Object) {
    const OF_CONTAINER: [&str; 3] = ["env", "envFrom", "volumeMounts"];
    let mut container = json!({"name": "c"});
    let mut pod = json!({"spec": {}});
    for (field, target) in OF_CONTAINER.iter().map(|field| (*field, true)).chain([("volumes", false)]) {
        let Some(value) = object.get(&["spec", field]).cloned() else { continue };
        let into =
            if target { container.as_object_mut() } else { pod.pointer_mut("/spec").and_then(Value::as_object_mut) };
        into.map(|fields| fields.insert(field.to_owned(), value));
    }
    if let Some(spec) = pod.pointer_mut("/spec").and_then(Value::as_object_mut) {
        spec.insert("containers".to_owned(), Value::Array(vec![container]));
    }
    let kind = GroupVersionKind::new("", "v1", "Pod");
    // A preset of wrong types stays as it is, and fails the validation.
    let Some(Ok(normal)) = normal::built_in(&kind, pod) else { return };
    let pod = normal.object.into_value();
    for field in OF_CONTAINER {
        if let Some(value) = pod.pointer(&format!("/spec/containers/0/{field}")) {
            let _ = object.set(&["spec", field], value.clone());
        }
    }
    if let (Some(volumes), true) = (pod.pointer("/spec/volumes"), object.get(&["spec", "volumes"]).is_some()) {
        let _ = object.set(&["spec", "volumes"], volumes.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_gets_the_defaults_of_a_pod() {
        let spec = json!({
            "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "x"}}],
        });
        let mut preset = Object::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap();
        set_defaults(&super::super::POD_PRESETS, &mut preset);
        let expected = json!({
            "env": [{"name": "IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}],
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "s", "secret": {"secretName": "x", "defaultMode": 420}}],
        });
        assert_eq!(preset.get(&["spec"]), Some(&expected));
        let mut wrong = Object::from_value(json!({"spec": {"env": 1}})).unwrap();
        set_defaults(&super::super::POD_PRESETS, &mut wrong);
        assert_eq!(wrong.get(&["spec"]), Some(&json!({"env": 1})));
    }

    #[test]
    fn policies_and_hooks_get_their_defaults() {
        let of = |api, value| {
            let mut object = Object::from_value(value).unwrap();
            set_defaults(api, &mut object);
            object.into_value()
        };
        let policy = of(&super::super::POD_SECURITY_POLICIES, json!({"spec": {}}));
        assert_eq!(policy, json!({"spec": {"allowPrivilegeEscalation": true}}));
        let hooks = of(
            &super::super::EXTERNAL_ADMISSION_HOOK_CONFIGURATIONS,
            json!({"externalAdmissionHooks": [{"name": "a"}]}),
        );
        assert_eq!(hooks["externalAdmissionHooks"][0]["failurePolicy"], "Ignore");
    }
}
