//! Values of the Go object that its JSON does not show: lists, maps and byte slices that are empty but not nil (`omitempty`), a difference
//! to some defaults and plugins; and labels that share one map with the template's labels.

use serde_json::{Map, Value};

/// The empty values of one object, by their paths. Nearly all objects have none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unwritten {
    empty: Vec<(String, Within)>,
    shares_labels: bool,
}

/// A step from a value to a value in it.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// To a field of an object.
    Field(&'a str),
    /// To an item of a list.
    Item(usize),
}

/// The empty values at or below one path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Within {
    /// An empty list, map or string.
    Here(Value),
    Fields(Unwritten),
    Items(Vec<(usize, Within)>),
}

impl Unwritten {
    /// Whether there are no unwritten values.
    pub fn is_empty(&self) -> bool {
        self.empty.is_empty() && !self.shares_labels
    }

    /// Whether an empty value is at this path of field names.
    pub fn contains(&self, path: &[&str]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        let found = self.empty.iter().find(|(name, _)| name == first);
        match found {
            Some((_, Within::Here(_))) => rest.is_empty(),
            Some((_, Within::Fields(fields))) => fields.contains(rest),
            Some((_, Within::Items(_))) | None => false,
        }
    }

    /// Whether an empty value is at this path, which may lead through lists.
    pub fn is_at(&self, path: &[Step<'_>]) -> bool {
        let Some((Step::Field(name), rest)) = path.split_first() else { return false };
        self.empty.iter().find(|(other, _)| other == name).is_some_and(|(_, within)| within.is_at(rest))
    }

    /// Adds an empty value at a path.
    pub fn add(&mut self, path: &[Step<'_>], empty: Value) {
        let Some((Step::Field(name), rest)) = path.split_first() else { return };
        match self.empty.iter_mut().find(|(other, _)| other == name) {
            Some((_, within)) => within.add(rest, empty),
            None => self.empty.push(((*name).to_owned(), Within::of(rest, empty))),
        }
    }

    /// Whether an empty value is in this field of the object, at any depth.
    pub fn is_at_or_below(&self, field: &str) -> bool {
        self.empty.iter().any(|(name, _)| name == field)
    }

    /// Whether the object shares the map of its template's labels.
    pub fn shares_labels(&self) -> bool {
        self.shares_labels
    }

    /// Inserts the empty values at their paths, unless another value is there now. Removes shared labels, since defaulting shares them
    /// again.
    pub fn fill(&self, fields: &mut Map<String, Value>) {
        for (name, within) in &self.empty {
            match (within, fields.get_mut(name)) {
                (Within::Here(empty), None) => drop(fields.insert(name.clone(), empty.clone())),
                (within, Some(value)) => within.fill(value),
                (_, None) => (),
            }
        }
        let labels_of_template = || fields.get("spec")?.pointer("/template/metadata/labels");
        let labels = || fields.get("metadata")?.get("labels");
        if self.shares_labels && labels().is_some() && labels() == labels_of_template() {
            // Decoding lets the object share its template's labels again, so the copy is dropped.
            fields.get_mut("metadata").and_then(Value::as_object_mut).map(|metadata| metadata.remove("labels"));
        }
    }

    /// Marks the object's labels as shared with its template: values that the API server writes into the template's labels
    /// (`job.jobStrategy.PrepareForCreate`) also appear in the object's.
    pub(super) fn share_labels(&mut self) {
        self.shares_labels = true;
    }

    pub(super) fn push(&mut self, name: &str, within: Within) {
        self.empty.push((name.to_owned(), within));
    }

    /// Returns the empty values as a part of a larger object's; `None` if there are none.
    pub(super) fn into_within(self) -> Option<Within> {
        (!self.empty.is_empty()).then_some(Within::Fields(self))
    }
}

impl Within {
    fn of(path: &[Step<'_>], empty: Value) -> Self {
        match path {
            [] => Self::Here(empty),
            [Step::Item(index), rest @ ..] => Self::Items(vec![(*index, Self::of(rest, empty))]),
            [Step::Field(_), ..] => {
                let mut fields = Unwritten::default();
                fields.add(path, empty);
                Self::Fields(fields)
            }
        }
    }

    fn is_at(&self, path: &[Step<'_>]) -> bool {
        match (self, path) {
            (Self::Here(_), []) => true,
            (Self::Fields(fields), path) => fields.is_at(path),
            (Self::Items(items), [Step::Item(index), rest @ ..]) => {
                items.iter().find(|(other, _)| other == index).is_some_and(|(_, within)| within.is_at(rest))
            }
            _ => false,
        }
    }

    fn add(&mut self, path: &[Step<'_>], empty: Value) {
        match (self, path) {
            (Self::Fields(fields), [Step::Field(_), ..]) => fields.add(path, empty),
            (Self::Items(items), [Step::Item(index), rest @ ..]) => {
                match items.iter_mut().find(|(other, _)| other == index) {
                    Some((_, within)) => within.add(rest, empty),
                    None => items.push((*index, Self::of(rest, empty))),
                }
            }
            // A value that was empty has content now.
            (within, path) => *within = Self::of(path, empty),
        }
    }

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
    use super::{Step, Unwritten};
    use crate::kind::GroupVersionKind;
    use crate::normal::built_in;
    use serde_json::{Value, json};

    #[test]
    fn empty_values_that_no_field_shows_are_known() {
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
    fn a_job_shares_the_labels_of_its_template() {
        let job = |labels: Value| {
            let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}});
            let job = json!({"metadata": {"name": "j", "labels": labels}, "spec": {"template": template}});
            built_in(&GroupVersionKind::new("batch", "v1", "Job"), job).unwrap().unwrap().object
        };
        let labels = ["metadata", "labels"];
        for (given, is_shared) in [(json!(null), true), (json!({}), true), (json!({"a": "b"}), false)] {
            let mut object = job(given);
            assert_eq!(object.get(&labels), Some(&json!({"a": "b"})));
            assert!(object.set(&["metadata", "name"], json!("k")));
            assert_eq!(object.whole().get(&labels).is_none(), is_shared);
            // Labels that differ are no longer shared, and are written.
            assert!(object.set(&labels, json!({"c": "d"})));
            assert_eq!(object.whole().get(&labels), Some(&json!({"c": "d"})));
        }
        // An object that was decoded with labels of its own does not share them.
        let again = built_in(&GroupVersionKind::new("batch", "v1", "Job"), job(json!(null)).into_value());
        assert!(again.unwrap().unwrap().object.whole().get(&labels).is_some());
    }

    #[test]
    fn empty_values_are_added_within_lists() {
        let of = |index: usize, field: &'static str| {
            [
                Step::Field("spec"),
                Step::Field("containers"),
                Step::Item(index),
                Step::Field("resources"),
                Step::Field(field),
            ]
        };
        let mut unwritten = Unwritten::default();
        unwritten.add(&of(1, "limits"), json!({}));
        unwritten.add(&of(0, "limits"), json!({}));
        unwritten.add(&of(1, "requests"), json!({}));
        unwritten.add(&of(1, "requests"), json!({}));
        for (path, expected) in [
            (&of(0, "limits")[..], true),
            (&of(1, "limits"), true),
            (&of(1, "requests"), true),
            (&of(0, "requests"), false),
            (&of(2, "limits"), false),
            (&of(1, "limits")[..4], false),
            (&[], false),
        ] {
            assert_eq!(unwritten.is_at(path), expected, "{path:?}");
        }
        let mut pod = json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}, {"name": "b", "resources": {}}]}});
        unwritten.fill(pod.as_object_mut().unwrap());
        let containers = json!([
            {"name": "a", "resources": {"limits": {"cpu": "1"}}},
            {"name": "b", "resources": {"limits": {}, "requests": {}}},
        ]);
        assert_eq!(pod["spec"]["containers"], containers);
    }

    #[test]
    fn a_removed_value_does_not_come_back() {
        let pod = json!({"spec": {"containers": [{"name": "c", "image": "i", "env": []}], "volumes": []}});
        let mut object = built_in(&GroupVersionKind::new("", "v1", "Pod"), pod).unwrap().unwrap().object;
        assert!(object.set(&["spec", "containers"], json!([])));
        assert_eq!(object.whole().get(&["spec", "containers"]), Some(&json!([])));
        object.remove(&["spec"]);
        assert_eq!(object.whole().get(&["spec"]), None);
    }
}
