//! Duplicates in lists of type `set` and `map` (`pkg/apiserver/schema/listtype`).

use super::node::{Additional, Id, Node};
use super::walk::Found;
use crate::go_text::json;
use crate::status::Cause;
use crate::status::fault::{self, shown};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// The errors of the lists in an object.
pub(super) fn check(nodes: &[Node], id: Id, object: &Map<String, Value>) -> Vec<Cause> {
    let mut lists = Lists { nodes, path: String::new(), found: Found::default() };
    lists.fields(id, object);
    lists.found.into_causes("")
}

struct Lists<'a> {
    nodes: &'a [Node],
    path: String,
    found: Found,
}

impl<'a> Lists<'a> {
    fn node(&self, id: Id) -> Option<&'a Node> {
        self.nodes.get(usize::try_from(id).ok()?).filter(|node| node.has_extensions && !self.found.is_full())
    }

    fn fields(&mut self, id: Id, fields: &Map<String, Value>) {
        let Some(node) = self.node(id) else { return };
        for (key, value) in fields {
            let length = self.path.len();
            if let Additional::Of(id) = node.additional {
                self.path.extend(["[", key, "]"]);
                self.value(id, value);
                self.path.truncate(length);
            }
            if let Some(id) = node.property(key) {
                self.path.extend([if length > 0 { "." } else { "" }, key]);
                self.value(id, value);
                self.path.truncate(length);
            }
        }
    }

    fn value(&mut self, id: Id, value: &Value) {
        match value {
            Value::Object(fields) => self.fields(id, fields),
            Value::Array(items) => self.list(id, items),
            _ => {}
        }
    }

    fn list(&mut self, id: Id, items: &[Value]) {
        let Some(node) = self.node(id) else { return };
        match node.list_type.as_deref() {
            Some("set") => {
                let repeated = repeated(items.iter().map(Value::to_string));
                for (index, item) in repeated.into_iter().filter_map(|index| Some((index, items.get(index)?))) {
                    if self.found.is_full() {
                        return;
                    }
                    self.found.push(fault::duplicate(&format!("{}[{index}]", self.path), &shown(item)));
                }
            }
            Some("map") => self.keyed(node, items),
            _ => {}
        }
        let Some(id) = node.items else { return };
        for (index, item) in items.iter().enumerate() {
            let length = self.path.len();
            self.path.push_str(&format!("[{index}]"));
            self.value(id, item);
            self.path.truncate(length);
        }
    }

    /// `validateListMap`
    fn keyed(&mut self, node: &Node, items: &[Value]) {
        let wrong = items.iter().enumerate().find(|(_, item)| !item.is_null() && !item.is_object());
        if let Some((index, item)) = wrong {
            let why = "must be an object for an array of list-type map";
            self.found.push(fault::invalid_value(&format!("{}[{index}]", self.path), item, why));
            return;
        }
        let key = |item: &Value| -> Value {
            let keys = node.list_map_keys.iter();
            let present = keys.filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone())));
            Value::Object(present.collect())
        };
        let keys: Vec<_> = items.iter().map(key).collect();
        for index in repeated(keys.iter().map(Value::to_string)) {
            if let Some(key) = keys.get(index).filter(|_| !self.found.is_full()) {
                self.found.push(fault::duplicate(&format!("{}[{index}]", self.path), &json::text(key)));
            }
        }
    }
}

/// The index of the second occurrence of each value that occurs several times.
fn repeated(values: impl Iterator<Item = String>) -> Vec<usize> {
    let mut times = HashMap::<String, usize>::new();
    let mut repeated = Vec::new();
    for (index, value) in values.enumerate() {
        let times = times.entry(value).or_default();
        *times += 1;
        if *times == 2 {
            repeated.push(index);
        }
    }
    repeated
}
