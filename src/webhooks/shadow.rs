//! Webhooks in shadow mode: called, but neither their refusal nor their patch counts.
//!
//! A mutating one is called with the object as it is when its turn comes, in the first pass only, and runs beside the hooks after
//! it; the phase waits for it at its end. So all shadows of a phase together delay it by no more than the longest of their
//! timeouts, and what they said is in the audit event of the request. Those that are not through when the phase is refused are
//! given up. Their warnings and audit annotations reach nobody.

use super::call::{CallError, Caller, Prepared, exchange, prepare, verdict};
use super::hook::{Hook, Hooks};
use super::review::Review;
use crate::admission::metrics::Metrics;
use crate::admission::shadow::{Decision, Report, Shadow};
use crate::admission::{Attributes, Denial};
use crate::cluster::Cluster;
use crate::object::patch::admission::Patch;
use crate::object::{Object, decode};
use crate::processor::Processor;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Where answers to shadows' calls are worked on: beside the request, so not in its turns. Each configuration counts as a user.
static PROCESSOR: LazyLock<Processor> = LazyLock::new(|| Processor::new(1));

/// The shadows of one phase of one request; dropping it ends their calls.
#[derive(Default)]
pub struct Shadows {
    calls: JoinSet<Report>,
    /// Those that were not called.
    reports: Vec<Report>,
}

impl Shadows {
    /// Calls the hook at this position among `hooks`, beside whatever comes next.
    pub fn call(
        &mut self,
        caller: Caller,
        (hooks, index): (&Arc<Hooks>, usize),
        attributes: &Attributes,
        review: &Review,
        cluster: &Arc<Cluster>,
    ) {
        let Some(hook) = hooks.at(index) else { return };
        let who = shadow(hook, caller, index);
        let started = Instant::now();
        let prepared = match prepare(hook, attributes, review) {
            Ok(prepared) => prepared,
            Err(error) => return self.reports.push(failed(who, hook, &error, started.elapsed())),
        };
        let (hooks, cluster) = (Arc::clone(hooks), Arc::clone(cluster));
        let user = who.configuration.clone();
        let call = async move {
            let Some(hook) = hooks.at(index) else { return Report::new(who, Decision::Allowed, Duration::ZERO) };
            let response = exchange(caller, hook, &prepared, &cluster).await;
            match response.and_then(|response| verdict(hook, response)) {
                Ok(response) if response.patch.is_empty() => Report::new(who, Decision::Allowed, started.elapsed()),
                Ok(response) => patched(who, hook, &prepared, &response.patch, started.elapsed()),
                Err(error) => failed(who, hook, &error, started.elapsed()),
            }
        };
        self.calls.spawn(async move { PROCESSOR.run(&user, call).await });
    }

    /// Notes that it could not be told whether the hook is to be called, which would have refused the request.
    pub fn undecided(
        &mut self,
        caller: Caller,
        (hook, index): (&Hook, usize),
        denial: Denial,
        attributes: &Attributes,
    ) {
        let status = denial.into_status(attributes);
        let report = Report::new(shadow(hook, caller, index), Decision::FailedClosed, Duration::ZERO);
        self.reports.push(report.because(status.code, &status.message));
    }

    /// Waits for all of them and says what they would have decided.
    pub async fn finish(mut self, attributes: &Attributes, metrics: &Metrics) {
        while let Some(joined) = self.calls.join_next().await {
            match joined {
                Ok(report) => self.reports.push(report),
                Err(error) => tracing::error!(%error, "a shadow's call ended in a way that it must not"),
            }
        }
        self.reports.sort_by_key(|report| report.shadow.index);
        for report in &self.reports {
            report.publish(attributes, metrics.shadows());
        }
    }
}

fn shadow(hook: &Hook, caller: Caller, index: usize) -> Shadow {
    let (configuration, name) = (hook.configuration.clone(), hook.name.clone());
    Shadow { configuration, name, kind: "webhook", step: caller.label(), index }
}

fn failed(who: Shadow, hook: &Hook, error: &CallError, elapsed: Duration) -> Report {
    match error {
        CallError::Calling { reason, code } => {
            let decision = if hook.ignores_failure { Decision::FailedOpen } else { Decision::FailedClosed };
            Report::new(who, decision, elapsed).because(*code, reason)
        }
        CallError::Rejected(status) => {
            Report::new(who, Decision::Denied, elapsed).because(status.code, &status.message)
        }
        CallError::Internal(status) => {
            Report::new(who, Decision::FailedClosed, elapsed).because(status.code, &status.message)
        }
    }
}

/// What its patch would have done to the object that it was shown.
fn patched(who: Shadow, hook: &Hook, prepared: &Prepared, patch: &[u8], elapsed: Duration) -> Report {
    let bytes = patch.len();
    let object = decode::json(prepared.object()).ok().and_then(|decoded| Object::from_value(decoded.value));
    let applied = Patch::decode(patch).and_then(|patch| match &object {
        Some(object) => Ok((patch.apply(object)? != serde_json::Value::Object(object.fields().clone()), patch)),
        None => Err("there is no object to change".to_owned()),
    });
    match applied {
        Ok((is_changed, patch)) => {
            let decision = if is_changed { Decision::Changed } else { Decision::Allowed };
            Report::new(who, decision, elapsed).changing(patch.paths(), bytes)
        }
        Err(why) => failed(who, hook, &CallError::internal(why), elapsed).changing(std::iter::empty(), bytes),
    }
}
