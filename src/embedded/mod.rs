//! The embedded API server: stores and serves the resources of a kube-apiserver, in this process and in memory; with a data folder also in
//! a file.
//!
//! The embedded API server is not a cluster: it schedules and runs nothing. It has no admission, no authentication and no authorization of
//! its own, and trusts its callers to name the user: the proxy in front does all three.

pub(crate) mod name;
mod identity;
mod settings;
mod store;
mod custom;
pub(crate) mod api;
mod rbac;
mod strategies;
mod http;
mod verbs;
mod controllers;
mod serve;

#[cfg(test)]
mod tests;

pub(crate) use identity::tokens::Tokens;
pub(crate) use rbac::controllers as controller_accounts;
pub(crate) use store::data_dir::DataDir;
pub(crate) use verbs::custom::convert::Webhooks;

use crate::body::Body;
use crate::config::{Addresses, Apis, Controllers, FeatureGates, Limits};
use crate::metrics::Registry;
use crate::removed::Api;
use crate::server::health::Checks;
use crate::upstream::{Transport, UpstreamError};
use ::http::{Request, Response};
use api::open_id::OpenId;
use api::{catalog, index};
use async_trait::async_trait;
use settings::Settings;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use store::{File, FileError, Store};
use strategies::{api_services, initial};
use verbs::delete;
use verbs::initializers::Waiting;

/// Runs the server's controllers until the server is dropped. Must be called inside a tokio runtime.
pub(crate) fn run_controllers(server: &Arc<Server>) {
    controllers::garbage::run(server);
    controllers::expiry::run(server);
}

/// The health and metrics of the process. They refer to parts that refer to the server, so the server does not own them.
pub(crate) type Vitals = (Checks, Registry);

/// The additions of a [`Server`] to the resources of a kube-apiserver.
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
    /// The address and the port at which clients reach the server, for the Service `default/kubernetes`; without them there is no such
    /// Service.
    pub(crate) advertised: Option<SocketAddr>,
    /// The APIs that are not served.
    pub(crate) apis: Apis,
    /// Whether containers may be privileged.
    pub(crate) allow_privileged: bool,
    /// The feature gates, which fields depend on.
    pub(crate) gates: FeatureGates,
    /// The keys of service account tokens.
    pub(crate) tokens: Tokens,
    /// The certificates of the ConfigMap `kube-root-ca.crt`, as PEM.
    pub(crate) root_ca: Option<String>,
    /// The rules of webhook configurations, policies and bindings. Their expressions need a compiler from a higher layer.
    pub(crate) registration: settings::Validate,
    /// The time to live of Events; 0 for no end.
    pub(crate) event_ttl: Duration,
    /// The health and metrics of the process. Without them the server is always healthy.
    pub(crate) health: Option<Weak<Vitals>>,
}

impl Features {
    fn settings(&self) -> Settings {
        Settings {
            controllers: self.controllers,
            addresses: self.addresses,
            advertised: self.advertised,
            allow_privileged: self.allow_privileged,
            gates: self.gates.clone(),
            root_ca: self.root_ca.clone(),
            registration: self.registration,
            event_ttl: self.event_ttl,
        }
    }
}

impl Default for Features {
    fn default() -> Self {
        let Settings { controllers, addresses, advertised, allow_privileged, gates, root_ca, registration, event_ttl } =
            Settings::default();
        Self {
            removed: Vec::new(),
            rbac: false,
            initializers: false,
            controllers,
            addresses,
            advertised,
            apis: Apis::default(),
            allow_privileged,
            gates,
            tokens: Tokens::default(),
            root_ca,
            registration,
            event_ttl,
            health: None,
        }
    }
}

/// An API server. [`Transport::send`] is its in-memory transport.
pub struct Server {
    store: Arc<Store>,
    waiting: Arc<Waiting>,
    limits: Arc<Limits>,
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
    /// The documents about the issuer of tokens, if the server has an address.
    open_id: Option<OpenId>,
    /// The health and metrics of the process.
    health: Option<Weak<Vitals>>,
    /// The served custom resources, discovery and OpenAPI.
    index: Arc<index::CurrentIndex>,
    webhooks: OnceLock<Arc<dyn Webhooks>>,
}

impl Server {
    /// A server that contains only the namespaces of every cluster.
    pub fn new(limits: Arc<Limits>) -> Arc<Self> {
        Self::with(limits, Features::default())
    }

    /// A server with these features.
    pub(crate) fn with(limits: Arc<Limits>, features: Features) -> Arc<Self> {
        let store = Store::new(limits.clone(), features.settings());
        Self::of(store, limits, features)
    }

    /// A server that keeps its objects in a folder, without other features.
    ///
    /// # Errors
    /// If the folder cannot be used.
    pub fn in_folder(folder: &Path, limits: Arc<Limits>) -> io::Result<Arc<Self>> {
        let server = DataDir::open(folder).and_then(|data| Self::kept_in(&data, limits, Features::default()));
        server.map_err(io::Error::other)
    }

    /// A server that keeps its objects in a folder.
    ///
    /// # Errors
    /// If the folder cannot be used.
    pub(crate) fn kept_in(data: &DataDir, limits: Arc<Limits>, features: Features) -> Result<Arc<Self>, FileError> {
        Self::kept(data.objects(limits.file_cache_bytes)?, limits, features)
    }

    fn kept(file: File, limits: Arc<Limits>, features: Features) -> Result<Arc<Self>, FileError> {
        let store = Store::open(limits.clone(), features.settings(), file)?;
        Ok(Self::of(store, limits, features))
    }

    fn of(store: Store, limits: Arc<Limits>, features: Features) -> Arc<Self> {
        let store = Arc::new(store);
        let Features { removed, rbac, initializers, apis, health, .. } = features;
        let waiting = Arc::new(Waiting::new(limits.user_waiting_creates));
        let index = Arc::new(index::CurrentIndex::new(&removed, apis.clone()));
        let tokens = Arc::new(features.tokens);
        let open_id = features.advertised.and_then(|advertised| OpenId::new(&tokens, advertised));
        let webhooks = OnceLock::new();
        let server = Self {
            store,
            waiting,
            limits,
            removed,
            rbac,
            initializers,
            apis,
            tokens,
            open_id,
            health,
            index,
            webhooks,
        };
        server.store.with(initial::namespaces);
        controllers::kubernetes_service::start(&server.store);
        let groups = catalog::groups(&server.removed, &server.apis);
        api_services::start(&server.store, &groups);
        delete::resume(&server.store);
        if rbac {
            server.store.with(rbac::bootstrap);
        }
        Arc::new(server)
    }

    /// A check whether the data folder can be written; `None` without a folder.
    pub(crate) fn data_health(&self) -> Option<impl Fn() -> Result<(), store::Unkept> + Send + Sync + 'static> {
        self.store.health()
    }

    /// Closes the file in the data folder, if there is one. Later writes fail.
    pub async fn close(&self) {
        self.store.close().await;
    }

    /// Sets the caller of conversion webhooks, once.
    pub(crate) fn convert_by(&self, webhooks: Arc<dyn Webhooks>) {
        let _ = self.webhooks.set(webhooks);
    }
}

#[async_trait]
impl Transport for Server {
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, UpstreamError> {
        Ok(serve::respond(self, request).await)
    }
}

#[async_trait]
impl Transport for Arc<Server> {
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, UpstreamError> {
        Ok(serve::respond(self, request).await)
    }
}
