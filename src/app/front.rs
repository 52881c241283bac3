//! The part that clients see: the serving certificate, the client authorities, and the files of authentication.

use super::Config;
use crate::authn::{self, CertificateAuthority, StaticTokens};
use crate::config::written_kubeconfig::{self, WrittenKubeconfig};
use crate::config::{self, CertificateFiles};
use crate::embedded::DataDir;
use crate::metrics::Registry;
use crate::server::certificates::Authority;
use crate::server::tls::{self, Certificates, Handshake};
use crate::server::{Reloading, reload};
use crate::upstream::{ServingCertificates, ServingSecret};
use anyhow::{Context, Result};
use arc_swap::ArcSwap;
use rustls::ServerConfig;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The user that the kubeconfig for the embedded API server names, and its group.
const ADMINISTRATOR: (&str, &str) = ("kubernetes-admin", "system:masters");

/// The name of the authority that the process generates for itself.
const OWN_NAME: &str = "kube-admission-proxy";

/// The client-facing part: the serving certificate, and the authority of client certificates.
pub(super) struct Front {
    pub(super) tls: Arc<Reloading<ServerConfig>>,
    /// The authority that the process generated for itself, if no files were given.
    pub(super) own: Option<Authority>,
    pub(super) client_ca: Option<Reloading<CertificateAuthority>>,
    handshake: Handshake,
    /// Follows the files of `--tls-sni-cert-key`.
    _named: Option<Reloading<Certificates>>,
}

impl Front {
    /// `named` are the certificates of tenants; `data` keeps the process's own authority.
    pub(super) fn new(
        config: &Config,
        named: Option<&Arc<ArcSwap<Certificates>>>,
        data: Option<&DataDir>,
    ) -> Result<Self> {
        let serving = &config.serving;
        let files =
            (!serving.named_certificates.is_empty()).then(|| tls::watch_named(serving.named_certificates.clone()));
        let files = files.transpose().context("--tls-sni-cert-key")?;
        let handshake = Handshake {
            authorities: client_authorities(config),
            protocol: serving.protocol.clone(),
            named: named.cloned().into_iter().chain(files.as_ref().map(Reloading::shared)).collect(),
        };
        let front = |tls, own, client_ca| Self {
            tls: Arc::new(tls),
            own,
            client_ca,
            handshake: handshake.clone(),
            _named: files,
        };
        let client_ca =
            config.authentication.client_ca.as_deref().map(|path| authority("client-ca-file", path)).transpose()?;
        if let Some(files) = &config.serving.certificate {
            if config.serving.made_certificate {
                make_certificate(files, &config.serving.addresses)?;
            }
            let tls = handshake.clone().watch(files).with_context(|| {
                let (certificate, key) = (files.certificate.display(), files.key.display());
                format!("--tls-cert-file={certificate} --tls-private-key-file={key}")
            })?;
            return Ok(front(tls, None, client_ca));
        }
        let own = match data {
            Some(data) => data.authority(OWN_NAME)?,
            None => Authority::generate(OWN_NAME)?,
        };
        let issued = own.serving(&own_names(&config.serving.addresses))?;
        // In front of a remote API server, the process trusts no authority of its own.
        let is_own = client_ca.is_none() && matches!(config.upstream, config::Upstream::Embedded { .. });
        if !is_own {
            let tls = handshake.clone().watch_authorities(issued.certificate_pem, issued.key_pem)?;
            return Ok(front(tls, None, client_ca));
        }
        let (certificate, key) = (issued.certificate_pem.as_bytes(), issued.key_pem.as_bytes());
        let hints = if named.is_some() { Vec::new() } else { tls::names(own.pem().as_bytes()) };
        let tls = Reloading::fixed(handshake.config_naming(certificate, key, hints)?);
        let client_ca = Some(Reloading::fixed(CertificateAuthority::parse(own.pem().as_bytes())?));
        Ok(front(tls, Some(own), client_ca))
    }

    /// Serves with the certificate of a Secret.
    pub(super) fn use_secret(&mut self, certificates: &ServingCertificates) -> Result<()> {
        let handshake = self.handshake.clone();
        let tls = certificates
            .make(move |made| handshake.config(made.certificate_pem.as_bytes(), made.key_pem.as_bytes()))
            .context("the certificate of --tls-secret")?;
        self.tls = Arc::new(tls);
        Ok(())
    }

    /// Returns the certificates that verify the server's certificate, as far as the process knows them.
    pub(super) fn root_ca(&self, config: &Config) -> Option<String> {
        let files = config.serving.certificate.as_ref();
        self.own.as_ref().map(|own| own.pem()).or_else(|| std::fs::read_to_string(&files?.certificate).ok())
    }

    /// Logs the address of the server; in front of the embedded API server, also writes a kubeconfig for it.
    pub(super) fn announce(&self, config: &Config, address: SocketAddr, health: Option<SocketAddr>) -> Result<()> {
        let server = format!("https://{}", reachable(address));
        let others = config.serving.addresses.iter().skip(1).map(|other| format!(", {}", other.ip()));
        let health = health.map(|health| format!(", health and metrics on http://{}", reachable(health)));
        tracing::info!("serving on {server}{}{}", others.collect::<String>(), health.unwrap_or_default());
        let (config::Upstream::Embedded(embedded), Some(own)) = (&config.upstream, &self.own) else {
            return Ok(());
        };
        let Some(kubeconfig) = &embedded.kubeconfig else { return Ok(()) };
        let text = kubeconfig_of(own, address, ADMINISTRATOR.0, ADMINISTRATOR.1)?;
        written_kubeconfig::write(kubeconfig, &text)
            .with_context(|| format!("--write-kubeconfig={}", kubeconfig.display()))?;
        println!("export KUBECONFIG={}", std::path::absolute(kubeconfig)?.display());
        Ok(())
    }
}

/// Returns the certificates of a Secret, which is made if it is missing. Waits until the API server answers.
pub(super) async fn certificates_of(secret: &config::CertificateSecret, client: kube::Client) -> ServingCertificates {
    let names = own_names(&[]).into_iter().chain(secret.names.iter().cloned()).collect();
    let secret = ServingSecret::new(client, &secret.namespace, &secret.name, names);
    let first = secret.first().await;
    secret.follow(first)
}

/// A kubeconfig for a user of the server.
pub(super) fn kubeconfig_of(own: &Authority, address: SocketAddr, user: &str, group: &str) -> Result<String> {
    let client = own.client(user, group)?;
    let kubeconfig = WrittenKubeconfig {
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
    let authority = Authority::generate(OWN_NAME)?;
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
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    let loopback =
        if address.is_ipv4() { IpAddr::from([127, 0, 0, 1]) } else { IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]) };
    SocketAddr::new(loopback, address.port())
}

pub(super) fn authority(flag: &'static str, path: &Path) -> Result<Reloading<CertificateAuthority>> {
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

/// The authentication files, which are reloaded while the server runs.
#[derive(Default)]
pub(super) struct Files {
    pub(super) request_header_ca: Option<Reloading<CertificateAuthority>>,
    pub(super) tokens: Option<Reloading<StaticTokens>>,
    pub(super) metrics: Option<authn::Metrics>,
}

impl Files {
    pub(super) fn new(config: &Config, registry: &Registry) -> Result<Self> {
        let authentication = &config.authentication;
        let request_header_ca = authentication.request_header.as_ref();
        let request_header_ca =
            request_header_ca.map(|config| authority("requestheader-client-ca-file", &config.client_ca)).transpose()?;
        let tokens = authentication.token_file.as_deref();
        let tokens = tokens.map(|path| static_tokens("token-auth-file", path)).transpose()?;
        let metrics = authn::Metrics::of(registry).context("metrics of authentication")?;
        Ok(Self { request_header_ca, tokens, metrics: Some(metrics) })
    }
}

pub(super) fn static_tokens(flag: &'static str, path: &Path) -> Result<Reloading<StaticTokens>> {
    let file = path.to_owned();
    reload::watch(vec![path.to_owned()], move || -> Result<_, Unreadable> {
        StaticTokens::parse(&read(&file)?).map_err(|error| Unreadable(error.to_string()))
    })
    .with_context(|| format!("--{flag}={}", path.display()))
}
