//! The parts of a server, which requests and controllers share.

use super::api::index::CurrentIndex;
use super::api::open_id::OpenId;
use super::custom::Webhooks;
use super::settings::Settings;
use super::store::Store;
use super::waiting::Waiting;
use crate::config::Limits;
use std::sync::{Arc, OnceLock};

/// An API server. [`Transport::send`](crate::upstream::Transport::send) is its in-memory transport.
pub struct Server {
    pub(in crate::embedded) store: Arc<Store>,
    pub(in crate::embedded) settings: Arc<Settings>,
    pub(in crate::embedded) limits: Arc<Limits>,
    /// The creates that wait for initializers.
    pub(in crate::embedded) waiting: Arc<Waiting>,
    /// The documents about the issuer of tokens, if the server has an address.
    pub(in crate::embedded) open_id: Option<OpenId>,
    /// The served custom resources, discovery and OpenAPI.
    pub(in crate::embedded) index: Arc<CurrentIndex>,
    /// The caller of conversion webhooks, if there is one.
    pub(in crate::embedded) webhooks: OnceLock<Arc<dyn Webhooks>>,
}
