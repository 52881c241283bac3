//! Get and list, with resourceVersions and pages.

use super::call::Call;
use super::custom;
use super::respond::{self, ListMeta};
use super::select::Selection;
use super::store::{self, Expired, Slot, State};
use crate::body::Body;
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
pub(super) async fn get(call: &Call) -> Result<Response<Body>, Status> {
    let wanted = revision(call)?;
    let found = call.store.with(|state| {
        not_in_the_future(wanted, state)?;
        state.object(call.collection(), &call.key()).ok_or_else(|| call.not_found())
    })?;
    let found = custom::shown_to(call, found).await?;
    Ok(respond::object(call, StatusCode::OK, &found))
}

/// Responds to a list.
///
/// # Errors
/// If the options are invalid, or the requested version has expired.
pub(super) async fn list(call: &Call) -> Result<Response<Body>, Status> {
    check_options(call)?;
    let selection = Selection::new(call)?;
    let limit = call.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
    let limit = limit.map(|limit| limit.min(call.limits.page_objects.max(1)));
    let Snapshot { objects, revision, start } = snapshot(call)?;
    let mut selected = Vec::new();
    let mut metadata = ListMeta { resource_version: revision.to_string(), ..ListMeta::default() };
    let first = start.as_deref().map_or(0, |start| objects.partition_point(|(key, _)| key.as_str() < start));
    for (at, (key, object)) in objects.iter().enumerate().skip(first) {
        let object = custom::shown_to(call, object.object()).await?;
        if !selection.matches(&object) {
            continue;
        }
        selected.push(object);
        let left = objects.len() - at - 1;
        if limit == Some(selected.len()) && left > 0 {
            metadata.continue_token = token(revision as i64, key);
            // With selectors the number of remaining matches is unknown (`storage.PrepareContinueToken`).
            metadata.remaining_item_count = selection.is_empty().then_some(left as u64);
            break;
        }
    }
    Ok(respond::list(call, &metadata, &selected))
}

/// The resourceVersion in the query; `None` for "any".
///
/// # Errors
/// If the value is no number.
pub(super) fn revision(call: &Call) -> Result<Option<u64>, Status> {
    let Some(text) = call.text("resourceVersion") else { return Ok(None) };
    let revision: u64 = text.parse().map_err(|_| {
        let quoted = text.escape_debug();
        Status::bad_request(format!(
            "invalid resource version: strconv.ParseUint: parsing \"{quoted}\": invalid syntax"
        ))
    })?;
    Ok(Some(revision).filter(|revision| *revision > 0))
}

struct Snapshot {
    objects: Vec<(String, Slot)>,
    revision: u64,
    /// The first key of the list.
    start: Option<String>,
}

fn snapshot(call: &Call) -> Result<Snapshot, Status> {
    let prefix = store::prefix(call.namespace());
    let wanted = revision(call)?;
    let collection = call.collection();
    if let Some(token) = call.text("continue") {
        let Token { rv, start, .. } = decode_token(&token)?;
        if !start.starts_with(&prefix) {
            return Err(Status::bad_request(format!("continue key is not valid: {start}")));
        }
        if call.text("resourceVersion").is_some_and(|version| version != "0") {
            return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
        }
        return call.store.with(|state| match u64::try_from(rv) {
            Ok(revision) => {
                not_in_the_future(Some(revision), state)?;
                let objects = state.objects_at(collection, &prefix, revision);
                let objects = objects.map_err(|Expired { .. }| expired_continue(&start))?;
                Ok(Snapshot { objects, revision, start: Some(start) })
            }
            // The token says that the list is no longer consistent.
            Err(_) => Ok(now(state, call, &prefix, Some(start))),
        });
    }
    let exact = call.text("resourceVersionMatch").as_deref() == Some("Exact");
    call.store.with(|state| {
        not_in_the_future(wanted, state)?;
        match wanted {
            Some(revision) if exact => {
                let objects = state.objects_at(collection, &prefix, revision);
                let objects = objects.map_err(|Expired { .. }| Status::failure(410, "Expired", EXPIRED))?;
                Ok(Snapshot { objects, revision, start: None })
            }
            _ => Ok(now(state, call, &prefix, None)),
        }
    })
}

fn now(state: &State, call: &Call, prefix: &str, start: Option<String>) -> Snapshot {
    Snapshot { objects: state.slots(call.collection(), prefix), revision: state.revision(), start }
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

/// `storage.continueToken`.
#[derive(Serialize, Deserialize)]
struct Token {
    v: String,
    /// Negative if the list is not consistent.
    rv: i64,
    start: String,
}

/// The token for a list that continues after a key.
fn token(rv: i64, after: &str) -> String {
    encode_token(rv, format!("{after}\0"))
}

fn encode_token(rv: i64, start: String) -> String {
    let token = Token { v: TOKEN_VERSION.into(), rv, start };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
}

/// `storage.DecodeContinue`.
fn decode_token(text: &str) -> Result<Token, Status> {
    let invalid = |why: &str| Status::bad_request(why.to_owned());
    let bytes =
        URL_SAFE_NO_PAD.decode(text).map_err(|error| invalid(&format!("continue key is not valid: {error}")))?;
    let token: Token =
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

/// `etcd3.handleCompactedErrorForPaging`: the Status contains a token without a resourceVersion.
fn expired_continue(start: &str) -> Status {
    let mut status = Status::failure(410, "Expired", EXPIRED_CONTINUE);
    status.metadata.insert("continue".into(), encode_token(-1, start.to_owned()).into());
    status
}
