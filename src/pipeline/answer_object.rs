//! The object in an answer, in each form that a client accepts. Owners are replaced within the API server's bytes, so that all other fields
//! stay as the API server has written them.

use super::gateway::Answer;
use crate::go_text::json::string;
use crate::kind::GroupVersionKind;
use crate::object::{Object, cbor, decode, protobuf};
use crate::request::body::{self, MediaType, MediaTypes};
use crate::response::yaml_entry;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::fmt;

/// The field of an object.
pub(super) const MANAGED_FIELDS: [&str; 2] = ["metadata", "managedFields"];

/// Returns an object that has nothing but the metadata of the answer's object: of the object itself, of its metadata alone, or of the only
/// row of a Table. `None` if the answer has no metadata, or is compressed.
pub(super) fn metadata(answer: &Answer) -> Option<Object> {
    let document = match form(answer)? {
        MediaType::Json => serde_json::from_slice(&answer.body).ok()?,
        MediaType::Yaml => decode::yaml(&answer.body).ok()?.value,
        MediaType::Cbor => Value::Object(cbor::decode(&answer.body).ok()??),
        MediaType::Protobuf => json!({"metadata": protobuf::metadata(&answer.body).ok()?}),
    };
    let text = |field: &str| document.get(field).and_then(Value::as_str).unwrap_or_default();
    let is_table = is_table(text("apiVersion"), text("kind"));
    let holder = if is_table { document.pointer("/rows/0/object")? } else { &document };
    let metadata = holder.get("metadata").filter(|metadata| metadata.is_object())?;
    Object::from_value(json!({ "metadata": metadata }))
}

/// Returns the object in the answer with all its fields. `None` if the answer has another form or unknown fields.
pub(super) fn whole(answer: &Answer, kind: &GroupVersionKind) -> Option<Object> {
    let document = match form(answer)? {
        MediaType::Json => serde_json::from_slice(&answer.body).ok()?,
        MediaType::Yaml => decode::yaml(&answer.body).ok()?.value,
        MediaType::Cbor => Value::Object(cbor::decode(&answer.body).ok()??),
        MediaType::Protobuf => {
            let envelope = protobuf::open(&answer.body).ok()?;
            let message = envelope.object(&kind.group, &kind.version, &kind.kind).ok()?;
            let mut fields = Some(message.fields).filter(|_| message.is_complete && !message.has_unknown_fields)?;
            fields.insert("apiVersion".into(), envelope.api_version.into());
            fields.insert("kind".into(), envelope.kind.into());
            Value::Object(fields)
        }
    };
    Object::from_value(document).filter(|object| kind.matches_type(object.api_version(), object.kind()))
}

/// Returns the answer with another resourceVersion and other managedFields of its object. `None` if they cannot be replaced.
pub(super) fn with_owners(answer: &Answer, resource_version: &str, managed_fields: &Value) -> Option<Answer> {
    let body = match form(answer)? {
        MediaType::Json => in_json(std::str::from_utf8(&answer.body).ok()?, resource_version, managed_fields)?.into(),
        MediaType::Yaml => in_yaml(std::str::from_utf8(&answer.body).ok()?, resource_version, managed_fields)?.into(),
        MediaType::Protobuf => protobuf::with_owners(&answer.body, resource_version, managed_fields)?.into(),
        MediaType::Cbor => {
            let mut object = Object::from_value(Value::Object(cbor::decode(&answer.body).ok()??))?;
            let is_set = match has_owners(managed_fields) {
                true => object.set(&MANAGED_FIELDS, managed_fields.clone()),
                false => object.remove(&MANAGED_FIELDS).is_some(),
            };
            let is_set = is_set && set_version(&mut object, resource_version);
            is_set.then(|| cbor::encode(&object.into_value()))?.into()
        }
    };
    let mut headers = answer.headers.clone();
    headers.remove(CONTENT_LENGTH);
    Some(Answer { status: answer.status, headers, body, room: answer.room.clone() })
}

/// Returns the answer, a Table in JSON, without the objects of its rows (`includeObject=None`). Any other answer stays unchanged.
pub(super) fn without_objects(answer: Answer) -> Answer {
    let replaced = || {
        let body = std::str::from_utf8(&answer.body).ok()?;
        let document: Fields<'_> = serde_json::from_str(body).ok()?;
        let object = document.is_table().then(|| object_of_row(&document))??;
        let (before, after) = around(body, object)?;
        let mut headers = answer.headers.clone();
        headers.remove(CONTENT_LENGTH);
        let (body, room) = (format!("{before}null{after}").into(), answer.room.clone());
        Some(Answer { status: answer.status, headers, body, room })
    };
    replaced().unwrap_or(answer)
}

/// Whether the type is that of `metav1.Table`. A custom kind can have the name too.
fn is_table(api_version: &str, kind: &str) -> bool {
    kind == "Table" && api_version.starts_with("meta.k8s.io/")
}

/// Sets the version of an object. The answer to a dry run of a create has none.
fn set_version(object: &mut Object, resource_version: &str) -> bool {
    resource_version.is_empty() || object.set(&["metadata", "resourceVersion"], resource_version.into())
}

fn form(answer: &Answer) -> Option<MediaType> {
    let content_type = answer.headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let is_plain = !answer.headers.contains_key(CONTENT_ENCODING);
    body::media_type(Some(content_type), MediaTypes { has_cbor: true }).ok().filter(|_| is_plain)
}

fn has_owners(managed_fields: &Value) -> bool {
    managed_fields.as_array().is_some_and(|entries| !entries.is_empty())
}

/// The fields of a JSON object, in their order, with the texts of their values.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Fields<'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.get())
    }

    fn is_table(&self) -> bool {
        let text = |field: &str| serde_json::from_str::<String>(self.text(field)?).ok();
        is_table(&text("apiVersion").unwrap_or_default(), &text("kind").unwrap_or_default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(InOrder).map(Self)
    }
}

/// Returns the text of the object in a Table's only row.
fn object_of_row<'a>(table: &Fields<'a>) -> Option<&'a str> {
    let rows: Vec<&RawValue> = serde_json::from_str(table.text("rows")?).ok()?;
    serde_json::from_str::<Fields<'_>>(rows.first()?.get()).ok()?.text("object")
}

/// Returns the text before and after a part of it.
fn around<'a>(whole: &'a str, part: &str) -> Option<(&'a str, &'a str)> {
    let start = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    Some((whole.get(..start)?, whole.get(start + part.len()..)?))
}

fn in_json(body: &str, resource_version: &str, managed_fields: &Value) -> Option<String> {
    let document: Fields<'_> = serde_json::from_str(body).ok()?;
    if !document.is_table() {
        return in_metadata(body, document.text("metadata")?, resource_version, managed_fields);
    }
    let row = serde_json::from_str::<Fields<'_>>(object_of_row(&document)?).ok()?;
    let body = in_metadata(body, row.text("metadata")?, resource_version, managed_fields)?;
    // A Table has the version of its object.
    let document: Fields<'_> = serde_json::from_str(&body).ok()?;
    in_metadata(&body, document.text("metadata")?, resource_version, &Value::Null)
}

/// Replaces the fields in one part of the body, the text of an object's metadata.
fn in_metadata(body: &str, metadata: &str, resource_version: &str, managed_fields: &Value) -> Option<String> {
    let fields: Fields<'_> = serde_json::from_str(metadata).ok()?;
    // An indented answer has a line for each field.
    let inner = metadata.strip_prefix('{')?.strip_suffix('}')?;
    let (indent, end) = (inner.get(..inner.find('"')?)?, inner.get(inner.trim_end().len()..)?);
    let owners = has_owners(managed_fields).then(|| match indent {
        "" => serde_json::to_string(managed_fields),
        indent => serde_json::to_string_pretty(managed_fields).map(|text| text.replace('\n', indent)),
    });
    let mut owners = owners.transpose().ok()?;
    let colon = if indent.is_empty() { ":" } else { ": " };
    let field = |key: &str, value: &str| format!("{indent}{}{colon}{value}", string(key));
    let mut written: Vec<String> = Vec::with_capacity(fields.0.len() + 1);
    for (key, value) in &fields.0 {
        match &**key {
            "managedFields" => written.extend(owners.take().map(|owners| field(key, &owners))),
            "resourceVersion" if !resource_version.is_empty() => written.push(field(key, &string(resource_version))),
            key => written.push(field(key, value.get())),
        }
    }
    written.extend(owners.map(|owners| field("managedFields", &owners)));
    let (before, after) = around(body, metadata)?;
    Some(format!("{before}{{{}{end}}}{after}", written.join(",")))
}

/// Replaces the lines of the two fields. Returns `None` if the result is not the same document with other owners.
fn in_yaml(body: &str, resource_version: &str, managed_fields: &Value) -> Option<String> {
    let mut written = String::with_capacity(body.len());
    let (mut is_in_metadata, mut is_in_owners) = (false, false);
    for line in body.split_inclusive('\n') {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let is_field = !line.trim().is_empty() && !line.trim_start().starts_with("- ");
        if is_field && indent == 0 {
            (is_in_metadata, is_in_owners) = (line.trim_end() == "metadata:", false);
        } else if is_in_metadata && is_field && indent == 2 {
            is_in_owners = line.trim_end() == "  managedFields:";
            if is_in_owners && has_owners(managed_fields) {
                written.push_str("  ");
                yaml_entry(&mut written, 2, "managedFields", managed_fields);
            }
            if line.starts_with("  resourceVersion: ") && !resource_version.is_empty() {
                written.push_str("  ");
                yaml_entry(&mut written, 2, "resourceVersion", &resource_version.into());
                continue;
            }
        }
        if !is_in_owners {
            written.push_str(line);
        }
    }
    let mut expected = Object::from_value(decode::yaml(body.as_bytes()).ok()?.value)?;
    if is_table(expected.api_version(), expected.kind()) {
        return None;
    }
    let mut found = Object::from_value(decode::yaml(written.as_bytes()).ok()?.value)?;
    let owners = found.remove(&MANAGED_FIELDS).unwrap_or_default();
    let is_replaced = owners == *managed_fields || !has_owners(managed_fields) && owners.is_null();
    expected.remove(&MANAGED_FIELDS);
    let is_set = set_version(&mut expected, resource_version);
    (is_replaced && is_set && found.fields() == expected.fields()).then_some(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue, StatusCode};

    fn answer(content_type: &'static str, body: impl Into<bytes::Bytes>) -> Answer {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        Answer { status: StatusCode::CREATED, headers, body: body.into(), room: None }
    }

    fn owners() -> Value {
        json!([{"manager": "m", "operation": "Update", "fieldsV1": {"f:data": {".": {}, "f:a: <b>": {}, "v:\"x\"": {}}}}])
    }

    /// Returns the body with the owners replaced, as text.
    fn replaced(content_type: &'static str, body: &str, owners: &Value) -> Option<String> {
        let answer = with_owners(&answer(content_type, body.to_owned()), "8", owners)?;
        Some(String::from_utf8(answer.body.to_vec()).unwrap())
    }

    #[test]
    fn json_keeps_the_order_and_the_layout_of_the_api_server() {
        let json = "application/json";
        let of = |owners: &str| {
            format!(
                "{{\"kind\":\"A\",\"metadata\":{{\"name\":\"\\u003ca\",\"resourceVersion\":\"8\"{owners},\"x\":1.0}},\"b\":[ 1 ]}}\n"
            )
        };
        let body = of(",\"managedFields\":[{\"manager\":\"n\"}]").replace("\"8\"", "\"7\"");
        assert_eq!(metadata(&answer(json, body.clone())).unwrap().resource_version(), "7");
        let expected = of(&format!(",\"managedFields\":{}", owners()));
        assert_eq!(replaced(json, &body, &owners()).unwrap(), expected);
        assert_eq!(replaced(json, &body, &json!([])).unwrap(), of(""));
        assert_eq!(replaced(json, &body, &Value::Null).unwrap(), of(""));
        let pretty = "{\n  \"kind\": \"A\",\n  \"metadata\": {\n    \"resourceVersion\": \"7\",\n    \"managedFields\": []\n  }\n}";
        let expected = "{\n  \"kind\": \"A\",\n  \"metadata\": {\n    \"resourceVersion\": \"8\",\n    \"managedFields\": [\n      {\n        \
                        \"manager\": \"m\"\n      }\n    ]\n  }\n}";
        assert_eq!(replaced(json, pretty, &json!([{"manager": "m"}])).unwrap(), expected);
        for nothing in ["", "[]", "{}", "{\"metadata\":null}", "{\"metadata\":{}}", "{\"kind\":\"Table\",\"rows\":[]}"]
        {
            assert_eq!(replaced(json, nothing, &owners()), None, "{nothing}");
        }
    }

    #[test]
    fn the_row_of_a_table_has_the_metadata() {
        let row = |object: &str| {
            format!(
                "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{{\"resourceVersion\":\"7\"}},\
                 \"rows\":[{{\"cells\":[\"a\"],\"object\":{object}}}]}}"
            )
        };
        let object = "{\"kind\":\"PartialObjectMetadata\",\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"7\"}}";
        let table = answer("application/json", row(object));
        assert_eq!(metadata(&table).unwrap().name(), "a");
        let expected = format!(
            "{{\"kind\":\"PartialObjectMetadata\",\"metadata\":{{\"name\":\"a\",\"resourceVersion\":\"8\",\"managedFields\":{}}}}}",
            owners()
        );
        let expected = row(&expected).replacen("\"7\"", "\"8\"", 1);
        assert_eq!(replaced("application/json", &row(object), &owners()).unwrap(), expected);
        assert_eq!(without_objects(table).body, row("null"));
        assert_eq!(without_objects(answer("application/json", object)).body, object);
        // A custom object, whose kind has the name.
        let custom = row(object).replace("meta.k8s.io", "example.com");
        assert_eq!(without_objects(answer("application/json", custom.clone())).body, custom);
        assert_eq!(metadata(&answer("application/json", custom)).unwrap().name(), "");
    }

    #[test]
    fn the_answer_to_a_dry_run_of_a_create_gets_no_version() {
        let object =
            json!({"apiVersion": "v1", "kind": "A", "metadata": {"managedFields": [{"manager": "n"}], "name": "a"}});
        let mut expected = object.clone();
        expected["metadata"]["managedFields"] = owners();
        let yaml = "apiVersion: v1\nkind: A\nmetadata:\n  managedFields:\n  - manager: n\n  name: a\n";
        for (content_type, body) in [
            ("application/json", object.to_string().into_bytes()),
            ("application/yaml", yaml.into()),
            ("application/cbor", cbor::encode(&object)),
        ] {
            let answer = with_owners(&answer(content_type, body), "", &owners()).unwrap();
            assert_eq!(whole(&answer, &GroupVersionKind::new("", "v1", "A")).unwrap().into_value(), expected);
        }
    }

    /// The text is that of a kube-apiserver 1.36.3.
    #[test]
    fn yaml_keeps_all_other_lines() {
        let of = |version: &str, owners: &str| {
            format!(
                "apiVersion: v1\ndata:\n  metadata: |-\n    x\n\n    managedFields: y\nkind: ConfigMap\nmetadata:\n  annotations:\n    \
                 a: |\n      x\n\n      resourceVersion: 3\n  labels:\n    managedFields: m\n{owners}  name: a\n  \
                 resourceVersion: \"{version}\"\n  uid: u\n"
            )
        };
        let body = of(
            "7",
            "  managedFields:\n  - apiVersion: v1\n    fieldsV1:\n      f:data:\n        .: {}\n    manager: n\n",
        );
        let yaml = "application/yaml";
        assert_eq!(metadata(&answer(yaml, body.clone())).unwrap().resource_version(), "7");
        let expected = "  managedFields:\n  - fieldsV1:\n      f:data:\n        .: {}\n        'f:a: <b>': {}\n        v:\"x\": {}\n    \
                        manager: m\n    operation: Update\n";
        assert_eq!(replaced(yaml, &body, &owners()).unwrap(), of("8", expected));
        assert_eq!(replaced(yaml, &body, &json!([])).unwrap(), of("8", ""));
        // The API server's layout is not the expected one.
        assert_eq!(replaced(yaml, r#"{"metadata": {"resourceVersion": "7", "managedFields": [{}]}}"#, &owners()), None);
    }

    #[test]
    fn binary_forms_are_replaced_too() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"},
            "metadata": {"name": "a", "resourceVersion": "7", "managedFields": [{"manager": "n"}]}});
        let mut expected = object.clone();
        expected["metadata"]["resourceVersion"] = json!("8");
        expected["metadata"]["managedFields"] = owners();
        let whole = Object::from_value(object.clone()).unwrap();
        let cbor = answer("application/cbor", cbor::encode(&object));
        assert_eq!(metadata(&cbor).unwrap().resource_version(), "7");
        let changed = cbor::decode(&with_owners(&cbor, "8", &owners()).unwrap().body).unwrap().unwrap();
        assert_eq!(Value::Object(changed), expected);
        let encoded = protobuf::encode(&whole, "", "v1", "ConfigMap", 0).unwrap();
        let protobuf = answer("application/vnd.kubernetes.protobuf", encoded);
        assert_eq!(metadata(&protobuf).unwrap().resource_version(), "7");
        let changed = with_owners(&protobuf, "8", &owners()).unwrap();
        let changed = protobuf::open(&changed.body).unwrap().object("", "v1", "ConfigMap").unwrap().fields;
        assert_eq!((&changed["metadata"], &changed["data"]), (&expected["metadata"], &expected["data"]));
        let packed =
            Answer { headers: HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static("gzip"))]), ..cbor };
        assert!(metadata(&packed).is_none() && with_owners(&packed, "8", &owners()).is_none());
    }
}
