//! A request's body: reads it, determines its media type, and decodes it as the handlers of kube-apiserver do.
//!
//! The errors are those of `handlers/create.go`, `update.go` and `rest.go`, text for text. `body/media_type.rs` reads the
//! `Content-Type`, `body/check.rs` compares the object with the URL, and `body/options.rs` reads the options.

mod media_type;
mod check;
mod options;
mod initializers;
mod room;

pub(crate) use check::{check_name, check_new_name, ensure_namespace};
pub use media_type::{MediaType, MediaTypes, media_type};
pub use options::{OptionsKind, WriteOptions};
pub use room::BodyRoom;
pub(crate) use room::arrive;

use crate::body::{Body, Buffer};
use crate::go_text::go_quote;
use crate::kind::GroupVersionKind;
use crate::object::decode::{self, Decoded};
use crate::object::defaults::Defaulting;
use crate::object::normal::{self, Normal, NormalError};
use crate::object::structural::{self, Structural};
use crate::object::typed::Rest;
use crate::object::{Object, cbor, protobuf, schema, typed};
use crate::processor;
use crate::status::{Cause, Status};
use bytes::Bytes;
use check::{Custom, Sent, check_built_in, check_custom, check_removed, kind_in, sent_kind};
use http_body::Body as _;
use http_body_util::BodyExt;
use serde_json::{Map, Value};
use std::fmt::Display;
use std::future::pending;
use std::time::Duration;

/// The bytes past the limit that are read and discarded: a client that is still sending would not read the answer otherwise
/// (`maxPostHandlerReadBytes`).
const DISCARDED_BYTES: usize = 256 * 1024;
/// The time to wait for discarded bytes.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);

/// The bytes of a body that an error shows.
const SUMMARY_BYTES: usize = 30;

/// Reads and discards the short body of an answer, so that its connection stays open: an HTTP/1.1 connection with unread bytes is closed.
pub(crate) async fn discard(body: Body) {
    if body.size_hint().lower() <= DISCARDED_BYTES as u64 {
        let _whatever_it_is = tokio::time::timeout(DISCARD_TIMEOUT, read(body, 0)).await;
    }
}

/// Reads a whole body, of at most `limit` bytes (`handlers.limitedReadBody`).
///
/// # Errors
/// 413 if the body is longer, without a read if the announced length is far longer; 500 if the body breaks off.
pub(crate) async fn read(body: Body, limit: usize) -> Result<Bytes, Status> {
    read_into(&Buffer::default(), body, limit, |_| true).await
}

/// As [`read`], by way of a buffer, and passes the data to `note` as it arrives. If `note` returns false, the body is given up: the future then
/// frees the data and never resolves, since its caller waits for the same event.
///
/// # Errors
/// As [`read`].
async fn read_into(
    buffer: &Buffer,
    mut body: Body,
    limit: usize,
    mut note: impl FnMut(&Bytes) -> bool,
) -> Result<Bytes, Status> {
    let too_large = || Status::too_large(&format!("limit is {limit}"));
    let bearable = limit.saturating_add(DISCARDED_BYTES);
    if body.size_hint().lower() > bearable as u64 {
        return Err(too_large());
    }
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let data = match frame {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(_) if length > limit => break,
            Err(error) => return Err(Status::plain(error.to_string())),
        };
        length += data.len();
        if length <= limit {
            buffer.push(data.clone(), body.size_hint().lower());
            if !note(&data) {
                buffer.clear();
                return pending().await;
            }
        } else if length <= bearable {
            buffer.clear();
        } else {
            break;
        }
    }
    if length > limit {
        return Err(too_large());
    }
    let pieces = buffer.take();
    if pieces.len() < length {
        // The body was given up after its last data.
        return pending().await;
    }
    // The caller decodes the body next.
    processor::expect(length).await;
    Ok(pieces.into_bytes())
}

/// A client's object, decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedObject {
    /// The object. Without an apiVersion and kind in the body, the object has those of the URL's resource.
    pub object: Object,
    /// The strict decoding errors about duplicate keys, one warning each: `duplicate field "data.a"`; for YAML `line 4: key "a"
    /// already set in map`. In CBOR, duplicate keys are errors of the decoder.
    pub(crate) duplicates: Vec<String>,
    /// The other strict decoding errors, in the order of the text: `unknown field "spec.foo"`. For built-in kinds in JSON, the
    /// errors about duplicates are here too.
    pub(crate) unknown: Vec<String>,
    /// Whether every reader decodes exactly this object from the body's bytes, so that the bytes can be forwarded. Always false
    /// for YAML, which two parsers read in two ways, and for CBOR, whose strings need not be UTF-8.
    pub(crate) is_verbatim: bool,
    /// The unknown fields of the body.
    pub(crate) unseen: Unseen,
}

/// The fields of a body that the built-in kind does not have here.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Unseen {
    /// No fields, or no fields to keep.
    #[default]
    Nothing,
    /// Unknown fields with names.
    Fields(Rest),
    /// Unknown fields in protobuf, which have numbers and no names: only the whole body carries them.
    Bytes,
}

impl DecodedObject {
    /// Returns the text that `fieldValidation=Strict` puts after `strict decoding error: `; `None` without errors.
    pub(crate) fn strict_errors(&self, media_type: MediaType) -> Option<String> {
        let duplicates = match (self.duplicates.is_empty(), media_type) {
            (true, _) => None,
            (false, MediaType::Yaml) => Some(format!("yaml: unmarshal errors:\n  {}", self.duplicates.join("\n  "))),
            (false, _) => Some(self.duplicates.join(", ")),
        };
        let unknown = (!self.unknown.is_empty()).then(|| self.unknown.join(", "));
        match (duplicates, unknown) {
            (Some(duplicates), Some(unknown)) => Some(format!("{duplicates}, {unknown}")),
            (duplicates, unknown) => duplicates.or(unknown),
        }
    }

    /// Returns the strict decoding errors, one by one.
    pub(crate) fn strict_warnings(&self) -> impl Iterator<Item = &String> {
        self.duplicates.iter().chain(&self.unknown)
    }
}

/// The treatment of a decoded object.
#[derive(Clone, Copy)]
pub enum BodyForm<'a> {
    /// The object stays as it was sent.
    AsSent,
    /// The object is pruned and gets defaults, as in kube-apiserver's decoders; a custom resource by this schema, if there is
    /// one.
    Normal(Option<&'a Structural>),
    /// As [`BodyForm::Normal`], but unknown fields of a built-in kind are kept, and cause no strict decoding error.
    Carrying(Option<&'a Structural>),
}

/// The error of a body with both duplicate and unknown fields: unknown fields cannot be kept then.
const TWICE: &str = "it has fields that are there twice, and fields that are not known here; send each of them once";

/// The treatment of a kind that has no decoder of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OtherKind {
    /// The object needs an apiVersion and a kind, as a custom resource.
    Custom,
    /// The kind was built into earlier releases of kube-apiserver: a missing apiVersion or kind is that of the URL's resource.
    Removed,
}

/// Decodes the body of a create or update. `expected` is the kind of the URL's resource or subresource. A kind that is not
/// built-in is decoded like a custom resource.
///
/// # Errors
/// 400 with kube-apiserver's text if the body is not an object of this kind; 415 for a custom resource in protobuf.
pub fn decode_object(
    bytes: &[u8],
    media_type: MediaType,
    expected: &GroupVersionKind,
    form: BodyForm<'_>,
) -> Result<DecodedObject, Status> {
    decode_object_of(bytes, media_type, expected, form, OtherKind::Custom, Defaulting::default())
}

/// As [`decode_object`], of a kind that may be a removed one, with these defaults.
///
/// # Errors
/// As [`decode_object`].
pub(crate) fn decode_object_of(
    bytes: &[u8],
    media_type: MediaType,
    expected: &GroupVersionKind,
    form: BodyForm<'_>,
    other: OtherKind,
    defaulting: Defaulting,
) -> Result<DecodedObject, Status> {
    let unrecognized = |why: &dyn Display| {
        let (kind, summary) = (&expected.kind, summary(bytes));
        Status::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why} ({summary})"))
    };
    let decoded = match media_type {
        MediaType::Json => decode_json(bytes),
        MediaType::Yaml => decode::yaml(bytes).map_err(Malformed::of),
        MediaType::Protobuf => return decode_protobuf(bytes, expected, form, defaulting, unrecognized),
        MediaType::Cbor => return decode_cbor(bytes, expected, form, defaulting, unrecognized),
    };
    let Decoded { value, duplicates } = decoded.map_err(|why| unrecognized(&why))?;
    let sent = sent_kind(&value).map_err(|why| unrecognized(&why))?;
    let mut fields = match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let has_duplicates = !duplicates.is_empty();
    let mut texts = match media_type {
        MediaType::Yaml => duplicates.clone(),
        _ => duplicates.iter().map(|path| format!("duplicate field {}", go_quote(path))).collect(),
    };
    let mut unseen = Unseen::Nothing;
    let mut normal = match typed::is_known(expected) {
        true => {
            check_built_in(bytes, &sent, expected).map_err(|misfit| misfit.into_status(expected))?;
            if let BodyForm::Carrying(_) = form {
                unseen = Rest::take(expected, &mut fields).map_or(Unseen::Nothing, Unseen::Fields);
            }
            let handled = |why: &dyn Display| cannot_be_handled(&expected.kind, &expected.version, expected, why);
            match (form, media_type) {
                (BodyForm::AsSent, _) => as_sent(expected, fields),
                (BodyForm::Normal(_) | BodyForm::Carrying(_), MediaType::Json) => {
                    texts.clear();
                    let decoded = Decoded { value: Value::Object(fields), duplicates };
                    known(normal::built_in_json(defaulting, expected, decoded, bytes))
                }
                (BodyForm::Normal(_) | BodyForm::Carrying(_), _) => {
                    known(normal::built_in_by(defaulting, expected, Value::Object(fields)))
                }
            }
            .map_err(|why| handled(&why))?
        }
        false => {
            match other {
                OtherKind::Custom => {
                    check_custom(bytes, &sent, expected, &fields).map_err(|problem| match problem {
                        Custom::Unrecognized(why) => unrecognized(&why),
                        Custom::Refused(status) => status,
                    })?;
                }
                OtherKind::Removed => check_removed(bytes, &sent, expected, &fields)?,
            }
            let handled = |why: &dyn Display| cannot_be_handled(&sent.kind, &sent.version, expected, why);
            by_schema(form, fields).map_err(|why| handled(&why))?
        }
    };
    if unseen != Unseen::Nothing {
        if has_duplicates {
            return Err(Status::not_implemented(TWICE));
        }
        // The errors come from the text, which was decoded again with the unknown fields.
        normal.unknown.clear();
    }
    let Normal { mut object, unknown } = normal;
    name_kind(&mut object, expected);
    // The next reader could take the other one of two duplicate keys, and would warn about unknown fields once more.
    let is_verbatim = media_type == MediaType::Json && !has_duplicates && unknown.is_empty();
    Ok(DecodedObject { object, duplicates: texts, unknown, is_verbatim, unseen })
}

/// The reason why a body is no object of its kind, with kube-apiserver's text.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Malformed(String);

impl Malformed {
    fn of(why: impl Display) -> Self {
        Self(why.to_string())
    }
}

/// Returns a built-in object as it was sent, if its fields have the types of the kind.
fn as_sent(kind: &GroupVersionKind, fields: Map<String, Value>) -> Result<Normal, Malformed> {
    match typed::decode(kind, Value::Object(fields.clone())) {
        Some(Err(why)) => Err(Malformed::of(why)),
        _ => Ok(unchanged(fields)),
    }
}

/// Decodes a custom resource, with its schema if there is one.
fn by_schema(form: BodyForm<'_>, fields: Map<String, Value>) -> Result<Normal, Malformed> {
    match form {
        BodyForm::Normal(Some(schema)) | BodyForm::Carrying(Some(schema)) => {
            schema.normalize(Value::Object(fields)).map_err(Malformed::of)
        }
        _ => Ok(unchanged(fields)),
    }
}

fn unchanged(fields: Map<String, Value>) -> Normal {
    Normal { object: Object::from_value(Value::Object(fields)).unwrap_or_default(), unknown: Vec::new() }
}

/// Every built-in kind has a decoder.
fn known(normal: Option<Result<Normal, NormalError>>) -> Result<Normal, Malformed> {
    normal.ok_or_else(|| Malformed::of("no decoder knows this kind"))?.map_err(Malformed::of)
}

/// Sets apiVersion and kind to those of the URL's resource.
fn name_kind(object: &mut Object, kind: &GroupVersionKind) {
    if !kind.matches_type(object.api_version(), object.kind()) {
        let fields = object.fields_mut();
        fields.insert("apiVersion".into(), kind.api_version().into());
        fields.insert("kind".into(), kind.kind.clone().into());
    }
}

fn decode_json(bytes: &[u8]) -> Result<Decoded, Malformed> {
    decode::json(bytes).map_err(|why| Malformed(format!("couldn't get version/kind; json parse error: {why}")))
}

/// `protobuf.Serializer.Decode`: a missing apiVersion or kind is the expected one.
fn decode_protobuf(
    bytes: &[u8],
    expected: &GroupVersionKind,
    form: BodyForm<'_>,
    defaulting: Defaulting,
    unrecognized: impl Fn(&dyn Display) -> Status,
) -> Result<DecodedObject, Status> {
    if schema::of(expected).is_none() {
        return Err(Status::unsupported_media_type(&media_type::ACCEPTED_OF_CUSTOM));
    }
    let envelope = protobuf::open(bytes).map_err(|why| unrecognized(&why))?;
    let sent = Sent::of_protobuf(&envelope, expected);
    check_built_in(bytes, &sent, expected).map_err(|misfit| misfit.into_status(expected))?;
    let message = envelope.object(&sent.group, &sent.version, &sent.kind);
    let handled = |why: &dyn Display| cannot_be_handled(&sent.kind, &sent.version, expected, why);
    let protobuf::Message { fields, is_complete, has_unknown_fields } = message.map_err(|why| handled(&why))?;
    let Normal { mut object, .. } = match form {
        BodyForm::AsSent => unchanged(fields),
        BodyForm::Normal(_) | BodyForm::Carrying(_) => {
            known(normal::built_in_by(defaulting, expected, Value::Object(fields))).map_err(|why| handled(&why))?
        }
    };
    name_kind(&mut object, expected);
    let is_carried = has_unknown_fields && matches!(form, BodyForm::Carrying(_));
    let unseen = if is_carried { Unseen::Bytes } else { Unseen::Nothing };
    let is_verbatim = is_complete && (is_carried || !has_unknown_fields);
    let (duplicates, unknown) = Default::default();
    Ok(DecodedObject { object, duplicates, unknown, is_verbatim, unseen })
}

/// `cbor.serializer.Decode`: decodes a built-in kind into its type; a missing apiVersion or kind is the expected one.
fn decode_cbor(
    bytes: &[u8],
    expected: &GroupVersionKind,
    form: BodyForm<'_>,
    defaulting: Defaulting,
    unrecognized: impl Fn(&dyn Display) -> Status,
) -> Result<DecodedObject, Status> {
    let mut unseen = Unseen::Nothing;
    let Normal { mut object, unknown } = match typed::is_known(expected) {
        true => {
            let sent = Sent::of_cbor(bytes, expected).map_err(|why| unrecognized(&why))?;
            // Only the error about a missing version shows the body.
            let shown = if sent.version.is_empty() { cbor::diagnose(bytes) } else { String::new() };
            check_built_in(shown.as_bytes(), &sent, expected).map_err(|misfit| misfit.into_status(expected))?;
            let handled = |why: &dyn Display| cannot_be_handled(&sent.kind, &sent.version, expected, why);
            match form {
                // The unknown fields are read as in JSON.
                BodyForm::Carrying(_) => {
                    let mut fields = cbor::decode(bytes).map_err(|why| handled(&why))?.unwrap_or_default();
                    unseen = Rest::take(expected, &mut fields).map_or(Unseen::Nothing, Unseen::Fields);
                    let normal = known(normal::built_in_by(defaulting, expected, Value::Object(fields)))
                        .map_err(|why| handled(&why))?;
                    match unseen {
                        Unseen::Nothing => normal,
                        _ => Normal { unknown: Vec::new(), ..normal },
                    }
                }
                BodyForm::Normal(_) => {
                    known(normal::built_in_cbor(defaulting, expected, bytes)).map_err(|why| handled(&why))?
                }
                BodyForm::AsSent => {
                    let fields = cbor::decode(bytes).map_err(|why| handled(&why))?.unwrap_or_default();
                    as_sent(expected, fields).map_err(|why| handled(&why))?
                }
            }
        }
        false => {
            let fields = cbor::decode(bytes).map_err(|why| match typed::type_meta(bytes) {
                Err(why) => unrecognized(&why),
                Ok(meta) => {
                    let sent = Sent::of_type_meta(meta, expected);
                    cannot_be_handled(&sent.kind, &sent.version, expected, &why)
                }
            })?;
            custom_from_cbor(bytes, fields.unwrap_or_default(), expected, form, unrecognized)?
        }
    };
    name_kind(&mut object, expected);
    Ok(DecodedObject { object, duplicates: Vec::new(), unknown, is_verbatim: false, unseen })
}

/// Decodes a custom resource, which must have an apiVersion and a kind. Fields that are not in the schema cause no warning
/// (`unstructuredNegotiatedSerializer.DecoderToVersion`).
fn custom_from_cbor(
    bytes: &[u8],
    fields: Map<String, Value>,
    expected: &GroupVersionKind,
    form: BodyForm<'_>,
    unrecognized: impl Fn(&dyn Display) -> Status,
) -> Result<Normal, Status> {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if kind.is_empty() || api_version.matches('/').count() > 1 {
        return Err(unrecognized(&format!("Object 'Kind' is missing in '{}'", cbor::diagnose(bytes))));
    }
    if api_version.is_empty() || api_version.ends_with('/') {
        let why = format!("Object 'apiVersion' is missing in '{}'", cbor::diagnose(bytes));
        return Err(cannot_be_handled(kind, "", expected, &why));
    }
    let sent = kind_in(&fields).map_err(|why| unrecognized(&why))?;
    check_custom(b"", &sent, expected, &fields).map_err(|problem| match problem {
        Custom::Unrecognized(why) => unrecognized(&why),
        Custom::Refused(status) => status,
    })?;
    let handled = |why: &dyn Display| cannot_be_handled(&sent.kind, &sent.version, expected, why);
    Ok(Normal { unknown: Vec::new(), ..by_schema(form, fields).map_err(|why| handled(&why))? })
}

fn cannot_be_handled(kind: &str, version: &str, expected: &GroupVersionKind, why: &dyn Display) -> Status {
    let version = go_quote(version);
    Status::bad_request(format!("{kind} in version {version} cannot be handled as a {}: {why}", expected.kind))
}

/// The reason why a patched object is not an object of its kind any more.
pub(crate) enum InvalidOutcome {
    /// The object cannot be decoded: the patch is invalid.
    Invalid(String),
    /// The object is refused with this Status.
    Refused(Status),
}

/// Decodes the outcome of a patch (`jsonPatcher.applyPatchToCurrentObject`).
///
/// # Errors
/// If apiVersion or kind changed, or a field has another type.
pub(crate) fn decode_patched(
    patched: Value,
    expected: &GroupVersionKind,
    schema: Option<&Structural>,
    defaulting: Defaulting,
) -> Result<Normal, InvalidOutcome> {
    let sent = sent_kind(&patched).map_err(|Malformed(why)| InvalidOutcome::Invalid(why))?;
    let Value::Object(fields) = patched else {
        return Err(InvalidOutcome::Invalid("the result of the patch is not an object".into()));
    };
    let decoded = match typed::is_known(expected) {
        true => {
            check_built_in(b"", &sent, expected).map_err(|misfit| InvalidOutcome::Invalid(misfit.into_text()))?;
            known(normal::built_in_by(defaulting, expected, Value::Object(fields)))
        }
        false => {
            if let Some(why) = structural::metadata_error(&fields) {
                return Err(InvalidOutcome::Invalid(why));
            }
            check_custom(b"", &sent, expected, &fields).map_err(|problem| match problem {
                Custom::Unrecognized(why) => InvalidOutcome::Invalid(why),
                Custom::Refused(status) => InvalidOutcome::Refused(status),
            })?;
            by_schema(BodyForm::Normal(schema), fields)
        }
    };
    let mut normal = decoded.map_err(|Malformed(why)| InvalidOutcome::Invalid(why))?;
    name_kind(&mut normal.object, expected);
    Ok(normal)
}

/// Returns the 422 for a patch that cannot be decoded, or whose outcome (`shown`) cannot.
pub(crate) fn invalid_patch(shown: &str, why: &str) -> Status {
    let why = format!("Invalid value: {}: {why}", go_quote(shown));
    let text = format!("patch: {why}");
    let cause = Cause { reason: "FieldValueInvalid".into(), message: why, field: "patch".into() };
    Status::invalid("", "", "", &text, vec![cause])
}

/// `handlers.summarizeData`.
fn summary(bytes: &[u8]) -> String {
    let shown = bytes.get(..SUMMARY_BYTES).unwrap_or(bytes);
    let more = if shown.len() < bytes.len() { " ..." } else { "" };
    match bytes.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => shown.iter().map(|byte| format!("{byte:02x}")).chain([more.to_owned()]).collect(),
    }
}

#[cfg(test)]
mod tests;
