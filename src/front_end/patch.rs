//! The JSON patch from the object of a review to the admitted object.

use crate::object::Object;
use crate::object::normal;
use serde::Serialize;

/// A JSON patch, as an answer has it.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Patch(json_patch::Patch);

impl Patch {
    /// Whether the patch changes nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the patch that turns the object before into the one after. It has no operations on equal values.
pub(super) fn between(before: &Object, after: &Object) -> Patch {
    if before == after {
        return Patch::default();
    }
    let (before, after) = (normal::as_written(before), normal::as_written(after));
    Patch(json_patch::diff(before.as_value(), after.as_value()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::patch::admission;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn object(value: Value) -> Object {
        Object::from_value(value).unwrap()
    }

    /// Values with names that JSON pointers escape, nulls, and empty containers.
    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-2i64..3).prop_map(Value::from),
            Just(json!(0.5)),
            "[ab]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                objects(inner).prop_map(Value::Object),
            ]
        })
    }

    fn objects(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = serde_json::Map<String, Value>> {
        prop::collection::btree_map("[a~/\u{e9}-]{0,2}|[01]", inner, 0..4).prop_map(|map| map.into_iter().collect())
    }

    proptest! {
        /// `admission::Patch` applies patches as kube-apiserver does (`evanphx/json-patch`).
        #[test]
        fn the_api_server_makes_the_admitted_object_of_it(before in objects(values()), after in objects(values())) {
            let (before, after) = (object(Value::Object(before)), object(Value::Object(after)));
            let patch = between(&before, &after);
            prop_assert_eq!(patch.is_empty(), before == after);
            let applied = admission::Patch::decode(&serde_json::to_vec(&patch).unwrap()).unwrap().apply(&before);
            prop_assert_eq!(applied, Ok(after.into_value()));
        }
    }

    #[test]
    fn only_changed_values_are_in_the_patch() {
        let pod = |policy: &str, volumes: Value| {
            object(json!({"metadata": {"name": "a"}, "spec": {"containers": [
                {"name": "a", "imagePullPolicy": policy, "volumeMounts": volumes}, {"name": "b"}]}}))
        };
        let patch =
            between(&pod("Never", json!([{"name": "x"}])), &pod("Always", json!([{"name": "x"}, {"name": "y"}])));
        let expected = json!([
            {"op": "replace", "path": "/spec/containers/0/imagePullPolicy", "value": "Always"},
            {"op": "add", "path": "/spec/containers/0/volumeMounts/1", "value": {"name": "y"}},
        ]);
        assert_eq!(serde_json::to_value(&patch).unwrap(), expected);
    }
}
