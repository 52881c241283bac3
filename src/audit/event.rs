//! One request's audit event, from the arrival of the request to its end.

use super::encoded::{Encoded, TRUNCATED_ANNOTATION};
use super::{AuditDecision, Level, Parts, Stage, Written};
use crate::admission::{Annotation, Level as AnnotationLevel};
use crate::go_text::duration;
use crate::object::Object;
use crate::object::normal;
use crate::request::RequestInfo;
use crate::status::{Details, Status};
use crate::user::UserInfo;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The maximum bytes of a user agent; a longer user agent is cut (`maxUserAgentLength`).
const USER_AGENT_BYTES: usize = 1024;
/// The duration above which a request gets annotations with its latencies.
const SLOW: Duration = Duration::from_millis(500);
/// The annotation of a TokenRequest (`serviceaccount.IssuedCredentialIDAuditAnnotationKey`): it links the events of a token to its issue.
const ISSUED_CREDENTIAL_ID: &str = "authentication.kubernetes.io/issued-credential-id";
/// The domain of the annotations that kube-apiserver does not have.
const OWN_DOMAIN: &str = "kube-admission-proxy.dev";
/// The reason why the event lacks the response object that the policy requires.
const NO_RESPONSE_OBJECT_ANNOTATION: &str = "audit.kube-admission-proxy.dev/no-response-object";

/// The data of a request at the begin of its event.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The parsed request.
    pub(crate) info: &'a RequestInfo,
    /// The audit ID, see [`super::audit_id`].
    pub(crate) audit_id: &'a str,
    /// Path and query as the client sent them.
    pub(crate) uri: &'a str,
    /// The `User-Agent` header.
    pub(crate) user_agent: &'a str,
    /// The source addresses, see [`super::source_ips`].
    pub(crate) source_ips: Vec<IpAddr>,
    /// The time of arrival.
    pub(crate) received: Timestamp,
}

/// `audit.k8s.io/v1` `Event`, in the order of its fields.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    kind: &'static str,
    api_version: &'static str,
    level: &'static str,
    #[serde(rename = "auditID")]
    pub(super) audit_id: String,
    pub(super) stage: &'static str,
    #[serde(rename = "requestURI")]
    pub(super) request_uri: String,
    pub(super) verb: String,
    pub(super) user: UserInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) impersonated_user: Option<UserInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication_metadata: Option<AuthenticationMetadata>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "Vec::is_empty")]
    pub(super) source_ips: Vec<IpAddr>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) user_agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) object_ref: Option<ObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_status: Option<ResponseStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_object: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_object: Option<Box<RawValue>>,
    request_received_timestamp: String,
    stage_timestamp: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

impl Event {
    /// Whether the level of the event allows objects.
    pub(super) fn may_have_objects(&self) -> bool {
        Level::parse(self.level) >= Some(Level::Request)
    }

    /// The event without its objects (`truncate.truncate`).
    pub(super) fn without_objects(&self) -> Self {
        let mut event = Self { request_object: None, response_object: None, ..self.clone() };
        event.annotations.insert(TRUNCATED_ANNOTATION.to_owned(), "true".to_owned());
        event
    }
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct AuthenticationMetadata {
    impersonation_constraint: String,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectReference {
    #[serde(skip_serializing_if = "String::is_empty")]
    resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    resource_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    subresource: String,
}

/// The fields of a `metav1.Status` that an event keeps.
#[derive(Clone, Default, Serialize)]
pub(super) struct ResponseStatus {
    metadata: Map<String, Value>,
    #[serde(skip_serializing_if = "String::is_empty")]
    status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Box<Details>>,
    pub(super) code: u16,
}

/// A request's event. A dropped event that did not end is written as kube-apiserver does when a client disconnects.
pub(crate) struct EventInProgress {
    parts: Arc<Parts>,
    decision: AuditDecision,
    event: Event,
    received: Timestamp,
    /// The latencies of parts of the request.
    latencies: BTreeMap<&'static str, Duration>,
    /// Whether the event has the stage ResponseStarted.
    starts: bool,
    /// Whether the event has a stage after ResponseStarted.
    completes: bool,
    /// Whether the backends have room for the events of the request.
    has_room: bool,
    started: bool,
    ended: bool,
}

impl EventInProgress {
    pub(super) fn new(
        parts: Arc<Parts>,
        decision: AuditDecision,
        request: &Request<'_>,
        user: Option<&UserInfo>,
    ) -> Self {
        let info = request.info;
        let object_ref = info.is_resource_request.then(|| ObjectReference {
            resource: info.resource.clone(),
            namespace: info.namespace.clone(),
            name: info.name.clone(),
            uid: String::new(),
            api_group: info.api_group.clone(),
            api_version: info.api_version.clone(),
            resource_version: String::new(),
            subresource: info.subresource.clone(),
        });
        let received = micro_time(request.received);
        let event = Event {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: decision.level.as_str(),
            audit_id: request.audit_id.to_owned(),
            stage: Stage::ResponseStarted.as_str(),
            request_uri: request.uri.to_owned(),
            verb: info.verb.clone(),
            user: user.cloned().unwrap_or_default(),
            impersonated_user: None,
            authentication_metadata: None,
            source_ips: request.source_ips.clone(),
            user_agent: cut_user_agent(request.user_agent),
            object_ref,
            response_status: None,
            request_object: None,
            response_object: None,
            request_received_timestamp: received.clone(),
            stage_timestamp: received,
            annotations: BTreeMap::new(),
        };
        let authenticated = user.is_some();
        let starts = !authenticated || info.is_long_running();
        let (received, latencies) = (request.received, BTreeMap::new());
        let completes = authenticated;
        let (has_room, started, ended) = (false, false, false);
        Self { parts, decision, event, received, latencies, starts, completes, has_room, started, ended }
    }

    /// Whether the event contains the request's object or patch. The fields of the object that `objectRef` contains are used at
    /// every level.
    pub(crate) fn wants_request_body(&self) -> bool {
        self.decision.level >= Level::Request
    }

    /// Whether the event contains the response's object. If so, the caller collects the object, up to [`super::OBJECT_BYTES`],
    /// except for a watch.
    pub(crate) fn wants_response_body(&self) -> bool {
        self.decision.level >= Level::RequestResponse
    }

    /// Whether the event contains the Status in the response's body, at every level: the Status of a failure, or the answer to
    /// a delete.
    pub(crate) fn wants_response_status(&self, code: u16) -> bool {
        code >= 400 || self.event.verb == "delete" || self.event.verb == "deletecollection"
    }

    /// Whether an annotation is made of the response's object, at every level: the answer to a TokenRequest.
    pub(crate) fn wants_token(&self) -> bool {
        let reference = self.event.object_ref.as_ref();
        self.event.verb == "create"
            && reference.is_some_and(|to| {
                to.resource == "serviceaccounts" && to.subresource == "token" && to.api_group.is_empty()
            })
    }

    /// Leaves out the latencies, as kube-apiserver does for a request that lasts as long as its client wants.
    pub(crate) fn forget_latencies(&mut self) {
        self.latencies.clear();
    }

    /// Adds the latency of a part of the request, by its name in `apiserver.latency.k8s.io/`.
    pub(crate) fn add_latency(&mut self, layer: &'static str, elapsed: Duration) {
        *self.latencies.entry(layer).or_default() += elapsed;
    }

    /// Adds the latency of webhooks: the sum for mutating webhooks, the maximum for validating webhooks.
    pub(crate) fn add_webhook_latency(&mut self, [mutating, validating]: [Duration; 2]) {
        if !mutating.is_zero() {
            self.add_latency("mutating-webhook", mutating);
        }
        if !validating.is_zero() {
            let slowest = self.latencies.entry("validating-webhook").or_default();
            *slowest = validating.max(*slowest);
        }
    }

    /// Records the impersonated user, and the verb of constrained impersonation that allowed it, or an empty text.
    pub(crate) fn set_impersonated(&mut self, user: &UserInfo, impersonation_constraint: String) {
        self.event.impersonated_user = Some(user.clone());
        let is_constrained = !impersonation_constraint.is_empty();
        self.event.authentication_metadata =
            is_constrained.then_some(AuthenticationMetadata { impersonation_constraint });
    }

    /// Records the request's object, before defaults and admission (`LogRequestObject`).
    pub(crate) fn set_request_object(&mut self, object: &Object) {
        if let Some(reference) = &mut self.event.object_ref {
            for (field, value) in [
                (&mut reference.namespace, object.namespace()),
                (&mut reference.name, object.name()),
                (&mut reference.uid, object.uid()),
                (&mut reference.resource_version, object.resource_version()),
            ] {
                if field.is_empty() {
                    *field = value.to_owned();
                }
            }
        }
        if !self.wants_request_body() {
            return;
        }
        let mut object = normal::as_written(object).into_owned();
        // kube-apiserver encodes the options of a delete in the internal version.
        if self.event.verb.starts_with("delete") && object.kind() == "DeleteOptions" {
            object.fields_mut().insert("apiVersion".to_owned(), "meta.k8s.io/__internal".into());
        }
        self.event.request_object = self.capture(&object.into_value());
    }

    /// Records the request's patch (`LogRequestPatch`).
    pub(crate) fn set_request_patch(&mut self, patch: &Value) {
        if self.wants_request_body() {
            self.event.request_object = self.raw(patch);
        }
    }

    /// Records the response's object (`LogResponseObject`).
    pub(crate) fn set_response_object(&mut self, object: &Value) {
        if self.wants_token()
            && let Some(id) = object.pointer("/status/token").and_then(Value::as_str).and_then(credential_id)
        {
            self.annotate(ISSUED_CREDENTIAL_ID, id);
        }
        if self.wants_response_body() {
            self.event.response_object = self.capture(object);
        }
    }

    /// Records why the response of a resource request could not be read.
    pub(crate) fn set_unreadable(&mut self, why: &str) {
        if self.wants_response_body() && self.event.object_ref.is_some() {
            self.annotate(NO_RESPONSE_OBJECT_ANNOTATION, why);
        }
    }

    /// Records that a body was too large to be collected.
    pub(crate) fn set_truncated(&mut self) {
        self.annotate(TRUNCATED_ANNOTATION, "true");
    }

    /// Adds an annotation. Each key keeps its first value.
    pub(crate) fn annotate(&mut self, key: impl Into<String>, value: impl Into<String>) {
        let (key, value) = (key.into(), value.into());
        if !self.parts.has_own_annotations && is_own(&key) {
            return;
        }
        match self.event.annotations.get(&key) {
            Some(old) if *old != value => {
                let id = &self.event.audit_id;
                tracing::warn!(key, id, "audit annotation left out: the key has another value already");
            }
            Some(_) => {}
            None => _ = self.event.annotations.insert(key, value),
        }
    }

    /// The highest level of plugins' annotations that the event contains.
    pub(crate) fn annotation_level(&self) -> AnnotationLevel {
        if self.decision.level >= Level::Request { AnnotationLevel::Request } else { AnnotationLevel::Metadata }
    }

    /// Whether the event has the annotation of the changes of plugins.
    pub(crate) fn names_changes(&self) -> bool {
        self.parts.has_own_annotations
    }

    /// Adds the plugins' annotations.
    pub(crate) fn annotate_all(&mut self, annotations: Vec<Annotation>) {
        annotations.into_iter().for_each(|(key, value, _)| self.annotate(key, value));
    }

    /// Records the response's code. Writes the stage ResponseStarted if the request is long-running; the client gets the response afterwards.
    pub(crate) fn response_started(&mut self, code: u16, status: Option<&Status>) -> Written {
        self.note_status(code, status);
        self.start()
    }

    /// Records the response's code, and writes the last stage; the client gets the end of the response afterwards.
    pub(crate) fn response_complete(mut self, code: u16, status: Option<&Status>) -> Written {
        self.note_status(code, status);
        self.end()
    }

    /// Waits for room for the events of the request.
    pub(crate) async fn room(&mut self) {
        for sink in self.parts.sinks.iter().filter(|sink| !sink.has_room()) {
            sink.room().await;
        }
        self.has_room = true;
    }

    /// Waits for room, and writes the stage RequestReceived.
    ///
    /// # Errors
    /// If a backend that must have the event does not; the request fails, and has no further event.
    pub(crate) async fn received(&mut self) -> Result<(), NotStored> {
        self.room().await;
        if self.write_at(Stage::RequestReceived, None).await {
            return Ok(());
        }
        self.parts.metrics.rejected.inc();
        self.ended = true;
        Err(NotStored)
    }

    fn note_status(&mut self, code: u16, status: Option<&Status>) {
        let noted = self.event.response_status.get_or_insert_default();
        if let Some(status) = status {
            *noted = ResponseStatus {
                metadata: Map::new(),
                status: status.status.clone(),
                message: status.message.clone(),
                reason: status.reason.clone(),
                details: status.details.clone(),
                code,
            };
        }
        noted.code = code;
    }

    fn start(&mut self) -> Written {
        let is_first = !std::mem::replace(&mut self.started, true);
        if self.starts && is_first { self.write(Stage::ResponseStarted) } else { Written::default() }
    }

    /// Writes the last stages. Events are written in order, so the wait for the last one is that for all.
    fn end(&mut self) -> Written {
        let mut written = Written::default();
        if self.event.response_status.is_none() && self.completes {
            let status = ResponseStatus {
                status: "Success".to_owned(),
                message: "Connection closed early".to_owned(),
                code: 200,
                ..ResponseStatus::default()
            };
            self.event.response_status = Some(status);
        }
        if self.event.response_status.is_some() {
            written = self.start();
        }
        if self.completes {
            self.annotate_latencies();
            if self.decision.wants(Stage::ResponseComplete) {
                written = self.write(Stage::ResponseComplete);
            }
        }
        self.ended = true;
        written
    }

    /// `filters.writeLatencyToAnnotation`: annotates the latencies of a slow request.
    fn annotate_latencies(&mut self) {
        let total = Duration::try_from((self.parts.clock)().duration_since(self.received)).unwrap_or_default();
        if total <= SLOW || self.latencies.is_empty() {
            return;
        }
        let mut latencies = std::mem::take(&mut self.latencies);
        latencies.insert("total", total);
        for (layer, elapsed) in latencies {
            let nanoseconds = i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX);
            self.annotate(format!("apiserver.latency.k8s.io/{layer}"), duration::go(nanoseconds));
        }
    }

    fn write(&mut self, stage: Stage) -> Written {
        let now = (self.parts.clock)();
        self.write_at(stage, Some(now))
    }

    fn write_at(&mut self, stage: Stage, at: Option<Timestamp>) -> Written {
        if !self.decision.wants(stage) {
            return Written::default();
        }
        self.event.stage = stage.as_str();
        if let Some(at) = at {
            self.event.stage_timestamp = micro_time(at);
        }
        self.parts.metrics.events.inc();
        match Encoded::new(&self.event, self.received) {
            Ok(encoded) => {
                let waits = self.parts.sinks.iter().filter_map(|sink| sink.write(&encoded, self.has_room));
                Written::of(waits.collect())
            }
            Err(error) => {
                self.parts.metrics.lost("log", 1, &error);
                Written::default()
            }
        }
    }

    #[cfg(test)]
    pub(super) fn encoded(&self) -> Encoded<'_> {
        Encoded::new(&self.event, self.received).unwrap()
    }

    /// Returns the object in the form that the event contains.
    fn capture(&mut self, object: &Value) -> Option<Box<RawValue>> {
        let object =
            if self.decision.omit_managed_fields { without_managed_fields(object) } else { Cow::Borrowed(object) };
        self.raw(&object)
    }

    fn raw(&mut self, value: &Value) -> Option<Box<RawValue>> {
        let raw = serde_json::value::to_raw_value(value).ok()?;
        if raw.get().len() > self.parts.object_bytes {
            self.set_truncated();
            return None;
        }
        Some(raw)
    }
}

impl Drop for EventInProgress {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if std::thread::panicking() && self.completes {
            let status = Status::failure(500, "InternalError", "APIServer panic'd");
            self.note_status(500, Some(&status));
            self.write(Stage::Panic).unawaited();
        } else {
            self.end().unawaited();
        }
    }
}

/// The arrival of a request could not be written to a backend that must have it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotStored;

/// Whether an annotation is one of the proxy, and not of kube-apiserver.
fn is_own(key: &str) -> bool {
    let domain = key.split('/').next().unwrap_or_default();
    domain.strip_suffix(OWN_DOMAIN).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// `metav1.MicroTime`: always six digits.
fn micro_time(at: Timestamp) -> String {
    format!("{at:.6}")
}

/// `maybeTruncateUserAgent`
fn cut_user_agent(user_agent: &str) -> String {
    if user_agent.len() <= USER_AGENT_BYTES {
        return user_agent.to_owned();
    }
    let (kept, _) = user_agent.split_at(user_agent.floor_char_boundary(USER_AGENT_BYTES));
    format!("{kept}...TRUNCATED")
}

/// `copyWithoutManagedFields`: removes managedFields of the object, of a list's items, and of the objects in a table's rows.
fn without_managed_fields(object: &Value) -> Cow<'_, Value> {
    let mut object = object.clone();
    let drop_from = |object: &mut Value| {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    };
    drop_from(&mut object);
    let is_table = object.get("kind").and_then(Value::as_str) == Some("Table");
    if let Some(rows) = object.get_mut("rows").filter(|_| is_table).and_then(Value::as_array_mut) {
        rows.iter_mut().filter_map(|row| row.get_mut("object")).for_each(drop_from);
    }
    if let Some(items) = object.get_mut("items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(drop_from);
    }
    Cow::Owned(object)
}

/// The name of an issued token in the events of its requests (`serviceaccount.CredentialIDForJTI`). The token itself is in no event.
fn credential_id(token: &str) -> Option<String> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let id = claims.get("jti")?.as_str().filter(|id| !id.is_empty())?;
    Some(format!("JTI={id}"))
}
