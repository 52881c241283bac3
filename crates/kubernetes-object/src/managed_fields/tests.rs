use super::*;
use crate::status::Status;
use crate::structural::Structural;
use serde_json::{Map, json};

fn kind(group: &str, version: &str, kind: &str) -> GroupVersionKind {
    GroupVersionKind::new(group, version, kind)
}

/// `managedFields` after a change by the manager `me`.
fn after(kind: &GroupVersionKind, subresource: &str, old: &Value, new: &Value) -> Option<Value> {
    let schema = Node::built_in(kind).unwrap_or(Node::Resource);
    let now = "2026-01-02T00:00:00Z".parse().unwrap();
    Change { kind, schema, has_status: true, subresource, manager: "me", now }.managed_fields(old, new).0
}

fn fields_of(list: &Option<Value>, index: usize) -> Value {
    list.as_ref().unwrap()[index]["fieldsV1"].clone()
}

#[test]
fn the_creator_owns_all_fields() {
    let pod = kind("", "v1", "Pod");
    let empty = json!({"metadata": {}, "spec": {"containers": null}, "status": {}});
    let new = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b", "finalizers": ["x/y"]},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {}, "args": ["a", "b"],
                            "ports": [{"containerPort": 80, "protocol": "TCP"}]}],
            "nodeSelector": {"a": "b"}, "securityContext": {}},
        "status": {"phase": "Pending"},
    });
    let list = after(&pod, "", &empty, &new);
    assert_eq!(
        list,
        Some(json!([{
            "manager": "me", "operation": "Update", "apiVersion": "v1", "time": "2026-01-02T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:finalizers": {".": {}, "v:\"x/y\"": {}}},
                "f:spec": {
                    "f:containers": {"k:{\"name\":\"c\"}": {
                        ".": {}, "f:name": {}, "f:image": {}, "f:resources": {}, "f:args": {},
                        "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                            ".": {}, "f:containerPort": {}, "f:protocol": {}}}}},
                    "f:nodeSelector": {}, "f:securityContext": {}}},
        }]))
    );
}

fn config_map(data: Value, managed_fields: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
           "metadata": {"name": "a", "uid": "u", "managedFields": managed_fields}, "data": data})
}

fn entry(manager: &str, second: u32, fields: Value) -> Value {
    json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
           "time": format!("2026-01-01T00:00:{second:02}Z"), "fieldsV1": fields})
}

#[test]
fn a_changed_field_is_taken_from_its_other_managers() {
    let maps = kind("", "v1", "ConfigMap");
    let theirs = json!([entry("other", 1, json!({"f:data": {".": {}, "f:a": {}, "f:b": {}, "f:c": {}}}))]);
    let old = config_map(json!({"a": "1", "b": "2", "c": "3"}), theirs);
    let list = after(&maps, "", &old, &config_map(json!({"a": "1", "b": "3", "d": "4"}), Value::Null));
    assert_eq!(fields_of(&list, 0), json!({"f:data": {".": {}, "f:a": {}}}));
    assert_eq!(fields_of(&list, 1), json!({"f:data": {"f:b": {}, "f:d": {}}}));
}

#[test]
fn a_manager_that_changes_nothing_is_not_listed() {
    let maps = kind("", "v1", "ConfigMap");
    let theirs = json!([entry("other", 1, json!({"f:data": {".": {}, "f:a": {}}}))]);
    let old = config_map(json!({"a": "1"}), theirs.clone());
    assert_eq!(after(&maps, "", &old, &config_map(json!({"a": "1"}), Value::Null)), Some(theirs));
}

#[test]
fn the_books_are_opened_on_creation_only_and_closed_on_demand() {
    let maps = kind("", "v1", "ConfigMap");
    let new = config_map(json!({"a": "1"}), Value::Null);
    assert_eq!(after(&maps, "", &config_map(json!({}), Value::Null), &new), None);
    let theirs = json!([entry("other", 1, json!({"f:data": {".": {}, "f:a": {}}}))]);
    let closing = config_map(json!({"a": "1"}), json!([{}]));
    assert_eq!(after(&maps, "", &config_map(json!({}), theirs), &closing), None);
}

#[test]
fn a_status_is_not_owned_by_the_writer_of_the_object() {
    let node = kind("", "v1", "Node");
    let object = |value: &str| {
        json!({"metadata": {"uid": "u", "managedFields": [entry("other", 1, json!({"f:spec": {"f:a": {}}}))]},
               "spec": {"podCIDR": value}, "status": {"phase": value}})
    };
    assert_eq!(fields_of(&after(&node, "", &object("a"), &object("b")), 1), json!({"f:spec": {"f:podCIDR": {}}}));
    let status = after(&node, "status", &object("a"), &object("b")).unwrap();
    assert_eq!(status[1]["fieldsV1"], json!({"f:status": {"f:phase": {}}}));
    assert_eq!(status[1]["subresource"], "status");
}

#[test]
fn the_oldest_of_many_managers_are_merged() {
    let maps = kind("", "v1", "ConfigMap");
    let many = (0..10).map(|at| entry(&format!("m{at}"), at, json!({"f:data": {format!("f:{at}"): {}}})));
    let data: serde_json::Map<String, Value> = (0..10).map(|at| (at.to_string(), "x".into())).collect();
    let old = config_map(Value::Object(data.clone()), Value::Array(many.collect()));
    let mut new = config_map(Value::Object(data), Value::Null);
    new["data"]["new"] = "x".into();
    let list = after(&maps, "", &old, &new).unwrap();
    let names: Vec<&str> = list.as_array().unwrap().iter().filter_map(|entry| entry["manager"].as_str()).collect();
    assert_eq!(names, ["ancient-changes", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9", "me"]);
    assert_eq!(list[0]["fieldsV1"], json!({"f:data": {"f:0": {}, "f:1": {}}}));
    assert_eq!(list[0]["time"], "2026-01-01T00:00:01Z");
}

#[test]
fn items_of_custom_resources_are_distinguished_by_the_schema() {
    let things = kind("example.test", "v1", "Thing");
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "d"],
                 "items": {"type": "object", "properties": {"k": {"type": "string"}, "d": {"type": "integer", "default": 1}}}},
        "atomic": {"type": "object", "x-kubernetes-map-type": "atomic"},
        "plain": {"type": "array", "items": {"type": "string"}}}}}});
    let schema = Structural::compile(&schema).unwrap();
    let change = Change {
        kind: &things,
        schema: Node::Whole(schema.root().unwrap()),
        has_status: false,
        subresource: "",
        manager: "me",
        now: Timestamp::UNIX_EPOCH,
    };
    let new = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"list": [{"k": "x", "d": 1}], "atomic": {"a": 1}, "plain": ["a"]}});
    let (list, _) = change.managed_fields(&json!({}), &new);
    let expected = json!({
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
        "f:spec": {".": {}, "f:atomic": {}, "f:plain": {}, "f:list": {".": {}, "k:{\"d\":1,\"k\":\"x\"}": {".": {}, "f:d": {}, "f:k": {}}}},
    });
    assert_eq!(fields_of(&list, 0), expected);
}

#[test]
fn a_manager_is_named_by_the_options_or_the_user_agent() {
    for (field_manager, user_agent, expected) in [
        ("me", "kubectl/v1", "me"),
        ("", "kubectl/v1.36 (linux)", "kubectl"),
        ("", "", "unknown"),
        ("", "a\u{7}b", "ab"),
    ] {
        assert_eq!(manager_name(field_manager, user_agent), expected);
    }
    assert_eq!(manager_name("", &"é".repeat(100)).len(), 128);
}

#[test]
fn many_fields_deep_down_are_too_large_and_as_many_above_are_not() {
    let fields = |depth: usize| {
        let fields: Map<String, Value> = (0..50_000).map(|i| (format!("f:{i}"), json!({}))).collect();
        (0..depth).fold(Value::Object(fields), |below, _| json!({"f:a": below}))
    };
    let of = |depth: usize| json!({"metadata": {"managedFields": [{"fieldsV1": fields(depth)}]}});
    assert!(is_too_large(&of(100)));
    assert!(!is_too_large(&of(2)));
}

/// The paths of all fields below a name contain that name.
#[test]
fn a_long_name_above_many_fields_is_too_large_and_above_few_is_not() {
    let pod = |fields: usize| {
        let env: Vec<Value> = (0..fields).map(|i| json!({"name": format!("v{i}")})).collect();
        json!({"spec": {"containers": [{"name": "a".repeat(200_000), "env": env}]}})
    };
    let owned = |fields: usize| {
        let below: Map<String, Value> = (0..fields).map(|i| (format!("f:{i}"), json!({}))).collect();
        json!({"metadata": {"managedFields": [{"fieldsV1": {("f:".to_owned() + &"a".repeat(200_000)): below}}]}})
    };
    assert!(is_too_large(&pod(500)) && is_too_large(&owned(500)));
    assert!(!is_too_large(&pod(50)) && !is_too_large(&owned(50)));
}

#[test]
fn a_key_counts_as_it_is_written() {
    for item in [json!("a\u{1}\"\\\n\u{c}é</"), json!(-1.5), json!(12345), json!({"name": "\u{2}", "port": 80})] {
        let written = item.to_string().len();
        // Braces are not counted, but a colon and a comma are counted for each field.
        assert!((written - 2..=written + 1).contains(&key_bytes(&item)), "{item}");
    }
    let pod = |name: String| {
        let env: Vec<Value> = (0..500).map(|i| json!({"name": format!("v{i}")})).collect();
        json!({"spec": {"containers": [{"name": name, "env": env}]}})
    };
    assert!(is_too_large(&pod("\u{1}".repeat(30_000))) && !is_too_large(&pod("a".repeat(30_000))));
}

#[test]
fn a_scale_is_owned_by_the_owner_of_the_replicas() {
    let of = |version: &str, manager: &str, fields: Value| {
        let mut entry = entry(manager, 1, fields);
        entry["apiVersion"] = version.into();
        entry
    };
    let replicas = json!({"f:spec": {".": {}, "f:size": {}}});
    let parent = json!([
        of("a/v1", "one", replicas.clone()),
        of("a/v2", "two", replicas.clone()),
        of("a/v1", "three", json!({"f:spec": {}})),
        of("b/v1", "four", replicas),
    ]);
    let scale = of_scale(&parent, |version| (version == "a/v1").then_some(".spec.size"));
    assert_eq!(scale, Some(json!([of("autoscaling/v1", "one", json!({"f:spec": {"f:replicas": {}}}))])));
    assert_eq!(of_scale(&parent, |_| None), None);
    assert_eq!(of_scale(&json!([{"bad": 1}]), |_| Some(".spec.size")), None);
}

/// The result of an apply by `me` to a live ConfigMap.
fn applied(live: Option<Value>, configuration: Value) -> Option<Value> {
    let kind = kind("", "v1", "ConfigMap");
    let now = "2026-01-02T00:00:00Z".parse().unwrap();
    let schema = Node::built_in(&kind).unwrap();
    let change = Change { kind: &kind, schema, has_status: false, subresource: "", manager: "me", now };
    change.applied(live.as_ref(), &configuration)
}

fn applier(manager: &str, fields: Value) -> Value {
    let mut entry = entry(manager, 1, fields);
    entry["operation"] = "Apply".into();
    entry
}

#[test]
fn a_field_that_is_no_longer_applied_goes_unless_others_own_it() {
    let data = |fields: &[&str]| {
        let fields: Map<String, Value> = fields.iter().map(|field| (format!("f:{field}"), json!({}))).collect();
        json!({ "f:data": fields })
    };
    let owners = json!([applier("me", data(&["a", "b", "c"])), entry("other", 1, data(&["b", "d"]))]);
    let live = config_map(json!({"a": "1", "b": "1", "c": "1", "d": "1", "e": "1"}), owners);
    let outcome = applied(Some(live), json!({"metadata": {"name": "a"}, "data": {"c": "2", "d": "2"}})).unwrap();
    assert_eq!(outcome["data"], json!({"b": "1", "c": "2", "d": "2", "e": "1"}));
    let owners = &outcome["metadata"]["managedFields"];
    assert_eq!((&owners[0]["fieldsV1"], &owners[0]["time"]), (&data(&["c", "d"]), &json!("2026-01-02T00:00:00Z")));
    assert_eq!(owners[1]["fieldsV1"], data(&["b"]));
}

#[test]
fn a_map_of_which_nothing_is_applied_goes_as_a_whole() {
    let owners = json!([applier("me", json!({"f:data": {"f:a": {}}}))]);
    let outcome = applied(Some(config_map(json!({"a": "1"}), owners)), json!({"immutable": true})).unwrap();
    assert_eq!((outcome.get("data"), &outcome["immutable"]), (None, &json!(true)));
}

#[test]
fn the_first_applier_owns_the_fields_of_its_configuration() {
    let outcome = applied(None, json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"a": "1"}})).unwrap();
    let fields = json!({"f:metadata": {"f:labels": {"f:x": {}}}, "f:data": {"f:a": {}}});
    assert_eq!(outcome["metadata"]["managedFields"][0]["fieldsV1"], fields);
}

#[test]
fn ownership_in_other_versions_is_unknown() {
    let mut other = entry("other", 1, json!({"f:data": {"f:b": {}}}));
    other["apiVersion"] = "v2".into();
    let live = |own: Value| Some(config_map(json!({"a": "1", "b": "1"}), json!([applier("me", own), other])));
    let said = json!({"data": {"a": "1"}});
    assert!(applied(live(json!({"f:data": {"f:a": {}}})), said.clone()).is_some());
    assert!(applied(live(json!({"f:data": {"f:a": {}, "f:b": {}}})), said.clone()).is_none());
    assert!(applied(Some(config_map(json!({}), Value::Null)), said).is_none());
}

#[test]
fn items_that_are_applied_no_more_go_as_well() {
    let pod = kind("", "v1", "Pod");
    let own = json!({"f:spec": {"f:containers": {
        "k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:image": {}}, "k:{\"name\":\"b\"}": {".": {}, "f:name": {}, "f:image": {}}}}});
    let live = json!({"metadata": {"name": "p", "uid": "u", "managedFields": [applier("me", own)]},
        "spec": {"containers": [{"name": "a", "image": "1", "tty": true}, {"name": "b", "image": "1"}]}});
    let schema = Node::built_in(&pod).unwrap();
    let change =
        Change { kind: &pod, schema, has_status: true, subresource: "", manager: "me", now: Timestamp::UNIX_EPOCH };
    let said = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "2"}]}});
    let outcome = change.applied(Some(&live), &said).unwrap();
    assert_eq!(outcome["spec"]["containers"], json!([{"name": "a", "image": "2", "tty": true}]));
    let fields = json!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:image": {}}}}});
    assert_eq!(outcome["metadata"]["managedFields"][0]["fieldsV1"], fields);
}

/// A kind whose field `a` of v1 is `b` in v2; v3 does not exist.
struct Renamed;

impl VersionConverter for Renamed {
    fn convert(&self, object: &Value, from: &str, to: &str) -> InVersion<'_> {
        if to == "v3" {
            return InVersion::Missing;
        }
        let mut object = object.clone();
        let (old, new) = match (from, to) {
            ("v1", "v2") => ("a", "b"),
            ("v2", "v1") => ("b", "a"),
            _ => ("", ""),
        };
        if let Some(data) = object.get_mut("data").and_then(Value::as_object_mut)
            && let Some(value) = data.remove(old)
        {
            data.insert(new.into(), value);
        }
        InVersion::Known(object, Node::built_in(&kind("", "v1", "ConfigMap")).unwrap())
    }
}

fn apply(live: &Value, manager: &str, data: Value, force: bool) -> Result<Value, Status> {
    let kind = kind("", "v1", "ConfigMap");
    let now = "2026-01-02T00:00:00Z".parse().unwrap();
    let schema = Node::built_in(&kind).unwrap();
    let change = Change { kind: &kind, schema, has_status: false, subresource: "", manager, now };
    let configuration = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
    change.apply(Some(live), &configuration, force, &Renamed)
}

fn in_version(mut entry: Value, version: &str) -> Value {
    entry["apiVersion"] = version.into();
    entry
}

#[test]
fn managers_conflict_in_their_own_versions() {
    let owners = json!([
        in_version(applier("one", json!({"f:data": {"f:b": {}}})), "v2"),
        in_version(entry("two", 1, json!({"f:data": {"f:b": {}, "f:c": {}}})), "v2"),
        in_version(entry("gone", 1, json!({"f:data": {"f:a": {}}})), "v3"),
    ]);
    let live = config_map(json!({"a": "1", "c": "1"}), owners);
    let conflict = apply(&live, "me", json!({"a": "2", "c": "2"}), false).unwrap_err();
    assert_eq!(
        conflict.message,
        "Apply failed with 3 conflicts: conflicts with \"one\":\n- .data.b\nconflicts with \"two\" using v2:\n- .data.b\n- .data.c"
    );
    assert_eq!((conflict.code, conflict.details.unwrap().causes.len()), (409, 3));
    let forced = apply(&live, "me", json!({"a": "2", "c": "2"}), true).unwrap();
    let entries = forced["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.iter().map(|entry| &entry["manager"]).collect::<Vec<_>>(), ["me"]);
}

#[test]
fn fields_of_an_apply_in_another_version_are_removed_unless_others_own_them() {
    let of = |other: Value| {
        json!([in_version(applier("me", json!({"f:data": {"f:b": {}, "f:c": {}}})), "v2"), entry("other", 1, other)])
    };
    let data = json!({"a": "1", "c": "1", "d": "1"});
    let live = config_map(data.clone(), of(json!({"f:data": {"f:d": {}}})));
    assert_eq!(apply(&live, "me", json!({"d": "1"}), false).unwrap()["data"], json!({"d": "1"}));
    let live = config_map(data, of(json!({"f:data": {"f:a": {}}})));
    assert_eq!(apply(&live, "me", json!({"d": "1"}), false).unwrap()["data"], json!({"a": "1", "d": "1"}));
}

#[test]
fn fields_without_managed_fields_belong_to_before_first_apply() {
    let live = config_map(json!({"a": "1"}), Value::Null);
    let conflict = apply(&live, "me", json!({"a": "2"}), false).unwrap_err();
    assert_eq!(
        conflict.message,
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.a"
    );
    let shared = apply(&live, "me", json!({"a": "1"}), false).unwrap();
    let entries = shared["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!((&entries[0]["manager"], entries[0].get("time")), (&json!("me"), None));
    assert_eq!(entries[1]["fieldsV1"], json!({"f:data": {".": {}, "f:a": {}}}));
}

#[test]
fn an_apply_that_changes_nothing_keeps_its_time() {
    let live = config_map(json!({"a": "1"}), json!([applier("me", json!({"f:data": {"f:a": {}}}))]));
    let again = apply(&live, "me", json!({"a": "1"}), false).unwrap();
    assert_eq!(again["metadata"]["managedFields"], live["metadata"]["managedFields"]);
    let malformed = config_map(json!({}), json!([{"operation": "x"}]));
    let refused = apply(&malformed, "me", json!({}), false).unwrap_err();
    assert_eq!(refused.message, "failed to decode managed fields: operation must be `Apply` or `Update`");
}

#[test]
fn an_entry_names_a_list_that_has_become_atomic() {
    let node = Node::built_in(&kind("", "v1", "Pod")).unwrap();
    let of = |fields: Value| fields::reconciled(node, &set::decode(&fields).unwrap()).map(set::encode);
    let args = |args: Value| json!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {"f:args": args}}}});
    assert_eq!(of(args(json!({"v:\"x\"": {}, "v:\"y\"": {}}))), Some(args(json!({}))));
    assert_eq!(of(args(json!({}))), None);
    assert_eq!(of(json!({"f:spec": {"f:nodeSelector": {"f:a": {}}}})), Some(json!({"f:spec": {"f:nodeSelector": {}}})));
}

#[test]
fn a_scaled_object_has_the_owners_of_its_scale() {
    let replicas = |version: &str| version.starts_with("a/").then_some(".spec.replicas");
    let of = |manager: &str, version: &str, fields: Value| in_version(entry(manager, 1, fields), version);
    let both = json!({"f:spec": {"f:replicas": {}, "f:x": {}}});
    let parent = json!([of("one", "a/v1", both.clone()), of("two", "b/v1", both)]);
    let own = json!({"f:spec": {"f:replicas": {}}});
    let scale = json!([of("scaler", "autoscaling/v1", own.clone())]);
    let mut scaler = of("scaler", "a/v1", own);
    scaler.as_object_mut().unwrap().remove("time");
    let expected = json!([scaler, of("one", "a/v1", json!({"f:spec": {"f:x": {}}}))]);
    assert_eq!(of_scaled(&parent, &scale, "a/v1", replicas), Some(expected));
    assert_eq!(of_scaled(&Value::Null, &Value::Null, "a/v1", replicas), None);
}

/// A kind whose v2 has no field `c`, with a conversion that keeps it.
struct Narrower;

impl VersionConverter for Narrower {
    fn convert(&self, object: &Value, _from: &str, to: &str) -> InVersion<'_> {
        match to == "v2" && object.pointer("/data/c").is_some() {
            true => InVersion::Unfit(Unfit::new(".data.c: field not declared in schema")),
            false => InVersion::Known(object.clone(), Node::built_in(&kind("", "v1", "ConfigMap")).unwrap()),
        }
    }
}

#[test]
fn an_object_that_does_not_fit_the_version_of_an_owner_is_refused_or_loses_its_owners() {
    let kind = kind("", "v1", "ConfigMap");
    let schema = Node::built_in(&kind).unwrap();
    let change =
        Change { kind: &kind, schema, has_status: false, subresource: "", manager: "me", now: Timestamp::UNIX_EPOCH };
    let owned = json!([{"manager": "other", "operation": "Update", "apiVersion": "v2", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}}}}]);
    let live = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "uid": "u", "managedFields": owned},
        "data": {"a": "1"}});
    let apply = |live: &Value, data: Value| {
        let configuration = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data});
        change.apply(Some(live), &configuration, false, &Narrower)
    };
    assert!(apply(&live, json!({"b": "1"})).is_ok());
    let refused = apply(&live, json!({"c": "1"})).unwrap_err();
    assert_eq!(
        (refused.code, &*refused.message),
        (500, "failed to convert new object: .data.c: field not declared in schema")
    );
    let mut after = live.clone();
    after["data"]["c"] = json!("1");
    assert_eq!(change.managed_fields_in(&live, &after, &Narrower), (None, false));
    assert_eq!(apply(&after, json!({"b": "1"})).unwrap_err().message, ".data.c: field not declared in schema");
}
