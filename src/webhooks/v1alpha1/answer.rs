//! The answer of a hook: the same review with a status.

use super::review::{API_VERSION, KIND};
use crate::admission::Denial;
use crate::backend::response::{DeclaredType, Undecodable};
use crate::backend::{Answer, response};
use crate::status::Status;
use serde_json::Value;

/// The reason why an answer is no decision.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoDecision {
    /// The server answered with an error.
    #[error(transparent)]
    Refused(Box<Status>),
    /// The server answered without an object, or the status of the refusal is none.
    #[error(transparent)]
    Undecodable(#[from] Undecodable),
    /// The object is of this other kind.
    #[error("expected an answer of {API_VERSION}, Kind={KIND}, got {0}")]
    Kind(String),
    /// The status of the review has another type.
    #[error("status: must be an object")]
    Status,
    /// The decision has another type.
    #[error("status.allowed: must be a boolean")]
    Allowed,
}

/// Reads an answer: whether it allows the request, and if not, its refusal.
///
/// # Errors
/// If the answer is no review: the call failed.
pub(super) fn read(answer: &Answer, hook: &str) -> Result<Result<(), Denial>, NoDecision> {
    response::check(answer).map_err(|status| NoDecision::Refused(Box::new(status)))?;
    let mut review = response::object(answer)?;
    let found = DeclaredType::of(&review);
    if !matches!(found, DeclaredType { api_version: "" | API_VERSION, kind: "" | KIND }) {
        return Err(NoDecision::Kind(found.to_string()));
    }
    let mut status = match review.remove("status") {
        None | Some(Value::Null) => Default::default(),
        Some(Value::Object(status)) => status,
        Some(_) => return Err(NoDecision::Status),
    };
    match status.get("allowed") {
        Some(Value::Bool(true)) => return Ok(Ok(())),
        None | Some(Value::Null | Value::Bool(false)) => {}
        Some(_) => return Err(NoDecision::Allowed),
    }
    let result = status.remove("status").filter(|result| !result.is_null());
    Ok(Err(match result {
        None => Denial::Plain(format!("admission webhook \"{hook}\" denied the request without explanation")),
        Some(result) => complete(response::status(result)?).into(),
    }))
}

/// Sets what `ErrorToAPIStatus` sets; all other fields are the client's answer as they are, also a code of success.
fn complete(mut status: Status) -> Status {
    if status.status.is_empty() {
        status.status = "Failure".into();
    }
    if status.code == 0 {
        match &*status.status {
            "Success" => status.code = 200,
            "Failure" => status.code = 500,
            _ => {}
        }
    }
    // An interim code would end the connection of the client.
    if !(200..600).contains(&status.code) {
        status.code = 500;
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;
    use serde_json::json;

    fn answer(code: u16, content_type: &str, body: &str) -> Answer {
        let status = StatusCode::from_u16(code).unwrap();
        Answer { status, content_type: content_type.into(), retry_after_seconds: None, body: body.to_owned().into() }
    }

    fn verdict(review: Value) -> Result<Result<(), Denial>, NoDecision> {
        read(&answer(200, "application/json", &review.to_string()), "a.lab.io")
    }

    fn refusal(status: Value) -> Denial {
        verdict(json!({"kind": KIND, "apiVersion": API_VERSION, "status": status})).unwrap().unwrap_err()
    }

    #[test]
    fn an_allowed_request_needs_nothing_else() {
        assert!(verdict(json!({"status": {"allowed": true, "status": {"code": 403}}})).unwrap().is_ok());
        assert!(verdict(json!({"spec": {"object": {"x": 1}}, "status": {"allowed": true}})).unwrap().is_ok());
    }

    #[test]
    fn a_refusal_without_a_status_is_unexplained() {
        for status in [json!({"allowed": false}), json!({}), json!({"status": null}), Value::Null] {
            match refusal(status.clone()) {
                Denial::Plain(text) => {
                    assert_eq!(text, "admission webhook \"a.lab.io\" denied the request without explanation");
                }
                other => panic!("{status}: {other:?}"),
            }
        }
        assert!(matches!(verdict(json!({})), Ok(Err(Denial::Plain(_)))));
    }

    #[test]
    fn a_status_is_answered_as_it_is() {
        let details = json!({"name": "n", "kind": "things", "causes": [{"reason": "r", "message": "m", "field": "f"}]});
        for (given, code, status) in [
            (
                json!({"status": "Failure", "message": "no", "reason": "Conflict", "details": details, "code": 409}),
                409,
                "Failure",
            ),
            (json!({"message": "only this"}), 500, "Failure"),
            (json!({"code": 418}), 418, "Failure"),
            (json!({"status": "Success", "code": 200}), 200, "Success"),
            (json!({"status": "Success"}), 200, "Success"),
        ] {
            let Denial::Status(got) = refusal(json!({"allowed": false, "status": given})) else { panic!("{given}") };
            assert_eq!((got.code, &*got.status), (code, status), "{given}");
            let got = serde_json::to_value(*got).unwrap();
            for (field, value) in given.as_object().unwrap() {
                assert_eq!(got.get(field), Some(value), "{given}");
            }
        }
    }

    #[test]
    fn a_code_that_no_whole_response_has_becomes_500() {
        for code in [100, 101, 199, 600] {
            let Denial::Status(got) = refusal(json!({"allowed": false, "status": {"code": code}})) else {
                panic!("{code}")
            };
            assert_eq!(got.code, 500);
        }
    }

    #[test]
    fn a_body_that_is_no_review_is_a_failure() {
        for (code, content_type, body) in [
            (500, "application/json", r#"{"status": {"allowed": false}}"#),
            (200, "text/plain", "sorry"),
            (200, "application/json", ""),
            (200, "application/json", r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure"}"#),
            (
                200,
                "application/json",
                r#"{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "status": {}}"#,
            ),
            (200, "application/json", r#"{"status": {"allowed": "no"}}"#),
            (200, "application/json", r#"{"status": {"status": []}}"#),
            (200, "application/json", r#"{"status": "no"}"#),
            (200, "application/json", "[]"),
        ] {
            assert!(read(&answer(code, content_type, body), "a.lab.io").is_err(), "{body}");
        }
    }
}
