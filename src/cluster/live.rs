//! What is asked of the API server past the caches.

use super::cache::{self, Projection};
use super::decode::{List, Undecodable, decode};
use super::{Cluster, Live, Namespace, of_kind};
use crate::body::{Body, chain};
use crate::status::Status;
use async_trait::async_trait;
use bytes::Bytes;
use http::{Response, Uri};
use kube::Resource;
use kube::api::{GetParams, ListParams, Request};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use std::future::Future;
use std::sync::{Arc, PoisonError, Weak};

/// What a segment of a path does not have as it is (RFC 3986, `unreserved`).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Requests that the proxy makes for a client's request, as kube-apiserver's loopback client does: by `system:apiserver`.
#[async_trait]
pub trait Loopback: Send + Sync {
    /// Creates an object in the collection at this path.
    ///
    /// # Errors
    /// When admission or the API server refuses, or the API server cannot be asked.
    async fn create(&self, path: &'static str, object: &Value) -> Result<(), Status>;

    /// Posts JSON to the API server, for a webhook that the API server serves. A refusal is an answer. `answer_bytes` bounds the answer.
    ///
    /// # Errors
    /// When the answer breaks off or is longer than its bound, or the call is made for another such call.
    async fn post(&self, uri: Uri, body: Body, answer_bytes: usize) -> Result<Response<Bytes>, Status>;
}

impl Cluster {
    /// Sets what makes the proxy's own requests. The first call counts.
    pub fn loop_back_to(&self, writes: Weak<dyn Loopback>) {
        let _the_first_counts = self.loopback.set(writes);
    }

    /// An object, asked of the API server; `None` if there is none.
    ///
    /// # Errors
    /// When the API server could not be asked, or refused.
    pub(crate) async fn find_live<P: Projection>(&self, namespace: &str, name: &str) -> Result<Option<Arc<P>>, Status>
    where
        P::Object: Resource<DynamicType = ()>,
    {
        let client = match &self.live {
            Live::Fixed { cached: live, .. } => {
                return Ok(of_kind::<P>(live).and_then(|cache| cache.find(&cache::key(namespace, name))));
            }
            Live::ApiServer(client) => client,
        };
        let request = Request::new(path::<P>(namespace)).get(&segment(name), &GetParams::default());
        let request = request.map_err(|error| Status::plain(error.to_string()))?;
        match self.call(client.request_text(request)).await {
            Ok(text) => Ok(Some(Arc::new(decode::<P>(&text).map_err(|why| unreadable::<P>(name, why))?.1))),
            Err(CallError::Kube(kube::Error::Api(status))) if status.code == 404 => Ok(None),
            Err(error) => Err(error.into_status()),
        }
    }

    /// The objects of a kind in a namespace, asked of the API server.
    ///
    /// # Errors
    /// When the API server could not be asked, or refused.
    pub(crate) async fn list_live<P: Projection>(&self, namespace: &str) -> Result<Vec<Arc<P>>, Status>
    where
        P::Object: Resource<DynamicType = ()>,
    {
        let client = match &self.live {
            Live::Fixed { cached: live, .. } => {
                return Ok(of_kind::<P>(live).map(|cache| cache.in_namespace(namespace)).unwrap_or_default());
            }
            Live::ApiServer(client) => client,
        };
        let request = Request::new(path::<P>(namespace)).list(&ListParams::default());
        let request = request.map_err(|error| Status::plain(error.to_string()))?;
        let text = self.call(client.request_text(request)).await.map_err(CallError::into_status)?;
        let list: List<'_> = serde_json::from_str(&text).map_err(|why| unreadable::<P>("", why.into()))?;
        let decoded = list.items.into_iter().flatten().map(|object| decode::<P>(object.get()));
        decoded.map(|object| Ok(Arc::new(object.map_err(|why| unreadable::<P>("", why))?.1))).collect()
    }

    /// The namespace, asked of the API server; `None` if there is none.
    ///
    /// # Errors
    /// When the API server could not be asked, or refused.
    pub async fn live_namespace(&self, name: &str) -> Result<Option<Arc<Namespace>>, Status> {
        match &self.live {
            Live::Fixed { namespaces: live, .. } => {
                Ok(live.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned())
            }
            Live::ApiServer(_) => self.find_live("", name).await,
        }
    }

    /// Creates a namespace, which is admitted as well. One that exists already is no error.
    ///
    /// # Errors
    /// When the API server could not be asked, or refused.
    pub async fn create_namespace(&self, name: &str) -> Result<(), Status> {
        match &self.live {
            Live::Fixed { namespaces: live, .. } => {
                let namespace = || Arc::new(Namespace { name: name.to_owned(), ..Namespace::default() });
                live.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_insert_with(namespace);
                Ok(())
            }
            Live::ApiServer(_) => {
                let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
                match self.loopback()?.create("/api/v1/namespaces", &namespace).await {
                    Err(why) if why.reason != "AlreadyExists" => Err(why),
                    _ => Ok(()),
                }
            }
        }
    }

    /// What makes the proxy's own requests.
    ///
    /// # Errors
    /// Before [`Cluster::loop_back_to`], and while the process ends.
    pub fn loopback(&self) -> Result<Arc<dyn Loopback>, Status> {
        let loopback = self.loopback.get().and_then(Weak::upgrade);
        loopback.ok_or_else(|| Status::plain("not yet ready to write".to_owned()))
    }

    pub(super) async fn call<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
        match tokio::time::timeout(self.limits.call_timeout, call).await {
            Ok(answer) => answer.map_err(CallError::Kube),
            Err(_) => Err(CallError::Timeout),
        }
    }
}

/// What the API server answered cannot be decoded; nothing of it is told or logged.
fn unreadable<P: Projection>(name: &str, why: Undecodable) -> Status
where
    P::Object: Resource<DynamicType = ()>,
{
    let kind = P::Object::kind(&());
    tracing::warn!(%kind, name, %why, "an object of the API server cannot be decoded");
    super::undecodable(&kind, name)
}

/// The path of a kind's objects.
pub(super) fn path<P: Projection>(namespace: &str) -> String
where
    P::Object: Resource<DynamicType = ()>,
{
    P::Object::url_path(&(), (!namespace.is_empty()).then_some(&*segment(namespace)))
}

/// A name as a segment of a path: what a client calls a namespace may have `?` and `#` in it.
pub fn segment(name: &str) -> String {
    utf8_percent_encode(name, SEGMENT).to_string()
}

/// Why a call of our own brought nothing.
pub(super) enum CallError {
    Kube(kube::Error),
    Timeout,
}

impl CallError {
    /// The API server's own Status where it sent one; 503 where it could not be reached.
    pub(super) fn into_status(self) -> Status {
        match self {
            Self::Timeout => Status::timeout("the API server did not answer in time"),
            Self::Kube(error) => status_of(error),
        }
    }
}

/// The Status in a client error, or one that says that the API server could not be asked.
fn status_of(error: kube::Error) -> Status {
    match error {
        kube::Error::Api(status) => {
            let status = *status;
            let fallback = Status::failure(status.code, &status.reason, status.message.clone());
            let carried = serde_json::to_value(&status).ok().and_then(|value| serde_json::from_value(value).ok());
            carried.unwrap_or(fallback)
        }
        kube::Error::SerdeError(_) => {
            // What the parser says of it may quote it.
            tracing::warn!("an answer of the API server cannot be decoded");
            Status::service_unavailable("the answer of the API server behind the proxy cannot be decoded")
        }
        error => {
            // Where the API server is and why it does not answer is not the client's business.
            tracing::warn!(error = chain(&error), "no answer from the API server");
            Status::service_unavailable("the API server behind the proxy could not be asked")
        }
    }
}
