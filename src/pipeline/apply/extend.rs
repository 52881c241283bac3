//! An apply configuration that says more: what admission added to what the configuration came to.

use crate::object::schema::Type;
use crate::status::Status;
use serde_json::{Map, Value, json};

/// Adds to an apply configuration what admission added to the outcome.
///
/// # Errors
/// 501 when admission took something away, or changed a list of which no keys are known: an apply configuration cannot say
/// so.
pub(super) fn extend(
    configuration: &mut Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    schema: Option<&'static Type>,
) -> Result<(), Status> {
    if let Some(gone) = before.keys().find(|key| !after.contains_key(*key)) {
        return Err(inexpressible(gone));
    }
    for (key, value) in after {
        let old = before.get(key);
        if old == Some(value) {
            continue;
        }
        let field = schema.and_then(|schema| schema.field(key));
        match (old, value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                let child = configuration.entry(key).or_insert_with(|| json!({}));
                let child = child.as_object_mut().ok_or_else(|| inexpressible(key))?;
                extend(child, old, new, field.and_then(|field| field.element()))?;
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                let merge_key = field.and_then(|field| field.list_map_keys().next());
                let item_type = field.and_then(|field| field.element());
                match merge_key {
                    Some(merge_key) => extend_list(configuration, key, old, new, merge_key, item_type)?,
                    None if configuration.get(key).is_some_and(|given| given.as_array() == Some(old)) => {
                        configuration.insert(key.clone(), value.clone());
                    }
                    None => return Err(inexpressible(key)),
                }
            }
            _ => {
                configuration.insert(key.clone(), value.clone());
            }
        }
    }
    Ok(())
}

/// The same for a list whose items are told apart by a key.
fn extend_list(
    configuration: &mut Map<String, Value>,
    field: &str,
    old: &[Value],
    new: &[Value],
    merge_key: &str,
    item_type: Option<&'static Type>,
) -> Result<(), Status> {
    let list = configuration.entry(field).or_insert_with(|| json!([]));
    let list = list.as_array_mut().ok_or_else(|| inexpressible(field))?;
    if [old, new, list.as_slice()].into_iter().any(|items| has_twins(items, merge_key)) {
        // Told apart by more than this key: the change could end up in the wrong item.
        return Err(inexpressible(field));
    }
    let same_key = |a: &Value, b: &Value| a.get(merge_key).is_some() && a.get(merge_key) == b.get(merge_key);
    if old.iter().any(|item| !new.iter().any(|other| same_key(item, other))) {
        return Err(inexpressible(field));
    }
    for item in new {
        let before = old.iter().find(|other| same_key(item, other));
        if before == Some(item) {
            continue;
        }
        let (Some(before), Some(after)) = (before.and_then(Value::as_object), item.as_object()) else {
            list.push(item.clone());
            continue;
        };
        let at = match list.iter().position(|given| same_key(given, item)) {
            Some(at) => at,
            None => {
                list.push(json!({merge_key: item.get(merge_key)}));
                list.len() - 1
            }
        };
        let given = list.get_mut(at).and_then(Value::as_object_mut).ok_or_else(|| inexpressible(field))?;
        extend(given, before, after, item_type)?;
    }
    // The order of the items is what the configuration says.
    list.sort_by_key(|given| new.iter().position(|item| same_key(given, item)));
    Ok(())
}

/// Whether two items have the same key.
fn has_twins(items: &[Value], merge_key: &str) -> bool {
    let mut keys: Vec<String> = items.iter().filter_map(|item| item.get(merge_key)).map(Value::to_string).collect();
    keys.sort_unstable();
    keys.windows(2).any(|pair| pair.first() == pair.last())
}

/// The 501 of what an apply configuration cannot say.
pub(super) fn inexpressible(field: &str) -> Status {
    Status::not_implemented(&format!(
        "admission changed the field {field:?} in a way that an apply configuration cannot express; apply on the client's side instead"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::GroupVersionKind;

    fn extended(configuration: Value, before: Value, after: Value) -> Result<Value, Status> {
        let mut configuration = configuration.as_object().cloned().unwrap();
        let schema = crate::object::schema::of(&GroupVersionKind::new("", "v1", "Pod"));
        extend(&mut configuration, before.as_object().unwrap(), after.as_object().unwrap(), schema)?;
        Ok(Value::Object(configuration))
    }

    #[test]
    fn adds_fields_to_the_items_that_the_client_named() {
        let outcome = json!({"spec": {"containers": [{"name": "a", "image": "i", "imagePullPolicy": "IfNotPresent"}]}});
        let admitted = json!({"spec": {"containers": [{"name": "a", "image": "i", "imagePullPolicy": "Always"}]}});
        let configuration = json!({"spec": {"containers": [{"name": "a", "image": "i"}]}});
        assert_eq!(extended(configuration, outcome, admitted.clone()).unwrap(), admitted);
    }

    #[test]
    fn names_an_item_that_somebody_else_owns_by_its_key() {
        let outcome = json!({"spec": {"containers": [{"name": "a", "image": "i"}]}});
        let admitted = json!({"spec": {"containers": [{"name": "a", "image": "i", "imagePullPolicy": "Always"}]}});
        assert_eq!(
            extended(json!({"metadata": {}}), outcome, admitted).unwrap(),
            json!({"metadata": {}, "spec": {"containers": [{"name": "a", "imagePullPolicy": "Always"}]}})
        );
    }

    #[test]
    fn refuses_what_an_apply_configuration_cannot_say() {
        let refused =
            extended(json!({}), json!({"metadata": {"labels": {"a": "b"}}}), json!({"metadata": {"labels": {}}}));
        assert_eq!(refused.unwrap_err().code, 501);
    }

    #[test]
    fn refuses_to_guess_which_of_two_items_changed() {
        let ports = |name: Option<&str>| {
            let mut udp = json!({"containerPort": 53, "protocol": "UDP"});
            if let Some(name) = name {
                udp["name"] = name.into();
            }
            let ports = json!([{"containerPort": 53, "protocol": "TCP"}, udp]);
            json!({"spec": {"containers": [{"name": "a", "ports": ports}]}})
        };
        assert_eq!(extended(ports(None), ports(None), ports(Some("dns"))).unwrap_err().code, 501);
    }

    #[test]
    fn items_have_the_order_that_admission_gave_them() {
        let outcome = json!({"spec": {"containers": [{"name": "a", "image": "i"}]}});
        let admitted = json!({"spec": {"containers": [{"name": "proxy", "image": "p"}, {"name": "a", "image": "i"}]}});
        assert_eq!(extended(outcome.clone(), outcome, admitted.clone()).unwrap(), admitted);
    }
}
