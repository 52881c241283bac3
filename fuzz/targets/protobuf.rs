//! Kubernetes' protobuf: any bytes as an envelope, and any bytes as the message of a kind. A decoded message that is encoded again has the
//! same fields.

#![no_main]

use kubernetes_object::{Object, decode, protobuf, schema};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

/// The maximum number of values of a body, omitted zeros included.
const MAX_VALUES: usize = 2_000_000;

fn values(fields: &Map<String, Value>) -> usize {
    fn count(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
            Value::Object(fields) => 1 + values(fields),
            _ => 1,
        }
    }
    fields.values().map(count).sum()
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(envelope) = protobuf::open(bytes) {
        let (group, version) = envelope.api_version.split_once('/').unwrap_or(("", &envelope.api_version));
        check(envelope.object(group, version, &envelope.kind), [group, version, &envelope.kind]);
        let _ = protobuf::status(&envelope);
    }
    let Some(([first, second], message)) = bytes.split_first_chunk() else { return };
    let kinds = schema::kinds().count();
    let Some((kind, _)) = schema::kinds().nth(usize::from(u16::from_le_bytes([*first, *second])) % kinds) else {
        return;
    };
    let mut body = b"k8s\0\x12".to_vec();
    let mut length = message.len();
    while length >= 0x80 {
        body.push(length as u8 | 0x80);
        length >>= 7;
    }
    body.push(length as u8);
    body.extend_from_slice(message);
    let message = protobuf::open(&body).unwrap().object(&kind.group, &kind.version, &kind.kind);
    check(message, [&kind.group, &kind.version, &kind.kind]);
});

fn check(message: Result<protobuf::Message, protobuf::InvalidProtobuf>, [group, version, kind]: [&str; 3]) {
    let Ok(message) = message else { return };
    assert!(values(&message.fields) <= MAX_VALUES);
    let value = Value::Object(message.fields);
    assert!(!decode::is_deeper(&value, decode::MAX_DEPTH));
    let written = serde_json::to_vec(&value).unwrap();
    assert_eq!(decode::json(&written).unwrap().value, value);
    let Value::Object(mut fields) = value else { return };
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    fields.extend([("apiVersion".to_owned(), api_version.into()), ("kind".to_owned(), kind.into())]);
    let Some(object) = Object::from_value(Value::Object(fields)) else { return };
    let Some(encoded) = protobuf::encode(&object, group, version, kind, usize::MAX) else { return };
    let again = protobuf::open(&encoded).unwrap().object(group, version, kind).unwrap();
    assert!(again.is_complete && !again.has_unknown_fields);
    let given = |fields: &Map<String, Value>| {
        let fields = fields.iter().filter(|(name, _)| *name != "apiVersion" && *name != "kind");
        without_nulls(&Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect()))
    };
    assert_eq!(given(&again.fields), given(object.fields()));
}

/// A null stands for a field that is not sent.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            fields.map(|(name, value)| (name.clone(), without_nulls(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}
