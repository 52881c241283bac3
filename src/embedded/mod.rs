//! The embedded API server: stores and serves the resources of a kube-apiserver, in this process and in memory.
//!
//! The embedded API server is not a cluster: it schedules and runs nothing. It has no admission, no authentication and no authorization of
//! its own, and trusts its callers to name the user: the proxy in front does all three.

pub mod name;
pub mod catalog;
pub mod document;
mod discovery;
mod openapi;
pub mod table;

mod route;
mod call;
mod removed;
mod custom;
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
mod validation;
mod owners;
mod initial;
mod initializers;
mod pods;
mod privileged;
mod scale;
mod review;
mod rbac;
mod tokens;
mod token_request;
mod garbage;
mod settings;

mod store;
mod serve;

#[cfg(test)]
mod tests;

pub(crate) use custom::Webhooks;
pub(crate) use garbage::run_controllers;
pub use rbac::controllers;
pub use serve::serve;
pub(crate) use tokens::Tokens;

use crate::body::Body;
use crate::config::{Addresses, Apis, Controllers};
use crate::metrics::Registry;
use crate::removed::Api;
use crate::server::health::Checks;
use crate::upstream::{Transport, UpstreamError};
use async_trait::async_trait;
use http::{Request, Response};
use initializers::Waiting;
use settings::Settings;
use std::sync::{Arc, OnceLock, Weak};
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
    /// Creates of one user that wait for initializers.
    pub user_waiting_creates: usize,
    /// CustomResourceDefinitions.
    pub definitions: usize,
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
            user_waiting_creates: 64,
            definitions: 4096,
        }
    }
}

/// The health and metrics of the process. They refer to parts that refer to the server, so the server does not own them.
pub(crate) type Vitals = (Checks, Registry);

/// What a [`Server`] has beside the resources of a kube-apiserver.
pub(crate) struct Features {
    /// The APIs that Kubernetes removed and that the server serves nevertheless.
    pub(crate) removed: Vec<&'static Api>,
    /// Whether RBAC authorizes requests. Without it, every user may do everything.
    pub(crate) rbac: bool,
    /// Whether objects with `metadata.initializers` are hidden, and their creates wait.
    pub(crate) initializers: bool,
    /// The controllers that run; the garbage collector only with [`run_controllers`].
    pub(crate) controllers: Controllers,
    /// The addresses of Services.
    pub(crate) addresses: Addresses,
    /// The APIs that are not served.
    pub(crate) apis: Apis,
    /// Whether containers may be privileged.
    pub(crate) allow_privileged: bool,
    /// The keys of service account tokens.
    pub(crate) tokens: Tokens,
    /// The certificates of the ConfigMap `kube-root-ca.crt`, as PEM.
    pub(crate) root_ca: Option<String>,
    /// The rules of webhook configurations, policies and bindings. Their expressions need a compiler from a higher layer.
    pub(crate) registration: settings::Validate,
    /// The health and metrics of the process. Without them the server is always healthy.
    pub(crate) health: Option<Weak<Vitals>>,
}

impl Default for Features {
    fn default() -> Self {
        let Settings { controllers, addresses, allow_privileged, root_ca, registration } = Settings::default();
        Self {
            removed: Vec::new(),
            rbac: false,
            initializers: false,
            controllers,
            addresses,
            apis: Apis::default(),
            allow_privileged,
            tokens: Tokens::default(),
            root_ca,
            registration,
            health: None,
        }
    }
}

/// An API server. [`Transport::send`] is its in-memory transport.
pub struct Server {
    store: Arc<Store>,
    waiting: Arc<Waiting>,
    limits: Limits,
    /// The removed APIs that the server serves.
    removed: Vec<&'static Api>,
    /// Whether RBAC authorizes requests.
    rbac: bool,
    /// Whether objects have initializers.
    initializers: bool,
    /// The APIs that the server does not serve.
    apis: Apis,
    /// The keys of service account tokens.
    tokens: Arc<Tokens>,
    /// The health and metrics of the process.
    health: Option<Weak<Vitals>>,
    /// The served custom resources, discovery and OpenAPI.
    index: custom::Kept,
    webhooks: OnceLock<Arc<dyn Webhooks>>,
}

impl Server {
    /// A server that contains only the namespaces of every cluster.
    pub fn new(limits: Limits) -> Arc<Self> {
        Self::with(limits, Features::default())
    }

    /// A server with these features.
    pub(crate) fn with(limits: Limits, features: Features) -> Arc<Self> {
        let Features { removed, rbac, initializers, apis, health, .. } = features;
        let bounds = Bounds { history: limits.history.max(1), watcher_queue: limits.watcher_queue.max(1) };
        let waiting = Arc::new(Waiting::new(limits.user_waiting_creates));
        let index = custom::Kept::new(&removed, apis.clone());
        let settings = Settings {
            controllers: features.controllers,
            addresses: features.addresses,
            allow_privileged: features.allow_privileged,
            root_ca: features.root_ca,
            registration: features.registration,
        };
        let store = Arc::new(Store::new(bounds, settings));
        let tokens = Arc::new(features.tokens);
        let webhooks = OnceLock::new();
        let server =
            Self { store, waiting, limits, removed, rbac, initializers, apis, tokens, health, index, webhooks };
        server.store.with(initial::namespaces);
        if rbac {
            server.store.with(rbac::bootstrap);
        }
        Arc::new(server)
    }

    /// Sets the caller of conversion webhooks, once.
    pub(crate) fn convert_by(&self, webhooks: Arc<dyn Webhooks>) {
        let _ = self.webhooks.set(webhooks);
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
