//! Policies and their bindings from a folder (`policy/manifest/loader`).
//!
//! What takes compiling is asked of the caller, who compiles.

use super::set::Rules;
use super::validation::policy::{binding, policy};
use super::{LoadError, Loaded, SUFFIX, Set};
use crate::object::Object;
use crate::object::decode::go_quote;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// A kind of policy, and the kind of its bindings.
pub trait Policy: DeserializeOwned {
    /// Its bindings.
    type Binding: DeserializeOwned;
    /// Both kinds, the policy's first.
    const KINDS: &'static [&'static str];
}

impl Policy for ValidatingAdmissionPolicy {
    type Binding = ValidatingAdmissionPolicyBinding;
    const KINDS: &'static [&'static str] = &["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"];
}

impl Policy for MutatingAdmissionPolicy {
    type Binding = MutatingAdmissionPolicyBinding;
    const KINDS: &'static [&'static str] = &["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"];
}

/// What a folder of policies holds; each list is sorted by name.
#[derive(Debug)]
pub struct Policies<P: Policy> {
    /// The policies.
    pub policies: Arc<Vec<Arc<P>>>,
    /// Their bindings.
    pub bindings: Arc<Vec<Arc<P::Binding>>>,
}

/// Whether policies from files may have parameters. kube-apiserver forbids them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parameters {
    /// `paramKind` and `paramRef` are errors.
    #[default]
    Forbidden,
    /// They are as those of policies from the API.
    Allowed,
}

/// Reads the policies and bindings of a folder. `compile` says what is wrong with the expressions of an
/// object of a kind, as `field: text`.
///
/// # Errors
/// At the first thing that is wrong in it; also when a binding's policy is not there.
pub fn load<P: Policy>(
    folder: &Path,
    parameters: Parameters,
    compile: impl Fn(&str, &Object) -> Vec<String>,
) -> Result<Loaded<Policies<P>>, LoadError> {
    let [policies, bindings] = P::KINDS else { return Err(LoadError("a policy has two kinds".into())) };
    let validate = |kind: &str, object: &Object| {
        let mut faults = if kind == *policies { policy(kind, object).0 } else { binding(kind, object).0 };
        faults.extend(compile(kind, object));
        faults
    };
    let constrain = |kind: &str, object: &Object, _: &Path| constrain(kind, object, kind == *policies, parameters);
    let mut set = Set::load(folder, &Rules { kinds: P::KINDS, validate: &validate, constrain: &constrain })?;
    let names: BTreeSet<&str> = set.objects(policies).map(Object::name).collect();
    for binding in set.objects(bindings) {
        let (name, policy) = (go_quote(binding.name()), binding.str(&["spec", "policyName"]));
        if !names.contains(policy) {
            let policy = go_quote(policy);
            let why =
                format!("binding {name} references policy {policy} which does not exist in the manifest directory");
            return Err(LoadError(why));
        }
    }
    let value = Arc::new(Policies { policies: set.take(policies)?, bindings: set.take(bindings)? });
    Ok(Loaded { value, hash: set.hash().to_owned() })
}

/// `validatePolicyManifestConstraints`
fn constrain(kind: &str, object: &Object, is_policy: bool, parameters: Parameters) -> Result<(), String> {
    let name = go_quote(object.name());
    let has = |field: &str| object.get(&["spec", field]).is_some_and(|value| !value.is_null());
    let forbidden = parameters == Parameters::Forbidden;
    if is_policy {
        return match forbidden && has("paramKind") {
            true => Err(format!("{kind} {name}: spec.paramKind is not supported for static manifests")),
            false => Ok(()),
        };
    }
    let policy = object.str(&["spec", "policyName"]);
    if policy.is_empty() {
        return Err(format!("binding {name} must reference a policy (spec.policyName)"));
    }
    if !policy.ends_with(SUFFIX) {
        return Err(format!("binding {name}: spec.policyName {} must end with {SUFFIX:?}", go_quote(policy)));
    }
    if forbidden && has("paramRef") {
        return Err(format!("binding {name}: spec.paramRef is not supported for static manifests"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn object(kind: &str, name: &str, spec: &Value) -> Value {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
    }

    fn validating(spec: Value) -> Value {
        let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
        let mut whole = json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]});
        for (field, value) in spec.as_object().unwrap() {
            whole[field] = value.clone();
        }
        object("ValidatingAdmissionPolicy", "p.static.k8s.io", &whole)
    }

    fn binding(spec: &Value) -> Value {
        object("ValidatingAdmissionPolicyBinding", "b.static.k8s.io", spec)
    }

    fn read(objects: &[Value], parameters: Parameters) -> Result<(usize, usize), String> {
        let folder = tempfile::tempdir().unwrap();
        for (index, object) in objects.iter().enumerate() {
            std::fs::write(folder.path().join(format!("{index}.json")), object.to_string()).unwrap();
        }
        let compile = |_: &str, object: &Object| {
            let is_broken = object.items(&["spec", "validations"]).iter().any(|one| one["expression"] == "broken");
            is_broken.then(|| "spec.validations[0].expression: broken".to_owned()).into_iter().collect()
        };
        let found = load::<ValidatingAdmissionPolicy>(folder.path(), parameters, compile);
        let place = format!("{}/", folder.path().display());
        found
            .map(|Loaded { value, .. }| (value.policies.len(), value.bindings.len()))
            .map_err(|error| error.0.replace(&place, ""))
    }

    #[test]
    fn policies_and_bindings_are_read_together() {
        let bound = binding(&json!({"policyName": "p.static.k8s.io", "validationActions": ["Deny"]}));
        assert_eq!(read(&[bound.clone(), validating(json!({}))], Parameters::Forbidden), Ok((1, 1)));
        let missing = "binding \"b.static.k8s.io\" references policy \"p.static.k8s.io\" which does not exist in the manifest directory";
        assert_eq!(read(&[bound], Parameters::Forbidden), Err(missing.to_owned()));
    }

    #[test]
    fn what_only_the_api_may_have_is_refused_unless_it_is_allowed() {
        let parameters = validating(json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}));
        let text = "error loading 0.json: ValidatingAdmissionPolicy \"p.static.k8s.io\": spec.paramKind is not supported for static manifests";
        assert_eq!(read(std::slice::from_ref(&parameters), Parameters::Forbidden), Err(text.to_owned()));
        assert_eq!(read(&[parameters], Parameters::Allowed), Ok((1, 0)));
        for (spec, fault) in [
            (
                json!({"policyName": "p", "validationActions": ["Deny"]}),
                "binding \"b.static.k8s.io\": spec.policyName \"p\" must end with \".static.k8s.io\"",
            ),
            (
                json!({"policyName": "p.static.k8s.io", "validationActions": ["Deny"], "paramRef": {"name": "x"}}),
                "binding \"b.static.k8s.io\": spec.paramRef is not supported for static manifests",
            ),
            (
                json!({"validationActions": ["Deny", "Warn", "X"]}),
                "ValidatingAdmissionPolicyBinding \"b.static.k8s.io\": [spec.policyName: Required value, \
                 spec.validationActions[2]: Unsupported value: \"X\": supported values: \"Audit\", \"Deny\", \"Warn\", \
                 spec.validationActions: Invalid value: [\"Deny\",\"Warn\",\"X\"]: must not contain both Deny and Warn \
                 (repeating the same validation failure information in the API response and headers serves no purpose)]",
            ),
        ] {
            assert_eq!(read(&[binding(&spec)], Parameters::Forbidden), Err(format!("error loading 0.json: {fault}")));
        }
    }

    #[test]
    fn what_the_compiler_says_is_said() {
        let text = "error loading 0.json: ValidatingAdmissionPolicy \"p.static.k8s.io\": spec.validations[0].expression: broken";
        let broken = validating(json!({"validations": [{"expression": "broken"}]}));
        assert_eq!(read(&[broken], Parameters::Forbidden), Err(text.to_owned()));
    }
}
