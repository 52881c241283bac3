//! Get and list, with resourceVersions and pages.

use super::custom::convert;
use super::list_options::{self, ListOptions};
use super::select::Selection;
use crate::body::Body;
use crate::embedded::http::call::Call;
use crate::embedded::http::respond::{self, ListMeta};
use crate::embedded::store::{self, Expired, Page, Reads, State};
use crate::embedded::strategies;
use crate::go_text::{go_quote, go_type};
use crate::names::path_segment_errors;
use crate::object::{Object, decode};
use crate::status::{Cause, Details, Status};
use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, URL_SAFE_NO_PAD};
use http::{Response, StatusCode};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use thiserror::Error;

/// The version of continue tokens, equal to kube-apiserver's.
const TOKEN_VERSION: &str = "meta.k8s.io/v1";

const EXPIRED: &str = "The resourceVersion for the provided list is too old.";
const EXPIRED_CONTINUE: &str = "The provided continue parameter is too old to display a consistent list result. You can \
    start a new list without the continue parameter, or use the continue token in this response to retrieve the \
    remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were \
    created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// Responds to a get.
///
/// # Errors
/// If the object does not exist.
pub(in crate::embedded) async fn get(call: &Call) -> Result<Response<Body>, Status> {
    check_version(call)?;
    check_key(call)?;
    let found = call.server.store.object(call.collection(), &call.key()).ok_or_else(|| call.not_found())?;
    let found = convert::shown_to(call, found).await?;
    Ok(respond::object(call, StatusCode::OK, &found))
}

/// Checks the options of a get, whose version must not be a later one than the store has.
///
/// # Errors
/// 400 if the client asks for an export, 500 if the version is no number, 504 if it is too large.
pub(in crate::embedded) fn check_version(call: &Call) -> Result<(), Status> {
    list_options::check_export(call)?;
    let wanted = call.parameter("resourceVersion").unwrap_or_default();
    let wanted = list_options::revision(&wanted).map_err(|error| Status::plain(error.to_string()))?;
    call.server.store.with(|state| not_in_the_future(wanted, state))
}

/// Checks the names in the URL (`registry.NamespaceKeyFunc`, `storage.PrepareKey`).
///
/// # Errors
/// 400 for a name that is no segment of a path, 500 for such a namespace.
pub(in crate::embedded) fn check_key(call: &Call) -> Result<(), Status> {
    let (name, namespace) = (&*call.info.name, call.namespace());
    let errors = path_segment_errors(name);
    if !errors.is_empty() {
        return Err(Status::bad_request(format!("Name parameter invalid: {}: {}", go_quote(name), errors.join(";"))));
    }
    if !matches!(namespace, "." | "..") {
        return Ok(());
    }
    let path = strategies::of(&call.resource).storage_path(call.collection());
    let name = if name.is_empty() { String::new() } else { format!("/{name}") };
    Err(Status::plain(format!("invalid key: {}", go_quote(&format!("/{path}/{namespace}{name}")))))
}

/// Responds to a list.
///
/// # Errors
/// If the options are invalid, or the requested version has expired.
pub(in crate::embedded) async fn list(call: &Call) -> Result<Response<Body>, Status> {
    let options = ListOptions::of(call)?;
    let (metadata, objects) = selected(call, &options, &Selection::of(call, &options)).await?;
    Ok(respond::list(call, &metadata, &objects))
}

/// The objects that a request selects, in the version of the request (`Store.ListPredicate`).
///
/// # Errors
/// If the continue token or the requested version is invalid or has expired.
pub(in crate::embedded) async fn selected(
    call: &Call,
    options: &ListOptions,
    selection: &Selection,
) -> Result<(ListMeta, Vec<Arc<Object>>), Status> {
    // A list of any version has no pages (`cacher.computeListLimit`), nor has a read of one object.
    let has_pages = options.resource_version != "0" && !options.is_for_one(call);
    let limit = usize::try_from(options.limit).ok().filter(|limit| *limit > 0 && has_pages);
    let limit = limit.map(|limit| limit.min(call.server.limits.list_page_objects.max(1)));
    check_key(call)?;
    let Beginning { revision, mut start, mut left } = beginning(call, options)?;
    let (collection, prefix) = (call.collection(), store::prefix(call.namespace()));
    let mut found = Vec::new();
    let (mut passed, mut next) = (0, None);
    // A selector may select few objects of a part, so that parts become larger.
    let mut size = limit.unwrap_or(usize::MAX);
    'parts: loop {
        // One object more says whether there are more.
        let count = size.saturating_add(1);
        let part = call.server.store.with(|state| state.page(collection, &prefix, &start, revision, count));
        let Page { objects, total } = match part {
            Ok(part) => part,
            // The history has moved on since the last part: the request for the rest gets the 410.
            Err(Expired { .. }) if passed > 0 => {
                next = Some(start);
                break;
            }
            Err(Expired { .. }) if start.is_empty() => return Err(Status::failure(410, "Expired", EXPIRED)),
            Err(Expired { .. }) => return Err(expired_continue(&prefix, &start)),
        };
        left.get_or_insert(total as u64);
        let (in_part, mut last) = (objects.len(), None);
        for (at, (key, object)) in objects.into_iter().take(size).enumerate() {
            passed += 1;
            let object = convert::shown_to(call, object.object()).await?;
            if selection.matches(&object) {
                found.push(object);
                if limit == Some(found.len()) {
                    next = (at + 1 < in_part).then(|| after(&key));
                    break 'parts;
                }
            }
            last = Some(key);
        }
        match last {
            Some(key) if in_part > size => start = after(&key),
            _ => break,
        }
        size = size.saturating_mul(2);
    }
    let mut metadata = ListMeta { resource_version: revision.to_string(), ..ListMeta::default() };
    if let Some(start) = next {
        let left = left.map(|left| left.saturating_sub(passed));
        metadata.continue_token = Token { rv: revision as i64, start: below(&prefix, &start), left }.encoded();
        // With selectors the number of remaining matches is unknown (`storage.PrepareContinueToken`).
        metadata.remaining_item_count = left.filter(|_| selection.is_empty());
    }
    Ok((metadata, found))
}

/// The beginning of a page.
struct Beginning {
    revision: u64,
    /// The first key; empty for the first one of the list.
    start: String,
    /// The number of objects from there on; `None` for all.
    left: Option<u64>,
}

/// `storage.ValidateListOptions`.
fn beginning(call: &Call, options: &ListOptions) -> Result<Beginning, Status> {
    let wanted = &options.resource_version;
    // A read of one object has no pages.
    let is_for_one = options.is_for_one(call);
    if options.continue_token.is_empty() || is_for_one {
        let wanted = list_options::revision(wanted)
            .map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
        let is_exact = match options.version_match.as_str() {
            // The legacy form of an exact version: pages of a list.
            "" => (options.limit > 0 || options.is_read_in_pages) && !is_for_one,
            wanted => wanted == "Exact",
        };
        return call.server.store.with(|state| {
            not_in_the_future(wanted, state)?;
            let revision = if is_exact && wanted > 0 { wanted } else { state.revision() };
            Ok(Beginning { revision, start: String::new(), left: None })
        });
    }
    let Token { rv, start, left } = Token::decoded(&options.continue_token)
        .map_err(|why| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}")))?;
    if !matches!(wanted.as_str(), "" | "0") {
        return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
    }
    let prefix = store::prefix(call.namespace());
    let start = format!("{prefix}{start}");
    call.server.store.with(|state| {
        let revision = u64::try_from(rv).ok();
        not_in_the_future(revision.unwrap_or_default(), state)?;
        let counted = || state.count_from(call.collection(), &prefix, &start) as u64;
        let left = Some(left.unwrap_or_else(counted));
        // A negative version says that the list is no longer consistent.
        Ok(Beginning { revision: revision.unwrap_or(state.revision()), start, left })
    })
}

/// `storage.NewTooLargeResourceVersionError`, without waiting for the version, since there is no other replica.
pub(in crate::embedded) fn not_in_the_future(wanted: u64, state: &State) -> Result<(), Status> {
    if wanted <= state.revision() {
        return Ok(());
    }
    let why = format!("Too large resource version: {wanted}, current: {}", state.revision());
    let cause = Cause {
        reason: "ResourceVersionTooLarge".into(),
        message: "Too large resource version".into(),
        field: String::new(),
    };
    Err(Status::timeout(&why).with_details(Details {
        causes: vec![cause],
        retry_after_seconds: 1,
        ..Details::default()
    }))
}

/// `storage.continueToken`, with one more field.
#[derive(Debug, PartialEq, Serialize)]
struct Token {
    /// Negative if the list is not consistent.
    rv: i64,
    /// The first key of the page, below the prefix of the list.
    start: String,
    /// The number of objects from `start` on, so that a page need not count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<u64>,
}

/// A continue token that does not decode, with the words of Go's decoders.
#[derive(Debug, PartialEq, Error)]
#[error("{0}")]
struct InvalidToken(String);

impl InvalidToken {
    fn new(why: impl ToString) -> Self {
        Self(why.to_string())
    }
}

impl Token {
    fn encoded(&self) -> String {
        #[derive(Serialize)]
        struct Versioned<'a> {
            v: &'a str,
            #[serde(flatten)]
            token: &'a Token,
        }
        let token = Versioned { v: TOKEN_VERSION, token: self };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
    }

    /// `storage.DecodeContinue`, with the words of Go's decoders.
    fn decoded(text: &str) -> Result<Self, InvalidToken> {
        let value = decode::json(&base64(text)?).map_err(InvalidToken::new)?.value;
        let mut found = [Value::Null, Value::Null, Value::Null, Value::Null];
        match &value {
            Value::Null => {}
            // Go finds a field by its name in any case.
            Value::Object(fields) => {
                for (name, value) in fields {
                    let names = ["v", "rv", "start", "left"];
                    let at = names.iter().position(|known| known.eq_ignore_ascii_case(name));
                    if let Some(place) = at.and_then(|at| found.get_mut(at)).filter(|_| !value.is_null()) {
                        *place = value.clone();
                    }
                }
            }
            other => {
                let found = go_type(other);
                return Err(InvalidToken(format!(
                    "json: cannot unmarshal {found} into Go value of type storage.continueToken"
                )));
            }
        }
        let [version, rv, start, left] = found;
        let wrong = |value: &Value, field: &str, go: &str| {
            let number = if value.is_number() { format!(" {value}") } else { String::new() };
            let of = go_type(value);
            let of = format!("{of}{number}");
            InvalidToken(format!("json: cannot unmarshal {of} into Go struct field continueToken.{field} of type {go}"))
        };
        let text = |value: &Value, field: &str| match value {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.clone()),
            // Go does not name the number that is no string.
            other => Err(InvalidToken(wrong(other, field, "string").0.replace(&format!(" {other} into"), " into"))),
        };
        let version = text(&version, "v")?;
        let rv = match &rv {
            Value::Null => 0,
            rv => rv.as_i64().ok_or_else(|| wrong(rv, "rv", "int64"))?,
        };
        let start = text(&start, "start")?;
        if version != TOKEN_VERSION {
            // The words of this error stand in place of the general ones.
            return Err(InvalidToken(format!("server does not recognize this encoded version {version}")));
        }
        if rv == 0 {
            return Err(InvalidToken::new("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
        }
        if start.is_empty() {
            return Err(InvalidToken::new("encoded start key empty (version meta.k8s.io/v1)"));
        }
        let key = start.strip_prefix('/').unwrap_or(&start);
        if !is_clean(key) {
            return Err(InvalidToken(start));
        }
        Ok(Self { rv, start: key.to_owned(), left: left.as_u64() })
    }
}

/// Whether Go's `path.Clean` leaves the path `/key` as it is.
fn is_clean(key: &str) -> bool {
    key.is_empty() || key.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
}

/// Decodes base64 as `base64.RawURLEncoding` does: line ends are skipped, and unused bits may be set.
fn base64(text: &str) -> Result<Vec<u8>, InvalidToken> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &URL_SAFE,
        GeneralPurposeConfig::new()
            .with_decode_allow_trailing_bits(true)
            .with_decode_padding_mode(base64::engine::DecodePaddingMode::RequireNone),
    );
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let corrupt = |at: usize| InvalidToken(format!("illegal base64 data at input byte {at}"));
    let mut digits = Vec::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'\r' | b'\n' => {}
            byte if is_digit(byte) => digits.push(byte),
            _ => return Err(corrupt(at)),
        }
    }
    // A single digit at the end has too few bits.
    LENIENT.decode(&digits).map_err(|_| corrupt(text.len().saturating_sub(1)))
}

/// A key without the prefix of its list.
fn below(prefix: &str, key: &str) -> String {
    key.strip_prefix(prefix).unwrap_or(key).to_owned()
}

/// The first key after another.
fn after(key: &str) -> String {
    format!("{key}\0")
}

/// `etcd3.handleCompactedErrorForPaging`: the Status contains a token without a resourceVersion.
fn expired_continue(prefix: &str, start: &str) -> Status {
    let mut status = Status::failure(410, "Expired", EXPIRED_CONTINUE);
    let token = Token { rv: -1, start: below(prefix, start), left: None };
    status.metadata.insert("continue".into(), token.encoded().into());
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_tokens_are_decoded_with_the_words_of_go() {
        let token = |json: &str| URL_SAFE_NO_PAD.encode(json);
        for (text, expected) in [
            (token(r#"{"v":"meta.k8s.io/v1","rv":7,"start":"a\u0000"}"#), Ok((7, "a\0"))),
            (token(r#"{"V":"meta.k8s.io/v1","RV":-1,"start":"/n/a"}"#), Ok((-1, "n/a"))),
            ("abc".into(), Err("invalid character 'i' looking for beginning of value")),
            ("a".into(), Err("illegal base64 data at input byte 0")),
            ("ab=c".into(), Err("illegal base64 data at input byte 2")),
            ("e30".into(), Err("server does not recognize this encoded version ")),
            (token("{"), Err("unexpected end of JSON input")),
            (token("[]"), Err("json: cannot unmarshal array into Go value of type storage.continueToken")),
            (
                token(r#"{"v":1}"#),
                Err("json: cannot unmarshal number into Go struct field continueToken.v of type string"),
            ),
            (
                token(r#"{"rv":1.5}"#),
                Err("json: cannot unmarshal number 1.5 into Go struct field continueToken.rv of type int64"),
            ),
            (token(r#"{"v":"v9","rv":1}"#), Err("server does not recognize this encoded version v9")),
            (
                token(r#"{"v":"meta.k8s.io/v1"}"#),
                Err("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
            ),
            (token(r#"{"v":"meta.k8s.io/v1","rv":1}"#), Err("encoded start key empty (version meta.k8s.io/v1)")),
            (token(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../x"}"#), Err("../x")),
            (token(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a/"}"#), Err("a/")),
        ] {
            let found = Token::decoded(&text);
            let found = found.as_ref().map(|token| (token.rv, token.start.as_str())).map_err(|error| error.0.as_str());
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_token_is_decoded_to_what_was_encoded() {
        let token = Token { rv: 12, start: "a\0".into(), left: Some(3) };
        assert_eq!(Token::decoded(&token.encoded()), Ok(token));
    }
}
