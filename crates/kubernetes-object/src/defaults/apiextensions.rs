//! Defaults of custom resource definitions.

use super::fields::{Fields, each, embedded, if_nil, if_zero, is_true, pointer, text};
use serde_json::json;

pub(super) fn apply(kind: &str, object: &mut Fields) {
    if kind != "CustomResourceDefinition" {
        return;
    }
    let Some(spec) = embedded(object, "spec") else { return };
    if let Some(names) = embedded(spec, "names") {
        self::names(names);
    }
    if_nil(spec, "conversion", json!({ "strategy": "None" }));
    pointer(spec, "conversion").map(conversion);
    let stored = each(spec, "versions").find(|version| is_true(version, "storage"));
    let stored = stored.map(|version| text(version, "name").to_owned());
    if let (Some(stored), Some(status)) = (stored, embedded(object, "status")) {
        if_zero(status, "storedVersions", json!([stored]));
    }
}

fn names(names: &mut Fields) {
    let kind = text(names, "kind").to_owned();
    if !kind.is_empty() {
        if_zero(names, "singular", kind.chars().flat_map(char::to_lowercase).collect::<String>());
        if_zero(names, "listKind", kind + "List");
    }
}

fn conversion(conversion: &mut Fields) {
    let Some(webhook) = pointer(conversion, "webhook") else { return };
    if let Some(service) = pointer(webhook, "clientConfig").and_then(|config| pointer(config, "service")) {
        if_nil(service, "port", 443);
    }
}
