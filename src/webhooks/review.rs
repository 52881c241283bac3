//! The AdmissionReview that a hook is sent (`request.CreateV1AdmissionReview`).
//!
//! Hooks that want a request in the same version share one serialized text; only the uid and the review's version differ.

use super::hook::ReviewVersion;
use crate::admission::Attributes;
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::matching::InvocationKind;
use crate::object::Object;
use crate::object::normal;
use bytes::Bytes;
use serde::Serialize;
use std::io;

/// The parts of a review that all hooks of one wanted version share.
#[derive(Debug)]
pub(super) struct Review {
    /// The text from `kind` up to the value of `object`.
    before: Bytes,
    object: Bytes,
    /// The text from `oldObject` to the end.
    after: Bytes,
}

/// A review for one hook: its uid, and its text in pieces.
#[derive(Debug)]
pub(super) struct Request {
    /// The uid that the answer must repeat.
    pub(crate) uid: String,
    pub(crate) body: [Bytes; 4],
}

impl Request {
    /// Returns the object of the review, as JSON.
    pub(super) fn object(&self) -> &[u8] {
        let [_, _, object, _] = &self.body;
        object
    }
}

#[derive(Serialize)]
pub(super) struct Kind<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) kind: &'a str,
}

#[derive(Serialize)]
pub(super) struct Resource<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) resource: &'a str,
}

/// The fields between the uid and the objects, in kube-apiserver's order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    kind: Kind<'a>,
    resource: Resource<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    sub_resource: &'a str,
    request_kind: Kind<'a>,
    request_resource: Resource<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    request_sub_resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    operation: &'a str,
    user_info: &'a crate::user::UserInfo,
}

fn kind(GroupVersionKind { group, version, kind }: &GroupVersionKind) -> Kind<'_> {
    Kind { group, version, kind }
}

fn resource(GroupVersionResource { group, version, resource }: &GroupVersionResource) -> Resource<'_> {
    Resource { group, version, resource }
}

/// Bytes that an object's text may have without being measured first.
const UNMEASURED: usize = 64 * 1024;

/// Bytes that a measured text reserves for the fields after the object.
const ROOM: usize = 1024;

/// Appends the object as JSON, or `null`, to the text. A large object is measured first: a text that grows takes three times the memory
/// for a while, and keeps spare room afterwards.
fn append(text: &mut Vec<u8>, object: Option<&Object>) -> Result<(), serde_json::Error> {
    let object = object.map(normal::as_written);
    let object = object.as_deref();
    let start = text.len();
    if serde_json::to_writer(Measured { text: Some(text), left: UNMEASURED }, &object).is_ok() {
        return Ok(());
    }
    text.truncate(start);
    let mut measured = Measured { text: None, left: usize::MAX };
    serde_json::to_writer(&mut measured, &object)?;
    text.reserve_exact(usize::MAX - measured.left + ROOM);
    serde_json::to_writer(text, &object)
}

/// A writer that counts bytes, and passes them on while there is room.
struct Measured<'a> {
    text: Option<&'a mut Vec<u8>>,
    left: usize,
}

impl io::Write for Measured<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        if let Some(text) = &mut self.text {
            text.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Serializes the object alone.
fn object(object: Option<&Object>) -> Result<Bytes, serde_json::Error> {
    let mut text = Vec::new();
    append(&mut text, object)?;
    Ok(text.into())
}

impl Review {
    /// Serializes the request in the wanted kind and resource, with objects that are in that version already.
    ///
    /// # Errors
    /// If a value has no JSON form, which cannot happen to a value that came as JSON.
    pub(super) fn new(
        attributes: &Attributes,
        wanted: &InvocationKind,
        new_object: Option<&Object>,
        old_object: Option<&Object>,
    ) -> Result<Self, serde_json::Error> {
        let mut before = serde_json::to_vec(&Head {
            kind: kind(wanted.kind(attributes)),
            resource: resource(wanted.resource(attributes)),
            sub_resource: &attributes.subresource,
            request_kind: kind(&attributes.kind),
            request_resource: resource(&attributes.resource),
            request_sub_resource: &attributes.subresource,
            name: &attributes.name,
            namespace: &attributes.namespace,
            operation: attributes.operation.as_str(),
            user_info: &attributes.context.user,
        })?;
        // `{…}` becomes `,…,"object":`, since the text continues after the uid.
        if let Some(first) = before.first_mut() {
            *first = b',';
        }
        before.pop();
        before.extend_from_slice(b",\"object\":");
        let mut after = b",\"oldObject\":".to_vec();
        append(&mut after, old_object)?;
        after.extend_from_slice(if attributes.dry_run { b",\"dryRun\":true" } else { b",\"dryRun\":false" });
        after.extend_from_slice(b",\"options\":");
        append(&mut after, attributes.options.as_deref())?;
        after.extend_from_slice(b"}}\n");
        Ok(Self { before: before.into(), object: object(new_object)?, after: after.into() })
    }

    /// Replaces the object with the one that a hook changed.
    ///
    /// # Errors
    /// If the object has no JSON form, as for [`Self::new`].
    pub(super) fn set_object(&mut self, changed: Option<&Object>) -> Result<(), serde_json::Error> {
        self.object = object(changed)?;
        Ok(())
    }

    /// Creates a review with a new uid. Only references to the text are copied.
    pub(super) fn request(&self, version: ReviewVersion) -> Request {
        let uid = uuid::Uuid::new_v4().to_string();
        let api_version = version.api_version();
        let start = format!(r#"{{"kind":"AdmissionReview","apiVersion":"{api_version}","request":{{"uid":"{uid}""#);
        Request { uid, body: [start.into(), self.before.clone(), self.object.clone(), self.after.clone()] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_of_any_size_are_written_after_what_is_there() {
        for length in [0, UNMEASURED - 100, UNMEASURED, 3 * UNMEASURED] {
            let value = json!({"data": {"x": "y".repeat(length)}});
            let (mut text, written) = (b"before".to_vec(), Object::from_value(value.clone()));
            append(&mut text, written.as_ref()).unwrap();
            assert_eq!(text, format!("before{value}").into_bytes(), "{length}");
        }
        assert_eq!(object(None).unwrap(), "null");
    }
}
