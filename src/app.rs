//! Wires everything together, runs it, and takes it down again.

use crate::admission::metrics::Metrics;
use crate::admission::{Chain, Environment};
use crate::audit::Audit;
use crate::authn::{self, Authenticator, CertificateAuthority, RequestHeaderConfig, StaticTokens};
use crate::authz::{self, Authorizer, Reviewer};
use crate::cluster::discovery::{self, Discovery};
use crate::cluster::{self, Cluster, Need};
use crate::config::kubeconfig::Kubeconfig;
use crate::config::{AuthorizationMode, Config, Upstream, UpstreamIdentity};
use crate::embedded;
use crate::pipeline::{Gateway, InFlight, Pipeline};
use crate::server::certificates::Authority;
use crate::server::health::{self, Checks};
use crate::server::{Bounds, Drain, Listener, Reloading, reload, tls};
use crate::upstream::forward::Forwarder;
use crate::upstream::{Identity, Remote, SharedTransport, kube_client};
use anyhow::{Context, Result};
use arc_swap::ArcSwap;
use prometheus::Registry;
use rustls::ServerConfig;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The user that the kubeconfig for the embedded API server names, and its group.
const ADMINISTRATOR: (&str, &str) = ("kubernetes-admin", "system:masters");

/// Runs the server until it is told to stop.
///
/// # Errors
/// When something that the configuration names cannot be had.
pub async fn run(config: Config) -> Result<()> {
    let drain = Drain::new();
    let registry = Registry::new();
    let checks = Checks::new(&drain);
    let health = Listener::bind(config.serving.health_address)
        .with_context(|| format!("--health-bind-address={}", config.serving.health_address))?;
    let listener =
        Listener::bind(config.serving.address).with_context(|| format!("the API's address {}", config.serving.address))?;
    let health_address = health.local_addr()?;
    let address = listener.local_addr()?;
    tokio::spawn(health::serve(health, checks.clone(), registry.clone()));

    let mut front = Front::new(&config, address)?;
    let (transport, identity) = upstream(&config).await?;
    let client = kube_client(transport.clone());
    let pipeline = pipeline(&config, &mut front, transport, identity, client, &registry, &checks, &drain).await?;
    front.announce(&config, address, health_address)?;

    let bounds = bounds(&config);
    let tls = front.tls;
    let audit = pipeline.audit.clone();
    let serving = tokio::spawn({
        let (drain, pipeline) = (drain.clone(), pipeline.clone());
        listener.serve(tls, bounds, drain, move |request| {
            let pipeline = pipeline.clone();
            async move { pipeline.handle(request).await }
        })
    });
    drain.start_on_signal(config.serving.shutdown_delay).await?;
    serving.await.context("the listener")?;
    let _all_or_not = tokio::time::timeout(config.serving.drain_timeout, drain.finished()).await;
    audit.flush(config.limits.audit_flush_timeout).await;
    Ok(())
}

/// What clients meet: the serving certificate, and the authority of their own.
struct Front {
    tls: Arc<Reloading<ServerConfig>>,
    /// The authority that the process made for itself, where no files were given.
    own: Option<Authority>,
    client_ca: Option<Reloading<CertificateAuthority>>,
}

impl Front {
    fn new(config: &Config, address: SocketAddr) -> Result<Self> {
        let client_ca = config.authentication.client_ca.as_deref().map(|path| authority("client-ca-file", path)).transpose()?;
        if let Some(files) = &config.serving.certificate {
            let tls = tls::watch_certificate(&files.certificate, &files.key).with_context(|| {
                format!("--tls-cert-file={} --tls-private-key-file={}", files.certificate.display(), files.key.display())
            })?;
            return Ok(Self { tls: Arc::new(tls), own: None, client_ca });
        }
        let own = Authority::generate("kube-admission-proxy")?;
        let issued = own.serving(&own_names(address.ip()))?;
        let tls = tls::server_config(issued.certificate_pem.as_bytes(), issued.key_pem.as_bytes())?;
        let client_ca = match client_ca {
            Some(client_ca) => Some(client_ca),
            None => Some(Reloading::fixed(CertificateAuthority::parse(own.pem().as_bytes())?)),
        };
        Ok(Self { tls: Arc::new(Reloading::fixed(tls)), own: Some(own), client_ca })
    }

    /// Says where the server is; in front of the embedded API server, with a kubeconfig that reaches it.
    fn announce(&self, config: &Config, address: SocketAddr, health: SocketAddr) -> Result<()> {
        let server = format!("https://{}", reachable(address));
        tracing::info!("serving on {server}, health and metrics on http://{}", reachable(health));
        let (Upstream::Embedded { kubeconfig }, Some(own)) = (&config.upstream, &self.own) else { return Ok(()) };
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

/// Names that a certificate of the process's own is good for.
fn own_names(bound: IpAddr) -> Vec<String> {
    let mut names: Vec<String> =
        ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"].map(String::from).into();
    let bound = bound.to_string();
    if !names.contains(&bound) {
        names.push(bound);
    }
    names
}

/// The address for a client on this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    let loopback = if address.is_ipv4() { IpAddr::from([127, 0, 0, 1]) } else { IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]) };
    SocketAddr::new(loopback, address.port())
}

fn authority(flag: &'static str, path: &Path) -> Result<Reloading<CertificateAuthority>> {
    let file = path.to_owned();
    reload::watch(vec![path.to_owned()], move || -> Result<_, Unreadable> {
        CertificateAuthority::parse(&read(&file)?).map_err(|error| Unreadable(error.to_string()))
    })
    .with_context(|| format!("--{flag}={}", path.display()))
}

/// A file that is of no use, and why.
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
        max_concurrent_streams: limits.http2_streams,
        max_header_bytes: limits.head_bytes,
        handshake_timeout: limits.handshake_timeout,
        header_read_timeout: limits.head_timeout,
        drain_timeout: config.serving.drain_timeout,
        ..Bounds::default()
    }
}

/// The API server behind, and as whom requests get there.
async fn upstream(config: &Config) -> Result<(SharedTransport, Identity)> {
    match &config.upstream {
        Upstream::Embedded { .. } => {
            let server = embedded::Server::new(embedded::Limits::default());
            Ok((Arc::new(server), Identity::Impersonate))
        }
        Upstream::Remote { kubeconfig, identity, .. } => {
            let remote = Remote::from_kubeconfig(kubeconfig, Default::default())
                .await
                .with_context(|| format!("--upstream-kubeconfig={}", kubeconfig.display()))?;
            let identity = match identity {
                UpstreamIdentity::Impersonate => Identity::Impersonate,
                UpstreamIdentity::RequestHeader => Identity::RequestHeader(Default::default()),
                UpstreamIdentity::Passthrough => Identity::Passthrough,
            };
            Ok((Arc::new(remote), identity))
        }
    }
}
