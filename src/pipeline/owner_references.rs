//! Duplicate owner references: removed, with a warning to the client (`dedupOwnerReferencesAndAddWarning`).

use crate::admission::Warnings;
use crate::object::Object;
use serde_json::Value;
use std::collections::HashSet;

/// The point at which duplicates are found.
#[derive(Clone, Copy)]
pub(super) enum Seen {
    /// In the client's own object.
    AsSent,
    /// In the object after the mutating phase.
    AfterMutation,
}

impl Seen {
    fn warning(self, duplicates: &[String]) -> String {
        let when = match self {
            Self::AsSent => "",
            Self::AfterMutation => " after mutating admission happens",
        };
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may \
             reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            duplicates.join(", ")
        )
    }
}

/// Removes duplicates, and warns the client about them. Returns whether there were any: the API server behind must not find them again.
pub(super) fn remove_duplicates(object: &mut Object, seen: Seen, warnings: &Warnings) -> bool {
    let duplicates = take_duplicates(object);
    if !duplicates.is_empty() {
        warnings.add(seen.warning(&duplicates));
    }
    !duplicates.is_empty()
}

/// Removes duplicate owner references. Returns the uids of the removed ones.
fn take_duplicates(object: &mut Object) -> Vec<String> {
    let Some(Value::Array(references)) = object.get(&["metadata", "ownerReferences"]) else { return Vec::new() };
    let (mut kept, mut duplicates, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    for reference in references {
        let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
        let flag = |field: &str| reference.get(field).and_then(Value::as_bool);
        let fields = (["apiVersion", "kind", "name", "uid"].map(text), ["controller", "blockOwnerDeletion"].map(flag));
        if reference.is_object() && !seen.insert(fields) {
            duplicates.push(text("uid").to_owned());
        } else {
            kept.push(reference.clone());
        }
    }
    if !duplicates.is_empty() {
        let _metadata_is_an_object = object.set(&["metadata", "ownerReferences"], kept.into());
    }
    duplicates
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_owner_is_kept_once_and_one_that_differs_stays() {
        let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid});
        let mut controller = owner("1");
        controller["controller"] = json!(false);
        let sent = json!([owner("1"), owner("1"), controller, owner("2"), controller, "no owner", "no owner"]);
        let mut object = Object::from_value(json!({"metadata": {"ownerReferences": sent}})).unwrap();
        assert_eq!(take_duplicates(&mut object), ["1", "1"]);
        let kept = json!([owner("1"), controller, owner("2"), "no owner", "no owner"]);
        assert_eq!(object.into_value(), json!({"metadata": {"ownerReferences": kept}}));
    }

    #[test]
    fn owner_references_without_duplicates_stay() {
        for metadata in
            [json!({}), json!({"ownerReferences": null}), json!({"ownerReferences": [{"uid": "1"}, {"uid": "2"}]})]
        {
            let mut object = Object::from_value(json!({"metadata": metadata})).unwrap();
            object.settle();
            assert!(take_duplicates(&mut object).is_empty());
            assert!(!object.is_changed());
        }
    }

    #[test]
    fn the_warning_has_kubernetes_words() {
        let uids = ["1".to_owned(), "2".to_owned()];
        let rest = "; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix \
                    your requests; duplicate UID(s) observed: 1, 2";
        let start = ".metadata.ownerReferences contains duplicate entries";
        assert_eq!(Seen::AsSent.warning(&uids), format!("{start}{rest}"));
        assert_eq!(Seen::AfterMutation.warning(&uids), format!("{start} after mutating admission happens{rest}"));
    }
}
