//! Builds all components, runs the server, and shuts it down.

mod reviews;
mod server_config;
mod tenancy;

pub use server_config::{Admission, Config, enabled, listed, reviewing};
pub use tenancy::check_tenants;

use crate::admission::metrics::Metrics;
use crate::admission::{Chain, Environment};
use crate::audit::{self, Audit, Log, Policy};
use crate::authn::{self, Authenticator, CertificateAuthority, RequestHeaderConfig, StaticTokens};
use crate::authz::{self, Authorizer, Reviewer};
use crate::body::{Body, BoxError};
use crate::cluster::discovery::{self, Discovery};
use crate::cluster::{self, AuthorityMaps, Cluster, Loopback, Need};
use crate::config::kubeconfig::{self, Kubeconfig};
use crate::config::{self, AuditLog, AuthorizationMode, CallsWebhooks, CertificateFiles, Limits, UpstreamIdentity};
use crate::conversion::Converter;
use crate::embedded::catalog::Resource;
use crate::embedded::{self, Tokens, Vitals};
use crate::impersonation::{self, Impersonation};
use crate::manifests::ReservedNames;
use crate::metrics::Registry;
use crate::pipeline::{DryRuns, Gateway, InFlight, Pipeline, Room};
use crate::plugins::in_cluster_clients;
use crate::processor::Processor;
use crate::removed::Api;
use crate::request::body::MediaTypes;
use crate::server::certificates::Authority;
use crate::server::health::{self, Checks};
use crate::server::renewal::Renewable;
use crate::server::tls::{self, NamedCertificates, TlsError};
use crate::server::{Bounds, Drain, Listener, Reloading, reload};
use crate::tenants::Owners;
use crate::upstream::{
    self, Doubled, Forwarder, FrontProxy, Identity, Impersonator, KnownHeaders, OwnUser, Probe, Release, Remote,
    ServingSecret, SharedTransport, kube_client,
};
use anyhow::{Context, Result};
use arc_swap::ArcSwap;
use http::{HeaderName, Request};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use reviews::Reviews;
use rustls::ServerConfig;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::DropGuard;

/// The user that the kubeconfig for the embedded API server names, and its group.
const ADMINISTRATOR: (&str, &str) = ("kubernetes-admin", "system:masters");

/// Runs the server until a signal stops it.
///
/// # Errors
/// If a file, an address or another resource that the configuration names is not available.
pub async fn run(config: Config) -> Result<()> {
    let running = start(config).await?;
    running.drain.start_on_signal(running.shutdown_delay).await?;
    running.end().await
}

/// A server that runs. Dropping the value stops nothing: see [`Running::stop`].
pub struct Running {
    address: Option<SocketAddr>,
    /// Followed as long as the value lives.
    front: Option<Arc<Front>>,
    /// Followed as long as the value lives.
    _files: Option<Files>,
    tenants: Option<tenancy::Running>,
    vitals: Arc<Vitals>,
    drain: Drain,
    listeners: Vec<JoinHandle<()>>,
    log: Option<Arc<Log>>,
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
        self.vitals.0.is_ready()
    }

    /// A kubeconfig with a new client certificate of a user in one group; `None` if the server has no authority of its own.
    ///
    /// # Errors
    /// If the names cannot be written in a certificate.
    pub fn kubeconfig(&self, user: &str, group: &str) -> Result<Option<String>> {
        let own = self.front.as_ref().and_then(|front| front.own.as_ref());
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
        let mut is_written = true;
        if let Some(tenants) = self.tenants {
            is_written &= tenants.shut_down().await;
        }
        if let Some(log) = self.log {
            is_written &= log.shutdown().await;
        }
        if !is_written {
            tracing::warn!("the end of the audit log could not be written in time");
        }
        Ok(())
    }
}

/// Starts the server. Must be called inside a multi-threaded tokio runtime.
///
/// # Errors
/// If a file, an address or another resource that the configuration names is not available.
pub async fn start(config: Config) -> Result<Running> {
    let drain = Drain::new();
    let registry = Registry::new();
    let checks = Checks::new(&drain);
    let vitals = Arc::new((checks.clone(), registry.clone()));
    // Readiness waits for the start, because the other checks are registered later.
    let start = checks.pending("start");
    let serving = &config.serving;
    let is_for_clients = config.front_end.as_ref().is_none_or(|front_end| !front_end.is_alone);
    let listener = is_for_clients.then(|| listener(&serving.addresses)).transpose()?;
    let reviews = config.front_end.as_ref().map(Reviews::new).transpose()?;
    let health = serving
        .health_address
        .map(|address| Listener::bind(address).with_context(|| format!("--health-bind-address={address}")));
    let health = health.transpose()?;
    let health_address = health.as_ref().map(Listener::local_addr).transpose()?;
    let health = health.map(|listener| {
        let connections = config.limits.health_connections;
        health::start(listener, checks.clone(), registry.clone(), connections).context("the thread of the health port")
    });
    let health = health.transpose()?;

    let files = Files::new(&config)?;
    let named = config.tenants_dir.as_ref().map(|_| Arc::<NamedCertificates>::default());
    let mut front = is_for_clients.then(|| Front::new(&config, named.as_ref())).transpose()?;
    for spec in &config.admission.plugins {
        if let Some(removed) = spec.removed {
            tracing::warn!(plugin = spec.name, "Kubernetes removed this plugin. {removed}");
        }
    }
    let upstream = Upstream::new(&config, front.as_ref(), &drain, &vitals).await?;
    if let (Some(front), Some(secret)) = (&mut front, &serving.secret) {
        front.use_secret(secret, &config, named.clone(), upstream.client.clone()).await?;
    }
    let front = front.map(Arc::new);
    let audited = audit(&config, &registry)?;
    let log = audited.log.clone();
    if let Some(maps) = authority_maps(&config, &upstream)? {
        checks.advise("in-cluster-authorities", move || maps.check());
    }
    let (mut listeners, mut tenants, mut kept) = (Vec::new(), None, None);
    let address = listener.as_ref().map(Listener::local_addr).transpose()?;
    if let (Some(folder), Some(named), Some(front)) = (config.tenants_dir.clone(), named, &front) {
        let shared = tenancy::Shared {
            metrics: Arc::new(Metrics::new(&registry).context("admission metrics")?),
            impersonation: impersonation(&config, &registry)?,
            config: config.clone(),
            front: front.clone(),
            drain: drain.clone(),
            folder,
            files,
            audited,
            named,
        };
        let running = tenancy::start(shared, upstream, &registry, &checks).await?;
        let shared = Arc::new((running.tenancy.clone(), drain.clone()));
        tenants = Some(running);
        let handle = move |request: Request<Incoming>| {
            let shared = shared.clone();
            async move { Box::pin(shared.0.handle(request.map(incoming), &shared.1)).await }
        };
        if let (Some(listener), Some(address)) = (listener, address) {
            front.announce(&config, address, health_address)?;
            listeners.push(tokio::spawn(listener.serve(front.tls.clone(), bounds(&config), drain.clone(), handle)));
        }
    } else {
        let client = upstream.client.clone();
        let client_ca = front.as_ref().and_then(|front| front.client_ca.as_ref());
        let pipeline = Arc::new(pipeline(&config, client_ca, &files, upstream, audited.audit, &registry, &checks)?);
        let writes: Arc<dyn Loopback> = pipeline.clone();
        pipeline.cluster.loop_back_to(Arc::downgrade(&writes));
        if let Some(reviews) = reviews {
            if let Some(health) = health_address {
                tracing::info!("health and metrics of the webhook front end on http://{}", reachable(health));
            }
            listeners.push(reviews.serve(&config, &pipeline, client, &registry, &checks, &drain)?);
        }
        if let (Some(listener), Some(address), Some(front)) = (listener, address, &front) {
            front.announce(&config, address, health_address)?;
            let shared = Arc::new((pipeline, drain.clone()));
            let handle = move |request: Request<Incoming>| {
                let shared = shared.clone();
                // On the heap until the answer: the rest of a watch is small then.
                async move { Box::pin(shared.0.handle(request.map(incoming), &shared.1)).await }
            };
            listeners.push(tokio::spawn(listener.serve(front.tls.clone(), bounds(&config), drain.clone(), handle)));
        }
        kept = Some(files);
    }
    start.finish();
    Ok(Running {
        address,
        front,
        _files: kept,
        tenants,
        vitals,
        drain,
        listeners,
        log,
        shutdown_delay: config.serving.shutdown_delay,
        drain_timeout: config.serving.drain_timeout,
        _health: health,
    })
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
    /// `named` are the certificates of tenants.
    fn new(config: &Config, named: Option<&Arc<NamedCertificates>>) -> Result<Self> {
        let client_ca =
            config.authentication.client_ca.as_deref().map(|path| authority("client-ca-file", path)).transpose()?;
        if let Some(files) = &config.serving.certificate {
            if config.serving.made_certificate {
                make_certificate(files, &config.serving.addresses)?;
            }
            let authorities = client_authorities(config);
            let tls = tls::watch_certificate(&files.certificate, &files.key, authorities, named.cloned())
                .with_context(|| {
                    format!(
                        "--tls-cert-file={} --tls-private-key-file={}",
                        files.certificate.display(),
                        files.key.display()
                    )
                })?;
            return Ok(Self { tls: Arc::new(tls), own: None, client_ca });
        }
        let own = Authority::generate("kube-admission-proxy")?;
        let issued = own.serving(&own_names(&config.serving.addresses))?;
        // In front of a remote API server, the process trusts no authority of its own.
        let is_own = client_ca.is_none() && matches!(config.upstream, config::Upstream::Embedded { .. });
        if !is_own {
            let authorities = client_authorities(config);
            let tls = tls::watch_authorities(issued.certificate_pem, issued.key_pem, authorities, named.cloned())?;
            return Ok(Self { tls: Arc::new(tls), own: None, client_ca });
        }
        let (certificate, key) = (issued.certificate_pem.as_bytes(), issued.key_pem.as_bytes());
        let hints = if named.is_some() { Vec::new() } else { tls::names(own.pem().as_bytes()) };
        let tls = tls::with_names(tls::server_config(certificate, key, hints)?, named);
        let client_ca = Some(Reloading::fixed(CertificateAuthority::parse(own.pem().as_bytes())?));
        Ok(Self { tls: Arc::new(Reloading::fixed(tls)), own: Some(own), client_ca })
    }

    /// Serves with the certificate of a Secret, which is made if it is missing. Waits until the API server answers.
    async fn use_secret(
        &mut self,
        secret: &config::CertificateSecret,
        config: &Config,
        named: Option<Arc<NamedCertificates>>,
        client: kube::Client,
    ) -> Result<()> {
        let names = own_names(&[]).into_iter().chain(secret.names.iter().cloned()).collect();
        let authorities = client_authorities(config);
        let configured = move |made: &Renewable| {
            let config = tls::with_authorities(&made.certificate_pem, &made.key_pem, &authorities)?;
            Ok::<_, TlsError>(tls::with_names(config, named.as_ref()))
        };
        let secret = ServingSecret::new(client, &secret.namespace, &secret.name, names);
        let first = secret.first().await;
        let tls = Reloading::fixed(configured(&first).context("the certificate of --tls-secret")?);
        secret.follow(first, tls.shared(), configured);
        self.tls = Arc::new(tls);
        Ok(())
    }

    /// Returns the certificates that verify the server's certificate, as far as the process knows them.
    fn root_ca(&self, config: &Config) -> Option<String> {
        let files = config.serving.certificate.as_ref();
        self.own.as_ref().map(|own| own.pem()).or_else(|| std::fs::read_to_string(&files?.certificate).ok())
    }

    /// Logs the address of the server; in front of the embedded API server, also writes a kubeconfig for it.
    fn announce(&self, config: &Config, address: SocketAddr, health: Option<SocketAddr>) -> Result<()> {
        let server = format!("https://{}", reachable(address));
        let others = config.serving.addresses.iter().skip(1).map(|other| format!(", {}", other.ip()));
        let health = health.map(|health| format!(", health and metrics on http://{}", reachable(health)));
        tracing::info!("serving on {server}{}{}", others.collect::<String>(), health.unwrap_or_default());
        let (config::Upstream::Embedded(embedded), Some(own)) = (&config.upstream, &self.own) else {
            return Ok(());
        };
        let Some(kubeconfig) = &embedded.kubeconfig else { return Ok(()) };
        let text = kubeconfig_of(own, address, ADMINISTRATOR.0, ADMINISTRATOR.1)?;
        kubeconfig::write(kubeconfig, &text).with_context(|| format!("--write-kubeconfig={}", kubeconfig.display()))?;
        println!("export KUBECONFIG={}", std::path::absolute(kubeconfig)?.display());
        Ok(())
    }
}

/// A kubeconfig for a user of the server.
fn kubeconfig_of(own: &Authority, address: SocketAddr, user: &str, group: &str) -> Result<String> {
    let client = own.client(user, group)?;
    let kubeconfig = Kubeconfig {
        server: &format!("https://{}", reachable(address)),
        certificate_authority: &own.pem(),
        client_certificate: &client.certificate_pem,
        client_key: &client.key_pem,
    };
    Ok(kubeconfig.text())
}

/// Makes a serving certificate in these files, unless both exist.
fn make_certificate(files: &CertificateFiles, bound: &[SocketAddr]) -> Result<()> {
    if files.certificate.exists() && files.key.exists() {
        return Ok(());
    }
    let authority = Authority::generate("kube-admission-proxy")?;
    let issued = authority.serving(&own_names(bound))?;
    let folder = files.certificate.parent().unwrap_or(Path::new("."));
    let write = || {
        std::fs::create_dir_all(folder)?;
        std::fs::write(&files.certificate, issued.certificate_pem + &authority.pem())?;
        // Another user may have created a file of that name, and could still read it.
        if files.key.exists() {
            std::fs::remove_file(&files.key)?;
        }
        let mut key = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&files.key)?;
        key.write_all(issued.key_pem.as_bytes())
    };
    write().with_context(|| format!("--cert-dir={}: cannot make a certificate there", folder.display()))
}

/// Returns the files of the CAs that sign client certificates, including those of front proxies
/// (`DynamicServingCertificateController`). None for a gateway of tenants: a client would not send the certificate of a tenant's CA.
fn client_authorities(config: &Config) -> Vec<PathBuf> {
    if config.tenants_dir.is_some() {
        return Vec::new();
    }
    let authentication = &config.authentication;
    let of_front_proxies = authentication.request_header.as_ref().map(|config| &config.client_ca);
    authentication.client_ca.iter().chain(of_front_proxies).cloned().collect()
}

/// Returns the names in a certificate that the process generates for itself.
fn own_names(bound: &[SocketAddr]) -> Vec<String> {
    let mut names: Vec<String> =
        ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
            .map(String::from)
            .into();
    for name in bound.iter().map(|address| address.ip().to_string()) {
        if !names.contains(&name) {
            names.push(name);
        }
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
        let tokens = authentication.token_file.as_deref();
        let tokens = tokens.map(|path| static_tokens("token-auth-file", path)).transpose()?;
        Ok(Self { request_header_ca, tokens })
    }
}

fn static_tokens(flag: &'static str, path: &Path) -> Result<Reloading<StaticTokens>> {
    let file = path.to_owned();
    reload::watch(vec![path.to_owned()], move || -> Result<_, Unreadable> {
        StaticTokens::parse(&read(&file)?).map_err(|error| Unreadable(error.to_string()))
    })
    .with_context(|| format!("--{flag}={}", path.display()))
}

/// The API server behind, and its transports.
struct Upstream {
    transport: SharedTransport,
    forwarder: Forwarder,
    client: kube::Client,
    is_passthrough: bool,
    /// The URL, unless the API server is the embedded one.
    url: Option<String>,
    /// The embedded API server, if it is the one behind.
    embedded: Option<Arc<embedded::Server>>,
}

impl Upstream {
    async fn new(config: &Config, front: Option<&Front>, drain: &Drain, vitals: &Arc<Vitals>) -> Result<Self> {
        let checks = &vitals.0;
        let (mut forwarding, mut embedded) = (None, None);
        let (transport, identity, url): (SharedTransport, _, _) = match &config.upstream {
            config::Upstream::Embedded(options) => {
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
                    controllers: options.controllers,
                    addresses: options.addresses,
                    apis: options.apis.clone(),
                    allow_privileged: options.allow_privileged,
                    tokens: Tokens::from_files(&options.tokens)?,
                    root_ca: front.and_then(|front| front.root_ca(config)),
                    health: config.serving.health_address.is_none().then(|| Arc::downgrade(vitals)),
                };
                for (group, version) in options.apis.wanted() {
                    let is_served = |each: &Arc<Resource>| each.group == group && each.version == version;
                    if !embedded::catalog::resources().iter().any(is_served) {
                        tracing::warn!(group, version, "--runtime-config: the embedded API server lacks this API");
                    }
                }
                let server = embedded::Server::with(limits, features);
                embedded::run_controllers(&server);
                embedded = Some(server.clone());
                (Arc::new(server), Identity::Impersonate, None)
            }
            config::Upstream::Remote { kubeconfig, identity, impersonator: given, own_user, .. } => {
                let remote = Remote::from_kubeconfig(kubeconfig, upstream_bounds(&config.limits)).await;
                let remote = remote.with_context(|| format!("--upstream-kubeconfig={}", kubeconfig.display()))?;
                let url = remote.url();
                tracing::info!("the API server behind is {url}");
                let known = KnownHeaders::default();
                let remote: SharedTransport = match own_user {
                    Some(user) => Arc::new(OwnUser::new(Arc::new(remote), known.clone(), user.clone())),
                    None => Arc::new(remote),
                };
                let identity = match identity {
                    UpstreamIdentity::Impersonate => Identity::Impersonate,
                    UpstreamIdentity::RequestHeader => front_proxy(&remote, known, &config.limits, checks),
                    UpstreamIdentity::Passthrough => Identity::Passthrough,
                };
                if let Some(given) = given {
                    forwarding = Some(impersonator(given, &remote, &config.limits, checks).await?);
                }
                (remote, identity, Some(url))
            }
        };
        let forwarding = forwarding.unwrap_or_else(|| transport.clone());
        Ok(Self { url, embedded, ..Self::with(transport, forwarding, identity, drain) })
    }

    /// The API server of a tenant.
    async fn remote(kubeconfig: &Path, config: &Config, drain: &Drain) -> Result<Self> {
        let remote = Remote::from_kubeconfig(kubeconfig, upstream_bounds(&config.limits)).await?;
        let url = remote.url();
        tracing::info!("the API server of {} is {url}", kubeconfig.display());
        let remote: SharedTransport = Arc::new(remote);
        Ok(Self { url: Some(url), ..Self::with(remote.clone(), remote, Identity::Impersonate, drain) })
    }

    /// `transport` is that of the proxy's own requests, `forwarding` that of clients' requests.
    fn with(transport: SharedTransport, forwarding: SharedTransport, identity: Identity, drain: &Drain) -> Self {
        let is_passthrough = matches!(identity, Identity::Passthrough);
        let forwarder = Forwarder::new(forwarding, identity, drain.clone());
        let client = kube_client(transport.clone());
        Self { client, transport, forwarder, is_passthrough, url: None, embedded: None }
    }
}

/// Follows the header names that the API server publishes for front proxies; the proxy is not ready while they cannot be read.
fn front_proxy(transport: &SharedTransport, known: KnownHeaders, limits: &Limits, checks: &Checks) -> Identity {
    let (every, patience) = (limits.front_proxy_headers_interval, limits.call_timeout);
    let front_proxy = FrontProxy::follow(transport.clone(), known.clone(), every, patience);
    checks.ready("front-proxy-headers", move || front_proxy.check());
    Identity::RequestHeader(known)
}

/// Returns the transport of clients' requests by the second identity. The proxy is not ready without a token of a service account.
async fn impersonator(
    given: &config::Impersonator,
    remote: &SharedTransport,
    limits: &Limits,
    checks: &Checks,
) -> Result<SharedTransport> {
    match given {
        config::Impersonator::Kubeconfig(path) => {
            let other = Remote::from_kubeconfig(path, upstream_bounds(limits)).await;
            Ok(Arc::new(other.with_context(|| format!("--upstream-impersonator-kubeconfig={}", path.display()))?))
        }
        config::Impersonator::ServiceAccount { namespace, name } => {
            let client = kube_client(remote.clone());
            let account = Impersonator::start(remote.clone(), client, namespace, name, limits.call_timeout);
            let account = Arc::new(account);
            let checked = account.clone();
            checks.ready("upstream-impersonator", move || checked.check());
            Ok(account)
        }
    }
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

/// An API server behind, with the state of it that pipelines share.
struct Backend {
    transport: SharedTransport,
    forwarder: Forwarder,
    client: kube::Client,
    is_passthrough: bool,
    url: Option<String>,
    discovery: Arc<Discovery>,
    cluster: Arc<Cluster>,
    /// The caches in `cluster`.
    needs: Vec<Need>,
    /// The removed APIs that the API server serves without definitions.
    removed: Vec<&'static Api>,
    probe: Arc<Probe>,
    release: Arc<Release>,
    authenticator: Arc<Authenticator>,
    authorizer: Arc<Authorizer>,
    /// The names of tenants' namespaces.
    owners: Arc<ArcSwap<Owners>>,
}

impl Backend {
    /// Starts to follow the API server. The caches in `needs` start at once.
    fn start(
        config: &Config,
        of: &config::Upstream,
        upstream: Upstream,
        client_ca: Option<&Reloading<CertificateAuthority>>,
        files: &Files,
        needs: &[Need],
    ) -> Result<Self> {
        let limits = &config.limits;
        let discovery = Discovery::start(upstream.transport.clone(), upstream.client.clone(), discovery_limits(limits));
        let removed = served_removed_apis(config);
        let cluster = Cluster::start_with_removed(upstream.client.clone(), needs, cluster_limits(limits), &removed);
        let probe = Probe::start(upstream.transport.clone(), limits.probe_interval, limits.probe_timeout);
        let authenticator = Authenticator::new(authentication(config, client_ca, files, &upstream)?);
        let authorizer = Authorizer::new(authorization(config, &upstream));
        // The embedded API server is part of this process, so its release is known.
        let release = match of {
            config::Upstream::Embedded { .. } => Release::known(),
            config::Upstream::Remote { .. } => {
                Release::start(upstream.transport.clone(), limits.probe_interval, limits.probe_timeout)
            }
        };
        Ok(Self {
            discovery,
            cluster,
            needs: needs.to_vec(),
            removed,
            probe: Arc::new(probe),
            release: Arc::new(release),
            authenticator: Arc::new(authenticator),
            authorizer: Arc::new(authorizer),
            owners: Arc::default(),
            transport: upstream.transport,
            forwarder: upstream.forwarder,
            client: upstream.client,
            is_passthrough: upstream.is_passthrough,
            url: upstream.url,
        })
    }

    /// The same API server with more caches.
    fn with_needs(&self, limits: &Limits, needs: &[Need]) -> Self {
        let mut all = self.needs.clone();
        all.extend(needs.iter().filter(|need| !self.needs.contains(need)));
        let (client, limits) = (self.client.clone(), cluster_limits(limits));
        let cluster = Cluster::start_with_removed(client, &all, limits, &self.removed);
        Self {
            cluster,
            needs: all,
            removed: self.removed.clone(),
            transport: self.transport.clone(),
            forwarder: self.forwarder.clone(),
            client: self.client.clone(),
            is_passthrough: self.is_passthrough,
            url: self.url.clone(),
            discovery: self.discovery.clone(),
            probe: self.probe.clone(),
            release: self.release.clone(),
            authenticator: self.authenticator.clone(),
            authorizer: self.authorizer.clone(),
            owners: self.owners.clone(),
        }
    }

    /// Returns the configuration of an authenticator for this API server.
    fn authentication(
        &self,
        config: &Config,
        client_ca: Option<&Reloading<CertificateAuthority>>,
        files: &Files,
    ) -> Result<authn::Config> {
        let (transport, client) = (self.transport.clone(), self.client.clone());
        let (forwarder, is_passthrough) = (self.forwarder.clone(), self.is_passthrough);
        authentication(
            config,
            client_ca,
            files,
            &Upstream { transport, forwarder, client, is_passthrough, url: None, embedded: None },
        )
    }

    /// Whether the API server answers, and its state is known.
    fn is_ready(&self) -> bool {
        self.check().is_ok() && self.discovery.is_synced() && self.cluster.unsynced().is_empty()
    }

    /// Whether the API server answers.
    fn check(&self) -> Result<(), String> {
        self.probe.check()
    }
}

/// Builds the path of requests with all its components.
fn pipeline(
    config: &Config,
    client_ca: Option<&Reloading<CertificateAuthority>>,
    files: &Files,
    upstream: Upstream,
    audit: Audit,
    registry: &Registry,
    checks: &Checks,
) -> Result<Pipeline> {
    let limits = &config.limits;
    let doubled = doubled(config, &upstream);
    let embedded = upstream.embedded.clone();
    let backend = Backend::start(config, &config.upstream, upstream, client_ca, files, &all_needs(&config.admission))?;
    let Backend { discovery, cluster, probe, release, .. } = &backend;
    let ready = (discovery.clone(), cluster.clone());
    checks.ready("discovery", move || if ready.0.is_synced() { Ok(()) } else { Err("no discovery yet".into()) });
    // The health of the embedded API server is that of this process, if it serves the health paths itself.
    if config.serving.health_address.is_some() {
        let probe = probe.clone();
        checks.ready("upstream", move || probe.check());
    }
    checks.ready("informer-sync", move || match (ready.1.unsynced(), ready.1.stale()) {
        (waiting, stale) if waiting.is_empty() && stale.is_empty() => Ok(()),
        (waiting, stale) if waiting.is_empty() => Err(format!("not followed: {stale:?}")),
        (waiting, _) => Err(format!("not synced: {waiting:?}")),
    });
    registry.register(Box::new(cluster::Metrics::new(cluster.clone())?)).context("metrics of the caches")?;

    if let Some(doubled) = doubled {
        checks.advise("webhooks-called-once", move || doubled.check());
    }

    let metrics = Arc::new(Metrics::new(registry).context("admission metrics")?);
    convert(embedded.as_deref(), &backend, limits, &metrics);
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
    let asked = release.clone();
    checks.advise("upstream-release", move || asked.check());
    Ok(Pipeline {
        impersonation: impersonation(config, registry)?,
        authenticator: backend.authenticator,
        authorizer: backend.authorizer,
        discovery: backend.discovery,
        cluster: backend.cluster,
        chain,
        reserved_names: ReservedNames::new(&config.admission.feature_gates),
        validation_view: config.validation_view,
        field_ownership: config.field_ownership,
        media_types: MediaTypes { has_cbor: config.admission.feature_gates.is_on("CBORServingAndStorage") },
        admitted_mark: match &config.upstream {
            config::Upstream::Remote { admitted_mark, .. } => admitted_mark.clone(),
            config::Upstream::Embedded { .. } => None,
        },
        gateway: Gateway {
            transport: backend.transport,
            forwarder: backend.forwarder,
            response_bytes: limits.response_bytes,
            room: Room::new(limits),
            release: backend.release,
        },
        dry_runs: DryRuns::default(),
        audit,
        in_flight: InFlight::new(limits, registry).context("metrics of requests")?,
        processor: Processor::new(limits.long_work),
        keeps_initializers: config.admission.has_initializers(),
        tenant: None,
        limits: limits.clone(),
    })
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
        let (cluster, discovery) = (backend.cluster.clone(), backend.discovery.clone());
        server.convert_by(Arc::new(Converter::new(cluster, discovery, limits, metrics.conversions())));
    }
}

fn impersonation(config: &Config, registry: &Registry) -> Result<Arc<Impersonation>> {
    let is_constrained = config.admission.feature_gates.is_on("ConstrainedImpersonation");
    let metrics = impersonation::Metrics::register(registry).context("impersonation metrics")?;
    let impersonation = Impersonation::new(config.limits.impersonation_checks);
    Ok(Arc::new(impersonation.with_gate(is_constrained).with_metrics(metrics)))
}

/// The caches that the plugins and the pipeline read.
fn all_needs(admission: &Admission) -> Vec<Need> {
    // Custom resources are decoded even if no plugin needs the definitions.
    let mut needs: Vec<Need> = needs(admission).chain([Need::CUSTOM_RESOURCE_DEFINITIONS]).collect();
    if admission.routes_to_endpoints && needs.contains(&Need::SERVICES) {
        needs.push(Need::ENDPOINT_SLICES);
    }
    needs
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

/// The audit log, and what further audit logs share with it.
struct Audited {
    audit: Audit,
    log: Option<Arc<Log>>,
    /// The path of the log.
    path: Option<String>,
    metrics: audit::Metrics,
}

fn limits_of_audit(limits: &Limits) -> audit::log::Limits {
    audit::log::Limits {
        queue_events: limits.audit_queue_events,
        queue_bytes: limits.audit_queue_bytes,
        flush_timeout: limits.audit_flush_timeout,
    }
}

/// Starts auditing if a log and a policy are given; kube-apiserver needs both as well.
fn audit(config: &Config, registry: &Registry) -> Result<Audited> {
    let metrics = audit::Metrics::register(registry)?;
    let off = |metrics| Ok(Audited { audit: Audit::off(), log: None, path: None, metrics });
    let Some(policy_file) = &config.audit.policy_file else { return off(metrics) };
    let policy =
        Policy::from_file(policy_file).with_context(|| format!("--audit-policy-file={}", policy_file.display()))?;
    let path = match &config.audit.log {
        None => return off(metrics),
        Some(AuditLog::Stdout) => "-",
        Some(AuditLog::File(path)) => path.to_str().context("--audit-log-path is not UTF-8")?,
    };
    let log = Log::open(path, metrics.clone(), limits_of_audit(&config.limits))
        .with_context(|| format!("--audit-log-path={path}"))?;
    let log = Arc::new(log);
    let audit = Audit::new(policy, log.clone(), metrics.clone());
    Ok(Audited { audit, log: Some(log), path: Some(path.to_owned()), metrics })
}

fn authentication(
    config: &Config,
    client_ca: Option<&Reloading<CertificateAuthority>>,
    files: &Files,
    upstream: &Upstream,
) -> Result<authn::Config> {
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
        client_ca: client_ca.map(Reloading::shared),
        tenant_ca: None,
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
        group_prefix: match &config.upstream {
            config::Upstream::Remote { group_prefix, .. } => group_prefix.clone(),
            config::Upstream::Embedded { .. } => String::new(),
        },
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
