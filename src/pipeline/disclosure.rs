//! What the proxy answers by itself tells of objects that it has read: only to who may do what is asked for.
//!
//! With `--authorization-mode=AlwaysAllow` the API server refuses what gets there. What the proxy refuses does not get there,
//! so the API server is asked then, as the caller.

use super::gateway::with_body;
use super::write::out_of_time;
use super::{Caller, Pipeline, connect};
use crate::admission::Operations;
use crate::authz::{Attributes, Decision, own_question};
use crate::request::RequestInfo;
use crate::status::Status;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method, Uri};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;

const PATH: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

impl Pipeline {
    /// Whether the caller may be told what the proxy found.
    ///
    /// # Errors
    /// 403 if not, in the API server's words; whatever keeps the API server from saying so.
    pub(super) async fn may_be_told(&self, info: &RequestInfo, caller: &Caller) -> Result<(), Status> {
        // With the client's own credentials the proxy has read no more than the client may.
        if caller.credentials.is_some() {
            return Ok(());
        }
        self.may_do(info, caller).await
    }

    /// Whether plugins may act for the caller, where one of them changes more than the object.
    ///
    /// # Errors
    /// As for [`Self::may_be_told`].
    pub(super) async fn may_cause_side_effects(&self, info: &RequestInfo, caller: &Caller) -> Result<(), Status> {
        let operations = match info.verb.as_str() {
            _ if connect::may_be(info) => Operations::CONNECT,
            "create" => Operations::CREATE,
            "update" | "patch" => Operations::CREATE.or(Operations::UPDATE),
            _ => Operations::DELETE,
        };
        match self.chain.has_side_effects(operations, &info.api_group, &info.resource, &info.subresource) {
            true => self.may_do(info, caller).await,
            false => Ok(()),
        }
    }

    /// Asks the API server as the caller, where nobody has asked it yet.
    async fn may_do(&self, info: &RequestInfo, caller: &Caller) -> Result<(), Status> {
        if !self.authorizer.leaves_it_to_the_upstream() {
            return Ok(());
        }
        let asking = Box::pin(self.ask_as_caller(info, caller));
        tokio::time::timeout(self.limits.mutating_timeout, asking).await.unwrap_or_else(|_| Err(out_of_time()))
    }

    async fn ask_as_caller(&self, info: &RequestInfo, caller: &Caller) -> Result<(), Status> {
        let attributes = Attributes::from(info);
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
            // An API server that has no access reviews has no access to review.
            404 | 405 => return Ok(()),
            // Whoever may not even ask may not do the thing either.
            401 | 403 => Decision::default(),
            _ => return Err(answer.into_refusal()),
        };
        match decision.allowed {
            true => Ok(()),
            false => Err(attributes.forbidden(&caller.user, &decision.reason)),
        }
    }
}
