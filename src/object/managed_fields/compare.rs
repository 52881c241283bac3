//! What differs between two objects, by the list and map types of their schema (`typed.compareWalker`).

use super::set::{Path, Set};
use crate::object::GroupVersionKind;
use crate::object::schema::{self, Field, Shape, Type};
use crate::object::structural::Schema;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of a value.
#[derive(Clone, Copy, Debug)]
pub enum Node<'a> {
    /// An object with the fields of a built-in type.
    Object(&'static Type),
    /// Some other value of a built-in type; the field that holds it says how lists and maps are merged.
    Shape(&'static Shape, Option<&'static Field>),
    /// A value within a custom resource.
    Structural(Schema<'a>),
    /// A whole custom resource, with the schema that there is for it.
    Custom(Option<Schema<'a>>),
    /// Nothing: maps have fields, all else is a value.
    Unknown,
}

/// What becomes of a value.
enum Atom<'a> {
    /// It is owned as a whole.
    Leaf,
    /// Each of its fields is owned for itself.
    Map,
    /// Each of its items is.
    Set,
    /// Each of its items is, with what is in it.
    Keyed(Vec<&'a str>, Node<'a>),
}

impl<'a> Node<'a> {
    /// The schema of a built-in kind.
    pub fn of(kind: &GroupVersionKind) -> Option<Self> {
        schema::of(kind).map(Self::Object)
    }

    fn atom(self, value: Option<&Value>) -> Atom<'a> {
        match self {
            Self::Object(_) | Self::Custom(_) => Atom::Map,
            Self::Shape(shape, field) => shape_atom(shape, field),
            Self::Structural(schema) => structural_atom(schema, value),
            Self::Unknown if value.is_some_and(Value::is_object) => Atom::Map,
            Self::Unknown => Atom::Leaf,
        }
    }

    /// A field of it.
    fn field(self, name: &str) -> Self {
        let of_type = |one: &'static Type| match one.field(name) {
            Some(field) => Self::Shape(&field.shape, Some(field)),
            None => Self::Unknown,
        };
        match self {
            Self::Object(one) => of_type(one),
            Self::Shape(Shape::Object(reference), _) => reference.resolve().map_or(Self::Unknown, of_type),
            Self::Shape(Shape::Map(inner), _) => Self::Shape(inner, None),
            Self::Custom(_) if name == "metadata" => object_meta().map_or(Self::Unknown, Self::Object),
            Self::Structural(schema) | Self::Custom(Some(schema)) => {
                schema.field(name).map_or(Self::Unknown, Self::Structural)
            }
            Self::Shape(..) | Self::Custom(None) | Self::Unknown => Self::Unknown,
        }
    }

    /// What a key of a list is where an item leaves it out.
    fn key_default(self, key: &str) -> Option<Value> {
        match self {
            Self::Shape(Shape::Object(reference), _) => reference.resolve()?.field(key)?.documented_default(),
            // A custom resource has its defaults by now.
            _ => None,
        }
    }
}

fn object_meta() -> Option<&'static Type> {
    schema::of(&GroupVersionKind::new("", "v1", "ConfigMap"))?.field("metadata")?.element()
}

fn shape_atom(shape: &'static Shape, field: Option<&'static Field>) -> Atom<'static> {
    let map_type = field.and_then(Field::map_type);
    match shape {
        Shape::Scalar(_) | Shape::Any => Atom::Leaf,
        Shape::Map(_) if map_type == Some("atomic") => Atom::Leaf,
        Shape::Map(_) => Atom::Map,
        Shape::Object(reference) => {
            let is_atomic = match map_type {
                Some(map_type) => map_type == "atomic",
                None => reference.resolve().is_some_and(|one| one.is_atomic),
            };
            if is_atomic { Atom::Leaf } else { Atom::Map }
        }
        Shape::List(item) => match field.and_then(Field::list_type) {
            Some("set") => Atom::Set,
            Some("map") => {
                let keys = field.map(|field| field.list_map_keys().collect()).unwrap_or_default();
                Atom::Keyed(keys, Node::Shape(item, None))
            }
            _ => Atom::Leaf,
        },
    }
}

fn structural_atom<'a>(schema: Schema<'a>, value: Option<&Value>) -> Atom<'a> {
    match value {
        Some(Value::Object(_)) if schema.map_type() == Some("atomic") => Atom::Leaf,
        Some(Value::Object(_)) => Atom::Map,
        Some(Value::Array(_)) => match schema.list_type() {
            Some("set") => Atom::Set,
            Some("map") => {
                let item = schema.element().map_or(Node::Unknown, Node::Structural);
                Atom::Keyed(schema.list_map_keys().collect(), item)
            }
            _ => Atom::Leaf,
        },
        _ => Atom::Leaf,
    }
}

/// The paths that differ.
#[derive(Debug, Default)]
pub(super) struct Changed {
    removed: Set,
    /// Added or modified: it makes no difference to who owns them.
    kept: Set,
}

impl Changed {
    pub(super) fn retain(&mut self, keep: impl Fn(&Path) -> bool) {
        self.removed.retain(&keep);
        self.kept.retain(&keep);
    }

    pub(super) fn contains(&self, path: &Path) -> bool {
        self.removed.contains(path) || self.kept.contains(path)
    }

    /// What was added or modified.
    pub(super) fn into_kept(self) -> Set {
        self.kept
    }
}

pub(super) fn compare(schema: Node<'_>, old: &Value, new: &Value) -> Changed {
    let mut walk = Walk { path: Path::new(), changed: Changed::default() };
    walk.compare(schema, Some(old), Some(new));
    walk.changed
}

struct Walk {
    path: Path,
    changed: Changed,
}

impl Walk {
    fn compare(&mut self, node: Node<'_>, old: Option<&Value>, new: Option<&Value>) {
        // Null fits everything.
        let kind = new.filter(|new| !new.is_null()).or(old);
        let was_left = match node.atom(kind) {
            Atom::Leaf => self.leaf(old, new),
            Atom::Map => {
                let (old_fields, new_fields) = (fields(old), fields(new));
                match old_fields.is_none_or(Map::is_empty) && new_fields.is_none_or(Map::is_empty) {
                    true => self.leaf(old, new),
                    false => self.map(node, old_fields, new_fields),
                }
            }
            Atom::Set => self.list(&|item| element_of_set(item), Node::Unknown, old, new),
            Atom::Keyed(keys, item) => self.list(&|value| element_by_key(&keys, item, value), item, old, new),
        };
        if was_left {
            return;
        }
        match (old, new) {
            (None, _) => self.changed.kept.insert(self.path.clone()),
            (_, None) => self.changed.removed.insert(self.path.clone()),
            _ => false,
        };
    }

    /// Compares as a whole; answers true: there is nothing more to be said of it.
    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> bool {
        match (old, new) {
            (_, None) => drop(self.changed.removed.insert(self.path.clone())),
            (old, new) if old != new => drop(self.changed.kept.insert(self.path.clone())),
            _ => {}
        }
        true
    }

    fn map(&mut self, node: Node<'_>, old: Option<&Map<String, Value>>, new: Option<&Map<String, Value>>) -> bool {
        let keys: BTreeSet<&String> = old.into_iter().chain(new).flat_map(Map::keys).collect();
        for key in keys {
            let (old, new) = (old.and_then(|map| map.get(key)), new.and_then(|map| map.get(key)));
            self.below(format!("f:{key}"), |walk| walk.compare(node.field(key), old, new));
        }
        false
    }

    fn list(
        &mut self,
        element: &dyn Fn(&Value) -> Option<String>,
        item: Node<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> bool {
        let (old_items, new_items) = (items(old), items(new));
        if old_items.is_empty() && new_items.is_empty() {
            return self.leaf(old, new);
        }
        let mut by_element: BTreeMap<String, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for value in old_items {
            if let Some(element) = element(value) {
                by_element.entry(element).or_default().0.push(value);
            }
        }
        for value in new_items {
            if let Some(element) = element(value) {
                by_element.entry(element).or_default().1.push(value);
            }
        }
        for (element, (old, new)) in by_element {
            self.below(element, |walk| walk.items(item, &old, &new));
        }
        false
    }

    /// Items with the same key: one at most on each side, unless the list has duplicates, which are owned as a whole.
    fn items(&mut self, node: Node<'_>, old: &[&Value], new: &[&Value]) {
        match (old, new) {
            ([] | [_], [] | [_]) => self.compare(node, old.first().copied(), new.first().copied()),
            ([_, _, ..], [_, _, ..]) => {
                if old != new {
                    self.changed.kept.insert(self.path.clone());
                }
            }
            ([_, _, ..], _) => {
                if let Some(new) = new.first() {
                    self.compare(node, None, Some(new));
                }
                self.changed.removed.insert(self.path.clone());
            }
            _ => {
                if let Some(old) = old.first() {
                    self.compare(node, Some(old), None);
                }
                self.changed.kept.insert(self.path.clone());
            }
        }
    }

    fn below(&mut self, element: String, walk: impl FnOnce(&mut Self)) {
        self.path.push(element);
        walk(self);
        self.path.pop();
    }
}

fn fields(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn element_of_set(item: &Value) -> Option<String> {
    (!item.is_object() && !item.is_array() && !item.is_null()).then(|| format!("v:{item}"))
}

fn element_by_key(keys: &[&str], node: Node<'_>, item: &Value) -> Option<String> {
    let item = item.as_object()?;
    let value = |key: &str| item.get(key).cloned().or_else(|| node.key_default(key));
    let key: Map<String, Value> = keys.iter().filter_map(|key| Some(((*key).to_owned(), value(key)?))).collect();
    (!key.is_empty()).then(|| format!("k:{}", Value::Object(key)))
}
