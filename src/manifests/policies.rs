//! Loads policies and their bindings from a folder (`policy/manifest/loader`).

use super::set::Rules;
use super::validation::policy::{binding, policy};
use super::{LoadError, Loaded, SUFFIX, Set};
use crate::cel::Release;
use crate::config::PolicyParameters;
use crate::go_text::go_quote;
use crate::object::Object;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// A kind of policy, and the kind of its bindings.
pub(crate) trait Policy: DeserializeOwned {
    /// The type of the bindings.
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

/// The policies and bindings of a folder, each list sorted by name.
#[derive(Debug)]
pub(crate) struct Policies<P: Policy> {
    pub(crate) policies: Arc<Vec<Arc<P>>>,
    /// Their bindings.
    pub(crate) bindings: Arc<Vec<Arc<P::Binding>>>,
}

/// Reads the policies and bindings of a folder. Their expressions follow the rules of a release.
///
/// # Errors
/// If the folder or an object is invalid, or a binding names a policy that the folder lacks. Loading stops at the first error.
pub(crate) fn load<P: Policy>(
    folder: &Path,
    parameters: PolicyParameters,
    release: Release,
) -> Result<Loaded<Policies<P>>, LoadError> {
    let [policies, bindings] = P::KINDS else { return Err(LoadError::Invalid("a policy has two kinds".into())) };
    let validate = |kind: &str, object: &Object| match kind == *policies {
        true => policy(kind, object, release).0,
        false => binding(kind, object).0,
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
            return Err(LoadError::Invalid(why));
        }
    }
    let value = Arc::new(Policies { policies: set.take(policies)?, bindings: set.take(bindings)? });
    Ok(Loaded { value, hash: set.hash().to_owned() })
}

/// `validatePolicyManifestConstraints`
fn constrain(kind: &str, object: &Object, is_policy: bool, parameters: PolicyParameters) -> Result<(), LoadError> {
    let name = go_quote(object.name());
    let has = |field: &str| object.get(&["spec", field]).is_some_and(|value| !value.is_null());
    let forbidden = parameters == PolicyParameters::Forbidden;
    if is_policy {
        return match forbidden && has("paramKind") {
            true => {
                Err(LoadError::Invalid(format!("{kind} {name}: spec.paramKind is not supported for static manifests")))
            }
            false => Ok(()),
        };
    }
    let policy = object.str(&["spec", "policyName"]);
    if policy.is_empty() {
        return Err(LoadError::Invalid(format!("binding {name} must reference a policy (spec.policyName)")));
    }
    if !policy.ends_with(SUFFIX) {
        return Err(LoadError::Invalid(format!(
            "binding {name}: spec.policyName {} must end with {SUFFIX:?}",
            go_quote(policy)
        )));
    }
    if forbidden && has("paramRef") {
        return Err(LoadError::Invalid(format!("binding {name}: spec.paramRef is not supported for static manifests")));
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

    fn read(objects: &[Value], parameters: PolicyParameters) -> Result<(usize, usize), String> {
        let folder = tempfile::tempdir().unwrap();
        for (index, object) in objects.iter().enumerate() {
            std::fs::write(folder.path().join(format!("{index}.json")), object.to_string()).unwrap();
        }
        let found = load::<ValidatingAdmissionPolicy>(folder.path(), parameters, Release::default());
        let place = format!("{}/", folder.path().display());
        found
            .map(|Loaded { value, .. }| (value.policies.len(), value.bindings.len()))
            .map_err(|error| error.to_string().replace(&place, ""))
    }

    #[test]
    fn policies_and_bindings_are_read_together() {
        let bound = binding(&json!({"policyName": "p.static.k8s.io", "validationActions": ["Deny"]}));
        assert_eq!(read(&[bound.clone(), validating(json!({}))], PolicyParameters::Forbidden), Ok((1, 1)));
        let missing = "binding \"b.static.k8s.io\" references policy \"p.static.k8s.io\" which does not exist in the manifest directory";
        assert_eq!(read(&[bound], PolicyParameters::Forbidden), Err(missing.to_owned()));
    }

    #[test]
    fn parameters_are_refused_unless_they_are_allowed() {
        let parameters = validating(json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}));
        let text = "error loading 0.json: ValidatingAdmissionPolicy \"p.static.k8s.io\": spec.paramKind is not supported for static manifests";
        assert_eq!(read(std::slice::from_ref(&parameters), PolicyParameters::Forbidden), Err(text.to_owned()));
        assert_eq!(read(&[parameters], PolicyParameters::Allowed), Ok((1, 0)));
        for (spec, fault) in [
            (
                json!({"policyName": "p", "validationActions": ["Deny"]}),
                "binding \"b.static.k8s.io\": spec.policyName \"p\" must end with \".static.k8s.io\"",
            ),
            (
                json!({"policyName": "p.static.k8s.io", "validationActions": ["Deny"],
                    "paramRef": {"name": "x", "parameterNotFoundAction": "Deny"}}),
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
            assert_eq!(
                read(&[binding(&spec)], PolicyParameters::Forbidden),
                Err(format!("error loading 0.json: {fault}"))
            );
        }
    }

    #[test]
    fn errors_name_the_expression_that_does_not_compile() {
        let fault = |spec: Value| {
            let why = read(&[validating(spec)], PolicyParameters::Forbidden).unwrap_err();
            let before = "error loading 0.json: ValidatingAdmissionPolicy \"p.static.k8s.io\": ";
            why.strip_prefix(before).unwrap_or_else(|| panic!("{why}")).to_owned()
        };
        let conditions = |expression: &str| json!({"matchConditions": [{"name": "c", "expression": expression}]});
        let validations = |validation: Value| json!({ "validations": [validation] });
        for (spec, field) in [
            (conditions("x"), "spec.matchConditions[0].expression: Invalid value: \"x\": compilation failed: "),
            (conditions("1"), "spec.matchConditions[0].expression: Invalid value: \"1\": must evaluate to bool"),
            (
                conditions("int('x') == 1"),
                "spec.matchConditions[0].expression: Internal error: program instantiation failed: type conversion error from",
            ),
            (
                json!({"variables": [{"name": "if", "expression": "1 +"}]}),
                "[spec.variables[0].name: Invalid value: \"if\": must be a valid CEL identifier, \
                 spec.variables[0].expression: Invalid value: \"1 +\": compilation failed: ",
            ),
            (
                validations(json!({"expression": "variables.a"})),
                "spec.validations[0].expression: Invalid value: \"variables.a\": compilation failed: ERROR: <input>:1:1: \
                 undeclared reference to 'variables'",
            ),
            (
                validations(json!({"expression": "true", "messageExpression": "authorizer"})),
                "spec.validations[0].messageExpression: Invalid value: \"authorizer\": compilation failed: ",
            ),
            (
                validations(json!({"expression": "true", "message": "a\nb", "reason": "X"})),
                "[spec.validations[0].message: Invalid value: \"a\\nb\": must not contain line breaks, \
                 spec.validations[0].reason: Unsupported value: \"X\": supported values: \"Forbidden\", \"Invalid\", ",
            ),
            (
                json!({"auditAnnotations": [{"key": "k", "valueExpression": " 1 "}]}),
                "spec.auditAnnotations[0].valueExpression: Invalid value: \" 1 \": must evaluate to one of [string null_type] but got int",
            ),
        ] {
            let why = fault(spec);
            assert!(why.starts_with(field), "{why}\n{field}");
        }
    }

    #[test]
    fn mutations_are_of_one_type_and_for_operations_with_an_object() {
        let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]});
        let spec = json!({"matchConstraints": {"resourceRules": [rule]}, "mutations": [
            {"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}, "applyConfiguration": {"expression": ""}},
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "1"}}, {"patchType": "X"}]});
        let folder = tempfile::tempdir().unwrap();
        let policy = object("MutatingAdmissionPolicy", "p.static.k8s.io", &spec);
        std::fs::write(folder.path().join("a.json"), policy.to_string()).unwrap();
        let why = load::<MutatingAdmissionPolicy>(folder.path(), PolicyParameters::Forbidden, Release::default());
        let why = why.unwrap_err().to_string();
        for fault in [
            "spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", ",
            "spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified when patchType is JSONPatch",
            "spec.mutations[1].applyConfiguration.expression: Invalid value: \"1\": must evaluate to Object but got int",
            "spec.mutations[2].patchType: Unsupported value: \"X\": supported values: \"ApplyConfiguration\", \"JSONPatch\"",
            "spec.reinvocationPolicy: Required value",
        ] {
            assert!(why.contains(fault), "{why}\n{fault}");
        }
    }
}
