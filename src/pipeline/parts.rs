//! The components from which pipelines are made.

use super::Pipeline;
use super::answers::Answers;
use super::dry_run::DryRuns;
use super::gateway::{Gateway, Room, WholeAnswers};
use super::inflight::{InFlight, ProcessSeats};
use super::measure::RequestMetrics;
use super::request_log::SlowRequests;
use super::tenant::Tenant;
use crate::admission::{Chain, RefusalLog};
use crate::audit::Audit;
use crate::authn::{Authenticator, Schemes, TenantAuthority};
use crate::authz::{AccessReviews, Authorizer};
use crate::cluster::Cluster;
use crate::cluster::discovery::Discovery;
use crate::config::{FeatureGates, Limits, Writes};
use crate::impersonation::Impersonation;
use crate::manifests::ReservedNames;
use crate::metrics::Registry;
use crate::processor::Processor;
use crate::request::body::{BodyRoom, MediaTypes};
use crate::turns::Turns;
use crate::upstream::{Forwarder, SharedTransport, UpstreamRelease};
use std::sync::Arc;

/// The components and quantities that the pipelines of all tenants share.
pub struct Process {
    impersonation: Arc<Impersonation>,
    writes: Writes,
    answers: Arc<WholeAnswers>,
    seats: ProcessSeats,
    metrics: RequestMetrics,
    /// The memory for the bodies of writes.
    pub(crate) bodies: BodyRoom,
    pub(crate) processor: Processor,
}

impl Process {
    /// Creates them from the limits.
    ///
    /// # Errors
    /// If the registry already has the metrics.
    pub fn new(
        limits: &Limits,
        impersonation: Arc<Impersonation>,
        writes: Writes,
        registry: &Registry,
    ) -> prometheus::Result<Self> {
        Ok(Self {
            impersonation,
            writes,
            answers: WholeAnswers::new(limits),
            seats: ProcessSeats::new(limits, registry)?,
            metrics: RequestMetrics::register(registry, limits)?,
            bodies: BodyRoom::new(limits),
            processor: Processor::new(limits.long_work),
        })
    }
}

/// The components of a pipeline that differ between tenants or between API servers.
pub struct Parts<'a> {
    /// The tenant whose requests the pipeline answers.
    pub tenant: Arc<Tenant>,
    /// The authentication of the API server's callers.
    pub schemes: Arc<Schemes>,
    /// The issuers of client certificates of the tenant.
    pub tenant_ca: Option<TenantAuthority>,
    /// The authorization by the API server.
    pub reviews: Arc<AccessReviews>,
    /// The resources that the API server serves.
    pub discovery: Arc<Discovery>,
    /// The cached state of the API server.
    pub cluster: Arc<Cluster>,
    /// The admission plugins.
    pub chain: Arc<Chain>,
    /// The feature gates of admission.
    pub feature_gates: &'a FeatureGates,
    /// The value of the mark that admitted requests carry to the API server behind; `None` for no mark.
    pub admitted_mark: Option<String>,
    /// The transport of the proxy's own requests.
    pub transport: SharedTransport,
    /// The forwarder of callers' requests.
    pub forwarder: Forwarder,
    /// The release of the API server.
    pub release: Arc<UpstreamRelease>,
    /// The audit log.
    pub audit: Audit,
    /// Whether the API server behind has `metadata.initializers`.
    pub keeps_initializers: bool,
    /// The limits of the tenant.
    pub limits: Arc<Limits>,
}

impl Pipeline {
    /// Creates the pipeline of a tenant.
    pub fn new(process: &Process, parts: Parts<'_>) -> Self {
        let Parts { tenant, limits, .. } = parts;
        let sharing = &tenant.sharing;
        Self {
            authenticator: Arc::new(Authenticator::new(parts.schemes, sharing, parts.tenant_ca)),
            impersonation: process.impersonation.clone(),
            authorizer: Arc::new(Authorizer::new(parts.reviews, sharing.clone())),
            discovery: parts.discovery,
            cluster: parts.cluster,
            chain: parts.chain,
            reserved_names: ReservedNames::new(parts.feature_gates),
            writes: process.writes,
            media_types: MediaTypes { has_cbor: parts.feature_gates.is_on("CBORServingAndStorage") },
            defaulting: parts.feature_gates.defaulting(),
            admitted_mark: parts.admitted_mark,
            gateway: Gateway {
                transport: parts.transport,
                forwarder: parts.forwarder,
                response_bytes: limits.response_bytes,
                room: Room::new(process.answers.clone(), sharing.clone()),
                release: parts.release,
            },
            dry_runs: DryRuns::default(),
            audit: parts.audit,
            in_flight: InFlight::new(&process.seats, &limits, sharing, tenant.counts_all),
            bodies: process.bodies.clone(),
            answers: Answers::new(limits.request_timeout),
            metrics: process.metrics.clone(),
            refusals: RefusalLog::default(),
            slow: SlowRequests::new(limits.slow_request),
            turns: Turns::default(),
            processor: process.processor.clone(),
            keeps_initializers: parts.keeps_initializers,
            tenant,
            limits,
        }
    }
}
