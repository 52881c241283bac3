//! The content of a webhook's HTTP answer: client-go's decoding, then `request.VerifyAdmissionResponse`.

use super::hook::ReviewVersion;
use crate::backend::response::{DeclaredType, Undecodable};
use crate::backend::{Answer, response};
use crate::go_text::go_quote;
use crate::status::Status;
use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};
use serde_json::{Map, Value};

/// The decision of a webhook.
#[derive(Debug, Default)]
pub(super) struct Response {
    /// Whether the request may pass.
    pub(crate) allowed: bool,
    /// The reason of a rejection, or a further message.
    pub(crate) status: Option<Status>,
    /// The patch, undecoded.
    pub(crate) patch: Vec<u8>,
    /// The value of `patchType`.
    pub(crate) patch_type: String,
    pub(crate) audit_annotations: Vec<(String, String)>,
    pub(crate) warnings: Vec<String>,
}

/// The reason why an answer is no decision.
#[derive(Debug, thiserror::Error)]
pub(super) enum AnswerError {
    /// The server answered with an error.
    #[error(transparent)]
    Refused(Box<Status>),
    /// The server answered without a review.
    #[error(transparent)]
    Undecodable(#[from] Undecodable),
    /// The patch is no base64.
    #[error(transparent)]
    Patch(#[from] DecodeError),
    /// The review breaks a rule.
    #[error(transparent)]
    Invalid(#[from] InvalidReview),
}

/// The rule that a review breaks (`VerifyAdmissionResponse`).
#[derive(Debug, thiserror::Error)]
pub(super) enum InvalidReview {
    /// The review has no response.
    #[error("webhook response was absent")]
    NoResponse,
    /// The response is for another request.
    #[error("expected response.uid={}, got {}", go_quote(wanted), go_quote(got))]
    Uid { wanted: String, got: String },
    /// The review does not name its kind.
    #[error("expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {0}")]
    Kind(String),
    /// The patch has no type.
    #[error("webhook returned response.patch but not response.patchType")]
    NoPatchType,
    /// There is a type, but no patch.
    #[error("webhook returned response.patchType but not response.patch")]
    NoPatch,
    /// The type of the patch is empty.
    #[error("webhook returned invalid response.patchType of \"\"")]
    EmptyPatchType,
    /// Only mutating webhooks may return a patch.
    #[error("validating webhook may not return response.patch")]
    ForbiddenPatch,
    /// Only mutating webhooks may return the type of a patch.
    #[error("validating webhook may not return response.patchType")]
    ForbiddenPatchType,
}

impl AnswerError {
    /// The code for metrics: of the server's error, or of a Go error that is no Status (`error calling webhook`).
    pub(super) fn code(&self) -> u16 {
        if let Self::Refused(status) = self { status.code } else { 503 }
    }
}

const KIND: &str = "AdmissionReview";

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
    response::check(answer).map_err(|status| AnswerError::Refused(Box::new(status)))?;
    let known = [ReviewVersion::V1.api_version(), ReviewVersion::V1Beta1.api_version()];
    let mut review = response::review(answer, version.api_version(), KIND, &known)?;
    let Some(Value::Object(fields)) = review.remove("response") else {
        return Err(InvalidReview::NoResponse.into());
    };
    let parsed = Fields::read(fields)?;
    match version {
        ReviewVersion::V1 => Ok(parsed.verify_v1(uid, DeclaredType::of(&review), mutating)?),
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
    fn read(fields: Map<String, Value>) -> Result<Self, AnswerError> {
        let mut read = Self::default();
        let response = &mut read.response;
        for (name, value) in fields {
            match (&*name, value) {
                ("uid", Value::String(uid)) => read.uid = uid,
                ("allowed", value) => response.allowed = value == true,
                ("status", status) => response.status = Some(response::typed_status(status)?),
                ("patch", Value::String(text)) => response.patch = STANDARD.decode(text)?,
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
    fn verify_v1(self, uid: &str, found: DeclaredType<'_>, mutating: bool) -> Result<Response, InvalidReview> {
        let Self { uid: got, patch_type, mut response } = self;
        if got != uid {
            return Err(InvalidReview::Uid { wanted: uid.to_owned(), got });
        }
        if found != (DeclaredType { api_version: ReviewVersion::V1.api_version(), kind: KIND }) {
            return Err(InvalidReview::Kind(found.to_string()));
        }
        match (mutating, response.patch.is_empty(), patch_type) {
            (true, false, None) => Err(InvalidReview::NoPatchType),
            (true, true, Some(_)) => Err(InvalidReview::NoPatch),
            (true, _, Some(kind)) if kind.is_empty() => Err(InvalidReview::EmptyPatchType),
            (false, false, _) => Err(InvalidReview::ForbiddenPatch),
            (false, true, Some(_)) => Err(InvalidReview::ForbiddenPatchType),
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
