//! The proxy's own requests as a front proxy: in the name of a user, as the requests of clients are.

use super::{KnownHeaders, OfClient, SharedTransport, Transport, UpstreamError};
use crate::body::Body;
use crate::user::UserInfo;
use async_trait::async_trait;
use http::{Request, Response};

/// A transport that names a user in every request that is not a client's.
pub(crate) struct OwnUser {
    transport: SharedTransport,
    known: KnownHeaders,
    user: UserInfo,
}

impl OwnUser {
    /// Creates the transport. While the names of the headers are not `known`, they are the usual ones (`X-Remote-…`): the names are read
    /// by such a request.
    pub(crate) fn new(transport: SharedTransport, known: KnownHeaders, user: UserInfo) -> Self {
        Self { transport, known, user }
    }
}

#[async_trait]
impl Transport for OwnUser {
    async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, UpstreamError> {
        if request.extensions().get::<OfClient>().is_none() {
            let names = self.known.load_full().unwrap_or_default();
            let written = names.write(request.headers_mut(), &self.user);
            written.map_err(|status| UpstreamError::Unreachable(status.message.into()))?;
        }
        self.transport.send(request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{empty, full};
    use crate::upstream::from_fn;
    use crate::upstream::front_proxy::RequestHeaders;
    use http::HeaderName;
    use http_body_util::BodyExt;
    use std::sync::Arc;

    #[tokio::test]
    async fn only_the_proxys_own_requests_have_its_user() {
        let transport = from_fn(|request: Request<Body>| async move {
            let text = |name: &str| request.headers().get(name).map_or("-", |value| value.to_str().unwrap()).to_owned();
            let names = ["x-remote-user", "x-remote-group", "x-own-user"].map(text);
            Ok(Response::new(full(names.join(" "))))
        });
        let known = KnownHeaders::default();
        let user = UserInfo { username: "proxy".into(), groups: vec!["system:masters".into()], ..UserInfo::default() };
        let own = OwnUser::new(transport, known.clone(), user);
        let ask = |is_clients: bool| {
            let mut request = Request::get("/api").body(empty()).unwrap();
            if is_clients {
                request.extensions_mut().insert(OfClient);
            }
            let answer = own.send(request);
            async {
                String::from_utf8(answer.await.unwrap().into_body().collect().await.unwrap().to_bytes().into()).unwrap()
            }
        };
        assert_eq!(ask(false).await, "proxy system:masters -");
        assert_eq!(ask(true).await, "- - -");
        let username = HeaderName::from_static("x-own-user");
        known.store(Some(Arc::new(RequestHeaders { username, ..RequestHeaders::default() })));
        assert_eq!(ask(false).await, "- system:masters proxy");
    }
}
