//! Values that the server sets before it validates a new object (`PrepareForCreate`).

use crate::Object;
use crate::kind::GroupVersionKind;
use serde_json::{Value, json};

/// Sets the selector and the labels of the template of a Job that leaves them to the server (`generateSelector`).
pub fn prepare_for_create(kind: &GroupVersionKind, object: &mut Object) {
    if (kind.group.as_str(), kind.kind.as_str()) != ("batch", "Job") {
        return;
    }
    if object.get(&["spec", "manualSelector"]) == Some(&Value::Bool(true)) {
        return;
    }
    let (name, uid) = (object.name().to_owned(), object.uid().to_owned());
    let labels = ["spec", "template", "metadata", "labels"];
    for (key, value) in [
        ("batch.kubernetes.io/job-name", &name),
        ("job-name", &name),
        ("batch.kubernetes.io/controller-uid", &uid),
        ("controller-uid", &uid),
    ] {
        let path: Vec<&str> = labels.iter().copied().chain([key]).collect();
        if object.get(&path).is_none() {
            let _ = object.set(&path, json!(value));
        }
    }
    let path = ["spec", "selector", "matchLabels", "batch.kubernetes.io/controller-uid"];
    if object.get(&path).is_none() {
        let _ = object.set(&path, json!(uid));
    }
}
