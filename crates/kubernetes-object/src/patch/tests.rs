//! Compares patches with recorded results of Go's libraries, and checks random patches.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3i64).prop_map(Value::from),
        "[a-c]".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::hash_map("[a-d]", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn a_merge_diff_turns_the_old_object_into_the_new(old in any_json(), new in any_json()) {
        let (Some(old), Some(fields)) = (old.as_object(), new.as_object()) else { return Ok(()) };
        match merge_diff(old, fields) {
            Some(patch) => {
                let patched = apply(PatchType::Merge, Value::Object(old.clone()), &Value::Object(patch), None);
                prop_assert_eq!(patched.unwrap(), new);
            }
            None => prop_assert!(new.to_string().contains("null")),
        }
    }

    #[test]
    fn patches_of_any_shape_do_not_panic(document in any_json(), patch in any_json()) {
        let _ = apply(PatchType::Merge, document.clone(), &patch, None);
        let _ = apply(PatchType::Json, document, &patch, None);
    }

    #[test]
    fn json_patches_with_any_path_do_not_panic(
        document in any_json(),
        value in any_json(),
        operations in proptest::collection::vec(("add|remove|replace|move|copy|test", "(/[a-c0-2~-]{0,2}){0,3}", "(/[a-c0-2~-]{0,2}){0,3}"), 0..4),
    ) {
        let patch: Vec<Value> = operations
            .into_iter()
            .map(|(op, path, from)| json!({"op": op, "path": path, "from": from, "value": value.clone()}))
            .collect();
        let _ = apply(PatchType::Json, document, &Value::from(patch), None);
    }
}

#[test]
fn media_types_of_patches_tolerate_parameters() {
    let parse = |text: &str| PatchType::from_content_type(Some(text), false);
    assert_eq!(parse("application/merge-patch+json; charset=utf-8").unwrap(), PatchType::Merge);
    assert_eq!(parse("application/apply-patch+yaml").unwrap(), PatchType::Apply);
    for text in ["application/json", "", ";application/json-patch+json", "application/merge-patch+json ;"] {
        assert_eq!(parse(text).unwrap_err().code, 415, "{text}");
    }
    assert_eq!(PatchType::from_content_type(None, false).unwrap_err().code, 415);
}

/// The results are those of a kube-apiserver 1.36.3, with its feature gate and without.
#[test]
fn an_apply_configuration_may_be_in_cbor() {
    let cbor = Some("application/apply-patch+cbor; a=b");
    assert_eq!(PatchType::from_content_type(cbor, true).unwrap(), PatchType::Apply);
    let listed = |strategic, has_cbor| PatchType::unsupported(strategic, has_cbor).message;
    assert_eq!(PatchType::from_content_type(cbor, false).unwrap_err().message, listed(true, false));
    assert!(
        listed(true, false).ends_with("+json, application/strategic-merge-patch+json, application/apply-patch+yaml")
    );
    assert!(
        listed(false, true).ends_with("merge-patch+json, application/apply-patch+yaml, application/apply-patch+cbor")
    );
    let decoded = decode_configuration(cbor, b"\xd9\xd9\xf7\xa1\x41a\x01").unwrap();
    assert_eq!(decoded.value, json!({"a": 1}));
    for (body, why) in [
        (&b"\xa2\x41a\x01\x61a\x02"[..], "cbor: found duplicate map key \"a\" at map element index 1"),
        (b"\x80", "cbor: cannot unmarshal array into Go value of type map[string]interface {}"),
        (b"", "EOF"),
    ] {
        let status = decode_configuration(cbor, body).unwrap_err();
        assert_eq!((status.code, status.message), (400, format!("error decoding YAML: {why}")));
    }
}

#[test]
fn too_many_operations_are_refused() {
    let patch = Value::Array(vec![json!({"op": "test", "path": "/a"}); 10_001]);
    let status = apply(PatchType::Json, json!({}), &patch, None).unwrap_err();
    assert_eq!(status.code, 413);
    assert_eq!(
        status.message,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
}

#[test]
fn copies_may_not_grow_the_object_without_bound() {
    let document = json!({"a": "x".repeat(1024 * 1024)});
    let copy = |n: usize| (0..n).map(|i| json!({"op": "copy", "from": "/a", "path": format!("/b{i}")})).collect();
    assert!(apply(PatchType::Json, document.clone(), &Value::Array(copy(2)), None).is_ok());
    assert_eq!(apply(PatchType::Json, document, &Value::Array(copy(3)), None).unwrap_err().code, 422);
}

/// The Go libraries that kube-apiserver 1.36 uses gave the result of each row: `result`, or `error`.
#[test]
fn patches_give_what_the_go_libraries_give() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("cases.json")).unwrap();
    assert!(cases.len() > 100);
    let mut wrong = Vec::new();
    for case in &cases {
        let (patch_type, schema) = match case["type"].as_str().unwrap() {
            "json" => (PatchType::Json, None),
            "merge" => (PatchType::Merge, None),
            _ => {
                let kind = case["kind"].as_str().unwrap();
                let group = if kind == "Deployment" { "apps" } else { "" };
                let kind = crate::kind::GroupVersionKind::new(group, "v1", kind);
                (PatchType::Strategic, Some(schema::of(&kind).unwrap()))
            }
        };
        let outcome = apply(patch_type, case["original"].clone(), &case["patch"], schema);
        let right = match (&outcome, case.get("result"), case["error"].as_str()) {
            (Ok(patched), Some(expected), _) => patched == expected,
            // Clients do not see the reason why a JSON patch fails, and kube-apiserver's panics are not copied.
            (Err(status), None, Some(error)) => match patch_type {
                PatchType::Strategic if status.code == 500 => error == "panic" || status.message == error,
                PatchType::Strategic if status.code == 400 => status.message == error,
                _ => status.code == 422,
            },
            _ => false,
        };
        if !right {
            wrong.push(format!("{case}\n    => {outcome:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

proptest! {
    #[test]
    fn strategic_patches_of_any_shape_do_not_panic(
        metadata in any_json(),
        containers in any_json(),
        patched in any_json(),
        order in any_json(),
        directive in "replace|delete|merge|x",
    ) {
        let pod = schema::of(&crate::kind::GroupVersionKind::new("", "v1", "Pod")).unwrap();
        let document = json!({"metadata": {"labels": metadata.clone(), "finalizers": metadata.clone()}, "spec": {"containers": containers}});
        let patch = json!({
            "metadata": {"labels": patched.clone(), "$deleteFromPrimitiveList/finalizers": order.clone(), "$retainKeys": metadata},
            "spec": {"containers": [patched.clone(), {"name": "a", "$patch": directive}], "$setElementOrder/containers": order},
        });
        let _ = apply(PatchType::Strategic, document.clone(), &patch, Some(pod));
        let _ = apply(PatchType::Strategic, patched, &document, Some(pod));
    }
}

#[test]
fn a_json_patch_cannot_nest_an_object_deeper_than_a_body_may() {
    let nest = |levels: usize| {
        let operations = (0..levels).flat_map(|level| {
            [
                json!({"op": "add", "path": format!("/{}", level + 1), "value": {}}),
                json!({"op": "move", "from": format!("/{level}"), "path": format!("/{}/in", level + 1)}),
            ]
        });
        apply(PatchType::Json, json!({"0": {}}), &Value::Array(operations.collect()), None)
    };
    assert!(nest(100).is_ok());
    assert_eq!(nest(200).unwrap_err().code, 422);
    assert_eq!(nest(4_000).unwrap_err().code, 422);
}

#[test]
fn a_strategic_patch_writes_whole_numbers_as_go_does() {
    let revision = schema::of(&crate::kind::GroupVersionKind::new("apps", "v1", "ControllerRevision"));
    let object = json!({"data": {"a": [1.0, 2.5], "b": -3.0}, "revision": 1});
    let patched = apply(PatchType::Strategic, object, &json!({"revision": 2}), revision).unwrap();
    assert_eq!(patched.to_string(), r#"{"data":{"a":[1,2.5],"b":-3},"revision":2}"#);
}

#[test]
fn a_short_patch_cannot_move_a_long_list_for_ever() {
    let document = json!({"list": vec![0; 1 << 14]});
    let moving = |count: usize| Value::Array(vec![json!({"op": "add", "path": "/list/0"}); count]);
    let apply = |count| apply(PatchType::Json, document.clone(), &moving(count), None);
    assert_eq!(apply(200).unwrap()["list"].as_array().unwrap().len(), (1 << 14) + 200);
    assert_eq!(apply(300).unwrap_err().code, 422);
}

#[test]
fn a_short_patch_cannot_have_a_large_object_measured_for_ever() {
    let document = json!({"a": vec![0; 1 << 14], "deep": {"er": {}}});
    let moving = |count: usize| {
        let there = json!({"op": "move", "from": "/a", "path": "/deep/er/a"});
        let back = json!({"op": "move", "from": "/deep/er/a", "path": "/a"});
        Value::Array([there, back].into_iter().cycle().take(count).collect())
    };
    let apply = |patch: &Value| apply(PatchType::Json, document.clone(), patch, None);
    assert!(apply(&moving(200)).is_ok());
    assert_eq!(apply(&moving(300)).unwrap_err().code, 422);
    // Only operations that insert a value measure its depth.
    let test = json!({"op": "test", "path": "/deep/er/absent"});
    assert!(apply(&Value::Array(vec![test; 9_000])).is_ok());
}
