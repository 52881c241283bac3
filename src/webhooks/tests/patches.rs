//! JSON patches: the error texts of patches that do not apply, and the audit annotations.

use crate::object::Object;
use crate::object::patch::admission::{Patch, mutation_annotation, of_hook, patch_annotation};
use serde_json::{Value, json};

fn apply(patch: Value) -> Result<Value, String> {
    let object = json!({"data": {"a": "b"}, "metadata": {"name": "c", "finalizers": ["x"]}});
    let patch = Patch::decode(patch.to_string().as_bytes()).unwrap();
    patch.apply(&Object::from_value(object).unwrap()).map_err(|why| why.to_string())
}

#[test]
fn an_operation_that_does_not_apply_is_named() {
    for (operation, want) in [
        (json!({"op": "test", "path": "/data/a", "value": "x"}), "testing value /data/a failed: test failed"),
        (
            json!({"op": "add", "path": "/spec/x/y", "value": 1}),
            "add operation does not apply: doc is missing path: \"/spec/x/y\": missing value",
        ),
        (
            json!({"op": "remove", "path": "/spec/x"}),
            "remove operation does not apply: doc is missing path: \"/spec/x\": missing value",
        ),
        (
            json!({"op": "remove", "path": "/data/nope"}),
            "error in remove for path: '/data/nope': Unable to remove nonexistent key: nope: missing value",
        ),
        (json!({"op": "frobnicate", "path": "/data"}), "Unexpected kind: frobnicate"),
        (json!({"path": "/data"}), "Unexpected kind: unknown"),
        (json!({"op": "add", "value": 1}), "add operation failed to decode path: missing value"),
        (
            json!({"op": "test", "value": 1}),
            "test operation failed to decode path: operation missing path field: missing value",
        ),
        (
            json!({"op": "add", "path": "/metadata/finalizers/5", "value": "y"}),
            "error in add for path: '/metadata/finalizers/5': Unable to access invalid index: 5: invalid index referenced",
        ),
        (
            json!({"op": "add", "path": "/metadata/finalizers/z", "value": "y"}),
            "error in add for path: '/metadata/finalizers/z': value was not a proper array index: 'z': strconv.Atoi: parsing \"z\": invalid syntax",
        ),
        (
            json!({"op": "replace", "path": "/spec/x", "value": 1}),
            "replace operation does not apply: doc is missing path: /spec/x: missing value",
        ),
        (
            json!({"op": "replace", "path": "", "value": 5}),
            "replace operation value must be object or array: %!w(<nil>)",
        ),
        (
            json!({"op": "move", "from": "/a/b", "path": "/c"}),
            "move operation does not apply: doc is missing from path: /a/b: missing value",
        ),
        (
            json!({"op": "copy", "from": "/data/a", "path": "/x/y"}),
            "copy operation does not apply: doc is missing destination path: /x/y: missing value",
        ),
    ] {
        let first = json!({"op": "add", "path": "/data/z", "value": "1"});
        assert_eq!(apply(json!([first, operation])).unwrap_err(), want, "{operation}");
    }
}

#[test]
fn a_missing_key_can_be_replaced_and_a_patch_can_be_long() {
    let patched = apply(json!([{"op": "replace", "path": "/data/new", "value": "1"}])).unwrap();
    assert_eq!(patched["data"], json!({"a": "b", "new": "1"}));
    let many: Vec<Value> = (0..10_001).map(|i| json!({"op": "add", "path": "/data/a", "value": i})).collect();
    assert_eq!(apply(Value::Array(many)).unwrap()["data"]["a"], json!(10_000));
}

#[test]
fn undecodable_patches_are_worded_as_go_words_them() {
    for (patch, want) in [
        ("nope", "invalid character 'o' in literal null (expecting 'u')"),
        ("5", "json: cannot unmarshal number into Go value of type jsonpatch.Patch"),
        (r#"{"a":1}"#, "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
        ("[1]", "json: cannot unmarshal number into Go value of type jsonpatch.Operation"),
    ] {
        assert_eq!(Patch::decode(patch.as_bytes()).unwrap_err().to_string(), want);
    }
    assert!(Patch::decode(b"null").unwrap().is_empty());
    assert!(Patch::decode(b"[]").unwrap().is_empty());
}

#[test]
fn audit_annotations_are_written_as_go_writes_json() {
    let of_hook = of_hook("c", "w");
    assert_eq!(mutation_annotation(&of_hook, true), r#"{"configuration":"c","webhook":"w","mutated":true}"#);
    let patch = br#"[ {"path": "/a b", "op": "add", "value": {"z": "<\" >", "a": 1}} ]"#;
    assert_eq!(
        patch_annotation(&of_hook, patch).unwrap(),
        r#"{"configuration":"c","webhook":"w","patch":[{"op":"add","path":"/a b","value":{"z":"\u003c\" \u003e","a":1}}],"patchType":"JSONPatch"}"#
    );
}
