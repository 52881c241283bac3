//! `--allow-privileged=false`: the refusal of privileged containers (`validateSecurityContext`).

use crate::object::Object;
use crate::status::{Cause, invalid};
use serde_json::Value;

/// The causes to refuse an object whose containers, or those of whose pod template, are privileged. `spec` is the path to the pod's spec.
pub(super) fn causes(spec: &[&str], object: &Object) -> Vec<Cause> {
    let mut causes: Vec<Cause> = Vec::new();
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        let containers = object.items(&[spec, &[field]].concat()).iter().enumerate();
        for (at, _) in containers.filter(|(_, container)| is_privileged(container)) {
            let field = format!("{}.{field}[{at}].securityContext.privileged", spec.join("."));
            causes.push(invalid::forbidden(&field, "disallowed by cluster policy"));
        }
    }
    causes
}

fn is_privileged(container: &Value) -> bool {
    container.pointer("/securityContext/privileged") == Some(&Value::Bool(true))
}
