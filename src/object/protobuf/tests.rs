//! Objects that a kube-apiserver wrote, as protobuf and as JSON.

use super::*;
use serde_json::json;

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
    out.extend_from_slice(bytes);
    out
}

fn object(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [PREFIX.to_vec(), field(1, &type_meta), field(2, raw)].concat()
}

/// Takes out what a client never sends and what encodings differ in without meaning: `{}` and null.
fn simplified(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().map(|(key, value)| (key, simplified(value)));
            Value::Object(kept.filter(|(_, value)| !matches!(value, Value::Null) && *value != json!({})).collect())
        }
        Value::Array(list) => list.into_iter().map(simplified).collect(),
        other => other,
    }
}

#[test]
fn objects_read_as_their_json_does() {
    let samples: [(&str, &[u8], &str); 4] = [
        ("pod", include_bytes!("samples/pod.pb"), include_str!("samples/pod.json")),
        ("deployment", include_bytes!("samples/deployment.pb"), include_str!("samples/deployment.json")),
        ("ingress", include_bytes!("samples/ingress.pb"), include_str!("samples/ingress.json")),
        ("secret", include_bytes!("samples/secret.pb"), include_str!("samples/secret.json")),
    ];
    for (name, protobuf, text) in samples {
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(simplified(decode(protobuf).unwrap()), simplified(expected), "{name}");
    }
}

#[test]
fn what_is_no_object_is_refused() {
    assert_eq!(decode(b""), Err(ProtobufError::NoPrefix));
    assert_eq!(decode(b"{}"), Err(ProtobufError::NoPrefix));
    assert!(matches!(decode(&object("example.com/v1", "Foo", b"")), Err(ProtobufError::UnknownKind { .. })));
    for raw in [&b"\x0a"[..], b"\x0a\x05a", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x0b", b"\x00\x00", b"\x08\x01"] {
        assert!(matches!(decode(&object("v1", "ConfigMap", raw)), Err(ProtobufError::Malformed(_))), "{raw:?}");
    }
}

#[test]
fn no_bytes_make_it_panic() {
    let good = include_bytes!("samples/pod.pb");
    for at in 4..good.len() {
        let _ = decode(&good[..at]);
        for byte in [0x00, 0x7f, 0xff, good[at].wrapping_add(1)] {
            let mut bytes = good.to_vec();
            bytes[at] = byte;
            let _ = decode(&bytes);
        }
    }
}

#[test]
fn options_of_a_delete_are_read() {
    let raw = [&[0x08, 0x00][..], &field(4, b"Foreground"), &field(5, b"All")].concat();
    let options = decode(&object("v1", "DeleteOptions", &raw)).unwrap();
    let expected = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
                          "propagationPolicy": "Foreground", "dryRun": ["All"]});
    assert_eq!(options, expected);
}
