//! Writes that plugins make for a client's request. They are admitted by the whole chain as requests of kube-apiserver's loopback
//! client are there, and reach the API server as the proxy's own.

use super::gateway::with_body;
use super::{Caller, Exchange, Pipeline};
use crate::cluster::OwnWrites;
use crate::request::body;
use crate::request::info::request_info;
use crate::status::Status;
use crate::user::UserInfo;
use async_trait::async_trait;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method, Uri};
use serde_json::Value;
use std::sync::{Arc, LazyLock};
use uuid::Uuid;

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
impl OwnWrites for Pipeline {
    async fn create(&self, path: &'static str, object: &Value) -> Result<(), Status> {
        let object = serde_json::to_vec(object).map_err(Status::internal_error)?;
        let (method, uri) = (Method::POST, Uri::from_static(path));
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
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
}
