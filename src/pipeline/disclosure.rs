//! Authorization of the proxy's own answers: an answer about an object that the proxy has read needs the caller's permission.
//!
//! With `--authorization-mode=AlwaysAllow` the API server authorizes the requests that it receives. The API server does not
//! receive a request that the proxy refuses, so the proxy asks for the decision as the caller.

use super::gateway::with_body;
use super::write::out_of_time;
use super::{Caller, Pipeline, connect};
use crate::admission::Operations;
use crate::authz::{AccessAttributes, Decision, own_question};
use crate::request::RequestInfo;
use crate::status::Status;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method, Uri};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;

const PATH: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

impl Pipeline {
    /// Checks that the caller may get an answer about the objects that the proxy has read.
    ///
    /// # Errors
    /// 403 with the API server's text if the caller may not; the API server's error if there is no decision.
    pub(super) async fn check_disclosure(&self, info: &RequestInfo, caller: &Caller) -> Result<(), Status> {
        // With the client's own credentials the proxy reads no more than the client may.
        if caller.credentials.is_some() {
            return Ok(());
        }
        self.may_do(info, caller).await
    }

    /// Returns whether the caller is known to have the permission for the request. If the API server authorizes requests, the proxy
    /// asks the API server only for a request for which a plugin may have side effects.
    ///
    /// # Errors
    /// As for [`Self::check_disclosure`].
    pub(super) async fn may_cause_side_effects(&self, info: &RequestInfo, caller: &Caller) -> Result<bool, Status> {
        if !self.authorizer.leaves_it_to_the_upstream() {
            return Ok(true);
        }
        let operations = match info.verb.as_str() {
            _ if connect::may_be(info) => Operations::CONNECT,
            "create" => Operations::CREATE,
            "update" | "patch" => Operations::CREATE.or(Operations::UPDATE),
            _ => Operations::DELETE,
        };
        let resource = [&*info.api_group, &*info.resource, &*info.subresource];
        let has_side_effects = self.chain.has_side_effects(operations, resource, &info.namespace);
        if has_side_effects {
            self.may_do(info, caller).await?;
        }
        Ok(has_side_effects)
    }

    /// Asks the API server as the caller, if the proxy leaves authorization to the API server.
    async fn may_do(&self, info: &RequestInfo, caller: &Caller) -> Result<(), Status> {
        if !self.authorizer.leaves_it_to_the_upstream() {
            return Ok(());
        }
        let asking = Box::pin(self.ask_as_caller(info, caller));
        tokio::time::timeout(self.limits.mutating_timeout, asking).await.unwrap_or_else(|_| Err(out_of_time()))
    }

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
