//! What a webhook's HTTP answer says: client-go's decoding, then `request.VerifyAdmissionResponse`.

use super::client::{Answer, response};
use super::hook::ReviewVersion;
use crate::object::decode::{go_quote, go_type};
use crate::object::split_api_version;
use crate::status::Status;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// What a webhook decided.
#[derive(Debug, Default)]
pub struct Response {
    /// Whether the request may pass.
    pub allowed: bool,
    /// Why not, or what else it says.
    pub status: Option<Status>,
    /// Its patch, undecoded.
    pub patch: Vec<u8>,
    /// What kind of patch it says that is.
    pub patch_type: String,
    /// Its audit annotations.
    pub audit_annotations: Vec<(String, String)>,
    /// Its warnings.
    pub warnings: Vec<String>,
}

/// Why an answer is no decision.
#[derive(Debug, PartialEq)]
pub enum AnswerError {
    /// The server answered with an error, or with something that is no review; the code is for metrics.
    Call(String, u16),
    /// The review breaks a rule.
    Invalid(String),
}

/// A Go error that is no Status counts as this one (`error calling webhook`).
const UNAVAILABLE: u16 = 503;

/// Reads and verifies an answer.
///
/// # Errors
/// When it is no valid review.
pub fn read(answer: &Answer, version: ReviewVersion, uid: &str, mutating: bool) -> Result<Response, AnswerError> {
    let call = |text: String| AnswerError::Call(text, UNAVAILABLE);
    response::check(answer).map_err(|status| AnswerError::Call(status.message, status.code))?;
    let mut review = response::object(answer).map_err(call)?;
    let fields = review.remove("response");
    let (api_version, kind) = response::type_of(&review).map_err(call)?;
    let known = [ReviewVersion::V1.api_version(), ReviewVersion::V1Beta1.api_version()];
    response::check_type(&review, version.api_version(), "AdmissionReview", &known).map_err(call)?;
    let fields = match fields {
        None | Some(Value::Null) => return Err(AnswerError::Invalid("webhook response was absent".into())),
        Some(Value::Object(fields)) => fields,
        Some(other) => {
            return Err(call(wrong_type(
                &other,
                "AdmissionReview.response",
                &format!("{}.AdmissionResponse", version.short()),
            )));
        }
    };
    let parsed = Fields::read(fields).map_err(call)?;
    match version {
        ReviewVersion::V1 => parsed.verify_v1(uid, api_version, kind, mutating).map_err(AnswerError::Invalid),
        ReviewVersion::V1Beta1 => Ok(parsed.into_v1beta1(mutating)),
    }
}

fn wrong_type(value: &Value, field: &str, wanted: &str) -> String {
    format!("json: cannot unmarshal {} into Go struct field {field} of type {wanted}", go_type(value))
}

impl ReviewVersion {
    fn short(self) -> &'static str {
        split_api_version(self.api_version()).1
    }
}

/// The fields of a response, as they stand there.
#[derive(Default)]
struct Fields {
    uid: String,
    patch_type: Option<String>,
    response: Response,
}

impl Fields {
    fn read(fields: Map<String, Value>) -> Result<Self, String> {
        let mut read = Self::default();
        for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_null()) {
            let wrong =
                |value: &Value, wanted: &str| wrong_type(value, &format!("AdmissionResponse.response.{name}"), wanted);
            let text = |value: Value, wanted: &str| match value {
                Value::String(text) => Ok(text),
                Value::Null => Ok(String::new()),
                other => Err(wrong(&other, wanted)),
            };
            let response = &mut read.response;
            match &*name {
                "uid" => read.uid = text(value, "types.UID")?,
                "allowed" => response.allowed = value.as_bool().ok_or_else(|| wrong(&value, "bool"))?,
                "status" => {
                    let Value::Object(_) = value else { return Err(wrong(&value, "v1.Status")) };
                    response.status = Some(response::status(value)?);
                }
                "patch" => response.patch = base64_bytes(&value, &wrong)?,
                "patchType" => read.patch_type = Some(text(value, "v1.PatchType")?),
                "auditAnnotations" => {
                    let Value::Object(pairs) = value else { return Err(wrong(&value, "map[string]string")) };
                    for (key, value) in pairs {
                        response.audit_annotations.push((key, text(value, "string")?));
                    }
                }
                "warnings" => {
                    let Value::Array(items) = value else { return Err(wrong(&value, "[]string")) };
                    for item in items {
                        response.warnings.push(text(item, "string")?);
                    }
                }
                _ => {}
            }
        }
        Ok(read)
    }

    /// A v1 answer must repeat the uid and say what it is; patch and patch type come together, and only from a mutating hook.
    fn verify_v1(self, uid: &str, api_version: &str, kind: &str, mutating: bool) -> Result<Response, String> {
        let Self { uid: got, patch_type, mut response } = self;
        if got != uid {
            return Err(format!("expected response.uid={}, got {}", go_quote(uid), go_quote(&got)));
        }
        if (api_version, kind) != (ReviewVersion::V1.api_version(), "AdmissionReview") {
            let got = response::kind_text(api_version, kind);
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

    /// In v1beta1 neither uid nor kind nor patch type was ever looked at.
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

/// A `[]byte`: base64 text, or a list of numbers.
fn base64_bytes(value: &Value, wrong: &dyn Fn(&Value, &str) -> String) -> Result<Vec<u8>, String> {
    match value {
        Value::String(text) => {
            let is_line = |byte: &u8| matches!(byte, b'\r' | b'\n');
            let packed: Cow<'_, [u8]> = match text.as_bytes() {
                bytes if bytes.iter().any(is_line) => bytes.iter().copied().filter(|byte| !is_line(byte)).collect(),
                bytes => bytes.into(),
            };
            STANDARD.decode(&packed).map_err(|error| {
                let at = match error {
                    base64::DecodeError::InvalidByte(at, _) => at,
                    _ => packed.len(),
                };
                format!("illegal base64 data at input byte {at}")
            })
        }
        Value::Array(items) => {
            let byte = |item: &Value| {
                item.as_u64().and_then(|number| u8::try_from(number).ok()).ok_or_else(|| wrong(item, "uint8"))
            };
            items.iter().map(byte).collect()
        }
        other => Err(wrong(other, "[]uint8")),
    }
}
