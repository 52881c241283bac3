//! The content of a webhook's HTTP answer: client-go's decoding, then `request.VerifyAdmissionResponse`.

use super::hook::ReviewVersion;
use crate::backend::{Answer, response};
use crate::go_text::go_quote;
use crate::status::Status;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// The decision of a webhook.
#[derive(Debug, Default)]
pub(super) struct Response {
    /// Whether the request may pass.
    pub allowed: bool,
    /// The reason of a rejection, or a further message.
    pub status: Option<Status>,
    /// The patch, undecoded.
    pub patch: Vec<u8>,
    /// The value of `patchType`.
    pub patch_type: String,
    /// The audit annotations.
    pub audit_annotations: Vec<(String, String)>,
    /// The warnings.
    pub warnings: Vec<String>,
}

/// The reason why an answer is no decision.
#[derive(Debug, PartialEq)]
pub(super) enum AnswerError {
    /// The server answered with an error, or without a review; the code is for metrics.
    Call(String, u16),
    /// The review breaks a rule.
    Invalid(String),
}

const KIND: &str = "AdmissionReview";
/// The code of a Go error that is no Status (`error calling webhook`).
const UNAVAILABLE: u16 = 503;

/// Reads and verifies an answer.
///
/// # Errors
/// If the answer is not a valid review.
pub(super) fn read(
    answer: &Answer,
    version: ReviewVersion,
    uid: &str,
    mutating: bool,
) -> Result<Response, AnswerError> {
    let call = |text: String| AnswerError::Call(text, UNAVAILABLE);
    response::check(answer).map_err(|status| AnswerError::Call(status.message, status.code))?;
    let known = [ReviewVersion::V1.api_version(), ReviewVersion::V1Beta1.api_version()];
    let mut review = response::review(answer, version.api_version(), KIND, &known).map_err(call)?;
    let Some(Value::Object(fields)) = review.remove("response") else {
        return Err(AnswerError::Invalid("webhook response was absent".into()));
    };
    let parsed = Fields::read(fields).map_err(call)?;
    match version {
        ReviewVersion::V1 => {
            parsed.verify_v1(uid, response::said_type(&review), mutating).map_err(AnswerError::Invalid)
        }
        ReviewVersion::V1Beta1 => Ok(parsed.into_v1beta1(mutating)),
    }
}

/// The fields of a response, as they are in the JSON.
#[derive(Default)]
struct Fields {
    uid: String,
    patch_type: Option<String>,
    response: Response,
}

impl Fields {
    /// Reads decoded fields: each has its type already.
    fn read(fields: Map<String, Value>) -> Result<Self, String> {
        let mut read = Self::default();
        let response = &mut read.response;
        for (name, value) in fields {
            match (&*name, value) {
                ("uid", Value::String(uid)) => read.uid = uid,
                ("allowed", value) => response.allowed = value == true,
                ("status", status) => response.status = Some(response::typed_status(status)?),
                ("patch", Value::String(text)) => {
                    response.patch = STANDARD.decode(text).map_err(|error| error.to_string())?;
                }
                ("patchType", Value::String(patch_type)) => read.patch_type = Some(patch_type),
                ("auditAnnotations", Value::Object(pairs)) => {
                    response.audit_annotations = pairs
                        .into_iter()
                        .filter_map(|(key, value)| match value {
                            Value::String(value) => Some((key, value)),
                            _ => None,
                        })
                        .collect();
                }
                ("warnings", Value::Array(items)) => {
                    response.warnings = items
                        .into_iter()
                        .filter_map(|item| match item {
                            Value::String(item) => Some(item),
                            _ => None,
                        })
                        .collect();
                }
                _ => {}
            }
        }
        Ok(read)
    }

    /// A v1 answer must repeat the uid and name its kind; patch and patch type come together, and only from a mutating hook.
    fn verify_v1(self, uid: &str, said: (&str, &str), mutating: bool) -> Result<Response, String> {
        let Self { uid: got, patch_type, mut response } = self;
        if got != uid {
            return Err(format!("expected response.uid={}, got {}", go_quote(uid), go_quote(&got)));
        }
        if said != (ReviewVersion::V1.api_version(), KIND) {
            let got = response::kind_text(said);
            return Err(format!("expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {got}"));
        }
        match (mutating, response.patch.is_empty(), patch_type) {
            (true, false, None) => Err("webhook returned response.patch but not response.patchType".into()),
            (true, true, Some(_)) => Err("webhook returned response.patchType but not response.patch".into()),
            (true, _, Some(kind)) if kind.is_empty() => {
                Err("webhook returned invalid response.patchType of \"\"".into())
            }
            (false, false, _) => Err("validating webhook may not return response.patch".into()),
            (false, true, Some(_)) => Err("validating webhook may not return response.patchType".into()),
            (_, _, patch_type) => {
                response.patch_type = patch_type.unwrap_or_default();
                Ok(response)
            }
        }
    }

    /// kube-apiserver ignores uid, kind and patch type of a v1beta1 answer.
    fn into_v1beta1(self, mutating: bool) -> Response {
        let mut response = self.response;
        if mutating {
            response.patch_type = "JSONPatch".into();
        } else {
            response.patch.clear();
        }
        response
    }
}
