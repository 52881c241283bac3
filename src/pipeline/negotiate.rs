//! Checks the media types of a write's body and of its answer before any other work, in kube-apiserver's order and with its
//! texts.

use super::target::Target;
use super::write::schema;
use crate::body::Body;
use crate::object::patch::PatchType;
use crate::request::RequestInfo;
use crate::request::accept::{self, Agreed, AnswerType};
use crate::request::body::{self, MediaTypes};
use crate::status::{Details, Status};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Uri};

/// Runs the checks of the handlers.
pub(super) fn check(
    request: &Request<Body>,
    info: &RequestInfo,
    target: &Target,
    known: MediaTypes,
) -> Result<(), Status> {
    let content_type = request.headers().get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?"));
    if info.verb == "patch" {
        let patch_type = PatchType::from_content_type(content_type, known.has_cbor);
        // The resource decides, and not the kind: the scale of a custom resource has a built-in kind.
        if !target.is_built_in() && matches!(patch_type, Ok(PatchType::Strategic) | Err(_)) {
            return Err(PatchType::unsupported(false, known.has_cbor));
        }
        patch_type?;
    }
    if agree(request.headers(), request.uri(), target, known).is_none() {
        return Err(Status::not_acceptable(known.names()));
    }
    // kube-apiserver checks the media type of an update after its options.
    if info.verb == "create" { body::media_type(content_type, known).map(|_| ()) } else { Ok(()) }
}

/// Returns the form of the answer; `None` if the client accepts no supported form.
pub(super) fn agree(headers: &HeaderMap, uri: &Uri, target: &Target, known: MediaTypes) -> Option<Agreed> {
    let is_built_in = schema(target.kind()).is_some();
    let answer = if is_built_in { AnswerType::BuiltIn { has_table: target.has_table() } } else { AnswerType::Custom };
    accept::negotiate(headers, uri, answer, known)
}

/// Runs the checks of the routes of built-in kinds, which come before those of the handlers (`restful.RouterJSR311.detectRoute`).
pub(super) fn check_route(request: &Request<Body>, info: &RequestInfo, known: MediaTypes) -> Result<(), Status> {
    let content_type = request.headers().get(CONTENT_TYPE).map_or("", |value| value.to_str().unwrap_or("?"));
    let is_patch = |one: &str| PatchType::from_content_type(Some(one.trim_matches(' ')), known.has_cbor).is_ok();
    if info.verb == "patch" && !content_type.split(',').any(is_patch) {
        let status = Status::failure(415, "UnsupportedMediaType", "415: Unsupported Media Type");
        return Err(status.with_details(Details::default()));
    }
    accept::check_routes(request.headers(), known.names())
}
