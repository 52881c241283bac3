//! Dispatches a request to its handler.

use super::api::catalog::{self, ServedResource};
use super::api::{discovery, document, index, openapi, removed};
use super::controllers::tasks;
use super::http::call::Call;
use super::http::negotiate::{self, Form};
use super::http::{body, pretty, respond};
use super::identity::caller;
use super::rbac;
use super::server::Server;
use super::store::Work;
use super::verbs::{
    binding, component_status, connections, custom, delete, eviction, list_options, read, review, scale, token_request,
    watch, write,
};
use crate::authz::AccessAttributes;
use crate::body::{Body, full};
use crate::config::EmulatedRelease;
use crate::kind::GroupVersionKind;
use crate::object::kinds::is_built_in_group;
use crate::object::protobuf;
use crate::object::version::deprecation;
use crate::processor;
use crate::request::accept::AnswerType;
use crate::request::body::MediaTypes;
use crate::request::{RequestInfo, request_info};
use crate::response::{self, ResponseForm};
use crate::server::health;
use crate::status::{Details, Status};
use crate::user::UserInfo;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, IF_NONE_MATCH, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt;
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Responds to every request, with a Status if it fails.
pub(super) async fn respond(server: &Arc<Server>, request: Request<Body>) -> Response<Body> {
    let is_head = request.method() == Method::HEAD;
    let is_pretty = pretty::is_asked(request.headers(), request.uri());
    let form = ResponseForm::of(request.headers(), request.uri(), MediaTypes::default());
    let mut response = answer(server, request).await.unwrap_or_else(|status| response::status(&status, form));
    if is_pretty {
        response = pretty::indented(response).await;
    }
    if is_head {
        *response.body_mut() = crate::body::empty();
    }
    response
}

async fn answer(server: &Arc<Server>, request: Request<Body>) -> Result<Response<Body>, Status> {
    let (parts, body) = request.into_parts();
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    let info = request_info(&parts.method, &parts.uri);
    let caller = caller::caller(&parts.headers);
    if !info.is_resource_request
        && let Some(response) = vitals(server, &parts.method, &parts.uri)
    {
        return authorize(server, &caller, &info).map(|()| response);
    }
    // The answer, be it an error, is given after the data folder has everything that the answer may depend on.
    if !is_read {
        server.store.room().await.map_err(respond::unread)?;
    }
    let answered = answer_from_store(server, parts, body, info, caller).await;
    let unsettled = if is_read { respond::unread } else { respond::unwritten };
    server.store.settled().await.map_err(unsettled)?;
    answered
}

async fn answer_from_store(
    server: &Arc<Server>,
    parts: Parts,
    body: Body,
    info: RequestInfo,
    caller: UserInfo,
) -> Result<Response<Body>, Status> {
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    authorize(server, &caller, &info)?;
    if let Some(open_id) = server.open_id.as_ref().filter(|_| !info.is_resource_request) {
        let accept = header(&parts.headers, ACCEPT).unwrap_or_default();
        if let Some(answered) = open_id.respond(&parts.method, parts.uri.path(), accept) {
            return answered;
        }
    }
    if !info.is_resource_request {
        let index = server.index.current(&server.store).await;
        let release = server.settings.gates.release();
        let path = parts.uri.path();
        if matches!(path, "/" | "/index.html") {
            return Ok(paths(server, &index));
        }
        if let Some(response) = document(&index, release, &parts.uri, &parts.headers) {
            return if parts.method == Method::GET || has_all_methods(path) {
                Ok(response)
            } else {
                Err(not_allowed())
            };
        }
        let mut segments = path.trim_start_matches('/').split('/');
        return Err(match (segments.next(), segments.next(), segments.next()) {
            (Some("apis"), Some(group), version) => {
                check_is_local(&index, group, version.unwrap_or_default())?;
                nothing_of_group(group)
            }
            (Some("api" | "version"), Some(_), _) => Status::no_such_path(),
            (Some("openapi"), Some("v3"), Some(_)) => return Ok(no_document()),
            _ => Status::page_not_found(),
        });
    }
    let resource = resource(server, &info).await?;
    let has_method = match parts.method {
        Method::HEAD => has_head(&resource, &info),
        // A watch by its path has the verb for every method.
        Method::OPTIONS => info.verb != "watch" || resource.custom.is_some(),
        _ => true,
    };
    if !has_method {
        return Err(not_allowed());
    }
    let is_list = matches!(info.verb.as_str(), "list" | "watch");
    let (form, encoding) = negotiate::form(&parts.headers, &parts.uri, answer_type(&resource), is_list)?;
    let body = if is_read { Bytes::new() } else { body::read(body, server.limits.body_bytes).await? };
    let call = Call {
        server: server.clone(),
        info,
        resource,
        uri: parts.uri,
        caller,
        form,
        encoding,
        user_agent: header(&parts.headers, USER_AGENT).unwrap_or_default().to_owned(),
        content_type: header(&parts.headers, CONTENT_TYPE).map(str::to_owned),
        body,
        warnings: Mutex::default(),
        work: Work::new(&server.store),
    };
    if call.resource.custom.as_ref().is_some_and(|custom| !custom.is_compiled()) {
        processor::expect_long().await;
    }
    match &call.resource.custom {
        Some(custom) => custom.deprecation().into_iter().for_each(|warning| call.warn(warning.to_owned())),
        None => served_kind(&call).and_then(|kind| deprecation(&kind)).into_iter().for_each(|text| call.warn(text)),
    }
    if call.info.subresource.is_empty() && call.info.verb == "watch" && call.resource.serves("watch") {
        let warnings = std::mem::take(&mut *call.warnings.lock().unwrap_or_else(PoisonError::into_inner));
        let response = watch::watch(call).await.unwrap_or_else(|status| response::status(&status, encoding.failure));
        return Ok(respond::with_warnings(response, &warnings.texts));
    }
    let responded =
        if call.info.subresource.is_empty() { on_objects(&call).await } else { on_subresource(&call).await };
    // As the forms that the result cannot have, the options of a Table are looked at after the work.
    let responded = responded.and_then(|response| {
        let is_table = matches!(call.form, Form::Table(_)) && response.status().is_success();
        if is_table { list_options::check_table_options(&call).map(|()| response) } else { Ok(response) }
    });
    let response = responded.unwrap_or_else(|status| response::status(&status, encoding.failure));
    // The client's next request finds what the controllers do. A failure of the file ends them: the answer says so, and the next start of the
    // server finds what is left.
    let _ = tasks::finish(&call.work).await;
    let warnings = call.warnings.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(respond::with_warnings(response, &warnings.texts))
}

/// The kind of a request that is routed to a handler; `None` if the resource has no such verb.
fn served_kind(call: &Call) -> Option<GroupVersionKind> {
    let (name, verb) = (call.info.subresource.as_str(), call.info.verb.as_str());
    if name.is_empty() {
        return call.resource.serves(verb).then(|| call.resource.gvk());
    }
    let subresource = call.resource.subresource(name).filter(|subresource| subresource.verbs.contains(&verb))?;
    Some(subresource.kind.clone())
}

/// Checks by RBAC, if the server has it, whether the user may do what the request asks.
fn authorize(server: &Arc<Server>, caller: &UserInfo, info: &RequestInfo) -> Result<(), Status> {
    if !server.settings.rbac {
        return Ok(());
    }
    let attributes = AccessAttributes::from(info);
    let decided = rbac::authorize(&*server.store, caller, &attributes);
    if decided.allowed { Ok(()) } else { Err(attributes.forbidden(caller, &decided.reason)) }
}

/// The paths of the server (`routes.Index`).
fn paths(server: &Server, index: &index::Index) -> Response<Body> {
    let mut paths: Vec<String> = index.groups.paths().collect();
    paths.extend(
        ["/api", "/apis", "/apis/", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version"].map(str::to_owned),
    );
    if let Some(vitals) = server.settings.health.as_ref().and_then(Weak::upgrade) {
        paths.extend(vitals.checks.paths());
        paths.extend(["/metrics", "/metrics/slis"].map(str::to_owned));
    }
    paths.sort();
    document::document("application/json", serde_json::to_vec_pretty(&json!({ "paths": paths })).unwrap_or_default())
}

/// Whether a document is served for every method: go-restful, which serves the others, knows methods; the handlers of the aggregator and of
/// custom resources do not look at them.
fn has_all_methods(path: &str) -> bool {
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    match segments.as_slice() {
        ["version"] | ["api", ..] => false,
        ["apis", group, _] => !is_built_in_group(group),
        _ => true,
    }
}

/// The health or the metrics, if the path is theirs; most of them for every method.
fn vitals(server: &Arc<Server>, method: &Method, uri: &Uri) -> Option<Response<Body>> {
    let path = uri.path();
    if path.ends_with('/') {
        return None;
    }
    let is_metrics = matches!(path, "/metrics" | "/metrics/slis") && *method != Method::DELETE;
    let is_health = ["/healthz", "/livez", "/readyz"].iter().any(|health| path == *health || is_below(path, health));
    match server.settings.health.as_ref().map(Weak::upgrade) {
        Some(Some(vitals)) if is_health || is_metrics => {
            let answer = health::answer(&Method::GET, uri, &vitals.checks, &vitals.registry);
            Some(answer.map(|body| body.map_err(|never| match never {}).boxed_unsync()))
        }
        None if is_health && (path.ends_with("/ping") || path.matches('/').count() == 1) => Some(respond::text("ok")),
        _ => None,
    }
}

/// The document at a path that belongs to no resource.
fn document(index: &index::Index, release: EmulatedRelease, uri: &Uri, headers: &HeaderMap) -> Option<Response<Body>> {
    let path = uri.path();
    let accept = header(headers, ACCEPT).unwrap_or_default();
    let document = discovery::respond(&index.groups, release, uri, headers)
        .or_else(|| openapi::respond(&index.openapi, path, uri.query().unwrap_or_default(), accept))?;
    match header(headers, IF_NONE_MATCH) {
        Some(known) => Some(document::conditional(document, known)),
        None => Some(document),
    }
}

/// The answer at a path of no OpenAPI document (`handler3.HandleGroupVersion`).
fn no_document() -> Response<Body> {
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

/// Refuses requests for a version that a Service serves (`proxyHandler.ServeHTTP`, for an APIService that is not available).
fn check_is_local(index: &index::Index, group: &str, version: &str) -> Result<(), Status> {
    if index.groups.is_remote(group, version) { Err(Status::text(503, "service unavailable")) } else { Ok(()) }
}

/// The answer at a path of a group that names no resource: only built-in groups have a server of their own, which answers with a Status
/// (`server.director`).
fn nothing_of_group(group: &str) -> Status {
    if group.is_empty() || is_built_in_group(group) { Status::no_such_path() } else { Status::page_not_found() }
}

fn is_below(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.starts_with('/'))
}

/// The forms that the answers of a resource have: custom resources and removed APIs have no protobuf.
fn answer_type(resource: &ServedResource) -> AnswerType {
    match resource.custom.is_none() && protobuf::has_encoding(&resource.group, &resource.version, &resource.kind) {
        true => AnswerType::BuiltIn { has_table: true },
        false => AnswerType::Custom,
    }
}

/// The resource that a URL names, if the URL's form is valid for that resource.
async fn resource(server: &Arc<Server>, info: &RequestInfo) -> Result<Arc<ServedResource>, Status> {
    let (group, version, plural) = (&*info.api_group, &*info.api_version, &*info.resource);
    let found = catalog::resource(group, version, plural)
        .filter(|_| server.settings.apis.serves(group, version))
        .or_else(|| removed::resource(&server.settings.removed, group, version, plural));
    let resource = match found {
        Some(resource) => resource.clone(),
        None => {
            let index = server.index.current(&server.store).await;
            check_is_local(&index, group, version)?;
            index.resource(group, version, plural).ok_or_else(|| nothing_of_group(group))?.clone()
        }
    };
    let is_namespace = info.resource == "namespaces" && info.api_group.is_empty();
    let is_in_place = if resource.namespaced {
        // Without a namespace in the URL, namespaced objects can only be listed and watched, and a few reviews created.
        !info.namespace.is_empty()
            || (info.parts.len() == 1 && matches!(info.verb.as_str(), "list" | "watch"))
            || (info.parts.len() == 1 && matches!(info.verb.as_str(), "create" | "") && resource.custom.is_none())
    } else {
        is_namespace || info.namespace.is_empty()
    };
    // A path ends with a subresource, except after `proxy`; the handler of custom resources does not look at the rest.
    let is_known_depth = info.parts.len() <= 3 || info.subresource == "proxy" || resource.custom.is_some();
    // What can only be created has no names in URLs.
    let has_names = info.name.is_empty() || ["get", "update", "delete"].iter().any(|verb| resource.serves(verb));
    if is_in_place && is_known_depth && has_names { Ok(resource) } else { Err(nothing_of_group(group)) }
}

async fn on_objects(call: &Call) -> Result<Response<Body>, Status> {
    let verb = call.info.verb.as_str();
    let resource = &*call.resource;
    // The verb of a list with the parameter `watch` (`handlers.ListResource`).
    if verb == "watch" && resource.serves("list") && !resource.serves(verb) {
        if component_status::is_component_status(call) {
            component_status::warn(call);
        }
        return Err(Status::method_not_supported(&resource.group, &resource.name, verb));
    }
    if !resource.serves(verb) {
        return Err(method_not_allowed(call));
    }
    match verb {
        "get" if component_status::is_component_status(call) => component_status::get(call),
        "list" if component_status::is_component_status(call) => component_status::list(call),
        "get" => read::get(call).await,
        "list" => read::list(call).await,
        "create" if resource.namespaced && call.info.namespace.is_empty() => Err(method_not_allowed(call)),
        // Only a collection accepts new objects; the handler of custom resources does not look at the name.
        "create" if !call.info.name.is_empty() && resource.custom.is_none() => Err(method_not_allowed(call)),
        "update" | "patch" if call.info.name.is_empty() && resource.custom.is_some() => {
            Err(Status::bad_request("name must be provided"))
        }
        "update" | "patch" if call.info.name.is_empty() => Err(method_not_allowed(call)),
        "create" if resource.custom.is_some() => custom::write::create(call).await,
        "update" if resource.custom.is_some() => custom::write::update(call).await,
        "patch" if resource.custom.is_some() => custom::write::patch(call).await,
        "create" if review::is_review(&resource.group, &resource.name) => review::review(call),
        "create" if (&*resource.group, &*resource.name) == ("", "bindings") => binding::bind(call).await,
        "create" => write::create(call).await,
        "update" => write::update(call).await,
        "patch" => write::patch(call).await,
        "delete" => delete::delete(call).await,
        "deletecollection" => delete::delete_collection(call).await,
        _ => Err(method_not_allowed(call)),
    }
}

async fn on_subresource(call: &Call) -> Result<Response<Body>, Status> {
    let name = call.info.subresource.as_str();
    let missing = || if call.resource.custom.is_some() { call.not_found() } else { Status::no_such_path() };
    let subresource = call.resource.subresource(name).ok_or_else(missing)?;
    let verb = call.info.verb.as_str();
    let is_connection = connections::SUBRESOURCES.contains(&name) && call.resource.custom.is_none();
    // A proxy has the method OPTIONS too, which is no verb.
    let is_served = subresource.verbs.contains(&verb) || (is_connection && name == "proxy");
    if !is_served {
        return Err(method_not_allowed(call));
    }
    if is_connection {
        return connections::connect(call);
    }
    if call.resource.custom.is_some() {
        return match (name, verb) {
            ("scale", "get") => custom::scale::get(call).await,
            ("scale", "update") => custom::scale::update(call).await,
            ("scale", "patch") => custom::scale::patch(call).await,
            (_, "get") => read::get(call).await,
            (_, "update") => custom::write::update(call).await,
            (_, "patch") => custom::write::patch(call).await,
            _ => Err(method_not_allowed(call)),
        };
    }
    match (name, verb) {
        ("scale", "get") => scale::get(call),
        ("scale", "update") => scale::update(call).await,
        ("scale", "patch") => scale::patch(call).await,
        ("binding", "create") => binding::bind(call).await,
        ("eviction", "create") => eviction::evict(call).await,
        ("token", "create") => token_request::issue(call),
        (_, "get") => read::get(call).await,
        (_, "update") => write::update(call).await,
        (_, "patch") => write::patch(call).await,
        _ => Err(method_not_allowed(call)),
    }
}

/// `NewGenericServerResponse(405)`; `NewMethodNotSupported` of a custom resource.
fn method_not_allowed(call: &Call) -> Status {
    match call.resource.custom {
        Some(_) => Status::method_not_supported(&call.resource.group, &call.resource.name, &call.info.verb),
        None => not_allowed(),
    }
}

/// Whether the resource has the method HEAD: go-restful routes it to connections alone, and the handler of custom resources takes it for a
/// GET. A path that does not exist gets its own answer.
fn has_head(resource: &ServedResource, info: &RequestInfo) -> bool {
    let subresource = info.subresource.as_str();
    resource.custom.is_some()
        || subresource == "proxy"
        || (!subresource.is_empty() && resource.subresource(subresource).is_none())
}

fn not_allowed() -> Status {
    Status::failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        .with_details(Details::default())
}

fn header(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
