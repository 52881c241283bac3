//! The checks of a proxy that runs: a metric, and a line of the log for each change.

use super::{Config, Connected, Finding, Outcome, certificates, of_connected};
use crate::metrics::Registry;
use prometheus::{IntGaugeVec, Opts};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::task::AbortOnDropHandle;

/// Time until the first checks: the API server's metrics tell nothing about the front end before its first calls.
const FIRST: Duration = Duration::from_secs(15);
/// Checks about which readiness and its log lines tell sooner.
const TOLD: [&str; 4] = ["address", "rights", "rights of the impersonator", "webhooks called once"];

/// Examines the API server of the flags and the certificates soon, and then every `doctor_interval`. Dropping the value ends that. Must be
/// called inside a tokio runtime.
///
/// # Errors
/// If the registry already has the metric.
pub(in crate::app) fn follow(
    config: Config,
    connected: Connected,
    registry: &Registry,
) -> prometheus::Result<AbortOnDropHandle<()>> {
    let gauge = metric(registry)?;
    let examining = async move {
        let mut ticks = interval_at(Instant::now() + FIRST, config.limits.doctor_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = Told::default();
        loop {
            ticks.tick().await;
            let read = config.clone();
            let files = tokio::task::spawn_blocking(move || certificates::findings(&read)).await;
            let mut findings = files.unwrap_or_default();
            findings.extend(of_connected(&config, Some(&connected)).await);
            count(&gauge, &findings);
            told.tell(&findings);
        }
    };
    Ok(AbortOnDropHandle::new(tokio::spawn(examining)))
}

/// Registers the metric.
///
/// # Errors
/// If the registry already has the metric.
pub(crate) fn metric(registry: &Registry) -> prometheus::Result<IntGaugeVec> {
    let help = "Number of findings of doctor at its last examination, by check and outcome (ok, warning or failure).";
    let gauge = IntGaugeVec::new(Opts::new("kube_admission_proxy_doctor_findings", help), &["check", "outcome"])?;
    registry.register(Box::new(gauge.clone()))?;
    Ok(gauge)
}

/// Sets the gauge to the numbers of these findings. An outcome that a check no longer has is 0, so that an alert ends.
fn count(gauge: &IntGaugeVec, findings: &[Finding]) {
    gauge.reset();
    for finding in findings {
        for outcome in [Outcome::Ok, Outcome::Warning, Outcome::Failure] {
            gauge.with_label_values(&[finding.check, outcome.name()]).add(i64::from(outcome == finding.outcome));
        }
    }
}

/// The findings that are in the log, by their checks and texts.
#[derive(Default)]
struct Told(BTreeMap<(&'static str, String), Outcome>);

impl Told {
    /// Logs the findings that need an operator and are new, and returns their number.
    fn tell(&mut self, findings: &[Finding]) -> usize {
        let known = std::mem::take(&mut self.0);
        let mut new = 0;
        for Finding { check, outcome, found, advice, .. } in findings {
            if *outcome == Outcome::Ok || TOLD.contains(check) {
                continue;
            }
            let key = (*check, found.clone());
            if known.get(&key) != Some(outcome) {
                tracing::warn!(check, advice, "doctor: {check}: {found}");
                new += 1;
            }
            self.0.insert(key, *outcome);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_told_once_and_again_when_it_comes_back() {
        let guard = Finding::failure("guard", "off", "print guard");
        let address = Finding::failure("address", "refused", "start it");
        let fine = Finding::ok("guard", "on");
        let mut told = Told::default();
        let both = [guard.clone(), address];
        assert_eq!(told.tell(&both), 1);
        assert_eq!(told.tell(&both), 0);
        assert_eq!(told.tell(&[Finding::warning("guard", "off", "print guard")]), 1);
        assert_eq!(told.tell(&[fine]), 0);
        assert_eq!(told.tell(&[guard]), 1);
    }

    #[test]
    fn an_outcome_that_is_over_is_zero() {
        let gauge = IntGaugeVec::new(Opts::new("findings", "Findings."), &["check", "outcome"]).unwrap();
        let value = |outcome| gauge.with_label_values(&["guard", outcome]).get();
        count(&gauge, &[Finding::failure("guard", "off", ""), Finding::failure("guard", "of another mark", "")]);
        assert_eq!([value("ok"), value("failure")], [0, 2]);
        count(&gauge, &[Finding::ok("guard", "on")]);
        assert_eq!([value("ok"), value("failure")], [1, 0]);
    }
}
