//! Get and list, with resourceVersions and pages.

use super::custom::convert;
use super::select::Selection;
use crate::body::Body;
use crate::embedded::http::call::Call;
use crate::embedded::http::respond::{self, ListMeta};
use crate::embedded::store::{self, Expired, Page, Reads, State};
use crate::status::{Cause, Details, Status, invalid};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{Response, StatusCode};
use serde::{Deserialize, Serialize};

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
    let wanted = revision(call)?;
    call.server.store.with(|state| not_in_the_future(wanted, state))?;
    let found = call.server.store.object(call.collection(), &call.key()).ok_or_else(|| call.not_found())?;
    let found = convert::shown_to(call, found).await?;
    Ok(respond::object(call, StatusCode::OK, &found))
}

/// Responds to a list.
///
/// # Errors
/// If the options are invalid, or the requested version has expired.
pub(in crate::embedded) async fn list(call: &Call) -> Result<Response<Body>, Status> {
    check_options(call)?;
    let selection = Selection::new(call)?;
    let limit = call.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
    let limit = limit.map(|limit| limit.min(call.server.limits.list_page_objects.max(1)));
    let Beginning { revision, mut start, mut left } = beginning(call)?;
    let (collection, prefix) = (call.collection(), store::prefix(call.namespace()));
    let mut selected = Vec::new();
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
            Err(Expired { .. }) => return Err(expired_continue(&start)),
        };
        left.get_or_insert(total as u64);
        let (in_part, mut last) = (objects.len(), None);
        for (at, (key, object)) in objects.into_iter().take(size).enumerate() {
            passed += 1;
            let object = convert::shown_to(call, object.object()).await?;
            if selection.matches(&object) {
                selected.push(object);
                if limit == Some(selected.len()) {
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
        metadata.continue_token = Token { v: TOKEN_VERSION.into(), rv: revision as i64, start, left }.encoded();
        // With selectors the number of remaining matches is unknown (`storage.PrepareContinueToken`).
        metadata.remaining_item_count = left.filter(|_| selection.is_empty());
    }
    Ok(respond::list(call, &metadata, &selected))
}

/// The resourceVersion in the query; `None` for "any".
///
/// # Errors
/// If the value is no number.
pub(in crate::embedded) fn revision(call: &Call) -> Result<Option<u64>, Status> {
    let Some(text) = call.text("resourceVersion") else { return Ok(None) };
    let revision: u64 = text.parse().map_err(|_| {
        let quoted = text.escape_debug();
        Status::bad_request(format!(
            "invalid resource version: strconv.ParseUint: parsing \"{quoted}\": invalid syntax"
        ))
    })?;
    Ok(Some(revision).filter(|revision| *revision > 0))
}

/// The beginning of a page.
struct Beginning {
    revision: u64,
    /// The first key; empty for the first one of the list.
    start: String,
    /// The number of objects from there on; `None` for all.
    left: Option<u64>,
}

fn beginning(call: &Call) -> Result<Beginning, Status> {
    let prefix = store::prefix(call.namespace());
    let wanted = revision(call)?;
    let Some(token) = call.text("continue") else {
        let exact = call.text("resourceVersionMatch").as_deref() == Some("Exact");
        return call.server.store.with(|state| {
            not_in_the_future(wanted, state)?;
            let revision = wanted.filter(|_| exact).unwrap_or(state.revision());
            Ok(Beginning { revision, start: String::new(), left: None })
        });
    };
    let Token { rv, start, left, .. } = Token::decoded(&token)?;
    if !start.starts_with(&prefix) {
        return Err(Status::bad_request(format!("continue key is not valid: {start}")));
    }
    if call.text("resourceVersion").is_some_and(|version| version != "0") {
        return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
    }
    call.server.store.with(|state| {
        let revision = u64::try_from(rv).ok();
        not_in_the_future(revision, state)?;
        let counted = || state.count_from(call.collection(), &prefix, &start) as u64;
        let left = Some(left.unwrap_or_else(counted));
        // A negative version says that the list is no longer consistent.
        Ok(Beginning { revision: revision.unwrap_or(state.revision()), start, left })
    })
}

/// `storage.NewTooLargeResourceVersionError`, without waiting for the version, since there is no other replica.
fn not_in_the_future(wanted: Option<u64>, state: &State) -> Result<(), Status> {
    let Some(wanted) = wanted.filter(|wanted| *wanted > state.revision()) else { return Ok(()) };
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

/// `internalversion/validation.ValidateListOptions` for lists.
fn check_options(call: &Call) -> Result<(), Status> {
    let mut causes = Vec::new();
    if let Some(wanted) = call.text("resourceVersionMatch") {
        let field = "resourceVersionMatch";
        let version = call.text("resourceVersion");
        if version.is_none() {
            causes.push(invalid::forbidden(
                field,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if call.text("continue").is_some() {
            causes.push(invalid::forbidden(field, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if wanted != "Exact" && wanted != "NotOlderThan" {
            causes.push(invalid::not_supported(field, &wanted, &["Exact", "NotOlderThan", ""]));
        }
        if wanted == "Exact" && version.as_deref() == Some("0") {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            causes.push(invalid::forbidden(field, why));
        }
    }
    if call.parameter("sendInitialEvents").is_some() {
        causes.push(invalid::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    invalid::options("ListOptions", causes).map_or(Ok(()), Err)
}

/// `storage.continueToken`, with one more field.
#[derive(Serialize, Deserialize)]
struct Token {
    v: String,
    /// Negative if the list is not consistent.
    rv: i64,
    start: String,
    /// The number of objects from `start` on, so that a page need not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<u64>,
}

impl Token {
    fn encoded(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// `storage.DecodeContinue`.
    fn decoded(text: &str) -> Result<Self, Status> {
        let invalid = |why: &str| Status::bad_request(why.to_owned());
        let bytes =
            URL_SAFE_NO_PAD.decode(text).map_err(|error| invalid(&format!("continue key is not valid: {error}")))?;
        let token: Self =
            serde_json::from_slice(&bytes).map_err(|error| invalid(&format!("continue key is not valid: {error}")))?;
        if token.v != TOKEN_VERSION {
            let why = format!("continue key is not valid: server does not recognize this encoded version {}", token.v);
            return Err(invalid(&why));
        }
        if token.rv == 0 {
            let why = "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)";
            return Err(invalid(why));
        }
        if token.start.is_empty() {
            return Err(invalid("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)"));
        }
        Ok(token)
    }
}

/// The first key after another.
fn after(key: &str) -> String {
    format!("{key}\0")
}

/// `etcd3.handleCompactedErrorForPaging`: the Status contains a token without a resourceVersion.
fn expired_continue(start: &str) -> Status {
    let mut status = Status::failure(410, "Expired", EXPIRED_CONTINUE);
    let token = Token { v: TOKEN_VERSION.into(), rv: -1, start: start.to_owned(), left: None };
    status.metadata.insert("continue".into(), token.encoded().into());
    status
}
