//! exec, attach, port-forward and proxy: admitted as CONNECT, then streamed.

use super::permission::Permission;
use super::target::{Target, not_allowed};
use super::{Exchange, Pipeline};
use crate::admission::{Attributes, Operation, Phase};
use crate::body::Body;
use crate::object::{Object, normal};
use crate::request::RequestInfo;
use crate::request::query::{query_pairs, query_values};
use crate::status::Status;
use http::{Method, Request, Response, Uri};
use serde_json::{Map, Value};
use tokio::time::Instant;

/// The subresources of pods, services and nodes that clients connect to.
const SUBRESOURCES: [&str; 4] = ["exec", "attach", "portforward", "proxy"];

/// Whether the request may be a connect, without a request to discovery.
pub(super) fn may_be(info: &RequestInfo) -> bool {
    SUBRESOURCES.contains(&info.subresource.as_str())
}

/// Whether the API server could connect or stream the request, as far as method and URL show.
pub(super) fn is_possible(method: &Method, info: &RequestInfo) -> bool {
    let is_of_one = info.is_resource_request && info.api_group.is_empty() && !info.name.is_empty();
    let is_in_scope = info.namespace.is_empty() == (info.resource == "nodes");
    let streams = [Method::GET, Method::POST];
    is_of_one
        && is_in_scope
        && match (info.resource.as_str(), info.subresource.as_str()) {
            ("pods", "exec" | "attach" | "portforward") => streams.contains(method),
            ("pods", "log") => *method == Method::GET,
            ("pods" | "services" | "nodes", "proxy") => true,
            _ => false,
        }
}

/// Whether the path contains the name of a connect subresource.
pub(super) fn is_named_in(path: &str) -> bool {
    path.split(['/', '\\']).any(|segment| SUBRESOURCES.contains(&segment))
}

impl Pipeline {
    /// Admits the connection and streams it. Only `proxy` takes methods other than GET and POST (`rest.Connecter`). Each phase
    /// has attributes of its own, as in `handlers.ConnectResource`.
    pub(super) async fn connect(
        &self,
        mut request: Request<Body>,
        target: Target,
        permission: &Permission<'_>,
        exchange: &mut Exchange,
    ) -> Result<Response<Body>, Status> {
        if target.subresource != "proxy" && ![Method::GET, Method::POST].contains(request.method()) {
            return Err(not_allowed());
        }
        let caller = permission.caller;
        let query = request.uri().query().unwrap_or_default();
        if query_values(query, "dryRun").any(|value| !value.is_empty()) {
            return Err(Status::bad_request("dryRun is not supported"));
        }
        let options = connect_options(&target, query);
        let (warnings, deadline) = (exchange.warnings.clone(), Instant::now() + self.limits.mutating_timeout);
        let attributes = |options: &Object, annotations| Attributes {
            object: Some(options.clone()),
            annotations,
            ..self.attributes(Operation::Connect, &target, caller, deadline, &warnings)
        };
        let mut mutating = attributes(&options, exchange.annotations());
        permission.check_before(Phase::Admit, &mut mutating).await?;
        let result = self.chain.admit(&mut mutating).await;
        exchange.publish(mutating.annotations.take());
        exchange.ended(&result, &mutating);
        result?;
        let admitted = mutating.object.take().unwrap_or_default();
        if admitted != options {
            *request.uri_mut() = with_options(request.uri(), &target, &admitted)?;
        }
        let context = mutating.context.clone();
        let mut validating = Attributes { context, ..attributes(&admitted, exchange.annotations()) };
        permission.check_before(Phase::Validate, &mut validating).await?;
        let result = self.chain.validate(&mut validating).await;
        exchange.publish(validating.annotations.take());
        exchange.ended(&result, &validating);
        result?;
        self.gateway.stream(request, caller).await
    }
}

/// Builds the options object from a query (`getRequestOptions`): `PodExecOptions` and the like.
fn connect_options(target: &Target, query: &str) -> Object {
    let mut fields = Map::new();
    fields.insert("kind".into(), target.kind().kind.as_str().into());
    fields.insert("apiVersion".into(), target.kind().api_version().into());
    let mut seen = Vec::new();
    for (key, value) in query_pairs(query) {
        // The first value of a scalar counts, even an empty one.
        let is_first = !seen.contains(&key);
        match (target.subresource.as_str(), &*key) {
            // `Convert_Slice_string_To_bool`: everything but "0" and "false" is true, and false is left out.
            ("exec" | "attach", "stdin" | "stdout" | "stderr" | "tty") if is_first && !is_false(&value) => {
                fields.insert(key.clone(), true.into());
            }
            ("exec" | "attach", "container") if is_first && !value.is_empty() => {
                fields.insert(key.clone(), value.into());
            }
            ("exec", "command") => push(&mut fields, "command", value.into()),
            ("portforward", "ports") => {
                for port in value.split(',').filter_map(|port| port.trim().parse::<i32>().ok()) {
                    push(&mut fields, "ports", port.into());
                }
            }
            _ => {}
        }
        // Other names have no effect.
        if is_first && ["stdin", "stdout", "stderr", "tty", "container"].contains(&&*key) {
            seen.push(key);
        }
    }
    if target.subresource == "proxy" && !target.rest.is_empty() {
        fields.insert("path".into(), target.rest.as_str().into());
    }
    // kube-apiserver normalizes the options for webhooks and policies: the command of an exec without a command is null.
    let options = Value::Object(fields);
    match normal::built_in(target.kind(), options.clone()) {
        Some(Ok(normal)) => normal.object,
        _ => Object::from_value(options).unwrap_or_default(),
    }
}

/// Returns the URL with these options in its query. The query must parse to the same options; the path behind a `proxy` is not
/// rewritten.
fn with_options(uri: &Uri, target: &Target, options: &Object) -> Result<Uri, Status> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    let without_nulls = |mut options: Object| {
        options.fields_mut().retain(|_, value| !value.is_null());
        options
    };
    let options = without_nulls(options.clone());
    for (name, value) in options.fields() {
        let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for value in values.iter().filter(|_| !["kind", "apiVersion"].contains(&name.as_str())) {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            query.append_pair(name, &text);
        }
    }
    let query = query.finish();
    if without_nulls(connect_options(target, &query)) != options {
        return Err(Status::not_implemented("a mutating plugin made options of a connection that no URL asks for"));
    }
    format!("{}?{query}", uri.path()).parse().map_err(Status::internal_error)
}

fn is_false(value: &str) -> bool {
    value == "0" || value.eq_ignore_ascii_case("false")
}

fn push(fields: &mut Map<String, Value>, field: &str, value: Value) {
    if let Some(list) = fields.entry(field).or_insert_with(|| Value::Array(Vec::new())).as_array_mut() {
        list.push(value);
    }
}
