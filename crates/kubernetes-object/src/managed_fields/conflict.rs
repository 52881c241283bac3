//! Conflicts between field managers, and their Status (`internal.NewConflictError`).

use super::entries::{Entry, Operation};
use super::set::Path;
use crate::go_text::go_quote;
use crate::merge::Element;
use crate::status::{Cause, Details, Status};
use serde_json::Value;
use std::cmp::Ordering;

/// A field that an apply changes although another manager owns it.
#[derive(Clone, Debug)]
pub(super) struct Conflict {
    /// The key by which kube-apiserver sorts managers: the manager in JSON (`BuildManagerIdentifier`).
    identity: String,
    manager: String,
    pub(super) path: Path,
}

impl Conflict {
    pub(super) fn new(entry: &Entry, path: Path) -> Self {
        Self { identity: identity(entry), manager: description(entry), path }
    }

    /// Sorts by managers, then by paths in the order of a field set.
    pub(super) fn order(one: &Self, other: &Self) -> Ordering {
        one.identity.cmp(&other.identity).then_with(|| by_level(&one.path, &other.path))
    }
}

/// The members of a level come before the fields below that level (`Set.Iterate`).
fn by_level(one: &Path, other: &Path) -> Ordering {
    let shared = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let (is_member, is_other_member) = (one.len() <= shared + 1, other.len() <= shared + 1);
    is_other_member.cmp(&is_member).then_with(|| one.cmp(other))
}

fn identity(entry: &Entry) -> String {
    let text = |text: &str| Value::from(text).to_string();
    let (operation, version) = match entry.operation {
        Operation::Apply => ("Apply", String::new()),
        Operation::Update => ("Update", format!(",\"apiVersion\":{}", text(&entry.api_version))),
    };
    let subresource = match entry.subresource.as_str() {
        "" => String::new(),
        subresource => format!(",\"subresource\":{}", text(subresource)),
    };
    let manager = match entry.manager.as_str() {
        "" => String::new(),
        manager => format!("\"manager\":{},", text(manager)),
    };
    format!("{{{manager}\"operation\":\"{operation}\"{version}{subresource}}}")
}

/// The manager in messages (`internal.printManager`).
fn description(entry: &Entry) -> String {
    let mut text = go_quote(&entry.manager);
    if !entry.subresource.is_empty() {
        text.push_str(&format!(" with subresource {}", go_quote(&entry.subresource)));
    }
    if entry.operation == Operation::Update {
        text.push_str(&format!(" using {}", entry.api_version));
    }
    text
}

/// A path in messages: `.spec.containers[name="a"].image` (`fieldpath.Path.String`).
fn field(path: &Path) -> String {
    path.iter().map(|element| part(element)).collect()
}

fn part(element: &str) -> String {
    let decoded = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    match element.split_once(':') {
        Some(("f", name)) => format!(".{name}"),
        Some(("v", value)) => Element::Value(decoded(value)).path(),
        Some(("k", keys)) => {
            let keys = decoded(keys).as_object().cloned().unwrap_or_default();
            Element::Keys(keys.into_iter().collect()).path()
        }
        Some(("i", index)) => format!("[{index}]"),
        _ => element.to_owned(),
    }
}

/// The 409 of these conflicts, which are sorted.
pub(super) fn status(conflicts: &[Conflict]) -> Status {
    let cause = |conflict: &Conflict| Cause {
        reason: "FieldManagerConflict".into(),
        message: format!("conflict with {}", conflict.manager),
        field: field(&conflict.path),
    };
    let details = Details { causes: conflicts.iter().map(cause).collect(), ..Details::default() };
    Status::failure(409, "Conflict", message(conflicts)).with_details(details)
}

/// `internal.getConflictMessage`
fn message(conflicts: &[Conflict]) -> String {
    if let [Conflict { manager, path, .. }] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {manager}: {}", field(path));
    }
    let mut lines = Vec::new();
    let mut last = None;
    for conflict in conflicts {
        if last != Some(&conflict.identity) {
            lines.push(format!("conflicts with {}:", conflict.manager));
            last = Some(&conflict.identity);
        }
        lines.push(format!("- {}", field(&conflict.path)));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(elements: &[&str]) -> Path {
        elements.iter().map(|element| (*element).into()).collect()
    }

    #[test]
    fn a_path_is_printed_as_go_prints_it() {
        let containers = path(&["f:spec", "f:ports", r#"k:{"port":80,"protocol":"TCP"}"#, "f:name"]);
        assert_eq!(field(&containers), r#".spec.ports[port=80,protocol="TCP"].name"#);
        assert_eq!(field(&path(&["f:metadata", "f:finalizers", r#"v:"a/b""#])), r#".metadata.finalizers[="a/b"]"#);
    }

    #[test]
    fn members_of_a_level_come_before_the_fields_below() {
        let mut paths = [path(&["f:a", "f:b"]), path(&["f:a", "f:b", "f:c"]), path(&["f:z"]), path(&["f:a", "f:x"])];
        paths.sort_by(by_level);
        let printed: Vec<_> = paths.iter().map(field).collect();
        assert_eq!(printed, [".z", ".a.b", ".a.x", ".a.b.c"]);
    }
}
