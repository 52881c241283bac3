//! The API server that a kubeconfig names.

use super::connect::{Connector, Tls};
use super::credentials::Credentials;
use super::exec;
use super::identity::ClientCredentials;
use super::pool::Pool;
use super::{LongRunning, OfClient, RestMetrics, Transport, UpstreamError, upgrade};
use crate::body::{Body, BoxError};
use crate::config::Limits;
use crate::request::is_canonical;
use crate::server::reload::{self, Reloading};
use crate::x509::{Certificate, Issuers, client_config, handshake};
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::BodyExt;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use secrecy::ExposeSecret;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The reason why a kubeconfig cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoteError {
    /// The kubeconfig cannot be read, or is incomplete.
    #[error(transparent)]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// The TLS files or credentials cannot be used.
    #[error(transparent)]
    Client(#[from] kube::Error),
    /// The kubeconfig needs an unsupported feature.
    #[error("{0}")]
    Unsupported(String),
}

/// The API server that a kubeconfig names. Follows the kubeconfig and the files that it names; a change makes new
/// connections, and requests on the old ones go on to their end.
#[derive(Debug)]
pub(crate) struct Remote {
    target: Reloading<Target>,
    metrics: Option<RestMetrics>,
}

impl Remote {
    /// Reads the kubeconfig. Connections are made when they are needed.
    ///
    /// # Errors
    /// If the kubeconfig cannot be used.
    pub(crate) async fn from_kubeconfig(path: &Path, limits: Arc<Limits>) -> Result<Self, RemoteError> {
        let path = path.to_owned();
        // The closure reads files, and runs the command of an `exec` entry.
        let reading = tokio::task::spawn_blocking(move || {
            let paths = files(&path, &Kubeconfig::read_from(&path)?);
            let runtime = tokio::runtime::Handle::current();
            reload::watch(paths, move || {
                let _guard = runtime.enter();
                runtime.block_on(Target::read(&path, &limits))
            })
        });
        let target = reading.await.map_err(|error| RemoteError::Unsupported(error.to_string()))??;
        Ok(Self { target, metrics: None })
    }

    /// Measures the proxy's own requests.
    pub(crate) fn measured(self, metrics: RestMetrics) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// Returns the URL of the API server, for messages.
    pub(crate) fn url(&self) -> String {
        self.target.load().url.clone()
    }
}

#[async_trait]
impl Transport for Remote {
    async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, UpstreamError> {
        let target = self.target.load_full();
        target.address(&mut request)?;
        let is_clients = request.extensions().get::<ClientCredentials>().is_some();
        if !is_clients {
            target.credentials.apply(request.headers_mut()).await.map_err(UpstreamError::Unreachable)?;
        }
        let side = if is_clients { &target.without_certificate } else { &target.own };
        if upgrade::is_upgrade(request.headers()) {
            return Box::pin(side.connector.upgrade(request)).await;
        }
        let is_own = request.extensions().get::<OfClient>().is_none();
        let asked = self.metrics.as_ref().filter(|_| is_own).map(|metrics| metrics.begin(&request));
        let answer = side.lane(&request).send(request).await;
        if let Some(asked) = asked {
            asked.answered(&answer);
        }
        answer
    }
}

/// One version of the kubeconfig.
#[derive(Debug)]
struct Target {
    url: String,
    /// The path before every request's path, without a slash at its end.
    prefix: String,
    credentials: Credentials,
    own: Side,
    /// For requests that carry the client's own credentials: on a connection with the proxy's certificate they would
    /// be the proxy's, since an API server reads the certificate first.
    without_certificate: Side,
}

/// The pools of one connector. Clients' requests share no connection with the proxy's own, and short requests share none with
/// long-running ones: no client holds a place, or ends a connection, that the proxy's own calls need.
#[derive(Debug)]
struct Side {
    connector: Connector,
    clients: Lanes,
    own: Lanes,
}

#[derive(Debug)]
struct Lanes {
    short: Arc<Pool>,
    long_running: Arc<Pool>,
}

impl Side {
    fn new(connector: Connector) -> Self {
        let pool = |window| Pool::new(Connector { stream_window: window, ..connector.clone() });
        let lanes = |short, long_running| Lanes { short: pool(short), long_running: pool(long_running) };
        let clients = lanes(connector.limits.answer_window_bytes, connector.limits.watch_window_bytes);
        let own = lanes(connector.stream_window, connector.stream_window);
        Self { clients, own, connector }
    }

    fn lane(&self, request: &Request<Body>) -> &Arc<Pool> {
        let is_clients = request.extensions().get::<OfClient>().is_some();
        let lanes = if is_clients { &self.clients } else { &self.own };
        match request.extensions().get::<LongRunning>() {
            Some(_) => &lanes.long_running,
            None => &lanes.short,
        }
    }
}

impl Target {
    async fn read(path: &Path, limits: &Arc<Limits>) -> Result<Self, RemoteError> {
        let kubeconfig = Kubeconfig::read_from(path)?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Self::new(config, limits)
    }

    fn new(config: kube::Config, limits: &Arc<Limits>) -> Result<Self, RemoteError> {
        let unsupported = |what: &str| Err(RemoteError::Unsupported(what.to_owned()));
        if config.proxy_url.is_some() {
            return unsupported("proxy-url is not supported");
        }
        if config.auth_info.impersonate.is_some() || config.auth_info.impersonate_groups.is_some() {
            return unsupported("as and as-groups are not supported: the proxy impersonates its clients");
        }
        let Some(authority) = config.cluster_url.authority().cloned() else {
            return unsupported("the server's URL names no host");
        };
        let Ok(host_header) = HeaderValue::from_str(authority.as_str()) else {
            return unsupported("the server's URL names no host that can be sent");
        };
        let scheme = config.cluster_url.scheme().cloned().unwrap_or(Scheme::HTTP);
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_tls = scheme == Scheme::HTTPS;
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let connector = |identity: Option<&Pair>| -> Result<Connector, RemoteError> {
            let tls = if is_tls { Some(tls(&config, &host, identity)?) } else { None };
            let (authority, host_header) = (authority.clone(), host_header.clone());
            let (limits, stream_window) = (limits.clone(), limits.stream_window_bytes);
            Ok(Connector { host: host.clone(), port, authority, host_header, tls, limits, stream_window })
        };
        let of_plugin = exec::certificate(&config.auth_info)?;
        // A plugin that gives a certificate gives no token.
        let credentials = if of_plugin.is_some() { Credentials::none() } else { Credentials::new(&config)? };
        let identity = if of_plugin.is_some() { of_plugin } else { named_certificate(&config.auth_info)? };
        let own = Side::new(connector(identity.as_ref())?);
        let without_certificate = Side::new(connector(None)?);
        Ok(Self {
            url: config.cluster_url.to_string(),
            prefix: config.cluster_url.path().trim_end_matches('/').to_owned(),
            credentials,
            own,
            without_certificate,
        })
    }

    /// Puts the URL's path before the request's. Paths outside of the URL's path are refused: the proxy may have rights there that clients
    /// must not use.
    fn address(&self, request: &mut Request<Body>) -> Result<(), UpstreamError> {
        if !self.prefix.is_empty() && (!is_canonical(request.uri()) || request.uri().path() == "*") {
            return Err(UpstreamError::Outside);
        }
        let path = match request.uri().path_and_query() {
            Some(_) if self.prefix.is_empty() && request.uri().scheme().is_none() => return Ok(()),
            Some(path) => PathAndQuery::try_from(format!("{}{path}", self.prefix))
                .map_err(|error| UpstreamError::Unreachable(error.into()))?,
            None => PathAndQuery::from_static("/"),
        };
        *request.uri_mut() = Uri::from(path);
        Ok(())
    }
}

fn tls(config: &kube::Config, host: &str, identity: Option<&Pair>) -> Result<Tls, RemoteError> {
    // An empty name counts as a missing one, as in client-go.
    let name = config.tls_server_name.as_deref().filter(|name| !name.is_empty()).unwrap_or(host).to_owned();
    let name = ServerName::try_from(name)
        .map_err(|_| RemoteError::Unsupported("the server's name is neither a DNS name nor an address".to_owned()))?;
    Ok(Tls::new(tls_settings(config, identity)?, name))
}

/// Returns the settings of TLS, with the proxy's certificate, if it has one.
fn tls_settings(config: &kube::Config, identity: Option<&Pair>) -> Result<ClientConfig, RemoteError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let unusable = |what: &str, why: String| RemoteError::Unsupported(format!("{what} cannot be used: {why}"));
    let issuers = match &config.root_cert {
        _ if config.accept_invalid_certs => Issuers::Anybody,
        Some(roots) => Issuers::Listed(roots.iter().map(|root| CertificateDer::from(root.clone())).collect()),
        None => Issuers::System,
    };
    if let Issuers::Listed(roots) = &issuers {
        // `rootCertPool` of client-go refuses a bundle of which Go parses no certificate.
        let parsed: Vec<_> = roots.iter().map(|root| Certificate::parse(root)).collect();
        if let (Some(Err(error)), true) = (parsed.first(), parsed.iter().all(Result::is_err)) {
            return Err(unusable("certificate-authority", error.to_string()));
        }
    }
    let pair = identity.map(|(certificate, key)| {
        let unusable = |why: &str| unusable("the client certificate", why.to_owned());
        let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|_| unusable("the certificate is not in PEM form"))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| unusable("the key is not in PEM form"))?;
        handshake::certified_key(chain, key, &provider).map_err(|error| unusable(&error.to_string()))
    });
    client_config(&issuers, pair.transpose()?, &provider).map_err(|error| unusable("TLS", error.to_string()))
}

/// A certificate and its key, both in PEM.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// Returns the client certificate of a kubeconfig and its key. `None` if one of them is missing.
fn named_certificate(auth: &AuthInfo) -> Result<Option<Pair>, RemoteError> {
    let read = |what: &str, data: Option<&str>, file: Option<&String>| -> Result<Option<Vec<u8>>, RemoteError> {
        let unreadable = |error: String| RemoteError::Unsupported(format!("{what}: {error}"));
        match (data.filter(|data| !data.is_empty()), file) {
            (Some(data), _) => STANDARD.decode(data).map(Some).map_err(|error| unreadable(error.to_string())),
            (None, Some(path)) => std::fs::read(path).map(Some).map_err(|error| unreadable(format!("{path}: {error}"))),
            (None, None) => Ok(None),
        }
    };
    let certificate =
        read("client-certificate", auth.client_certificate_data.as_deref(), auth.client_certificate.as_ref())?;
    let data = auth.client_key_data.as_ref().map(|secret| secret.expose_secret());
    let key = read("client-key", data, auth.client_key.as_ref())?;
    Ok(certificate.zip(key))
}

impl Connector {
    /// Sends an upgrade, which needs a connection of its own.
    async fn upgrade(&self, mut request: Request<Body>) -> Result<Response<Body>, UpstreamError> {
        let mut sender = self.connect_upgrade().await.map_err(UpstreamError::Unreachable)?;
        self.origin_form(&mut request);
        let response = sender.send_request(request).await.map_err(|error| UpstreamError::Unreachable(error.into()))?;
        Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
    }
}

/// Returns the paths of the kubeconfig and of the files that it names.
fn files(path: &Path, kubeconfig: &Kubeconfig) -> Vec<PathBuf> {
    let mut files = vec![path.to_owned()];
    let clusters = kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref());
    files.extend(clusters.filter_map(|cluster| cluster.certificate_authority.as_ref()).map(PathBuf::from));
    for user in kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref()) {
        files.extend([&user.client_certificate, &user.client_key].into_iter().flatten().map(PathBuf::from));
    }
    files
}
