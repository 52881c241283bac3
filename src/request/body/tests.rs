use super::*;
use crate::object::patch::PatchType;
use proptest::prelude::*;
use serde_json::json;

fn config_map() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "ConfigMap")
}

/// Decodes an object as kube-apiserver does.
fn decode_object(bytes: &[u8], media_type: MediaType, expected: &GroupVersionKind) -> Result<DecodedObject, Status> {
    super::decode_object(bytes, media_type, expected, BodyForm::Normal(None))
}

fn refusal(text: &str, kind: &GroupVersionKind) -> String {
    let status = decode_object(text.as_bytes(), MediaType::Json, kind).unwrap_err();
    assert_eq!(status.code, 400, "{text}");
    status.message
}

/// Compares with the answers of a kube-apiserver 1.36.3.
#[test]
fn bodies_that_are_no_config_map_are_refused_in_kube_apiservers_words() {
    const META: &str = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
    let unrecognized = "the object provided is unrecognized (must be of type ConfigMap): ";
    let scheme = "in scheme \"pkg/runtime/scheme.go:111\"";
    for (text, expected) in [
        ("", format!("{unrecognized}couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)")),
        ("{", format!("{unrecognized}couldn't get version/kind; json parse error: unexpected end of JSON input ({{)")),
        ("[]", format!("{unrecognized}couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type {META} (5b5d)")),
        (r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c",}}"#, format!("{unrecognized}couldn't get version/kind; json parse error: invalid character '}}' looking for beginning of object key string ({{\"apiVersion\":\"v1\",\"kind\":\"Con ...)")),
        (r#"{"apiVersion":"a/b/c","kind":"ConfigMap","metadata":{"name":"c"}}"#, format!("{unrecognized}unexpected GroupVersion string: a/b/c ({{\"apiVersion\":\"a/b/c\",\"kind\":\" ...)")),
        (r#"{"apiVersion":1,"kind":"ConfigMap"}"#, format!("{unrecognized}couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .apiVersion of type string ({{\"apiVersion\":1,\"kind\":\"Config ...)")),
        (r#"{"apiVersion":"v1","kind":"Secret"}"#, "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion".into()),
        (r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#, "AdmissionReview in version \"v1\" cannot be handled as a ConfigMap: converting (v1.AdmissionReview) to (core.ConfigMap): unknown conversion".into()),
        (r#"{"apiVersion":"v1","kind":"List"}"#, "List in version \"v1\" cannot be handled as a ConfigMap: converting (v1.List) to (core.ConfigMap): unknown conversion".into()),
        (r#"{"apiVersion":"v1","kind":"CreateOptions"}"#, "CreateOptions in version \"v1\" cannot be handled as a ConfigMap: converting (v1.CreateOptions) to (core.ConfigMap): unknown conversion".into()),
        (r#"{"apiVersion":"v1","kind":"Nonsense"}"#, format!("Nonsense in version \"v1\" cannot be handled as a ConfigMap: no kind \"Nonsense\" is registered for version \"v1\" {scheme}")),
        (r#"{"apiVersion":"v2","kind":"ConfigMap"}"#, format!("ConfigMap in version \"v2\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version \"v2\" {scheme}")),
        (r#"{"apiVersion":"apps/v1","kind":"ConfigMap"}"#, format!("ConfigMap in version \"v1\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version \"apps/v1\" {scheme}")),
        (r#"{"apiVersion":"apps/","kind":"ConfigMap"}"#, r#"ConfigMap in version "" cannot be handled as a ConfigMap: Object 'apiVersion' is missing in '{"apiVersion":"apps/","kind":"ConfigMap"}'"#.into()),
        (r#"{"metadata":{"name":5}}"#, "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string".into()),
        (r#"{"data":{"a":5}}"#, "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string".into()),
        (r#"{"metadata":"c"}"#, "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal string into Go struct field ConfigMap.metadata of type v1.ObjectMeta".into()),
    ] {
        assert_eq!(refusal(text, &config_map()), expected, "{text}");
    }
}

#[test]
fn the_kind_in_another_version_is_refused() {
    for (expected, sent) in [
        (GroupVersionKind::new("autoscaling", "v2", "HorizontalPodAutoscaler"), "autoscaling/v1"),
        (GroupVersionKind::new("apps", "v1", "Deployment"), "apps/v1beta1"),
        (GroupVersionKind::new("apps", "v1", "Deployment"), "extensions/v1beta1"),
        (GroupVersionKind::new("autoscaling", "v1", "Scale"), "apps/v1beta1"),
        (GroupVersionKind::new("events.k8s.io", "v1", "Event"), "v1"),
    ] {
        let body = json!({"apiVersion": sent, "kind": expected.kind}).to_string();
        let wanted = expected.api_version();
        let message =
            format!("the API version in the data ({sent}) does not match the expected API version ({wanted})");
        assert_eq!(refusal(&body, &expected), message);
    }
}

#[test]
fn kind_and_version_of_built_in_kinds_may_be_left_out() {
    for text in [
        "{}",
        "null",
        r#"{"apiVersion":"v1"}"#,
        r#"{"kind":"ConfigMap"}"#,
        r#"{"apiVersion":"/"}"#,
        r#"{"apiVersion":"/v1"}"#,
    ] {
        let decoded = decode_object(text.as_bytes(), MediaType::Json, &config_map()).unwrap();
        let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
        assert_eq!(decoded.object.into_value(), expected, "{text}");
    }
}

#[test]
fn custom_resources_must_have_a_kind() {
    let foo = GroupVersionKind::new("lab.dev", "v1", "Foo");
    for (text, expected) in [
        ("{}", "the object provided is unrecognized (must be of type Foo): Object 'Kind' is missing in '{}' ({})"),
        (
            "null",
            "the object provided is unrecognized (must be of type Foo): Object 'Kind' is missing in 'null' (6e756c6c)",
        ),
        (
            r#"{"kinD":"Foo"}"#,
            "the object provided is unrecognized (must be of type Foo): Object 'Kind' is missing in '{\"kinD\":\"Foo\"}' ({\"kinD\":\"Foo\"})",
        ),
        (
            r#"{"kind":"Foo","apiversion":"lab.dev/v1"}"#,
            "the API version in the data () does not match the expected API version (lab.dev/v1)",
        ),
        (r#"{"kind":"Foo"}"#, "the API version in the data () does not match the expected API version (lab.dev/v1)"),
        (
            r#"{"kind":"Foo","apiVersion":"lab.dev/v3"}"#,
            "the API version in the data (lab.dev/v3) does not match the expected API version (lab.dev/v1)",
        ),
        (
            r#"{"kind":"Foo","apiVersion":"lab.dev/v1","metadata":"x"}"#,
            "Foo in version \"v1\" cannot be handled as a Foo: json: cannot unmarshal string into Go value of type v1.ObjectMeta",
        ),
        (
            r#"{"kind":"Foo","apiVersion":"lab.dev/v1","metadata":{"labels":{"a":1}}}"#,
            "Foo in version \"v1\" cannot be handled as a Foo: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
        ),
    ] {
        assert_eq!(refusal(text, &foo), expected, "{text}");
    }
    let bar = r#"{"kind":"Bar","apiVersion":"lab.dev/v1","metadata":{"name":"b"}}"#;
    let status = decode_object(bar.as_bytes(), MediaType::Json, &foo).unwrap_err();
    assert_eq!(
        (status.code, &*status.message),
        (422, "Bar.lab.dev \"b\" is invalid: kind: Invalid value: \"Bar\": must be Foo")
    );
}

#[test]
fn duplicate_keys_are_reported_as_by_field_validation() {
    let json = br#"{"data":{"a":"1","a":"2"}}"#;
    let decoded = decode_object(json, MediaType::Json, &config_map()).unwrap();
    assert_eq!(decoded.strict_errors(MediaType::Json).unwrap(), "duplicate field \"data.a\"");
    let decoded = decode_object(b"data:\n  a: b\n  c: d\n  a: e\n", MediaType::Yaml, &config_map()).unwrap();
    let expected = "yaml: unmarshal errors:\n  line 4: key \"a\" already set in map";
    assert_eq!(decoded.strict_errors(MediaType::Yaml).unwrap(), expected);
}

#[test]
fn media_types_are_negotiated() {
    for (text, expected) in [
        (None, Some(MediaType::Json)),
        (Some(""), Some(MediaType::Json)),
        (Some("Application/JSON; charset=utf-8"), Some(MediaType::Json)),
        (Some("application/json;"), Some(MediaType::Json)),
        (Some("application/yaml"), Some(MediaType::Yaml)),
        (Some("application/vnd.kubernetes.protobuf; a=\"b;c\""), Some(MediaType::Protobuf)),
        (Some("application/json; a=b; A=b"), Some(MediaType::Json)),
        (Some("application/json; a=\"b\\\"c\""), Some(MediaType::Json)),
        (Some("application/json; a=b; a=c"), None),
        (Some("application/json; a=\"b\\\""), None),
        (Some("application/json;;"), None),
        (Some("application/cbor"), None),
        (Some("*/*"), None),
        (Some("application/merge-patch+json"), None),
    ] {
        assert_eq!(media_type(text, MediaTypes::default()).ok(), expected, "{text:?}");
    }
    let with_cbor = MediaTypes { has_cbor: true };
    assert_eq!(media_type(Some("Application/CBOR; a=b"), with_cbor).unwrap(), MediaType::Cbor);
    assert!(
        media_type(Some("application/cbor-seq"), with_cbor)
            .unwrap_err()
            .message
            .ends_with("protobuf, application/cbor")
    );
    assert_eq!(
        media_type(Some("text/plain"), MediaTypes::default()).unwrap_err().message,
        "the body of the request was in an unknown format - accepted media types include: application/json, \
         application/yaml, application/vnd.kubernetes.protobuf"
    );
}

#[tokio::test]
async fn bodies_are_bounded() {
    let read = |length: usize| read(crate::body::full(vec![0; length]), 10);
    assert_eq!(read(10).await.unwrap().len(), 10);
    let status = read(11).await.unwrap_err();
    assert_eq!((status.code, &*status.message), (413, "Request entity too large: limit is 10"));
}

#[tokio::test]
async fn a_body_that_is_a_little_too_large_is_read_to_its_end() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    for (frames, wanted) in [(4, 4), (1000, 257)] {
        let taken = std::sync::Arc::new(AtomicUsize::new(0));
        let counted = taken.clone();
        let frames = futures_util::stream::iter((0..frames).map(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(http_body::Frame::data(Bytes::from(vec![0; 1024])))
        }));
        let body = http_body_util::StreamBody::new(frames).boxed_unsync();
        assert_eq!(read(body, 10).await.unwrap_err().code, 413);
        assert_eq!(taken.load(Ordering::Relaxed), wanted);
    }
}

#[test]
fn names_and_namespaces_must_be_those_of_the_url() {
    let object = |value| Object::from_value(value).unwrap();
    let mut named = object(json!({"metadata": {"name": "two", "namespace": "x"}}));
    assert_eq!(
        check_name(&named, "one").unwrap_err().message,
        "the name of the object (two) does not match the name on the URL (one)"
    );
    assert_eq!(
        check_name(&Object::default(), "one").unwrap_err().message,
        "the name of the object (one based on URL) was undeterminable: name must be provided"
    );
    assert!(check_name(&named, "two").is_ok());
    assert_eq!(ensure_namespace(&mut named, "y").unwrap_err().code, 400);
    assert!(ensure_namespace(&mut named, "").is_ok());
    assert_eq!(named.namespace(), "");
    assert!(ensure_namespace(&mut named, "y").is_ok());
    assert_eq!(named.namespace(), "y");
    assert_eq!(
        check_new_name(&Object::default(), &config_map()).unwrap_err().message,
        "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required"
    );
}

#[test]
fn a_patch_may_not_change_what_an_object_is() {
    let decode = |patched: Value| decode_patched(patched, &config_map(), None, Defaulting::default());
    let Err(InvalidOutcome::Invalid(why)) = decode(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}}))
    else {
        panic!("a Secret is no ConfigMap")
    };
    assert_eq!(why, "converting (v1.Secret) to (core.ConfigMap): unknown conversion");
    assert!(decode(json!({"data": {"a": 1}})).is_err());
    let patched = decode(json!({"apiVersion": "v1", "kind": "ConfigMap", "x": 1})).ok().unwrap();
    assert_eq!(patched.unknown, ["unknown field \"x\""]);
    let status = invalid_patch("{}", "why");
    assert_eq!((status.code, &*status.message), (422, " \"\" is invalid: patch: Invalid value: \"{}\": why"));
}

#[test]
fn since_1_37_decoding_leaves_the_resources_of_a_pod_as_a_whole() {
    let kind = GroupVersionKind::new("", "v1", "Pod");
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}});
    let spec = json!({"containers": [container], "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
    let yaml = format!("{pod:#}");
    let before = json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}});
    for (pod_resources, expected) in [(true, &before), (false, &pod["spec"]["resources"])] {
        let defaulting = Defaulting { pod_resources, ..Defaulting::default() };
        for media_type in [MediaType::Json, MediaType::Yaml] {
            for form in [BodyForm::Normal(None), BodyForm::Carrying(None)] {
                let (bytes, other) = (yaml.as_bytes(), OtherKind::Custom);
                let decoded = decode_object_of(bytes, media_type, &kind, form, other, defaulting).unwrap();
                assert_eq!(decoded.object.get(&["spec", "resources"]), Some(expected));
                assert_eq!(decoded.object.str(&["spec", "restartPolicy"]), "Always");
            }
        }
        let patched = decode_patched(pod.clone(), &kind, None, defaulting).ok().unwrap();
        assert_eq!(patched.object.get(&["spec", "resources"]), Some(expected));
    }
}

#[test]
fn a_patch_that_breaks_a_custom_resources_metadata_is_invalid() {
    let kind = GroupVersionKind::new("example.com", "v1", "Widget");
    let widget = |metadata: Value| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata});
    for (metadata, expected) in [
        (
            json!({"labels": {"a": 5}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
        ),
        (
            json!({"deletionTimestamp": 5}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.deletionTimestamp of type string",
        ),
        (
            json!({"creationTimestamp": "x"}),
            r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#,
        ),
    ] {
        let Err(InvalidOutcome::Invalid(why)) = decode_patched(widget(metadata), &kind, None, Defaulting::default())
        else {
            panic!("{expected}")
        };
        assert_eq!(why, expected);
    }
}

#[test]
fn every_kind_that_has_a_schema_has_a_decoder() {
    for (kind, _) in schema::kinds() {
        let normal = normal::built_in(&kind, json!({}));
        assert!(normal.is_some_and(|normal| normal.is_ok()), "{kind:?}");
    }
}

#[test]
fn options_are_read_from_the_query() {
    let options = WriteOptions::from_query(
        "fieldManager=kubectl-create&fieldValidation=Strict&dryRun=All&pretty=1",
        OptionsKind::Create,
    );
    assert_eq!(
        options.unwrap().as_options_object(OptionsKind::Create).into_value(),
        json!({
            "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl-create",
            "fieldValidation": "Strict", "dryRun": ["All"],
        })
    );
    let options =
        WriteOptions::from_query("gracePeriodSeconds=-1&orphanDependents=&fieldManager=x", OptionsKind::Delete);
    assert_eq!(
        options.unwrap().as_options_object(OptionsKind::Delete).into_value(),
        json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "gracePeriodSeconds": -1, "orphanDependents": true})
    );
}

/// Compares with the answers of a kube-apiserver 1.36.3.
#[test]
fn options_that_are_not_allowed_are_refused() {
    use OptionsKind::{Delete, Patch, Update};
    for (query, kind, code, expected) in [
        (
            "dryRun=Some",
            Update,
            422,
            "UpdateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"",
        ),
        (
            "fieldManager=a%0Ab%E2%80%8B",
            Update,
            422,
            "UpdateOptions.meta.k8s.io \"\" is invalid: [fieldManager: Invalid value: \"a\\nb\\u200b\": invalid character U+000A (at position 1), fieldManager: Invalid value: \"a\\nb\\u200b\": invalid character U+200B (at position 3)]",
        ),
        (
            "fieldValidation=x&dryRun=y",
            Update,
            422,
            "UpdateOptions.meta.k8s.io \"\" is invalid: [dryRun: Unsupported value: [\"y\"]: supported values: \"All\", fieldValidation: Unsupported value: \"x\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"]",
        ),
        (
            "force=maybe",
            Patch(PatchType::Merge),
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch",
        ),
        (
            "",
            Patch(PatchType::Apply),
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
        ),
        ("gracePeriodSeconds=", Delete, 400, "strconv.ParseInt: parsing \"\": invalid syntax"),
        (
            "propagationPolicy=X",
            Delete,
            422,
            "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"X\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
        ),
        (
            "orphanDependents=true&propagationPolicy=Orphan",
            Delete,
            422,
            "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set",
        ),
    ] {
        let status = WriteOptions::from_query(query, kind).unwrap_err();
        assert_eq!((status.code, &*status.message), (code, expected), "{query}");
    }
    let long = format!("fieldManager={}", "x".repeat(129));
    let status = WriteOptions::from_query(&long, Update).unwrap_err();
    assert!(status.message.ends_with("fieldManager: Too long: may not be more than 128 bytes"));
}

/// Compares with the answers of a kube-apiserver 1.36.3.
#[test]
fn options_of_a_delete_are_read_from_its_body() {
    let read = |body: &str| WriteOptions::for_delete(body.as_bytes(), MediaType::Json, "dryRun=All");
    for body in ["{}", "null", r#"{"kind":"DeleteOptions","apiVersion":"nope/v1"}"#, r#"{"unknown":1}"#] {
        assert_eq!(read(body).unwrap(), WriteOptions::default(), "{body}");
    }
    assert!(read("").unwrap().is_dry_run());
    let options = read(r#"{"preconditions":{"uid":"u"},"propagationPolicy":"Orphan"}"#).unwrap();
    assert_eq!(
        options.as_options_object(OptionsKind::Delete).into_value(),
        json!({
            "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "preconditions": {"uid": "u"}, "propagationPolicy": "Orphan",
        })
    );
    for (body, expected) in [
        ("{", "couldn't get version/kind; json parse error: unexpected end of JSON input"),
        (
            r#"{"kind":"Other","apiVersion":"v1"}"#,
            "no kind \"Other\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"",
        ),
        (r#"{"apiVersion":"a/b/c"}"#, "unexpected GroupVersion string: a/b/c"),
        (
            r#"{"gracePeriodSeconds":"1"}"#,
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
        (
            r#"{"dryRun":"All"}"#,
            "json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of type []string",
        ),
        (
            r#"{"preconditions":{"uid":5}}"#,
            "json: cannot unmarshal number into Go struct field Preconditions.preconditions.uid of type types.UID",
        ),
        (
            r#"{"orphanDependents":1}"#,
            "json: cannot unmarshal number into Go struct field DeleteOptions.orphanDependents of type bool",
        ),
    ] {
        let status = read(body).unwrap_err();
        assert_eq!((status.code, &*status.message), (400, expected), "{body}");
    }
}

/// Compares with the answers of a kube-apiserver 1.36.3, recorded by `tools/record-cbor.py`.
#[test]
fn cbor_is_decoded_as_by_kube_apiserver() {
    let mut differences = Vec::new();
    for line in include_str!("cbor.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| case[name].as_str().unwrap_or_default();
        let byte = |at: usize| u8::from_str_radix(&text("body")[2 * at..2 * at + 2], 16).unwrap();
        let body: Vec<u8> = match text("body").split_once('*') {
            Some((_, count)) => vec![byte(0); count.parse().unwrap()],
            None => (0..text("body").len() / 2).map(byte).collect(),
        };
        let [group, version, kind] = text("kind").split('/').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let found = decode_object(&body, MediaType::Cbor, &GroupVersionKind::new(group, version, kind));
        let is_same = match (&found, case["code"].as_u64()) {
            (Err(status), Some(400)) => status.code == 400 && status.message == text("message"),
            (Err(status), code) => code == Some(u64::from(status.code)),
            (Ok(_), Some(422)) => true,
            (Ok(decoded), code) => {
                let shown = case["object"].as_object().unwrap();
                let are_same = shown.iter().all(|(field, value)| decoded.object.get(&[field]) == Some(value));
                let unknown = decoded.unknown.first().map(String::as_str).unwrap_or_default();
                code == Some(201) && are_same && unknown == text("warning") && !decoded.is_verbatim
            }
        };
        if !is_same {
            let found = found.map(|decoded| (decoded.object, decoded.unknown)).map_err(|status| status.message);
            differences.push(format!("{line}\n    {found:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn a_length_that_cbor_only_declares_is_not_allocated() {
    let deep = [&b"\x81".repeat(1 << 20)[..], b"\x80"].concat();
    let tags = [&b"\xc0".repeat(1 << 20)[..], b"\x60"].concat();
    let maps = [&b"\xbf".repeat(1 << 20)[..], &b"\xff".repeat(1 << 20)].concat();
    let items = [&b"\x9f"[..], &b"\xa1\x40\x00".repeat(1 << 20), b"\xff"].concat();
    let chunks = [&b"\x5f"[..], &b"\x40".repeat(1 << 20), b"\xff"].concat();
    let foo = GroupVersionKind::new("lab.dev", "v1", "Foo");
    for body in [
        &deep[..],
        &tags,
        &maps,
        &items,
        &chunks,
        b"\x9b\x7f\xff\xff\xff\xff\xff\xff\xff",
        b"\xbb\0\0\0\0\0\x1f\xff\xff",
    ] {
        for kind in [&config_map(), &foo] {
            assert_eq!(decode_object(body, MediaType::Cbor, kind).unwrap_err().code, 400);
        }
        assert_eq!(WriteOptions::for_delete(body, MediaType::Cbor, "").unwrap_err().code, 400);
    }
}

#[test]
fn cbor_that_is_cut_or_changed_is_refused_or_the_object_that_is_sent_on() {
    for line in include_str!("cbor.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let hex = case["body"].as_str().unwrap();
        let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
        let [group, version, kind] = case["kind"].as_str().unwrap().split('/').collect::<Vec<_>>()[..] else {
            panic!()
        };
        let kind = GroupVersionKind::new(group, version, kind);
        let length = if hex.contains('*') || hex.len() > 400 { 0 } else { hex.len() / 2 };
        let body: Vec<u8> = (0..length).map(byte).collect();
        for (at, change) in (0..length).flat_map(|at| [0x00, 0x5f, 0xbf, 0xd6, 0xf6, 0xff].map(|change| (at, change))) {
            let mut changed = body.clone();
            changed[at] = change;
            let is_whole = change > 0 || case["code"] != 201;
            assert!(is_whole || decode_object(&body[..at], MediaType::Cbor, &kind).is_err(), "{line}: {at}");
            let Ok(decoded) = decode_object(&changed, MediaType::Cbor, &kind) else { continue };
            let written = serde_json::to_vec(&decoded.object).unwrap();
            let again = decode_object(&written, MediaType::Json, &kind).unwrap();
            assert!(again.object == decoded.object && again.is_verbatim, "{line}: {change:02x} at {at}");
        }
    }
}

#[test]
fn a_byte_string_in_cbor_that_is_not_utf8_has_replacement_characters() {
    let object = json!({"apiVersion": "lab.dev/v1", "kind": "Foo", "metadata": {"name": "a"}, "x": "Q"});
    let mut body = crate::object::cbor::encode(&object);
    let at = body.iter().rposition(|byte| *byte == b'Q').unwrap();
    body[at - 1..=at].copy_from_slice(b"\x41\xff");
    let foo = GroupVersionKind::new("lab.dev", "v1", "Foo");
    let decoded = decode_object(&body, MediaType::Cbor, &foo).unwrap();
    assert_eq!(decoded.object.get(&["x"]), Some(&json!("\u{fffd}")));
}

#[test]
fn an_api_server_of_a_later_release_loses_nothing_that_comes_in_cbor() {
    let body = crate::object::cbor::encode(&json!({"metadata": {"name": "a"}, "data": {"a": "b"}, "later": {"x": 1}}));
    let decoded = super::decode_object(&body, MediaType::Cbor, &config_map(), BodyForm::Carrying(None)).unwrap();
    assert!(matches!(decoded.unseen, Unseen::Fields(_)) && decoded.unknown.is_empty());
    assert_eq!(decoded.object.get(&["data"]), Some(&json!({"a": "b"})));
}

/// Compares with the answers of a kube-apiserver 1.36.3.
#[test]
fn delete_options_may_be_in_cbor() {
    let read = |body: &[u8]| WriteOptions::for_delete(body, MediaType::Cbor, "");
    let options =
        read(&crate::object::cbor::encode(&json!({"gracePeriodSeconds": 0, "dryRun": ["All"], "x": 1}))).unwrap();
    assert_eq!((options.grace_period_seconds, options.is_dry_run()), (Some(0), true));
    for (body, message) in [
        (
            json!({"dryRun": "All"}),
            "cbor: cannot unmarshal byte string into Go struct field v1.DeleteOptions.dryRun of type []string",
        ),
        (
            json!({"kind": "Other", "apiVersion": "v1"}),
            "no kind \"Other\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"",
        ),
        (
            json!([]),
            "unable to determine group/version/kind: cbor: cannot unmarshal array into Go value of type v1.TypeMeta (cannot decode CBOR array to struct without toarray option)",
        ),
        (
            json!({"preconditions": {"uid": 5}}),
            "cbor: cannot unmarshal positive integer into Go struct field v1.DeleteOptions.preconditions of type types.UID",
        ),
        (json!({"apiVersion": "foo/"}), "Object 'apiVersion' is missing in '55799({'apiVersion': 'foo/'})'"),
    ] {
        let status = read(&crate::object::cbor::encode(&body)).unwrap_err();
        assert_eq!((status.code, &*status.message), (400, message), "{body}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_an_object_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..48), query in "\\PC{0,16}") {
        for media_type in [MediaType::Json, MediaType::Yaml, MediaType::Cbor] {
            let _ = decode_object(&bytes, media_type, &config_map());
            let _ = WriteOptions::for_delete(&bytes, media_type, &query);
        }
        let _ = super::media_type(Some(&query), MediaTypes { has_cbor: true });
    }
}

#[test]
fn protobuf_is_decoded_as_the_kind_of_the_url() {
    let config_map = GroupVersionKind::new("", "v1", "ConfigMap");
    let decode = |body: &[u8]| decode_object(body, MediaType::Protobuf, &config_map);
    let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    for body in [&b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap\x12\x05\n\x03\n\x01x"[..], b"k8s\0\x12\x05\n\x03\n\x01x"] {
        let decoded = decode(body).unwrap();
        assert_eq!(serde_json::to_value(&decoded.object).unwrap(), expected);
    }
    for (body, message) in [
        (&b""[..], "the object provided is unrecognized (must be of type ConfigMap): empty data (<empty>)"),
        (
            b"abc",
            "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a \
             protobuf message, expected prefix [107 56 115 0] (616263)",
        ),
        (
            b"k8s\0\n\x0c\n\x02v1\x12\x06Secret\x12\0",
            "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): \
             unknown conversion",
        ),
        (
            b"k8s\0\x12\x02\x08\x05",
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: proto: wrong wireType = 0 for field ObjectMeta",
        ),
    ] {
        let status = decode(body).unwrap_err();
        assert_eq!((status.code, &*status.message), (400, message));
    }
}

#[test]
fn custom_resources_have_no_protobuf() {
    let widget = GroupVersionKind::new("example.com", "v1", "Widget");
    let status = decode_object(b"k8s\0\x12\0", MediaType::Protobuf, &widget).unwrap_err();
    assert_eq!(status.code, 415);
}

#[test]
fn delete_options_may_be_protobuf() {
    let read = |body: &[u8]| WriteOptions::for_delete(body, MediaType::Protobuf, "");
    let options = read(b"k8s\0\n\x13\n\x02v1\x12\rDeleteOptions\x12\x07\x08\0*\x03All").unwrap();
    assert_eq!((options.grace_period_seconds, options.is_dry_run()), (Some(0), true));
    for (body, message) in [
        (&b"abc"[..], "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (
            b"k8s\0\n\x05\x12\x03Foo",
            "no kind \"Foo\" is registered for version \"meta.k8s.io/v1\" in scheme \"pkg/runtime/scheme.go:111\"",
        ),
    ] {
        let status = read(body).unwrap_err();
        assert_eq!((status.code, &*status.message), (400, message));
    }
}
