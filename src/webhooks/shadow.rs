//! Webhooks in shadow mode: called, but neither a rejection nor a patch counts.
//!
//! A mutating shadow hook gets the object as it is at the hook's turn, in the first pass only, and runs beside the hooks after it; the
//! phase waits for the call at its end. So all shadow hooks of a phase delay the phase by at most the longest of their timeouts, and the
//! audit event of the request has their decisions. If another hook rejects the request, calls that still run are dropped. Warnings and
//! audit annotations of shadow hooks are dropped, too.

use super::call::{CallError, Prepared, WebhookType, exchange, prepare, verdict};
use super::hook::{Hook, Hooks};
use super::review::Review;
use crate::admission::metrics::Metrics;
use crate::admission::shadow::{Report, Shadow, ShadowVerdict};
use crate::admission::{Attributes, Denial};
use crate::backend::carried;
use crate::cluster::Cluster;
use crate::object::patch::admission::Patch;
use crate::object::{Object, decode};
use crate::processor::Processor;
use crate::sharer::Sharer;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The processor for answers to shadow calls: they run beside the request, outside its turns. Each configuration counts as a user.
static PROCESSOR: LazyLock<Processor> = LazyLock::new(|| Processor::new(1));

/// The shadow hooks of one phase of one request; dropping the value ends their calls.
pub(super) struct ShadowCalls {
    webhook_type: WebhookType,
    hooks: Arc<Hooks>,
    calls: JoinSet<Report>,
    /// Reports of hooks that were not called.
    reports: Vec<Report>,
}

impl ShadowCalls {
    /// Creates the state of a phase that calls `hooks`.
    pub(super) fn new(webhook_type: WebhookType, hooks: &Arc<Hooks>) -> Self {
        Self { webhook_type, hooks: hooks.clone(), calls: JoinSet::new(), reports: Vec::new() }
    }

    /// Calls the hook at this position, beside the hooks after it.
    pub(super) fn call(&mut self, index: usize, attributes: &Attributes, review: &Review, cluster: &Arc<Cluster>) {
        let webhook_type = self.webhook_type;
        let Some(hook) = self.hooks.at(index) else { return };
        let who = shadow(hook, webhook_type, index);
        let started = Instant::now();
        let prepared = match prepare(hook, attributes, review) {
            Ok(prepared) => prepared,
            Err(error) => return self.reports.push(failed(who, hook, &error, started.elapsed())),
        };
        let (hooks, cluster) = (self.hooks.clone(), cluster.clone());
        let sharer = Sharer::named(&who.configuration);
        let call = async move {
            let Some(hook) = hooks.at(index) else { return Report::new(who, ShadowVerdict::Allowed, Duration::ZERO) };
            let response = exchange(webhook_type, hook, &prepared, &cluster).await;
            match response.and_then(|response| verdict(hook, response)) {
                Ok(response) if response.patch.is_empty() => {
                    Report::new(who, ShadowVerdict::Allowed, started.elapsed())
                }
                Ok(response) => patched(who, hook, &prepared, &response.patch, started.elapsed()),
                Err(error) => failed(who, hook, &error, started.elapsed()),
            }
        };
        self.calls.spawn(carried(async move { PROCESSOR.run(&sharer, call).await }));
    }

    /// Records that a shadow hook's match could not be decided, which would have rejected the request.
    pub(super) fn undecided(&mut self, index: usize, denial: Denial, attributes: &Attributes) {
        let Some(hook) = self.hooks.at(index) else { return };
        let status = denial.into_status(attributes);
        let shadow = shadow(hook, self.webhook_type, index);
        let report = Report::new(shadow, ShadowVerdict::FailedClosed, Duration::ZERO);
        self.reports.push(report.because(status.code, &status.message));
    }

    /// Waits for all calls and publishes the decisions that the hooks would have made.
    pub(super) async fn finish(mut self, attributes: &Attributes, metrics: &Metrics) {
        while let Some(joined) = self.calls.join_next().await {
            match joined {
                Ok(report) => self.reports.push(report),
                Err(error) => tracing::error!(%error, "the call of a shadow webhook panicked or was cancelled"),
            }
        }
        self.reports.sort_by_key(|report| report.shadow.index);
        for report in &self.reports {
            report.publish(attributes, metrics.shadows());
        }
    }
}

fn shadow(hook: &Hook, webhook_type: WebhookType, index: usize) -> Shadow {
    let (configuration, name) = (hook.configuration.clone(), hook.name.clone());
    Shadow { configuration, name, kind: "webhook", step: webhook_type.label(), index }
}

fn failed(who: Shadow, hook: &Hook, error: &CallError, elapsed: Duration) -> Report {
    match error {
        CallError::Calling { reason, code } => {
            let decision = if hook.ignores_failure { ShadowVerdict::FailedOpen } else { ShadowVerdict::FailedClosed };
            Report::new(who, decision, elapsed).because(*code, reason)
        }
        CallError::Rejected(status) => {
            Report::new(who, ShadowVerdict::Denied, elapsed).because(status.code, &status.message)
        }
        CallError::Internal(status) => {
            Report::new(who, ShadowVerdict::FailedClosed, elapsed).because(status.code, &status.message)
        }
    }
}

/// Reports the effect of the hook's patch on the object that the hook got.
fn patched(who: Shadow, hook: &Hook, prepared: &Prepared, patch: &[u8], elapsed: Duration) -> Report {
    let bytes = patch.len();
    let object = decode::json(prepared.object()).ok().and_then(|decoded| Object::from_value(decoded.value));
    let applied = Patch::decode(patch).map_err(|why| why.to_string()).and_then(|patch| {
        let object = object.as_ref().ok_or("there is no object to change")?;
        let patched = patch.apply(object).map_err(|why| why.to_string())?;
        Ok((patched != *object.as_value(), patch))
    });
    match applied {
        Ok((is_changed, patch)) => {
            let decision = if is_changed { ShadowVerdict::Changed } else { ShadowVerdict::Allowed };
            Report::new(who, decision, elapsed).changing(patch.paths(), bytes)
        }
        Err(why) => failed(who, hook, &CallError::internal(why), elapsed).changing(std::iter::empty(), bytes),
    }
}
