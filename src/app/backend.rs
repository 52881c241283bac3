//! The API servers behind: connections, identities, and the state of an API server that pipelines share.

use super::advertised::advertised;
use super::front::{Files, Front};
use super::{Admission, Config, rights};
use crate::admission::{BuildError, Plugin};
use crate::authn::{self, CertificateAuthority, RequestHeaderConfig, Schemes};
use crate::authz::{self, AccessReviews, Reviewer};
use crate::cluster::discovery::Discovery;
use crate::cluster::{CacheRoom, Cluster, Need};
use crate::config::{self, AuthorizationMode, Limits, UpstreamIdentity, WebhookTargets};
use crate::embedded::api::catalog::ServedResource;
use crate::embedded::{self, DataDir, Tokens, Vitals};
use crate::manifests;
use crate::removed::Api;
use crate::server::health::{Checks, Unhealthy};
use crate::server::{Drain, Reloading};
use crate::tenants::Owners;
use crate::upstream::rights::{Needed, Rights};
use crate::upstream::{
    CallerIdentity, Forwarder, FrontProxy, Impersonator, KnownHeaders, OwnUser, Probe, Release, Remote, RestMetrics,
    SharedTransport, kube_client,
};
use anyhow::{Context, Result, bail};
use arc_swap::ArcSwap;
use http::HeaderName;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The API server behind, and its transports.
pub(super) struct Upstream {
    pub(super) transport: SharedTransport,
    pub(super) forwarder: Forwarder,
    pub(super) client: kube::Client,
    pub(super) is_passthrough: bool,
    /// The URL, unless the API server is the embedded one.
    pub(super) url: Option<String>,
    /// The embedded API server, if it is the one behind.
    pub(super) embedded: Option<Arc<embedded::Server>>,
    /// The headers of a front proxy, if the proxy is one for a tenant's API server.
    front_proxy: Option<FrontProxy>,
    /// The client with the second identity, if it forwards requests.
    pub(super) impersonator: Option<kube::Client>,
}

impl Upstream {
    pub(super) async fn new(
        config: &Config,
        front: Option<&Front>,
        served: Option<SocketAddr>,
        data: Option<&DataDir>,
        drain: &Drain,
        vitals: &Arc<Vitals>,
    ) -> Result<Self> {
        let checks = &vitals.checks;
        let (mut forwarding, mut embedded) = (None, None);
        let (transport, identity, url): (SharedTransport, _, _) = match &config.upstream {
            config::Upstream::Embedded(options) => {
                let features = features(config, options, front, served, data, vitals)?;
                let limits = config.limits.clone();
                let server = match data {
                    Some(data) => embedded::Server::kept_in(data, limits, features).context("--data-dir")?,
                    None => embedded::Server::with(limits, features),
                };
                if let Some(health) = server.data_health() {
                    checks.live("data-dir", move || health().map_err(Unhealthy::of));
                }
                embedded::run_controllers(&server);
                embedded = Some(server.clone());
                (Arc::new(server), CallerIdentity::Impersonate, None)
            }
            config::Upstream::Remote { kubeconfig, identity, impersonator: given, own_user, .. } => {
                let remote = Remote::from_kubeconfig(kubeconfig, config.limits.clone()).await;
                let remote = remote.with_context(|| format!("--upstream-kubeconfig={}", kubeconfig.display()))?;
                let metrics = RestMetrics::of(&vitals.registry).context("metrics of the proxy's own requests")?;
                let remote = remote.measured(metrics);
                let url = remote.url();
                tracing::info!("the API server behind is {url}");
                let known = KnownHeaders::default();
                let remote: SharedTransport = match own_user {
                    Some(user) => Arc::new(OwnUser::new(Arc::new(remote), known.clone(), user.clone())),
                    None => Arc::new(remote),
                };
                let identity = match identity {
                    UpstreamIdentity::Impersonate => CallerIdentity::Impersonate,
                    UpstreamIdentity::RequestHeader => {
                        let (identity, front_proxy) = front_proxy(&remote, known, &config.limits);
                        checks.ready("front-proxy-headers", move || front_proxy.check());
                        identity
                    }
                    UpstreamIdentity::Passthrough => CallerIdentity::Passthrough,
                };
                if let Some(given) = given {
                    forwarding = Some(impersonator(given, &remote, &config.limits, checks).await?);
                }
                (remote, identity, Some(url))
            }
        };
        let impersonator = forwarding.clone().map(kube_client);
        let forwarding = forwarding.unwrap_or_else(|| transport.clone());
        Ok(Self { url, embedded, impersonator, ..Self::with(transport, forwarding, identity, drain) })
    }

    /// An API server that tenants name; the configuration is that of [`with_api_server`](super::tenancy).
    pub(super) async fn of_tenants(config: &Config, drain: &Drain, metrics: Option<&RestMetrics>) -> Result<Self> {
        let config::Upstream::Remote { kubeconfig, identity, .. } = &config.upstream else {
            bail!("a tenant's API server needs a kubeconfig");
        };
        let limits = &config.limits;
        let remote = Remote::from_kubeconfig(kubeconfig, limits.clone()).await?;
        let remote = match metrics {
            Some(metrics) => remote.measured(metrics.clone()),
            None => remote,
        };
        let url = remote.url();
        tracing::info!("the API server of {} is {url}", kubeconfig.display());
        let remote: SharedTransport = Arc::new(remote);
        let (identity, front_proxy) = match identity {
            UpstreamIdentity::RequestHeader => {
                let (identity, front_proxy) = front_proxy(&remote, KnownHeaders::default(), limits);
                (identity, Some(front_proxy))
            }
            UpstreamIdentity::Impersonate | UpstreamIdentity::Passthrough => (CallerIdentity::Impersonate, None),
        };
        Ok(Self { url: Some(url), front_proxy, ..Self::with(remote.clone(), remote, identity, drain) })
    }

    /// `transport` is that of the proxy's own requests, `forwarding` that of clients' requests.
    fn with(transport: SharedTransport, forwarding: SharedTransport, identity: CallerIdentity, drain: &Drain) -> Self {
        let is_passthrough = matches!(identity, CallerIdentity::Passthrough);
        let forwarder = Forwarder::new(forwarding, identity, drain.clone());
        let client = kube_client(transport.clone());
        let (url, embedded, front_proxy, impersonator) = Default::default();
        Self { client, transport, forwarder, is_passthrough, url, embedded, front_proxy, impersonator }
    }
}

/// Follows the rights without which requests fail; `None` if there are none to follow.
pub(super) fn follow_rights(config: &Config, upstream: &Upstream) -> Option<Rights> {
    let own =
        Needed { client: upstream.client.clone(), flag: "--upstream-kubeconfig", rights: rights::of_requests(config) };
    let other = upstream.impersonator.as_ref().map(|client| Needed {
        client: client.clone(),
        flag: "--upstream-impersonator",
        rights: rights::of_impersonation().collect(),
    });
    let needed: Vec<Needed> = [own].into_iter().chain(other).filter(|needed| !needed.rights.is_empty()).collect();
    let limits = &config.limits;
    (!needed.is_empty()).then(|| Rights::follow(needed, limits.rights_interval, limits.call_timeout))
}

/// Returns the settings of the embedded API server. Logs an API of `--runtime-config` that the server lacks.
fn features(
    config: &Config,
    options: &config::Embedded,
    front: Option<&Front>,
    served: Option<SocketAddr>,
    data: Option<&DataDir>,
    vitals: &Arc<Vitals>,
) -> Result<embedded::Settings> {
    let mut tokens = options.tokens.clone();
    if let (Some(data), None) = (data, &tokens.signing_key) {
        tokens.signing_key = Some(data.token_key().context("--data-dir")?);
    }
    for (group, version) in options.apis.wanted() {
        let is_served = |each: &Arc<ServedResource>| each.group == group && each.version == version;
        if !embedded::api::catalog::resources().iter().any(is_served) {
            tracing::warn!(group, version, "--runtime-config: the embedded API server lacks this API");
        }
    }
    Ok(embedded::Settings {
        removed: served_removed_apis(config),
        rbac: config.authorization.mode == AuthorizationMode::Rbac,
        initializers: config.admission.has_initializers(),
        controllers: options.controllers,
        addresses: options.addresses,
        advertised: served.map(|bound| advertised(options.advertise_address, bound)),
        apis: options.apis.clone(),
        allow_privileged: options.allow_privileged,
        event_ttl: options.event_ttl,
        gates: config.admission.feature_gates.clone(),
        tokens: Tokens::from_files(&tokens)?,
        root_ca: front.and_then(|front| front.root_ca(config)),
        registration: manifests::validation::causes,
        registration_warnings: manifests::validation::warnings,
        health: config.serving.health_address.is_none().then(|| Arc::downgrade(vitals)),
    })
}

/// Follows the header names that the API server publishes for front proxies; the API server is not ready while they cannot be read.
fn front_proxy(transport: &SharedTransport, known: KnownHeaders, limits: &Arc<Limits>) -> (CallerIdentity, FrontProxy) {
    let (every, patience) = (limits.front_proxy_headers_interval, limits.call_timeout);
    let front_proxy = FrontProxy::follow(transport.clone(), known.clone(), every, patience);
    (CallerIdentity::RequestHeader(known), front_proxy)
}

/// Returns the transport of clients' requests by the second identity. The proxy is not ready without a token of a service account.
async fn impersonator(
    given: &config::ImpersonatorOptions,
    remote: &SharedTransport,
    limits: &Arc<Limits>,
    checks: &Checks,
) -> Result<SharedTransport> {
    match given {
        config::ImpersonatorOptions::Kubeconfig(path) => {
            let other = Remote::from_kubeconfig(path, limits.clone()).await;
            Ok(Arc::new(other.with_context(|| format!("--upstream-impersonator-kubeconfig={}", path.display()))?))
        }
        config::ImpersonatorOptions::ServiceAccount { namespace, name } => {
            let client = kube_client(remote.clone());
            let account = Impersonator::start(remote.clone(), client, namespace, name, limits.call_timeout);
            let account = Arc::new(account);
            let checked = account.clone();
            checks.ready("upstream-impersonator", move || checked.check());
            Ok(account)
        }
    }
}

/// The memory for the caches of an API server.
#[derive(Clone)]
pub(super) enum Caches {
    /// Bytes of its own.
    Own(usize),
    /// A part of the memory for the caches of API servers that only tenants name.
    OfTenants(Arc<CacheRoom>),
}

impl Caches {
    fn room(&self) -> Arc<CacheRoom> {
        match self {
            Self::Own(bytes) => CacheRoom::new(*bytes),
            Self::OfTenants(all) => all.quarter(),
        }
    }
}

/// An API server behind, with those of its objects that are cached.
pub(super) struct Backend {
    pub(super) server: Arc<ApiServer>,
    pub(super) cluster: Arc<Cluster>,
    /// The caches in `cluster`.
    pub(super) needs: Vec<Need>,
    /// Plugins of several tenants.
    pub(super) plugins: CommonPlugins,
}

/// An API server behind, as far as it does not depend on the cached objects.
pub(super) struct ApiServer {
    pub(super) transport: SharedTransport,
    pub(super) forwarder: Forwarder,
    client: kube::Client,
    pub(super) url: Option<String>,
    pub(super) discovery: Arc<Discovery>,
    /// The removed APIs that the API server serves without definitions.
    removed: Vec<&'static Api>,
    pub(super) probe: Arc<Probe>,
    pub(super) release: Arc<Release>,
    pub(super) schemes: Arc<Schemes>,
    pub(super) reviews: Arc<AccessReviews>,
    /// The names of tenants' namespaces.
    pub(super) owners: Arc<ArcSwap<Owners>>,
    /// The prefix of the groups of callers.
    group_prefix: String,
    /// The servers that webhooks of the API server may be; `None` for any server.
    webhook_targets: Option<Arc<WebhookTargets>>,
    front_proxy: Option<FrontProxy>,
    caches: Caches,
    limits: Arc<Limits>,
}

/// Plugins that tenants with the same configuration share, as long as one of them has the plugin: by the plugin's name and a digest of all that
/// it is built from.
#[derive(Default)]
pub(super) struct CommonPlugins(Mutex<HashMap<PluginKey, Weak<dyn Plugin>>>);

/// The name of a plugin, and the digest.
type PluginKey = (&'static str, [u8; 32]);

impl CommonPlugins {
    /// Returns the plugin, which is built if no tenant has it.
    pub(super) fn find(
        &self,
        name: &'static str,
        digest: [u8; 32],
        build: impl FnOnce() -> Result<Box<dyn Plugin>, BuildError>,
    ) -> Result<Arc<dyn Plugin>, BuildError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plugin) = known.get(&(name, digest)).and_then(Weak::upgrade) {
            return Ok(plugin);
        }
        let plugin: Arc<dyn Plugin> = build()?.into();
        known.retain(|_, plugin| plugin.strong_count() > 0);
        known.insert((name, digest), Arc::downgrade(&plugin));
        Ok(plugin)
    }
}

impl Backend {
    /// Starts to follow the API server. The caches in `needs` start at once.
    pub(super) fn start(
        config: &Config,
        of: &config::Upstream,
        upstream: Upstream,
        client_ca: Option<&Reloading<CertificateAuthority>>,
        files: &Files,
        needs: &[Need],
        caches: Caches,
    ) -> Result<Self> {
        let limits = &config.limits;
        let discovery = Discovery::start(upstream.transport.clone(), upstream.client.clone(), limits.clone());
        let name = match (&upstream.url, of.kubeconfig()) {
            (Some(url), Some(kubeconfig)) => format!("{url} ({})", kubeconfig.display()),
            _ => "in this process".to_owned(),
        };
        let probe = Probe::start(upstream.transport.clone(), name, limits.probe_interval, limits.probe_timeout);
        let schemes = Schemes::new(authentication(config, client_ca, files, &upstream)?);
        let reviews = AccessReviews::new(authorization(config, &upstream));
        // The embedded API server is part of this process, so its release is known.
        let release = match of {
            config::Upstream::Embedded { .. } => Release::known(),
            config::Upstream::Remote { .. } => {
                let emulation = config.emulation();
                Release::start(upstream.transport.clone(), emulation, limits.probe_interval, limits.probe_timeout)
            }
        };
        let server = ApiServer {
            discovery,
            removed: served_removed_apis(config),
            probe: Arc::new(probe),
            release: Arc::new(release),
            schemes,
            reviews,
            owners: Arc::default(),
            group_prefix: group_prefix(of).to_owned(),
            webhook_targets: of.webhook_targets().cloned(),
            front_proxy: upstream.front_proxy,
            caches,
            limits: limits.clone(),
            transport: upstream.transport,
            forwarder: upstream.forwarder,
            client: upstream.client,
            url: upstream.url,
        };
        Ok(Self::of(Arc::new(server), needs.to_vec()))
    }

    /// Starts caches of an API server.
    fn of(server: Arc<ApiServer>, needs: Vec<Need>) -> Self {
        let (client, limits, room) = (server.client.clone(), server.limits.clone(), server.caches.room());
        let cluster = Cluster::start_within(client, &needs, limits, &room, &server.removed);
        if let Some(targets) = &server.webhook_targets {
            cluster.confine_webhooks(targets.clone());
        }
        Self { server, cluster, needs, plugins: CommonPlugins::default() }
    }

    /// Returns this API server with more caches.
    pub(super) fn with_needs(&self, needs: &[Need]) -> Self {
        let mut all = self.needs.clone();
        all.extend(needs.iter().filter(|need| !self.needs.contains(need)));
        Self::of(self.server.clone(), all)
    }

    /// Whether the API server answers, and its state is known.
    pub(super) fn is_ready(&self) -> bool {
        self.server.check().is_ok() && self.server.discovery.is_synced() && self.cluster.unsynced().is_empty()
    }
}

impl ApiServer {
    /// Whether the API server answers.
    pub(super) fn check(&self) -> Result<(), Unhealthy> {
        self.probe.check()?;
        self.front_proxy.as_ref().map_or(Ok(()), |front_proxy| front_proxy.check())
    }

    /// Whether the API server is reached in this way, and its webhooks may be the same servers.
    pub(super) fn is_used_so(&self, of: &config::Upstream) -> bool {
        let config::Upstream::Remote { identity, .. } = of else { return false };
        self.front_proxy.is_some() == (*identity == UpstreamIdentity::RequestHeader)
            && self.group_prefix == group_prefix(of)
            && self.webhook_targets.as_deref() == of.webhook_targets().map(|targets| &**targets)
    }
}

/// The caches that the plugins and the pipeline read.
pub(super) fn all_needs(admission: &Admission) -> Vec<Need> {
    // Custom resources are decoded even if no plugin needs the definitions.
    let mut needs: Vec<Need> = needs(admission).chain([Need::CUSTOM_RESOURCE_DEFINITIONS]).collect();
    if admission.routes_to_endpoints && needs.contains(&Need::SERVICES) {
        needs.push(Need::ENDPOINT_SLICES);
    }
    needs
}

/// The caches that the plugins read. A plugin whose configuration names a folder of manifests does not read a removed API.
pub(super) fn needs(admission: &Admission) -> impl Iterator<Item = Need> {
    admission.plugins.iter().flat_map(|spec| {
        let has_files = admission.configuration(spec.name).is_some_and(|given| given.static_manifests_dir().is_some());
        spec.needs.iter().copied().filter(move |need| !has_files || need.removed_api().is_none())
    })
}

/// The removed APIs that the embedded API server serves: those of the enabled plugins.
pub(super) fn served_removed_apis(config: &Config) -> Vec<&'static Api> {
    match &config.upstream {
        config::Upstream::Remote { .. } => Vec::new(),
        config::Upstream::Embedded { .. } => needs(&config.admission).filter_map(Need::removed_api).collect(),
    }
}

pub(super) fn authentication(
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
    Ok(authn::Config {
        client_ca: client_ca.map(Reloading::shared),
        request_header,
        token_file: files.tokens.as_ref().map(Reloading::shared),
        token_review: Some(upstream.client.clone()),
        passthrough: upstream.is_passthrough.then(|| upstream.transport.clone()),
        limits: config.limits.clone(),
        anonymous: config.authentication.anonymous,
        closes_unauthenticated: config.admission.feature_gates.is_on("UnauthenticatedHTTP2DOSMitigation"),
        group_prefix: group_prefix(&config.upstream).to_owned(),
        metrics: files.metrics.clone(),
        api_audiences: Vec::new(),
    })
}

fn group_prefix(of: &config::Upstream) -> &str {
    match of {
        config::Upstream::Remote { group_prefix, .. } => group_prefix,
        config::Upstream::Embedded { .. } => "",
    }
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
    authz::Config::new(mode, reviewer, &config.limits)
}
