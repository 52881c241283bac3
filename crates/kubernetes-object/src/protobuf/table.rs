//! The messages of Kubernetes' protobuf encoding: the meaning of each field number, and the JSON form of each field in Go.
//!
//! `tools/protobuf-table` writes the table from the Go types. The compressed text is part of the binary and is parsed once, at the first
//! use.

use crate::release;
use flate2::read::GzDecoder;
use std::collections::HashMap;
use std::io::Read;
use std::sync::LazyLock;

static COMPRESSED: &[u8] = include_bytes!("messages.txt.gz");

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(text()));

/// The message of a built-in kind.
pub(super) fn message(group: &str, version: &str, kind: &str) -> Option<&'static Message> {
    let found = TABLE.kinds.get(&(group, version, kind)).or_else(|| TABLE.kinds.get(&("*", "*", kind)));
    TABLE.messages.get(*found?)
}

/// Whether a kind of this version has a message of its own.
pub(super) fn has_kind(group: &str, version: &str, kind: &str) -> bool {
    TABLE.kinds.contains_key(&(group, version, kind))
}

/// Whether a kind of this version has a message.
pub(super) fn has_version(group: &str, version: &str) -> bool {
    TABLE.kinds.keys().any(|known| (known.0, known.1) == (group, version))
}

/// The message of JSON schemas in a CustomResourceDefinition.
pub(super) fn json_schema() -> Option<&'static Message> {
    TABLE.messages.get(usize::from(TABLE.json_schema?))
}

/// A message: a JSON object.
#[derive(Debug)]
pub(super) struct Message {
    /// The name in Go.
    pub(super) name: &'static str,
    /// Sorted by number.
    pub(super) fields: Box<[Field]>,
}

/// A field of a [`Message`].
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    /// The JSON name.
    pub(super) name: &'static str,
    /// The name in Go, if it is not the JSON name with a capital first letter.
    go_name: Option<&'static str>,
    pub(super) shape: Shape,
    /// Whether Go holds a pointer, so that an absent field and zero differ.
    pub(super) is_pointer: bool,
    /// `omitempty`
    pub(super) omits_empty: bool,
    /// `omitzero`
    pub(super) omits_zero: bool,
    /// Whether JSON has the fields of the message among those of its parent.
    pub(super) is_inline: bool,
}

/// The type of a field, of an item of a list, or of a value of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    String,
    Bool,
    Int32,
    Int64,
    Double,
    Bytes,
    Special(Special),
    Message(u16),
    List(Box<Shape>),
    Map(Box<Shape>),
    /// A list that is a message around a repeated field, such as `ExtraValue`.
    Wrapped(Box<Shape>),
}

/// Messages whose JSON in Go is not an object of their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// JSON text: `RawExtension`, `FieldsV1`, the `JSON` of schemas.
    Raw,
    SchemaOrBool,
    SchemaOrArray,
    SchemaOrStrings,
}

impl Special {
    /// Whether Go's JSON for a value other than nil may be `null`.
    pub(super) fn may_be_null(self) -> bool {
        matches!(self, Self::Time | Self::MicroTime | Self::SchemaOrArray | Self::SchemaOrStrings)
    }
}

impl Message {
    /// The field with a number, and its position.
    pub(super) fn field(&'static self, number: u32) -> Option<(usize, &'static Field)> {
        // Most messages number their fields without a gap, so that the position follows from the number.
        let dense = (number as usize).checked_sub(1)?;
        if let Some(field) = self.fields.get(dense).filter(|field| field.number == number) {
            return Some((dense, field));
        }
        let position = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        Some((position, self.fields.get(position)?))
    }
}

impl Field {
    /// The name in Go, as in errors.
    pub(super) fn go_name(&self) -> String {
        if let Some(name) = self.go_name {
            return name.to_owned();
        }
        let mut characters = self.name.chars();
        characters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(characters).collect()
    }
}

/// The message with an index of [`Shape::Message`].
pub(super) fn resolve(index: u16) -> Option<&'static Message> {
    TABLE.messages.get(usize::from(index))
}

fn text() -> &'static str {
    let mut text = String::new();
    // The tests detect a broken table. Without a table every kind is unknown.
    if GzDecoder::new(COMPRESSED).read_to_string(&mut text).is_err() {
        text.clear();
    }
    text.shrink_to_fit();
    text.leak()
}

struct Table {
    messages: Vec<Message>,
    kinds: HashMap<(&'static str, &'static str, &'static str), usize>,
    json_schema: Option<u16>,
}

impl Table {
    /// Parses the text. Skips a line that is malformed; a test checks that there is none.
    fn parse(text: &'static str) -> Self {
        let names = || release::lines(text).filter_map(|line| line.strip_prefix("= ")?.split(' ').next());
        let indices: HashMap<&str, u16> = names().zip(0..).collect();
        let mut messages: Vec<Message> = Vec::with_capacity(indices.len());
        let mut kinds = HashMap::new();
        let mut fields = Vec::new();
        for line in release::lines(text).rev() {
            let Some(heading) = line.strip_prefix("= ") else {
                fields.extend(field(line, &indices));
                continue;
            };
            let mut words = heading.split(' ');
            let name = words.next().unwrap_or_default();
            for kind in words {
                if let [group, version, kind] = kind.split('/').collect::<Vec<_>>()[..] {
                    kinds.insert((group, version, kind), indices.len() - 1 - messages.len());
                }
            }
            fields.reverse();
            let name = name.rsplit('.').next().unwrap_or(name);
            messages.push(Message { name, fields: std::mem::take(&mut fields).into_boxed_slice() });
        }
        messages.reverse();
        Self { messages, kinds, json_schema: indices.get("apiextensions.v1.JSONSchemaProps").copied() }
    }
}

fn field(line: &'static str, indices: &HashMap<&str, u16>) -> Option<Field> {
    let mut words = line.split(' ');
    let (number, name, held, flags) = (words.next()?, words.next()?, words.next()?, words.next()?);
    Some(Field {
        number: number.parse().ok()?,
        name,
        go_name: words.next(),
        shape: shape(held, indices)?,
        is_pointer: flags.contains('p'),
        omits_empty: flags.contains('o'),
        omits_zero: flags.contains('z'),
        is_inline: flags.contains('i'),
    })
}

fn shape(text: &str, indices: &HashMap<&str, u16>) -> Option<Shape> {
    if let Some(inner) = text.strip_prefix("[]") {
        return Some(Shape::List(Box::new(shape(inner, indices)?)));
    }
    if let Some(inner) = text.strip_prefix("{}") {
        return Some(Shape::Map(Box::new(shape(inner, indices)?)));
    }
    if let Some(inner) = text.strip_prefix("<>") {
        return Some(Shape::Wrapped(Box::new(shape(inner, indices)?)));
    }
    Some(match text {
        "string" => Shape::String,
        "bool" => Shape::Bool,
        "int32" => Shape::Int32,
        "int64" => Shape::Int64,
        "float64" => Shape::Double,
        "bytes" => Shape::Bytes,
        "time" => Shape::Special(Special::Time),
        "microtime" => Shape::Special(Special::MicroTime),
        "quantity" => Shape::Special(Special::Quantity),
        "int-or-string" => Shape::Special(Special::IntOrString),
        "raw" | "json" => Shape::Special(Special::Raw),
        "schema-or-bool" => Shape::Special(Special::SchemaOrBool),
        "schema-or-array" => Shape::Special(Special::SchemaOrArray),
        "schema-or-strings" => Shape::Special(Special::SchemaOrStrings),
        name => Shape::Message(*indices.get(name)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        let lines = TABLE.messages.iter().map(|message| 1 + message.fields.len()).sum::<usize>();
        assert_eq!(lines, release::lines(text()).count());
        assert!(lines > 4000);
        for message in &TABLE.messages {
            assert!(message.fields.is_sorted_by_key(|field| field.number), "{}", message.name);
            // The decoder records the fields that it has read in a mask of 64 bits.
            assert!(message.fields.len() <= 64, "{}", message.name);
        }
    }

    #[test]
    fn every_built_in_kind_of_the_schema_has_a_message() {
        for (kind, _) in crate::schema::kinds() {
            assert!(message(&kind.group, &kind.version, &kind.kind).is_some(), "{kind:?}");
        }
        assert!(message("example.com", "v1", "DeleteOptions").is_some());
        assert!(message("example.com", "v1", "Pod").is_none());
    }

    #[test]
    fn fields_are_found_by_number_also_where_there_are_gaps() {
        for message in &TABLE.messages {
            for (position, field) in message.fields.iter().enumerate() {
                assert_eq!(message.field(field.number).map(|(found, _)| found), Some(position), "{}", message.name);
            }
            assert!(message.field(0).is_none() && message.field(5000).is_none());
        }
    }

    #[test]
    fn errors_have_the_names_of_go() {
        let pod = message("", "v1", "Pod").unwrap();
        assert_eq!(pod.field(1).unwrap().1.go_name(), "ObjectMeta");
        assert_eq!(pod.field(2).unwrap().1.go_name(), "Spec");
    }
}
