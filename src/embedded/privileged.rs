//! `--allow-privileged=false`: the refusal of privileged containers (`validateSecurityContext`).

use super::catalog::Resource;
use crate::object::Object;
use crate::status::{Cause, Status, invalid};
use serde_json::Value;

/// Refuses an object whose containers are privileged.
///
/// # Errors
/// If a container of the object, or of its pod template, is privileged.
pub(super) fn check(resource: &Resource, object: &Object) -> Result<(), Status> {
    let path: &[&str] = match (&*resource.group, &*resource.name) {
        ("", "pods") => &["spec"],
        ("", "podtemplates") => &["template", "spec"],
        ("", "replicationcontrollers") | ("apps", _) | ("batch", "jobs") => &["spec", "template", "spec"],
        ("batch", "cronjobs") => &["spec", "jobTemplate", "spec", "template", "spec"],
        _ => return Ok(()),
    };
    let mut causes: Vec<Cause> = Vec::new();
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        let containers = object.items(&[path, &[field]].concat()).iter().enumerate();
        for (at, _) in containers.filter(|(_, container)| is_privileged(container)) {
            let field = format!("{}.{field}[{at}].securityContext.privileged", path.join("."));
            causes.push(invalid::forbidden(&field, "disallowed by cluster policy"));
        }
    }
    invalid::status(&resource.gvk(), object.name(), causes).map_or(Ok(()), Err)
}

fn is_privileged(container: &Value) -> bool {
    container.pointer("/securityContext/privileged") == Some(&Value::Bool(true))
}
