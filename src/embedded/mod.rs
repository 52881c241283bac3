//! The embedded API server: everything that a kube-apiserver stores and serves, in this process and in memory.
//!
//! It is not a cluster: nothing schedules, nothing runs. It has no admission and no authorization of its own, and takes
//! the word of whoever calls it for who the user is: the proxy in front does all three.

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
    /// Changes kept of each resource: how far back a watch can start, and a continued list can look.
    pub history: usize,
    /// Changes that may wait for one watcher before its watch is closed.
    pub watcher_queue: usize,
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Objects of one page, where a list is paged.
    pub page_objects: usize,
    /// The shortest time that a watch without `timeoutSeconds` lasts; the longest is twice that.
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

/// An API server. Its in-memory transport is [`Transport::send`].
pub struct Server {
    store: Arc<Store>,
    limits: Limits,
}

impl Server {
    /// A server with nothing but the namespaces that every cluster has.
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
