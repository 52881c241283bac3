//! What Go holds of an object although its JSON does not say it: lists, maps and bytes that are empty, not nil
//! (`omitempty`). Some defaults and some plugins tell the two apart.

use serde_json::{Map, Value};

/// The empty values of one object, by where they would be. Nearly all objects have none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unwritten(Vec<(String, Within)>);

/// What of it is at or below one place.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Within {
    /// An empty list, map or string.
    Here(Value),
    Fields(Unwritten),
    Items(Vec<(usize, Within)>),
}

impl Unwritten {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is one at this path of field names.
    pub fn contains(&self, path: &[&str]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        let found = self.0.iter().find(|(name, _)| name == first);
        match found {
            Some((_, Within::Here(_))) => rest.is_empty(),
            Some((_, Within::Fields(fields))) => fields.contains(rest),
            Some((_, Within::Items(_))) | None => false,
        }
    }

    /// Puts them where they would be, if nothing else is there now.
    pub fn fill(&self, fields: &mut Map<String, Value>) {
        for (name, within) in &self.0 {
            match (within, fields.get_mut(name)) {
                (Within::Here(empty), None) => drop(fields.insert(name.clone(), empty.clone())),
                (within, Some(value)) => within.fill(value),
                (_, None) => (),
            }
        }
    }

    pub(super) fn push(&mut self, name: &str, within: Within) {
        self.0.push((name.to_owned(), within));
    }

    /// As part of a larger one, if there is any.
    pub(super) fn into_within(self) -> Option<Within> {
        (!self.0.is_empty()).then_some(Within::Fields(self))
    }
}

impl Within {
    fn fill(&self, value: &mut Value) {
        match (self, value) {
            (Self::Fields(within), Value::Object(fields)) => within.fill(fields),
            (Self::Items(within), Value::Array(items)) => {
                for (index, within) in within {
                    items.get_mut(*index).into_iter().for_each(|item| within.fill(item));
                }
            }
            _ => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::object::GroupVersionKind;
    use crate::object::normal::built_in;
    use serde_json::json;

    #[test]
    fn what_is_empty_is_known_where_it_is_not_written() {
        let pod = json!({"metadata": {"name": "a"}, "spec": {
            "overhead": {}, "nodeSelector": null, "hostname": "", "volumes": [],
            "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i", "env": []}],
        }});
        let mut object = built_in(&GroupVersionKind::new("", "v1", "Pod"), pod).unwrap().unwrap().object;
        assert_eq!(object.get(&["spec", "overhead"]), None);
        for (path, expected) in [
            (&["spec", "overhead"][..], true),
            (&["spec", "volumes"], true),
            (&["spec", "nodeSelector"], false),
            (&["spec", "hostname"], false),
            (&["spec", "containers"], false),
            (&["spec"], false),
            (&["spec", "overhead", "cpu"], false),
            (&[], false),
        ] {
            assert_eq!(object.is_empty_but_not_nil(path), expected, "{path:?}");
        }
        assert!(object.set(&["spec", "volumes"], json!([{"name": "v"}])));
        let whole = object.whole().into_owned();
        assert_eq!(whole.get(&["spec", "overhead"]), Some(&json!({})));
        assert_eq!(whole.get(&["spec", "volumes"]), Some(&json!([{"name": "v"}])));
        assert_eq!(whole.items(&["spec", "containers"])[0].get("env"), None);
        assert_eq!(whole.items(&["spec", "containers"])[1]["env"], json!([]));
        assert_eq!(whole.get(&["spec", "nodeSelector"]), None);
    }

    #[test]
    fn what_is_gone_does_not_come_back() {
        let pod = json!({"spec": {"containers": [{"name": "c", "image": "i", "env": []}], "volumes": []}});
        let mut object = built_in(&GroupVersionKind::new("", "v1", "Pod"), pod).unwrap().unwrap().object;
        assert!(object.set(&["spec", "containers"], json!([])));
        assert_eq!(object.whole().get(&["spec", "containers"]), Some(&json!([])));
        object.remove(&["spec"]);
        assert_eq!(object.whole().get(&["spec"]), None);
    }
}
