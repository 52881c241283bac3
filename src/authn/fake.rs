//! An upstream for tests: a function answers the reviews, and the requests are recorded.

use crate::body::{Body, full};
use crate::upstream::{ClientCredentials, SharedTransport, Transport, UpstreamError};
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// A function from a path and a body to the status code and body of the answer.
type Answer = dyn Fn(&str, &Value) -> (u16, Value) + Send + Sync;

pub(crate) struct Upstream {
    answer: Box<Answer>,
    pub(crate) calls: Mutex<Vec<(HeaderMap, Value)>>,
}

impl Upstream {
    pub(crate) fn new(answer: impl Fn(&str, &Value) -> (u16, Value) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { answer: Box::new(answer), calls: Mutex::default() })
    }

    /// Creates an upstream that answers reviews with this status.
    pub(crate) fn with_status(status: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Arc<Self> {
        Self::new(move |_, review| {
            let mut answer = review.clone();
            answer["status"] = status(review);
            (201, answer)
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    /// Returns the bodies of the reviews since the last call.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        std::mem::take(&mut *self.calls.lock().unwrap()).into_iter().map(|(_, body)| body).collect()
    }

    fn respond(&self, path: &str, headers: HeaderMap, body: &[u8]) -> (u16, Vec<u8>) {
        let body: Value = serde_json::from_slice(body).unwrap();
        let (code, answer) = (self.answer)(path, &body);
        self.calls.lock().unwrap().push((headers, body));
        (code, serde_json::to_vec(&answer).unwrap())
    }

    pub(crate) fn client(self: &Arc<Self>) -> kube::Client {
        let upstream = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let upstream = upstream.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                tokio::task::yield_now().await;
                let (code, answer) = upstream.respond(parts.uri.path(), parts.headers, &body);
                let response = Response::builder().status(code).body(kube::client::Body::from(answer)).unwrap();
                Ok::<_, std::convert::Infallible>(response)
            }
        });
        kube::Client::new(service, "default")
    }

    pub(crate) fn transport(self: &Arc<Self>) -> SharedTransport {
        Arc::new(Carrier(self.clone()))
    }
}

struct Carrier(Arc<Upstream>);

#[async_trait::async_trait]
impl Transport for Carrier {
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, UpstreamError> {
        assert!(request.extensions().get::<ClientCredentials>().is_some(), "sent as the proxy");
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let (code, answer) = self.0.respond(parts.uri.path(), parts.headers, &body);
        Ok(Response::builder().status(code).body(full(answer)).unwrap())
    }
}

/// The Status of a failure.
pub(crate) fn failure(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message});
    (code, status)
}
