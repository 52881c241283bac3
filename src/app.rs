//! Builds all components, runs the server, and shuts it down.

mod server_config;

pub use server_config::{Admission, Config, enabled, listed};

use crate::admission::metrics::Metrics;
use crate::admission::{Chain, Environment};
use crate::audit::{self, Audit, Log, Policy};
use crate::authn::{self, Authenticator, CertificateAuthority, RequestHeaderConfig, StaticTokens};
use crate::authz::{self, Authorizer, Reviewer};
use crate::body::{Body, BoxError};
use crate::cluster::discovery::{self, Discovery};
use crate::cluster::{self, Cluster, Loopback, Need};
use crate::config::kubeconfig::Kubeconfig;
use crate::config::{self, AuditLog, AuthorizationMode, CallsWebhooks, Limits, UpstreamIdentity};
use crate::conversion::Converter;
use crate::embedded;
use crate::impersonation::{self, Impersonation};
use crate::manifests::ReservedNames;
use crate::metrics::Registry;
use crate::pipeline::{DryRuns, Gateway, InFlight, Pipeline, Room};
use crate::processor::Processor;
use crate::removed::Api;
use crate::request::body::MediaTypes;
use crate::server::certificates::Authority;
use crate::server::health::{self, Checks};
use crate::server::{Bounds, Drain, Listener, Reloading, reload, tls};
use crate::upstream::{
    self, Doubled, Forwarder, FrontProxy, Identity, Probe, Release, Remote, SharedTransport, kube_client,
};
use anyhow::{Context, Result};
use http::{HeaderName, Request};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use rustls::ServerConfig;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The user that the kubeconfig for the embedded API server names, and its group.
const ADMINISTRATOR: (&str, &str) = ("kubernetes-admin", "system:masters");

/// Runs the server until a signal stops it.
///
/// # Errors
/// If a file, an address or another resource that the configuration names is not available.
pub async fn run(config: Config) -> Result<()> {
    let drain = Drain::new();
    let registry = Registry::new();
    let checks = Checks::new(&drain);
    // Readiness waits for the start, because the other checks are registered later.
    let start = checks.pending("start");
    let serving = &config.serving;
    let health = Listener::bind(serving.health_address)
        .with_context(|| format!("--health-bind-address={}", serving.health_address))?;
    let listener = Listener::bind(serving.address)
        .with_context(|| format!("--bind-address={} --secure-port={}", serving.address.ip(), serving.address.port()))?;
    let (address, health_address) = (listener.local_addr()?, health.local_addr()?);
    let _health = health::start(health, checks.clone(), registry.clone(), config.limits.health_connections)
        .context("the thread of the health port")?;

    let files = Files::new(&config)?;
    let front = Front::new(&config, address)?;
    for spec in &config.admission.plugins {
        if let Some(removed) = spec.removed {
            tracing::warn!(plugin = spec.name, "Kubernetes removed this plugin. {removed}");
        }
    }
    let upstream = Upstream::new(&config, &drain, &checks).await?;
    let (audit, log) = audit(&config, &registry)?;
    let pipeline = pipeline(&config, &front, &files, upstream, audit, &registry, &checks)?;
    front.announce(&config, address, health_address)?;

    let handle = {
        let pipeline = Arc::new(pipeline);
        let writes: Arc<dyn Loopback> = pipeline.clone();
        pipeline.cluster.loop_back_to(Arc::downgrade(&writes));
        let shared = Arc::new((pipeline, drain.clone()));
        move |request: Request<Incoming>| {
            let shared = shared.clone();
            // On the heap until the answer: the rest of a watch is small then.
            async move { Box::pin(shared.0.handle(request.map(incoming), &shared.1)).await }
        }
    };
    let serve = tokio::spawn(listener.serve(front.tls.clone(), bounds(&config), drain.clone(), handle));
    start.finish();
    drain.start_on_signal(serving.shutdown_delay).await?;
    serve.await.context("the listener")?;
    let in_time = tokio::time::timeout(serving.drain_timeout, drain.finished()).await.is_ok();
    tracing::info!(in_time, "drained");
    if let Some(log) = log
        && !log.shutdown().await
    {
        tracing::warn!("the end of the audit log could not be written in time");
    }
    Ok(())
}

fn incoming(body: Incoming) -> Body {
    body.map_err(BoxError::from).boxed_unsync()
}

/// The client-facing part: the serving certificate, and the authority of client certificates.
struct Front {
    tls: Arc<Reloading<ServerConfig>>,
    /// The authority that the process generated for itself, if no files were given.
    own: Option<Authority>,
    client_ca: Option<Reloading<CertificateAuthority>>,
}

impl Front {
    fn new(config: &Config, address: SocketAddr) -> Result<Self> {
        let client_ca =
            config.authentication.client_ca.as_deref().map(|path| authority("client-ca-file", path)).transpose()?;
        if let Some(files) = &config.serving.certificate {
            let authorities = client_authorities(&config.authentication);
            let tls = tls::watch_certificate(&files.certificate, &files.key, authorities).with_context(|| {
                format!(
                    "--tls-cert-file={} --tls-private-key-file={}",
                    files.certificate.display(),
                    files.key.display()
                )
            })?;
            return Ok(Self { tls: Arc::new(tls), own: None, client_ca });
        }
        let own = Authority::generate("kube-admission-proxy")?;
        let issued = own.serving(&own_names(address.ip()))?;
        // In front of a remote API server, the process trusts no authority of its own.
        let is_own = client_ca.is_none() && matches!(config.upstream, config::Upstream::Embedded { .. });
        if !is_own {
            let authorities = client_authorities(&config.authentication);
            let tls = tls::watch_authorities(issued.certificate_pem, issued.key_pem, authorities)?;
            return Ok(Self { tls: Arc::new(tls), own: None, client_ca });
        }
        let (certificate, key) = (issued.certificate_pem.as_bytes(), issued.key_pem.as_bytes());
        let tls = tls::server_config(certificate, key, tls::names(own.pem().as_bytes()))?;
        let client_ca = Some(Reloading::fixed(CertificateAuthority::parse(own.pem().as_bytes())?));
        Ok(Self { tls: Arc::new(Reloading::fixed(tls)), own: Some(own), client_ca })
    }

    /// Logs the address of the server; in front of the embedded API server, also writes a kubeconfig for it.
    fn announce(&self, config: &Config, address: SocketAddr, health: SocketAddr) -> Result<()> {
        let server = format!("https://{}", reachable(address));
        tracing::info!("serving on {server}, health and metrics on http://{}", reachable(health));
        let (config::Upstream::Embedded { kubeconfig }, Some(own)) = (&config.upstream, &self.own) else {
            return Ok(());
        };
        let client = own.client(ADMINISTRATOR.0, ADMINISTRATOR.1)?;
        let written = Kubeconfig {
            server: &server,
            certificate_authority: &own.pem(),
            client_certificate: &client.certificate_pem,
            client_key: &client.key_pem,
        };
        written.write(kubeconfig).with_context(|| format!("--write-kubeconfig={}", kubeconfig.display()))?;
        println!("export KUBECONFIG={}", std::path::absolute(kubeconfig)?.display());
        Ok(())
    }
}

/// Returns the files of the CAs that sign client certificates, including those of front proxies
/// (`DynamicServingCertificateController`).
fn client_authorities(authentication: &config::Authentication) -> Vec<PathBuf> {
    let of_front_proxies = authentication.request_header.as_ref().map(|config| &config.client_ca);
    authentication.client_ca.iter().chain(of_front_proxies).cloned().collect()
}

/// Returns the names in a certificate that the process generates for itself.
fn own_names(bound: IpAddr) -> Vec<String> {
    let mut names: Vec<String> =
        ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
            .map(String::from)
            .into();
    let bound = bound.to_string();
    if !names.contains(&bound) {
        names.push(bound);
    }
    names
}

/// Returns the address for a client on this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    let loopback =
        if address.is_ipv4() { IpAddr::from([127, 0, 0, 1]) } else { IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]) };
    SocketAddr::new(loopback, address.port())
}

fn authority(flag: &'static str, path: &Path) -> Result<Reloading<CertificateAuthority>> {
    let file = path.to_owned();
    reload::watch(vec![path.to_owned()], move || -> Result<_, Unreadable> {
        CertificateAuthority::parse(&read(&file)?).map_err(|error| Unreadable(error.to_string()))
    })
    .with_context(|| format!("--{flag}={}", path.display()))
}

/// The reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unreadable(String);

fn read(path: &PathBuf) -> Result<Vec<u8>, Unreadable> {
    std::fs::read(path).map_err(|error| Unreadable(error.to_string()))
}

fn bounds(config: &Config) -> Bounds {
    let limits = &config.limits;
    Bounds {
        max_connections: limits.connections,
        max_unauthenticated_connections: limits.unauthenticated_connections,
        max_handshakes: limits.handshakes,
        idle_timeout: limits.idle_timeout,
        goaway_timeout: limits.goaway_timeout,
        max_concurrent_streams: limits.http2_streams,
        max_header_bytes: limits.head_bytes,
        handshake_timeout: limits.handshake_timeout,
        header_read_timeout: limits.head_timeout,
        drain_timeout: config.serving.drain_timeout,
        ..Bounds::default()
    }
}

/// The authentication files, which are reloaded while the server runs.
#[derive(Default)]
struct Files {
    request_header_ca: Option<Reloading<CertificateAuthority>>,
    tokens: Option<Reloading<StaticTokens>>,
}

impl Files {
    fn new(config: &Config) -> Result<Self> {
        let authentication = &config.authentication;
        let request_header_ca = authentication.request_header.as_ref();
        let request_header_ca =
            request_header_ca.map(|config| authority("requestheader-client-ca-file", &config.client_ca)).transpose()?;
        let tokens = authentication.token_file.as_deref().map(static_tokens).transpose()?;
        Ok(Self { request_header_ca, tokens })
    }
}

fn static_tokens(path: &Path) -> Result<Reloading<StaticTokens>> {
    let file = path.to_owned();
    reload::watch(vec![path.to_owned()], move || -> Result<_, Unreadable> {
        StaticTokens::parse(&read(&file)?).map_err(|error| Unreadable(error.to_string()))
    })
    .with_context(|| format!("--token-auth-file={}", path.display()))
}

/// The API server behind, and its transports.
struct Upstream {
    transport: SharedTransport,
    forwarder: Forwarder,
    client: kube::Client,
    is_passthrough: bool,
    /// The embedded API server, if it is the one behind.
    embedded: Option<Arc<embedded::Server>>,
}

impl Upstream {
    async fn new(config: &Config, drain: &Drain, checks: &Checks) -> Result<Self> {
        let mut embedded = None;
        let (transport, identity): (SharedTransport, _) = match &config.upstream {
            config::Upstream::Embedded { .. } => {
                let limits = embedded::Limits {
                    body_bytes: config.limits.body_bytes,
                    user_waiting_creates: config.limits.user_waiting_creates,
                    definitions: config.limits.definitions,
                    ..Default::default()
                };
                let features = embedded::Features {
                    removed: served_removed_apis(config),
                    rbac: config.authorization.mode == AuthorizationMode::Rbac,
                    initializers: config.admission.has_initializers(),
                };
                let server = embedded::Server::with(limits, features);
                embedded = Some(server.clone());
                (Arc::new(server), Identity::Impersonate)
            }
            config::Upstream::Remote { kubeconfig, identity, .. } => {
                let remote = Remote::from_kubeconfig(kubeconfig, upstream_bounds(&config.limits)).await;
                let remote = remote.with_context(|| format!("--upstream-kubeconfig={}", kubeconfig.display()))?;
                tracing::info!("the API server behind is {}", remote.url());
                let remote: SharedTransport = Arc::new(remote);
                let identity = match identity {
                    UpstreamIdentity::Impersonate => Identity::Impersonate,
                    UpstreamIdentity::RequestHeader => front_proxy(&remote, &config.limits, checks),
                    UpstreamIdentity::Passthrough => Identity::Passthrough,
                };
                (remote, identity)
            }
        };
        let is_passthrough = matches!(identity, Identity::Passthrough);
        let forwarder = Forwarder::new(transport.clone(), identity, drain.clone());
        Ok(Self { client: kube_client(transport.clone()), transport, forwarder, is_passthrough, embedded })
    }
}

/// Follows the header names that the API server publishes for front proxies; the proxy is not ready while they cannot be read.
fn front_proxy(transport: &SharedTransport, limits: &Limits, checks: &Checks) -> Identity {
    let (front_proxy, known) =
        FrontProxy::follow(transport.clone(), limits.front_proxy_headers_interval, limits.call_timeout);
    checks.ready("front-proxy-headers", move || front_proxy.check());
    Identity::RequestHeader(known)
}

fn upstream_bounds(limits: &Limits) -> upstream::Bounds {
    upstream::Bounds {
        max_connections: limits.upstream_connections,
        max_http1_connections: limits.upstream_http1_connections,
        max_idle_http1_connections: limits.idle_connections,
        connect_timeout: limits.connect_timeout,
        acquire_timeout: limits.connection_wait_timeout,
        client_stream_window: limits.answer_window_bytes,
        client_watch_window: limits.watch_window_bytes,
        ..Default::default()
    }
}

fn discovery_limits(limits: &Limits) -> discovery::Limits {
    discovery::Limits { call_timeout: limits.call_timeout, body_bytes: limits.discovery_bytes, ..Default::default() }
}

fn cluster_limits(limits: &Limits) -> cluster::Limits {
    cluster::Limits {
        call_timeout: limits.call_timeout,
        list_timeout: limits.list_timeout,
        object_bytes: limits.object_bytes,
        broken_watch_timeout: limits.broken_watch_timeout,
        ready_timeout: limits.cache_sync_timeout,
        definition_ttl: limits.definition_ttl,
        parameter_kinds: limits.policy_parameter_kinds,
        parameter_bytes: limits.policy_parameter_bytes,
    }
}

/// Builds the path of requests with all its components.
fn pipeline(
    config: &Config,
    front: &Front,
    files: &Files,
    upstream: Upstream,
    audit: Audit,
    registry: &Registry,
    checks: &Checks,
) -> Result<Pipeline> {
    let limits = &config.limits;
    let discovery = Discovery::start(upstream.transport.clone(), upstream.client.clone(), discovery_limits(limits));
    let of_plugins = needs(&config.admission);
    // Custom resources are decoded even if no plugin needs the definitions.
    let mut needs: Vec<Need> = of_plugins.chain([Need::CUSTOM_RESOURCE_DEFINITIONS]).collect();
    if config.admission.routes_to_endpoints && needs.contains(&Need::SERVICES) {
        needs.push(Need::ENDPOINT_SLICES);
    }
    let removed = served_removed_apis(config);
    let cluster = Cluster::start_with_removed(upstream.client.clone(), &needs, cluster_limits(limits), &removed);
    let ready = (discovery.clone(), cluster.clone());
    checks.ready("discovery", move || if ready.0.is_synced() { Ok(()) } else { Err("no discovery yet".into()) });
    let probe = Probe::start(upstream.transport.clone(), limits.probe_interval, limits.probe_timeout);
    checks.ready("upstream", move || probe.check());
    checks.ready("informer-sync", move || match (ready.1.unsynced(), ready.1.stale()) {
        (waiting, stale) if waiting.is_empty() && stale.is_empty() => Ok(()),
        (waiting, stale) if waiting.is_empty() => Err(format!("not followed: {stale:?}")),
        (waiting, _) => Err(format!("not synced: {waiting:?}")),
    });
    registry.register(Box::new(cluster::Metrics::new(cluster.clone())?)).context("metrics of the caches")?;

    if let Some(doubled) = doubled(config, &upstream) {
        checks.advise("webhooks-called-once", move || doubled.check());
    }

    let metrics = Arc::new(Metrics::new(registry).context("admission metrics")?);
    if let Some(server) = &upstream.embedded {
        let converter = Converter::new(cluster.clone(), discovery.clone(), limits, metrics.conversions());
        server.convert_by(Arc::new(converter));
    }
    let chain = Chain::build(&config.admission.plugins, metrics.clone(), |spec| Environment {
        cluster: cluster.clone(),
        configuration: config.admission.configuration(spec.name),
        limits,
        metrics: metrics.clone(),
        feature_gates: &config.admission.feature_gates,
        default_tolerations: config.admission.default_tolerations,
        shadow_webhooks: &config.admission.shadow_webhooks,
        policies: &config.admission.policies,
        discovery: discovery.clone(),
    })?;
    let chain = Arc::new(chain);
    let told = chain.clone();
    checks.advise("admission-policies", move || match told.problems() {
        problems if problems.is_empty() => Ok(()),
        problems => Err(problems.join("; ").replace('\n', " ")),
    });
    let is_constrained = config.admission.feature_gates.is_on("ConstrainedImpersonation");
    let impersonations = impersonation::Metrics::register(registry).context("impersonation metrics")?;
    // The embedded API server is part of this process, so its release is known.
    let release = Arc::new(match &config.upstream {
        config::Upstream::Embedded { .. } => Release::known(),
        config::Upstream::Remote { .. } => {
            Release::start(upstream.transport.clone(), limits.probe_interval, limits.probe_timeout)
        }
    });
    let asked = release.clone();
    checks.advise("upstream-release", move || asked.check());
    Ok(Pipeline {
        authenticator: Authenticator::new(authentication(config, front, files, &upstream)?),
        impersonation: Impersonation::new(limits.impersonation_checks)
            .with_gate(is_constrained)
            .with_metrics(impersonations),
        authorizer: Arc::new(Authorizer::new(authorization(config, &upstream))),
        discovery,
        cluster,
        chain,
        reserved_names: ReservedNames::new(&config.admission.feature_gates),
        validation_view: config.validation_view,
        field_ownership: config.field_ownership,
        media_types: MediaTypes { has_cbor: config.admission.feature_gates.is_on("CBORServingAndStorage") },
        gateway: Gateway {
            transport: upstream.transport,
            forwarder: upstream.forwarder,
            response_bytes: limits.response_bytes,
            room: Room::new(limits),
            release,
        },
        dry_runs: DryRuns::default(),
        audit,
        in_flight: InFlight::new(limits, registry).context("metrics of requests")?,
        processor: Processor::new(limits.long_work),
        keeps_initializers: config.admission.has_initializers(),
        limits: limits.clone(),
    })
}

/// The caches that the plugins read. A plugin whose configuration names a folder of manifests does not read a removed API.
fn needs(admission: &Admission) -> impl Iterator<Item = Need> {
    admission.plugins.iter().flat_map(|spec| {
        let has_files = admission.configuration(spec.name).is_some_and(|given| given.static_manifests_dir().is_some());
        spec.needs.iter().copied().filter(move |need| !has_files || need.removed_api().is_none())
    })
}

/// The removed APIs that the embedded API server serves: those of the enabled plugins.
fn served_removed_apis(config: &Config) -> Vec<&'static Api> {
    match &config.upstream {
        config::Upstream::Remote { .. } => Vec::new(),
        config::Upstream::Embedded { .. } => needs(&config.admission).filter_map(Need::removed_api).collect(),
    }
}

/// Checks whether both the proxy and the API server behind call webhooks.
fn doubled(config: &Config, upstream: &Upstream) -> Option<Doubled> {
    let config::Upstream::Remote { calls_webhooks, .. } = &config.upstream else { return None };
    let plugins: Vec<&'static str> = config.admission.plugins.iter().map(|spec| spec.name).collect();
    Some(match calls_webhooks {
        CallsWebhooks::Auto => Doubled::watch(upstream.transport.clone(), &plugins, config.limits.call_timeout),
        CallsWebhooks::Yes => Doubled::known(true, &plugins),
        CallsWebhooks::No => Doubled::known(false, &plugins),
    })
}

/// Starts auditing if a log and a policy are given; kube-apiserver needs both as well.
fn audit(config: &Config, registry: &Registry) -> Result<(Audit, Option<Arc<Log>>)> {
    let metrics = audit::Metrics::register(registry)?;
    let Some(policy_file) = &config.audit.policy_file else { return Ok((Audit::off(), None)) };
    let policy =
        Policy::from_file(policy_file).with_context(|| format!("--audit-policy-file={}", policy_file.display()))?;
    let path = match &config.audit.log {
        None => return Ok((Audit::off(), None)),
        Some(AuditLog::Stdout) => "-",
        Some(AuditLog::File(path)) => path.to_str().context("--audit-log-path is not UTF-8")?,
    };
    let limits = audit::log::Limits {
        queue_events: config.limits.audit_queue_events,
        queue_bytes: config.limits.audit_queue_bytes,
        flush_timeout: config.limits.audit_flush_timeout,
    };
    let log = Log::open(path, metrics.clone(), limits).with_context(|| format!("--audit-log-path={path}"))?;
    let log = Arc::new(log);
    Ok((Audit::new(policy, log.clone(), metrics), Some(log)))
}

fn authentication(config: &Config, front: &Front, files: &Files, upstream: &Upstream) -> Result<authn::Config> {
    let names = |names: &[String]| names.iter().map(|name| Ok(name.parse()?)).collect::<Result<Vec<HeaderName>>>();
    let request_header = match (&config.authentication.request_header, &files.request_header_ca) {
        (Some(given), Some(ca)) => Some(RequestHeaderConfig {
            ca: ca.shared(),
            allowed_names: given.allowed_names.clone(),
            username_headers: names(&given.username_headers)?,
            uid_headers: names(&given.uid_headers)?,
            group_headers: names(&given.group_headers)?,
            extra_prefixes: given.extra_header_prefixes.clone(),
        }),
        _ => None,
    };
    let limits = &config.limits;
    Ok(authn::Config {
        client_ca: front.client_ca.as_ref().map(Reloading::shared),
        request_header,
        token_file: files.tokens.as_ref().map(Reloading::shared),
        token_review: Some(upstream.client.clone()),
        passthrough: upstream.is_passthrough.then(|| upstream.transport.clone()),
        review_limits: authn::ReviewLimits {
            success_ttl: limits.token_cache_ttl,
            failure_ttl: Duration::ZERO,
            cache_capacity: limits.token_cache_entries,
            timeout: limits.call_timeout,
        },
        review_bounds: authn::ReviewBounds {
            in_flight: limits.credential_reviews,
            per_connection: limits.credential_reviews_per_connection,
            wait_timeout: limits.credential_review_wait_timeout,
            token_bytes: limits.token_bytes,
        },
        anonymous: config.authentication.anonymous,
        closes_unauthenticated: config.admission.feature_gates.is_on("UnauthenticatedHTTP2DOSMitigation"),
        api_audiences: Vec::new(),
    })
}

fn authorization(config: &Config, upstream: &Upstream) -> authz::Config {
    let is_embedded = matches!(config.upstream, config::Upstream::Embedded { .. });
    let mode = match config.authorization.mode {
        AuthorizationMode::AlwaysAllow if is_embedded => authz::Mode::Unrestricted,
        AuthorizationMode::AlwaysAllow => authz::Mode::AlwaysAllow,
        AuthorizationMode::Rbac | AuthorizationMode::Webhook => authz::Mode::Webhook,
    };
    let reviewer = match upstream.is_passthrough {
        true => Reviewer::Oneself(upstream.transport.clone(), upstream.client.clone()),
        false => Reviewer::Subject(upstream.client.clone()),
    };
    authz::Config {
        authorized_ttl: config.limits.authorized_ttl,
        unauthorized_ttl: config.limits.unauthorized_ttl,
        cache_capacity: config.limits.authorization_cache_entries,
        timeout: config.limits.call_timeout,
        reviews: config.limits.access_reviews,
        user_reviews: config.limits.user_access_reviews,
        mode,
        reviewer,
    }
}
