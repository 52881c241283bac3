//! Policies from a folder, compiled when they are read (`policy/manifest/source`).

use super::Binding;
use super::policy::{Policy, Rules};
use crate::admission::{BuildError, PluginEnvironment};
use crate::cel::{Release, work};
use crate::cluster::Projection;
use crate::config::PolicyParameters;
use crate::manifests::policies::{self, Policies, load};
use crate::manifests::{LoadError, Loaded, Source};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A policy with its bindings, by name; the list of bindings may be empty.
type Bound<R, A> = (Arc<Policy<R>>, Vec<Arc<Binding<A>>>);

/// The policies of a folder, by name.
#[derive(Debug)]
pub(crate) struct Files<R, A> {
    /// The policies, each with its bindings.
    pub(crate) policies: Vec<Bound<R, A>>,
}

impl<R, A> Default for Files<R, A> {
    fn default() -> Self {
        Self { policies: Vec::new() }
    }
}

impl<R, A> Files<R, A>
where
    R: Rules<Source: policies::Policy<Binding = A>>,
    A: Clone,
    Binding<A>: Projection<Object = A>,
{
    /// Reads a folder; `parameters` is whether its policies may have parameters. Their expressions follow the rules of a release.
    ///
    /// # Errors
    /// If a file, an object or an expression is invalid.
    pub(crate) fn load(
        folder: &Path,
        parameters: PolicyParameters,
        release: Release,
    ) -> Result<Loaded<Self>, LoadError> {
        let Loaded { value, hash } = load::<R::Source>(folder, parameters, release)?;
        let Policies { policies, bindings } = &*value;
        let bindings: Vec<_> = bindings.iter().map(|binding| Arc::new(Binding::project(A::clone(binding)).1)).collect();
        let bound = |policy: &Arc<R::Source>| {
            let policy = Arc::new(work::bounded(|| Policy::<R>::compile(policy, release)));
            let bindings = bindings.iter().filter(|binding| binding.policy == policy.name);
            let bindings = bindings.cloned().collect();
            (policy, bindings)
        };
        Ok(Loaded { value: Arc::new(Self { policies: policies.iter().map(bound).collect() }), hash })
    }
}

/// Follows the folder of static manifests that a plugin's configuration names, if it names one.
///
/// # Errors
/// If the files in the folder cannot be used.
pub(super) fn follow<R, A>(
    folder: Option<PathBuf>,
    plugin: &'static str,
    environment: &PluginEnvironment<'_>,
) -> Result<Source<Files<R, A>>, BuildError>
where
    R: Rules<Source: policies::Policy<Binding = A>>,
    A: Clone + 'static,
    Binding<A>: Projection<Object = A>,
{
    let Some(folder) = folder else { return Ok(Source::default()) };
    let (place, parameters) = (folder.clone(), environment.policies.in_files);
    let release = environment.feature_gates.expressions();
    let load = move |folder: &Path| Files::load(folder, parameters, release);
    Source::follow(folder, plugin, environment.metrics.manifests().clone(), load).map_err(|why| {
        let fault = why.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ");
        BuildError::Manifests { content: "policy", folder: place, fault }
    })
}
