//! Checks that a value has its type, and finds fields that are replaced as a whole (`typed.validatingObjectWalker`, `findAtomics`).

use super::go::Go;
use crate::object::merge::{Atom, FieldType, Items, ListType, MapType, Node, Scalar, element};
use std::collections::HashSet;

/// Errors of a value, each with the path to it.
pub(super) type Errors = Vec<(String, String)>;

/// Joins the errors of a value to one text (`typed.ValidationErrors.Error`).
pub(super) fn text(errors: &Errors) -> String {
    let line = |(path, why): &(String, String)| match path.as_str() {
        "" => why.clone(),
        path => format!("{path}: {why}"),
    };
    match errors.as_slice() {
        [one] => line(one),
        several => {
            let lines: Vec<_> = several.iter().map(line).collect();
            format!("errors:\n  {}", lines.join("\n  "))
        }
    }
}

/// A check of values against their types.
pub(super) struct Checker {
    /// Whether a list may have an item twice.
    pub(crate) allows_duplicates: bool,
}

impl Checker {
    /// Returns the errors of a value.
    pub(super) fn check(&self, node: Node<'_>, value: &Go) -> Errors {
        let Atom { scalar, list, map } = node.atom();
        match (value, scalar, list, map) {
            (Go::Map(fields), _, _, Some(map)) => self.check_fields(&map, fields),
            (Go::List(items), _, Some(list), _) => self.check_items(&list, items),
            (Go::Bool(_) | Go::Int(_) | Go::Double(_) | Go::String(_), Some(scalar), _, _) => {
                check_scalar(scalar, value)
            }
            (value, _, _, Some(_)) => one(format!("expected map, got {}", value.shown())),
            (value, Some(scalar), ..) => check_scalar(scalar, value),
            (value, None, Some(_), None) => one(format!("expected list, got {}", value.shown())),
            (_, None, None, None) => Errors::new(),
        }
    }

    fn check_fields(&self, map: &MapType<'_>, fields: &std::collections::BTreeMap<String, Go>) -> Errors {
        let mut errors = Errors::new();
        for (name, value) in fields {
            let node = match map.field(name) {
                FieldType::Named(node) | FieldType::Other(node) => node,
                FieldType::Unknown => {
                    errors.push((format!(".{name}"), "field not declared in schema".into()));
                    return errors;
                }
            };
            errors.extend(below(&format!(".{name}"), self.check(node, value)));
        }
        errors
    }

    fn check_items(&self, list: &ListType<'_>, items: &[Go]) -> Errors {
        let (mut errors, mut seen) = (Errors::new(), HashSet::new());
        for (index, item) in items.iter().enumerate() {
            let mut path = format!("[{index}]");
            if !matches!(list.items, Items::Atomic) {
                match element(list, &item.clone().into_json()) {
                    Err(why) => {
                        errors.extend(one(format!("element {index}: {why}")));
                        return errors;
                    }
                    Ok(element) => {
                        path = element.path();
                        if !seen.insert(element.field()) && !self.allows_duplicates {
                            errors.extend(one(format!("duplicate entries for key {path}")));
                        }
                    }
                }
            }
            errors.extend(below(&path, self.check(list.element, item)));
        }
        errors
    }
}

fn one(why: String) -> Errors {
    vec![(String::new(), why)]
}

fn below(path: &str, errors: Errors) -> Errors {
    errors.into_iter().map(|(rest, why)| (format!("{path}{rest}"), why)).collect()
}

fn check_scalar(scalar: Scalar, value: &Go) -> Errors {
    let why = match (scalar, value) {
        (Scalar::Numeric | Scalar::Untyped, Go::Int(_) | Go::Double(_))
        | (Scalar::String | Scalar::Untyped, Go::String(_))
        | (Scalar::Boolean | Scalar::Untyped, Go::Bool(_)) => return Errors::new(),
        (Scalar::Numeric, value) => format!("expected numeric (int or float), got {}", value.type_name()),
        (Scalar::String, value) => format!("expected string, got {}", value.detailed()),
        (Scalar::Boolean, value) => format!("expected boolean, got {}", value.shown()),
        (Scalar::Untyped, value) => format!("expected any scalar, got {}", value.shown()),
    };
    one(why)
}

/// Returns the paths of the fields that a patch would replace as a whole.
pub(super) fn atomics(node: Node<'_>, value: &Go) -> Vec<String> {
    let mut found = Vec::new();
    find_atomics(node, value, &mut String::new(), &mut found);
    found
}

fn find_atomics(node: Node<'_>, value: &Go, path: &mut String, found: &mut Vec<String>) {
    let atom = node.atom();
    let length = path.len();
    match value {
        Go::Map(fields) => {
            let Some(map) = atom.map else { return };
            if map.is_atomic {
                found.push(path.clone());
            }
            for (name, value) in fields {
                if let FieldType::Named(node) = map.field(name) {
                    path.push('.');
                    path.push_str(name);
                    find_atomics(node, value, path, found);
                    path.truncate(length);
                }
            }
        }
        Go::List(items) => {
            let Some(list) = atom.list else { return };
            if matches!(list.items, Items::Atomic) {
                found.push(path.clone());
            }
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                find_atomics(list.element, item, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}
