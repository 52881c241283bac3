//! Unknown fields of objects of built-in kinds: fields that an API server of a later release has and the table does not. They are
//! taken out before plugins see the object, and put back into the admitted object.
//!
//! An unknown field belongs to the object that it was in. An item of a list is identified by the keys of the list, or by equality.

use super::table::{self, Holds, Shape, Type};
use crate::kind::GroupVersionKind;
use crate::schema::{self, Field};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// The unknown fields of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rest(Fields);

/// The list changed, and the item that the unknown fields belong to cannot be identified.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unplaced(
    /// The path of the item before the change: `spec.tolerations[1]`.
    pub String,
);

#[derive(Clone, Debug, Default, PartialEq)]
struct Fields {
    unknown: Map<String, Value>,
    within: Vec<(&'static str, Within)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Within {
    Fields(Fields),
    Entries(Vec<(String, Within)>),
    Items(Items),
}

/// The unknown fields of a list's items.
#[derive(Clone, Debug, PartialEq)]
struct Items {
    /// The number of items in the whole list.
    length: usize,
    /// The fields that identify an item; empty for a list without such fields.
    keys: Vec<&'static str>,
    found: Vec<(usize, Within)>,
}

/// The types of a value: in Go, and the field in the OpenAPI document.
#[derive(Clone, Copy)]
struct Known {
    shape: &'static Shape,
    field: Option<&'static Field>,
}

impl Rest {
    /// Takes the unknown fields out of an object. `None` if there are none, or if the kind is not built in.
    pub fn take(kind: &GroupVersionKind, object: &mut Map<String, Value>) -> Option<Self> {
        let schema = built_in(kind)?;
        take_fields(schema, schema::of(kind), object).map(Self)
    }

    /// Puts the fields into the changed object; `before` is the object without them in its normal form. The fields of a removed
    /// object or item are dropped. A field that the changed object has keeps its value.
    ///
    /// # Errors
    /// If a list changed and the item that has the fields cannot be identified.
    pub fn put_back(&self, before: &Map<String, Value>, after: &mut Map<String, Value>) -> Result<(), Unplaced> {
        self.0.put_back(Some(before), after)
    }
}

/// Whether an object of a built-in kind has unknown fields; false for other kinds.
pub fn has_rest(kind: &GroupVersionKind, object: &Map<String, Value>) -> bool {
    built_in(kind).is_some_and(|schema| is_any_unknown(schema, object))
}

fn built_in(kind: &GroupVersionKind) -> Option<&'static Type> {
    if table::has(kind) { table::of(kind) } else { None }
}

fn is_any_unknown(schema: &'static Type, fields: &Map<String, Value>) -> bool {
    fields.iter().any(|(name, value)| schema.field(name).is_none_or(|field| is_unknown_within(&field.shape, value)))
}

fn is_unknown_within(shape: &'static Shape, value: &Value) -> bool {
    match (&shape.holds, value) {
        (Holds::Struct(index), Value::Object(fields)) => {
            table::resolve(*index).is_some_and(|schema| is_any_unknown(schema, fields))
        }
        (Holds::List(items), Value::Array(values)) => values.iter().any(|value| is_unknown_within(items, value)),
        (Holds::Map(_, entries), Value::Object(values)) => {
            values.values().any(|value| is_unknown_within(entries, value))
        }
        (holds, value) => schema_or(holds, value).is_some_and(|shape| is_unknown_within(shape, value)),
    }
}

/// The type of the JSON schema or schemas in a value that may hold something else; `None` for something else.
fn schema_or(holds: &Holds, value: &Value) -> Option<&'static Shape> {
    let [schema, schemas, _] = table::json_schema();
    match (holds, value) {
        (Holds::SchemaOrBool | Holds::SchemaOrArray | Holds::SchemaOrStrings, Value::Object(_)) => Some(schema),
        (Holds::SchemaOrArray, Value::Array(_)) => Some(schemas),
        _ => None,
    }
}

fn take_fields(
    schema: &'static Type,
    merged: Option<&'static schema::ApiType>,
    fields: &mut Map<String, Value>,
) -> Option<Fields> {
    let mut found = Fields::default();
    let mut unknown = Vec::new();
    for (name, value) in fields.iter_mut() {
        let Some(field) = schema.field(name) else {
            unknown.push(name.clone());
            continue;
        };
        let known = Known { shape: &field.shape, field: merged.and_then(|merged| merged.field(name)) };
        found.within.extend(known.take(value).map(|within| (field.name, within)));
    }
    for name in unknown {
        found.unknown.extend(fields.remove(&name).map(|value| (name, value)));
    }
    (!found.unknown.is_empty() || !found.within.is_empty()).then_some(found)
}

impl Known {
    fn take(self, value: &mut Value) -> Option<Within> {
        let inner = |shape: &'static Shape| Self { shape, ..self };
        match (&self.shape.holds, &mut *value) {
            (Holds::Struct(index), Value::Object(fields)) => {
                let merged = self.field.and_then(Field::element);
                take_fields(table::resolve(*index)?, merged, fields).map(Within::Fields)
            }
            (Holds::List(shape), Value::Array(items)) => {
                let take = |(at, item): (usize, &mut Value)| Some((at, inner(shape).take(item)?));
                let found: Vec<_> = items.iter_mut().enumerate().filter_map(take).collect();
                (!found.is_empty()).then(|| {
                    Within::Items(Items { length: items.len(), keys: self.field.map(keys).unwrap_or_default(), found })
                })
            }
            (Holds::Map(_, shape), Value::Object(entries)) => {
                let take = |(key, entry): (&String, &mut Value)| Some((key.clone(), inner(shape).take(entry)?));
                let found: Vec<_> = entries.iter_mut().filter_map(take).collect();
                (!found.is_empty()).then_some(Within::Entries(found))
            }
            (holds, value) => inner(schema_or(holds, value)?).take(value),
        }
    }
}

/// The fields that identify the items of a list.
fn keys(field: &'static Field) -> Vec<&'static str> {
    match field.list_type() {
        Some("map") => field.list_map_keys().collect(),
        Some("set") => Vec::new(),
        _ => field.merge_key().into_iter().collect(),
    }
}

impl Fields {
    /// Puts the fields back. The error has the rest of the path.
    fn put_back(&self, before: Option<&Map<String, Value>>, after: &mut Map<String, Value>) -> Result<(), Unplaced> {
        for (name, within) in &self.within {
            let old = before.and_then(|before| before.get(*name)).filter(|value| !value.is_null());
            let at = |Unplaced(path): Unplaced| {
                let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
                Unplaced(format!("{name}{dot}{path}"))
            };
            match (after.get_mut(*name).filter(|value| !value.is_null()), within) {
                (Some(value), _) => within.put_back(old, value).map_err(at)?,
                // Admission removed the object.
                (None, _) if old.is_some() => {}
                // Go omits a struct without known fields.
                (None, Within::Fields(fields)) => {
                    let mut alone = Map::new();
                    fields.put_back(None, &mut alone).map_err(at)?;
                    after.insert((*name).to_owned(), Value::Object(alone));
                }
                (None, _) => return Err(Unplaced((*name).to_owned())),
            }
        }
        for (name, value) in &self.unknown {
            after.entry(name).or_insert_with(|| value.clone());
        }
        Ok(())
    }
}

impl Within {
    fn put_back(&self, before: Option<&Value>, after: &mut Value) -> Result<(), Unplaced> {
        match (self, after) {
            (Self::Fields(fields), Value::Object(after)) => fields.put_back(before.and_then(Value::as_object), after),
            (Self::Entries(entries), Value::Object(after)) => entries.iter().try_for_each(|(key, within)| {
                let old = before.and_then(|before| before.get(key));
                let entry = after.get_mut(key);
                let put_back = entry.map_or(Ok(()), |entry| within.put_back(old, entry));
                put_back.map_err(|Unplaced(path)| Unplaced(format!("[{key}].{path}")))
            }),
            (Self::Items(items), Value::Array(after)) => items.put_back(before.and_then(Value::as_array), after),
            _ => Err(Unplaced(String::new())),
        }
    }
}

impl Items {
    fn put_back(&self, before: Option<&Vec<Value>>, after: &mut [Value]) -> Result<(), Unplaced> {
        let before = before.filter(|before| before.len() == self.length).ok_or(Unplaced(String::new()))?;
        let places = Places::of(before, after, &self.keys);
        for (index, within) in &self.found {
            let at = |Unplaced(path): Unplaced| {
                let dot = if path.is_empty() { "" } else { "." };
                Unplaced(format!("[{index}]{dot}{path}"))
            };
            match places.of_item(*index) {
                Place::Gone => {}
                Place::At(place) => {
                    let item = after.get_mut(place).ok_or_else(|| at(Unplaced(String::new())))?;
                    within.put_back(before.get(*index), item).map_err(at)?;
                }
                Place::Unknown => return Err(at(Unplaced(String::new()))),
            }
        }
        Ok(())
    }
}

/// The position of an item after the change.
enum Place {
    At(usize),
    Gone,
    Unknown,
}

/// The positions of a list's items after the change; `None` if no item moved.
struct Places(Option<Moved>);

struct Moved {
    by_key: Option<Found>,
    by_text: Found,
    /// Whether every item was in the list before.
    is_shorter: bool,
    /// Whether no item was added, removed or moved, so that items changed in place.
    is_in_place: bool,
}

/// The text of each item, and the positions of each text in both lists.
struct Found {
    texts: Vec<String>,
    before: HashMap<String, Vec<usize>>,
    after: HashMap<String, Vec<usize>>,
}

impl Places {
    fn of(before: &[Value], after: &[Value], keys: &[&str]) -> Self {
        if before == after {
            return Self(None);
        }
        let by_text = Found::of(before, after, Value::to_string);
        let by_key = (!keys.is_empty()).then(|| {
            Found::of(before, after, |item| {
                keys.iter().map(|key| item.get(*key).unwrap_or(&Value::Null).to_string()).collect::<Vec<_>>().join(",")
            })
        });
        let is_shorter = by_text.after.keys().all(|text| by_text.before.contains_key(text));
        let stays = |(index, text): (usize, &String)| {
            before.get(index) == after.get(index) || !by_text.after.contains_key(text)
        };
        let is_in_place = before.len() == after.len() && by_text.texts.iter().enumerate().all(stays);
        Self(Some(Moved { by_key, by_text, is_shorter, is_in_place }))
    }

    fn of_item(&self, index: usize) -> Place {
        let Some(Moved { by_key, by_text, is_shorter, is_in_place }) = &self.0 else { return Place::At(index) };
        match by_key.as_ref().and_then(|found| found.positions(index)) {
            Some(([_], [])) => return Place::Gone,
            Some(([_], [place])) => return Place::At(*place),
            _ => {}
        }
        match by_text.positions(index) {
            Some((before, after)) if before.len() == after.len() => {
                let place = before.iter().position(|other| *other == index).and_then(|rank| after.get(rank));
                place.map_or(Place::Unknown, |place| Place::At(*place))
            }
            Some((_, [])) if *is_shorter => Place::Gone,
            Some((_, [])) if *is_in_place => Place::At(index),
            _ => Place::Unknown,
        }
    }
}

impl Found {
    fn of(before: &[Value], after: &[Value], text: impl Fn(&Value) -> String) -> Self {
        let positions = |texts: &[String]| {
            let mut positions: HashMap<String, Vec<usize>> = HashMap::new();
            texts.iter().enumerate().for_each(|(at, text)| positions.entry(text.clone()).or_default().push(at));
            positions
        };
        let texts: Vec<String> = before.iter().map(&text).collect();
        let of_after: Vec<String> = after.iter().map(&text).collect();
        Self { before: positions(&texts), after: positions(&of_after), texts }
    }

    /// The positions of the item's text before and after the change.
    fn positions(&self, index: usize) -> Option<(&[usize], &[usize])> {
        let text = self.texts.get(index)?;
        Some((self.before.get(text)?, self.after.get(text).map_or(&[], Vec::as_slice)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normal;
    use serde_json::json;

    fn kind(group: &str, kind: &str) -> GroupVersionKind {
        GroupVersionKind::new(group, "v1", kind)
    }

    /// The object after admission makes these changes to its known fields.
    fn kept(kind: &GroupVersionKind, sent: Value, change: impl Fn(&mut Value)) -> Result<Value, Unplaced> {
        let mut known = sent;
        let rest = Rest::take(kind, known.as_object_mut().unwrap()).unwrap();
        assert!(!has_rest(kind, known.as_object().unwrap()));
        let normal = normal::built_in(kind, known).unwrap().unwrap();
        assert!(normal.unknown.is_empty(), "{:?}", normal.unknown);
        let before = normal.object.into_value();
        let mut after = before.clone();
        change(&mut after);
        rest.put_back(before.as_object().unwrap(), after.as_object_mut().unwrap())?;
        Ok(after)
    }

    fn pod(spec: Value) -> Value {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i", "next": 1}]}});
        pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        pod
    }

    #[test]
    fn known_fields_are_not_taken_out() {
        let mut known = pod(json!({}));
        known["spec"]["containers"][1].as_object_mut().unwrap().remove("next");
        let fields = known.as_object_mut().unwrap();
        assert!(!has_rest(&kind("", "Pod"), fields));
        assert_eq!(Rest::take(&kind("", "Pod"), fields), None);
        let mut other = json!({"anything": 1});
        assert_eq!(Rest::take(&kind("example.com", "Widget"), other.as_object_mut().unwrap()), None);
        // DeleteOptions is a kind of all groups; a custom resource may have this name too.
        assert_eq!(Rest::take(&kind("example.com", "DeleteOptions"), other.as_object_mut().unwrap()), None);
    }

    #[test]
    fn fields_stay_with_the_objects_that_they_are_in() {
        let sent = pod(json!({"next": {"a": [null]}, "securityContext": {"next": 2}, "dnsConfig": {"next": 3},
            "volumes": [{"name": "v", "projected": {"sources": [{"next": 4}]}}], "overhead": {"cpu": "1"}}));
        let kept = kept(&kind("", "Pod"), sent, |pod| {
            let containers = pod["spec"]["containers"].as_array_mut().unwrap();
            containers[1]["image"] = json!("other");
            containers.insert(0, json!({"name": "first", "image": "i"}));
            containers.remove(1);
            pod["spec"].as_object_mut().unwrap().remove("dnsConfig");
            pod["metadata"]["labels"] = json!({"a": "b"});
        });
        let spec = &kept.unwrap()["spec"];
        assert_eq!(spec["next"], json!({"a": [null]}));
        assert_eq!((&spec["securityContext"], &spec["dnsConfig"]), (&json!({"next": 2}), &Value::Null));
        assert_eq!((&spec["containers"][1]["next"], &spec["containers"][1]["image"]), (&json!(1), &json!("other")));
        assert_eq!(spec["containers"][0].get("next"), None);
        assert_eq!(spec["volumes"][0]["projected"]["sources"][0]["next"], 4);
    }

    #[test]
    fn an_empty_struct_is_kept_for_its_unknown_fields() {
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]},
            "status": {"loadBalancer": {"next": 1}}});
        assert_eq!(kept(&kind("", "Service"), service, |_| ()).unwrap()["status"]["loadBalancer"]["next"], 1);
        let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "status": {"next": 1},
            "spec": {"updateStrategy": {"next": 2}}});
        let set = kept(&kind("apps", "DaemonSet"), set, |_| ()).unwrap();
        assert_eq!((&set["status"]["next"], &set["spec"]["updateStrategy"]["next"]), (&json!(1), &json!(2)));
    }

    #[test]
    fn items_without_keys_are_found_by_what_they_hold() {
        let toleration = |key: &str| json!({"key": key, "operator": "Exists"});
        let of = |tolerations: Vec<Value>| {
            let mut sent = json!([toleration("a"), toleration("b")]);
            sent[0]["next"] = json!(1);
            let kept = kept(&kind("", "Pod"), pod(json!({"tolerations": sent})), |pod| {
                pod["spec"]["tolerations"] = json!(tolerations);
            });
            kept.map(|pod| {
                let having = |item: &Value| item.get("next").map(|_| item["key"].as_str().unwrap().to_owned());
                pod["spec"]["tolerations"].as_array().unwrap().iter().filter_map(having).collect::<Vec<_>>()
            })
        };
        let [a, b, c] = ["a", "b", "c"].map(toleration);
        let unplaced = Err(Unplaced("spec.tolerations[0]".to_owned()));
        for (tolerations, expected) in [
            (vec![a.clone(), b.clone()], Ok(vec!["a".to_owned()])),
            (vec![b.clone(), c.clone(), a.clone()], Ok(vec!["a".to_owned()])),
            (vec![b.clone()], Ok(vec![])),
            (vec![c.clone(), b.clone()], Ok(vec!["c".to_owned()])),
            // The item may have been replaced, or removed with another one added.
            (vec![b.clone(), c.clone()], unplaced.clone()),
            (vec![a.clone(), a.clone(), b.clone()], unplaced),
        ] {
            assert_eq!(of(tolerations.clone()), expected, "{tolerations:?}");
        }
    }

    #[test]
    fn a_field_that_admission_set_stays_so() {
        let kept = kept(&kind("", "Pod"), pod(json!({"next": 1})), |pod| pod["spec"]["next"] = json!(2));
        assert_eq!(kept.unwrap()["spec"]["next"], 2);
    }

    #[test]
    fn json_schemas_within_json_schemas_have_them_too() {
        let schema =
            |within: Value| json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": within}}]}});
        let crd = kind("apiextensions.k8s.io", "CustomResourceDefinition");
        for within in [
            json!({"x-next": 1}),
            json!({"properties": {"a": {"items": {"x-next": 1}}}}),
            json!({"additionalProperties": {"x-next": 1}}),
            json!({"items": [{"x-next": 1}]}),
            json!({"dependencies": {"a": {"x-next": 1}}}),
            json!({"allOf": [{"not": {"x-next": 1}}]}),
        ] {
            let mut taken = schema(within.clone());
            assert!(has_rest(&crd, taken.as_object().unwrap()), "{within}");
            let rest = Rest::take(&crd, taken.as_object_mut().unwrap()).unwrap();
            assert!(!taken.to_string().contains("x-next"), "{within}");
            let (before, after) = (taken.clone(), taken.as_object_mut().unwrap());
            rest.put_back(before.as_object().unwrap(), after).unwrap();
            assert_eq!(taken, schema(within));
        }
        let any = schema(json!({"default": {"x": 1}, "enum": [{"y": 2}], "example": {"z": 3}}));
        assert!(!has_rest(&crd, any.as_object().unwrap()));
    }

    #[test]
    fn long_lists_of_the_same_do_not_take_long() {
        let item = json!({"key": "a", "next": 1});
        let kept = kept(&kind("", "Pod"), pod(json!({"tolerations": vec![item; 50_000]})), |pod| {
            pod["spec"]["tolerations"].as_array_mut().unwrap().reverse();
            pod["spec"]["containers"][1]["image"] = json!("other");
        });
        assert_eq!(kept.unwrap()["spec"]["tolerations"][49_999]["next"], 1);
    }
}
