//! YAML as `sigs.k8s.io/yaml` reads it: YAML 1.1 scalars in the dialect of `goyaml` v2, keys converted to strings, and only the first of
//! several documents.

mod scalar;

use super::{Decoded, MAX_DEPTH, MAX_DUPLICATES};
use crate::decoded_bytes;
use crate::go_text::go_quote;
use scalar::Resolved;
use serde_json::{Map, Value};
use serde_saphyr::granit_parser::{self, Event, Parser, ScalarStyle, Tag};
use std::borrow::Cow;
use std::collections::HashMap;

/// Whether a YAML reader takes an unquoted text for a string, rather than for a number, null, a boolean or a time.
pub fn is_yaml_text(text: &str) -> bool {
    matches!(scalar::resolve(text, true, None), Ok(scalar::Resolved::Text(_)))
        && !is_sexagesimal(text)
        && !is_timestamp(text)
}

/// Whether `goyaml` takes a text for a time (`parseTimestamp`).
fn is_timestamp(text: &str) -> bool {
    fn number(text: &str) -> Option<i8> {
        text.parse().ok().filter(|_| text.len() <= 2 && text.bytes().all(|byte| byte.is_ascii_digit()))
    }
    let is_date = |text: &str| {
        let mut parts = text.split('-');
        let year = parts.next().filter(|year| year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit()));
        let date = (|| Some((year?.parse().ok()?, number(parts.next()?)?, number(parts.next()?)?)))();
        let date = date.filter(|_| parts.next().is_none());
        date.is_some_and(|(year, month, day)| jiff::civil::Date::new(year, month, day).is_ok())
    };
    let is_time = |text: &str| {
        let (whole, fraction) = text.split_once(['.', ',']).unwrap_or((text, "0"));
        let numbers: Option<Vec<i8>> = whole.split(':').map(number).collect();
        let is_of_day = matches!(numbers.as_deref(), Some([0..24, 0..60, 0..60]));
        is_of_day && !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit())
    };
    let without_zone = |text: &'_ str| {
        let offset = |at: usize| {
            text.split_at_checked(at).filter(|(_, zone)| zone.len() == 6 && zone.as_bytes().get(3) == Some(&b':'))
        };
        match text.strip_suffix('Z') {
            Some(time) => Some(time.to_owned()),
            None => text.rfind(['+', '-']).and_then(offset).map(|(time, _)| time.to_owned()),
        }
    };
    match (text.split_once(['T', 't']), text.split_once(' ')) {
        (Some((date, rest)), _) => is_date(date) && without_zone(rest).is_some_and(|time| is_time(&time)),
        (None, Some((date, time))) => is_date(date) && is_time(time),
        (None, None) => is_date(text),
    }
}

/// Whether older YAML readers take a text for a number to the base 60 (`isBase60Float`).
fn is_sexagesimal(text: &str) -> bool {
    let mut parts = text.strip_prefix(['-', '+']).unwrap_or(text).split(':');
    let are_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let first = parts.next().is_some_and(|part| part.starts_with(|c: char| c.is_ascii_digit()) && are_digits(part));
    let rest: Vec<&str> = parts.collect();
    first && !rest.is_empty() && rest.iter().all(|part| are_digits(&part.replace('.', "")) && !part.is_empty())
}

/// The number of bytes that anchors and aliases may add to a document in all; limits "billion laughs" attacks.
const MAX_ALIASED_BYTES: usize = 16 * 1024 * 1024;

/// The reason why bytes are no YAML or cannot be converted to JSON, with `goyaml`'s text for the faults that `goyaml` finds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidYaml(String);

/// Decodes the first YAML document. A text without a document decodes to null.
///
/// # Errors
/// If the bytes are no YAML or cannot be converted to JSON, with `goyaml`'s text for the faults that `goyaml` finds.
pub fn yaml(bytes: &[u8]) -> Result<Decoded, InvalidYaml> {
    let text = &*text(bytes)?;
    let options = granit_parser::options! { emit_comments: false, emit_unresolved_aliases: true };
    let mut builder = Builder::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| goyaml_error(&error.info(), error.marker().line(), text))?;
        if matches!(event, Event::DocumentEnd | Event::StreamEnd) {
            break;
        }
        builder.take(event, span.start.line())?;
    }
    Ok(Decoded { value: builder.document.unwrap_or_default(), duplicates: builder.duplicates })
}

/// Decodes the bytes: UTF-16 after a byte order mark of UTF-16 (`yaml_parser_determine_encoding`), else UTF-8.
fn text(bytes: &[u8]) -> Result<Cow<'_, str>, InvalidYaml> {
    let (pairs, unit): (_, fn([u8; 2]) -> u16) = match bytes {
        [0xff, 0xfe, pairs @ ..] => (pairs, u16::from_le_bytes),
        [0xfe, 0xff, pairs @ ..] => (pairs, u16::from_be_bytes),
        _ => {
            let text =
                std::str::from_utf8(bytes).map_err(|_| InvalidYaml("yaml: invalid leading UTF-8 octet".to_owned()));
            return text.map(Cow::Borrowed);
        }
    };
    let (pairs, rest) = pairs.as_chunks();
    if !rest.is_empty() {
        return Err(InvalidYaml("yaml: incomplete UTF-16 character".to_owned()));
    }
    let characters = char::decode_utf16(pairs.iter().map(|pair| unit(*pair)));
    let text =
        characters.collect::<Result<_, _>>().map_err(|_| InvalidYaml("yaml: unexpected low surrogate area".to_owned()));
    text.map(Cow::Owned)
}

/// Translates an error of our parser to `goyaml`'s text. `goyaml` writes no line number for a problem on the first line; its parser counts
/// lines from 0, its scanner from 1.
fn goyaml_error(found: &str, line: usize, text: &str) -> InvalidYaml {
    let of_parser = line.saturating_sub(1);
    let of_scanner = if line > 1 { line } else { 0 };
    let wants_more = text.trim_end().ends_with(['[', '{', ',', ':']);
    let (problem, line) = match found {
        "unclosed bracket '['" | "unclosed bracket '{'" if wants_more => {
            ("did not find expected node content", text.lines().count())
        }
        "unclosed bracket '['" => ("did not find expected ',' or ']'", text.lines().count()),
        "unclosed bracket '{'" => ("did not find expected ',' or '}'", text.lines().count()),
        "while parsing a flow sequence, expected ',' or ']'" | "mismatched bracket '[' closed by '}'" => {
            ("did not find expected ',' or ']'", of_parser)
        }
        "mismatched bracket '{' closed by ']'" => ("did not find expected ',' or '}'", of_parser),
        "misplaced bracket" => ("did not find expected node content", of_parser),
        "unclosed quote" => match text.matches('\n').count() {
            0 => ("found unexpected end of stream", 0),
            ends => ("found unexpected end of stream", ends + 1),
        },
        "simple key expected ':'" => ("could not find expected ':'", line + 1),
        _ if found.starts_with("unexpected character") || found.starts_with("tabs disallowed") => {
            ("found character that cannot start any token", of_scanner)
        }
        _ => match found.strip_prefix("while ").and_then(|found| found.split_once(", ")) {
            Some((context, problem)) if context.starts_with("parsing a ") => (problem, of_parser),
            Some((_, problem)) => (problem, of_scanner),
            None => (found, of_scanner),
        },
    };
    InvalidYaml(if line == 0 { format!("yaml: {problem}") } else { format!("yaml: line {line}: {problem}") })
}

/// A node that may still become a key or a value.
#[derive(Clone)]
enum Node {
    Scalar(Resolved),
    Collection(Value),
}

enum Frame {
    Sequence { items: Vec<Value>, anchor: usize },
    Mapping { fields: Map<String, Value>, key: Option<Key>, anchor: usize },
}

enum Key {
    Name(String, usize),
    Merge,
}

#[derive(Default)]
struct Builder {
    frames: Vec<Frame>,
    anchors: HashMap<usize, Node>,
    aliased_bytes: usize,
    document: Option<Value>,
    duplicates: Vec<String>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), InvalidYaml> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = matches!(style, ScalarStyle::Plain);
                let node = Node::Scalar(scalar::resolve(&text, plain, tag.as_deref().and_then(core_tag))?);
                if anchor != 0 {
                    self.anchors.insert(anchor, node.clone());
                }
                self.add(node, line)
            }
            Event::SequenceStart(_, anchor, _) => self.open(Frame::Sequence { items: Vec::new(), anchor }),
            Event::MappingStart(_, anchor, _) => self.open(Frame::Mapping { fields: Map::new(), key: None, anchor }),
            Event::SequenceEnd | Event::MappingEnd => {
                let (value, anchor) = match self.frames.pop() {
                    Some(Frame::Sequence { items, anchor }) => (Value::Array(items), anchor),
                    Some(Frame::Mapping { fields, anchor, .. }) => (Value::Object(fields), anchor),
                    None => return Ok(()),
                };
                if anchor != 0 {
                    self.charge(decoded_bytes(&value))?;
                    self.anchors.insert(anchor, Node::Collection(value.clone()));
                }
                self.add(Node::Collection(value), line)
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    return Err(InvalidYaml("yaml: anchor value contains itself".to_owned()));
                };
                let (bytes, depth) = match node {
                    Node::Scalar(Resolved::Text(text)) => (32 + text.len(), 0),
                    Node::Scalar(_) => (32, 0),
                    Node::Collection(value) => (decoded_bytes(value), depth(value)),
                };
                if self.frames.len() + depth > MAX_DEPTH {
                    return Err(InvalidYaml(format!("yaml: exceeded max depth of {MAX_DEPTH}")));
                }
                let node = node.clone();
                self.charge(bytes)?;
                self.add(node, line)
            }
            Event::UnresolvedAlias(name) => Err(InvalidYaml(format!("yaml: unknown anchor '{name}' referenced"))),
            _ => Ok(()),
        }
    }

    fn charge(&mut self, bytes: usize) -> Result<(), InvalidYaml> {
        self.aliased_bytes += bytes;
        if self.aliased_bytes > MAX_ALIASED_BYTES {
            return Err(InvalidYaml("yaml: document contains excessive aliasing".to_owned()));
        }
        Ok(())
    }

    fn open(&mut self, frame: Frame) -> Result<(), InvalidYaml> {
        if self.frames.len() == MAX_DEPTH {
            return Err(InvalidYaml(format!("yaml: exceeded max depth of {MAX_DEPTH}")));
        }
        self.frames.push(frame);
        Ok(())
    }

    fn add(&mut self, node: Node, line: usize) -> Result<(), InvalidYaml> {
        match self.frames.last_mut() {
            None => self.document = Some(value(node)?),
            Some(Frame::Sequence { items, .. }) => items.push(value(node)?),
            Some(Frame::Mapping { fields, key, .. }) => match key.take() {
                None => {
                    *key = Some(match node {
                        Node::Scalar(Resolved::Merge) => Key::Merge,
                        Node::Scalar(resolved) => Key::Name(scalar::key(resolved)?, line),
                        Node::Collection(value) => return Err(InvalidYaml(format!("yaml: invalid map key: {value}"))),
                    });
                }
                Some(Key::Merge) => merge(fields, value(node)?)?,
                Some(Key::Name(name, line)) => {
                    if fields.contains_key(&name) && self.duplicates.len() < MAX_DUPLICATES {
                        self.duplicates.push(format!("line {line}: key {} already set in map", go_quote(&name)));
                    }
                    fields.insert(name, value(node)?);
                }
            },
        }
        Ok(())
    }
}

fn value(node: Node) -> Result<Value, InvalidYaml> {
    match node {
        Node::Scalar(resolved) => scalar::value(resolved),
        Node::Collection(value) => Ok(value),
    }
}

/// Merges the value of `<<`: a map, or a list of maps of which earlier ones take precedence.
fn merge(fields: &mut Map<String, Value>, merged: Value) -> Result<(), InvalidYaml> {
    let maps = match merged {
        Value::Array(maps) => maps,
        map => vec![map],
    };
    for map in maps.into_iter().rev() {
        match map {
            Value::Object(map) => fields.extend(map),
            _ => return Err(InvalidYaml("yaml: map merge requires map or sequence of maps as the value".to_owned())),
        }
    }
    Ok(())
}

/// The number of levels in a value; at most [`MAX_DEPTH`], since the builder builds no deeper value.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

/// The suffix of one of YAML's own tags: `str` of `!!str`; empty for other tags, whose scalars become strings.
fn core_tag(tag: &Tag) -> Option<&str> {
    match (tag.handle(), tag.suffix()) {
        ("", "") => None,
        ("tag:yaml.org,2002:" | "!!", suffix) => Some(suffix),
        _ => Some(""),
    }
}

#[cfg(test)]
mod tests;
