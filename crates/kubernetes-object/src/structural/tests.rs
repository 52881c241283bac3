//! Compares decoding with recorded results of apiextensions-apiserver 1.36 (`vectors.json`), and tests the rest.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn compiled(schema: Value) -> Structural {
    Structural::compile(&schema).unwrap()
}

fn object(value: &Value) -> Object {
    Object::from_value(value.clone()).unwrap()
}

/// Checks every recorded case. A case without `out` (the decoded object) or `defaulted` (the object with defaults only) expects the input
/// unchanged.
fn check(vectors: &str) {
    let groups: Vec<Value> = serde_json::from_str(vectors).unwrap();
    let mut checked = 0;
    for group in &groups {
        let schema = &group["schema"];
        let structural = match schema {
            Value::Null => Ok(Structural::without_schema()),
            schema if group["preserveUnknownFields"] == true => Structural::compile_preserving(schema),
            schema => Structural::compile(schema),
        };
        let structural = match (structural, group["error"].as_str()) {
            (Ok(structural), None) => structural,
            (structural, expected) => {
                assert_eq!(structural.err().map(|why| why.to_string()).as_deref(), expected, "{schema}");
                checked += 1;
                continue;
            }
        };
        for case in group["cases"].as_array().unwrap() {
            let came = &case["in"];
            let mut expected_default = case.get("defaulted").unwrap_or(came).clone();
            numbers::canonicalize(&mut expected_default);
            let mut canonical = came.clone();
            numbers::canonicalize(&mut canonical);
            let mut defaulted = object(&canonical);
            structural.apply_defaults(&mut defaulted).unwrap();
            assert_eq!(defaulted.into_value(), expected_default, "defaults of {came} by {schema}");
            checked += 1;
            let normal = match (structural.normalize(came.clone()), case["error"].as_str()) {
                (Ok(normal), None) => normal,
                (normal, expected) => {
                    assert_eq!(normal.err().map(|why| why.to_string()).as_deref(), expected, "{came} by {schema}");
                    continue;
                }
            };
            let mut expected = case.get("out").unwrap_or(came).clone();
            numbers::canonicalize(&mut expected);
            let mut found = normal.object.into_value();
            numbers::canonicalize(&mut found);
            assert_eq!(found, expected, "{came} by {schema}");
            let unknown = case["unknown"].as_array().into_iter().flatten();
            let unknown: Vec<_> = unknown.map(|path| format!("unknown field \"{}\"", path.as_str().unwrap())).collect();
            assert_eq!(normal.unknown, unknown, "{came} by {schema}");
        }
    }
    assert!(checked >= groups.len());
}

#[test]
fn decodes_as_the_api_server_does() {
    check(include_str!("vectors.json"));
}

#[test]
#[ignore = "for vectors of one's own, in the file that VECTORS names"]
fn decodes_other_vectors_as_the_api_server_does() {
    check(&std::fs::read_to_string(std::env::var("VECTORS").unwrap()).unwrap());
}

#[test]
fn a_number_without_a_fraction_is_written_without() {
    for (came, read) in [
        ("1.0", "1"),
        ("1e3", "1000"),
        ("-0.0", "0"),
        ("1.5", "1.5"),
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("9223372036854775808", "9.223372036854775808e18"),
        ("1e300", "1e300"),
    ] {
        let (mut came, read): (Value, Value) =
            (serde_json::from_str(came).unwrap(), serde_json::from_str(read).unwrap());
        numbers::canonicalize(&mut came);
        assert_eq!(came, read);
    }
}

#[test]
fn equal_parts_of_a_schema_are_kept_once() {
    let container = json!({"type": "object", "properties": {"name": {"type": "string"}, "image": {"type": "string"}}});
    let one = compiled(json!({"properties": {"a": {"type": "array", "items": container}}}));
    let many: serde_json::Map<_, _> =
        (0..1000).map(|index| (format!("f{index}"), json!({"type": "array", "items": container}))).collect();
    let many = compiled(json!({"properties": many}));
    assert_eq!(one.nodes.len(), many.nodes.len());
}

#[test]
fn a_schema_that_is_too_deep_is_refused() {
    let deep = (0..1000).fold(json!({"type": "string"}), |schema, _| json!({"items": schema}));
    assert!(Structural::compile(&deep).unwrap_err().to_string().contains("deeper"));
    assert!(Structural::compile_preserving(&deep).is_err());
}

#[test]
fn a_schema_that_is_none_is_refused() {
    for schema in [
        json!(null),
        json!(5),
        json!([]),
        json!({"properties": 5}),
        json!({"properties": {"a": 5}}),
        json!({"items": "x"}),
        json!({"additionalProperties": 5}),
    ] {
        assert!(Structural::compile(&schema).is_err(), "{schema}");
    }
}

#[test]
fn the_paths_of_unknown_fields_take_a_bounded_room() {
    let deep = "k".repeat(100_000);
    let fields: serde_json::Map<_, _> = (0..1000).map(|index| (format!("f{index}"), json!(1))).collect();
    let schema = json!({"properties": {&deep: {"type": "object"}}});
    let normal = compiled(schema).normalize(json!({&deep: fields})).unwrap();
    let bytes: usize = normal.unknown.iter().map(String::len).sum();
    assert!(!normal.unknown.is_empty() && bytes < 5 * 1024 * 1024, "{bytes}");
    assert_eq!(normal.object.into_value(), json!({&deep: {}}));
}

#[test]
fn says_how_lists_and_maps_are_merged() {
    let structural = compiled(json!({"properties": {"spec": {"properties": {
        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {"properties": {"args": {"type": "array", "x-kubernetes-list-type": "set", "items": {}}}}},
        "plain": {"type": "array", "items": {}},
        "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
        "byName": {"type": "object", "additionalProperties": {"type": "array", "x-kubernetes-list-type": "atomic"}}
    }}}}));
    let spec = structural.root().and_then(|root| root.field("spec")).unwrap();
    let ports = spec.field("ports").unwrap();
    assert_eq!(ports.list_type(), Some("map"));
    assert_eq!(ports.list_map_keys().collect::<Vec<_>>(), ["port", "protocol"]);
    let args = ports.element().and_then(|item| item.field("args")).unwrap();
    assert_eq!((args.list_type(), args.list_map_keys().count()), (Some("set"), 0));
    assert_eq!(spec.field("plain").and_then(Schema::list_type), None);
    assert_eq!(spec.field("selector").and_then(Schema::map_type), Some("atomic"));
    let named = spec.field("byName").and_then(Schema::element).and_then(|map| map.field("any")).unwrap();
    assert_eq!(named.list_type(), Some("atomic"));
    assert!(spec.field("nothing").is_none());
}

/// A schema with many features.
fn schema() -> Structural {
    compiled(json!({"type": "object", "properties": {
        "a": {"type": "string", "default": "x"},
        "b": {"type": "array", "items": {"type": "object", "properties": {"a": {"default": {"c": []}}}}},
        "c": {"type": "object", "additionalProperties": {"type": "integer", "default": 1}},
        "metadata": {"x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        "labels": {"properties": {"a": {"x-kubernetes-int-or-string": true}}, "default": {}}
    }}))
}

/// Any JSON, with names that decoding treats specially.
fn any_json() -> impl Strategy<Value = Value> {
    const NAMES: &str = "a|b|c|metadata|labels|finalizers|ownerReferences|managedFields|creationTimestamp|uid|kind|x";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[0-9TZ:+.-]{0,25}|\\PC{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(NAMES, inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_json_panics_and_what_is_decoded_stays_as_it_is(value in any_json()) {
        let schema = schema();
        if let Ok(normal) = schema.normalize(value) {
            let once = normal.object.into_value();
            let again = schema.normalize(once.clone()).unwrap();
            prop_assert_eq!(again.object.into_value(), once);
            prop_assert!(again.unknown.is_empty());
        }
    }

    #[test]
    fn no_schema_panics(schema in any_json(), value in any_json()) {
        let named = |names: [&str; 6]| {
            let Value::Object(map) = &schema else { return schema.clone() };
            Value::Object(names.iter().map(|name| (*name).to_owned()).zip(map.values().cloned()).collect())
        };
        for schema in [
            schema.clone(),
            named(["properties", "default", "items", "additionalProperties", "nullable", "x-kubernetes-embedded-resource"]),
        ] {
            if let Ok(schema) = Structural::compile(&schema) {
                let _refused_or_not = schema.normalize(value.clone());
            }
        }
    }
}

#[test]
fn a_short_list_does_not_ask_for_more_defaults_than_there_is_room() {
    let item = json!({"type": "object", "properties": {"a": {"type": "string", "default": "x".repeat(100_000)}}});
    let list = json!({"type": "array", "items": item});
    let schema = json!({"type": "object", "properties": {"list": list}});
    let structural = Structural::compile(&schema).unwrap();
    let of = |count: usize| structural.normalize(json!({"list": vec![json!({}); count]}));
    assert!(of(100).is_ok());
    assert_eq!(of(1_000_000).unwrap_err().to_string(), "the defaults of its schema make the object too large");
}

#[test]
fn nulls_and_embedded_metadata_that_validation_would_refuse_are_named() {
    let integer = json!({"type": "integer"});
    let schema = json!({"type": "object", "properties": {"status": {"type": "object"}, "spec": {"type": "object", "properties": {
        "i": integer, "either": {"x-kubernetes-int-or-string": true}, "any": {"x-kubernetes-preserve-unknown-fields": true},
        "nullable": {"type": "string", "nullable": true}, "default": {"type": "string", "default": "x"},
        "map": {"type": "object", "additionalProperties": integer},
        "list": {"type": "array", "items": {"type": "object", "properties": {"i": integer}}},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}}}});
    let structural = compiled(schema);
    let fields = |value: Value, is_status: bool| {
        let causes = structural.invalid(&object(&value), is_status);
        causes.into_iter().map(|cause| cause.field).collect::<Vec<_>>()
    };
    let nothing = json!({"any": null, "nullable": null, "default": null, "unknown": null, "list": [null], "embedded": {"x": null}});
    for (spec, expected) in [
        (json!({}), &[][..]),
        (Value::Null, &["spec"]),
        (nothing, &[]),
        (
            json!({"i": null, "either": null, "map": {"a": null, "b": 1}, "list": [{}, {"i": null}]}),
            &["spec.either", "spec.i", "spec.list[1].i", "spec.map.a"],
        ),
        (json!({"embedded": {"metadata": {"labels": {"a": 1}}}}), &["spec.embedded.metadata"]),
    ] {
        assert_eq!(fields(json!({"metadata": null, "spec": spec, "status": null}), false), expected, "{spec}");
    }
    assert_eq!(fields(json!({"spec": null, "status": null}), true), ["status"]);
    let [cause] = &structural.invalid(&object(&json!({"spec": {"either": null}})), false)[..] else { panic!() };
    assert_eq!(cause.message, "Invalid value: \"null\": spec.either in body must be of type integer,string: \"null\"");
    assert_eq!(cause.reason, "FieldValueTypeInvalid");
}
