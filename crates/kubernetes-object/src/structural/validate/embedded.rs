//! Resources within resources: their type and metadata (`objectmeta.Validate`).

use super::node::{Additional, Id, Node};
use super::walk::Found;
use crate::names::dns_1035_label_errors;
use crate::object_meta;
use crate::status::fault;
use crate::status::{Cause, invalid};
use crate::structural::metadata;
use serde_json::{Map, Value};

/// The errors of the resources within a value. The value itself is one if `is_resource`, or if the schema says so.
pub(super) fn check(nodes: &[Node], id: Id, value: &Value, is_resource: bool, path: &str) -> Vec<Cause> {
    let mut checker = Checker { nodes, path: path.to_owned(), found: Found::default() };
    checker.value(id, value, is_resource);
    checker.found.into_causes("")
}

struct Checker<'a> {
    nodes: &'a [Node],
    path: String,
    found: Found,
}

impl Checker<'_> {
    fn value(&mut self, id: Id, value: &Value, is_resource: bool) {
        let node = usize::try_from(id).ok().and_then(|id| self.nodes.get(id));
        let Some(node) = node.filter(|_| !self.found.is_full()) else { return };
        match value {
            Value::Object(fields) => {
                if is_resource || node.is_embedded {
                    let mut causes = Vec::new();
                    resource(fields, &self.path, &mut causes);
                    self.found.extend(causes);
                }
                if !node.has_extensions {
                    return;
                }
                for (key, value) in fields {
                    let length = self.path.len();
                    let id = match (node.property(key), node.additional) {
                        (Some(id), _) => {
                            self.path.extend([if length > 0 { "." } else { "" }, key]);
                            id
                        }
                        (None, Additional::Of(id)) => {
                            self.path.extend(["[", key, "]"]);
                            id
                        }
                        (None, Additional::Any | Additional::None) => continue,
                    };
                    self.value(id, value, false);
                    self.path.truncate(length);
                }
            }
            Value::Array(items) => {
                let Some(id) = node.items.filter(|_| node.has_extensions) else { return };
                for (index, item) in items.iter().enumerate() {
                    let length = self.path.len();
                    self.path.push_str(&format!("[{index}]"));
                    self.value(id, item, false);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }
}

/// `validateEmbeddedResource`
fn resource(fields: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
    let dot = if path.is_empty() { "" } else { "." };
    let at = |name: &str| format!("{path}{dot}{name}");
    for name in ["apiVersion", "kind"] {
        if !fields.contains_key(name) {
            causes.push(fault::required(&at(name), ""));
        }
    }
    for name in ["apiVersion", "kind"] {
        match fields.get(name) {
            None => {}
            Some(Value::String(text)) if text.is_empty() => {
                causes.push(fault::invalid_text(&at(name), "", "must not be empty"));
            }
            Some(Value::String(text)) if name == "apiVersion" => {
                let why = format!("unexpected GroupVersion string: {text}");
                let is_wrong = text.matches('/').count() > 1;
                causes.extend(is_wrong.then(|| fault::invalid_text(&at(name), text, &why)));
            }
            Some(Value::String(text)) => {
                let errors = dns_1035_label_errors(text.to_lowercase());
                if !errors.is_empty() {
                    let why = format!("may have mixed case, but should otherwise match: {}", errors.join(","));
                    causes.push(fault::invalid_text(&at(name), text, &why));
                }
            }
            Some(other) => causes.push(fault::invalid_value(&at(name), other, "must be a string")),
        }
    }
    let Some(found) = fields.get("metadata") else { return };
    match metadata::decode(found) {
        Err(why) => causes.push(invalid::invalid(&at("metadata"), &fault::shown(found), &why.to_string())),
        Ok(decoded) => {
            let mut fields = decoded.fields;
            if !fields.contains_key("name") {
                fields.insert("name".to_owned(), Value::from("fakename"));
            }
            let is_namespaced = fields.contains_key("namespace");
            let errors = &object_meta::path_segment_name_errors;
            causes.extend(object_meta::validate(&fields, is_namespaced, errors, &at("metadata")));
        }
    }
}
