//! An apply configuration that says more: what admission made of what the configuration came to.
//!
//! What it says then is tried before it counts: `deviation.rs` compares.

use crate::object::schema::{self, Type};
use crate::object::{GroupVersionKind, structural};
use crate::status::Status;
use serde_json::{Map, Value, json};

/// What is known of an object's fields.
#[derive(Clone, Copy)]
pub(super) enum Schema<'a> {
    /// The type of a built-in kind.
    BuiltIn(&'static Type),
    /// A custom resource's schema, or one within it.
    Custom(structural::Schema<'a>),
}

/// What is known of one field.
#[derive(Default)]
struct Facts<'a> {
    /// What tells the items of a list apart.
    keys: Vec<&'a str>,
    is_set: bool,
    is_atomic_map: bool,
    element: Option<Schema<'a>>,
}

impl<'a> Schema<'a> {
    /// Of a custom resource as a whole, whose metadata is everybody's.
    fn facts(self, name: &str) -> Facts<'a> {
        match self {
            Self::BuiltIn(schema) => schema.field(name).map_or_else(Facts::default, |field| Facts {
                keys: field.list_map_keys().collect(),
                is_set: field.list_type() == Some("set"),
                is_atomic_map: field.map_type() == Some("atomic"),
                element: field.element().map(Self::BuiltIn),
            }),
            Self::Custom(schema) => schema.field(name).map_or_else(Facts::default, |field| Facts {
                keys: field.list_map_keys().collect(),
                is_set: field.list_type() == Some("set"),
                is_atomic_map: field.map_type() == Some("atomic"),
                element: field.element().map(Self::Custom),
            }),
        }
    }
}

/// Has an apply configuration say of an object what admission made of it.
///
/// # Errors
/// 501 when admission took away what the configuration does not say, or changed an item that cannot be told from others: an
/// apply configuration cannot say so.
pub(super) fn extend(
    configuration: &mut Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    schema: Option<Schema<'_>>,
) -> Result<(), Status> {
    let is_custom = matches!(schema, Some(Schema::Custom(_)));
    extend_fields(configuration, before, after, &|name| match schema {
        Some(_) if is_custom && name == "metadata" => {
            Facts { element: metadata().map(Schema::BuiltIn), ..Facts::default() }
        }
        Some(schema) => schema.facts(name),
        None => Facts::default(),
    })
}

/// The type of every object's metadata.
fn metadata() -> Option<&'static Type> {
    schema::of(&GroupVersionKind::new("", "v1", "Pod"))?.field("metadata")?.element()
}

fn extend_fields<'a>(
    configuration: &mut Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    facts: &dyn Fn(&str) -> Facts<'a>,
) -> Result<(), Status> {
    for gone in before.keys().filter(|key| !after.contains_key(*key)) {
        configuration.remove(gone).ok_or_else(|| inexpressible(gone))?;
    }
    for (key, value) in after {
        let old = before.get(key);
        if old == Some(value) {
            continue;
        }
        let facts = facts(key);
        match (old, value) {
            (Some(Value::Object(old)), Value::Object(new)) if !facts.is_atomic_map => {
                let child = configuration.entry(key).or_insert_with(|| json!({}));
                let child = child.as_object_mut().ok_or_else(|| inexpressible(key))?;
                let within = |name: &str| facts.element.map(|schema| schema.facts(name)).unwrap_or_default();
                extend_fields(child, old, new, &within)?;
            }
            (Some(Value::Array(old)), Value::Array(new)) if !facts.keys.is_empty() => {
                extend_list(configuration, key, old, new, &facts)?;
            }
            (Some(Value::Array(old)), Value::Array(new)) if facts.is_set => {
                let list = configuration.entry(key).or_insert_with(|| json!([]));
                let list = list.as_array_mut().ok_or_else(|| inexpressible(key))?;
                list.retain(|item| new.contains(item) || !old.contains(item));
                list.extend(new.iter().filter(|item| !old.contains(item)).cloned());
            }
            _ => {
                configuration.insert(key.clone(), value.clone());
            }
        }
    }
    Ok(())
}

/// The same for a list whose items are told apart by keys.
fn extend_list(
    configuration: &mut Map<String, Value>,
    field: &str,
    old: &[Value],
    new: &[Value],
    facts: &Facts<'_>,
) -> Result<(), Status> {
    let keys = &facts.keys;
    let list = configuration.entry(field).or_insert_with(|| json!([]));
    let list = list.as_array_mut().ok_or_else(|| inexpressible(field))?;
    let same = |a: &Value, b: &Value| keys.iter().all(|key| a.get(*key) == b.get(*key));
    // A key that the client leaves out has its default.
    let named = |given: &Value, item: &Value| {
        keys.iter().all(|key| given.get(*key).is_none_or(|value| Some(value) == item.get(*key)))
    };
    let is_ambiguous =
        |given: &Value| [old, new].iter().any(|items| items.iter().filter(|item| named(given, item)).count() > 1);
    if has_twins(old, keys) || has_twins(new, keys) || list.iter().any(is_ambiguous) {
        return Err(inexpressible(field));
    }
    for gone in old.iter().filter(|item| !new.iter().any(|other| same(item, other))) {
        let at = list.iter().position(|given| named(given, gone)).ok_or_else(|| inexpressible(field))?;
        list.remove(at);
    }
    for item in new {
        let before = old.iter().find(|other| same(item, other));
        if before == Some(item) {
            continue;
        }
        let (Some(before), Some(after)) = (before.and_then(Value::as_object), item.as_object()) else {
            list.push(item.clone());
            continue;
        };
        let at = match list.iter().position(|given| named(given, item)) {
            Some(at) => at,
            None => {
                let named = keys.iter().filter_map(|key| Some(((*key).to_owned(), item.get(*key)?.clone())));
                list.push(Value::Object(named.collect()));
                list.len() - 1
            }
        };
        let given = list.get_mut(at).and_then(Value::as_object_mut).ok_or_else(|| inexpressible(field))?;
        let within = |name: &str| facts.element.map(|schema| schema.facts(name)).unwrap_or_default();
        extend_fields(given, before, after, &within)?;
    }
    // The order of the items is what the configuration says.
    list.sort_by_key(|given| new.iter().position(|item| named(given, item)));
    Ok(())
}

/// Whether two items have the same keys.
fn has_twins(items: &[Value], keys: &[&str]) -> bool {
    let of = |item: &Value| keys.iter().map(|key| item.get(*key).map(Value::to_string)).collect::<Vec<_>>();
    let mut all: Vec<_> = items.iter().map(of).collect();
    all.sort_unstable();
    all.windows(2).any(|pair| pair.first() == pair.last())
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
        let schema = schema.map(Schema::BuiltIn);
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
    fn what_admission_takes_away_is_no_longer_said() {
        let labels = |labels: Value| json!({"metadata": {"labels": labels}});
        let both = labels(json!({"a": "b", "c": "d"}));
        assert_eq!(extended(both.clone(), both, labels(json!({"a": "b"}))).unwrap(), labels(json!({"a": "b"})));
        let container = |names: &[&str]| {
            let containers: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"spec": {"containers": containers}})
        };
        let (both, one) = (container(&["a", "b"]), container(&["b"]));
        assert_eq!(extended(both.clone(), both, one.clone()).unwrap(), one);
    }

    #[test]
    fn a_set_gets_what_is_new_in_it() {
        let finalizers = |names: &[&str]| json!({"metadata": {"finalizers": names}});
        let extended = extended(json!({}), finalizers(&["theirs"]), finalizers(&["theirs", "ours"])).unwrap();
        assert_eq!(extended, finalizers(&["ours"]));
    }

    #[test]
    fn custom_resources_have_keys_of_their_own() {
        let schema = structural::Structural::compile(
            &json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"rules": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
                "items": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "integer"}}}}}}}}),
        );
        let schema = schema.unwrap();
        let rules = |rules: Value| json!({"spec": {"rules": rules}}).as_object().cloned().unwrap();
        let before = rules(json!([{"a": "1", "b": "1"}, {"a": "1", "b": "2"}]));
        let after = rules(json!([{"a": "1", "b": "1"}, {"a": "1", "b": "2", "c": 3}]));
        let mut configuration = Map::new();
        extend(&mut configuration, &before, &after, schema.root().map(Schema::Custom)).unwrap();
        assert_eq!(configuration, rules(json!([{"a": "1", "b": "2", "c": 3}])));
    }

    #[test]
    fn refuses_to_guess_which_of_two_items_changed() {
        let ports = |protocols: [Option<&str>; 2], name: Option<&str>| {
            let ports = protocols.map(|protocol| {
                let mut port = json!({"containerPort": 53});
                if let Some(protocol) = protocol {
                    port["protocol"] = protocol.into();
                }
                port
            });
            let mut pod = json!({"spec": {"containers": [{"name": "a", "ports": ports}]}});
            if let Some(name) = name {
                pod["spec"]["containers"][0]["ports"][1]["name"] = name.into();
            }
            pod
        };
        let both = [Some("TCP"), Some("UDP")];
        let told = extended(ports(both, None), ports(both, None), ports(both, Some("dns"))).unwrap();
        assert_eq!(told, ports(both, Some("dns")));
        let untold = extended(ports([None, Some("UDP")], None), ports(both, None), ports(both, Some("dns")));
        assert_eq!(untold.unwrap_err().code, 501);
    }

    #[test]
    fn items_have_the_order_that_admission_gave_them() {
        let outcome = json!({"spec": {"containers": [{"name": "a", "image": "i"}]}});
        let admitted = json!({"spec": {"containers": [{"name": "proxy", "image": "p"}, {"name": "a", "image": "i"}]}});
        assert_eq!(extended(outcome.clone(), outcome, admitted.clone()).unwrap(), admitted);
    }
}
