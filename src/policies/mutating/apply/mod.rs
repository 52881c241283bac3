//! An apply configuration merged into an object, without field managers (`patch.ApplyStructuredMergeDiff`).

mod check;
mod go;
#[cfg(test)]
mod tests;

use crate::kind::GroupVersionKind;
use crate::object::Object;
use crate::object::go_text::numbers::canonicalize;
use crate::object::merge::{Node, merge};
use check::{Checker, atomics, text};
pub(super) use go::Go;

/// The reason why the value of an expression cannot be applied as a patch, with kube-apiserver's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unpatchable(pub(super) String);

/// Merges the value of an expression into the object.
///
/// # Errors
/// If the patch does not fit, with kube-apiserver's text after `error applying patch: `.
pub(super) fn apply(
    node: Node<'_>,
    kind: &GroupVersionKind,
    object: &Object,
    mut patch: Go,
) -> Result<Object, Unpatchable> {
    if let Go::Map(fields) = &mut patch {
        fields.insert("apiVersion".into(), Go::String(kind.api_version()));
        fields.insert("kind".into(), Go::String(kind.kind.clone()));
    }
    let errors = Checker { allows_duplicates: false }.check(node, &patch);
    if !errors.is_empty() {
        return Err(Unpatchable(format!("failed to convert patch object to typed object: {}", text(&errors))));
    }
    let atomics = atomics(node, &patch);
    if !atomics.is_empty() {
        return Err(Unpatchable(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            atomics.join(", ")
        )));
    }
    let before = object.clone().into_value();
    // An object of a built-in kind has its types already, since it was decoded.
    let errors = if matches!(node, Node::Whole(_)) { check_live(node, &before) } else { check::Errors::new() };
    if !errors.is_empty() {
        return Err(Unpatchable(format!("failed to convert original object to typed object: {}", text(&errors))));
    }
    let mut patch = patch.into_json();
    if !matches!(node, Node::Whole(_) | Node::Deduced) {
        canonicalize(&mut patch);
    }
    let merged = merge(node, before, patch);
    Object::from_value(merged)
        .ok_or_else(|| Unpatchable("failed to convert typed object to object: it is not an object".into()))
}

/// Returns the type errors of an existing object; null fits every type there.
fn check_live(node: Node<'_>, object: &serde_json::Value) -> check::Errors {
    let mut object = object.clone();
    crate::object::discard_nulls(&mut object);
    match Go::of_json(&object) {
        Go::Map(fields) => Checker { allows_duplicates: true }.check(node, &Go::Map(fields)),
        _ => check::Errors::new(),
    }
}
