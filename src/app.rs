//! Builds all components, runs the server, and shuts it down.

mod advertised;
mod backend;
pub(crate) mod build_info;
pub(crate) mod doctor;
mod emulated;
mod front;
mod pages;
mod reviews;
pub(crate) mod rights;
mod server_config;
mod tenancy;

pub(crate) use emulated::upstream_release;
pub(crate) use server_config::{Admission, Config, enabled, listed, reviewing};
pub(crate) use tenancy::check_tenants;

use crate::admission::metrics::Metrics;
use crate::audit::{self, Audit, Log, Policy, Queued, Sink, Webhook};
use crate::backend::{bound_answers, obey_proxy_variables};
use crate::body::Body;
use crate::cluster::AuthorityMaps;
use crate::config::{self, AuditLog, AuthorizationMode, CallsWebhooks, Limits};
use crate::conversion::Converter;
use crate::embedded::{self, DataDir, Vitals};
use crate::impersonation::{self, Impersonation};
use crate::logging;
use crate::metrics::{ProcessMetrics, Registry};
use crate::pipeline::{Process, Tenancy};
use crate::plugins::in_cluster_clients;
use crate::processor;
use crate::server::health::{self, Checks, Served, Unhealthy};
use crate::server::tls::Certificates;
use crate::server::{Drain, Listener, Refusals, Reloading, Unread, reload};
use crate::tenants::TenantMetrics;
use crate::upstream::{DoubleAdmission, RestMetrics, ServingCertificates};
use anyhow::{Context, Result};
use arc_swap::ArcSwap;
use backend::{Backend, Upstream, follow_rights};
use doctor::Connected;
use front::{Files, Front, certificates_of, kubeconfig_of, reachable};
use http::{Request, Response};
use hyper::body::Incoming;
use pages::ComponentPages;
use reviews::Reviews;
use rustls::ServerConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tenancy::Folder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::DropGuard;
use tokio_util::task::AbortOnDropHandle;

/// Runs the server until a signal stops it.
///
/// # Errors
/// If a file, an address or another resource that the configuration names is not available.
pub(crate) async fn run(config: Config) -> Result<()> {
    // By default the signal ends a process, without its drain.
    let mut hangups = signal(SignalKind::hangup()).context("SIGHUP")?;
    let _reading = AbortOnDropHandle::new(tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            tracing::info!(
                "SIGHUP: certificates, authorities, tokens, kubeconfigs, policies, manifests and tenants are read again"
            );
            reload::read_all_again();
        }
    }));
    let running = start(config).await?;
    running.drain.start_on_signal(running.shutdown_delay).await?;
    running.end().await
}

/// A server that runs. Dropping the value stops nothing: see [`Running::stop`].
pub struct Running {
    address: Option<SocketAddr>,
    /// The tenants, whose files are followed as long as the value lives.
    tenants: tenancy::Running,
    vitals: Arc<Vitals>,
    drain: Drain,
    listeners: Vec<JoinHandle<()>>,
    log: Option<Arc<Log>>,
    audit_webhook: Option<Arc<Webhook>>,
    embedded: Option<Arc<embedded::Server>>,
    _doctor: Option<AbortOnDropHandle<()>>,
    shutdown_delay: Duration,
    drain_timeout: Duration,
    _health: Option<DropGuard>,
}

impl Running {
    /// The address of the API; `None` if the webhook front end is alone.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Whether the server is ready, as `/readyz` says.
    pub fn is_ready(&self) -> bool {
        self.vitals.checks.is_ready()
    }

    /// A kubeconfig with a new client certificate of a user in one group; `None` if the server has no authority of its own.
    ///
    /// # Errors
    /// If the names cannot be written in a certificate.
    pub fn kubeconfig(&self, user: &str, group: &str) -> Result<Option<String>> {
        let own = self.tenants.shared.front.as_ref().and_then(|front| front.own.as_ref());
        let (Some(own), Some(address)) = (own, self.address) else { return Ok(None) };
        kubeconfig_of(own, address, user, group).map(Some)
    }

    /// Stops the server: requests in flight may finish, within the time of the configuration.
    ///
    /// # Errors
    /// If the listener has failed.
    pub async fn stop(self) -> Result<()> {
        self.drain.start(Duration::ZERO).await;
        self.end().await
    }

    /// Waits for the end of a server whose drain has started.
    async fn end(self) -> Result<()> {
        for listener in self.listeners {
            listener.await.context("the listener")?;
        }
        let in_time = tokio::time::timeout(self.drain_timeout, self.drain.finished()).await.is_ok();
        tracing::info!(in_time, "drained");
        if let Some(embedded) = self.embedded {
            embedded.close().await;
        }
        let mut is_written = self.tenants.shut_down().await;
        if let Some(log) = self.log {
            is_written &= log.shutdown().await;
        }
        if let Some(webhook) = self.audit_webhook {
            is_written &= webhook.shutdown().await;
        }
        if !is_written {
            tracing::warn!("the last audit events could not be written in time");
        }
        Ok(())
    }
}

/// Starts the server. Must be called inside a multi-threaded tokio runtime.
///
/// # Errors
/// If a file, an address or another resource that the configuration names is not available.
pub async fn start(config: Config) -> Result<Running> {
    obey_proxy_variables();
    bound_answers(&config.limits);
    let drain = Drain::new();
    let registry = Registry::new();
    let checks = Checks::new(&drain);
    ProcessMetrics::register(&registry).context("metrics of the process")?;
    logging::register(&registry).context("metrics of the log")?;
    build_info::register(&registry, &config.admission.feature_gates).context("metrics of the version")?;
    let vitals = Arc::new(Vitals { checks: checks.clone(), registry: registry.clone() });
    // Readiness waits for the start, because the other checks are registered later.
    let start = checks.pending("start");
    let serving = &config.serving;
    let is_for_clients = config.front_end.as_ref().is_none_or(|front_end| !front_end.is_alone);
    let listener = is_for_clients.then(|| listener(&serving.addresses)).transpose()?;
    let refusals = Refusals::of(&registry).context("metrics of handshakes")?;
    let listener = listener.map(|listener| listener.reporting(refusals));
    let reviews = config.front_end.as_ref().map(|front_end| Reviews::new(front_end, &serving.protocol)).transpose()?;
    let pages = Arc::new(ComponentPages::new(&config));
    let served = Served { checks: checks.clone(), registry: registry.clone(), pages: Some(pages.clone()) };
    let (health, health_address) = start_health(&config, served)?.unzip();

    let files = Files::new(&config, &registry)?;
    let named = config.tenants_dir.as_ref().map(|_| Arc::<ArcSwap<Certificates>>::default());
    let data = open_data_dir(&config.upstream)?;
    let mut front = is_for_clients.then(|| Front::new(&config, named.as_ref(), data.as_ref())).transpose()?;
    say_where_objects_are(&config);
    warn_of_plugins(&config.admission);
    let address = listener.as_ref().map(Listener::local_addr).transpose()?;
    let upstream = Upstream::new(&config, front.as_ref(), address, data.as_ref(), &drain, &vitals).await?;
    let embedded = upstream.embedded.clone();
    if let Some(rights) = follow_rights(&config, &upstream) {
        checks.ready("upstream-rights", move || rights.check());
    }
    let doctor = Connected::of(&upstream).map(|connected| doctor::follow(config.clone(), connected, &registry));
    let doctor = doctor.transpose().context("the metric of doctor")?;
    let certificates = match &serving.secret {
        Some(secret) => Some(certificates_of(secret, upstream.client.clone()).await),
        None => None,
    };
    if let (Some(front), Some(certificates)) = (&mut front, &certificates) {
        front.use_secret(certificates)?;
    }
    let front = front.map(Arc::new);
    let audited = audit(&config, &registry)?;
    let (log, audit_webhook) = (audited.log.clone(), audited.webhook.clone());
    if let Some(maps) = authority_maps(&config, &upstream)? {
        checks.advise("in-cluster-authorities", move || maps.check());
    }
    let parts = Parts {
        listener: listener.zip(address),
        health_address,
        reviews,
        certificates,
        upstream,
        audited,
        registry,
        checks,
        drain: drain.clone(),
    };
    let folder = config.tenants_dir.clone().zip(named).map(|(path, named)| Folder { path, named });
    let (tenants, listeners) = parts.serve(&config, front, folder, files).await?;
    pages.show(tenants.tenancy.clone());
    start.finish();
    Ok(Running {
        address,
        tenants,
        vitals,
        drain,
        listeners,
        log,
        audit_webhook,
        embedded,
        _doctor: doctor,
        shutdown_delay: config.serving.shutdown_delay,
        drain_timeout: config.limits.drain_timeout,
        _health: health,
    })
}

/// Starts the health port, if the configuration has one; returns its address as well.
fn start_health(config: &Config, served: Served) -> Result<Option<(DropGuard, SocketAddr)>> {
    let Some(address) = config.serving.health_address else { return Ok(None) };
    let listener = Listener::bind(address).with_context(|| format!("--health-bind-address={address}"))?;
    let address = listener.local_addr()?;
    let started = health::start(listener, served, &config.limits);
    Ok(Some((started.context("the thread of the health port")?, address)))
}

/// Opens the data folder of the embedded API server, if there is one.
fn open_data_dir(upstream: &config::Upstream) -> Result<Option<DataDir>> {
    let config::Upstream::Embedded(options) = upstream else { return Ok(None) };
    options.data_dir.as_deref().map(DataDir::open).transpose().context("--data-dir")
}

/// Says that the API server is the embedded one: who forgot --upstream-kubeconfig would look for the objects of a cluster.
fn say_where_objects_are(config: &Config) {
    let config::Upstream::Embedded(options) = &config.upstream else { return };
    let objects = match &options.data_dir {
        Some(folder) => format!("in {}", folder.display()),
        None => "in memory (--data-dir keeps them)".to_owned(),
    };
    let mode = if config.authorization.mode == AuthorizationMode::Rbac { "RBAC" } else { "AlwaysAllow" };
    tracing::info!("embedded API server, for trials and tests: objects {objects}, authorization {mode}");
}

/// Warns of plugins that Kubernetes removed, and of configurations without effect.
fn warn_of_plugins(admission: &Admission) {
    for why in admission.without_effect(&admission.existing()) {
        tracing::warn!("--admission-control-config-file has an entry without effect: {why}");
    }
    for spec in &admission.plugins {
        if let Some(removed) = spec.removed {
            tracing::warn!(plugin = spec.name, "Kubernetes removed this plugin. {removed}");
        }
    }
}

/// The parts of the server that the requests of clients and of webhooks share.
struct Parts {
    /// The listener for clients, with its address; `None` if the webhook front end is alone.
    listener: Option<(Listener, SocketAddr)>,
    health_address: Option<SocketAddr>,
    /// The webhook front end.
    reviews: Option<Reviews>,
    /// The serving certificates of a Secret.
    certificates: Option<ServingCertificates>,
    upstream: Upstream,
    audited: Audited,
    registry: Registry,
    checks: Checks,
    drain: Drain,
}

impl Parts {
    /// Serves the tenants of the folder, or the only tenant.
    async fn serve(
        self,
        config: &Config,
        front: Option<Arc<Front>>,
        folder: Option<Folder>,
        files: Files,
    ) -> Result<(tenancy::Running, Vec<JoinHandle<()>>)> {
        let Self { listener, health_address, reviews, certificates, upstream, audited, registry, checks, drain } = self;
        let (limits, client, mut listeners) = (&config.limits, upstream.client.clone(), Vec::new());
        let impersonation = impersonation(config, &registry)?;
        let shared = Arc::new(tenancy::Shared {
            metrics: Arc::new(Metrics::new(&registry).context("admission metrics")?),
            process: Process::new(limits, impersonation, config.writes, &registry).context("metrics of requests")?,
            rest: RestMetrics::of(&registry).context("metrics of the proxy's own requests")?,
            counted: TenantMetrics::register(&registry).context("metrics of tenants")?,
            config: config.clone(),
            front: front.clone(),
            drain: drain.clone(),
            files,
            audited,
        });
        let running = tenancy::start(shared, folder, upstream, &registry, &checks).await?;
        if let Some(reviews) = reviews {
            if let Some(health) = health_address {
                tracing::info!("health and metrics of the webhook front end on http://{}", reachable(health));
            }
            let certificates = certificates.as_ref();
            listeners.push(reviews.serve(config, &running, client, certificates, &registry, &checks, &drain)?);
        }
        if let (Some((listener, address)), Some(front)) = (listener, front) {
            front.announce(config, address, health_address)?;
            let service = Clients { tenancy: running.tenancy.clone(), drain: drain.clone() };
            listeners.push(serve(listener, front.tls.clone(), limits.clone(), drain, service));
        }
        Ok((running, listeners))
    }
}

/// The answers to the requests of a listener.
trait Service: Send + Sync + 'static {
    fn answer(&self, request: Request<Body>) -> impl Future<Output = Response<Body>> + Send;
}

/// The service of clients.
struct Clients {
    tenancy: Arc<Tenancy>,
    drain: Drain,
}

impl Service for Clients {
    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        self.tenancy.handle(request, &self.drain).await
    }
}

/// Starts to answer the requests of a listener.
fn serve(
    listener: Listener,
    tls: Arc<Reloading<ServerConfig>>,
    limits: Arc<Limits>,
    drain: Drain,
    service: impl Service,
) -> JoinHandle<()> {
    let (service, unread) = (Arc::new(service), Unread::new(limits.unread_bodies));
    let handle = move |request: Request<Incoming>| {
        let (service, request) = (service.clone(), unread.watch(request));
        processor::migrating(async move { service.answer(request).await })
    };
    tokio::spawn(listener.serve(tls, limits, drain, handle))
}

/// Binds all addresses with the same port.
fn listener(addresses: &[SocketAddr]) -> Result<Listener> {
    let flags = |address: &SocketAddr| format!("--bind-address={} --secure-port={}", address.ip(), address.port());
    let (first, others) = addresses.split_first().context("--bind-address names no address")?;
    let mut listener = Listener::bind(*first).with_context(|| flags(first))?;
    for address in others {
        listener.bind_also(address.ip()).with_context(|| flags(address))?;
    }
    Ok(listener)
}

/// Adds the readiness checks of the upstream API server and of the caches of its state.
fn check_backend(config: &Config, backend: &Backend, checks: &Checks) {
    let (discovery, cluster) = (backend.server.discovery.clone(), backend.cluster.clone());
    checks.ready(
        "discovery",
        move || if discovery.is_synced() { Ok(()) } else { Err(Unhealthy::of("no discovery yet")) },
    );
    // The health of the embedded API server is that of this process, if it serves the health paths itself.
    if config.serving.health_address.is_some() {
        let probe = backend.server.probe.clone();
        checks.ready("upstream", move || probe.check());
    }
    checks.ready("informer-sync", move || match (cluster.unsynced(), cluster.stale()) {
        (waiting, stale) if waiting.is_empty() && stale.is_empty() => Ok(()),
        (waiting, stale) if waiting.is_empty() => Err(Unhealthy::of(format_args!("not followed: {stale:?}"))),
        (waiting, _) => Err(Unhealthy::of(format_args!("not synced: {waiting:?}"))),
    });
}

/// Keeps the ConfigMaps of InClusterClients, if the plugin is enabled and names authorities.
fn authority_maps(config: &Config, upstream: &Upstream) -> Result<Option<AuthorityMaps>> {
    let name = in_cluster_clients::SPEC.name;
    if !config.admission.plugins.iter().any(|spec| spec.name == name) {
        return Ok(None);
    }
    let configuration = in_cluster_clients::Configuration::read(config.admission.configuration(name))?;
    let limits = &config.limits;
    let keep =
        |file| AuthorityMaps::keep(upstream.client.clone(), file, limits.authority_interval, limits.call_timeout);
    Ok(configuration.authorities.map(keep))
}

/// Lets the embedded API server call conversion webhooks.
fn convert(embedded: Option<&embedded::Server>, backend: &Backend, limits: &Limits, metrics: &Metrics) {
    if let Some(server) = embedded {
        let (cluster, discovery) = (backend.cluster.clone(), backend.server.discovery.clone());
        server.convert_by(Arc::new(Converter::new(cluster, discovery, limits, metrics.conversions())));
    }
}

fn impersonation(config: &Config, registry: &Registry) -> Result<Arc<Impersonation>> {
    let is_constrained = config.admission.feature_gates.is_on("ConstrainedImpersonation");
    let metrics = impersonation::Metrics::register(registry).context("impersonation metrics")?;
    let impersonation = Impersonation::new(config.limits.impersonation_checks);
    Ok(Arc::new(impersonation.with_gate(is_constrained).with_metrics(metrics)))
}

/// Checks whether both the proxy and the API server behind call webhooks.
fn doubled(config: &Config, backend: &Backend) -> Option<DoubleAdmission> {
    let config::Upstream::Remote { calls_webhooks, .. } = &config.upstream else { return None };
    let plugins: Vec<&'static str> = config.admission.plugins.iter().map(|spec| spec.name).collect();
    Some(match calls_webhooks {
        CallsWebhooks::Auto => {
            let (transport, recovered) = (backend.server.transport.clone(), backend.server.probe.recovered());
            DoubleAdmission::watch(transport, &plugins, config.limits.call_timeout, recovered)
        }
        CallsWebhooks::Yes => DoubleAdmission::known(true, &plugins),
        CallsWebhooks::No => DoubleAdmission::known(false, &plugins),
    })
}

/// The audit backends, and what further audit logs share with them.
struct Audited {
    audit: Audit,
    webhook: Option<Arc<Webhook>>,
    log: Option<Arc<Log>>,
    /// The path of the log.
    path: Option<String>,
    has_own_annotations: bool,
    metrics: audit::Metrics,
}

impl Audited {
    /// Auditing with a policy into a log and the webhook, of which there may be none.
    fn of(&self, policy: Reloading<Policy>, log: Option<Arc<Log>>) -> Audit {
        let log = log.map(|log| log as Arc<dyn Sink>);
        let webhook = self.webhook.clone().map(|webhook| webhook as Arc<dyn Sink>);
        let sinks: Vec<_> = log.into_iter().chain(webhook).collect();
        if sinks.is_empty() {
            Audit::off()
        } else {
            Audit::new(policy, sinks, self.metrics.clone(), self.has_own_annotations)
        }
    }
}

/// Starts auditing if a backend and a policy are given; kube-apiserver needs both as well.
fn audit(config: &Config, registry: &Registry) -> Result<Audited> {
    let metrics = audit::Metrics::register(registry)?;
    let given = &config.audit;
    // If there are both backends, each has half of the queue.
    let bytes = config.limits.audit_queue_bytes / if given.log.is_some() && given.webhook.is_some() { 2 } else { 1 };
    let webhook = given.webhook.as_ref().map(|webhook| {
        Webhook::start(webhook, Queued::new(bytes), metrics.clone(), config.limits.clone()).with_context(|| {
            format!("--audit-webhook-config-file={}: initializing audit webhook", webhook.kubeconfig.display())
        })
    });
    let webhook = webhook.transpose()?.map(Arc::new);
    let has_own_annotations = !given.is_exact;
    let mut audited = Audited { audit: Audit::off(), webhook, log: None, path: None, has_own_annotations, metrics };
    let Some(policy_file) = &given.policy_file else { return Ok(audited) };
    let file = policy_file.clone();
    let policy = reload::watch(vec![policy_file.clone()], move || Policy::from_file(&file));
    let policy = policy.with_context(|| format!("--audit-policy-file={}", policy_file.display()))?;
    if let Some(log) = &given.log {
        let path = match log {
            AuditLog::Stdout => "-",
            AuditLog::File(path) => path.to_str().context("--audit-log-path is not UTF-8")?,
        };
        let (queued, limits) = (Queued::new(bytes), config.limits.clone());
        let log = Log::open(path, queued, &given.log_options, audited.metrics.clone(), limits)
            .with_context(|| format!("--audit-log-path={path}"))?;
        (audited.log, audited.path) = (Some(Arc::new(log)), Some(path.to_owned()));
    }
    audited.audit = audited.of(policy, audited.log.clone());
    Ok(audited)
}
