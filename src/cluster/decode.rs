//! Decodes single objects of lists and watches, and only the fields that are read.
//!
//! kube-apiserver stores values that the types here do not accept, such as a time after the year 9999 in
//! `metadata.managedFields`. An object that cannot be decoded affects only the requests that need the object.

use super::cache::{Projection, key};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The reason why an object cannot be decoded, without its content: the messages of `serde_json` quote the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{category} at line {line}, column {column} of the decoded fields of the object")]
pub(crate) struct Undecodable {
    category: &'static str,
    line: usize,
    column: usize,
}

impl From<serde_json::Error> for Undecodable {
    fn from(error: serde_json::Error) -> Self {
        let category = match error.classify() {
            serde_json::error::Category::Io => "read error",
            serde_json::error::Category::Syntax => "syntax error",
            serde_json::error::Category::Data => "unexpected value",
            serde_json::error::Category::Eof => "unexpected end",
        };
        Self { category, line: error.line(), column: error.column() }
    }
}

/// The namespace, name and resourceVersion of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Identity {
    namespace: Option<String>,
    name: Option<String>,
    pub(super) resource_version: Option<String>,
}

impl Identity {
    /// The identity in an object's text. Empty if the text cannot be decoded.
    pub(super) fn of(text: &str) -> Self {
        #[derive(Deserialize)]
        struct Identified {
            metadata: Identity,
        }
        serde_json::from_str(text).map(|object: Identified| object.metadata).unwrap_or_default()
    }

    /// The object's key: `namespace/name`, or the name of a cluster-scoped object.
    pub(super) fn key(&self) -> Cow<'_, str> {
        key(self.namespace.as_deref().unwrap_or_default(), self.name.as_deref().unwrap_or_default())
    }
}

/// Returns the object's key and the fields to keep.
///
/// # Errors
/// If a field that is read has a value that its type does not accept.
pub(super) fn decode<P: Projection>(text: &str) -> Result<(String, P), Undecodable> {
    let (key, object, _) = decode_measured(text)?;
    Ok((key, object))
}

/// As [`decode`], and returns the length of the text of the fields that were decoded.
///
/// # Errors
/// As [`decode`].
pub(super) fn decode_measured<P: Projection>(text: &str) -> Result<(String, P, usize), Undecodable> {
    let (object, text) = read(text, P::FIELDS)?;
    let (key, object) = P::project(object);
    Ok((key, object, text))
}

/// Decodes an object with only these fields, as `field` or `field.subfield`; all fields if the list is empty. Returns the length of their
/// text as well.
fn read<T: DeserializeOwned>(text: &str, fields: &[&str]) -> Result<(T, usize), Undecodable> {
    if fields.is_empty() {
        return Ok((serde_json::from_str(text)?, text.len()));
    }
    let reduced = reduced(text, fields)?;
    Ok((serde_json::from_str(&reduced)?, reduced.len()))
}

type Fields<'t> = BTreeMap<String, Cow<'t, RawValue>>;

fn reduced(text: &str, fields: &[&str]) -> serde_json::Result<String> {
    let mut reduced = Fields::new();
    for (name, value) in serde_json::from_str::<BTreeMap<String, &RawValue>>(text)? {
        let is_within = |field: &&str| field.split_once('.').is_some_and(|(of, _)| of == name);
        if fields.contains(&&*name) {
            reduced.insert(name, Cow::Borrowed(value));
        } else if fields.iter().any(is_within) {
            let subfields: Option<BTreeMap<String, &RawValue>> = serde_json::from_str(value.get())?;
            let mut subfields = subfields.unwrap_or_default();
            let is_read = |subfield: &str| fields.iter().any(|field| field.split_once('.') == Some((&*name, subfield)));
            subfields.retain(|subfield, _| is_read(subfield));
            reduced.insert(name, Cow::Owned(to_raw_value(&subfields)?));
        }
    }
    serde_json::to_string(&reduced)
}

/// A list with undecoded items.
#[derive(Deserialize)]
pub(super) struct List<'t> {
    #[serde(default)]
    pub(super) metadata: ListMeta,
    #[serde(borrow, default)]
    pub(super) items: Option<Vec<&'t RawValue>>,
}

/// The fields of `metav1.ListMeta` that are read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListMeta {
    pub(super) resource_version: Option<String>,
    pub(super) r#continue: Option<String>,
}

/// A watch event with an undecoded object.
#[derive(Deserialize)]
pub(super) struct Event<'t> {
    pub(super) r#type: String,
    #[serde(borrow)]
    pub(super) object: &'t RawValue,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn only_the_fields_that_are_read_are_decoded() {
        let object = json!({
            "kind": "K", "metadata": {"name": "n", "labels": {"a": "b"}, "managedFields": [{"time": "late"}]},
            "spec": {"a": 1, "b": 2}, "specs": 1, "status": null, "data": {"x": {"y": 1}}
        });
        let kept = |fields: &[&str]| read::<Value>(&object.to_string(), fields).unwrap().0;
        assert_eq!(kept(&[]), object);
        assert_eq!(
            kept(&["metadata.name", "spec.b", "status.c"]),
            json!({"metadata": {"name": "n"}, "spec": {"b": 2}, "status": {}})
        );
        assert_eq!(
            kept(&["data", "metadata.labels", "none"]),
            json!({"metadata": {"labels": {"a": "b"}}, "data": {"x": {"y": 1}}})
        );
        assert!(read::<Value>(r#"{"spec": "text"}"#, &["spec.a"]).is_err());
    }

    #[test]
    fn an_error_has_nothing_of_the_object() {
        let error = read::<BTreeMap<String, u8>>(r#"{"a": "secret-marker"}"#, &[]).unwrap_err();
        assert_eq!(error.to_string(), "unexpected value at line 1, column 21 of the decoded fields of the object");
    }

    #[test]
    fn the_identity_is_read_of_what_cannot_be_decoded() {
        let identity = Identity::of(
            r#"{"metadata": {"name": "a", "namespace": "n", "resourceVersion": "5", "generation": 1e99}}"#,
        );
        assert_eq!((&*identity.key(), identity.resource_version.as_deref()), ("n/a", Some("5")));
        assert_eq!(Identity::of(r#"{"metadata": 5}"#).key(), "");
    }
}
