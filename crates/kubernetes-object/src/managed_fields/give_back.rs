//! Restores field ownership after a write that took ownership of too many fields, if other managers have written since.

use super::entries::{self, Entry, Operation};
use super::set::Set;
use serde_json::Value;

/// Computes `metadata.managedFields` of the object in its current state (`now`), after a writer returns the fields that it took. The
/// managedFields should have become `own`, and became `written`. `None` if one of the three is malformed.
pub fn give_back(own: &Value, written: &Value, now: &Value, is_writer: impl Fn(&str, &str) -> bool) -> Option<Value> {
    let (own, written, now) = (entries::decode(own).ok()?, entries::decode(written).ok()?, entries::decode(now).ok()?);
    let is_writer = |entry: &Entry| is_writer(&entry.manager, &entry.subresource);
    // A field that another manager wrote since belongs neither to the writer nor to its previous owner.
    let still: Set = now.iter().filter(|entry| is_writer(entry)).flat_map(|entry| entry.fields.clone()).collect();
    let gone = own.iter().filter(|entry| of_manager(&now, entry).is_none());
    let left = now.iter().chain(gone).map(|entry| {
        let (own, written, now) = (of_manager(&own, entry), of_manager(&written, entry), of_manager(&now, entry));
        let is_untouched = fields(now) == fields(written);
        if entry.operation == Operation::Apply && is_writer(entry) {
            let is_applied_again = !is_untouched && now.map(|now| now.time) != written.map(|written| written.time);
            match own {
                // The later apply has set the ownership that its manager wants.
                _ if is_applied_again => return entry.clone(),
                Some(own) if is_untouched => return own.clone(),
                _ => {}
            }
        }
        let taken = fields(written).difference(&fields(own)).cloned().collect::<Set>();
        let lost = fields(own).difference(&fields(written)).cloned().collect::<Set>();
        let kept = fields(now).difference(&taken).cloned().collect::<Set>();
        let base = own.filter(|_| is_untouched).unwrap_or(entry);
        Entry { fields: kept.union(&(&lost & &still)).cloned().collect(), ..base.clone() }
    });
    entries::encode(left.filter(|entry| !entry.fields.is_empty()).collect())
}

pub(super) fn of_manager<'e>(entries: &'e [Entry], like: &Entry) -> Option<&'e Entry> {
    entries.iter().find(|entry| entry.is_of_the_same_manager_as(like))
}

fn fields(entry: Option<&Entry>) -> Set {
    entry.map(|entry| entry.fields.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// managedFields of managers, each with an operation, a second and fields.
    fn owners(entries: &[(&str, &str, u8, &[&str])]) -> Value {
        let entry = |(manager, operation, second, fields): &(&str, &str, u8, &[&str])| {
            let fields: serde_json::Map<_, _> = fields.iter().map(|field| (format!("f:{field}"), json!({}))).collect();
            json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": fields, "time": format!("2026-01-01T00:00:0{second}Z")})
        };
        entries.iter().map(entry).collect()
    }

    #[track_caller]
    fn check(own: Value, written: Value, now: Value, expected: Value) {
        let given = give_back(&own, &written, &now, |manager, subresource| manager == "me" && subresource.is_empty());
        assert_eq!(given.unwrap_or_default(), expected);
    }

    #[test]
    fn an_applier_owns_its_fields_and_the_others_the_fields_they_own_by_now() {
        check(
            owners(&[("me", "Apply", 1, &["a"]), ("other", "Update", 0, &["x", "taken"])]),
            owners(&[("me", "Apply", 1, &["a", "added", "taken"]), ("other", "Update", 0, &["x"])]),
            owners(&[
                ("me", "Apply", 1, &["a", "added", "taken"]),
                ("other", "Update", 2, &["x", "y"]),
                ("third", "Update", 2, &["z"]),
            ]),
            owners(&[
                ("me", "Apply", 1, &["a"]),
                ("other", "Update", 2, &["taken", "x", "y"]),
                ("third", "Update", 2, &["z"]),
            ]),
        );
    }

    #[test]
    fn a_field_that_another_manager_wrote_since_is_not_given_back() {
        check(
            owners(&[("me", "Apply", 1, &["a"]), ("other", "Update", 0, &["taken"])]),
            owners(&[("me", "Apply", 1, &["a", "taken"])]),
            owners(&[("me", "Apply", 1, &["a"]), ("third", "Update", 2, &["taken"])]),
            owners(&[("me", "Apply", 1, &["a"]), ("third", "Update", 2, &["taken"])]),
        );
    }

    #[test]
    fn a_later_apply_of_the_same_manager_keeps_its_fields() {
        check(
            owners(&[("me", "Apply", 1, &["a"])]),
            owners(&[("me", "Apply", 1, &["a", "added"])]),
            owners(&[("me", "Apply", 2, &["b"])]),
            owners(&[("me", "Apply", 2, &["b"])]),
        );
    }

    #[test]
    fn a_field_that_was_taken_from_an_applier_by_force_is_not_given_back() {
        check(
            owners(&[("me", "Apply", 1, &["a", "b"])]),
            owners(&[("me", "Apply", 1, &["a", "added", "b"])]),
            owners(&[("me", "Apply", 1, &["a", "added"]), ("third", "Apply", 2, &["b"])]),
            owners(&[("me", "Apply", 1, &["a"]), ("third", "Apply", 2, &["b"])]),
        );
    }

    #[test]
    fn fields_written_instead_of_applied_become_an_apply() {
        check(
            owners(&[("me", "Apply", 1, &["a", "b"]), ("me", "Update", 0, &["u"])]),
            owners(&[("me", "Apply", 0, &["a"]), ("me", "Update", 1, &["added", "b", "u"])]),
            owners(&[("me", "Apply", 0, &["a"]), ("me", "Update", 2, &["added", "b", "c", "u"])]),
            owners(&[("me", "Apply", 1, &["a", "b"]), ("me", "Update", 2, &["c", "u"])]),
        );
    }

    #[test]
    fn malformed_managed_fields_are_ignored() {
        assert_eq!(give_back(&json!([]), &json!([]), &json!([{"operation": "x"}]), |_, _| true), None);
    }
}
