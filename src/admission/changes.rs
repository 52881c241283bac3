//! Which plugin or policy changed which paths of an object, for an audit annotation.

use crate::object::Object;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The annotation.
pub(crate) const CHANGED: &str = "admission.kube-admission-proxy.dev/changed";
/// The number of authors in the annotation, of paths of one author, and of characters of a path.
const MAX_AUTHORS: usize = 64;
const MAX_PATHS: usize = 32;
const MAX_PATH_CHARACTERS: usize = 256;

/// The changes of one request, in the order of the first change of each author.
#[derive(Debug, Default)]
pub(super) struct Changes(Vec<Change>);

/// The changes of a plugin, or of one policy of it.
#[derive(Debug, Serialize)]
struct Change {
    plugin: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    /// JSON pointers. The annotation has no values: those of Secrets would be secrets.
    paths: BTreeSet<String>,
    /// The number of changes at further paths.
    #[serde(skip_serializing_if = "is_zero")]
    more: usize,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Changes {
    /// Adds the paths at which an author has changed the object.
    pub(super) fn add(&mut self, plugin: &'static str, policy: Option<&str>, before: &Object, after: &Object) {
        let mut paths = Vec::new();
        collect("", before.fields(), after.fields(), &mut paths);
        let is_of = |change: &Change| change.plugin == plugin && change.policy.as_deref() == policy;
        if !self.0.iter().any(is_of) && !paths.is_empty() && self.0.len() < MAX_AUTHORS {
            self.0.push(Change { plugin, policy: policy.map(str::to_owned), paths: BTreeSet::new(), more: 0 });
        }
        let Some(change) = self.0.iter_mut().find(|change| is_of(change)) else { return };
        for path in paths {
            let path: String = path.chars().take(MAX_PATH_CHARACTERS).collect();
            if change.paths.len() < MAX_PATHS || change.paths.contains(&path) {
                change.paths.insert(path);
            } else {
                change.more += 1;
            }
        }
    }

    /// The value of the annotation; `None` without changes.
    pub(super) fn text(&self) -> Option<String> {
        if self.0.is_empty() { None } else { serde_json::to_string(&self.0).ok() }
    }
}

fn below(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn collect(path: &str, before: &Map<String, Value>, after: &Map<String, Value>, paths: &mut Vec<String>) {
    paths.extend(before.keys().filter(|key| !after.contains_key(*key)).map(|key| below(path, key)));
    for (key, value) in after {
        match before.get(key) {
            Some(old) => compare(&below(path, key), old, value, paths),
            None => paths.push(below(path, key)),
        }
    }
}

/// Adds the paths at which values differ; lists of different lengths are one place.
fn compare(path: &str, before: &Value, after: &Value, paths: &mut Vec<String>) {
    match (before, after) {
        _ if before == after => {}
        (Value::Object(before), Value::Object(after)) => collect(path, before, after, paths),
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                compare(&format!("{path}/{index}"), before, after, paths);
            }
        }
        _ => paths.push(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        Object::from_value(value).unwrap()
    }

    #[test]
    fn authors_have_their_paths_and_no_values() {
        let before = object(json!({"metadata": {"labels": {"a": "1"}}, "spec": {"l": [{"x": 1}, {"y": 2}], "m": [1]}}));
        let after = object(
            json!({"metadata": {"labels": {"a": "2", "b/~": "3"}}, "spec": {"l": [{"x": 1}, {"y": 3, "z": 1}], "m": []}}),
        );
        let mut changes = Changes::default();
        changes.add("P", None, &before, &before);
        assert_eq!(changes.text(), None);
        changes.add("P", None, &before, &after);
        changes.add("Q", Some("one"), &after, &before);
        changes.add("P", None, &object(json!({"data": null})), &object(json!({})));
        let expected = json!([
            {"plugin": "P", "paths": ["/data", "/metadata/labels/a", "/metadata/labels/b~1~0", "/spec/l/1/y", "/spec/l/1/z", "/spec/m"]},
            {"plugin": "Q", "policy": "one", "paths":
                ["/metadata/labels/a", "/metadata/labels/b~1~0", "/spec/l/1/y", "/spec/l/1/z", "/spec/m"]},
        ]);
        assert_eq!(serde_json::from_str::<Value>(&changes.text().unwrap()).unwrap(), expected);
    }

    #[test]
    fn the_annotation_is_bounded() {
        let many: Map<String, Value> = (0..1000).map(|at| (format!("{at}{}", "k".repeat(1000)), json!(1))).collect();
        let mut changes = Changes::default();
        for author in 0..100 {
            changes.add("P", Some(&author.to_string()), &object(json!({})), &object(Value::Object(many.clone())));
        }
        let text = changes.text().unwrap();
        assert!(text.len() < MAX_AUTHORS * (MAX_PATHS * (MAX_PATH_CHARACTERS + 8) + 100));
        let first = serde_json::from_str::<Value>(&text).unwrap()[0].clone();
        assert_eq!(first["more"], 1000 - MAX_PATHS);
    }
}
