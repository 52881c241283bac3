use super::*;
use flate2::read::GzDecoder;
use proptest::prelude::*;
use serde_json::json;
use std::io::Read;
use std::sync::LazyLock;

/// Random objects of every kind in Go's protobuf and JSON encodings, from `tools/protobuf-table -objects`.
pub(super) static OBJECTS: LazyLock<Vec<(Vec<u8>, Value)>> = LazyLock::new(|| {
    let mut text = String::new();
    GzDecoder::new(&include_bytes!("objects.gz")[..]).read_to_string(&mut text).unwrap();
    let lines = text.lines().map(|line| line.split_once(' ').unwrap());
    lines.map(|(body, json)| (BASE64.decode(body).unwrap(), decode_json(json))).collect()
});

fn decode_json(text: &str) -> Value {
    crate::decode::json(text.as_bytes()).unwrap().value
}

fn message(bytes: &[u8]) -> Result<Message, InvalidProtobuf> {
    let envelope = open(bytes)?;
    let (group, version) = envelope.api_version.split_once('/').unwrap_or(("", &envelope.api_version));
    envelope.object(group, version, &envelope.kind)
}

pub(super) fn decode(bytes: &[u8]) -> Result<Value, InvalidProtobuf> {
    let envelope = open(bytes)?;
    let mut fields = message(bytes)?.fields;
    fields.insert("apiVersion".into(), envelope.api_version.clone().into());
    fields.insert("kind".into(), envelope.kind.clone().into());
    Ok(Value::Object(fields))
}

/// The first path where two values differ.
pub(super) fn difference(path: &str, found: &Value, expected: &Value) -> Option<String> {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            found.keys().chain(expected.keys()).find_map(|key| match (found.get(key), expected.get(key)) {
                (Some(found), Some(expected)) => difference(&format!("{path}.{key}"), found, expected),
                (found, expected) => Some(format!("{path}.{key}: {found:?} is not {expected:?}")),
            })
        }
        (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => {
            let mut pairs = found.iter().zip(expected).enumerate();
            pairs.find_map(|(index, (found, expected))| difference(&format!("{path}[{index}]"), found, expected))
        }
        // Go writes 1e20 as an integer.
        (Value::Number(found), Value::Number(expected)) if found.as_f64() == expected.as_f64() => None,
        _ if found == expected => None,
        _ => Some(format!("{path}: {found} is not {expected}")),
    }
}

#[test]
fn objects_of_every_kind_are_what_go_makes_of_them() {
    assert!(OBJECTS.len() > 250);
    let mut wrong = Vec::new();
    for (body, expected) in OBJECTS.iter() {
        match decode(body) {
            Ok(found) => wrong.extend(difference(expected["kind"].as_str().unwrap(), &found, expected)),
            Err(why) => wrong.push(format!("{}: {why}", expected["kind"])),
        }
    }
    assert!(wrong.is_empty(), "{} of {}: {:#?}", wrong.len(), OBJECTS.len(), &wrong[..wrong.len().min(20)]);
}

fn field(number: u8, content: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), field(1, &type_meta), field(2, raw)].concat()
}

fn config_map(raw: &[u8]) -> Result<Value, InvalidProtobuf> {
    decode(&body("v1", "ConfigMap", raw))
}

#[test]
fn bodies_that_are_none_are_refused_as_kube_apiserver_refuses_them() {
    for (bytes, expected) in [
        (&b""[..], "empty data"),
        (b"{}", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (b"k8s\0", "empty body"),
        (b"k8s\0\x0a", "unexpected EOF"),
        (b"k8s\0\x08", "proto: wrong wireType = 0 for field TypeMeta"),
        (b"k8s\0\x0a\x7f", "unexpected EOF"),
        (b"k8s\0\x0c", "proto: Unknown: wiretype end group for non-group"),
        (b"k8s\0\x02", "proto: Unknown: illegal tag 0 (wire type 2)"),
        (b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "proto: integer overflow"),
        (b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "proto: negative length found during unmarshaling"),
        (b"k8s\0\x7f", "proto: illegal wireType 7"),
    ] {
        assert_eq!(decode(bytes).unwrap_err().to_string(), expected, "{bytes:?}");
    }
}

#[test]
fn missing_fields_have_the_values_of_go() {
    let metadata = json!({});
    assert_eq!(config_map(&[]), Ok(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})));
    let pod = decode(&body("v1", "Pod", &field(2, &field(2, &field(1, b"web"))))).unwrap();
    assert_eq!(pod["spec"], json!({"containers": [{"name": "web", "resources": {}}]}));
    let pod = decode(&body("v1", "Pod", &[])).unwrap();
    assert_eq!(pod["spec"], json!({"containers": null}));
}

#[test]
fn maps_are_read_entry_by_entry() {
    let entry = |key: &[u8], value: &[u8]| field(2, &[field(1, key), field(2, value)].concat());
    let raw =
        [entry(b"a", b"1"), entry(b"b", b"2"), entry(b"a", b"3"), field(2, &[]), field(3, &field(1, b"c"))].concat();
    let found = config_map(&raw).unwrap();
    assert_eq!(found["data"], json!({"": "", "a": "3", "b": "2"}));
    assert_eq!(found["binaryData"], json!({"c": ""}));
}

#[test]
fn the_last_of_several_scalars_counts_and_messages_may_not_be_in_halves() {
    let named =
        |names: &[&[u8]]| config_map(&field(1, &names.iter().flat_map(|name| field(1, name)).collect::<Vec<_>>()));
    assert_eq!(named(&[b"a", b"b"]).unwrap()["metadata"], json!({"name": "b"}));
    assert_eq!(named(&[b"a", b""]).unwrap()["metadata"], json!({}));
    let halves = [field(1, &field(1, b"a")), field(1, &field(3, b"b"))].concat();
    let refused = config_map(&halves).unwrap_err().to_string();
    assert_eq!(refused, "proto: ConfigMap: field ObjectMeta occurs more than once");
}

#[test]
fn unknown_fields_and_groups_are_skipped() {
    let unknown =
        [&[0xa3, 6, 8, 1, 0xa4, 6][..], &[0xa0, 6, 1], &[0xa1, 6, 1, 2, 3, 4, 5, 6, 7, 8], &[0xa5, 6, 1, 2, 3, 4]]
            .concat();
    assert_eq!(config_map(&unknown), config_map(&[]));
    assert_eq!(config_map(&[0xa3, 6, 8, 1]), Err(WireError::End.into()));
}

#[test]
fn numbers_are_read_one_by_one_and_packed() {
    // The path of the field is spec.securityContext.supplementalGroups.
    let groups = |raw: &[u8]| {
        let found = decode(&body("v1", "Pod", &field(2, &field(14, raw)))).unwrap();
        found["spec"]["securityContext"]["supplementalGroups"].clone()
    };
    assert_eq!(groups(&[0x20, 1, 0x20, 2]), json!([1, 2]));
    assert_eq!(groups(&[0x22, 2, 1, 2]), json!([1, 2]));
    assert_eq!(groups(&[0x22, 0]), json!(null));
}

#[test]
fn an_object_that_go_encoded_is_complete() {
    for (body, expected) in OBJECTS.iter() {
        let has_broken_text = expected.to_string().contains('\u{fffd}');
        let message = message(body).unwrap();
        assert_eq!((message.is_complete, message.has_unknown_fields), (!has_broken_text, false), "{expected}");
    }
}

#[test]
fn bytes_with_more_than_the_object_are_noted() {
    let labels = |key: &[u8]| field(1, &field(11, &[field(1, key), field(2, b"v")].concat()));
    let http_get = |port: &[u8]| {
        let probe = field(1, &field(2, &field(2, port)));
        body("v1", "Pod", &field(2, &field(2, &field(10, &probe))))
    };
    let data = |raw: &[u8]| body("apps/v1", "ControllerRevision", &field(2, &field(1, raw)));
    let plain = |raw: &[u8]| body("v1", "ConfigMap", raw);
    let type_meta = field(1, &[field(1, b"v1"), field(2, b"ConfigMap")].concat());
    let enveloped = |more: &[u8]| [MAGIC, &type_meta, &field(2, &[]), more].concat();
    for (bytes, is_complete, what) in [
        (plain(&labels(b"a")), true, "nothing more"),
        (enveloped(&[field(3, b""), field(4, b"")].concat()), true, "the envelope's own fields, empty"),
        (enveloped(&field(3, b"gzip")), false, "a content encoding"),
        (enveloped(&field(4, b"application/json")), false, "a content type"),
        (enveloped(&field(5, b"x")), false, "an unknown field of the envelope"),
        ([MAGIC, &field(1, &field(3, b"x"))[..], &type_meta].concat(), false, "an unknown field of the type"),
        (plain(&field(1, &field(8, &[0x18, 1]))), false, "an unknown field of a time"),
        (
            plain(&field(2, &[field(1, b"a"), field(2, b"b"), field(3, b"c")].concat())),
            false,
            "a third part of an entry",
        ),
        (plain(&labels(b"\xff")), false, "text that is no UTF-8"),
        (http_get(&[8, 0, 16, 80]), true, "a number"),
        (http_get(&[8, 0, 16, 80, 26, 1, b'x']), false, "a text behind a number"),
        (http_get(&[8, 1, 16, 80, 26, 1, b'x']), false, "a number behind a text"),
        (data(br#"{"a":1}"#), true, "JSON"),
        (data(br#"{"a":1,"a":2}"#), false, "a JSON key that is there twice"),
        (data(b"{\"a\":\"\xff\"}"), false, "JSON that is no UTF-8"),
    ] {
        assert_eq!(message(&bytes).map(|message| message.is_complete), Ok(is_complete), "{what}");
    }
    for unknown in [field(15, b"x"), field(1, &[0xa0, 6, 1])] {
        let message = message(&plain(&unknown)).unwrap();
        assert!(message.is_complete && message.has_unknown_fields);
    }
}

#[test]
fn a_schema_hides_nothing_behind_it() {
    let of = |special: Special, bytes: &[u8]| {
        let mut decoder = Decoder { values: 0, losses: Losses::default() };
        decoder.special(special, bytes, 1).map(|_| decoder.losses == Losses::default())
    };
    for (special, bytes, is_complete) in [
        (Special::SchemaOrBool, &[8, 1, 18, 0][..], true),
        (Special::SchemaOrBool, &[8, 0, 18, 0], false),
        (Special::SchemaOrBool, &[8, 0], true),
        (Special::SchemaOrArray, &[18, 0], true),
        (Special::SchemaOrArray, &[10, 0, 18, 0], false),
        (Special::SchemaOrStrings, &[10, 0, 18, 1, b'a'], false),
    ] {
        assert_eq!(of(special, bytes), Ok(is_complete), "{special:?} {bytes:?}");
    }
}

#[test]
fn invalid_utf8_is_replaced_as_gos_json_does() {
    let found = config_map(&field(1, &field(1, b"a\xff\xc3"))).unwrap();
    assert_eq!(found["metadata"]["name"], "a\u{fffd}\u{fffd}");
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| {
        let mut schema = Vec::new();
        for _ in 0..levels {
            // Field `not`: a schema within a schema.
            let mut length = Vec::new();
            let mut rest = schema.len();
            while rest >= 0x80 {
                length.push((rest & 0x7f) as u8 | 0x80);
                rest >>= 7;
            }
            length.push(u8::try_from(rest).unwrap());
            schema = [&[0xe2, 1][..], &length, &schema].concat();
        }
        let message = table::json_schema().unwrap();
        Decoder { values: 0, losses: Losses::default() }.object(Some(message), &schema, 1)
    };
    assert!(nested(100).is_ok());
    assert_eq!(nested(5000), Err(InvalidProtobuf::TooDeep));
}

#[test]
fn the_size_of_a_decoded_body_is_bounded() {
    // Empty containers of two bytes each.
    let raw = [0x12, 0].repeat(400_000);
    let message = table::message("", "v1", "PodTemplate").unwrap();
    assert!(message.field(2).is_some());
    let spec = table::message("", "v1", "Pod").unwrap().field(2).unwrap().1;
    let Shape::Message(spec) = spec.shape else { panic!() };
    let found = Decoder { values: 0, losses: Losses::default() }.object(table::resolve(spec), &raw, 1);
    assert_eq!(found, Err(InvalidProtobuf::TooManyFields));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0..5_usize) {
        let (api_version, kind) = [("v1", "Pod"), ("apps/v1", "Deployment"), ("v1", "Secret"), ("v1", "DeleteOptions"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition")][kind];
        let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        let mut body = [MAGIC.to_vec(), field(1, &type_meta), vec![0x12, 0x80 | (bytes.len() & 0x7f) as u8, (bytes.len() >> 7) as u8]].concat();
        body.extend(&bytes);
        let _ = decode(&body);
        let _ = decode(&bytes);
    }

    #[test]
    fn no_changed_body_panics(at in any::<proptest::sample::Index>(), changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8), cut in any::<proptest::sample::Index>()) {
        let mut body = OBJECTS[at.index(OBJECTS.len())].0.clone();
        for (place, byte) in &changes {
            let place = place.index(body.len());
            body[place] = *byte;
        }
        let _ = decode(&body);
        body.truncate(cut.index(body.len()));
        let _ = decode(&body);
    }
}
