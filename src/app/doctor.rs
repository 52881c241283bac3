//! `doctor`: examines an installation from where the proxy runs, with its flags and its credentials.

mod certificates;
mod followed;
mod front_end;
mod guard;
mod tenants;
mod upstream;

pub(super) use followed::follow;
#[cfg(test)]
pub(crate) use followed::metric;

use super::Config;
use super::backend;
use crate::config::Upstream;
use crate::embedded::Vitals;
use crate::metrics::Registry;
use crate::server::Drain;
use crate::server::health::{Checks, Unhealthy};
use crate::upstream::SharedTransport;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok,
    /// Works for users, or cannot be told.
    Warning,
    /// Fails users, or soon will.
    Failure,
}

impl Outcome {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }
}

/// One line of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) check: &'static str,
    pub(crate) outcome: Outcome,
    /// The state that the check met.
    pub(crate) found: String,
    /// The action of an operator; empty if everything is as it should be.
    pub(crate) advice: String,
    /// The tenants whose API server the check is about; empty for the API server of the flags.
    pub(crate) tenants: Vec<String>,
}

impl Finding {
    /// The section of the documentation about the check.
    pub(crate) fn section(&self) -> String {
        format!("doctor.md#{}", self.check.replace(' ', "-"))
    }

    fn ok(check: &'static str, found: impl fmt::Display) -> Self {
        Self { check, outcome: Outcome::Ok, found: found.to_string(), advice: String::new(), tenants: Vec::new() }
    }

    fn warning(check: &'static str, found: impl fmt::Display, advice: impl fmt::Display) -> Self {
        Self { outcome: Outcome::Warning, advice: advice.to_string(), ..Self::ok(check, found) }
    }

    fn failure(check: &'static str, found: impl fmt::Display, advice: impl fmt::Display) -> Self {
        Self { outcome: Outcome::Failure, ..Self::warning(check, found, advice) }
    }
}

/// The connection to an API server, by which its checks ask.
#[derive(Clone)]
pub(super) struct Connected {
    transport: SharedTransport,
    client: kube::Client,
    /// The client with the second identity, if it forwards requests.
    impersonator: Option<kube::Client>,
    url: String,
}

impl Connected {
    /// The connection of a proxy; `None` to the embedded API server.
    pub(super) fn of(upstream: &backend::Upstream) -> Option<Self> {
        let backend::Upstream { transport, client, impersonator, url, .. } = upstream;
        let (transport, client, impersonator) = (transport.clone(), client.clone(), impersonator.clone());
        Some(Self { transport, client, impersonator, url: url.clone()? })
    }

    /// The finding if there is no connection.
    fn failed(error: &anyhow::Error) -> Finding {
        Finding::failure("address", format!("{error:#}"), "correct the kubeconfig and the files that it names")
    }
}

/// Examines the installation that these flags describe. Nothing is changed: a request that would write is a dry run. Takes as long as the
/// API servers take to answer, at most `call_timeout` for each question. Must be called inside a tokio runtime.
pub(crate) async fn examine(config: &Config) -> Vec<Finding> {
    let mut findings = certificates::findings(config);
    if let Upstream::Embedded(_) = &config.upstream {
        findings.push(Finding::ok("address", "the embedded API server is a part of the process"));
    } else {
        let drain = Drain::new();
        let vitals = Arc::new(Vitals { checks: Checks::new(&drain), registry: Registry::new() });
        match backend::Upstream::new(config, None, None, None, &drain, &vitals).await {
            Ok(upstream) => findings.extend(of_connected(config, Connected::of(&upstream).as_ref()).await),
            Err(error) => findings.push(Connected::failed(&error)),
        }
    }
    findings.extend(tenants::findings(config).await);
    findings
}

/// Examines what the API server of the flags tells; nothing about the embedded one.
async fn of_connected(config: &Config, connected: Option<&Connected>) -> Vec<Finding> {
    let Some(connected) = connected else { return Vec::new() };
    let (mut findings, is_reached) = upstream::findings(config, connected).await;
    if is_reached {
        findings.extend(front_end::findings(config, connected).await);
        findings.extend(guard::findings(config, connected).await);
    }
    findings
}

/// A GET of an object, with the proxy's own credentials: `None` if there is no such object.
///
/// # Errors
/// If the API server refuses it, or does not answer.
async fn get(client: &kube::Client, path: &str) -> Result<Option<Value>, Unhealthy> {
    let request = http::Request::get(path).body(Vec::new()).map_err(Unhealthy::of)?;
    match client.request(request).await {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(kube::Error::Api(status)) => Err(Unhealthy::of(&status.message)),
        Err(error) => Err(Unhealthy::of(error)),
    }
}

/// The value at a JSON pointer; null if there is none.
fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}
