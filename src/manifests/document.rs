//! Decodes one document like kube-apiserver's strict decoder (`serializer.EnableStrict`).

use super::LoadError;
use crate::go_text::{go_quote, go_type};
use crate::kind::{GroupVersionKind, split_api_version};
use crate::object::decode::{self, Decoded};
use crate::object::defaults::Defaulting;
use crate::object::normal::{self, Normal};
use crate::object::{Object, typed};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The group of the decoded kinds.
const GROUP: &str = "admissionregistration.k8s.io";

/// The content of a document.
#[derive(Debug, PartialEq)]
pub(super) enum Read {
    /// Defaulted objects of one kind. A typed list may have any number of objects.
    Objects(GroupVersionKind, Vec<Object>),
    /// A `v1` List, whose items are separate documents.
    List(Vec<Vec<u8>>),
    /// Another registered kind, with the name of its Go type.
    Other(String),
}

/// A parsed document, from YAML or JSON.
struct Parsed {
    decoded: Decoded,
    is_json: bool,
}

/// Decodes a document with objects of the given `kinds`.
///
/// # Errors
/// If the document is not an object, or has fields that its kind lacks; in kube-apiserver's words.
pub(super) fn read(text: &[u8], kinds: &[&str]) -> Result<Read, LoadError> {
    let parsed = parse(text)?;
    let (api_version, kind) = type_of(&parsed.decoded.value)?;
    let missing = |field: &str| {
        Err(LoadError::Undecodable(format!("Object '{field}' is missing in '{}'", String::from_utf8_lossy(text))))
    };
    match (api_version, kind) {
        (_, "") => return missing("Kind"),
        ("", _) => return missing("apiVersion"),
        ("v1", "List") => return list(&parsed, text),
        ("v1", "Status") => return Ok(Read::Other("*v1.Status".into())),
        _ => {}
    }
    let (group, version) = split_api_version(api_version);
    let kind = GroupVersionKind::new(group, version, kind);
    let value = Value::Object(Map::new());
    if group != GROUP || typed::decode(&kind, value).is_none() {
        let (kind, version) = (go_quote(&kind.kind), go_quote(api_version));
        return Err(LoadError::Undecodable(format!(
            "no kind {kind} is registered for version {version} in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    let (item, is_list) = match kind.kind.strip_suffix("List") {
        Some(item) => (GroupVersionKind { kind: item.to_owned(), ..kind.clone() }, true),
        None => (kind.clone(), false),
    };
    let is_wanted = version == "v1" && kinds.contains(&&*item.kind);
    let go_type = format!("*{version}.{}", kind.kind);
    let objects = objects(parsed, text, &kind, is_list.then_some(&item))?;
    if is_wanted { Ok(Read::Objects(item, objects)) } else { Ok(Read::Other(go_type)) }
}

/// The value of a document without duplicate fields.
///
/// # Errors
/// If the document is neither YAML nor JSON, or has a field twice.
pub(super) fn value(text: &[u8]) -> Result<Value, LoadError> {
    let decoded = parse(text)?.decoded;
    match decoded.duplicates.first() {
        Some(duplicate) => Err(LoadError::Undecodable(duplicate.to_string())),
        None => Ok(decoded.value),
    }
}

/// Parses a document that begins with a brace as JSON, and others as YAML (`utilyaml.IsJSONBuffer`).
fn parse(text: &[u8]) -> Result<Parsed, LoadError> {
    let is_json = text.trim_ascii_start().starts_with(b"{");
    let decoded = if is_json {
        decode::json(text)
            .map_err(|why| LoadError::Undecodable(format!("couldn't get version/kind; json parse error: {why}")))?
    } else {
        decode::yaml(text).map_err(LoadError::undecodable)?
    };
    Ok(Parsed { decoded, is_json })
}

/// `json.SimpleMetaFactory.Interpret`.
fn type_of(value: &Value) -> Result<(&str, &str), LoadError> {
    let wrong = |found: &Value, wanted: &str| {
        let found = go_type(found);
        let why = format!("json: cannot unmarshal {found} into Go {wanted}");
        LoadError::Undecodable(format!("couldn't get version/kind; json parse error: {why}"))
    };
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Null => return Ok(("", "")),
        other => {
            let wanted = "value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                          \"json:\\\"kind,omitempty\\\"\" }";
            return Err(wrong(other, wanted));
        }
    };
    let text = |name: &str| match fields.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(other) => Err(wrong(other, &format!("struct field .{name} of type string"))),
    };
    Ok((text("apiVersion")?, text("kind")?))
}

/// Decodes the objects in a document. `item` is the kind of the items if the document is a typed list.
fn objects(
    parsed: Parsed,
    text: &[u8],
    kind: &GroupVersionKind,
    item: Option<&GroupVersionKind>,
) -> Result<Vec<Object>, LoadError> {
    let Parsed { mut decoded, is_json } = parsed;
    let duplicates = if is_json { Vec::new() } else { std::mem::take(&mut decoded.duplicates) };
    let unregistered = || LoadError::Undecodable(format!("no kind {:?} is registered", kind.kind));
    let Some(item) = item else {
        let normal = match is_json {
            true => normal::built_in_json(Defaulting::default(), kind, decoded, text),
            false => normal::built_in(kind, decoded.value),
        };
        let Normal { object, unknown } = normal.ok_or_else(unregistered)?.map_err(LoadError::undecodable)?;
        be_strict(&duplicates, &unknown)?;
        return Ok(vec![object]);
    };
    let typed = match is_json {
        true => typed::decode_json(kind, decoded, text),
        false => typed::decode(kind, decoded.value),
    };
    let mut typed = typed.ok_or_else(unregistered)?.map_err(LoadError::undecodable)?;
    be_strict(&duplicates, &typed.unknown)?;
    let items = match typed.value.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    let object = |value: Value| {
        Ok(normal::built_in(item, value).ok_or_else(unregistered)?.map_err(LoadError::undecodable)?.object)
    };
    items.into_iter().map(object).collect()
}

/// `runtime.NewStrictDecodingError`, if there are strict errors.
fn be_strict(yaml: &[String], unknown: &[String]) -> Result<(), LoadError> {
    let yaml = (!yaml.is_empty()).then(|| format!("yaml: unmarshal errors:\n  {}", yaml.join("\n  ")));
    let all: Vec<&str> = yaml.iter().chain(unknown).map(String::as_str).collect();
    if all.is_empty() {
        Ok(())
    } else {
        Err(LoadError::Undecodable(format!("strict decoding error: {}", all.join(", "))))
    }
}

/// Splits a `v1` List into its items.
fn list(parsed: &Parsed, text: &[u8]) -> Result<Read, LoadError> {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(borrow, default)]
        items: Vec<&'a RawValue>,
    }
    let Parsed { decoded: Decoded { value, duplicates }, is_json } = parsed;
    let known = ["apiVersion", "kind", "metadata", "items"];
    let unknown = value.as_object().into_iter().flat_map(Map::keys).filter(|key| !known.contains(&key.as_str()));
    let mut faults: Vec<String> = unknown.map(|key| format!("unknown field {}", go_quote(key))).collect();
    let mut yaml = duplicates.clone();
    if *is_json {
        // Duplicate fields within an item are reported when the item is decoded.
        let own = yaml.drain(..).filter(|path| !path.starts_with("items["));
        faults.extend(own.map(|path| format!("duplicate field {}", go_quote(&path))));
    }
    be_strict(&yaml, &faults)?;
    let items = match value.get("items") {
        None | Some(Value::Null) => return Ok(Read::List(Vec::new())),
        Some(Value::Array(items)) => items,
        Some(other) => {
            let found = go_type(other);
            let wanted = "Go struct field List.items of type []runtime.RawExtension";
            return Err(LoadError::Undecodable(format!("json: cannot unmarshal {found} into {wanted}")));
        }
    };
    let as_written = is_json.then(|| serde_json::from_slice::<Raw<'_>>(text).ok()).flatten();
    Ok(Read::List(match as_written {
        Some(raw) => raw.items.iter().map(|item| item.get().as_bytes().to_vec()).collect(),
        None => items.iter().map(|item| item.to_string().into_bytes()).collect(),
    }))
}
