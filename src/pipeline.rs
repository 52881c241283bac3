//! The path of a request, top to bottom.
//!
//! [`Pipeline::handle`] is the outer shell: it writes the audit event and the warnings, and turns errors into responses.
//! `Pipeline::answer` is the path itself, one line a step. The modules in `pipeline/` handle each kind of write.

mod admit;
mod answer_object;
mod answers;
mod audited;
mod cluster_ips;
mod collection;
mod connect;
mod create;
mod delete;
mod deletion;
mod dry_run;
mod eviction;
mod field_owners;
mod gateway;
mod inflight;
mod initializers;
mod look;
mod loopback;
mod measure;
mod managed_fields;
mod negotiate;
mod outgoing;
mod owner_references;
mod owners;
mod parts;
mod patch;
mod permission;
mod ready;
mod request_log;
mod resource_version;
mod rest;
mod before_storage;
mod tenancy;
mod tenant;
mod confinement;
mod identity;
mod apply;
mod target;
mod unknown_fields;
mod update;
mod view;
mod write;

use answers::Answers;
use collection::DeleteCollection;
pub(crate) use confinement::{OwnNamespaces, Territory};
use create::Create;
use delete::Delete;
use dry_run::DryRuns;
use gateway::{Caller, Gateway};
pub use identity::Known;
use inflight::{InFlight, Seat};
pub(crate) use look::{LOOK, page};
use measure::RequestMetrics;
pub use parts::{Parts, Process};
use request_log::{SlowRequests, Times};
pub(crate) use tenancy::{Choice, Part, Tenancy, Tenants};
pub(crate) use tenant::Tenant;

use crate::admission::{
    Annotation, Annotations, Attributes, Budget, CallerAuthorizer, Chain, Effects, Operation, RefusalLog, Refused,
    RequestContext, Warnings,
};
use crate::audit::{self, AUDIT_ID, Audit, DECISION_ANNOTATION, EventInProgress, REASON_ANNOTATION};
use crate::authn::Authenticator;
use crate::authz::Authorizer;
use crate::body::Body;
use crate::cluster::Cluster;
use crate::cluster::discovery::Discovery;
use crate::config::{Limits, Writes};
use crate::impersonation::Impersonation;
use crate::manifests::ReservedNames;
use crate::object::defaults::Defaulting;
use crate::processor::Processor;
use crate::request::RequestInfo;
use crate::request::body::{BodyRoom, MediaTypes};
use crate::request::info::{is_canonical, request_info};
use crate::response;
use crate::server::{Connection, Drain};
use crate::status::Status;
use crate::turns::Turns;
use crate::upstream::{KeptUntilClose, LongRunning, Upgrade, strip_connection};
use crate::user::UserInfo;
use bytes::Bytes;
use http::header::TRANSFER_ENCODING;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use patch::Patch;
use permission::Permission;
use std::sync::Arc;
use std::time::Duration;
use target::Target;
use tokio::time::Instant;
use update::Update;
use write::{TimeLimit, Write};

/// The highest number of header fields in a request.
const MAX_HEADERS: usize = 1_000;
/// Headers with which a client asks some servers to use another method. The proxy removes them from every request.
const METHOD_OVERRIDES: [HeaderName; 3] = [
    HeaderName::from_static("x-http-method"),
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-method-override"),
];

/// The path of the requests of one tenant.
pub struct Pipeline {
    authenticator: Arc<Authenticator>,
    impersonation: Arc<Impersonation>,
    pub(crate) authorizer: Arc<Authorizer>,
    /// The resources that the API server serves.
    discovery: Arc<Discovery>,
    pub(crate) cluster: Arc<Cluster>,
    chain: Arc<Chain>,
    /// The names that no object of the API may have.
    reserved_names: ReservedNames,
    writes: Writes,
    media_types: MediaTypes,
    /// The defaults of decoded objects.
    defaulting: Defaulting,
    admitted_mark: Option<String>,
    gateway: Gateway,
    /// The cache of the operations of aggregated APIs that support dry run.
    dry_runs: DryRuns,
    audit: Audit,
    in_flight: InFlight,
    /// The memory for the bodies of writes.
    bodies: BodyRoom,
    /// The answers that are being written.
    answers: Answers,
    metrics: RequestMetrics,
    refusals: RefusalLog,
    slow: SlowRequests,
    /// The turns of writes that start over.
    turns: Turns,
    processor: Processor,
    keeps_initializers: bool,
    tenant: Arc<Tenant>,
    limits: Arc<Limits>,
}

/// The results of the steps that the shell needs, whether the steps succeed or fail.
#[derive(Default)]
struct Exchange {
    audit_id: String,
    known: Known,
    /// The user in the audit event; `None` if the event has none.
    user: Option<Arc<UserInfo>>,
    warnings: Arc<Warnings>,
    event: Option<EventInProgress>,
    /// The annotations of the validating phase. The shell drops them if the API server refuses a write that kube-apiserver would
    /// have refused before that phase.
    validated: Vec<Annotation>,
    /// The effects of the validating phase, undone in the same case as its annotations.
    effects: Effects,
    /// The in-flight seat, held until the whole response is written, even if the audit event buffers the response first.
    seat: Option<Seat>,
    /// The time of webhooks of all finished phases.
    webhooks: Duration,
    authentication: Duration,
    authorization: Duration,
    /// The times of the parts of a write.
    times: Option<Arc<Times>>,
    /// The user for whom the request is made; `None` until the user is known.
    caller: Option<Arc<UserInfo>>,
    /// Whether a phase of admission has refused.
    is_denied: bool,
    /// The plugin that has refused.
    refused_by: Option<&'static str>,
    /// Whether a resource handler answers. Only resource handlers support CBOR: filters and routes do not.
    is_routed: bool,
}

impl Exchange {
    /// Empty annotations for one phase, at the level of the audit event.
    fn annotations(&self) -> Annotations {
        let event = self.event.as_ref();
        Annotations::published_up_to(event.map(EventInProgress::annotation_level))
            .naming_changes(event.is_some_and(EventInProgress::names_changes))
    }

    /// Records the latency of a layer.
    fn took(&mut self, layer: &'static str, time: Duration) {
        if let Some(event) = &mut self.event {
            event.add_latency(layer, time);
        }
    }

    /// Records the outcome of a phase, and the latency of its webhooks.
    fn ended<T>(&mut self, phase: &Result<T, Status>, attributes: &Attributes) {
        self.is_denied |= phase.is_err();
        self.refused_by = attributes.refused_by.get().copied().or(self.refused_by);
        let times = attributes.webhook_time.take();
        self.webhooks += times.iter().sum::<Duration>();
        if let Some(event) = &mut self.event {
            event.add_webhook_latency(times);
        }
    }

    /// Adds the annotations of the finished phase to the audit event, whether the phase accepted or refused.
    fn publish(&mut self, annotations: Vec<Annotation>) {
        if let Some(event) = &mut self.event {
            event.annotate_all(annotations);
        }
    }

    /// Keeps the annotations and effects of a validating phase until the API server's answer is known. Publishes the annotations
    /// kept before.
    fn hold(&mut self, annotations: Vec<Annotation>, effects: Effects) {
        self.effects = effects;
        let before = std::mem::replace(&mut self.validated, annotations);
        self.publish(before);
    }

    /// Removes the annotations and warnings of the validating phase and undoes its effects.
    fn forget_validation(&mut self) {
        self.validated.clear();
        self.effects.undo();
        self.warnings.forget_validation();
    }
}

impl Pipeline {
    /// Answers a request; a refusal becomes a response too.
    pub async fn handle(&self, mut request: Request<Body>, known: Known, drain: &Drain) -> Response<Body> {
        let started = Instant::now();
        let info = request_info(request.method(), request.uri());
        let measuring = self.metrics.begin(&request, &info);
        let connection = request.extensions().get::<Arc<Connection>>().cloned();
        let line = request_log::Line::of(&request, connection.as_ref().map(|connection| connection.remote));
        let audit_id = audit::audit_id(request.headers());
        for header in METHOD_OVERRIDES {
            request.headers_mut().remove(header);
        }
        let mut exchange = Exchange { audit_id, known, ..Exchange::default() };
        let form = response::ResponseForm::of(request.headers(), request.uri(), self.media_types);
        let form_of_filters = match self.media_types.has_cbor {
            true => response::ResponseForm::of(request.headers(), request.uri(), MediaTypes::default()),
            false => form,
        };
        let answered = match info.is_long_running() {
            true => {
                request.extensions_mut().insert(LongRunning);
                self.answer(request, &info, &mut exchange).await.map(|response| response.map(|body| drain.ending(body)))
            }
            false => {
                let answer = self.answer(request, &info, &mut exchange);
                let in_time = tokio::time::timeout(self.limits.request_timeout, answer).await;
                in_time.unwrap_or_else(|_| Err(Status::out_of_allotted_time()))
            }
        };
        exchange.hold(Vec::new(), Effects::default());
        let refusal = answered.as_ref().err().cloned();
        let form = if exchange.is_routed { form } else { form_of_filters };
        let mut response = answered.unwrap_or_else(|refusal| response::status(&refusal, form));
        if !refusal.as_ref().is_some_and(Status::is_of_timeout_filter) {
            exchange.warnings.write_to(response.headers_mut(), refusal.is_some());
        }
        let code = response.status().as_u16();
        let tenant = self.tenant.name();
        if let Some(line) = line {
            line.write(tenant, exchange.caller.as_deref(), &exchange.audit_id, code);
        }
        if let (true, Some(user), Some(refusal)) = (exchange.is_denied, &exchange.caller, &refusal) {
            let (verb, path, audit_id) = (&info.verb, &info.path, Some(&*exchange.audit_id));
            let plugin = exchange.refused_by;
            self.refusals.note(&Refused { verb, path, user, tenant, plugin, refusal, audit_id, uid: None });
        }
        self.slow.note(started, tenant, &info, &exchange, code);
        let measured = measuring.answered(&self.discovery, &info, code, refusal.as_ref(), &exchange);
        if let Ok(mut id) = HeaderValue::from_maybe_shared(Bytes::from(std::mem::take(&mut exchange.audit_id))) {
            // A sensitive value stays out of the HPACK table of HTTP/2: no other answer has this id, and the id would push out
            // shared values.
            id.set_sensitive(true);
            response.headers_mut().insert(AUDIT_ID, id);
        }
        let mut response = match exchange.event.take() {
            None => response,
            Some(event) => {
                let user = exchange.user.take().unwrap_or_else(|| Arc::new(UserInfo::anonymous()));
                let sharer = self.tenant.sharer(&user);
                let following = audited::Following {
                    room: &self.gateway.room,
                    sharer: &sharer,
                    seat: exchange.seat.clone(),
                    is_long_running: info.is_long_running(),
                    limits: &self.limits,
                };
                let followed = audited::follow(event, following, response, refusal);
                Box::pin(self.processor.run(&sharer, followed)).await
            }
        };
        let Some(seat) = exchange.seat.take() else { return response };
        let room = response.extensions_mut().remove();
        response.map(|body| match info.is_long_running() {
            true => answers::seated_long(body, seat, measured),
            false => {
                let reader = answers::Reader { connection, ready: self.gateway.room.ready().clone(), room };
                self.answers.seated(body, seat, measured, reader)
            }
        })
    }

    async fn answer(
        &self,
        mut request: Request<Body>,
        info: &RequestInfo,
        exchange: &mut Exchange,
    ) -> Result<Response<Body>, Status> {
        if request.headers().len() > MAX_HEADERS {
            // `HeaderMap` holds at most 24,576 fields, and the proxy adds some.
            return Err(Status::failure(431, "", "the request has too many header fields"));
        }
        if has_unknown_encoding(request.headers()) {
            // `http.badRequestError` of Go's server. The body would be read as chunks, whose content has an unknown encoding.
            return Err(Status::text(501, "Unsupported transfer encoding"));
        }
        if info.is_undetermined() {
            return Err(Status::internal_error(format!(
                "unable to determine kind and namespace from url, {}",
                info.path
            )));
        }
        let caller = self.identify(&mut request, info, exchange).await?;
        exchange.caller = Some(caller.user.clone());
        strip_connection(&mut request);
        let upgrades = request.extensions().get::<Upgrade>().is_some();
        let has_body = !request.body().is_end_stream();
        let seat = self.in_flight.enter(request.method(), info, upgrades, has_body, &caller.user)?;
        if upgrades {
            request.extensions_mut().insert(KeptUntilClose(Arc::new(seat.clone())));
        }
        exchange.seat = Some(seat);
        self.tenant.count_write(request.method())?;
        if let Territory::Namespaces(own) = &self.tenant.territory {
            Box::pin(self.confine(own, request.method(), info, &caller.user)).await?;
        }
        if *request.method() == Method::CONNECT {
            // Client and upstream would take a success as the start of a tunnel on this connection.
            return Err(target::not_allowed());
        }
        if info.path == LOOK && is_read(request.method()) {
            return self.show(request.headers(), info, &caller).await;
        }
        let connect = match self.connect_target(request.method(), info).await {
            Ok(connect) => connect,
            Err(refusal) => {
                // A caller without the permission gets 403, not the answer about the resource.
                Box::pin(self.authorize(info, &caller, exchange)).await?;
                Permission::new(self, info, &caller).check_disclosure().await?;
                return Err(refusal);
            }
        };
        // A GET can connect too. An upstream server that normalizes paths must not find a connect in a path that admission
        // skipped.
        let may_hide_connect = !is_canonical(request.uri()) && connect::is_named_in(&info.path);
        if connect.is_none() && is_read(request.method()) && !may_hide_connect {
            return self.stream(request, &caller, exchange).await;
        }
        if !is_canonical(request.uri()) {
            return Err(target::not_canonical(&info.path, &self.discovery));
        }
        if !info.is_resource_request {
            exchange.seat = exchange.seat.take().map(Seat::arrived).transpose()?;
            return self.stream(request, &caller, exchange).await;
        }
        let caller = self.marked(caller);
        // The futures from here on are on the heap, so that the future of a read does not reserve memory for a write.
        Box::pin(self.authorize(info, &caller, exchange)).await?;
        match connect {
            Some(target) => {
                exchange.is_routed = true;
                Box::pin(self.connect(request, target, &Permission::new(self, info, &caller), exchange)).await
            }
            None => {
                let write = self.write(request, info, &caller, exchange);
                let answered = Box::pin(self.processor.run(&self.tenant.sharer(&caller.user), write)).await;
                if let Some(namespace) = rights_changed_in(info).filter(|_| may_be_stored(&answered)) {
                    self.authorizer.forget_answers(namespace);
                }
                answered
            }
        }
    }

    /// Checks that the caller is authorized, and records the decision in the audit event.
    async fn authorize(&self, info: &RequestInfo, caller: &Caller, exchange: &mut Exchange) -> Result<(), Status> {
        let started = Instant::now();
        let decision = self.authorizer.authorize(&caller.user, info, caller.credentials.as_ref()).await;
        let time = started.elapsed();
        self.metrics.authorized(&decision, time);
        exchange.authorization += time;
        exchange.took("authorization", time);
        if let Some(event) = &mut exchange.event {
            let (decision, reason) = match &decision {
                Ok(decision) => ("allow", decision.reason.clone()),
                Err(_) => ("forbid", String::new()),
            };
            event.annotate(DECISION_ANNOTATION, decision);
            event.annotate(REASON_ANNOTATION, reason);
        }
        decision.map(|_| ())
    }

    /// Streams a request that the API server behind authorizes, and records the decision that the answer shows.
    async fn stream(
        &self,
        request: Request<Body>,
        caller: &Caller,
        exchange: &mut Exchange,
    ) -> Result<Response<Body>, Status> {
        let response = self.gateway.stream(request, caller).await?;
        if let (Some(event), Some(decision)) = (&mut exchange.event, decision_shown_by(response.status())) {
            event.annotate(DECISION_ANNOTATION, decision);
        }
        Ok(response)
    }

    /// The attributes of a caller's request without its objects and options.
    fn attributes(
        &self,
        operation: Operation,
        target: &Target,
        caller: &Caller,
        deadline: Instant,
        warnings: &Arc<Warnings>,
    ) -> Attributes {
        let context = RequestContext {
            user: caller.user.clone(),
            is_authorized: false,
            authorizer: self.authorizer_of(caller),
            sharing: self.tenant.sharing.clone(),
            deadline,
            budget: Budget::new(self.limits.admission_timeout),
            calls: self.tenant.calls.clone(),
            warnings: warnings.clone(),
        };
        Attributes {
            subresource: target.subresource.clone(),
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            defaulting: self.defaulting,
            ..Attributes::new(operation, target.kind().clone(), target.resource.clone(), context)
        }
    }

    /// The authorizer with which plugins check the caller's permissions.
    fn authorizer_of(&self, caller: &Caller) -> CallerAuthorizer {
        CallerAuthorizer::new(self.authorizer.clone(), caller.user.clone(), caller.credentials.clone())
    }

    /// Returns the target of an exec, attach, port-forward or proxy request, and `None` for every other request.
    async fn connect_target(&self, method: &Method, info: &RequestInfo) -> Result<Option<Target>, Status> {
        let may_connect = info.is_resource_request && !info.subresource.is_empty() && !info.name.is_empty();
        if !may_connect || !connect::may_be(info) {
            return Ok(None);
        }
        let target = Target::find(&self.discovery, info).await?;
        target.check(method, info)?;
        Ok(target.is_connect().then_some(target))
    }

    /// Checks that the target supports the write, and that the media types of the request are supported.
    fn check_write(
        &self,
        request: &Request<Body>,
        info: &RequestInfo,
        target: &Target,
        exchange: &mut Exchange,
    ) -> Result<(), Status> {
        let (deprecation, warnings) = (target.deprecation(&self.cluster), &exchange.warnings);
        if target.is_built_in() {
            target.check(request.method(), info)?;
            negotiate::check_route(request, info, self.media_types)?;
            warnings.set_deprecation(deprecation);
        } else {
            // All custom resources share one route, whose handler warns first.
            warnings.set_deprecation(deprecation);
            target.check(request.method(), info)?;
        }
        exchange.is_routed = true;
        negotiate::check(request, info, target, self.media_types)
    }

    /// Answers a mutating request according to its verb.
    async fn write(
        &self,
        request: Request<Body>,
        info: &RequestInfo,
        caller: &Caller,
        exchange: &mut Exchange,
    ) -> Result<Response<Body>, Status> {
        let target = Target::find(&self.discovery, info).await?;
        self.check_write(&request, info, &target, exchange)?;
        let mut write = Write::begin(self, request, target, Permission::new(self, info, caller), exchange).await?;
        let (deadline, limit) = (write.deadline, write.time_limit);
        let work = async {
            match info.verb.as_str() {
                "create" => Create { write: &mut write }.run(exchange).await,
                "update" => Update { write: &write }.run(exchange).await,
                "patch" => Patch { write: &write }.run(exchange).await,
                "delete" => Delete { write: &write }.run(exchange).await,
                "deletecollection" => {
                    // The proxy alone answers for an empty collection, so the API server would not check the caller's permission.
                    write.permission.check_disclosure().await?;
                    DeleteCollection { write: &write }.run(exchange).await
                }
                verb => Err(Status::method_not_supported(&info.api_group, &info.resource, verb)),
            }
        };
        let answered = tokio::time::timeout_at(deadline, work).await.unwrap_or_else(|_| Err(limit.status()));
        let answered = match limit {
            // kube-apiserver's timeout filter answers before any error that the missing time causes.
            TimeLimit::OfClient if Instant::now() >= deadline => answered.map_err(|_| limit.status()),
            _ => answered,
        };
        if answered.is_err() {
            write.permission.check_disclosure().await?;
        }
        answered
    }
}

#[cfg(test)]
mod tests;

/// Whether the request has a transfer encoding other than `chunked` (`http.transferReader.parseTransferEncoding`).
fn has_unknown_encoding(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = encodings.next().is_none_or(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"chunked"));
    !is_chunked || encodings.next().is_some()
}

/// The decision of an API server's authorizer that the code of its answer shows, if any. kube-apiserver authenticates and limits requests
/// before it authorizes them (`DefaultBuildHandlerChain`), and any step may fail with 5xx.
fn decision_shown_by(code: StatusCode) -> Option<&'static str> {
    match code {
        StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS => None,
        StatusCode::FORBIDDEN => Some("forbid"),
        _ => (!code.is_server_error()).then_some("allow"),
    }
}

/// Returns the namespace in which a write changes permissions, empty for all namespaces; `None` if the write changes none.
fn rights_changed_in(info: &RequestInfo) -> Option<&str> {
    match (info.api_group.as_str(), info.resource.as_str()) {
        ("rbac.authorization.k8s.io", "roles" | "rolebindings") => Some(&info.namespace),
        ("rbac.authorization.k8s.io", "clusterroles" | "clusterrolebindings") => Some(""),
        _ => None,
    }
}

/// Whether a write with this answer has, or may have, changed something.
fn may_be_stored(answered: &Result<Response<Body>, Status>) -> bool {
    let code = answered.as_ref().map_or_else(|refusal| refusal.code, |response| response.status().as_u16());
    !(400..500).contains(&code)
}

/// Whether the method changes nothing.
fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}
