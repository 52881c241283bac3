//! Answers, and kube-apiserver's error texts for unusable answers.

use crate::backend::Answer;
use crate::webhooks::answer::{AnswerError, Response, read};
use crate::webhooks::hook::ReviewVersion;
use http::StatusCode;
use serde_json::{Value, json};

fn answer(code: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Answer {
    Answer {
        status: StatusCode::from_u16(code).unwrap(),
        content_type: content_type.into(),
        retry_after_seconds: None,
        body: body.into().into(),
    }
}

fn text(code: u16, content_type: &str, body: &str) -> String {
    match read(&answer(code, content_type, body), ReviewVersion::V1, "u", true).unwrap_err() {
        AnswerError::Invalid(why) => format!("invalid: {why}"),
        why => why.to_string(),
    }
}

fn review(fields: Value) -> Value {
    let mut review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": {"uid": "u", "allowed": true}});
    for (field, value) in fields.as_object().unwrap() {
        review["response"][field] = value.clone();
    }
    review
}

fn read_json(review: &Value, version: ReviewVersion, mutating: bool) -> Result<Response, AnswerError> {
    read(&answer(200, "application/json", review.to_string()), version, "u", mutating)
}

#[test]
fn an_answer_that_is_no_review_is_named_as_client_go_names_it() {
    const INTO: &str = "Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
    let type_error = "couldn't get version/kind; json parse error: ";
    for (body, want) in [
        ("", "0-length response with status code: 200 and content type: application/json".to_owned()),
        ("[1]", format!("{type_error}json: cannot unmarshal array into {INTO}")),
        (r#"{"kind": nope}"#, format!("{type_error}invalid character 'o' in literal null (expecting 'u')")),
        (r#"{"kind":"AdmissionReview","response":{"uid""#, format!("{type_error}unexpected end of JSON input")),
        (r#"{"hello":"world"}"#, "invalid: webhook response was absent".into()),
        (
            r#"{"kind":"Other","apiVersion":"admission.k8s.io/v1"}"#,
            "no kind \"Other\" is registered for version \"admission.k8s.io/v1\" in scheme \"pkg/runtime/scheme.go:111\"".into(),
        ),
        (
            r#"{"kind":"AdmissionReview","apiVersion":"foo/v1"}"#,
            "no kind \"AdmissionReview\" is registered for version \"foo/v1\" in scheme \"pkg/runtime/scheme.go:111\"".into(),
        ),
        (
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1"}"#,
            "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion".into(),
        ),
        (
            r#"{"kind":"Status","apiVersion":"v1","status":"Failure"}"#,
            "converting (v1.Status) to (v1.AdmissionReview): unknown conversion".into(),
        ),
        (r#"{"response":5}"#, "json: cannot unmarshal number into Go struct field AdmissionReview.response of type v1.AdmissionResponse".into()),
        (
            r#"{"response":{"uid":"u","allowed":"yes"}}"#,
            "json: cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type bool".into(),
        ),
        (
            r#"{"response":{"uid":"u","status":"m"}}"#,
            "json: cannot unmarshal string into Go struct field AdmissionResponse.response.status of type v1.Status".into(),
        ),
        (
            r#"{"response":{"uid":"u","warnings":"x"}}"#,
            "json: cannot unmarshal string into Go struct field AdmissionResponse.response.warnings of type []string".into(),
        ),
        (r#"{"response":{"uid":"u","patch":"%%%"}}"#, "illegal base64 data at input byte 0".into()),
        (
            r#"{"response":{"uid":"u"}}"#,
            "invalid: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=".into(),
        ),
        (
            r#"{"apiVersion":"admission.k8s.io/v1","response":{"uid":"u"}}"#,
            "invalid: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got admission.k8s.io/v1, Kind=".into(),
        ),
        (
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"x"}}"#,
            "invalid: expected response.uid=\"u\", got \"x\"".into(),
        ),
    ] {
        assert_eq!(text(200, "application/json", body), want, "{body}");
    }
    assert_eq!(text(200, "a b;;", "{}"), "Internal error occurred: mime: expected slash after first token");
    assert!(text(200, "text/plain", "lab says no").starts_with(type_error));
}

#[test]
fn a_review_is_decoded_as_a_whole() {
    let field = |field: &str, found: &str, wanted: &str| {
        format!("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}")
    };
    let status = |text: &str| format!(r#"{{"response":{{"uid":"u","status":{text}}}}}"#);
    for (body, want) in [
        ("null".to_owned(), "invalid: webhook response was absent".to_owned()),
        (
            r#"{"request":5,"response":{"uid":"u"}}"#.into(),
            field("AdmissionReview.request", "number", "v1.AdmissionRequest"),
        ),
        (
            r#"{"response":{"uid":3},"request":5}"#.into(),
            field("AdmissionResponse.response.uid", "number", "types.UID"),
        ),
        (
            r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","response":{"patchType":3}}"#.into(),
            field("AdmissionResponse.response.patchType", "number", "v1beta1.PatchType"),
        ),
        (r#"{"apiVersion":"v1","kind":"Status","code":"x"}"#.into(), field("Status.code", "string", "int32")),
        (status(r#"{"code":"x"}"#), field("Status.response.status.code", "string", "int32")),
        (status(r#"{"code":403.0}"#), field("Status.response.status.code", "number 403.0", "int32")),
        (status(r#"{"code":2147483648}"#), field("Status.response.status.code", "number 2147483648", "int32")),
        (
            status(r#"{"details":{"causes":[{"field":1}]}}"#),
            field("StatusCause.response.status.details.causes.field", "number", "string"),
        ),
        (r#"{"response":{"uid":"u","patch":"AA"}}"#.into(), "illegal base64 data at input byte 0".into()),
        (r#"{"response":{"uid":"u","patch":"W10=="}}"#.into(), "illegal base64 data at input byte 4".into()),
        (
            r#"{"response":{"uid":"u","patch":5}}"#.into(),
            field("AdmissionResponse.response.patch", "number", "[]uint8"),
        ),
    ] {
        assert_eq!(text(200, "application/json", &body), want, "{body}");
    }
    // A duplicate field is read twice, and null keeps the value that was read before.
    let twice = |more: &str| {
        let body = format!(
            r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{{"uid":"u","allowed":true,{more}}}}}"#
        );
        read(&answer(200, "application/json", body), ReviewVersion::V1, "u", true).unwrap().allowed
    };
    assert!(twice(r#""allowed":null"#) && !twice(r#""allowed":false"#));
    for version in [ReviewVersion::V1, ReviewVersion::V1Beta1] {
        let wrong = read(&answer(200, "application/json", r#"{"response":{"patch":5}}"#), version, "u", false);
        assert!(matches!(wrong, Err(AnswerError::Undecodable(_))), "{wrong:?}");
    }
}

#[test]
fn http_errors_are_named_by_their_code() {
    let in_status =
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"mm","reason":"Forbidden","code":403}"#;
    assert_eq!(text(403, "application/json", in_status), "mm");
    let json = "an error on the server (\"unknown\") has prevented the request from succeeding";
    assert_eq!(text(500, "application/json", r#"{"a":1}"#), json);
    for (code, want) in [
        (207, "the server responded with the status code 207 but did not return more information"),
        (302, "the server responded with the status code 302 but did not return more information"),
        (400, "the server rejected our request for an unknown reason"),
        (401, "the server has asked for the client to provide credentials"),
        (403, "lab says"),
        (404, "the server could not find the requested resource"),
        (405, "the server does not allow this method on the requested resource"),
        (406, "lab says"),
        (409, "the server reported a conflict"),
        (413, "the server responded with the status code 413 but did not return more information"),
        (415, "lab says"),
        (422, "the server rejected our request due to an error in our request"),
        (429, "the server has received too many requests and has asked us to try again later"),
        (500, "an error on the server (\"lab says\") has prevented the request from succeeding"),
        (503, "the server is currently unable to handle the request"),
        (
            504,
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        (599, "an error on the server (\"lab says\") has prevented the request from succeeding"),
    ] {
        assert_eq!(text(code, "text/plain", "lab says"), want);
    }
}

#[test]
fn patch_and_patch_type_come_together_and_only_from_mutating_hooks() {
    let invalid = |fields: Value, mutating: bool| match read_json(&review(fields), ReviewVersion::V1, mutating) {
        Err(AnswerError::Invalid(why)) => why.to_string(),
        other => panic!("{other:?}"),
    };
    let patch = "W10=";
    assert_eq!(invalid(json!({"patch": patch}), true), "webhook returned response.patch but not response.patchType");
    let only = json!({"patchType": "JSONPatch"});
    assert_eq!(invalid(only.clone(), true), "webhook returned response.patchType but not response.patch");
    let empty = json!({"patch": patch, "patchType": ""});
    assert_eq!(invalid(empty, true), "webhook returned invalid response.patchType of \"\"");
    assert_eq!(invalid(json!({"patch": patch}), false), "validating webhook may not return response.patch");
    assert_eq!(invalid(only, false), "validating webhook may not return response.patchType");
    assert!(read_json(&review(json!({"patch": ""})), ReviewVersion::V1, false).unwrap().allowed);
}

#[test]
fn v1beta1_is_looked_at_less_closely() {
    let loose = json!({"response": {"uid": "other", "allowed": true, "patch": "W10=", "patchType": "Other"}});
    let response = read_json(&loose, ReviewVersion::V1Beta1, true).unwrap();
    assert_eq!((&*response.patch, &*response.patch_type), (&b"[]"[..], "JSONPatch"));
    assert!(read_json(&loose, ReviewVersion::V1Beta1, false).unwrap().patch.is_empty());
}

#[test]
fn any_success_code_and_media_type_will_do() {
    for (code, content_type) in [(200, "text/plain"), (201, "application/json; charset=utf-8"), (206, "")] {
        let answer = answer(code, content_type, review(json!({})).to_string());
        assert!(read(&answer, ReviewVersion::V1, "u", true).unwrap().allowed);
    }
}

#[test]
fn no_answer_panics() {
    let whole =
        review(json!({"patch": "W10=", "patchType": "JSONPatch", "status": {"code": 403, "details": {"causes": []}}}))
            .to_string();
    for end in 0..whole.len() {
        let cut = answer(200, "application/json", &whole.as_bytes()[..end]);
        assert!(read(&cut, ReviewVersion::V1, "u", true).is_err(), "{end}");
    }
    for value in [json!(null), json!(true), json!(-1), json!(1.5), json!("x"), json!([null]), json!({"a": [1]})] {
        for field in ["uid", "allowed", "status", "patch", "patchType", "auditAnnotations", "warnings", "unknown"] {
            let fields = Value::Object([(field.to_owned(), value.clone())].into_iter().collect());
            for version in [ReviewVersion::V1, ReviewVersion::V1Beta1] {
                let _ = read_json(&review(fields.clone()), version, true);
            }
        }
    }
}

#[test]
fn a_refusal_with_a_null_or_out_of_range_status_is_a_refusal() {
    for (status, code) in [
        (json!({"code": 403, "reason": null, "message": null, "details": null, "metadata": null}), 403),
        (json!({"code": null, "details": {"name": null, "causes": [null, {"field": null}]}}), 0),
        (json!({"code": -1, "details": {"retryAfterSeconds": -1}}), 0),
        (json!({"code": 403, "kind": "Foo", "apiVersion": "bar/v2"}), 403),
        (json!({"code": 70000}), u16::MAX),
    ] {
        let refusal = json!({"allowed": false, "status": status});
        let response = read_json(&review(refusal), ReviewVersion::V1, true).unwrap();
        let said = response.status.unwrap();
        assert_eq!(
            (response.allowed, said.code, &*said.kind, &*said.api_version),
            (false, code, "Status", "v1"),
            "{status}"
        );
        let retry_after_seconds =
            status.pointer("/details/retryAfterSeconds").and_then(Value::as_i64).unwrap_or_default();
        assert_eq!(i64::from(said.details.unwrap_or_default().retry_after_seconds), retry_after_seconds, "{status}");
    }
}
