//! Validation of the objects of removed APIs, with the rules and texts of the last release that served each API.
//!
//! Of the metadata, only names and the annotations of PodSecurityPolicies are validated here.

mod causes;
mod names;
mod paths;
mod rules;
mod pod_preset;
mod pod_security_policy;
mod initializers;
mod hooks;

use self::causes::Causes;
use super::Api;
use crate::names::mask_trailing_dash;
use crate::object::Object;
use crate::status::Cause;
use serde_json::Value;

/// The errors of a new object of the API, in the order of kube-apiserver's. The object is decoded and defaulted, and has its generated
/// name.
pub(crate) fn validate(api: &Api, object: &Object) -> Vec<Cause> {
    let mut causes = Causes::default();
    match api.kind {
        "PodPreset" => pod_preset::validate(object, &mut causes),
        "PodSecurityPolicy" => pod_security_policy::validate(object, &mut causes),
        "InitializerConfiguration" => initializers::validate(object, &mut causes),
        "ExternalAdmissionHookConfiguration" => hooks::validate(object, &mut causes),
        _ => {}
    }
    causes.0
}

/// The errors of an update. No rule compares the new object with the old one. The strategies of all kinds but PodSecurityPolicy validate
/// the new object twice and return each error twice; only the errors of a PodPreset's name are returned once.
pub(crate) fn validate_update(api: &Api, object: &Object, _old: &Object) -> Vec<Cause> {
    let mut causes = Causes::default();
    match api.kind {
        "PodPreset" => pod_preset::validate_update(object, &mut causes),
        "PodSecurityPolicy" => pod_security_policy::validate_update(object, &mut causes),
        // `initializerConfigurationStrategy.ValidateUpdate` and that of the hooks validate the object twice.
        "InitializerConfiguration" => (0..2).for_each(|_| initializers::validate(object, &mut causes)),
        "ExternalAdmissionHookConfiguration" => (0..2).for_each(|_| hooks::validate(object, &mut causes)),
        _ => {}
    }
    causes.0
}

/// Validates the name, and the prefix of a generated name, with this rule (`ValidateObjectMetaAccessor`).
fn name(object: &Object, rule: fn(&[u8]) -> Vec<String>, causes: &mut Causes) {
    let prefix = object.str(&["metadata", "generateName"]);
    if !prefix.is_empty() {
        causes.invalid_each("metadata.generateName", prefix, rule(&mask_trailing_dash(prefix)));
    }
    match object.name() {
        "" => causes.required("metadata.name", "name or generateName is required"),
        name => causes.invalid_each("metadata.name", name, rule(name.as_bytes())),
    }
}

/// The string in a field; empty if the field is missing.
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    given(value, field).unwrap_or_default()
}

/// The string in an optional field.
fn given<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

/// The integer in an optional field.
fn integer(value: &Value, field: &str) -> Option<i64> {
    value.get(field).and_then(Value::as_i64)
}

/// The structure in an optional field.
fn structure<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    value.get(field).filter(|value| value.is_object())
}

/// The items of a list; empty if the field is missing.
fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The strings in a list.
fn texts<'a>(value: &'a Value, field: &str) -> Vec<&'a str> {
    items(value, field).iter().map(|item| item.as_str().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::GroupVersionKind;
    use crate::removed::{
        EXTERNAL_ADMISSION_HOOK_CONFIGURATIONS, INITIALIZER_CONFIGURATIONS, POD_PRESETS, POD_SECURITY_POLICIES,
    };
    use crate::status::invalid;
    use serde_json::json;

    /// The form of a name in Kubernetes 1.8 to 1.19.
    pub(super) const OLD_SUBDOMAIN: &str = "a DNS-1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
        and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
        '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

    /// The form of a name in Kubernetes 1.24.
    pub(super) const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
        or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
        '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

    pub(super) fn object(value: Value) -> Object {
        Object::from_value(value).unwrap()
    }

    /// Returns causes in the form `FIELD: MESSAGE`, and checks that each has the reason of its message.
    pub(super) fn lines(causes: Vec<Cause>) -> Vec<String> {
        let line = |Cause { reason, message, field }: Cause| {
            let expected = match message.split(':').next().unwrap() {
                "Required value" => "FieldValueRequired",
                "Invalid value" => "FieldValueInvalid",
                "Unsupported value" => "FieldValueNotSupported",
                "Duplicate value" => "FieldValueDuplicate",
                "Not found" => "FieldValueNotFound",
                "Forbidden" => "FieldValueForbidden",
                "Too long" => "FieldValueTooLong",
                other => panic!("{other}"),
            };
            assert_eq!(reason, expected, "{message}");
            format!("{field}: {message}")
        };
        causes.into_iter().map(line).collect()
    }

    /// Checks the errors of a new object.
    #[track_caller]
    pub(super) fn check(api: &Api, value: Value, expected: &[&str]) {
        assert_eq!(lines(validate(api, &object(value.clone()))), expected, "{value}");
    }

    #[test]
    fn names_are_dns_subdomains_in_the_texts_of_their_release() {
        let psp = json!({"fsGroup": {"rule": "RunAsAny"}, "runAsUser": {"rule": "RunAsAny"}, "seLinux": {"rule": "RunAsAny"},
            "supplementalGroups": {"rule": "RunAsAny"}});
        for (api, spec, form) in [
            (&POD_PRESETS, json!({"env": []}), OLD_SUBDOMAIN),
            (&POD_SECURITY_POLICIES, psp, SUBDOMAIN),
            (&INITIALIZER_CONFIGURATIONS, json!({}), OLD_SUBDOMAIN),
            (&EXTERNAL_ADMISSION_HOOK_CONFIGURATIONS, json!({}), OLD_SUBDOMAIN),
        ] {
            let new = |metadata: Value| json!({"metadata": metadata, "spec": spec});
            check(api, new(json!({"name": "a.b"})), &[]);
            check(api, new(json!({"name": "a-b", "generateName": "a-"})), &[]);
            check(api, new(json!({})), &["metadata.name: Required value: name or generateName is required"]);
            let upper = format!("metadata.name: Invalid value: \"A\": {form}");
            check(api, new(json!({"name": "A"})), &[&upper]);
            let long = "a".repeat(254);
            let too_long = format!("metadata.name: Invalid value: \"{long}\": must be no more than 253 characters");
            check(api, new(json!({"name": long})), &[&too_long]);
            let prefix = format!("metadata.generateName: Invalid value: \"B_\": {form}");
            check(api, new(json!({"name": "a", "generateName": "B_"})), &[&prefix]);
        }
    }

    #[test]
    fn an_update_has_errors_twice_where_the_strategy_validates_twice() {
        let twice = |api: &Api, value: Value| {
            let object = object(value);
            let (new, update) = (validate(api, &object), validate_update(api, &object, &object));
            assert_eq!(update, [new.clone(), new.clone()].concat());
            new.len()
        };
        assert_eq!(twice(&INITIALIZER_CONFIGURATIONS, json!({"metadata": {"name": "A"}, "initializers": [{}]})), 2);
        let hooks = json!({"metadata": {"name": "A"}, "externalAdmissionHooks": [{}]});
        assert_eq!(twice(&EXTERNAL_ADMISSION_HOOK_CONFIGURATIONS, hooks), 2);
        assert_eq!(twice(&POD_PRESETS, json!({"metadata": {"name": "a"}})), 1);

        let invalid = object(json!({"metadata": {"name": "A"}}));
        let errors = lines(validate_update(&POD_PRESETS, &invalid, &invalid));
        let fields: Vec<_> = errors.iter().map(|line| line.split(':').next().unwrap()).collect();
        let spec = "spec.volumes.env.envFrom.volumeMounts";
        assert_eq!(fields, ["metadata.name", spec, spec]);
        let new = validate(&POD_SECURITY_POLICIES, &invalid);
        assert_eq!(validate_update(&POD_SECURITY_POLICIES, &invalid, &invalid), new[1..]);
    }

    #[test]
    fn the_message_of_the_status_names_kind_and_group() {
        for (api, value, expected) in [
            (
                &POD_PRESETS,
                json!({"metadata": {"name": "empty"}}),
                "PodPreset.settings.k8s.io \"empty\" is invalid: spec.volumes.env.envFrom.volumeMounts: Required value: must \
                 specify at least one",
            ),
            (
                &INITIALIZER_CONFIGURATIONS,
                json!({"metadata": {"name": "v13"}, "initializers": [{}]}),
                "InitializerConfiguration.admissionregistration.k8s.io \"v13\" is invalid: initializers[0].name: Required value",
            ),
        ] {
            let object = object(value);
            for causes in [validate(api, &object), validate_update(api, &object, &object)] {
                let kind = GroupVersionKind::new(api.group, api.version, api.kind);
                assert_eq!(invalid::status(&kind, object.name(), causes).unwrap().message, expected);
            }
        }
    }

    #[test]
    fn values_of_wrong_types_count_as_missing() {
        for api in
            [&POD_PRESETS, &POD_SECURITY_POLICIES, &INITIALIZER_CONFIGURATIONS, &EXTERNAL_ADMISSION_HOOK_CONFIGURATIONS]
        {
            let missing = lines(validate(api, &object(json!({}))));
            for wrong in [json!(null), json!(1), json!("x"), json!(true), json!([]), json!({})] {
                let whole = json!({"metadata": wrong, "spec": wrong});
                assert_eq!(lines(validate(api, &object(whole))), missing, "{} {wrong}", api.kind);
            }
            for wrong in [json!(null), json!(1), json!("x"), json!(true), json!({})] {
                let whole = json!({"initializers": wrong, "externalAdmissionHooks": wrong});
                assert_eq!(lines(validate(api, &object(whole))), missing, "{} {wrong}", api.kind);
            }
        }
    }
}
