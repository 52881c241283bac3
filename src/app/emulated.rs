//! `--emulated-version=upstream`: the release of the API server behind, read before anything else starts.

use crate::config::{EmulatedRelease, Limits, UPSTREAM};
use crate::upstream::{Remote, SharedTransport, release};
use anyhow::{Context, Result};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The emulated release that is the nearest to that of the API server; waits for its version, but not longer than `wait`.
///
/// # Errors
/// If the kubeconfig cannot be used, or the API server tells no version.
pub(crate) async fn upstream_release(
    kubeconfig: &Path,
    limits: Arc<Limits>,
    wait: Duration,
) -> Result<EmulatedRelease> {
    let patience = limits.probe_timeout;
    let remote = Remote::from_kubeconfig(kubeconfig, limits).await;
    let remote = remote.with_context(|| format!("--upstream-kubeconfig={}", kubeconfig.display()))?;
    let url = remote.url();
    let transport: SharedTransport = Arc::new(remote);
    let version = release::first(&transport, wait, patience).await.with_context(|| {
        let seconds = wait.as_secs();
        format!(
            "--emulated-version={UPSTREAM}: {url} has not told its version within {seconds} s; name a release to start without its answer"
        )
    })?;
    let release = version.nearest();
    if version.is(release) {
        tracing::info!("the emulated release is that of the upstream API server: {release}");
    } else {
        tracing::warn!(
            "the upstream API server is of Kubernetes {version}, which cannot be emulated: the emulated release is {release}"
        );
    }
    Ok(release)
}
