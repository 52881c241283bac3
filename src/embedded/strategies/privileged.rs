//! `--allow-privileged=false`: the refusal of privileged containers (`validateSecurityContext`).

use crate::embedded::api::catalog::ServedResource;
use crate::object::Object;
use crate::status::{Cause, invalid};
use serde_json::Value;

/// The causes to refuse an object whose containers, or those of whose pod template, are privileged.
pub(in crate::embedded) fn causes(resource: &ServedResource, object: &Object) -> Vec<Cause> {
    let path: &[&str] = match (&*resource.group, &*resource.name) {
        ("", "pods") => &["spec"],
        ("", "podtemplates") => &["template", "spec"],
        ("", "replicationcontrollers") | ("apps", _) | ("batch", "jobs") => &["spec", "template", "spec"],
        ("batch", "cronjobs") => &["spec", "jobTemplate", "spec", "template", "spec"],
        _ => return Vec::new(),
    };
    let mut causes: Vec<Cause> = Vec::new();
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        let containers = object.items(&[path, &[field]].concat()).iter().enumerate();
        for (at, _) in containers.filter(|(_, container)| is_privileged(container)) {
            let field = format!("{}.{field}[{at}].securityContext.privileged", path.join("."));
            causes.push(invalid::forbidden(&field, "disallowed by cluster policy"));
        }
    }
    causes
}

fn is_privileged(container: &Value) -> bool {
    container.pointer("/securityContext/privileged") == Some(&Value::Bool(true))
}
