//! Responses: objects and lists in the form that the client accepts, and failures.

use super::call::Call;
use super::negotiate::Form;
use crate::body::{Body, full};
use crate::embedded::api::catalog::ServedResource;
use crate::embedded::api::table::{self, IncludeObject};
use crate::embedded::store::Unkept;
use crate::object::Object;
use crate::status::Status;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};
use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A JSON response.
pub(in crate::embedded) fn json(code: StatusCode, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(bytes));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // Responses of an API server must not be cached (`filters.WithCacheControl`).
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Adds warnings for the client to a response (`warning.NewWarningHeader`). A text that is no header value is left out.
pub(in crate::embedded) fn with_warnings(mut response: Response<Body>, warnings: &[String]) -> Response<Body> {
    for warning in warnings {
        let text = warning.replace(['\n', '\r'], " ").replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{text}\"").as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}

/// A text response.
pub(in crate::embedded) fn text(text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// The response of a failed request.
pub(in crate::embedded) fn failure(status: &Status) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if status.is_text {
        // `http.Error`
        let mut response = text(format!("{}\n", status.message));
        *response.status_mut() = code;
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        return response;
    }
    let mut response = json(code, bytes(status));
    let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if seconds > 0 {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The Status of a request whose answer depends on changes that the data folder does not have.
pub(in crate::embedded) fn unread(Unkept(why): Unkept) -> Status {
    Status::service_unavailable(format!("the data folder cannot be written, and the server must be restarted: {why}"))
}

/// The Status of a write that the data folder may have or not.
pub(in crate::embedded) fn unwritten(Unkept(why): Unkept) -> Status {
    Status::internal_error(format!("the change may be lost, because the data folder cannot be written: {why}"))
}

/// A JSON value, independent of the form that the client accepts.
pub(in crate::embedded) fn value(code: StatusCode, value: &Value) -> Response<Body> {
    json(code, bytes(&InGoOrder(value)))
}

/// The fields of an object of a Go type: kind and version first.
struct KindFirst<'a>(&'a Map<String, Value>);

impl Serialize for KindFirst<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let first = ["kind", "apiVersion"].iter().filter_map(|field| self.0.get_key_value(*field));
        let rest = self.0.iter().filter(|(field, _)| !matches!(field.as_str(), "kind" | "apiVersion"));
        serializer.collect_map(first.chain(rest))
    }
}

/// A value of a Go type: kind and version first, if it has them. The other fields are in alphabetical order.
struct InGoOrder<'a>(&'a Value);

impl Serialize for InGoOrder<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(fields) => KindFirst(fields).serialize(serializer),
            other => other.serialize(serializer),
        }
    }
}

/// The Status of a successful request.
pub(in crate::embedded) fn success(code: StatusCode, details: Option<Value>) -> Response<Body> {
    let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    if let (Some(details), Some(status)) = (details, status.as_object_mut()) {
        status.insert("details".into(), details);
    }
    // The Status of a creation contains its code; the Status of a deletion does not.
    if let (StatusCode::CREATED, Some(status)) = (code, status.as_object_mut()) {
        status.insert("code".into(), Value::from(code.as_u16()));
    }
    value(code, &status)
}

/// The response with a stored object.
pub(in crate::embedded) fn object(call: &Call, code: StatusCode, object: &Object) -> Response<Body> {
    match call.form {
        // `UnstructuredContent.EachListItem`
        Form::MetadataList(_) if call.resource.custom.is_some() => {
            failure(&Status::failure(500, "", "content is not a list"))
        }
        Form::MetadataList(_) => failure(&not_acceptable(call, "PartialObjectMetadataList", "not a list", "")),
        _ => json(code, bytes(&Shown { call, object, with_columns: true })),
    }
}

/// The response with the scale of an object.
pub(in crate::embedded) fn scale(call: &Call, scale: &Object) -> Response<Body> {
    match call.form {
        Form::Object => value(StatusCode::OK, scale.as_value()),
        Form::Metadata(version) => value(StatusCode::OK, &metadata_of(scale, version)),
        Form::MetadataList(_) => {
            let package = if call.resource.custom.is_some() { "v1" } else { "autoscaling" };
            let what = "you requested PartialObjectMetadataList, but the requested object is not a list";
            failure(&Status::failure(406, "NotAcceptable", format!("{what} (*{package}.Scale)")))
        }
        Form::Table(version) => {
            let now = jiff::Timestamp::now();
            let table = table::scale_table(&call.resource, scale.as_value(), included(call), now);
            value(StatusCode::OK, &in_version(table, version))
        }
    }
}

/// The refusal of a form that the result of a request cannot have (`asPartialObjectMetadata`, `asPartialObjectMetadataList`). kube-apiserver
/// refuses it after the write.
fn not_acceptable(call: &Call, form: &str, what: &str, suffix: &str) -> Status {
    let resource = &*call.resource;
    let go_type = match (&resource.custom, &*resource.group) {
        (Some(_), _) => format!("unstructured.Unstructured{suffix}"),
        (None, group) => {
            // The internal types of events and of core objects are in one package.
            let package = match group {
                "" | "events.k8s.io" => "core",
                "internal.apiserver.k8s.io" => "apiserverinternal",
                group => group.split('.').next().unwrap_or(group),
            };
            format!("{package}.{}{suffix}", resource.kind)
        }
    };
    let message = format!("you requested {form}, but the requested object is {what} (*{go_type})");
    Status::failure(406, "NotAcceptable", message)
}

/// The `metadata` of a list.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::embedded) struct ListMeta {
    /// The resourceVersion of the list; empty for objects that are not stored.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// The token for the next page.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
    /// The number of remaining objects, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<u64>,
}

/// The response with a list of stored objects.
pub(in crate::embedded) fn list(call: &Call, metadata: &ListMeta, objects: &[Arc<Object>]) -> Response<Body> {
    let resource = &*call.resource;
    let bytes = match call.form {
        Form::Table(_) => bytes(&InGoOrder(&table_of(call, objects, Some(metadata)))),
        Form::Metadata(_) => return failure(&not_acceptable(call, "PartialObjectMetadata", "a list", "List")),
        Form::MetadataList(version) => {
            let items: Vec<_> = objects.iter().map(|object| metadata_of(&resource.shown(object), version)).collect();
            // Go appends to a nil slice.
            let items = if items.is_empty() { Value::Null } else { Value::from(items) };
            let list = json!({
                "kind": "PartialObjectMetadataList", "apiVersion": version, "metadata": metadata, "items": items,
            });
            bytes(&InGoOrder(&list))
        }
        Form::Object => bytes(&List { resource, metadata, objects }),
    };
    json(StatusCode::OK, bytes)
}

/// A stored object in the form of a call, for a response or a watch event.
pub(in crate::embedded) struct Shown<'a> {
    pub call: &'a Call,
    /// The object as stored.
    pub object: &'a Object,
    /// Whether a Table includes its column definitions, which a watch sends once.
    pub with_columns: bool,
}

impl Serialize for Shown<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = self.call.resource.shown(self.object);
        match self.call.form {
            // An event of a watch is no list, and keeps its form.
            Form::Object | Form::MetadataList(_) if self.call.resource.custom.is_none() => {
                KindFirst(shown.fields()).serialize(serializer)
            }
            Form::Object | Form::MetadataList(_) => shown.serialize(serializer),
            Form::Metadata(version) => InGoOrder(&metadata_of(&shown, version)).serialize(serializer),
            Form::Table(_) => {
                let mut table = table_of(self.call, &[Arc::new(self.object.clone())], None);
                if let (false, Some(table)) = (self.with_columns, table.as_object_mut()) {
                    table.insert("columnDefinitions".into(), Value::Null);
                }
                InGoOrder(&table).serialize(serializer)
            }
        }
    }
}

/// `meta.AsPartialObjectMetadata`.
fn metadata_of(object: &Object, version: &str) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": object.get(&["metadata"])})
}

fn table_of(call: &Call, objects: &[Arc<Object>], metadata: Option<&ListMeta>) -> Value {
    let resource = &*call.resource;
    let values: Vec<_> = objects.iter().map(|object| resource.shown(object).into_owned().into_value()).collect();
    let include = included(call);
    let metadata = metadata.and_then(|metadata| serde_json::to_value(metadata).ok());
    let metadata = metadata.as_ref().and_then(Value::as_object);
    let table = table::table(resource, &values, metadata, include, jiff::Timestamp::now());
    match call.form {
        Form::Table(version) => in_version(table, version),
        _ => table,
    }
}

/// What the rows of a Table contain.
fn included(call: &Call) -> IncludeObject {
    call.parameter("includeObject").and_then(|text| IncludeObject::parse(&text)).unwrap_or_default()
}

/// A Table in a version of `meta.k8s.io`, with the metadata of its rows.
fn in_version(mut table: Value, version: &str) -> Value {
    let rows = table.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten();
    for object in rows.filter_map(|row| row.get_mut("object")?.as_object_mut()) {
        if object.get("kind").is_some_and(|kind| kind == "PartialObjectMetadata") {
            object.insert("apiVersion".into(), Value::from(version));
        }
    }
    if let Some(table) = table.as_object_mut() {
        table.insert("apiVersion".into(), Value::from(version));
    }
    table
}

/// A list. The items of a built-in kind omit their kind.
struct List<'a> {
    resource: &'a ServedResource,
    metadata: &'a ListMeta,
    objects: &'a [Arc<Object>],
}

impl Serialize for List<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_map(Some(4))?;
        let version = self.resource.gvk().api_version();
        match &self.resource.custom {
            // The fields of an `UnstructuredList` are in alphabetical order.
            Some(custom) => {
                list.serialize_entry("apiVersion", &version)?;
                list.serialize_entry("items", &Items(self))?;
                list.serialize_entry("kind", custom.list_kind())?;
                // `UnstructuredList` has the field `continue` always.
                match self.metadata {
                    ListMeta { resource_version, continue_token, .. } if continue_token.is_empty() => {
                        let metadata = json!({"continue": "", "resourceVersion": resource_version});
                        list.serialize_entry("metadata", &metadata)?;
                    }
                    metadata => list.serialize_entry("metadata", metadata)?,
                }
            }
            None => {
                list.serialize_entry("kind", &format!("{}List", self.resource.kind))?;
                list.serialize_entry("apiVersion", &version)?;
                list.serialize_entry("metadata", self.metadata)?;
                list.serialize_entry("items", &Items(self))?;
            }
        }
        list.end()
    }
}

struct Items<'a>(&'a List<'a>);

impl Serialize for Items<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let List { resource, objects, .. } = self.0;
        serializer.collect_seq(objects.iter().map(|object| Item(resource, object)))
    }
}

struct Item<'a>(&'a ServedResource, &'a Object);

impl Serialize for Item<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = self.0.shown(self.1);
        if self.0.custom.is_some() {
            return shown.serialize(serializer);
        }
        let fields = shown.fields().iter().filter(|(field, _)| !matches!(field.as_str(), "kind" | "apiVersion"));
        serializer.collect_map(fields)
    }
}

/// JSON as bytes, with a line end as in kube-apiserver's encoder.
pub(in crate::embedded) fn bytes(value: &impl Serialize) -> Vec<u8> {
    // Keys are strings, and no type here fails to serialize.
    let mut bytes = serde_json::to_vec(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}
