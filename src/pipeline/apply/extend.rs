//! Extends an apply configuration with the changes that admission made to its outcome.
//!
//! A dry run of the extended configuration checks the outcome (`deviation.rs`). Other changes are sent in a patch or a create.

use crate::object::merge::{Atom, Items, Node};
use serde_json::{Map, Value, json};

/// The highest number of pairs of items that are compared. A list may have far more items than any real use needs.
const MAX_PAIRS: usize = 1 << 22;

/// Adds the changes that admission made to an object to its apply configuration. `None` if admission removed a field that the
/// configuration does not have, or changed an item that cannot be distinguished from others: no apply configuration can express
/// these changes.
pub(super) fn extend(
    configuration: &mut Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    node: Node<'_>,
) -> Option<()> {
    for gone in before.keys().filter(|key| !after.contains_key(*key)) {
        configuration.remove(gone)?;
    }
    let map = node.atom().map;
    for (key, value) in after {
        let old = before.get(key);
        if old == Some(value) {
            continue;
        }
        let node = map.as_ref().map_or(Node::Deduced, |map| map.field(key).node());
        let Atom { list, map, .. } = node.atom();
        match (old, value, list.map(|list| (list.items, list.element))) {
            (Some(Value::Object(old)), Value::Object(new), _) if map.is_none_or(|map| !map.is_atomic) => {
                let child = configuration.entry(key).or_insert_with(|| json!({}));
                extend(child.as_object_mut()?, old, new, node)?;
            }
            (Some(Value::Array(old)), Value::Array(new), Some((Items::Set | Items::Keys(_), _)))
                if has_too_many_pairs(configuration.get(key), old, new) =>
            {
                return None;
            }
            (Some(Value::Array(old)), Value::Array(new), Some((Items::Keys(keys), item))) => {
                extend_list(configuration, key, old, new, &keys, item)?;
            }
            (Some(Value::Array(old)), Value::Array(new), Some((Items::Set, _))) => {
                let list = configuration.entry(key).or_insert_with(|| json!([]));
                let list = list.as_array_mut()?;
                list.retain(|item| new.contains(item) || !old.contains(item));
                list.extend(new.iter().filter(|item| !old.contains(item)).cloned());
            }
            _ => {
                configuration.insert(key.clone(), value.clone());
            }
        }
    }
    Some(())
}

/// Extends a list whose items are identified by keys.
fn extend_list(
    configuration: &mut Map<String, Value>,
    field: &str,
    old: &[Value],
    new: &[Value],
    keys: &[&str],
    node: Node<'_>,
) -> Option<()> {
    let list = configuration.entry(field).or_insert_with(|| json!([]));
    let list = list.as_array_mut()?;
    let same = |a: &Value, b: &Value| keys.iter().all(|key| a.get(*key) == b.get(*key));
    // A key that the client leaves out has its default.
    let named = |given: &Value, item: &Value| {
        keys.iter().all(|key| given.get(*key).is_none_or(|value| Some(value) == item.get(*key)))
    };
    let is_ambiguous =
        |given: &Value| [old, new].iter().any(|items| items.iter().filter(|item| named(given, item)).count() > 1);
    if has_twins(old, keys) || has_twins(new, keys) || list.iter().any(is_ambiguous) {
        return None;
    }
    for gone in old.iter().filter(|item| !new.iter().any(|other| same(item, other))) {
        let at = list.iter().position(|given| named(given, gone))?;
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
        let given = list.get_mut(at).and_then(Value::as_object_mut)?;
        extend(given, before, after, node)?;
    }
    // The configuration determines the order of the items.
    list.sort_by_key(|given| new.iter().position(|item| named(given, item)));
    Some(())
}

fn has_too_many_pairs(given: Option<&Value>, old: &[Value], new: &[Value]) -> bool {
    let given = given.and_then(Value::as_array).map_or(0, Vec::len);
    (given + new.len()).saturating_mul(old.len() + new.len()) > MAX_PAIRS
}

/// Whether two items have the same keys.
fn has_twins(items: &[Value], keys: &[&str]) -> bool {
    let of = |item: &Value| keys.iter().map(|key| item.get(*key).map(Value::to_string)).collect::<Vec<_>>();
    let mut all: Vec<_> = items.iter().map(of).collect();
    all.sort_unstable();
    all.windows(2).any(|pair| pair.first() == pair.last())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::GroupVersionKind;
    use crate::object::structural::Structural;

    fn extended(configuration: Value, before: Value, after: Value) -> Option<Value> {
        let mut configuration = configuration.as_object().cloned().unwrap();
        let node = Node::built_in(&GroupVersionKind::new("", "v1", "Pod")).unwrap();
        extend(&mut configuration, before.as_object().unwrap(), after.as_object().unwrap(), node)?;
        Some(Value::Object(configuration))
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
    fn refuses_a_change_that_an_apply_configuration_cannot_express() {
        let refused =
            extended(json!({}), json!({"metadata": {"labels": {"a": "b"}}}), json!({"metadata": {"labels": {}}}));
        assert_eq!(refused, None);
    }

    #[test]
    fn fields_that_admission_removes_leave_the_configuration() {
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
        let schema = Structural::compile(&json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"rules": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
                "items": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "integer"}}}}}}}}));
        let schema = schema.unwrap();
        let rules = |rules: Value| json!({"spec": {"rules": rules}}).as_object().cloned().unwrap();
        let before = rules(json!([{"a": "1", "b": "1"}, {"a": "1", "b": "2"}]));
        let after = rules(json!([{"a": "1", "b": "1"}, {"a": "1", "b": "2", "c": 3}]));
        let mut configuration = Map::new();
        extend(&mut configuration, &before, &after, schema.root().map(Node::Whole).unwrap()).unwrap();
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
        let result = extended(ports(both, None), ports(both, None), ports(both, Some("dns"))).unwrap();
        assert_eq!(result, ports(both, Some("dns")));
        let untold = extended(ports([None, Some("UDP")], None), ports(both, None), ports(both, Some("dns")));
        assert_eq!(untold, None);
    }

    #[test]
    fn items_have_the_order_that_admission_gave_them() {
        let outcome = json!({"spec": {"containers": [{"name": "a", "image": "i"}]}});
        let admitted = json!({"spec": {"containers": [{"name": "proxy", "image": "p"}, {"name": "a", "image": "i"}]}});
        assert_eq!(extended(outcome.clone(), outcome, admitted.clone()).unwrap(), admitted);
    }
}
