//! The media type of a body: the `Content-Type` of a create or update.

use crate::status::Status;

/// The highest number of parameters of a media type; clients need only one or two.
const MAX_PARAMETERS: usize = 16;

/// The encoding of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MediaType {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
    /// `application/cbor`.
    Cbor,
}

impl MediaType {
    /// Returns the value of a `Content-Type` header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
            Self::Cbor => "application/cbor",
        }
    }
}

/// The media types of bodies and answers, in kube-apiserver's order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaTypes {
    /// Whether CBOR is one of them (`CBORServingAndStorage`).
    pub has_cbor: bool,
}

impl MediaTypes {
    /// Returns the media types.
    pub fn all(self) -> &'static [MediaType] {
        const ALL: [MediaType; 4] = [MediaType::Json, MediaType::Yaml, MediaType::Protobuf, MediaType::Cbor];
        let [before @ .., _cbor] = &ALL;
        if self.has_cbor { &ALL } else { before }
    }

    /// Returns the names of the media types.
    pub fn names(self) -> &'static [&'static str] {
        const NAMES: [&str; 4] = [
            MediaType::Json.as_str(),
            MediaType::Yaml.as_str(),
            MediaType::Protobuf.as_str(),
            MediaType::Cbor.as_str(),
        ];
        let [before @ .., _cbor] = &NAMES;
        if self.has_cbor { &NAMES } else { before }
    }
}

/// The media types of custom resources besides CBOR.
pub(super) const ACCEPTED_OF_CUSTOM: [&str; 2] = ["application/json", "application/yaml"];

/// Returns the media type in a `Content-Type` header; JSON without a header (`negotiation.NegotiateInputSerializer`).
///
/// # Errors
/// 415 for a media type that kube-apiserver does not read either.
pub fn media_type(content_type: Option<&str>, known: MediaTypes) -> Result<MediaType, Status> {
    let unsupported = || Status::unsupported_media_type(known.names());
    let content_type = content_type.unwrap_or_default();
    if content_type.is_empty() {
        return Ok(MediaType::Json);
    }
    let (media_type, parameters) = match content_type.split_once(';') {
        Some((media_type, parameters)) => (media_type, Some(parameters)),
        None => (content_type, None),
    };
    if !parameters.is_none_or(are_parameters) {
        return Err(unsupported());
    }
    match media_type.trim().to_ascii_lowercase().as_str() {
        "application/json" => Ok(MediaType::Json),
        "application/yaml" => Ok(MediaType::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(MediaType::Protobuf),
        "application/cbor" if known.has_cbor => Ok(MediaType::Cbor),
        _ => Err(unsupported()),
    }
}

/// Whether the text is `name=value` pairs with semicolons between, and one more at the end (Go's `mime.ParseMediaType`).
fn are_parameters(text: &str) -> bool {
    let is_token = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&byte))
    };
    let mut seen: Vec<(String, &str)> = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let Some((name, after)) = rest.split_once('=') else { return false };
        let name = name.trim().to_ascii_lowercase();
        let length = match after.strip_prefix('"') {
            Some(quoted) => match end_of_quoted(quoted) {
                Some(end) => end + 2,
                None => return false,
            },
            None => after.find([';', ' ', '\t']).unwrap_or(after.len()),
        };
        let (value, after) = after.split_at(length);
        if !is_token(&name) || !value.starts_with('"') && !is_token(value) {
            return false;
        }
        // A repeated parameter must have the same value.
        match seen.iter().find(|(other, _)| *other == name) {
            Some((_, other)) if other.trim_matches('"') != value.trim_matches('"') => return false,
            Some(_) => {}
            None if seen.len() == MAX_PARAMETERS => return false,
            None => seen.push((name, value)),
        }
        let after = after.trim_start();
        rest = match after.strip_prefix(';') {
            Some(after) => after.trim_start(),
            None if after.is_empty() => "",
            None => return false,
        };
    }
    true
}

/// Returns the position of the closing quote.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}
