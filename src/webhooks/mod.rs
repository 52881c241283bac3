//! Admission webhooks: which hooks a request concerns, how they are called, and what becomes of their answers.
//!
//! The two plugins in `plugins/` are thin: they hand a request to [`Mutating`] or [`Validating`]. Configurations are compiled
//! once per change (`hook.rs`), so that a request pays only for the hooks that name its resource. A hook that names only an
//! equivalent of it is shown the objects in that version, and its patch is taken back from there: `conversion/`.

pub mod config;
mod cached;
mod hook;
mod review;
mod answer;
mod call;
mod shadow;
mod patched;
mod mutating;
mod validating;
#[cfg(test)]
pub(crate) mod tests;

/// The configurations of a kind that a folder has.
pub type Manifests<C> = Source<Vec<Arc<C>>>;

pub use mutating::Mutating;
pub use validating::Validating;

use crate::admission::{BuildError, Environment};
use crate::manifests::Source;
use crate::manifests::webhooks::{Configuration, load};
use std::path::PathBuf;
use std::sync::Arc;

/// Follows the folder that a plugin's configuration names, if it names one.
///
/// # Errors
/// When what is there cannot be used.
pub fn manifests<C>(
    folder: Option<PathBuf>,
    plugin: &'static str,
    environment: &Environment<'_>,
) -> Result<Manifests<C>, BuildError>
where
    C: Configuration + Send + Sync + 'static,
{
    let Some(folder) = folder else { return Ok(Source::default()) };
    let place = folder.clone();
    let followed = Source::follow(folder, plugin, environment.metrics.manifests().clone(), |folder| load::<C>(folder));
    followed.map_err(|why| {
        let why = why.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ");
        BuildError(format!("failed to load static webhook manifests from {place:?}: {why}"))
    })
}
