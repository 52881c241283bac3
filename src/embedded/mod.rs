//! The embedded API server: stores and serves the resources of a kube-apiserver, in this process and in memory; with a data folder also in
//! a file.
//!
//! The embedded API server is not a cluster: it schedules and runs nothing. It has no admission, no authentication and no authorization of
//! its own, and trusts its callers to name the user: the proxy in front does all three.

mod name;
mod identity;
mod settings;
mod store;
mod custom;
pub(crate) mod api;
mod rbac;
mod strategies;
mod waiting;
mod server;
mod http;
mod verbs;
mod controllers;
mod serve;

#[cfg(test)]
mod tests;

pub(crate) use custom::Webhooks;
pub(crate) use identity::tokens::Tokens;
pub(crate) use rbac::controllers as controller_accounts;
pub use server::Server;
pub(crate) use settings::{Settings, Vitals};
pub(crate) use store::data_dir::DataDir;

use crate::body::Body;
use crate::config::Limits;
use crate::upstream::{Transport, UpstreamError};
use ::http::{Request, Response};
use api::index::CurrentIndex;
use api::open_id::OpenId;
use async_trait::async_trait;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use store::{File, FileError, Store};
use waiting::Waiting;

/// Runs the server's controllers until the server is dropped. Must be called inside a tokio runtime.
pub(crate) fn run_controllers(server: &Arc<Server>) {
    controllers::garbage::run(server);
    controllers::expiry::run(server);
}

impl Server {
    /// A server that contains only the namespaces of every cluster.
    pub fn new(limits: Arc<Limits>) -> Arc<Self> {
        Self::with(limits, Settings::default())
    }

    /// A server with these settings.
    pub(crate) fn with(limits: Arc<Limits>, settings: Settings) -> Arc<Self> {
        let settings = Arc::new(settings);
        let store = Store::new(limits.clone(), settings.clone());
        Self::of(store, limits, settings)
    }

    /// A server that keeps its objects in a folder, with the default settings.
    ///
    /// # Errors
    /// If the folder cannot be used.
    pub fn in_folder(folder: &Path, limits: Arc<Limits>) -> io::Result<Arc<Self>> {
        let server = DataDir::open(folder).and_then(|data| Self::kept_in(&data, limits, Settings::default()));
        server.map_err(io::Error::other)
    }

    /// A server that keeps its objects in a folder.
    ///
    /// # Errors
    /// If the folder cannot be used.
    pub(crate) fn kept_in(data: &DataDir, limits: Arc<Limits>, settings: Settings) -> Result<Arc<Self>, FileError> {
        Self::kept(data.objects(limits.file_cache_bytes)?, limits, settings)
    }

    fn kept(file: File, limits: Arc<Limits>, settings: Settings) -> Result<Arc<Self>, FileError> {
        let settings = Arc::new(settings);
        let store = Store::open(limits.clone(), settings.clone(), file)?;
        Ok(Self::of(store, limits, settings))
    }

    fn of(store: Store, limits: Arc<Limits>, settings: Arc<Settings>) -> Arc<Self> {
        let open_id = settings.advertised.and_then(|advertised| OpenId::new(&settings.tokens, advertised));
        let server = Arc::new(Self {
            store: Arc::new(store),
            waiting: Arc::new(Waiting::new(limits.user_waiting_creates)),
            index: Arc::new(CurrentIndex::new(&settings.removed, settings.apis.clone(), settings.gates.expressions())),
            open_id,
            webhooks: OnceLock::new(),
            settings,
            limits,
        });
        controllers::start(&server);
        server
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
impl Transport for Arc<Server> {
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, UpstreamError> {
        Ok(serve::respond(self, request).await)
    }
}
