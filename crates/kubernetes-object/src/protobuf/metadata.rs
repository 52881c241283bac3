//! The metadata of an object of any kind, read and changed without the rest of the object: every kind has the metadata in its first field.

use super::encode::Writer;
use super::table::{self, Message, Shape};
use super::wire::Reader;
use super::{Decoder, InvalidProtobuf, MAGIC, open};
use serde_json::{Map, Value};

/// The number of the metadata in an object, and of the object in its envelope.
const METADATA: u32 = 1;
const RAW: u32 = 2;
/// The numbers of fields in the metadata.
const RESOURCE_VERSION: u32 = 6;
const MANAGED_FIELDS: u32 = 17;

/// Returns `metadata`; no fields if the object has none.
///
/// # Errors
/// If the bytes are no object.
pub fn metadata(bytes: &[u8]) -> Result<Map<String, Value>, InvalidProtobuf> {
    let envelope = open(bytes)?;
    let (mut fields, mut reader) = (Map::new(), Reader(envelope.raw));
    while let Some(tag) = reader.tag("Object")? {
        if tag.number == METADATA {
            let message = message().ok_or(InvalidProtobuf::UnknownMessage)?;
            let mut decoder = Decoder { values: 0, losses: envelope.losses };
            decoder.message(message, reader.delimited()?, 1, &mut fields)?;
        } else {
            reader.skip(tag)?;
        }
    }
    Ok(fields)
}

/// Returns the object with another resourceVersion and other managedFields (null or a list); all other fields keep their bytes. `None` if
/// the bytes are no object, or if protobuf cannot express the managedFields.
pub fn with_owners(bytes: &[u8], resource_version: &str, managed_fields: &Value) -> Option<Vec<u8>> {
    let owners = managed_fields.as_array().filter(|entries| !entries.is_empty());
    let owners: Map<_, _> = owners.map(|_| ("managedFields".to_owned(), managed_fields.clone())).into_iter().collect();
    let mut writer = Writer(Vec::with_capacity(bytes.len()));
    writer.0.extend_from_slice(MAGIC);
    writer.replaced(bytes.strip_prefix(MAGIC)?, RAW, |writer, object| {
        writer.replaced(object, METADATA, |writer, metadata| {
            writer.kept(metadata, |number| number < RESOURCE_VERSION)?;
            if !resource_version.is_empty() {
                writer.text(RESOURCE_VERSION, resource_version)?;
            }
            writer.kept(metadata, |number| number > RESOURCE_VERSION && number != MANAGED_FIELDS)?;
            (writer.message(message()?, &owners)? == owners.len()).then_some(())
        })
    })?;
    Some(writer.0)
}

impl Writer {
    /// Copies the fields of a message, and writes the content of the field with this number anew.
    fn replaced(
        &mut self,
        message: &[u8],
        number: u32,
        content: impl Fn(&mut Self, &[u8]) -> Option<()>,
    ) -> Option<()> {
        let mut reader = Reader(message);
        loop {
            let before = reader.0;
            let Some(tag) = reader.tag("").ok()? else { return Some(()) };
            if tag.number == number {
                let old = reader.delimited().ok()?;
                self.delimited(number, |writer| content(writer, old))?;
            } else {
                reader.skip(tag).ok()?;
                self.0.extend_from_slice(before.get(..before.len() - reader.0.len())?);
            }
        }
    }

    /// Copies those fields of a message whose numbers are to be kept.
    fn kept(&mut self, message: &[u8], is_kept: impl Fn(u32) -> bool) -> Option<()> {
        let mut reader = Reader(message);
        loop {
            let before = reader.0;
            let Some(tag) = reader.tag("").ok()? else { return Some(()) };
            reader.skip(tag).ok()?;
            if is_kept(tag.number) {
                self.0.extend_from_slice(before.get(..before.len() - reader.0.len())?);
            }
        }
    }
}

/// The message of the metadata.
fn message() -> Option<&'static Message> {
    let (_, metadata) = table::message("", "v1", "ConfigMap")?.field(METADATA)?;
    match metadata.shape {
        Shape::Message(index) => table::resolve(index),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{OBJECTS, decode};
    use super::*;
    use serde_json::json;

    #[test]
    fn owners_are_replaced_in_objects_of_every_kind_and_nothing_else() {
        let owners = json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {".": {}, "f:a": {}}}, "subresource": "status"}]);
        let mut count = 0;
        for (body, object) in OBJECTS.iter() {
            let is_list = object["kind"].as_str().unwrap().ends_with("List");
            if is_list || object.get("metadata").is_none_or(|metadata| metadata.get("continue").is_some()) {
                continue;
            }
            let Ok(mut expected) = decode(body) else { continue };
            let read = metadata(body).unwrap();
            assert_eq!(Value::Object(read), expected["metadata"], "{}", object["kind"]);
            for entries in [owners.clone(), Value::Null] {
                let changed = with_owners(body, "4711", &entries).unwrap();
                expected["metadata"]["resourceVersion"] = json!("4711");
                match &entries {
                    Value::Null => drop(expected["metadata"].as_object_mut().unwrap().remove("managedFields")),
                    entries => expected["metadata"]["managedFields"] = entries.clone(),
                }
                assert_eq!(decode(&changed).unwrap(), expected, "{}", object["kind"]);
            }
            count += 1;
        }
        assert!(count > 100, "{count}");
    }

    #[test]
    fn bytes_that_are_no_object_stay_as_they_are() {
        for bytes in [&b""[..], b"k8s\0", b"k8s\0\x12\x05", b"k8s\0\x12\x02\x0a\x05", b"{}"] {
            assert_eq!(with_owners(bytes, "1", &Value::Null).filter(|changed| changed != bytes), None, "{bytes:?}");
        }
    }
}
