//! Requests of the proxy's own, for which kube-apiserver uses its loopback client: objects that plugins create, and calls of
//! webhooks that the API server itself serves. The whole chain admits these writes.

use super::gateway::with_body;
use super::{Caller, Exchange, Pipeline, target};
use crate::body::Body;
use crate::cluster::Loopback;
use crate::request::body;
use crate::request::info::{is_canonical, request_info};
use crate::response::{self, ResponseForm};
use crate::status::Status;
use crate::user::UserInfo;
use async_trait::async_trait;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use serde_json::Value;
use std::sync::{Arc, LazyLock};
use uuid::Uuid;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// `user.APIServerUser`, with a uid of this process (`LoopbackClientServerNameOverride`'s authenticator).
static SYSTEM: LazyLock<Arc<UserInfo>> = LazyLock::new(|| {
    Arc::new(UserInfo {
        username: "system:apiserver".to_owned(),
        uid: Uuid::new_v4().to_string(),
        groups: ["system:authenticated", "system:masters"].map(str::to_owned).into(),
        extra: Default::default(),
    })
});

#[async_trait]
impl Loopback for Pipeline {
    async fn create(&self, path: &'static str, object: &Value) -> Result<(), Status> {
        let object = serde_json::to_vec(object).map_err(Status::internal_error)?;
        let (method, uri) = (Method::POST, Uri::from_static(path));
        let headers = HeaderMap::from_iter([(ACCEPT, JSON)]);
        let request = with_body(&method, &uri, &headers, "application/json", object.into());
        let caller = Caller { user: SYSTEM.clone(), credentials: None, is_proxy: true };
        let mut exchange = Exchange::default();
        let info = request_info(&method, &uri);
        let response = Box::pin(self.write(request, &info, &caller, &mut exchange)).await?;
        if response.status().is_success() {
            return Ok(());
        }
        let code = response.status().as_u16();
        let answer = body::read(response.into_body(), self.limits.body_bytes).await?;
        Err(serde_json::from_slice(&answer)
            .unwrap_or_else(|_| Status::failure(code, "", format!("the API server answered {code}"))))
    }

    async fn post(&self, uri: Uri, body: Body, answer_bytes: usize) -> Result<Response<Bytes>, Status> {
        let mut request = Request::new(body);
        (*request.method_mut(), *request.uri_mut()) = (Method::POST, uri);
        request.headers_mut().extend([(ACCEPT, JSON), (CONTENT_TYPE, JSON)]);
        let answer = Box::pin(self.answer_to_system(request)).await;
        let response = answer.unwrap_or_else(|refusal| response::status(&refusal, ResponseForm::default()));
        let (head, body) = response.into_parts();
        Ok(Response::from_parts(head, body::read(body, answer_bytes).await?))
    }
}

impl Pipeline {
    async fn answer_to_system(&self, request: Request<Body>) -> Result<Response<Body>, Status> {
        let info = request_info(request.method(), request.uri());
        if !is_canonical(request.uri()) {
            return Err(target::not_canonical(&info.path, &self.discovery));
        }
        let caller = self.marked(Caller { user: SYSTEM.clone(), credentials: None, is_proxy: false });
        match self.connect_target(request.method(), &info).await? {
            Some(_) => Err(target::not_allowed()),
            None if info.is_resource_request => self.write(request, &info, &caller, &mut Exchange::default()).await,
            None => self.gateway.stream(request, &caller).await,
        }
    }
}
