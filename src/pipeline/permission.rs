//! The caller's permission for a request, which the proxy asks for only if the proxy needs the decision itself.
//!
//! With `--authorization-mode=AlwaysAllow` the API server authorizes the requests that it receives. It receives no request that the
//! proxy refuses, and it receives a write only after plugins have had their side effects.

use super::gateway::with_body;
use super::{Caller, Pipeline};
use crate::admission::{Attributes, Phase};
use crate::authz::{AccessAttributes, Decision, own_question};
use crate::request::RequestInfo;
use crate::status::Status;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method, Uri};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use tokio::sync::OnceCell;

const PATH: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// The caller's permission for a request. The API server is asked at most once.
pub(super) struct Permission<'a> {
    pipeline: &'a Pipeline,
    pub(super) info: &'a RequestInfo,
    pub(super) caller: &'a Caller,
    /// The decision, once it is known.
    decision: OnceCell<Result<(), Status>>,
}

impl<'a> Permission<'a> {
    /// Creates the permission for a request that the proxy's authorizer has allowed.
    pub(super) fn new(pipeline: &'a Pipeline, info: &'a RequestInfo, caller: &'a Caller) -> Self {
        let known = (!pipeline.authorizer.leaves_it_to_the_upstream()).then_some(Ok(()));
        Self { pipeline, info, caller, decision: OnceCell::new_with(known) }
    }

    /// Checks that the caller may get an answer about the objects that the proxy has read.
    ///
    /// # Errors
    /// 403 with the API server's text if the caller may not; the API server's error if there is no decision.
    pub(super) async fn check_disclosure(&self) -> Result<(), Status> {
        // With the client's own credentials the proxy reads no more than the client may.
        if self.caller.credentials.is_some() {
            return Ok(());
        }
        self.check().await
    }

    /// Checks that the caller may cause the side effects that plugins may have in the phase, and marks the attributes if the permission
    /// is known. Without side effects the API server decides about the write later.
    ///
    /// # Errors
    /// As for [`Self::check_disclosure`].
    pub(super) async fn check_before(&self, phase: Phase, attributes: &mut Attributes) -> Result<(), Status> {
        if !self.decision.initialized() && self.pipeline.chain.has_side_effects(phase, attributes) {
            self.check().await?;
        }
        attributes.context.is_authorized = matches!(self.decision.get(), Some(Ok(())));
        Ok(())
    }

    /// Records that the API server has accepted the caller's request as a dry run, which needs the same permission.
    pub(super) fn show(&self) {
        // A known decision stays.
        let _is_first = self.decision.set(Ok(()));
    }

    async fn check(&self) -> Result<(), Status> {
        let ask = || async {
            let asking = Box::pin(self.pipeline.ask_as_caller(self.info, self.caller));
            let limit = self.pipeline.limits.mutating_timeout;
            tokio::time::timeout(limit, asking).await.unwrap_or_else(|_| Err(Status::out_of_requested_time()))
        };
        self.decision.get_or_init(ask).await.clone()
    }
}

impl Pipeline {
    async fn ask_as_caller(&self, info: &RequestInfo, caller: &Caller) -> Result<(), Status> {
        let attributes = AccessAttributes::from(info);
        let question = serde_json::to_vec(&own_question(&attributes)).map_err(Status::internal_error)?;
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        let request = with_body(&Method::POST, &Uri::from_static(PATH), &headers, "application/json", question.into());
        let answer = self.gateway.ask_as(caller, request).await?;
        let decision = match answer.status.as_u16() {
            200..=299 => {
                let review: SelfSubjectAccessReview =
                    serde_json::from_slice(&answer.body).map_err(Status::internal_error)?;
                review.status.map(Decision::from).unwrap_or_default()
            }
            // An API server without access reviews has no authorization.
            404 | 405 => return Ok(()),
            // A caller without the permission to ask has no permission for the request either.
            401 | 403 => Decision::default(),
            _ => return Err(answer.into_refusal()),
        };
        match decision.allowed {
            true => Ok(()),
            false => Err(attributes.forbidden(&caller.user, &decision.reason)),
        }
    }
}
