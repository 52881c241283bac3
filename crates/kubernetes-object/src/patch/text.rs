//! The text of the object that a JSON or merge patch makes, as `evanphx/json-patch` v4 writes it: a value that the patch does not touch keeps
//! its text, and an object on the way to a touched value has its fields in alphabetical order.

use super::PatchType;
use super::json::{Inapplicable, index, unescape};
use crate::go_text::json::{compact, string};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Returns the text of the patched object; `None` if the patch does not apply. `stored` is the text of the object before.
pub fn text(patch_type: PatchType, stored: &str, patch: &str) -> Option<String> {
    let mut object = Node::read(serde_json::from_str(stored).ok()?);
    match patch_type {
        PatchType::Merge => merge(object.fields()?, Node::read(serde_json::from_str(patch).ok()?).into_fields()?),
        PatchType::Json => {
            object.fields()?;
            for operation in serde_json::from_str::<Vec<Operation>>(patch).ok()? {
                apply(&mut object, operation).ok()?;
            }
        }
        PatchType::Strategic | PatchType::Apply => return None,
    }
    let mut out = String::with_capacity(stored.len() + patch.len());
    object.write(&mut out);
    Some(out)
}

type Fields = BTreeMap<String, Node>;

/// A value that is parsed as far as the patch needs (`lazyNode`).
enum Node {
    Null,
    Raw(Box<RawValue>),
    Fields(Fields),
    Items(Vec<Node>),
}

#[derive(Deserialize)]
struct Operation {
    op: String,
    path: String,
    from: Option<String>,
    value: Option<Box<RawValue>>,
}

impl Node {
    fn read(text: Box<RawValue>) -> Self {
        if text.get() == "null" { Self::Null } else { Self::Raw(text) }
    }

    /// `lazyNode.intoDoc`
    fn fields(&mut self) -> Option<&mut Fields> {
        if let Self::Raw(text) = self {
            let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text.get()).ok()?;
            *self = Self::Fields(fields.into_iter().map(|(key, value)| (key, Self::read(value))).collect());
        }
        if let Self::Fields(fields) = self { Some(fields) } else { None }
    }

    fn into_fields(mut self) -> Option<Fields> {
        self.fields().map(std::mem::take)
    }

    /// `lazyNode.intoAry`
    fn items(&mut self) -> Option<&mut Vec<Self>> {
        if let Self::Raw(text) = self {
            let items: Vec<Box<RawValue>> = serde_json::from_str(text.get()).ok()?;
            *self = Self::Items(items.into_iter().map(Self::read).collect());
        }
        if let Self::Items(items) = self { Some(items) } else { None }
    }

    /// Parses the whole value, as a comparison does (`lazyNode.equal`).
    fn parse(&mut self) {
        if let Some(fields) = self.fields() {
            fields.values_mut().for_each(Self::parse);
        } else if let Some(items) = self.items() {
            items.iter_mut().for_each(Self::parse);
        }
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Raw(text) => out.push_str(&compact(text.get())),
            Self::Fields(fields) => {
                out.push('{');
                for (at, (key, value)) in fields.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    out.push_str(&string(key));
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
            Self::Items(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    item.write(out);
                }
                out.push(']');
            }
        }
    }
}

/// `mergeDocs`
fn merge(object: &mut Fields, patch: Fields) {
    for (key, mut value) in patch {
        match object.get_mut(&key) {
            _ if matches!(value, Node::Null) => drop(object.remove(&key)),
            None | Some(Node::Null) => {
                prune(&mut value);
                object.insert(key, value);
            }
            Some(current) => match (current.fields(), value.fields()) {
                (Some(current), Some(patch)) => merge(current, std::mem::take(patch)),
                (Some(_), None) => *current = value,
                (None, _) => {
                    prune(&mut value);
                    *current = value;
                }
            },
        }
    }
}

/// Removes fields that are null (`pruneNulls`).
fn prune(value: &mut Node) {
    if let Some(fields) = value.fields() {
        fields.retain(|_, value| !matches!(value, Node::Null));
        fields.values_mut().for_each(prune);
    } else if let Some(items) = value.items() {
        items.iter_mut().for_each(prune);
    }
}

fn apply(object: &mut Node, operation: Operation) -> Result<(), Inapplicable> {
    let Operation { op, path, from, value } = operation;
    let value = || value.map_or(Node::Null, Node::read);
    match (&*op, &*path) {
        ("replace", "") => {
            let mut value = value();
            if value.fields().is_none() && value.items().is_none() {
                return Err(Inapplicable);
            }
            *object = value;
            Ok(())
        }
        ("test", "") => {
            object.parse();
            Ok(())
        }
        ("add", path) => add(object, path, value()),
        ("replace", path) => {
            let (container, key) = find(object, path)?;
            match container {
                Node::Fields(fields) => drop(fields.insert(key, value())),
                container => *item(container, &key)? = value(),
            }
            Ok(())
        }
        ("remove", path) => remove(object, path).map(drop),
        ("move", path) => {
            let moved = remove(object, &from.ok_or(Inapplicable)?)?;
            add(object, path, moved)
        }
        ("copy", path) => {
            let mut copy = String::new();
            match find(object, &from.ok_or(Inapplicable)?)? {
                (Node::Fields(fields), key) => fields.get(&key).unwrap_or(&Node::Null).write(&mut copy),
                (container, key) => item(container, &key)?.write(&mut copy),
            }
            let copy = RawValue::from_string(copy).map_err(|_| Inapplicable)?;
            add(object, path, Node::read(copy))
        }
        ("test", path) => {
            match find(object, path)? {
                (Node::Fields(fields), key) => fields.get_mut(&key).into_iter().for_each(Node::parse),
                (container, key) => item(container, &key)?.parse(),
            }
            Ok(())
        }
        _ => Err(Inapplicable),
    }
}

/// Returns the object or list that holds a path's last part, and that part (`findObject`).
fn find<'n>(object: &'n mut Node, path: &str) -> Result<(&'n mut Node, String), Inapplicable> {
    let (_, path) = path.split_once('/').ok_or(Inapplicable)?;
    let mut parts: Vec<String> = path.split('/').map(unescape).collect();
    let last = parts.pop().ok_or(Inapplicable)?;
    let mut container = object;
    for part in &parts {
        container = match container {
            Node::Fields(fields) => fields.get_mut(part).ok_or(Inapplicable)?,
            list => item(list, part)?,
        };
        if container.items().is_none() {
            container.fields().ok_or(Inapplicable)?;
        }
    }
    Ok((container, last))
}

fn item<'n>(list: &'n mut Node, key: &str) -> Result<&'n mut Node, Inapplicable> {
    let items = list.items().ok_or(Inapplicable)?;
    let at = index(key, items.len())?;
    items.get_mut(at).ok_or(Inapplicable)
}

fn add(object: &mut Node, path: &str, value: Node) -> Result<(), Inapplicable> {
    match find(object, path)? {
        (Node::Fields(fields), key) => drop(fields.insert(key, value)),
        (Node::Items(items), key) if key == "-" => items.push(value),
        (Node::Items(items), key) => items.insert(index(&key, items.len() + 1)?, value),
        (Node::Null | Node::Raw(_), _) => return Err(Inapplicable),
    }
    Ok(())
}

fn remove(object: &mut Node, path: &str) -> Result<Node, Inapplicable> {
    match find(object, path)? {
        (Node::Fields(fields), key) => fields.remove(&key).ok_or(Inapplicable),
        (Node::Items(items), key) => Ok(items.remove(index(&key, items.len())?)),
        (Node::Null | Node::Raw(_), _) => Err(Inapplicable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORED: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c","namespace":"default","labels":{"z":"1","a":"2"},"uid":"u"},"data":{"b":"\u003c1>","a":"2"},"list":[{"z":1,"a":{"z":1,"a":2}},{"y":1,"b":2}]}"#;

    #[test]
    fn only_touched_objects_are_sorted() {
        const METADATA: &str = r#""metadata":{"name":"c","namespace":"default","labels":{"z":"1","a":"2"},"uid":"u"}"#;
        const LIST: &str = r#""list":[{"z":1,"a":{"z":1,"a":2}},{"y":1,"b":2}]"#;
        const DATA: &str = r#""data":{"b":"\u003c1\u003e","a":"2"}"#;
        let of = |patch_type, patch: &str| text(patch_type, STORED, patch).unwrap();
        let with = |data: &str, metadata: &str, list: &str| {
            format!(r#"{{"apiVersion":"v1",{data},"kind":"ConfigMap",{list},{metadata}}}"#)
        };
        for (patch, expected) in [
            (
                r#"{"data": {"c": 1.0, "b": null, "d": {"z": "<", "y": null, "a": [ {"z": 1, "b": null, "a": 1} ]}}}"#,
                with(r#""data":{"a":"2","c":1.0,"d":{"a":[{"a":1,"z":1}],"z":"\u003c"}}"#, METADATA, LIST),
            ),
            (
                r#"{"metadata":{"labels":{"b":1}}}"#,
                with(
                    DATA,
                    r#""metadata":{"labels":{"a":"2","b":1,"z":"1"},"name":"c","namespace":"default","uid":"u"}"#,
                    LIST,
                ),
            ),
            (
                r#"{"metadata":{"name":{"z":1,"a":null}}}"#,
                with(
                    DATA,
                    r#""metadata":{"labels":{"z":"1","a":"2"},"name":{"z":1},"namespace":"default","uid":"u"}"#,
                    LIST,
                ),
            ),
            (r#"{"list":[{"z":1,"a":null}]}"#, with(DATA, METADATA, r#""list":[{"z":1}]"#)),
            (r#"{"data":7}"#, with(r#""data":7"#, METADATA, LIST)),
        ] {
            assert_eq!(of(PatchType::Merge, patch), expected, "{patch}");
        }
        for (patch, expected) in [
            (r#"[]"#, with(DATA, METADATA, LIST)),
            (
                r#"[{"op": "add", "path": "/data/a", "value": {"z": 1, "a": null}}]"#,
                with(r#""data":{"a":{"z":1,"a":null},"b":"\u003c1\u003e"}"#, METADATA, LIST),
            ),
            (
                r#"[{"op": "replace", "path": "/list/0/a/z", "value": 3}]"#,
                with(DATA, METADATA, r#""list":[{"a":{"a":2,"z":3},"z":1},{"y":1,"b":2}]"#),
            ),
            (
                r#"[{"op": "test", "path": "/list/1", "value": {"b": 2, "y": 1}}, {"op": "remove", "path": "/list/0"}]"#,
                with(DATA, METADATA, r#""list":[{"b":2,"y":1}]"#),
            ),
            (
                r#"[{"op": "copy", "from": "/list/0/a", "path": "/list/-"}, {"op": "move", "from": "/list/-1", "path": "/data/a"}]"#,
                with(
                    r#""data":{"a":{"z":1,"a":2},"b":"\u003c1\u003e"}"#,
                    METADATA,
                    r#""list":[{"a":{"z":1,"a":2},"z":1},{"y":1,"b":2}]"#,
                ),
            ),
        ] {
            assert_eq!(of(PatchType::Json, patch), expected, "{patch}");
        }
    }

    #[test]
    fn a_patch_that_does_not_apply_has_no_text() {
        for (patch_type, patch) in [
            (PatchType::Merge, "[]"),
            (PatchType::Json, r#"[{"op": "remove", "path": "/missing"}]"#),
            (PatchType::Json, r#"[{"op": "add", "path": "/list/9", "value": 1}]"#),
            (PatchType::Json, r#"[{"op": "replace", "path": "", "value": 1}]"#),
            (PatchType::Json, "{}"),
            (PatchType::Strategic, "{}"),
        ] {
            assert_eq!(text(patch_type, STORED, patch), None, "{patch}");
        }
    }
}
