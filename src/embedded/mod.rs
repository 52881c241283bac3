//! The embedded API server: stores and serves the resources of a kube-apiserver, in this process and in memory.
//!
//! The embedded API server is not a cluster: it schedules and runs nothing. It has no admission, no authentication and no authorization of
//! its own, and trusts its callers to name the user: the proxy in front does all three.

pub mod catalog;
pub mod document;
pub mod discovery;
pub mod openapi;
pub mod table;

mod route;
mod call;
mod caller;
mod negotiate;
mod body;
mod respond;

mod read;
mod watch;
mod select;
mod write;
mod delete;
mod metadata;
mod owners;
mod initial;
mod pods;
mod scale;
mod review;

mod store;
mod serve;

#[cfg(test)]
mod tests;

pub use serve::serve;

use crate::body::Body;
use crate::upstream::{Transport, UpstreamError};
use async_trait::async_trait;
use http::{Request, Response};
use std::sync::Arc;
use std::time::Duration;
use store::{Bounds, Store};

/// The bounds of a [`Server`].
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Changes that are kept of each resource: how far back a watch can start, and a continued list can read.
    pub history: usize,
    /// Changes that may be queued for one watcher before its watch is closed.
    pub watcher_queue: usize,
    /// Bytes that a request's body may have.
    pub body_bytes: usize,
    /// Objects on one page of a paged list.
    pub page_objects: usize,
    /// The shortest duration of a watch without `timeoutSeconds`, in seconds; the longest is twice as long.
    pub watch_seconds: u64,
    /// Time between a watch's bookmarks.
    pub bookmark_interval: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            history: 4096,
            watcher_queue: 1024,
            body_bytes: 3 << 20,
            page_objects: 10_000,
            watch_seconds: 1800,
            bookmark_interval: Duration::from_secs(60),
        }
    }
}

/// An API server. [`Transport::send`] is its in-memory transport.
pub struct Server {
    store: Arc<Store>,
    limits: Limits,
}

impl Server {
    /// A server that contains only the namespaces of every cluster.
    pub fn new(limits: Limits) -> Arc<Self> {
        let bounds = Bounds { history: limits.history.max(1), watcher_queue: limits.watcher_queue.max(1) };
        let server = Self { store: Arc::new(Store::new(bounds)), limits };
        server.store.with(initial::namespaces);
        Arc::new(server)
    }
}

#[async_trait]
impl Transport for Server {
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, UpstreamError> {
        Ok(route::respond(self, request).await)
    }
}

#[async_trait]
impl Transport for Arc<Server> {
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, UpstreamError> {
        Ok(route::respond(self, request).await)
    }
}
