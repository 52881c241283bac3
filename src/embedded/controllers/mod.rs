//! The controllers: what follows from a write for other objects, and what happens without a request.

mod api_services;
mod bootstrap_policy;
mod definitions;
mod kubernetes_service;
mod namespaces;
pub(in crate::embedded) mod tasks;
pub(in crate::embedded) mod garbage;
pub(in crate::embedded) mod expiry;

use super::api::catalog;
use super::server::Server;

/// Creates what every server has, before the first request, and leaves to the controllers what was under way when the last server ended.
pub(in crate::embedded) fn start(server: &Server) {
    let Server { store, settings, .. } = server;
    store.with(namespaces::start);
    kubernetes_service::start(store);
    api_services::start(store, &catalog::groups(&settings.removed, &settings.apis));
    namespaces::resume(store);
    if settings.rbac {
        store.with(bootstrap_policy::start);
    }
}
