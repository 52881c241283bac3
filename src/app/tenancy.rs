//! Builds the pipelines of the tenants. Without `--tenants-dir` there is one tenant, which owns everything.

mod folder;
mod only;
mod prepared;

pub(crate) use prepared::check_tenants;
pub(super) use prepared::{OfTenants, api_servers};

use super::backend::{ApiServer, Backend, Caches, Upstream, all_needs};
use super::front::{Files, Front};
use super::{Admission, Audited, Config, convert};
use crate::admission::metrics::Metrics as AdmissionMetrics;
use crate::admission::{Attributes, Chain};
use crate::audit::Audit;
use crate::authn::TenantAuthority;
use crate::authz::Authorizer;
use crate::cluster::{Cluster, Loopback};
use crate::config::Limits;
use crate::metrics::Registry;
use crate::pipeline::{Part, Parts, Pipeline, Process, Tenancy, Tenant};
use crate::server::health::Checks;
use crate::server::{ConnectionBudget, Drain};
use crate::status::Status;
use crate::tenants::TenantMetrics;
use crate::upstream::{ReleaseMetrics, RestMetrics};
use anyhow::{Context as _, Result};
use async_trait::async_trait;
pub(super) use folder::Folder;
use folder::Following;
use std::sync::Arc;

/// The state that all tenants share.
pub(super) struct Shared {
    pub(super) config: Config,
    /// `None` if the webhook front end is alone.
    pub(super) front: Option<Arc<Front>>,
    pub(super) files: Files,
    pub(super) drain: Drain,
    pub(super) metrics: Arc<AdmissionMetrics>,
    pub(super) audited: Audited,
    pub(super) process: Process,
    /// The metrics of requests to the API servers that tenants name.
    pub(super) rest: RestMetrics,
    pub(super) counted: TenantMetrics,
}

/// The components of one tenant.
struct Components<'a> {
    tenant: Tenant,
    cluster: Arc<Cluster>,
    chain: Arc<Chain>,
    /// The plugins that answer reviews.
    reviewing: Option<Arc<Chain>>,
    /// The issuers of client certificates of the tenant.
    client_ca: Option<TenantAuthority>,
    audit: Audit,
    admission: &'a Admission,
    limits: Arc<Limits>,
    /// Whether the API server is that of the flags.
    is_of_flags: bool,
    /// Whether the API server is known not to answer.
    is_down: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Shared {
    /// Starts to follow the API server of the flags.
    fn start_flags(&self, upstream: Upstream) -> Result<Backend> {
        let Self { config, files, .. } = self;
        let (needs, caches) = (all_needs(&config.admission), Caches::Own(config.limits.caches_bytes));
        let client_ca = self.front.as_ref().and_then(|front| front.client_ca.as_ref());
        let embedded = upstream.embedded.clone();
        let backend = Backend::start(config, &config.upstream, upstream, client_ca, files, &needs, caches)?;
        convert(embedded.as_deref(), &backend, &config.limits, &self.metrics);
        if embedded.is_none() {
            let metrics = ReleaseMetrics::new(backend.server.release.clone(), config.emulation())?;
            self.metrics.registry().register(Box::new(metrics)).context("the metric of the release")?;
        }
        Ok(backend)
    }

    /// Builds a tenant.
    fn part(&self, server: &ApiServer, of: Components<'_>) -> Part {
        let config = &self.config;
        let pipeline = Arc::new(Pipeline::new(
            &self.process,
            Parts {
                tenant: Arc::new(of.tenant),
                schemes: server.schemes.clone(),
                tenant_ca: of.client_ca,
                reviews: server.reviews.clone(),
                discovery: server.discovery.clone(),
                cluster: of.cluster,
                chain: of.chain,
                feature_gates: &of.admission.feature_gates,
                admitted_mark: config.upstream.admitted_mark().filter(|_| of.is_of_flags).map(str::to_owned),
                transport: server.transport.clone(),
                forwarder: server.forwarder.clone(),
                release: server.release.clone(),
                audit: of.audit,
                keeps_initializers: of.is_of_flags && config.admission.has_initializers(),
                limits: of.limits,
            },
        ));
        let writes: Arc<dyn Loopback> = pipeline.clone();
        pipeline.cluster.loop_back_to(Arc::downgrade(&writes));
        Part {
            pipeline,
            reviewing: of.reviewing,
            connections: ConnectionBudget::new(config.limits.connections / 2),
            is_down: of.is_down,
        }
    }
}

/// The present tenants.
pub(super) struct Running {
    pub(super) tenancy: Arc<Tenancy>,
    pub(super) shared: Arc<Shared>,
    /// The folder of the tenants, if there is one.
    following: Option<Following>,
}

impl Running {
    /// The authorizer of the tenant `default`, or of the only one, as it is now.
    pub(super) fn default_authorizer(&self) -> Result<Arc<Authorizer>> {
        let tenants = self.tenancy.current.load();
        let part = tenants.parts.get(tenants.default).context("there is no tenant default")?;
        Ok(part.pipeline.authorizer.clone())
    }

    /// Waits until the tenants' audit logs are written. Returns whether that happened in time.
    pub(super) async fn shut_down(&self) -> bool {
        match &self.following {
            Some(following) => following.shut_down().await,
            None => true,
        }
    }
}

/// The tenants, whose plugins answer the reviews of the API server of the flags.
pub(super) struct Reviewed(pub(super) Arc<Tenancy>);

#[async_trait]
impl crate::front_end::ReviewingTenants for Reviewed {
    async fn plugins(&self, attributes: &Attributes) -> Result<Option<Arc<Chain>>, Status> {
        let part = self.0.of_object(attributes).await?;
        Ok(part.and_then(|part| part.reviewing.clone()))
    }
}

/// Builds the tenants: those of the folder, which is followed, or the only one.
///
/// # Errors
/// If the tenants cannot be used at the start.
pub(super) async fn start(
    shared: Arc<Shared>,
    folder: Option<Folder>,
    upstream: Upstream,
    registry: &Registry,
    checks: &Checks,
) -> Result<Running> {
    let (current, following) = match folder {
        Some(folder) => {
            let following = folder::start(shared.clone(), folder, upstream, checks).await?;
            (following.current(), Some(following))
        }
        None => (only::start(&shared, upstream, registry, checks)?, None),
    };
    let tenancy = Arc::new(Tenancy { current, metrics: shared.counted.clone() });
    Ok(Running { tenancy, shared, following })
}
