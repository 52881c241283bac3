//! Admission webhooks: the match of hooks with requests, the calls of hooks, and the effect of their answers.
//!
//! The plugins in `plugins/` are thin: they hand a request to `MutatingWebhooks`, `ValidatingWebhooks` or [`v1alpha1::External`]. Configurations are compiled
//! once per change (`hook.rs`), so that a request pays only for the hooks that name its resource. A hook that names only an
//! equivalent resource gets the objects in the version of that resource, and its patch is converted back: `conversion/`.

pub(crate) mod config;
mod cached;
mod hook;
mod machinery;
mod review;
mod answer;
mod call;
mod calls;
mod shadow;
mod patched;
mod mutating;
mod validating;
pub(crate) mod v1alpha1;
#[cfg(test)]
pub(crate) mod tests;

/// The configurations of one kind from a folder of static manifests.
pub(crate) type Manifests<C> = Source<Vec<Arc<C>>>;

pub(crate) use mutating::MutatingWebhooks;
pub(crate) use validating::ValidatingWebhooks;

use crate::admission::{BuildError, PluginEnvironment};
use crate::manifests::Source;
use crate::manifests::webhooks::{Configuration, load};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Follows the folder of static manifests that a plugin's configuration names, if it names one.
///
/// # Errors
/// If the files in the folder cannot be used.
pub(crate) fn manifests<C>(
    folder: Option<PathBuf>,
    plugin: &'static str,
    environment: &PluginEnvironment<'_>,
) -> Result<Manifests<C>, BuildError>
where
    C: Configuration + Send + Sync + 'static,
{
    let Some(folder) = folder else { return Ok(Source::default()) };
    let place = folder.clone();
    let release = environment.feature_gates.expressions();
    let load = move |folder: &Path| load::<C>(folder, release);
    let followed = Source::follow(folder, plugin, environment.metrics.manifests().clone(), load);
    followed.map_err(|why| {
        let fault = why.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ");
        BuildError::Manifests { content: "webhook", folder: place, fault }
    })
}
