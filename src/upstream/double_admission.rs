//! Detects whether the upstream API server calls webhooks itself: then each webhook is called twice.
//!
//! No API tells which admission plugins a server runs, but kube-apiserver's metrics name the plugins that it has called.

use super::SharedTransport;
use super::metric_lines::metric_lines;
use crate::server::health::Unhealthy;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

/// The metric that counts the calls of a plugin.
const COUNT: &[u8] = b"apiserver_admission_controller_admission_duration_seconds_count{";
/// The plugins that call webhooks.
const PLUGINS: [&str; 2] = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"];
/// The interval of the reads: the API server may have restarted with other plugins.
const INTERVAL: Duration = Duration::from_secs(60 * 60);
/// The interval while an operator is warned, who may follow the advice, or nothing could be read.
const WARNED_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// The plugins that call webhooks both here and in the upstream API server. Dropping the value ends the reads.
#[derive(Debug)]
pub(crate) struct DoubleAdmission {
    found: Arc<[AtomicBool; 2]>,
    _task: Option<AbortOnDropHandle<()>>,
}

impl DoubleAdmission {
    /// Reads the upstream's metrics at once, and then every hour, for those of `plugins` that call webhooks; every five minutes while one is
    /// found, and after each notice of `recovered`: an API server that was away may have been restarted. Metrics that cannot be read change
    /// nothing. Must be called inside a tokio runtime.
    pub(crate) fn watch(
        transport: SharedTransport,
        plugins: &[&'static str],
        patience: Duration,
        mut recovered: watch::Receiver<u64>,
    ) -> Self {
        let mine = PLUGINS.map(|plugin| plugins.contains(&plugin));
        let found: Arc<[AtomicBool; 2]> = Arc::default();
        let seen = Arc::clone(&found);
        let asking = async move {
            let mut is_told = false;
            loop {
                let answer = timeout(patience, ask(&transport))
                    .await
                    .unwrap_or_else(|_| Err(Unhealthy::of("no answer in time")));
                let is_settled = match answer {
                    Ok([mutates, validates]) => {
                        note(&seen, [mutates && mine[0], validates && mine[1]]);
                        !seen.iter().any(|found| found.load(Ordering::Relaxed))
                    }
                    Err(why) => {
                        if !std::mem::replace(&mut is_told, true) {
                            tracing::info!(
                                why = why.to_string(),
                                "cannot tell whether the API server behind calls webhooks itself; \
                                 --upstream-calls-webhooks says so"
                            );
                        }
                        false
                    }
                };
                // Without a sender, the pause alone ends the wait.
                let notice = async {
                    if recovered.changed().await.is_err() {
                        std::future::pending::<()>().await;
                    }
                };
                let _ = timeout(if is_settled { INTERVAL } else { WARNED_INTERVAL }, notice).await;
            }
        };
        Self { found, _task: Some(AbortOnDropHandle::new(tokio::spawn(asking))) }
    }

    /// Returns the plugins, of those that call webhooks, that the API server has called.
    ///
    /// # Errors
    /// If its metrics cannot be read.
    pub(crate) async fn of_upstream(
        transport: &SharedTransport,
        patience: Duration,
    ) -> Result<Vec<&'static str>, Unhealthy> {
        let answer =
            timeout(patience, ask(transport)).await.unwrap_or_else(|_| Err(Unhealthy::of("no answer in time")))?;
        Ok(PLUGINS.into_iter().zip(answer).filter(|(_, calls)| *calls).map(|(name, _)| name).collect())
    }

    /// Creates the value from a configured answer, without reading metrics.
    pub(crate) fn known(calls: bool, plugins: &[&'static str]) -> Self {
        let found: Arc<[AtomicBool; 2]> = Arc::default();
        note(&found, PLUGINS.map(|plugin| calls && plugins.contains(&plugin)));
        Self { found, _task: None }
    }

    /// Checks that webhooks are called once.
    ///
    /// # Errors
    /// If a plugin calls webhooks twice, with advice.
    pub(crate) fn check(&self) -> Result<(), Unhealthy> {
        let names = PLUGINS.iter().zip(&*self.found).filter(|(_, found)| found.load(Ordering::Relaxed));
        let names: Vec<&str> = names.map(|(name, _)| *name).collect();
        if names.is_empty() { Ok(()) } else { Err(Unhealthy::of(advice(&names.join(",")))) }
    }
}

fn advice(names: &str) -> String {
    format!(
        "webhooks are called twice, here and in the upstream API server: start one of the two with --disable-admission-plugins={names}"
    )
}

fn note(found: &[AtomicBool; 2], names: [bool; 2]) {
    let was = found.each_ref().map(|found| found.load(Ordering::Relaxed));
    for (found, is) in found.iter().zip(names) {
        found.store(is, Ordering::Relaxed);
    }
    let named: Vec<&str> = PLUGINS.into_iter().zip(names).filter(|(_, is)| *is).map(|(name, _)| name).collect();
    if !named.is_empty() && was != names {
        tracing::warn!("{}", advice(&named.join(",")));
    }
}

/// Returns the plugins that the metrics name.
async fn ask(transport: &SharedTransport) -> Result<[bool; 2], Unhealthy> {
    let mut names = [false; 2];
    metric_lines(transport, |line| look(line, &mut names)).await?;
    Ok(names)
}

fn look(line: &[u8], names: &mut [bool; 2]) {
    let Some(labels) = line.strip_prefix(COUNT).and_then(|labels| std::str::from_utf8(labels).ok()) else { return };
    for (name, found) in PLUGINS.into_iter().zip(names) {
        *found |= labels.contains(&format!("name=\"{name}\""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::full;
    use crate::upstream::from_fn;
    use http::Response;

    fn server(status: u16, text: &'static str) -> SharedTransport {
        from_fn(move |request| {
            assert_eq!(request.uri(), "/metrics");
            async move { Ok(Response::builder().status(status).body(full(text)).unwrap()) }
        })
    }

    #[tokio::test]
    async fn plugins_of_the_upstream_are_known_by_its_metrics() {
        let text = "# HELP x\napiserver_admission_controller_admission_duration_seconds_count\
                    {name=\"ValidatingAdmissionWebhook\",operation=\"CREATE\",rejected=\"false\",type=\"validate\"} 3\n\
                    apiserver_admission_controller_admission_duration_seconds_count{name=\"LimitRanger\"} 1";
        assert_eq!(ask(&server(200, text)).await, Ok([false, true]));
        assert_eq!(ask(&server(200, "")).await, Ok([false, false]));
        assert_eq!(ask(&server(403, text)).await, Err(Unhealthy::of("/metrics is answered with 403")));
    }

    #[tokio::test(start_paused = true)]
    async fn the_metrics_are_read_again_after_a_recovery_and_soon_while_there_is_a_warning() {
        let calls = Arc::new(AtomicBool::new(false));
        let answer = calls.clone();
        let transport = from_fn(move |_| {
            let calls = answer.load(Ordering::Relaxed);
            let text =
                "apiserver_admission_controller_admission_duration_seconds_count{name=\"MutatingAdmissionWebhook\"} 1";
            async move { Ok(Response::new(full(if calls { text } else { "" }))) }
        });
        let (recovered, notice) = watch::channel(0);
        let doubled = DoubleAdmission::watch(transport, &["MutatingAdmissionWebhook"], Duration::from_secs(5), notice);
        let pause = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
        pause(1).await;
        calls.store(true, Ordering::Relaxed);
        pause(20 * 60).await;
        assert_eq!(doubled.check(), Ok(()), "the metrics were read within the hour");
        recovered.send_replace(1);
        pause(1).await;
        assert!(doubled.check().is_err());
        calls.store(false, Ordering::Relaxed);
        pause(6 * 60).await;
        assert_eq!(doubled.check(), Ok(()));
    }

    #[test]
    fn plugins_that_run_twice_are_named() {
        let both = ["MutatingAdmissionWebhook", "LimitRanger"];
        assert_eq!(DoubleAdmission::known(false, &both).check(), Ok(()));
        assert_eq!(DoubleAdmission::known(true, &["LimitRanger"]).check(), Ok(()));
        assert_eq!(DoubleAdmission::known(true, &both).check(), Err(Unhealthy::of(advice("MutatingAdmissionWebhook"))));
    }
}
