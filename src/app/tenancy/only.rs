//! The only tenant of a process without `--tenants-dir`: it owns everything, and the flags are its settings.

use super::super::backend::Upstream;
use super::super::{check_backend, doubled};
use super::{Components, Shared};
use crate::admission::{Chain, PluginEnvironment};
use crate::cluster;
use crate::metrics::Registry;
use crate::pipeline::{Tenant, Tenants};
use crate::server::health::{Checks, Unhealthy};
use anyhow::{Context as _, Result};
use arc_swap::ArcSwap;
use std::sync::Arc;

/// Builds the tenant.
///
/// # Errors
/// If the flags cannot be used.
pub(super) fn start(
    shared: &Shared,
    upstream: Upstream,
    registry: &Registry,
    checks: &Checks,
) -> Result<Arc<ArcSwap<Tenants>>> {
    let Shared { config, metrics, .. } = shared;
    let (limits, admission) = (&config.limits, &config.admission);
    let backend = shared.start_flags(upstream)?;
    let doubled = doubled(config, &backend);
    check_backend(config, &backend, checks);
    let cluster = &backend.cluster;
    registry.register(Box::new(cluster::Metrics::new(cluster.clone())?)).context("metrics of the caches")?;
    if let Some(doubled) = doubled {
        checks.advise("webhooks-called-once", move || doubled.check());
    }
    let chain = Chain::build(&admission.plugins, metrics.clone(), |spec| PluginEnvironment {
        cluster: cluster.clone(),
        configuration: admission.configuration(spec.name),
        limits,
        metrics: metrics.clone(),
        feature_gates: &admission.feature_gates,
        default_tolerations: admission.default_tolerations,
        shadow_webhooks: &admission.shadow_webhooks,
        policies: &admission.policies,
        discovery: backend.server.discovery.clone(),
    })?;
    let chain = Arc::new(chain);
    let reported = chain.clone();
    checks.advise("admission-policies", move || match reported.problems() {
        problems if problems.is_empty() => Ok(()),
        problems => Err(Unhealthy::of(problems.join("; ").replace('\n', " "))),
    });
    let release = backend.server.release.clone();
    checks.advise("upstream-release", move || release.check());
    let reviewing = config.front_end.as_ref().map(|given| match given.is_alone {
        true => chain.clone(),
        false => Arc::new(chain.part(&given.plugins)),
    });
    let part = shared.part(
        &backend.server,
        Components {
            tenant: Tenant::default(),
            cluster: cluster.clone(),
            chain,
            reviewing,
            client_ca: None,
            audit: shared.audited.audit.clone(),
            admission,
            limits: limits.clone(),
            is_of_flags: true,
            // Requests are sent to the API server in any case.
            is_down: Box::new(|| false),
        },
    );
    let tenants = Tenants { parts: vec![Arc::new(part)], default: 0, choice: None };
    Ok(Arc::new(ArcSwap::from_pointee(tenants)))
}
