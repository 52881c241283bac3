//! Checks values against their types (`typed.validatingObjectWalker`), with the texts of structured-merge-diff.

use super::element::element;
use super::node::{FieldType, Items, ListType, MapType, Node, Scalar};
use crate::go_text::{go_print, go_quote};
use serde_json::{Map, Value as Json};
use std::collections::HashSet;

/// The faults of a value that is not of its type, with the texts of structured-merge-diff: one line for each fault if there are several.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TypeMismatch(String);

/// Checks that a value, for example an apply configuration, is of the node's type, and that its lists have no duplicate items.
///
/// # Errors
/// If the value is not of the type. Faults of one map have the order of their names;
/// kube-apiserver's order is random.
pub fn validate(node: Node<'_>, value: &Json) -> Result<(), TypeMismatch> {
    let mut walk = Walk::default();
    walk.value(node, value);
    match &walk.faults[..] {
        [] => Ok(()),
        [one] => Err(TypeMismatch(one.clone())),
        several => Err(TypeMismatch(format!("errors:\n  {}", several.join("\n  ")))),
    }
}

#[derive(Default)]
struct Walk {
    path: String,
    faults: Vec<String>,
}

impl Walk {
    fn value(&mut self, node: Node<'_>, value: &Json) {
        let atom = node.atom();
        match (value, atom.map, atom.scalar, atom.list) {
            (Json::Object(fields), Some(map), ..) => self.map(&map, fields),
            (Json::Array(items), _, _, Some(list)) => self.list(&list, items),
            (Json::Bool(_) | Json::Number(_) | Json::String(_), _, Some(scalar), _) => self.scalar(scalar, value),
            (Json::Null, ..) => {}
            (_, Some(_), ..) => self.fault(&format!("expected map, got {}", pointer(value))),
            (_, None, Some(scalar), _) => self.scalar(scalar, value),
            (_, None, None, Some(_)) => self.fault(&format!("expected list, got {}", pointer(value))),
            (_, None, None, None) => self.fault("schema error: invalid atom: inlined"),
        }
    }

    fn map(&mut self, map: &MapType<'_>, fields: &Map<String, Json>) {
        for (name, value) in fields {
            match map.field(name) {
                FieldType::Named(node) | FieldType::Other(node) => {
                    self.below(&format!(".{name}"), |walk| walk.value(node, value));
                }
                FieldType::Unknown => {
                    self.below(&format!(".{name}"), |walk| walk.fault("field not declared in schema"));
                    return;
                }
            }
        }
    }

    fn list(&mut self, list: &ListType<'_>, items: &[Json]) {
        let mut seen = HashSet::new();
        for (at, item) in items.iter().enumerate() {
            let path = match list.items {
                Items::Atomic => format!("[{at}]"),
                Items::Set | Items::Keys(_) => match element(list, item) {
                    Ok(element) => {
                        if !seen.insert(element.field()) {
                            self.fault(&format!("duplicate entries for key {}", element.path()));
                        }
                        element.path()
                    }
                    // Without the item's element, nothing below the list can be named.
                    Err(why) => return self.fault(&format!("element {at}: {why}")),
                },
            };
            self.below(&path, |walk| walk.value(list.element, item));
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Json) {
        let is_of_type = match scalar {
            Scalar::Numeric => value.is_number(),
            Scalar::String => value.is_string(),
            Scalar::Boolean => value.is_boolean(),
            Scalar::Untyped => value.is_number() || value.is_string() || value.is_boolean(),
        };
        if is_of_type {
            return;
        }
        self.fault(&match scalar {
            Scalar::Numeric => format!("expected numeric (int or float), got {}", type_of(value)),
            Scalar::String => format!("expected string, got &value.valueUnstructured{{Value:{}}}", literal(value)),
            Scalar::Boolean => format!("expected boolean, got {}", pointer(value)),
            Scalar::Untyped => format!("expected any scalar, got {}", pointer(value)),
        });
    }

    fn below(&mut self, element: &str, walk: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(element);
        walk(self);
        self.path.truncate(length);
    }

    fn fault(&mut self, why: &str) {
        self.faults.push(if self.path.is_empty() { why.to_owned() } else { format!("{}: {why}", self.path) });
    }
}

/// Go's `%v` of a pointer to the value. Numbers of a configuration are floating-point numbers there.
fn pointer(value: &Json) -> String {
    format!("&{{{}}}", go_print(&with_floats(value)))
}

fn with_floats(value: &Json) -> Json {
    match value {
        Json::Number(number) => number.as_f64().map_or(Json::Null, Json::from),
        Json::Array(items) => items.iter().map(with_floats).collect(),
        Json::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), with_floats(value))).collect(),
        other => other.clone(),
    }
}

/// Go's `%#v`.
fn literal(value: &Json) -> String {
    match value {
        Json::Null => "interface {}(nil)".to_owned(),
        Json::String(text) => go_quote(text),
        Json::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(literal).collect::<Vec<_>>().join(", "))
        }
        Json::Object(fields) => {
            let fields: Vec<_> =
                fields.iter().map(|(name, value)| format!("{}:{}", go_quote(name), literal(value))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        other => go_print(&with_floats(other)),
    }
}

/// Go's `%T`.
fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::GroupVersionKind;
    use serde_json::json;

    #[test]
    fn a_fault_has_the_text_of_structured_merge_diff() {
        let pod = Node::built_in(&GroupVersionKind::new("", "v1", "Pod")).unwrap();
        let container = |container: Json| json!({"spec": {"containers": [container]}});
        for (value, expected) in [
            (json!({"metadata": null, "spec": {"containers": null}}), ""),
            (container(json!({"name": "a", "ports": [{"containerPort": 80}]})), ""),
            (json!({"spec": {"nope": 1}}), ".spec.nope: field not declared in schema"),
            (json!({"spec": []}), ".spec: expected map, got &{[]}"),
            (json!({"spec": {"containers": {"a": 1}}}), ".spec.containers: expected list, got &{map[a:1]}"),
            (
                container(Json::Null),
                ".spec.containers: element 0: associative list with keys may not have a null element",
            ),
            (
                container(json!({"name": "a", "image": 1})),
                ".spec.containers[name=\"a\"].image: expected string, got &value.valueUnstructured{Value:1}",
            ),
            (
                container(json!({"name": "a", "args": [["b", true]]})),
                ".spec.containers[name=\"a\"].args[0]: expected string, got &value.valueUnstructured{Value:[]interface {}{\"b\", true}}",
            ),
            (json!({"spec": {"priority": "1"}}), ".spec.priority: expected numeric (int or float), got string"),
            (json!({"spec": {"hostIPC": 1}}), ".spec.hostIPC: expected boolean, got &{1}"),
            (
                container(json!({"name": "a", "resources": {"limits": {"cpu": {}}}})),
                ".spec.containers[name=\"a\"].resources.limits.cpu: expected any scalar, got &{map[]}",
            ),
            (
                json!({"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}),
                ".spec.containers: duplicate entries for key [name=\"a\"]",
            ),
            (
                json!({"metadata": {"finalizers": ["a", "a"]}}),
                ".metadata.finalizers: duplicate entries for key [=\"a\"]",
            ),
            (
                json!({"metadata": {"name": 1}, "spec": {"hostIPC": "a"}}),
                "errors:\n  .metadata.name: expected string, got &value.valueUnstructured{Value:1}\n  .spec.hostIPC: expected boolean, got &{a}",
            ),
        ] {
            let found = validate(pod, &value).err().map_or_else(String::new, |fault| fault.0);
            assert_eq!(found, expected, "{value}");
        }
    }
}
