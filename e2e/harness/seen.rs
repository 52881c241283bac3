//! The answer to one request and the reviews that webhooks received for it, without values that differ from run to run.

use super::client::Answer;
use super::webhook::Review;
use regex::Regex;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt;

/// One request's answer and reviews.
pub struct Seen {
    kind: String,
    name: String,
    step: String,
    pub code: u16,
    pub body: Value,
    all: Value,
}

/// A path where the two sides differ.
pub struct Difference {
    pub kind: String,
    pub name: String,
    pub step: String,
    /// `answer…`, `mutating[0]…` or `validating[0]…`.
    pub place: String,
    expected: Value,
    found: Value,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, step, place, expected, found } = self;
        write!(f, "{kind} {name} {step} {place}: expected {expected}, found {found}")
    }
}

impl Difference {
    /// The difference with shortened values.
    pub fn in_short(&self) -> String {
        let short = |value: &Value| value.to_string().chars().take(200).collect::<String>();
        format!("{} {}: expected {}, found {}", self.kind, self.name, short(&self.expected), short(&self.found))
    }
}

/// Replaces values that differ from run to run.
pub struct Masks<'a> {
    time: Regex,
    uid: Regex,
    pointers: &'a [String],
}

impl<'a> Masks<'a> {
    /// `pointers` lead to values in the objects.
    pub fn new(pointers: &'a [String]) -> Self {
        // All times in the manifests are on one day.
        let time = Regex::new(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").unwrap();
        let uid = Regex::new(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b").unwrap();
        Self { time, uid, pointers }
    }

    fn object(&self, object: &mut Value) {
        for pointer in self.pointers {
            if let Some(value) = object.pointer_mut(pointer) {
                *value = json!("<masked>");
            }
        }
    }

    fn text(&self, text: &str) -> String {
        let of_a_manifest = |time: &str| time.starts_with("2026-01-01T");
        let text = self.time.replace_all(text, |found: &regex::Captures<'_>| match of_a_manifest(&found[0]) {
            true => found[0].to_owned(),
            false => "<time>".to_owned(),
        });
        self.uid.replace_all(&text, "<uid>").into_owned()
    }

    fn everywhere(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (key, value) in map.iter_mut() {
                    match (key.as_str(), &mut *value) {
                        ("resourceVersion", Value::String(text)) if !text.is_empty() => *value = json!("<version>"),
                        // The order of entries depends on the second of each write.
                        ("managedFields", Value::Array(entries)) => {
                            entries.sort_by_key(|entry| {
                                ["manager", "operation", "subresource", "apiVersion"].map(|key| entry[key].to_string())
                            });
                            self.everywhere(value);
                        }
                        _ => self.everywhere(value),
                    }
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|value| self.everywhere(value)),
            Value::String(text) => *text = self.text(text),
            _ => {}
        }
    }
}

impl Seen {
    pub fn new(
        kind: &str,
        name: &str,
        step: &str,
        answer: &Answer,
        reviews: impl Iterator<Item = Review>,
        masks: &Masks<'_>,
    ) -> Self {
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|_| json!(answer.text()));
        let mut masked = body.clone();
        masks.object(&mut masked);
        let (mut mutating, mut validating) = (Vec::new(), Vec::new());
        for review in reviews {
            let mut request = review.body["request"].clone();
            for object in ["object", "oldObject"] {
                masks.object(&mut request[object]);
            }
            let phase = if review.path.starts_with("/mutating") { &mut mutating } else { &mut validating };
            phase.push(request);
        }
        let mut all = json!({
            "answer": {"code": answer.status, "warnings": answer.header("warning"), "body": masked},
            "mutating": mutating,
            "validating": validating,
        });
        masks.everywhere(&mut all);
        if kind == "Pod" && step.starts_with("delete") {
            // With a watch cache that lacks the mark kube-apiserver calls the webhook twice with the same object.
            for phase in ["mutating", "validating"] {
                all[phase].as_array_mut().into_iter().for_each(Vec::dedup);
            }
        }
        if kind == "CustomResourceDefinition" {
            // Controllers write the definition, too: after a conflict with them either side repeats and admits the attempt.
            for phase in ["mutating", "validating"] {
                let attempts = all[phase].as_array_mut().into_iter();
                attempts.for_each(|attempts| drop(attempts.drain(..attempts.len().saturating_sub(1))));
            }
        }
        Self { kind: kind.to_owned(), name: name.to_owned(), step: step.to_owned(), code: answer.status, body, all }
    }

    /// The differences between this and `found`.
    pub fn differences(&self, found: &Self) -> Vec<Difference> {
        assert_eq!((&self.kind, &self.name, &self.step), (&found.kind, &found.name, &found.step));
        let mut places = Vec::new();
        differ("", &self.all, &found.all, &mut places);
        let difference = |(place, expected, found): (String, Value, Value)| Difference {
            kind: self.kind.clone(),
            name: self.name.clone(),
            step: self.step.clone(),
            place,
            expected,
            found,
        };
        places.into_iter().map(difference).collect()
    }
}

fn differ(path: &str, left: &Value, right: &Value, places: &mut Vec<(String, Value, Value)>) {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let missing = json!("<missing>");
            let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                differ(&path, left.get(key).unwrap_or(&missing), right.get(key).unwrap_or(&missing), places);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                differ(&format!("{path}[{index}]"), left, right, places);
            }
        }
        _ if left == right => {}
        _ => places.push((path.to_owned(), left.clone(), right.clone())),
    }
}
