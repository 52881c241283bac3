use super::*;
use crate::decode::json as parse;
use flate2::read::GzDecoder;
use proptest::prelude::*;
use serde_json::json;
use std::io::Read;

/// Random documents of every kind with Go's results, from `tools/protobuf-table -cases`.
fn recorded() -> String {
    let mut text = String::new();
    GzDecoder::new(&include_bytes!("cases.gz")[..]).read_to_string(&mut text).unwrap();
    text
}

fn kind(text: &str) -> GroupVersionKind {
    let parts: Vec<_> = text.split('/').collect();
    GroupVersionKind::new(parts[0], parts[1], parts[2])
}

/// The first path where two values differ.
fn difference(path: &str, found: &Value, expected: &Value) -> Option<String> {
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
        (Value::Number(found), Value::Number(expected)) if found.as_f64() == expected.as_f64() => None,
        _ if found == expected => None,
        _ => Some(format!("{path}: {found} is not {expected}")),
    }
}

/// The difference between our decoding of a case and Go's; `None` if there is none.
fn disagreement(line: &str) -> Option<String> {
    let parts: Vec<_> = line.split('\t').collect();
    let (kind, document) = (kind(parts[0]), parts[1].as_bytes());
    let expected = parse(parts[2].as_bytes()).unwrap().value;
    let found = parse(document).map_err(|why| DecodeError(why.to_string()));
    let found = found.and_then(|decoded| decode_json(&kind, decoded, document).unwrap());
    match (found, expected.get("error")) {
        (Err(DecodeError(why)), Some(error)) => (error != &why).then(|| format!("{why} is not {error}")),
        (Err(why), None) => Some(why.to_string()),
        (Ok(_), Some(error)) => Some(format!("no error is not {error}")),
        (Ok(Typed { mut value, unknown }), None) => {
            encode(&kind, &mut value);
            let mut again = decode(&kind, value.clone()).unwrap().unwrap();
            encode(&kind, &mut again.value);
            let strict = expected.get("strict").cloned().unwrap_or(Value::Array(Vec::new()));
            difference("", &value, &expected["value"])
                .or_else(|| (strict != Value::from(unknown.clone())).then(|| format!("{unknown:?} is not {strict}")))
                .or_else(|| (!again.unknown.is_empty()).then(|| format!("{:?} in what was decoded", again.unknown)))
        }
    }
}

fn has_fractions(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_fractions),
        Value::Object(fields) => fields.values().any(has_fractions),
        _ => false,
    }
}

/// The difference between decoding a value and decoding its text; `None` if there is none.
fn contradiction(line: &str) -> Option<String> {
    let parts: Vec<_> = line.split('\t').collect();
    let kind = kind(parts[0]);
    let value = parse(parts[1].as_bytes()).ok()?.value;
    if has_fractions(&value) {
        return None;
    }
    let text = serde_json::to_vec(&value).unwrap();
    let of_text = text::decode(table::of(&kind).unwrap(), &text);
    let of_value = decode(&kind, value).unwrap();
    (of_text != of_value).then(|| format!("{of_value:?} is not {of_text:?}"))
}

fn disagreements(text: &str) {
    let wrong: Vec<String> = text
        .lines()
        .filter_map(|line| Some((disagreement(line).or_else(|| contradiction(line))?, line)))
        .map(|(why, line)| format!("{why}\n  in {}", line.chars().take(300).collect::<String>()))
        .collect();
    let (count, total) = (wrong.len(), text.lines().count());
    assert!(wrong.is_empty(), "{count} of {total}:\n{}", wrong[..count.min(40)].join("\n"));
}

#[test]
fn documents_of_every_kind_are_what_go_makes_of_them() {
    disagreements(&recorded());
}

/// Decodes more cases than the repository has, from the file of `TYPED_CASES`.
#[test]
#[ignore = "reads the file that TYPED_CASES names"]
fn documents_of_a_file_are_what_go_makes_of_them() {
    disagreements(&std::fs::read_to_string(std::env::var("TYPED_CASES").unwrap()).unwrap());
}

fn pod() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "Pod")
}

fn read(kind: &GroupVersionKind, text: &str) -> Result<Typed, DecodeError> {
    decode_json(kind, parse(text.as_bytes()).unwrap(), text.as_bytes()).unwrap()
}

#[test]
fn kinds_that_are_not_built_in_are_left_alone() {
    let custom = GroupVersionKind::new("example.com", "v1", "Widget");
    assert!(decode(&custom, json!({})).is_none());
    assert!(decode_json(&custom, Decoded::default(), b"{}").is_none());
    let mut value = json!({"a": null});
    encode(&custom, &mut value);
    assert_eq!(value, json!({"a": null}));
}

#[test]
fn unknown_fields_are_dropped_and_reported_in_the_order_of_the_text() {
    let text =
        r#"{"z":1,"spec":{"nodeSelector":{"foo":"x"},"containers":[{"name":"a","Image":"b","image":"c"}]},"a":{}}"#;
    let found = read(&pod(), text).unwrap();
    assert_eq!(
        found.unknown,
        [r#"unknown field "z""#, r#"unknown field "spec.containers[0].Image""#, r#"unknown field "a""#]
    );
    let expected = json!({"spec": {"nodeSelector": {"foo": "x"}, "containers": [{"name": "a", "image": "c"}]}});
    assert_eq!(found.value, expected);
    let found = decode(&pod(), parse(text.as_bytes()).unwrap().value).unwrap().unwrap();
    assert_eq!(found.value, expected);
    assert_eq!(found.unknown[0], r#"unknown field "a""#);
}

#[test]
fn duplicate_fields_are_decoded_into_one_value() {
    let text = r#"{"spec":{"hostname":"a","x":1,"x":2,"containers":[{"name":"a"},{"name":"b"}]},
        "spec":{"subdomain":"b","hostname":null,"containers":[{"image":"i"}]},"metadata":{"labels":{"a":"1","a":"2"}}}"#;
    let found = read(&pod(), text).unwrap();
    assert_eq!(
        found.unknown,
        [r#"unknown field "spec.x""#, r#"duplicate field "spec""#, r#"duplicate field "metadata.labels.a""#]
    );
    assert_eq!(
        found.value,
        json!({
            "spec": {"hostname": "a", "subdomain": "b", "containers": [{"name": "a", "image": "i"}]},
            "metadata": {"labels": {"a": "2"}},
        })
    );
    // Go ignores duplicates within unknown fields, and within types with an `UnmarshalJSON`.
    let text = r#"{"x":{"a":1,"a":2},"metadata":{"managedFields":[{"fieldsV1":{"a":1,"a":2}}]}}"#;
    assert_eq!(read(&pod(), text).unwrap().unknown, [r#"unknown field "x""#]);
}

#[test]
fn strict_errors_are_at_most_a_hundred() {
    let fields: Vec<_> = (0..300).map(|number| format!("\"x{number}\":1")).collect();
    let text = format!("{{{}}}", fields.join(","));
    let unknown = read(&pod(), &text).unwrap().unknown;
    assert_eq!((unknown.len(), unknown[99].as_str()), (100, r#"unknown field "x99""#));
}

#[test]
fn wrong_types_are_named_as_go_names_them() {
    for (text, expected) in [
        (r#"[]"#, "cannot unmarshal array into Go value of type v1.Pod"),
        (
            r#"{"spec":{"containers":"x"}}"#,
            "cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            r#"{"spec":{"volumes":[{"hostPath":{"path":1}}]}}"#,
            "cannot unmarshal number into Go struct field HostPathVolumeSource.spec.volumes.VolumeSource.hostPath.path of type string",
        ),
        (
            r#"{"spec":{"priority":1.50}}"#,
            "cannot unmarshal number 1.50 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            r#"{"metadata":{"creationTimestamp":{}}}"#,
            "cannot unmarshal object into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        // The first error of the text counts, unless a later error ends decoding.
        (r#"{"spec":1,"metadata":1}"#, "cannot unmarshal number into Go struct field Pod.spec of type v1.PodSpec"),
        (
            r#"{"spec":1,"metadata":{"creationTimestamp":1}}"#,
            "cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
    ] {
        assert_eq!(read(&pod(), text), Err(DecodeError(format!("json: {expected}"))), "{text}");
    }
    let text = r#"{"spec":{"containers":[{"resources":{"limits":{"cpu":"x"}}}]}}"#;
    assert!(read(&pod(), text).unwrap_err().to_string().starts_with("quantities must match the regular expression"));
}

#[test]
fn values_are_canonical() {
    let found = read(
        &pod(),
        r#"{"metadata":{"creationTimestamp":"2024-01-01T01:00:00.5+01:00","labels":{"a":null}},"spec":{"hostname":"",
        "priority":0,"nodeSelector":{},"tolerations":[],"containers":[null],"overhead":{"cpu":0.10,"a":1e3,"b":null}}}"#,
    );
    assert_eq!(
        found.unwrap().value,
        json!({
            "metadata": {"creationTimestamp": "2024-01-01T00:00:00Z", "labels": {"a": ""}},
            "spec": {
                "priority": 0, "containers": [{}], "overhead": {"cpu": "100m", "a": "1e3", "b": "0"},
                "nodeSelector": {}, "tolerations": [],
            },
        })
    );
}

#[test]
fn encoding_adds_zeros_and_takes_out_what_is_empty() {
    let mut value =
        json!({"spec": {"containers": [{"ports": [], "env": [{"name": "a", "value": ""}]}], "nodeName": ""}});
    encode(&pod(), &mut value);
    assert_eq!(
        value,
        json!({
            "metadata": {},
            "spec": {"containers": [{"name": "", "env": [{"name": "a"}], "resources": {}}]},
            "status": {},
        })
    );
    let mut value = json!({});
    encode(&GroupVersionKind::new("apps", "v1", "Deployment"), &mut value);
    assert_eq!(
        value,
        json!({
            "metadata": {},
            "spec": {"selector": null, "strategy": {}, "template": {"metadata": {}, "spec": {"containers": null}}},
            "status": {},
        })
    );
}

#[test]
fn the_size_of_a_decoded_document_is_bounded() {
    let kind = GroupVersionKind::new("apps", "v1", "DeploymentList");
    let of = |item: &str| {
        let text = format!("{{\"items\":[{}]}}", vec![item; 60_000].join(","));
        (read(&kind, &text), decode(&kind, parse(text.as_bytes()).unwrap().value).unwrap())
    };
    for item in ["{}", "null"] {
        let (of_text, of_value) = of(item);
        assert_eq!(of_text, Err(DecodeError("the object has too many fields".to_owned())));
        assert_eq!(of_value, of_text);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[-+0-9.eEKiTZ:]{0,8}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "metadata",
        "spec",
        "status",
        "containers",
        "template",
        "data",
        "items",
        "versions",
        "schema",
        "openAPIV3Schema",
        "additionalProperties",
        "dependencies",
        "creationTimestamp",
        "managedFields",
        "fieldsV1",
        "resources",
        "limits",
        "ports",
        "targetPort",
        "renewTime",
        "divisor",
        "x",
    ]);
    leaf.prop_recursive(8, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..6)
                .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn no_value_causes_a_panic(value in any_json(), at in any::<prop::sample::Index>()) {
        let kinds: Vec<_> = crate::schema::kinds().map(|(kind, _)| kind).collect();
        let kind = at.get(&kinds);
        let text = value.to_string();
        let mut raw = value.clone();
        encode(kind, &mut raw);
        let decoded = Decoded { value: value.clone(), duplicates: vec!["x".to_owned()] };
        let of_text = decode_json(kind, decoded, text.as_bytes()).unwrap();
        let of_value = decode(kind, value).unwrap();
        prop_assert_eq!(of_text.is_ok(), of_value.is_ok());
        if let Ok(Typed { mut value, .. }) = of_value {
            let unwritten = encode(kind, &mut value);
            let again = decode(kind, value.clone()).unwrap().unwrap();
            let mut twice = again.value;
            prop_assert!(encode(kind, &mut twice).is_empty());
            prop_assert_eq!(&value, &twice);
            // With its unwritten values, the whole object decodes to an equal value.
            let mut whole = value.clone();
            whole.as_object_mut().into_iter().for_each(|fields| unwritten.fill(fields));
            let mut whole = decode(kind, whole).unwrap().unwrap().value;
            prop_assert_eq!(encode(kind, &mut whole), unwritten);
            prop_assert_eq!(value, whole);
        }
    }

    #[test]
    fn no_text_panics(text in any::<Vec<u8>>()) {
        let _ = text::decode(table::of(&pod()).unwrap(), &text);
        let _ = text::decode(table::of(&pod()).unwrap(), &[b"{\"spec\":{\"containers\":[", &text[..]].concat());
    }
}
