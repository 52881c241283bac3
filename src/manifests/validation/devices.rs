//! Validates the expressions that select devices (`validateCELSelector` of `kubernetes/pkg/apis/resource/validation`).
//!
//! The cost of an expression is not estimated, and an expression with `cel.bind`, which only these expressions may use, is not compiled.

use super::{Faults, items, text};
use crate::cel::environment::{CompileError, Environment, NOT_INSTANTIATED, Table};
use crate::cel::{Release, Type};
use crate::object::Object;
use serde_json::Value;
use std::sync::Arc;

/// `CELSelectorExpressionMaxLength`; a longer expression is refused without being compiled.
const MAX_BYTES: usize = 10 << 10;
const DEVICE: &str = "kubernetes.DRADevice";

fn environment(release: Release) -> Environment {
    let of_domains = |of| Type::map(Type::String, Type::map(Type::String, of));
    let fields = [
        ("driver", Type::String),
        ("attributes", of_domains(Type::Any)),
        ("capacity", of_domains(Type::opaque("kubernetes.Quantity"))),
        ("allowMultipleAllocations", Type::Bool),
    ];
    Environment::of(release, Arc::new(Table::default().with(DEVICE, fields))).variable("device", Type::object(DEVICE))
}

/// The errors that a ResourceClaim, a ResourceClaimTemplate or a DeviceClass has in a release.
pub(super) fn selectors(object: &Object, release: Release) -> Faults {
    let (environment, mut faults) = (environment(release), Faults::default());
    let spec = object.get(&["spec"]).unwrap_or(&Value::Null);
    match object.kind() {
        "DeviceClass" => list(spec, "spec", &environment, &mut faults),
        "ResourceClaimTemplate" => claim(&spec["spec"], "spec.spec", &environment, &mut faults),
        _ => claim(spec, "spec", &environment, &mut faults),
    }
    faults
}

fn claim(spec: &Value, path: &str, environment: &Environment, faults: &mut Faults) {
    for (index, request) in items(&spec["devices"], "requests").iter().enumerate() {
        let path = format!("{path}.devices.requests[{index}]");
        let alternatives = items(request, "firstAvailable");
        // With both, kube-apiserver checks neither.
        match request.get("exactly").filter(|exactly| !exactly.is_null()) {
            Some(exactly) if alternatives.is_empty() => {
                list(exactly, &format!("{path}.exactly"), environment, faults);
            }
            Some(_) => {}
            None => {
                for (index, alternative) in alternatives.iter().enumerate() {
                    list(alternative, &format!("{path}.firstAvailable[{index}]"), environment, faults);
                }
            }
        }
    }
}

fn list(owner: &Value, path: &str, environment: &Environment, faults: &mut Faults) {
    for (index, selector) in items(owner, "selectors").iter().enumerate().take(32) {
        let Some(cel) = selector.get("cel").filter(|cel| !cel.is_null()) else { continue };
        let expression = text(cel, "expression");
        if expression.len() <= MAX_BYTES
            && let Err(CompileError(why)) = compile(expression, environment)
        {
            faults.not_compiled(&format!("{path}.selectors[{index}].cel.expression"), expression, &why);
        }
    }
}

/// `CompileCELExpression` of `k8s.io/dynamic-resource-allocation/cel`
fn compile(expression: &str, environment: &Environment) -> Result<(), CompileError> {
    if expression.contains("cel") {
        return Ok(());
    }
    let checked = environment.check(expression);
    let checked = checked.map_err(|CompileError(why)| CompileError(format!("compilation failed: {why}")))?;
    match checked.output() {
        Type::Bool | Type::Any => {}
        other => {
            let why = format!("must evaluate to bool or the unknown type, not {}", other.declaration());
            return Err(CompileError(why));
        }
    }
    let program = environment.instantiate(&checked);
    debug_assert!(program.as_ref().err().is_none_or(|CompileError(why)| why.starts_with(NOT_INSTANTIATED)));
    program.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(kind: &str, spec: Value) -> Vec<String> {
        let object = json!({"apiVersion": "resource.k8s.io/v1", "kind": kind, "spec": spec});
        selectors(&Object::from_value(object).unwrap(), Release::default()).0
    }

    #[test]
    fn expressions_select_devices() {
        for expression in [
            "true",
            "device.driver == 'd.test'",
            "device.attributes['d.test'].enabled",
            "device.attributes['d.test'].model == 'x' && device.capacity['d.test'].memory.compareTo(quantity('1Gi')) >= 0",
            "device.attributes['d.test'].version.isGreaterThan(semver('1.0.0'))",
            "'d.test' in device.attributes && device.allowMultipleAllocations",
            "cel.bind(dra, device.attributes['d.test'], dra.a && dra.b)",
        ] {
            assert_eq!(
                found("DeviceClass", json!({"selectors": [{"cel": {"expression": expression}}]})),
                [""; 0],
                "{expression}"
            );
        }
    }

    #[test]
    fn what_does_not_compile_is_refused_where_it_stands() {
        let selectors = json!([{"cel": {"expression": "1"}}]);
        let why = "Invalid value: \"1\": must evaluate to bool or the unknown type, not int";
        let requests = json!([{"name": "a", "exactly": {"selectors": selectors}}, {"name": "b", "firstAvailable": [{"selectors": selectors}]}]);
        let claim = json!({"devices": {"requests": requests}});
        for (kind, spec, places) in [
            ("DeviceClass", json!({"selectors": selectors}), vec!["spec.selectors[0]"]),
            (
                "ResourceClaim",
                claim.clone(),
                vec![
                    "spec.devices.requests[0].exactly.selectors[0]",
                    "spec.devices.requests[1].firstAvailable[0].selectors[0]",
                ],
            ),
            (
                "ResourceClaimTemplate",
                json!({"spec": claim}),
                vec![
                    "spec.spec.devices.requests[0].exactly.selectors[0]",
                    "spec.spec.devices.requests[1].firstAvailable[0].selectors[0]",
                ],
            ),
        ] {
            let expected: Vec<String> = places.iter().map(|place| format!("{place}.cel.expression: {why}")).collect();
            assert_eq!(found(kind, spec), expected);
        }
        let [error] = &found("DeviceClass", json!({"selectors": [{"cel": {"expression": "device.other"}}]}))[..] else {
            panic!()
        };
        assert!(error.contains("compilation failed: ERROR: <input>:1:7: undefined field 'other'"), "{error}");
    }
}
