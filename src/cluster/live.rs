//! Direct calls to the API server, past the caches.

use super::cache::Projection;
use super::decode::{List, Undecodable, decode};
use super::{Cluster, Namespace, Need};
use crate::body::{Body, chain};
use crate::status::Status;
use crate::upstream::no_answer;
use async_trait::async_trait;
use bytes::Bytes;
use http::{Response, Uri};
use kube::Resource;
use kube::api::{GetParams, ListParams, Request};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use std::future::Future;
use std::sync::{Arc, Weak};

/// The characters that are escaped in a path segment: all except `unreserved` (RFC 3986).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Requests that the proxy makes as part of a client's request, as `system:apiserver`, like kube-apiserver's loopback client.
#[async_trait]
pub(crate) trait Loopback: Send + Sync {
    /// Creates an object in the collection at the path.
    ///
    /// # Errors
    /// If admission or the API server refuses the request, or the API server is unreachable.
    async fn create(&self, path: &'static str, object: &Value) -> Result<(), Status>;

    /// Posts JSON to the API server, for a webhook that the API server serves. An error status is returned as an answer.
    /// `answer_bytes` bounds the answer.
    ///
    /// # Errors
    /// If the answer breaks off or is longer than the bound.
    async fn post(&self, uri: Uri, body: Body, answer_bytes: usize) -> Result<Response<Bytes>, Status>;
}

impl Cluster {
    /// Sets the sender of the proxy's own requests. Only the first call has an effect.
    pub(crate) fn loop_back_to(&self, writes: Weak<dyn Loopback>) {
        let _the_first_counts = self.loopback.set(writes);
    }

    /// Reads an object from the API server. `None` if the object does not exist.
    ///
    /// # Errors
    /// If the API server is unreachable or refuses the request.
    pub(crate) async fn find_live<P: Projection>(&self, namespace: &str, name: &str) -> Result<Option<Arc<P>>, Status>
    where
        P::Object: Resource<DynamicType = ()>,
    {
        let request = Request::new(path::<P>(namespace)).get(&segment(name), &GetParams::default());
        let request = request.map_err(|error| Status::plain(error.to_string()))?;
        match self.call(self.client()?.request_text(request)).await {
            Ok(text) => Ok(Some(Arc::new(decode::<P>(&text).map_err(|why| unreadable::<P>(name, why))?.1))),
            Err(CallError::Kube(kube::Error::Api(status))) if status.code == 404 => Ok(None),
            Err(error) => Err(error.into_status()),
        }
    }

    /// Lists the objects of a kind in a namespace at the API server.
    ///
    /// # Errors
    /// If the API server is unreachable or refuses the request.
    pub(crate) async fn list_live<P: Projection>(&self, namespace: &str) -> Result<Vec<Arc<P>>, Status>
    where
        P::Object: Resource<DynamicType = ()>,
    {
        let request = Request::new(path::<P>(namespace)).list(&ListParams::default());
        let request = request.map_err(|error| Status::plain(error.to_string()))?;
        let text = self.call(self.client()?.request_text(request)).await.map_err(CallError::into_status)?;
        let list: List<'_> = serde_json::from_str(&text).map_err(|why| unreadable::<P>("", why.into()))?;
        let decoded = list.items.into_iter().flatten().map(|object| decode::<P>(object.get()));
        decoded.map(|object| Ok(Arc::new(object.map_err(|why| unreadable::<P>("", why))?.1))).collect()
    }

    /// Returns the namespace from the cache if the watch works, else from the API server. `None` if the namespace does not exist.
    ///
    /// # Errors
    /// If the namespace cannot be decoded, or the API server is unreachable or refuses the request.
    pub(crate) async fn current_namespace(&self, name: &str) -> Result<Option<Arc<Namespace>>, Status> {
        self.check_known::<Namespace>("", name)?;
        match self.namespace(name).filter(|_| self.is_current(Need::NAMESPACES)) {
            Some(found) => Ok(Some(found)),
            None => self.live_namespace(name).await,
        }
    }

    /// Reads the namespace from the API server. `None` if the namespace does not exist.
    ///
    /// # Errors
    /// If the API server is unreachable or refuses the request.
    pub(crate) async fn live_namespace(&self, name: &str) -> Result<Option<Arc<Namespace>>, Status> {
        self.find_live("", name).await
    }

    /// Creates a namespace through admission. An existing namespace is not an error.
    ///
    /// # Errors
    /// If the API server is unreachable or refuses the request.
    pub(crate) async fn create_namespace(&self, name: &str) -> Result<(), Status> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        match self.loopback()?.create("/api/v1/namespaces", &namespace).await {
            Err(why) if why.reason != "AlreadyExists" => Err(why),
            _ => Ok(()),
        }
    }

    /// The sender of the proxy's own requests.
    ///
    /// # Errors
    /// If [`Cluster::loop_back_to`] was not called yet, or the process is ending.
    pub(crate) fn loopback(&self) -> Result<Arc<dyn Loopback>, Status> {
        let loopback = self.loopback.get().and_then(Weak::upgrade);
        loopback.ok_or_else(|| Status::plain("not yet ready to write".to_owned()))
    }

    /// The client of the API server.
    ///
    /// # Errors
    /// If there is no API server.
    pub(super) fn client(&self) -> Result<&kube::Client, Status> {
        self.client.as_ref().ok_or_else(|| Status::service_unavailable("there is no API server"))
    }

    pub(super) async fn call<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
        match tokio::time::timeout(self.limits.call_timeout, call).await {
            Ok(answer) => answer.map_err(CallError::Kube),
            Err(_) => Err(CallError::Timeout),
        }
    }
}

/// The error for an answer that cannot be decoded. The error and the log contain nothing of the answer.
fn unreadable<P: Projection>(name: &str, why: Undecodable) -> Status
where
    P::Object: Resource<DynamicType = ()>,
{
    let kind = P::Object::kind(&());
    tracing::warn!(%kind, name, %why, "an object of the API server cannot be decoded");
    super::undecodable(&kind, name)
}

/// The path of the objects of a kind.
pub(super) fn path<P: Projection>(namespace: &str) -> String
where
    P::Object: Resource<DynamicType = ()>,
{
    P::Object::url_path(&(), (!namespace.is_empty()).then_some(&*segment(namespace)))
}

/// Escapes a name as a path segment. A client may send a namespace name with `?` and `#`.
pub(crate) fn segment(name: &str) -> String {
    utf8_percent_encode(name, SEGMENT).to_string()
}

/// The reason why a call to the API server failed.
pub(super) enum CallError {
    Kube(kube::Error),
    Timeout,
}

impl CallError {
    /// The API server's Status if there is one, else 503.
    pub(super) fn into_status(self) -> Status {
        match self {
            Self::Timeout => Status::timeout("the API server did not answer in time"),
            Self::Kube(error) => status_of(error),
        }
    }
}

/// The Status in a client error, or a 503 without details.
pub(super) fn status_of(error: kube::Error) -> Status {
    match error {
        kube::Error::Api(status) => {
            let status = *status;
            let fallback = Status::failure(status.code, &status.reason, status.message.clone());
            let carried = serde_json::to_value(&status).ok().and_then(|value| serde_json::from_value(value).ok());
            carried.unwrap_or(fallback)
        }
        kube::Error::SerdeError(_) => {
            // The parser's message may quote the answer.
            tracing::warn!("an answer of the API server cannot be decoded");
            Status::service_unavailable("the answer of the upstream API server cannot be decoded")
        }
        error => {
            // The client gets neither the API server's address nor the reason of the failure.
            tracing::debug!(error = chain(&error), "no answer from the API server");
            no_answer()
        }
    }
}
