//! Responses: objects and lists in the form that the client accepts, and failures.

use super::call::Call;
use super::negotiate::{Encoding, Form};
use crate::body::{Body, full};
use crate::embedded::api::catalog::ServedResource;
use crate::embedded::api::table::{self, IncludeObject};
use crate::embedded::store::Unkept;
use crate::go_text::json::answer;
use crate::object::{Object, protobuf};
use crate::request::body::MediaType;
use crate::response;
use crate::status::Status;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WARNING};
use http::{Response, StatusCode};
use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// A response of this media type.
pub(in crate::embedded) fn of_type(
    code: StatusCode,
    content_type: &'static str,
    bytes: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = Response::new(full(bytes));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
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

/// The Status of a request whose answer depends on changes that the data folder does not have.
pub(in crate::embedded) fn unread(Unkept(why): Unkept) -> Status {
    Status::service_unavailable(format!("the data folder cannot be written, and the server must be restarted: {why}"))
}

/// The Status of a write that the data folder may have or not.
pub(in crate::embedded) fn unwritten(Unkept(why): Unkept) -> Status {
    Status::internal_error(format!("the change may be lost, because the data folder cannot be written: {why}"))
}

/// An object that is not stored, in the encoding that the client accepts, and in its own form.
pub(in crate::embedded) fn value(call: &Call, code: StatusCode, value: &Value) -> Response<Body> {
    let in_protobuf = || value.as_object().and_then(protobuf::encode_answer);
    encoded(call, code, &InGoOrder(value), in_protobuf)
}

/// A value in the encoding of a call; in protobuf as the function encodes it.
fn encoded(
    call: &Call,
    code: StatusCode,
    value: &impl Serialize,
    in_protobuf: impl FnOnce() -> Option<Vec<u8>>,
) -> Response<Body> {
    let Encoding { media_type, is_pretty, failure } = call.encoding;
    let bytes = match media_type {
        MediaType::Yaml => response::yaml_document(&serde_json::to_value(value).unwrap_or_default()).into_bytes(),
        MediaType::Protobuf => match in_protobuf() {
            Some(bytes) => bytes,
            // `protobuf.errNotMarshalable`
            None => {
                let why = "object does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message";
                return response::status(&Status::failure(406, "NotAcceptable", why), failure);
            }
        },
        MediaType::Json | MediaType::Cbor => answer(value, is_pretty),
    };
    of_type(code, media_type.as_str(), bytes)
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

/// A value of a Go type that is made when it is written.
struct Lazy<F>(F);

impl<F: Fn() -> Value> Serialize for Lazy<F> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        InGoOrder(&(self.0)()).serialize(serializer)
    }
}

/// The Status of a successful request.
pub(in crate::embedded) fn success(call: &Call, code: StatusCode, details: Option<Value>) -> Response<Body> {
    let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    if let (Some(details), Some(status)) = (details, status.as_object_mut()) {
        status.insert("details".into(), details);
    }
    // The Status of a creation contains its code; the Status of a deletion does not.
    if let (StatusCode::CREATED, Some(status)) = (code, status.as_object_mut()) {
        status.insert("code".into(), Value::from(code.as_u16()));
    }
    value(call, code, &status)
}

/// The response with a stored object.
pub(in crate::embedded) fn object(call: &Call, code: StatusCode, object: &Object) -> Response<Body> {
    match call.form {
        // `UnstructuredContent.EachListItem`
        Form::MetadataList(_) if call.resource.custom.is_some() => {
            failure(call, &Status::failure(500, "", "content is not a list"))
        }
        Form::MetadataList(_) => failure(call, &not_acceptable(call, "PartialObjectMetadataList", "not a list", "")),
        _ => {
            let shown = Shown { call, object, with_columns: true };
            encoded(call, code, &shown, || shown.in_protobuf())
        }
    }
}

/// A refusal in the form that the client accepts.
fn failure(call: &Call, status: &Status) -> Response<Body> {
    response::status(status, call.encoding.failure)
}

/// The response with the scale of an object.
pub(in crate::embedded) fn scale(call: &Call, scale: &Object) -> Response<Body> {
    match call.form {
        Form::Object => value(call, StatusCode::OK, scale.as_value()),
        Form::Metadata(version) => value(call, StatusCode::OK, &metadata_of(scale, version)),
        Form::MetadataList(_) => {
            let package = if call.resource.custom.is_some() { "v1" } else { "autoscaling" };
            let what = "you requested PartialObjectMetadataList, but the requested object is not a list";
            failure(call, &Status::failure(406, "NotAcceptable", format!("{what} (*{package}.Scale)")))
        }
        Form::Table(version) => {
            let now = jiff::Timestamp::now();
            let table = table::scale_table(&call.resource, scale.as_value(), included(call), now);
            value(call, StatusCode::OK, &in_version(table, version))
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

impl ListMeta {
    fn fields(&self) -> Map<String, Value> {
        serde_json::to_value(self).ok().and_then(|metadata| metadata.as_object().cloned()).unwrap_or_default()
    }
}

/// The response with a list of stored objects.
pub(in crate::embedded) fn list(call: &Call, metadata: &ListMeta, objects: &[Arc<Object>]) -> Response<Body> {
    let resource = &*call.resource;
    match call.form {
        Form::Table(_) => encoded(call, StatusCode::OK, &Lazy(|| table_of(call, objects, Some(metadata))), || None),
        Form::Metadata(_) => failure(call, &not_acceptable(call, "PartialObjectMetadata", "a list", "List")),
        Form::MetadataList(version) => {
            let shown = |object: &Arc<Object>| metadata_of(&resource.shown(object), version);
            let items = objects.iter().filter_map(|object| Object::from_value(shown(object))).map(Cow::Owned);
            let in_protobuf = || protobuf::encode_list(version, "PartialObjectMetadataList", &metadata.fields(), items);
            let list = Lazy(|| {
                // Go appends to a nil slice.
                let items = match objects {
                    [] => Value::Null,
                    objects => objects.iter().map(shown).collect(),
                };
                json!({"kind": "PartialObjectMetadataList", "apiVersion": version, "metadata": metadata, "items": items})
            });
            encoded(call, StatusCode::OK, &list, in_protobuf)
        }
        Form::Object => {
            let (version, kind) = (resource.gvk().api_version(), format!("{}List", resource.kind));
            let items = objects.iter().map(|object| resource.shown(object));
            let in_protobuf = || protobuf::encode_list(&version, &kind, &metadata.fields(), items);
            encoded(call, StatusCode::OK, &List { resource, metadata, objects }, in_protobuf)
        }
    }
}

/// A stored object in the form of a call, for a response or a watch event.
pub(in crate::embedded) struct Shown<'a> {
    pub call: &'a Call,
    /// The object as stored.
    pub object: &'a Object,
    /// Whether a Table includes its column definitions, which a watch sends once.
    pub with_columns: bool,
}

impl Shown<'_> {
    /// The object in protobuf; `None` for a Table and for a custom resource.
    fn in_protobuf(&self) -> Option<Vec<u8>> {
        let shown = self.call.resource.shown(self.object);
        match self.call.form {
            Form::Object | Form::MetadataList(_) => protobuf::encode_answer(shown.fields()),
            Form::Metadata(version) => protobuf::encode_as(version, "PartialObjectMetadata", shown.fields()),
            Form::Table(_) => None,
        }
    }
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
    let metadata = metadata.map(ListMeta::fields);
    let table = table::table(resource, &values, metadata.as_ref(), include, jiff::Timestamp::now());
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

/// An event of a watch, whose object is a value or a stored object (`watchEncoder.doEncode`).
pub(in crate::embedded) fn event(call: &Call, kind: &str, object: &impl InEvent) -> Bytes {
    #[derive(Serialize)]
    struct Event<'a, T> {
        #[serde(rename = "type")]
        kind: &'a str,
        object: &'a T,
    }
    if call.encoding.media_type == MediaType::Protobuf {
        // Clients of protobuf ask for no objects that it does not have.
        return protobuf::encode_event(kind, &object.in_protobuf().unwrap_or_default()).into();
    }
    answer(&Event { kind, object }, false).into()
}

/// An object that an event of a watch may have.
pub(in crate::embedded) trait InEvent: Serialize {
    /// The object in protobuf, if it has this encoding.
    fn in_protobuf(&self) -> Option<Vec<u8>>;
}

impl InEvent for Shown<'_> {
    fn in_protobuf(&self) -> Option<Vec<u8>> {
        Shown::in_protobuf(self)
    }
}

impl InEvent for Value {
    fn in_protobuf(&self) -> Option<Vec<u8>> {
        protobuf::encode_answer(self.as_object()?)
    }
}
