//! The webhook front end: it answers the AdmissionReviews of an API server with the same plugins as the proxy.
//!
//! `/mutate` runs the mutating phase and answers with a JSON patch, `/validate` runs the validating phase. A request that cannot be decided
//! gets an HTTP error, so that the failurePolicy of the webhook decides.

mod metrics;
mod own_user;
mod patch;
mod review;
mod seats;

pub use metrics::FrontEndMetrics;
pub(crate) use own_user::OwnUserName;
pub use seats::Seats;

use crate::admission::{
    Annotations, Attributes, Budget, CallerAuthorizer, Chain, Denial, Level, Phase, RefusalLog, Refused, RequestContext,
};
use crate::arrivals::{Arrival, Arrivals};
use crate::authn::Authenticator;
use crate::authz::Authorizer;
use crate::body::{Body, full};
use crate::config::Limits;
use crate::matching::is_exempt;
use crate::processor::{self, Processor};
use crate::request::body::{self, BodyRoom, MediaType, MediaTypes};
use crate::request::timeout;
use crate::response::{self, ResponseForm};
use crate::server::Connection;
use crate::sharer::Sharer;
use crate::status::Status;
use crate::user::UserInfo;
use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response};
use review::{Answer, Review};
use std::sync::Arc;
use tokio::time::Instant;

/// The groups of the reviews that an API server answers without storing anything. The front end itself creates such reviews.
const GROUPS_OF_REVIEWS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];

/// The tenants, whose plugins answer the reviews of their namespaces.
#[async_trait]
pub trait ReviewingTenants: Send + Sync {
    /// Returns the plugins of the tenant of a request; `None` if the namespace has no tenant.
    ///
    /// # Errors
    /// If the API server does not tell the tenant of the namespace.
    async fn plugins(&self, attributes: &Attributes) -> Result<Option<Arc<Chain>>, Status>;
}

/// The components of the front end.
pub struct FrontEnd {
    /// The authentication of API servers.
    pub authenticator: Authenticator,
    /// The names of the accepted API servers; empty for every caller that the authenticator accepts.
    pub allowed_names: Vec<String>,
    /// The tenants, whose plugins answer.
    pub tenants: Arc<dyn ReviewingTenants>,
    /// The authorizer of which plugins ask whether the user of a review may do something.
    pub authorizer: Arc<Authorizer>,
    /// The scheduler of the work on reviews.
    pub processor: Processor,
    /// The user of the proxy's own requests, which are not reviewed.
    pub own_user: Arc<OwnUserName>,
    /// The memory for reviews whose bodies are arriving.
    pub arriving: Arrivals,
    /// The places of reviews that have arrived.
    pub seats: Seats,
    /// The memory for reviews that have arrived.
    pub bodies: BodyRoom,
    /// The lines of the log about refusals.
    pub refusals: RefusalLog,
    /// The metrics of reviews.
    pub metrics: FrontEndMetrics,
    /// The limits of the process.
    pub limits: Arc<Limits>,
}

/// Returns the phase that a path names.
fn phase_of(path: &str) -> Option<Phase> {
    match path {
        "/mutate" => Some(Phase::Admit),
        "/validate" => Some(Phase::Validate),
        _ => None,
    }
}

impl FrontEnd {
    /// Answers a request; a refusal becomes a response too.
    pub async fn handle(&self, request: Request<Body>) -> Response<Body> {
        let started = Instant::now();
        let phase = phase_of(request.uri().path());
        let answered = match phase {
            Some(phase) => Box::pin(self.answer(request, phase)).await,
            None => Err(Status::page_not_found()),
        };
        let (allowed, response) = match answered {
            Ok((allowed, body)) => {
                let mut response = Response::new(full(body));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                (Some(allowed), response)
            }
            Err(refusal) => {
                tracing::debug!(code = refusal.code, why = refusal.message, "review not answered");
                (None, response::status(&Status { is_text: true, ..refusal }, ResponseForm::default()))
            }
        };
        self.metrics.answered(phase, response.status().as_u16(), allowed, started.elapsed());
        response
    }

    /// Returns the answer to a review as JSON, and whether it allows the request.
    async fn answer(&self, mut request: Request<Body>, phase: Phase) -> Result<(bool, Bytes), Status> {
        let (caller, arriving, deadline) = self.begin(&mut request).await?;
        let work = async {
            let Limits { review_bytes, review_body_timeout, .. } = *self.limits;
            let late = |_| Status::text(408, "the body of the review took too long");
            let reading = async {
                let arrived = body::arrive(request.into_body(), review_bytes, [Some(&arriving), None]);
                let (body, weight) = tokio::time::timeout(review_body_timeout, arrived).await.map_err(late)??;
                Ok::<_, Status>((body, self.bodies.take(weight, &caller).await?))
            };
            let (body, _room) = tokio::select! {
                read = reading => read?,
                () = arriving.given_up() => return Err(too_many()),
            };
            // A review takes its seat when it has arrived: a client that sends slowly keeps nobody else out.
            let _seat = self.seats.take(&caller).ok_or_else(too_many)?;
            drop(arriving);
            let decoding = async {
                processor::expect(body.len()).await;
                Review::decode(&body).map_err(|why| Status::text(400, &why.to_string()))
            };
            let review = self.processor.run(&caller, decoding).await?;
            // The values of the review do not borrow from the body.
            drop(body);
            let user = review.user.clone();
            self.processor.run(&Sharer::User(user), self.admit(review, phase, deadline)).await
        };
        let late = || Status::text(504, "the review took longer than the API server waits");
        tokio::time::timeout_at(deadline, work).await.map_err(|_| late())?
    }

    /// Checks everything but the body. Returns the caller, the place of the arriving body and the deadline of the answer.
    async fn begin(&self, request: &mut Request<Body>) -> Result<(Sharer, Arrival, Instant), Status> {
        if *request.method() != Method::POST {
            return Err(Status::text(405, "a review is sent with POST"));
        }
        let caller = self.caller(request).await?;
        let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if body::media_type(content_type, MediaTypes::default()) != Ok(MediaType::Json) {
            return Err(Status::text(415, "the Content-Type of a review must be application/json"));
        }
        let asked = timeout::asked(request.uri().query().unwrap_or_default())?;
        let longest = self.limits.request_timeout;
        let arriving = self.arriving.enter(caller.clone());
        Ok((caller, arriving, Instant::now() + asked.map_or(longest, |asked| asked.min(longest))))
    }

    /// Returns the calling API server by its name, or by its address if callers may be anonymous.
    async fn caller(&self, request: &mut Request<Body>) -> Result<Sharer, Status> {
        let connection = request.extensions().get::<Arc<Connection>>().cloned();
        let connection = connection.ok_or_else(|| Status::internal_error("the request came on no connection"))?;
        let authenticated = self.authenticator.authenticate(request.headers_mut(), &connection).await;
        let user: Arc<UserInfo> = authenticated.map_err(Status::from)?.user;
        if user.is_anonymous() {
            return Ok(Sharer::of_address(connection.remote.ip()));
        }
        if !self.allowed_names.is_empty() && !self.allowed_names.contains(&user.username) {
            let why = format!("{:?} is none of --webhook-allowed-names", user.username);
            return Err(Status::text(403, &why));
        }
        Ok(Sharer::User(user))
    }

    /// Runs the phase on the request of the review.
    async fn admit(&self, review: Review, phase: Phase, deadline: Instant) -> Result<(bool, Bytes), Status> {
        let id = review.id();
        let mut attributes = self.attributes(review, deadline);
        let answer = match self.is_skipped(&attributes) {
            true => Answer::default(),
            false => match self.tenants.plugins(&attributes).await? {
                Some(chain) => Self::run(&chain, phase, &mut attributes).await,
                None => {
                    let why = "the namespace is not one of a single tenant: correct its label";
                    let refusal = Denial::forbidden(why).into_status(&attributes);
                    Answer { refusal: Some(refusal), ..Answer::default() }
                }
            },
        };
        if let Some(refusal) = &answer.refusal {
            let path = review_path(&attributes);
            self.refusals.note(&Refused {
                verb: attributes.operation.as_str(),
                path: &path,
                user: &attributes.context.user,
                tenant: None,
                plugin: attributes.refused_by.get().copied(),
                refusal,
                audit_id: None,
                uid: Some(id.uid()),
            });
        }
        let body = answer.encode(&id).map_err(Status::internal_error)?;
        Ok((answer.refusal.is_none(), body.into()))
    }

    async fn run(chain: &Chain, phase: Phase, attributes: &mut Attributes) -> Answer {
        let mut answer = Answer::default();
        let result = match phase {
            Phase::Validate => chain.validate(attributes).await,
            Phase::Admit => {
                let before = attributes.object.clone();
                let result = chain.admit(attributes).await;
                if let (Ok(()), Some(before), Some(after)) = (&result, &before, &attributes.object) {
                    answer.patch = patch::between(before, after);
                }
                result
            }
        };
        answer.refusal = result.err();
        answer.warnings = attributes.context.warnings.texts();
        answer.annotations = attributes.annotations.take();
        answer
    }

    /// The attributes of the request of a review. The object is in the version of the review's kind, which may differ from that of the
    /// request.
    fn attributes(&self, review: Review, deadline: Instant) -> Attributes {
        let context = RequestContext {
            authorizer: CallerAuthorizer::new(self.authorizer.clone(), review.user.clone(), None),
            budget: Budget::new(self.limits.admission_timeout),
            ..RequestContext::new(review.user, deadline)
        };
        Attributes {
            subresource: review.subresource,
            namespace: review.namespace,
            name: review.name,
            object: review.object,
            old_object: review.old_object.map(Arc::new),
            options: review.options.map(Arc::new),
            dry_run: review.dry_run,
            // The API server publishes the annotations of a webhook at this level.
            annotations: Annotations::published_up_to(Some(Level::Metadata)),
            ..Attributes::new(review.operation, review.kind, review.resource, context)
        }
    }

    /// Whether the request passes without a plugin, whatever the rules of the webhook configuration: it is the proxy's own, one that the
    /// proxy causes, or one that repairs the webhook configuration itself.
    fn is_skipped(&self, attributes: &Attributes) -> bool {
        is_exempt(attributes)
            || GROUPS_OF_REVIEWS.contains(&&*attributes.resource.group)
            || self.own_user.is(&attributes.context.user.username)
    }
}

/// The path of the object of a review, for a line of the log.
fn review_path(attributes: &Attributes) -> String {
    let Attributes { resource, subresource, namespace, name, .. } = attributes;
    let parts = [&*resource.group, &*resource.resource, namespace, name, subresource];
    parts.into_iter().filter(|part| !part.is_empty()).fold(String::new(), |path, part| path + "/" + part)
}

fn too_many() -> Status {
    Status::text(429, "too many reviews in flight")
}

#[cfg(test)]
mod tests;
