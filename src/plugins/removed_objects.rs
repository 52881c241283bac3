//! Objects of a removed kind, from the API server or from the folder that the plugin's configuration names.

use crate::admission::{BuildError, Environment};
use crate::cluster::{Cluster, RemovedKind};
use crate::manifests::{RemovedObjects, Source};
use std::sync::Arc;

/// The apiVersion of the configurations of removed plugins.
const API_VERSION: &str = "config.kube-admission-proxy.dev/v1alpha1";

/// The objects that a removed plugin reads.
pub(super) enum Objects<P> {
    /// Those of the API server.
    ApiServer(Arc<Cluster>),
    /// Those of a folder.
    Files(Source<RemovedObjects<P>>),
}

impl<P: RemovedKind> Objects<P> {
    /// The objects of the folder that the plugin's configuration names as `staticManifestsDir`, else those of the API server. The plugin
    /// has checked the other fields of its configuration.
    ///
    /// # Errors
    /// If the folder, or an object in it, cannot be used.
    pub(super) fn new(environment: &Environment<'_>, plugin: &'static str) -> Result<Self, BuildError> {
        let Some(folder) = environment.configuration.and_then(|given| given.static_manifests_dir()) else {
            return Ok(Self::ApiServer(environment.cluster.clone()));
        };
        let metrics = environment.metrics.manifests().clone();
        let files = Source::follow(folder.clone(), plugin, metrics, RemovedObjects::load);
        files.map(Self::Files).map_err(|why| BuildError(format!("staticManifestsDir: {}: {why}", folder.display())))
    }

    /// As [`Self::new`], for a plugin whose configuration has no other field.
    ///
    /// # Errors
    /// As [`Self::new`]; also if the configuration is of another kind, or has another field.
    pub(super) fn only(environment: &Environment<'_>, plugin: &'static str, kind: &str) -> Result<Self, BuildError> {
        if let Some(given) = environment.configuration {
            given.expect_kind(API_VERSION, kind)?;
            let fields = given.value.as_object().into_iter().flat_map(|fields| fields.keys());
            let unknown =
                fields.filter(|field| !["apiVersion", "kind", "staticManifestsDir"].contains(&field.as_str()));
            if let Some(field) = unknown.into_iter().next() {
                return Err(BuildError(format!("{}: unknown field {field:?}", given.origin)));
            }
        }
        Self::new(environment, plugin)
    }

    /// All objects, sorted by namespace and name.
    pub(super) fn all(&self) -> Arc<Vec<Arc<P>>> {
        match self {
            Self::ApiServer(cluster) => cluster.all(),
            Self::Files(files) => files.load().all(),
        }
    }

    /// The objects in a namespace, sorted by name.
    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<P>> {
        match self {
            Self::ApiServer(cluster) => cluster.in_namespace(namespace),
            Self::Files(files) => files.load().in_namespace(namespace),
        }
    }
}
