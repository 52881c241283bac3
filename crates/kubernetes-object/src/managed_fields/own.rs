//! Corrects field ownership after a write for which the API server recorded too many fields.

use super::entries::{self, Entry};
use super::give_back::of_manager;
use serde_json::Value;

/// Returns `recorded`, the `metadata.managedFields` of an object, with the entries of version `api_version` replaced by those of `own`;
/// `None` if the entries agree already, or if one of the two is malformed. An entry in both gets the earlier time, since a write that
/// changes none of a manager's fields does not renew the manager's entry.
pub fn owned_as(recorded: &Value, own: &Value, api_version: &str) -> Option<Value> {
    let (recorded, own) = (entries::decode(recorded).ok()?, entries::decode(own).ok()?);
    let is_known = |entry: &&Entry| entry.api_version == api_version;
    let same = |entry: &Entry| of_manager(&own, entry).is_some_and(|other| other.fields == entry.fields);
    let known = || recorded.iter().filter(is_known);
    if known().all(same) && known().count() == own.iter().filter(is_known).count() {
        return None;
    }
    let earlier = |entry: &Entry| {
        let time = of_manager(&recorded, entry).and_then(|other| other.time);
        Entry { time: time.into_iter().chain(entry.time).min(), ..entry.clone() }
    };
    let others = recorded.iter().filter(|entry| !is_known(entry)).cloned();
    let entries = others.chain(own.iter().filter(is_known).map(earlier)).collect();
    Some(entries::encode(entries).unwrap_or_else(|| Value::Array(Vec::new())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// managedFields of managers, each with a version, a second and fields.
    fn owners(entries: &[(&str, &str, u8, &[&str])]) -> Value {
        let entry = |(manager, version, second, fields): &(&str, &str, u8, &[&str])| {
            let fields: serde_json::Map<_, _> = fields.iter().map(|field| (format!("f:{field}"), json!({}))).collect();
            json!({"manager": manager, "operation": "Update", "apiVersion": version, "fieldsType": "FieldsV1",
                "fieldsV1": fields, "time": format!("2026-01-01T00:00:0{second}Z")})
        };
        entries.iter().map(entry).collect()
    }

    #[test]
    fn the_writer_keeps_its_own_fields_and_others_keep_theirs() {
        let recorded = owners(&[
            ("old", "v2", 1, &["x"]),
            ("other", "v1", 1, &["b"]),
            ("writer", "v1", 3, &["a", "added", "taken"]),
        ]);
        let own = owners(&[("other", "v1", 1, &["b", "taken"]), ("writer", "v1", 2, &["a"])]);
        let expected =
            owners(&[("old", "v2", 1, &["x"]), ("other", "v1", 1, &["b", "taken"]), ("writer", "v1", 2, &["a"])]);
        assert_eq!(owned_as(&recorded, &own, "v1"), Some(expected));
    }

    #[test]
    fn a_writer_of_nothing_owns_nothing() {
        let recorded = owners(&[("writer", "v1", 3, &["added"])]);
        assert_eq!(owned_as(&recorded, &json!([]), "v1"), Some(json!([])));
    }

    #[test]
    fn the_same_owners_at_another_time_differ_in_nothing() {
        let entries = |second| owners(&[("writer", "v1", second, &["a"])]);
        assert_eq!(owned_as(&entries(1), &entries(2), "v1"), None);
        assert_eq!(owned_as(&json!([{"operation": "x"}]), &entries(2), "v1"), None);
    }
}
