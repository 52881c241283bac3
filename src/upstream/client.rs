//! A kube client over any transport, for the proxy's own calls.

use super::{LongRunning, SharedTransport, UpstreamError};
use crate::body::{Body, BoxError};
use http::{HeaderValue, Method, Request, header};
use http_body_util::{BodyExt, Limited};
use std::sync::Arc;

/// The `User-Agent` of the proxy's own requests.
pub(super) const USER_AGENT: &str = concat!("kube-admission-proxy/", env!("CARGO_PKG_VERSION"));

/// The bytes of an answer to a read of the proxy's own.
const ANSWER_BYTES: usize = 64 << 20;
/// The bytes of an answer to another request of the proxy's own: a review, the status of a quota.
const WRITE_ANSWER_BYTES: usize = 3 << 20;

/// Creates a kube client for the proxy's own requests. Must be called inside a tokio runtime.
pub fn kube_client(transport: SharedTransport) -> kube::Client {
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let transport = Arc::clone(&transport);
        async move {
            let mut request: Request<Body> = request.map(|body| body.map_err(BoxError::from).boxed_unsync());
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            if is_watch {
                request.extensions_mut().insert(LongRunning);
            }
            let longest = if request.method() == Method::GET { ANSWER_BYTES } else { WRITE_ANSWER_BYTES };
            request.headers_mut().entry(header::USER_AGENT).or_insert(HeaderValue::from_static(USER_AGENT));
            let response = transport.send(request).await?;
            Ok::<_, UpstreamError>(match is_watch {
                true => response,
                // kube reads an answer as a whole, whatever its length.
                false => response.map(|body| Limited::new(body, longest).boxed_unsync()),
            })
        }
    });
    kube::Client::new(service, "default")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::full;
    use crate::upstream::from_fn;
    use http::Response;
    use k8s_openapi::api::core::v1::Namespace;

    #[tokio::test]
    async fn an_answer_has_an_end() {
        let transport = from_fn(|_| async move {
            let text = format!(r#"{{"metadata":{{"name":"{}"}}}}"#, "a".repeat(WRITE_ANSWER_BYTES));
            Ok(Response::new(full(text)))
        });
        let namespaces: kube::Api<Namespace> = kube::Api::all(kube_client(transport));
        let created = namespaces.create(&kube::api::PostParams::default(), &Namespace::default()).await;
        assert!(created.unwrap_err().to_string().contains("length limit exceeded"));
        assert!(namespaces.get("default").await.is_ok());
    }

    #[tokio::test]
    async fn asks_over_the_transport_by_path() {
        let transport = from_fn(|request| async move {
            assert_eq!(request.uri(), "/api/v1/namespaces/default");
            assert_eq!(request.headers()[header::USER_AGENT], USER_AGENT);
            Ok(Response::new(full(r#"{"metadata":{"name":"default"}}"#)))
        });
        let namespaces: kube::Api<Namespace> = kube::Api::all(kube_client(transport));
        assert_eq!(namespaces.get("default").await.unwrap().metadata.name.as_deref(), Some("default"));
    }
}
