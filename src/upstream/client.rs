//! A kube client over any transport, for the proxy's own calls.

use super::{LongRunning, SharedTransport};
use crate::body::{Body, BoxError};
use http::{HeaderValue, Request, header};
use http_body_util::BodyExt;
use std::sync::Arc;

/// The `User-Agent` of the proxy's own requests.
pub(super) const USER_AGENT: &str = concat!("kube-admission-proxy/", env!("CARGO_PKG_VERSION"));

/// Creates a kube client for the proxy's own requests. Must be called inside a tokio runtime.
pub fn kube_client(transport: SharedTransport) -> kube::Client {
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let transport = Arc::clone(&transport);
        async move {
            let mut request: Request<Body> = request.map(|body| body.map_err(BoxError::from).boxed_unsync());
            if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                request.extensions_mut().insert(LongRunning);
            }
            request.headers_mut().entry(header::USER_AGENT).or_insert(HeaderValue::from_static(USER_AGENT));
            transport.send(request).await
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
