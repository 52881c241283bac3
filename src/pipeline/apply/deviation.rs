//! Compares the outcome of an extended apply configuration with the admitted object.
//!
//! Four forms of the object are compared: the outcome of the client's configuration (`first`), the object that mutating plugins
//! were shown (`before`), the object after them (`admitted`), and the outcome of the extended configuration (`second`). A change
//! that the API server makes to both outcomes is no deviation.

use serde_json::{Map, Value};

/// The fields of the metadata that the API server maintains.
const KEPT_BY_SERVER: [&str; 5] = ["creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"];

/// Returns the path of the first field in which the outcome differs from the admitted object.
pub(super) fn deviation(
    first: &Map<String, Value>,
    before: &Map<String, Value>,
    admitted: &Map<String, Value>,
    second: &Map<String, Value>,
) -> Option<String> {
    fields("", Some(first), Some(before), admitted, second)
}

fn fields(
    path: &str,
    first: Option<&Map<String, Value>>,
    before: Option<&Map<String, Value>>,
    admitted: &Map<String, Value>,
    second: &Map<String, Value>,
) -> Option<String> {
    let more = second.keys().filter(|key| !admitted.contains_key(*key));
    admitted.keys().chain(more).find_map(|key| {
        if path == "metadata" && KEPT_BY_SERVER.contains(&key.as_str()) {
            return None;
        }
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let (first, before) = (first.and_then(|first| first.get(key)), before.and_then(|before| before.get(key)));
        value(&path, first, before, admitted.get(key), second.get(key))
    })
}

fn value(
    path: &str,
    first: Option<&Value>,
    before: Option<&Value>,
    admitted: Option<&Value>,
    second: Option<&Value>,
) -> Option<String> {
    if second == admitted {
        return None;
    }
    let is_left_alone = admitted == before;
    if is_left_alone && (admitted.is_none() || second == first || are_times(first, second)) {
        return None;
    }
    match (admitted, second) {
        (Some(Value::Object(admitted)), Some(Value::Object(second))) => {
            fields(path, first.and_then(Value::as_object), before.and_then(Value::as_object), admitted, second)
        }
        (Some(Value::Array(admitted)), Some(Value::Array(second))) if admitted.len() == second.len() => {
            let alike = |list: Option<&Value>| -> Vec<Value> {
                let items = list.and_then(Value::as_array).filter(|items| items.len() == admitted.len());
                items.cloned().unwrap_or_default()
            };
            let (first, before) = (alike(first), alike(before));
            admitted.iter().zip(second).enumerate().find_map(|(index, (admitted, second))| {
                let path = format!("{path}[{index}]");
                value(&path, first.get(index), before.get(index), Some(admitted), Some(second))
            })
        }
        _ => Some(path.to_owned()),
    }
}

/// Whether both values are times, which the API server has set at different moments.
fn are_times(first: Option<&Value>, second: Option<&Value>) -> bool {
    let is_time = |value: Option<&Value>| {
        value.and_then(Value::as_str).is_some_and(|text| text.parse::<jiff::Timestamp>().is_ok())
    };
    is_time(first) && is_time(second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(first: Value, before: Value, admitted: Value, second: Value, expected: Option<&str>) {
        let map = |value: &Value| value.as_object().cloned().unwrap();
        let found = deviation(&map(&first), &map(&before), &map(&admitted), &map(&second));
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn fields_that_the_server_sets_are_no_deviation() {
        check(
            json!({"metadata": {"uid": "1", "labels": {}}, "status": {"phase": "Pending"}, "spec": {"ip": "10.0.0.1"}}),
            json!({"metadata": {"labels": {}}, "spec": {}}),
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {}}),
            json!({"metadata": {"uid": "2", "labels": {"a": "b"}}, "status": {"phase": "Pending"}, "spec": {"ip": "10.0.0.2"}}),
            None,
        );
    }

    #[test]
    fn a_missing_admitted_field_is_a_deviation() {
        let before = json!({"metadata": {}});
        let admitted = json!({"metadata": {"labels": {"a": "b"}}});
        let other = json!({"metadata": {"labels": {"a": "c"}}});
        check(before.clone(), before.clone(), admitted.clone(), before.clone(), Some("metadata.labels"));
        check(before.clone(), before, admitted, other, Some("metadata.labels.a"));
    }

    #[test]
    fn a_field_that_admission_removed_and_the_result_has_is_a_deviation() {
        let with = json!({"data": {"a": "1", "b": "2"}});
        check(with.clone(), with.clone(), json!({"data": {"a": "1"}}), with, Some("data.b"));
    }

    #[test]
    fn a_changed_field_that_admission_did_not_change_is_a_deviation() {
        let before = json!({"data": {"a": "1"}, "immutable": false});
        let second = json!({"data": {"a": "1", "b": "2"}, "immutable": true});
        check(
            before.clone(),
            before,
            json!({"data": {"a": "1", "b": "2"}, "immutable": false}),
            second,
            Some("immutable"),
        );
    }

    #[test]
    fn the_order_of_items_counts() {
        let list = |names: [&str; 2]| json!({"list": names.map(|name| json!({"name": name}))});
        check(list(["a", "c"]), list(["a", "c"]), list(["b", "a"]), list(["a", "b"]), Some("list[0].name"));
    }

    #[test]
    fn a_later_time_is_no_deviation() {
        let at = |time: &str, a: i32| json!({"status": {"at": time}, "a": a});
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
        check(at(early, 1), at(early, 1), at(early, 2), at(late, 2), None);
    }
}
