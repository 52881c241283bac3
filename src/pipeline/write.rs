//! The common parts of all writes: body, options, attributes, and the request to the API server.

use super::gateway::{Answer, without_cbor};
use super::inflight::Seat;
use super::permission::Permission;
use super::request_log::{Part, Times};
use super::rest::Rest;
use super::target::Target;
use super::{Caller, Exchange, Pipeline};
use crate::admission::{Attributes, Operation, Warnings};
use crate::body::Body;
use crate::cluster::CustomResource;
use crate::config::Limits;
use crate::kind::GroupVersionKind;
use crate::object::merge::Node;
use crate::object::normal::Normal;
use crate::object::patch::PatchType;
use crate::object::structural::Structural;
use crate::object::{Object, typed};
use crate::request::body::{
    self, BodyForm, DecodedObject, InvalidOutcome, MediaType, OptionsKind, OtherKind, WriteOptions,
};
use crate::request::timeout;
use crate::shares::Growing;
use crate::status::Status;
use crate::turns::Turn;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Method, Request, StatusCode};
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The start of the API server's error for a scale without replicas.
const NO_REPLICAS: &str = "Internal error occurred: the spec replicas field ";

/// The time after a client's timeout in which the API server may still answer that it has waited for initializers without success.
const GRACE: Duration = Duration::from_secs(2);

/// A write in progress: the request as it came, and its target.
pub(super) struct Write<'a> {
    pub(super) pipeline: &'a Pipeline,
    pub(super) caller: &'a Caller,
    pub(super) permission: Permission<'a>,
    pub(super) target: Target,
    /// The schema of the custom resource in the body; `None` for other kinds.
    pub(super) schema: Option<Arc<Structural>>,
    /// The storage version of the custom resource.
    pub(super) storage_version: Option<String>,
    /// Whether a dry run stores nothing. The server of an aggregated API may not support dry run: then the proxy sends no dry run
    /// before admission, not even the client's own. Always true for a delete, which never needs a dry run.
    pub(super) knows_dry_runs: bool,
    /// Whether the API server behind may have fields that this proxy does not know.
    pub(super) may_have_rest: bool,
    pub(super) parts: Parts,
    pub(super) body: Bytes,
    /// The times of the parts of the write.
    pub(super) times: Arc<Times>,
    /// The room for the stored object.
    room: Mutex<Growing>,
    pub(super) deadline: Instant,
    pub(super) time_limit: TimeLimit,
    pub(super) warnings: Arc<Warnings>,
}

/// The object in a body.
pub(super) struct Decoded {
    pub(super) object: Object,
    pub(super) sent: Sent,
}

/// The properties of a body besides its object.
#[derive(Default)]
pub(super) struct Sent {
    /// The media type of the body, if the API server behind decodes exactly the same object from its bytes.
    pub(super) verbatim: Option<MediaType>,
    /// The unknown fields, which plugins do not see.
    pub(super) rest: Rest,
    /// Whether the object has no namespace.
    pub(super) lacks_namespace: bool,
}

/// The attempts of a write. A write starts over after a conflict, unless the client named the resourceVersion.
pub(super) struct Attempts<'a> {
    limits: &'a Limits,
    /// The turn of the object, which a write waits for before it starts over.
    turn: Option<Turn<'a>>,
    made: usize,
    /// The version that the last attempt admitted, and how many attempts in a row have repeated that version.
    last: String,
    repeated: usize,
}

impl<'a> Attempts<'a> {
    pub(super) fn new(limits: &'a Limits) -> Self {
        Self { limits, turn: None, made: 0, last: String::new(), repeated: 0 }
    }

    /// Like [`Self::may_go_on`]. If so, waits for the turn of the object.
    pub(super) async fn start_over(&mut self, write: &'a Write<'_>, admitted: &str) -> bool {
        let may_go_on = self.may_go_on(admitted);
        if may_go_on && self.turn.is_none() {
            let end = write.deadline.min(Instant::now() + self.limits.conflict_wait);
            let Target { resource, namespace, name, .. } = &write.target;
            let object = (&resource.group, &resource.resource, namespace, name);
            self.turn = write.pipeline.turns.wait(object, end).await;
        }
        may_go_on
    }

    /// Whether another attempt may follow one that admitted the object at this version (empty for a missing object).
    pub(super) fn may_go_on(&mut self, admitted: &str) -> bool {
        self.repeated = if self.made > 0 && self.last == admitted { self.repeated + 1 } else { 0 };
        admitted.clone_into(&mut self.last);
        self.made += 1;
        self.made < self.limits.conflict_retries && self.repeated < self.limits.unexplained_retries
    }
}

/// The origin of a write's deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeLimit {
    /// The request's `?timeout=`.
    OfClient,
    /// The proxy's limit for all writes.
    OfServer,
}

impl TimeLimit {
    /// The answer to a write that took too long.
    pub(super) fn status(self) -> Status {
        match self {
            Self::OfClient => Status::out_of_allotted_time(),
            Self::OfServer => Status::out_of_requested_time(),
        }
    }
}

/// The consequence of strict decoding errors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Strictness {
    /// The write goes on.
    Passed,
    /// The write is refused, as the client asked for.
    Refused,
}

impl<'a> Write<'a> {
    /// Reads the body, and looks up the schema and the dry-run support of the target.
    ///
    /// # Errors
    /// 413 if the body is too large; 429 if there is no seat for the write when the body has arrived.
    pub(super) async fn begin(
        pipeline: &'a Pipeline,
        request: Request<Body>,
        target: Target,
        permission: Permission<'a>,
        exchange: &mut Exchange,
    ) -> Result<Self, Status> {
        let caller = permission.caller;
        let (mut parts, stream) = request.into_parts();
        if !pipeline.media_types.has_cbor {
            without_cbor(&mut parts.headers);
        }
        let limits = &pipeline.limits;
        // A collection may take as long as any other request: `handlers.DeleteCollection` sets no bound of its own.
        let is_collection = parts.method == Method::DELETE && target.name.is_empty();
        let may_wait = pipeline.may_wait(&parts.method, &target.subresource);
        let longest = if is_collection || may_wait { limits.request_timeout } else { limits.mutating_timeout };
        let asked = timeout::asked(parts.uri.query().unwrap_or_default())?;
        let time_limit =
            if asked.is_some_and(|asked| asked <= longest) { TimeLimit::OfClient } else { TimeLimit::OfServer };
        // The API server behind answers a create whose wait for initializers fails, and counts the time from its own start.
        let asked = if may_wait { asked.map(with_grace) } else { asked };
        let deadline = Instant::now() + asked.map_or(longest, |asked| longest.min(asked));
        let times = exchange.times.insert(Arc::default()).clone();
        let arriving = times.begin(Part::Body);
        let sharer = pipeline.tenant.sharer(&caller.user);
        let arrivals = exchange.seat.as_ref().map_or([None; 2], Seat::arrivals);
        let reading = pipeline.bodies.read(stream, limits.body_bytes, arrivals, &sharer);
        let reading = tokio::time::timeout_at(deadline, reading);
        let body = match &exchange.seat {
            Some(seat) => tokio::select! {
                read = reading => read,
                refusal = seat.given_up() => return Err(refusal),
            },
            None => reading.await,
        };
        let body = body.map_err(|_| time_limit.status())??;
        drop(arriving);
        pipeline.metrics.body(permission.info, body.len());
        exchange.seat = exchange.seat.take().map(Seat::arrived).transpose()?;
        let custom = custom_resource(pipeline, &parts.method, &target).await?;
        let is_aggregated = custom.is_none() && !target.is_built_in() && !target.is_of_kubernetes();
        let knows_dry_runs = match is_aggregated && parts.method != Method::DELETE {
            true => pipeline.dry_runs.are_known(&pipeline.gateway, caller, &parts.method, &target).await,
            false => true,
        };
        // The scale of a custom resource has a built-in kind.
        let custom = custom.filter(|_| schema(target.kind()).is_none());
        let schema = custom.as_ref().map(|custom| custom.schema().cloned()).transpose()?;
        let storage_version = custom.map(|custom| custom.storage_version.clone());
        let may_have_rest = typed::is_known(target.kind()) && pipeline.gateway.release.may_know_more().await;
        let warnings = exchange.warnings.clone();
        Ok(Self {
            pipeline,
            caller,
            permission,
            target,
            schema,
            storage_version,
            knows_dry_runs,
            may_have_rest,
            parts,
            body,
            times,
            room: Mutex::default(),
            deadline,
            time_limit,
            warnings,
        })
    }

    /// Returns the merge schema of the written object.
    pub(super) fn node(&self) -> Node<'_> {
        let custom = || self.schema.as_deref().and_then(Structural::root).map_or(Node::Resource, Node::Whole);
        Node::built_in(self.target.kind()).unwrap_or_else(custom)
    }

    /// Parses the options in the query.
    pub(super) fn options(&self, kind: OptionsKind) -> Result<WriteOptions, Status> {
        WriteOptions::from_query(self.parts.uri.query().unwrap_or_default(), kind)
    }

    pub(super) fn media_type(&self) -> Result<MediaType, Status> {
        body::media_type(self.header(CONTENT_TYPE), self.pipeline.media_types)
    }

    pub(super) fn header(&self, name: http::HeaderName) -> Option<&str> {
        // A value that is not text matches no known value, and neither does `?`.
        self.parts.headers.get(name).map(|value| value.to_str().unwrap_or("?"))
    }

    /// Decodes the body of a create or update.
    pub(super) fn decode_body(&self, media_type: MediaType, form: BodyForm<'_>) -> Result<DecodedObject, Status> {
        let kind = self.target.kind();
        let other = if self.pipeline.cluster.serves_removed(kind) { OtherKind::Removed } else { OtherKind::Custom };
        body::decode_object_of(&self.body, media_type, kind, form, other, self.pipeline.defaulting)
    }

    /// Decodes the outcome of a patch or an apply.
    pub(super) fn decode_patched(&self, patched: Value) -> Result<Normal, InvalidOutcome> {
        body::decode_patched(patched, self.target.kind(), self.schema.as_deref(), self.pipeline.defaulting)
    }

    /// Decodes the object in the body of a create or update, as kube-apiserver's decoder does.
    pub(super) fn decode(&self, options: &WriteOptions, exchange: &mut Exchange) -> Result<Decoded, Status> {
        let media_type = self.media_type()?;
        let kind = self.target.kind();
        let schema = self.schema.as_deref();
        let form = if self.may_have_rest { BodyForm::Carrying(schema) } else { BodyForm::Normal(schema) };
        let mut decoded = self.decode_body(media_type, form)?;
        if self.pipeline.keeps_initializers {
            decoded = decoded.with_initializers(&self.body, media_type, kind)?;
        }
        let found = self.report_strict_errors(options, decoded.strict_warnings());
        if let (Strictness::Refused, Some(found)) = (found, decoded.strict_errors(media_type)) {
            let (name, version) = (&kind.kind, &kind.version);
            let why = format!("strict decoding error: {found}");
            return Err(Status::bad_request(format!(
                "{name} in version {version:?} cannot be handled as a {name}: {why}"
            )));
        }
        if let Some(event) = &mut exchange.event {
            event.set_request_object(&decoded.object);
        }
        let verbatim = decoded.is_verbatim.then_some(media_type);
        let rest = Rest::of(decoded.unseen, &decoded.object);
        let lacks_namespace = decoded.object.namespace().is_empty();
        Ok(Decoded { object: decoded.object, sent: Sent { verbatim, rest, lacks_namespace } })
    }

    /// Refuses, warns about or ignores unknown and duplicate fields, as `fieldValidation` asks.
    pub(super) fn report_strict_errors<'b>(
        &self,
        options: &WriteOptions,
        errors: impl Iterator<Item = &'b String>,
    ) -> Strictness {
        let mut errors = errors.peekable();
        match options.validation_directive() {
            "Strict" if errors.peek().is_some() => return Strictness::Refused,
            "Warn" => errors.for_each(|text| self.warnings.add(text)),
            _ => {}
        }
        Strictness::Passed
    }

    /// Returns the admission attributes of the write.
    pub(super) fn attributes(
        &self,
        operation: Operation,
        object: Option<Object>,
        old_object: Option<Arc<Object>>,
        options: Object,
    ) -> Attributes {
        let target = &self.target;
        let mut attributes = Attributes {
            object,
            old_object,
            dry_run: options.items(&["dryRun"]).iter().any(|value| value == "All"),
            options: Some(Arc::new(options)),
            ..self.pipeline.attributes(operation, target, self.caller, self.deadline, &self.warnings)
        };
        if operation == Operation::Create
            && let Some(object) = &attributes.object
        {
            if target.subresource.is_empty() {
                attributes.name = object.name().to_owned();
            }
            if target.is_namespaces() && attributes.namespace.is_empty() {
                attributes.namespace = attributes.name.clone();
            }
        }
        attributes
    }

    /// Returns the path at which the written object can be read: the URL, or its parent if the subresource cannot be read.
    pub(super) fn readable_path(&self) -> &str {
        let path = self.parts.uri.path().trim_end_matches('/');
        match path.rsplit_once('/') {
            Some((parent, _)) if !self.target.subresource.is_empty() && !self.target.can_get() => parent,
            _ => path,
        }
    }

    /// Reads the stored object. A caller without the permission for the write is refused in the same time, whether there is an object or
    /// not.
    pub(super) async fn old_object(&self) -> Result<Option<Object>, Status> {
        let _reading = self.times.begin(Part::Read);
        // Both questions are asked at the same time, so that a caller with the permission does not wait for both.
        let ((), old) = tokio::try_join!(self.permission.check_disclosure(), self.read_old_object())?;
        Ok(old)
    }

    async fn read_old_object(&self) -> Result<Option<Object>, Status> {
        // The object that an earlier attempt read is gone.
        self.hold(Growing::default());
        let read = self.pipeline.gateway.read_holding(self.readable_path(), self.caller).await.map(|(object, room)| {
            self.hold(room);
            object
        });
        match read {
            Err(why) if self.target.subresource == "scale" && why.message.starts_with(NO_REPLICAS) => {
                self.scale_without_replicas().await?.map_or(Err(why), |scale| Ok(Some(scale)))
            }
            read => read,
        }
    }

    /// Keeps the room for the stored object, as long as the write or until its next attempt.
    fn hold(&self, room: Growing) {
        *self.room.lock().unwrap_or_else(PoisonError::into_inner) = room;
    }

    /// Builds the scale of a custom resource whose replicas are unset: a read of that scale fails, but a write may set the
    /// replicas (`scaleUpdatedObjectInfo`).
    async fn scale_without_replicas(&self) -> Result<Option<Object>, Status> {
        let Some(definition) = self.pipeline.cluster.find_definition(&self.target.resource).await? else {
            return Ok(None);
        };
        let Some(paths) = definition.version(&self.target.resource.version).and_then(|version| version.scale.clone())
        else {
            return Ok(None);
        };
        let Some(parent) = self.pipeline.gateway.read(self.collection_path(), self.caller).await? else {
            return Ok(None);
        };
        let at = |path: &str| {
            let path: Vec<&str> = path.trim_start_matches('.').split('.').collect();
            parent.get(&path).cloned()
        };
        let mut metadata = Map::new();
        for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            metadata.extend(parent.get(&["metadata", field]).map(|value| (field.to_owned(), value.clone())));
        }
        let mut status = Map::new();
        status.insert("replicas".to_owned(), at(&paths.status_replicas_path).unwrap_or_else(|| 0.into()));
        let selector = paths.label_selector_path.as_deref().and_then(at);
        status.extend(selector.map(|selector| ("selector".to_owned(), selector)));
        Ok(Object::from_value(json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata,
            "spec": {"replicas": i32::MIN}, "status": status})))
    }

    /// Checks that the caller of a PUT or apply that creates an object may create it (`handlers.withAuthorization`).
    pub(super) async fn authorize_create(&self) -> Result<(), Status> {
        let mut info = crate::request::info::request_info(&self.parts.method, &self.parts.uri);
        info.verb = "create".into();
        self.pipeline.authorizer.authorize(&self.caller.user, &info, self.caller.credentials.as_ref()).await.map(|_| ())
    }

    /// Returns the path of the object's collection.
    pub(super) fn collection_path(&self) -> &str {
        let path = self.parts.uri.path().trim_end_matches('/');
        path.rsplit_once('/').map_or("", |(collection, _)| collection)
    }

    /// Returns the type of the patch in `Content-Type`.
    pub(super) fn patch_type(&self) -> Result<PatchType, Status> {
        PatchType::from_content_type(self.header(CONTENT_TYPE), self.pipeline.media_types.has_cbor)
    }

    /// Whether the write is a server-side apply.
    pub(super) fn is_apply(&self) -> bool {
        self.parts.method == Method::PATCH && self.patch_type().ok() == Some(PatchType::Apply)
    }

    /// Returns the 404 that the API server would answer.
    pub(super) fn not_found(&self) -> Status {
        Status::not_found(&self.target.resource.group, &self.target.resource.resource, &self.target.name)
    }

    /// Returns the 409 that the API server would answer.
    pub(super) fn conflict(&self, why: &str) -> Status {
        Status::conflict(&self.target.resource.group, &self.target.resource.resource, &self.target.name, why)
    }
}

/// Finds the custom resource with whose schema the API server decodes the body; `None` for other kinds and for deletes.
async fn custom_resource(
    pipeline: &Pipeline,
    method: &Method,
    target: &Target,
) -> Result<Option<Arc<CustomResource>>, Status> {
    if target.is_built_in() || *method == Method::DELETE {
        return Ok(None);
    }
    pipeline.cluster.find_custom_resource(&target.resource, target.resource_kind()).await
}

impl Pipeline {
    /// Whether a create may wait for initializers.
    pub(super) fn may_wait(&self, method: &Method, subresource: &str) -> bool {
        self.keeps_initializers && *method == Method::POST && subresource.is_empty()
    }
}

/// The time for a create that waits, from the client's timeout.
fn with_grace(asked: Duration) -> Duration {
    asked.saturating_add(GRACE)
}

/// Whether the API server refused because the stored object is not the admitted one.
pub(super) fn is_conflict(answer: &Answer) -> bool {
    answer.status == StatusCode::CONFLICT && answer.status().is_some_and(|status| status.reason == "Conflict")
}

/// Whether the API server refused because the object already exists.
pub(super) fn is_already_exists(answer: &Answer) -> bool {
    answer.status == StatusCode::CONFLICT && answer.status().is_some_and(|status| status.reason == "AlreadyExists")
}

/// Removes the fields that only the API server sets (`rest.WipeObjectMetaSystemFields`).
pub(super) fn wipe_system_fields(object: &mut Object) {
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "uid"] {
        object.remove(&["metadata", field]);
    }
}

/// Returns the schema of a built-in kind; `None` for a kind of a custom resource or an aggregated API.
pub(super) fn schema(kind: &GroupVersionKind) -> Option<&'static crate::object::schema::ApiType> {
    crate::object::schema::of(kind)
}
