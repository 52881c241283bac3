//! What every kind of write has in common: its body, its options, its attributes, its way upstream.

use super::gateway::{Answer, with_body};
use super::target::Target;
use super::{Caller, Exchange, Pipeline};
use crate::admission::{Annotations, Attributes, Operation, Reinvocation, Warnings};
use crate::object::{GroupVersionKind, Object};
use crate::request::body::{self, DecodedObject, MediaType};
use crate::request::options::{FieldValidation, WriteOptions};
use crate::status::Status;
use crate::upstream::Body;
use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Uri};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A write on its way: the request as it came, and what it is about.
pub(super) struct Write<'a> {
    pub(super) pipeline: &'a Pipeline,
    pub(super) caller: &'a Caller,
    pub(super) target: Target,
    pub(super) parts: Parts,
    pub(super) body: Bytes,
    pub(super) options: WriteOptions,
    pub(super) deadline: Instant,
    pub(super) warnings: Arc<Warnings>,
}

/// A JSON body that is to be forwarded.
pub(super) struct Outgoing {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) content_type: &'static str,
    pub(super) body: Bytes,
}

impl<'a> Write<'a> {
    /// Reads the body and the options.
    ///
    /// # Errors
    /// 413 for a body that is too large, 400 or 422 for options that are wrong.
    pub(super) async fn begin(
        pipeline: &'a Pipeline,
        request: Request<Body>,
        target: Target,
        caller: &'a Caller,
        exchange: &Exchange,
    ) -> Result<Self, Status> {
        let (parts, stream) = request.into_parts();
        let limits = &pipeline.limits;
        let options = WriteOptions::from_query(parts.uri.query().unwrap_or_default())?;
        let asked = options.timeout.filter(|timeout| !timeout.is_zero()).unwrap_or(Duration::MAX);
        let deadline = Instant::now() + limits.mutating_timeout.min(asked);
        let reading = body::read(stream, limits.body_bytes);
        let body = tokio::time::timeout_at(deadline, reading).await.map_err(|_| out_of_time())??;
        Ok(Self { pipeline, caller, target, parts, body, options, deadline, warnings: exchange.warnings.clone() })
    }

    pub(super) fn media_type(&self) -> Result<MediaType, Status> {
        body::media_type(self.header(CONTENT_TYPE))
    }

    pub(super) fn header(&self, name: http::HeaderName) -> Option<&str> {
        self.parts.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The object in the body of a create or update, with a word about what is in it twice.
    pub(super) fn decode(&self, exchange: &mut Exchange) -> Result<DecodedObject, Status> {
        let kind = self.target.kind();
        let decoded = body::decode_object(&self.body, self.media_type()?, kind)?;
        self.say_duplicates(&decoded.duplicates, |found| {
            let kind_name = &kind.kind;
            let version = kind.api_version();
            format!("{kind_name} in version {version:?} cannot be handled as a {kind_name}: strict decoding error: {found}")
        })?;
        if let Some(event) = &mut exchange.event {
            event.request_object(decoded.object.fields());
        }
        Ok(decoded)
    }

    /// Fields that a body has twice: refused, warned of or ignored, as `fieldValidation` says. The API server behind never
    /// sees them, for it could take the other one.
    pub(super) fn say_duplicates(&self, duplicates: &[String], refusal: impl Fn(&str) -> String) -> Result<(), Status> {
        if duplicates.is_empty() {
            return Ok(());
        }
        let texts: Vec<String> = duplicates.iter().map(|path| format!("duplicate field {path:?}")).collect();
        match self.options.field_validation {
            FieldValidation::Strict => return Err(Status::bad_request(refusal(&texts.join(", ")))),
            FieldValidation::Warn => texts.into_iter().for_each(|text| self.warnings.add(text)),
            FieldValidation::Ignore => {}
        }
        Ok(())
    }

    /// The record that plugins see.
    pub(super) fn attributes(
        &self,
        operation: Operation,
        object: Option<Object>,
        old_object: Option<Arc<Object>>,
        options: Option<Object>,
    ) -> Attributes {
        let target = &self.target;
        let mut attributes = Attributes {
            operation,
            kind: target.kind().clone(),
            resource: target.resource.clone(),
            subresource: target.subresource.clone(),
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            object,
            old_object,
            options: options.map(Arc::new),
            dry_run: self.options.dry_run,
            user: self.caller.user.clone(),
            deadline: self.deadline,
            annotations: Annotations::default(),
            warnings: self.warnings.clone(),
            reinvocation: Reinvocation::default(),
        };
        if operation == Operation::Create
            && let Some(object) = &attributes.object
        {
            if attributes.name.is_empty() {
                attributes.name = object.name().to_owned();
            }
            if target.is_namespaces() && attributes.namespace.is_empty() {
                attributes.namespace = attributes.name.clone();
            }
        }
        attributes
    }

    /// The mutating phase. Afterwards the object still has the name, namespace and kind that the URL is about: a plugin
    /// may change what is stored, not where.
    pub(super) async fn admit(&self, attributes: &mut Attributes, exchange: &mut Exchange) -> Result<(), Status> {
        let result = self.pipeline.chain.admit(attributes).await;
        publish(attributes, exchange);
        result?;
        match &attributes.object {
            Some(object) if object.is_changed() => self.check_identity(object, attributes.operation),
            _ => Ok(()),
        }
    }

    fn check_identity(&self, object: &Object, operation: Operation) -> Result<(), Status> {
        body::check_kind(object, self.target.kind())?;
        body::check_namespace(object, self.target.expected_namespace())?;
        if operation == Operation::Update { body::check_name(object, &self.target.name) } else { Ok(()) }
    }

    /// The validating phase.
    pub(super) async fn validate(&self, attributes: &Attributes, exchange: &mut Exchange) -> Result<(), Status> {
        let result = self.pipeline.chain.validate(attributes).await;
        publish(attributes, exchange);
        result
    }

    /// The object that is stored now, at the URL itself or, where a subresource cannot be read, at its parent's.
    pub(super) async fn old_object(&self) -> Result<Option<Object>, Status> {
        let path = self.parts.uri.path().trim_end_matches('/');
        let path = match path.rsplit_once('/') {
            Some((parent, _)) if !self.target.subresource.is_empty() && !self.target.can_get() => parent,
            _ => path,
        };
        self.pipeline.gateway.read(path, self.caller).await
    }

    /// Sends what was admitted as the caller's request, and reads the answer.
    pub(super) async fn forward(&self, outgoing: Outgoing) -> Result<Answer, Status> {
        let Outgoing { method, uri, content_type, body } = outgoing;
        let request = with_body(&method, &uri, &self.parts.headers, content_type, body);
        self.pipeline.gateway.ask_as(self.caller, request).await
    }

    /// The same, where the answer is for the proxy: in JSON, whatever the client accepts.
    pub(super) async fn forward_for_json(&self, outgoing: Outgoing) -> Result<Answer, Status> {
        let Outgoing { method, uri, content_type, body } = outgoing;
        let mut request = with_body(&method, &uri, &self.parts.headers, content_type, body);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        request.headers_mut().remove(ACCEPT_ENCODING);
        self.pipeline.gateway.ask_as(self.caller, request).await
    }

    /// A JSON body for the request's own method and URL.
    pub(super) fn outgoing(&self, body: Bytes) -> Outgoing {
        Outgoing {
            method: self.parts.method.clone(),
            uri: self.parts.uri.clone(),
            content_type: "application/json",
            body,
        }
    }

    /// The admitted object as bytes: those that came, where nothing differs from what they say.
    pub(super) fn encode(&self, attributes: &Attributes, came_as_json: bool) -> Result<Bytes, Status> {
        let Some(object) = &attributes.object else { return Ok(Bytes::new()) };
        if came_as_json && !object.is_changed() {
            return Ok(self.body.clone());
        }
        serde_json::to_vec(object).map(Bytes::from).map_err(Status::internal_error)
    }

    /// The options object of this kind, as plugins see it.
    pub(super) fn options_object(&self, kind: &str) -> Object {
        self.options.as_options_object(kind)
    }

    /// 404 in the words of the API server.
    pub(super) fn not_found(&self) -> Status {
        Status::not_found(&self.target.resource.group, &self.target.resource.resource, &self.target.name)
    }

    /// 409 in the words of the API server.
    pub(super) fn conflict(&self, why: &str) -> Status {
        Status::conflict(&self.target.resource.group, &self.target.resource.resource, &self.target.name, why)
    }
}

/// Why a write with an old resourceVersion is refused (`registry.OptimisticLockErrorMsg`).
pub(super) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// The answer to a write that took too long.
pub(super) fn out_of_time() -> Status {
    Status::timeout("request did not complete within requested timeout - context deadline exceeded")
}

/// Whether the API server refused because the object is not the one that admission saw.
pub(super) fn is_conflict(answer: &Answer) -> bool {
    answer.status == StatusCode::CONFLICT && serde_json::from_slice::<Status>(&answer.body).is_ok_and(|s| s.reason == "Conflict")
}

/// Whether the API server refused because there is such an object already.
pub(super) fn is_already_exists(answer: &Answer) -> bool {
    answer.status == StatusCode::CONFLICT
        && serde_json::from_slice::<Status>(&answer.body).is_ok_and(|s| s.reason == "AlreadyExists")
}

/// Hands the annotations of the phase that ended to the audit event, whether it accepted or not.
pub(super) fn publish(attributes: &Attributes, exchange: &mut Exchange) {
    let annotations = attributes.annotations.take();
    if let Some(event) = &mut exchange.event {
        for (key, value, level) in annotations {
            event.annotate(key, value, level);
        }
    }
}

/// Fields that only the API server sets (`rest.WipeObjectMetaSystemFields`).
pub(super) fn wipe_system_fields(object: &mut Object) {
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "uid"] {
        object.remove(&["metadata", field]);
    }
}

/// Gives the object its namespace, as the API server does (`rest.EnsureObjectNamespaceMatchesRequestNamespace`).
///
/// # Errors
/// 400 when it has another one.
pub(super) fn settle_namespace(object: &mut Object, target: &Target) -> Result<(), Status> {
    let expected = target.expected_namespace();
    body::check_namespace(object, expected)?;
    if !expected.is_empty() && object.namespace().is_empty() {
        let _metadata_is_an_object = object.set(&["metadata", "namespace"], Value::from(expected));
    }
    Ok(())
}

/// A kind that is decoded with a schema: what has none is a custom resource's or an aggregated API's.
pub(super) fn schema(kind: &GroupVersionKind) -> Option<&'static crate::object::schema::Type> {
    crate::object::schema::of(kind)
}

/// Turns an answer into the response.
pub(super) fn respond(answer: Answer, exchange: &mut Exchange) -> Response<Body> {
    if let Some(event) = &mut exchange.event {
        event.response_object(&answer.body);
    }
    answer.into_response()
}
