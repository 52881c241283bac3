//! The hooks of ExternalAdmissionHookConfigurations: the webhooks of Kubernetes 1.7 and 1.8.
//!
//! A hook receives the internal Go object of Kubernetes 1.8 (`internal.rs`). It allows or refuses the request, and cannot change it.

mod types;
mod internal;
mod review;
mod answer;
mod configuration;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use configuration::ExternalAdmissionHookConfiguration;

use crate::admission::metrics::{Metrics, RejectionError, WebhookCall};
use crate::admission::{Attributes, Denial};
use crate::backend::{CircuitOpen, Clients, Endpoint, Kubeconfig, NoAnswer, SetupError, Unroutable};
use crate::cluster::{Cluster, Need, Projection};
use crate::config::Limits;
use crate::derived::Derived;
use crate::manifests::RemovedObjects;
use crate::status::{Cause, Details, Status};
use answer::NoDecision;
use bytes::Bytes;
use configuration::{ExternalHook, InvalidBundle};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The cluster state that the hooks need.
pub(crate) const NEEDS: &[Need] = &[ExternalAdmissionHookConfiguration::NEED, Need::SERVICES];
/// The longest time that a call may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The port of a hook's Service.
const PORT: i32 = 443;
/// The plugin's phase in metrics.
const STEP: &str = "admit";

type Configurations = Arc<Vec<Arc<ExternalAdmissionHookConfiguration>>>;

/// The caller of the hooks.
pub(crate) struct External {
    cluster: Arc<Cluster>,
    configurations: RemovedObjects<ExternalAdmissionHookConfiguration>,
    metrics: Arc<Metrics>,
    clients: Clients,
    hooks: Derived<Configurations, Vec<ExternalHook>>,
    /// The number of calls, by which the endpoints of a Service take turns.
    turn: AtomicUsize,
}

impl External {
    /// Creates the caller of the hooks of `configurations`; hooks are called as `users`.
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        configurations: RemovedObjects<ExternalAdmissionHookConfiguration>,
        metrics: Arc<Metrics>,
        limits: &Limits,
        users: Kubeconfig,
    ) -> Self {
        let clients = Clients::new(limits, users).with_breakers(limits, STEP, metrics.clone());
        Self { cluster, configurations, metrics, clients, hooks: Derived::default(), turn: AtomicUsize::default() }
    }

    /// Returns the configurations. The `Arc` stays the same until one changes.
    fn configurations(&self) -> Configurations {
        self.configurations.all()
    }

    fn hooks(&self) -> Arc<Vec<ExternalHook>> {
        self.hooks.get(
            || self.configurations(),
            Arc::ptr_eq,
            |configurations, _| configuration::compile(configurations),
        )
    }

    /// Calls the hooks that match the request, all at the same time, and awaits all (`GenericAdmissionWebhook.Admit`).
    ///
    /// # Errors
    /// If a hook refuses the request; the refusal that comes first counts. A failed call refuses nothing.
    pub(crate) async fn admit(&self, attributes: &Attributes) -> Result<(), Denial> {
        self.check_ready(attributes).await?;
        let hooks = self.hooks();
        let matching: Vec<&ExternalHook> = hooks.iter().filter(|hook| hook.matches(attributes)).collect();
        if matching.is_empty() {
            return Ok(());
        }
        let body = Bytes::from(review::body(attributes).map_err(Status::internal_error)?);
        let calls = matching.into_iter().map(|hook| self.ask(hook, attributes, &body));
        first_refusal(calls.collect()).await.map_or(Ok(()), Err)
    }

    /// Checks that the configurations are known (`loadConfiguration`).
    async fn check_ready(&self, attributes: &Attributes) -> Result<(), Denial> {
        if !self.cluster.is_synced() && !self.cluster.wait_synced().await {
            return Err(unloaded(attributes, "configuration is not ready").into());
        }
        // A configuration that cannot be decoded does not prevent its own correction.
        let api = &crate::removed::EXTERNAL_ADMISSION_HOOK_CONFIGURATIONS;
        if (&*attributes.resource.group, &*attributes.resource.resource) == (api.group, api.plural) {
            return Ok(());
        }
        let decodable = self.cluster.check_decodable(&[ExternalAdmissionHookConfiguration::NEED], "");
        decodable.map_err(|why| unloaded(attributes, &why.message).into())
    }

    /// Calls one hook; returns its refusal.
    async fn ask(&self, hook: &ExternalHook, attributes: &Attributes, body: &Bytes) -> Option<Denial> {
        let started = Instant::now();
        let answered = self.call(hook, attributes, body).await;
        let elapsed = started.elapsed();
        // The calls run at the same time, as those of validating webhooks.
        attributes.webhook_time.add_validating(elapsed);
        let call = WebhookCall { name: &hook.name, kind: STEP, operation: attributes.operation };
        match answered {
            Ok(Ok(())) => {
                self.metrics.webhooks().observe(&call, elapsed, false, 200);
                None
            }
            Ok(Err(denial)) => {
                let code = if let Denial::Status(status) = &denial { status.code } else { 500 };
                self.metrics.webhooks().observe_rejection(&call, RejectionError::None, code);
                self.metrics.webhooks().observe(&call, elapsed, true, code);
                Some(denial)
            }
            Err(reason) => {
                self.metrics.webhooks().observe(&call, elapsed, false, 503);
                self.metrics.webhooks().observe_fail_open(&hook.name, STEP);
                let reason = reason.to_string();
                tracing::warn!(webhook = hook.name, reason, "failed calling webhook, failing open");
                None
            }
        }
    }

    /// Calls one hook and reads its answer.
    ///
    /// # Errors
    /// If the hook cannot be called, or its answer is no review.
    async fn call(
        &self,
        hook: &ExternalHook,
        attributes: &Attributes,
        body: &Bytes,
    ) -> Result<Result<(), Denial>, CallError> {
        let whole = Instant::now() + TIMEOUT;
        let deadline = whole.min(attributes.context.call_deadline());
        let endpoint = Endpoint::service(&hook.namespace, &hook.service, PORT, "", hook.ca.clone()?);
        let endpoint = endpoint.resolved(&self.cluster, self.turn.fetch_add(1, Ordering::Relaxed))?;
        let client = self.clients.client(endpoint)?;
        let permit = client.enter()?;
        let body = [body.clone(), Bytes::new(), Bytes::new(), Bytes::new()];
        let answer = client.post(&self.cluster, body, None, deadline).await;
        match (&answer, permit) {
            (Ok(_), Some(permit)) => permit.answered(),
            // A request that had less time than the hook's timeout proves no fault of the hook.
            (Err(why), Some(permit)) if deadline == whole || Instant::now() < deadline => {
                permit.failed(why.to_string())
            }
            _ => {}
        }
        Ok(answer::read(&answer?, &hook.name)?)
    }
}

/// The reason why a hook gives no decision.
#[derive(Debug, thiserror::Error)]
enum CallError {
    /// The hook's CA bundle is invalid.
    #[error(transparent)]
    Bundle(#[from] InvalidBundle),
    /// The hook's Service has no address.
    #[error(transparent)]
    Unroutable(#[from] Unroutable),
    /// There is no client for the address.
    #[error(transparent)]
    Client(#[from] SetupError),
    /// The circuit breaker allows no call.
    #[error(transparent)]
    Open(#[from] CircuitOpen),
    /// No answer comes.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// The answer is no decision.
    #[error(transparent)]
    NoDecision(#[from] NoDecision),
}

/// Awaits all calls, and returns the refusal that came first.
async fn first_refusal(mut calls: FuturesUnordered<impl Future<Output = Option<Denial>>>) -> Option<Denial> {
    let mut first = None;
    while let Some(refusal) = calls.next().await {
        first = first.or(refusal);
    }
    first
}

/// The error of a request that comes before the configurations are known.
fn unloaded(attributes: &Attributes, why: &str) -> Status {
    let text = format!("Unable to refresh the ExternalAdmissionHook configuration: {why}");
    let cause = Cause {
        reason: "ExternalAdmissionHookConfigurationFailure".into(),
        message: "An error has occurred while refreshing the externalAdmissionHook configuration, no resources can be \
                  created/updated/deleted/connected until a refresh succeeds."
            .into(),
        field: String::new(),
    };
    Status::failure(500, "LoadingConfiguration", text).with_details(Details {
        name: attributes.operation.as_str().into(),
        group: attributes.resource.group.clone(),
        kind: attributes.resource.resource.clone(),
        causes: vec![cause],
        retry_after_seconds: 1,
        ..Details::default()
    })
}
