//! The webhook front end: its listener, its callers, and its part of the components.

use super::front::{authority, reachable, static_tokens};
use super::{Config, Service, tenancy};
use crate::admission::RefusalLog;
use crate::arrivals::Arrivals;
use crate::authn::{self, Authenticator, CertificateAuthority, StaticTokens};
use crate::body::Body;
use crate::cluster::CaBundles;
use crate::config::{self, Limits, TlsProtocol};
use crate::front_end::{FrontEnd, FrontEndMetrics, OwnUserName, Seats};
use crate::metrics::Registry;
use crate::server::health::{Checks, Unhealthy};
use crate::server::renewal::Renewable;
use crate::server::tls::Handshake;
use crate::server::{Drain, Listener, Refusals, Reloading};
use crate::sharer::Sharing;
use crate::upstream::ServingCertificates;
use anyhow::{Context, Result};
use http::{Request, Response};
use rustls::ServerConfig;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// The front end before its start: a bound address, and files that are reloaded while it runs.
pub(super) struct Reviews {
    listener: Listener,
    handshake: Handshake,
    /// `None`: the certificate is in a Secret.
    tls: Option<Reloading<ServerConfig>>,
    client_ca: Option<Reloading<CertificateAuthority>>,
    tokens: Option<Reloading<StaticTokens>>,
}

impl Reviews {
    /// Binds the address and reads the files.
    pub(super) fn new(config: &config::FrontEndOptions, protocol: &TlsProtocol) -> Result<Self> {
        let listener =
            Listener::bind(config.address).with_context(|| format!("--webhook-bind-address={}", config.address))?;
        let authorities = config.client_ca.iter().cloned().collect();
        let handshake = Handshake { authorities, protocol: protocol.clone(), named: Vec::new() };
        let tls = config.certificate.as_ref().map(|files| {
            handshake.clone().watch(files).with_context(|| {
                let (certificate, key) = (files.certificate.display(), files.key.display());
                format!("the webhook front end's certificate {certificate} with the key {key}")
            })
        });
        let tls = tls.transpose()?;
        let client_ca =
            config.client_ca.as_deref().map(|path| authority("webhook-client-ca-file", path)).transpose()?;
        let tokens = config.token_file.as_deref();
        let tokens = tokens.map(|path| static_tokens("webhook-token-auth-file", path)).transpose()?;
        Ok(Self { listener, handshake, tls, client_ca, tokens })
    }

    /// Starts to answer reviews, with the plugins of the tenants. `certificates` are those of a Secret.
    #[expect(clippy::too_many_arguments, reason = "the parts of the application")]
    pub(super) fn serve(
        self,
        config: &Config,
        running: &tenancy::Running,
        client: kube::Client,
        certificates: Option<&ServingCertificates>,
        registry: &Registry,
        checks: &Checks,
        drain: &Drain,
    ) -> Result<JoinHandle<()>> {
        let (Some(given), limits) = (&config.front_end, &config.limits) else { anyhow::bail!("no webhook front end") };
        let tls = match (self.tls, certificates) {
            (Some(tls), _) => tls,
            (None, Some(certificates)) => {
                let handshake = self.handshake;
                let make =
                    move |made: &Renewable| handshake.config(made.certificate_pem.as_bytes(), made.key_pem.as_bytes());
                certificates.make(make).context("the webhook front end's certificate of --tls-secret")?
            }
            (None, None) => anyhow::bail!("no certificate of the webhook front end"),
        };
        if let (Some(name), Some(certificates)) = (&given.configurations, certificates) {
            let (every, patience) = (limits.authority_interval, limits.call_timeout);
            let bundles = CaBundles::keep(client.clone(), name.clone(), certificates.clone(), every, patience);
            checks.advise("webhook-ca-bundle", move || bundles.check());
        }
        let process = &running.shared.process;
        let front_end = FrontEnd {
            authenticator: Authenticator::new(
                authn::Schemes::new(authn::Config {
                    client_ca: self.client_ca.as_ref().map(Reloading::shared),
                    token_file: self.tokens.as_ref().map(Reloading::shared),
                    anonymous: given.anonymous,
                    metrics: Some(authn::Metrics::of(registry).context("metrics of authentication")?),
                    ..authn::Config::default()
                }),
                &Sharing::ByUser,
                None,
            ),
            allowed_names: given.allowed_names.clone(),
            tenants: Arc::new(tenancy::Reviewed(running.tenancy.clone())),
            authorizer: running.default_authorizer()?,
            processor: process.processor.clone(),
            own_user: follow_own_user(client, limits, checks),
            refusals: RefusalLog::default(),
            seats: Seats::new(limits.reviews_inflight, limits.caller_reviews_inflight),
            arriving: Arrivals::new(limits.arriving_reviews_bytes, limits.arriving_place_bytes()),
            bodies: process.bodies.clone(),
            metrics: FrontEndMetrics::register(registry).context("metrics of reviews")?,
            limits: limits.clone(),
        };
        tracing::info!("answering reviews on https://{}", reachable(self.listener.local_addr()?));
        let service = ApiServers { front_end, _client_ca: self.client_ca, _tokens: self.tokens };
        let limits = Limits {
            connections: limits.review_connections,
            // Connections without a review from an API server leave room for those of API servers.
            unauthenticated_connections: limits.unauthenticated_connections.min(limits.review_connections / 2),
            ..Limits::clone(limits)
        };
        let listener = self.listener.reporting(Refusals::of(registry).context("metrics of handshakes")?);
        let serving = super::serve(listener, Arc::new(tls), Arc::new(limits), drain.clone(), service);
        let running = serving.abort_handle();
        checks.ready("webhook-front-end", move || match running.is_finished() {
            true => Err(Unhealthy::of("the listener ended")),
            false => Ok(()),
        });
        Ok(serving)
    }
}

/// The service of API servers, with its files, which are followed as long as the service lives.
struct ApiServers {
    front_end: FrontEnd,
    _client_ca: Option<Reloading<CertificateAuthority>>,
    _tokens: Option<Reloading<StaticTokens>>,
}

impl Service for ApiServers {
    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        self.front_end.handle(request).await
    }
}

/// Asks the upstream API server for the proxy's own user until it answers.
fn follow_own_user(client: kube::Client, limits: &Limits, checks: &Checks) -> Arc<OwnUserName> {
    let own_user = Arc::new(OwnUserName::default());
    let (asked, known) = (own_user.clone(), own_user.clone());
    checks.advise("webhook-own-user", move || known.check());
    let (timeout, pause) = (limits.call_timeout, limits.probe_interval);
    tokio::spawn(async move {
        while let Err(error) = asked.ask(&client, timeout).await {
            tracing::warn!(%error, "the proxy's own user is unknown");
            tokio::time::sleep(pause).await;
        }
    });
    own_user
}
