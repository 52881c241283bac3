//! The upstream API server: address, credentials, rights, release, clock, and webhooks that it calls itself.

use super::{Config, Connected, Finding};
use crate::admission::Spec;
use crate::app::rights;
use crate::body::empty;
use crate::config::{CallsWebhooks, Upstream, UpstreamIdentity};
use crate::upstream::review::ReviewError;
use crate::upstream::rights::{NeededAccess, listed, user};
use crate::upstream::{DoubleAdmission, probe, release};
use http::{Request, header};
use std::time::{Duration, SystemTime};
use tokio::time::timeout;

/// The difference of clocks from which certificates and tokens of a moment ago may be invalid.
const LARGE_DIFFERENCE: Duration = Duration::from_secs(60);
const DIFFERENCE: Duration = Duration::from_secs(5);

/// Returns the findings, and whether the API server answers.
pub(super) async fn findings(config: &Config, connected: &Connected) -> (Vec<Finding>, bool) {
    let patience = config.limits.call_timeout;
    let url = &connected.url;
    if let Err(cause) = probe::once(&connected.transport, config.limits.probe_timeout).await {
        let cause = cause.to_string();
        return (vec![Finding::failure("address", format!("{url}: {cause}"), probe::advice(&cause))], false);
    }
    let mut findings = vec![Finding::ok("address", format!("{url} answers"))];
    match user(&connected.client, patience).await {
        Ok(name) => findings.push(Finding::ok("credentials", format!("the user is {name:?}"))),
        Err(why) => {
            let advice = "give --upstream-kubeconfig credentials that the API server accepts";
            findings.push(Finding::failure("credentials", why, advice));
            return (findings, false);
        }
    }
    findings.extend(of_rights(config, connected, patience).await);
    findings.extend(of_double_webhooks(config, connected, patience).await);
    findings.push(of_release(connected, patience).await);
    findings.extend(of_clock(connected, patience).await);
    (findings, true)
}

async fn of_rights(config: &Config, connected: &Connected, patience: Duration) -> Vec<Finding> {
    let print = "bind the ClusterRole of \"kube-admission-proxy print rbac\" with the same flags";
    let mut findings = Vec::new();
    let own: (_, _, Vec<NeededAccess>) = (&connected.client, "rights", rights::of_requests(config));
    let second = connected.impersonator.as_ref();
    let impersonator =
        second.map(|client| (client, "rights of the impersonator", rights::of_impersonation().collect()));
    for (client, check, rights) in [own].into_iter().chain(impersonator) {
        findings.push(match missing(client, &rights, patience).await {
            Ok(missing) if missing.is_empty() => Finding::ok(check, "all rights that requests need"),
            Ok(missing) => Finding::failure(check, format!("no right to {}", listed(&missing)), print),
            Err(why) => Finding::warning(check, why, "the API server does not tell rights"),
        });
    }
    let plugins = &config.admission.plugins;
    let rights = rights::of_plugins(plugins);
    findings.push(match missing(&connected.client, &rights, patience).await {
        Ok(missing) if missing.is_empty() => {
            Finding::ok("rights of plugins", format!("all of {} plugins", plugins.len()))
        }
        Ok(missing) => {
            let what = missing.iter().map(|access| format!("{} (for {})", listed(&[*access]), access.reason));
            let what: Vec<String> = what.collect();
            Finding::failure("rights of plugins", format!("no right to {}", what.join("; ")), print)
        }
        Err(why) => Finding::warning("rights of plugins", why, "the API server does not tell rights"),
    });
    if let Some(wide) = rights::of_stored_objects(config) {
        findings.push(match wide.is_allowed(&connected.client, patience).await {
            Ok(true) => Finding::ok("rights to stored objects", "every resource can be read"),
            Ok(false) => {
                let advice = "allow get and list of each resource that clients update or delete";
                let found = "not every resource can be read: updates and deletes of the others are refused";
                Finding::warning("rights to stored objects", found, advice)
            }
            Err(why) => Finding::warning("rights to stored objects", why, "the API server does not tell rights"),
        });
    }
    findings
}

async fn missing<'a>(
    client: &kube::Client,
    rights: &'a [NeededAccess],
    patience: Duration,
) -> Result<Vec<&'a NeededAccess>, ReviewError> {
    let mut missing = Vec::new();
    for access in rights {
        if !access.is_allowed(client, patience).await? {
            missing.push(access);
        }
    }
    Ok(missing)
}

async fn of_double_webhooks(config: &Config, connected: &Connected, patience: Duration) -> Option<Finding> {
    const CHECK: &str = "webhooks called once";
    let runs = |name: &str| config.admission.plugins.iter().any(|spec: &&Spec| spec.name == name);
    let Upstream::Remote { calls_webhooks, identity, .. } = &config.upstream else { return None };
    if !runs("MutatingAdmissionWebhook") && !runs("ValidatingAdmissionWebhook") || *calls_webhooks == CallsWebhooks::No
    {
        return None;
    }
    let is_passthrough = *identity == UpstreamIdentity::Passthrough;
    Some(match DoubleAdmission::of_upstream(&connected.transport, patience).await {
        Ok(names) => {
            let twice: Vec<&str> = names.into_iter().filter(|name| runs(name)).collect();
            match twice.is_empty() {
                true => Finding::ok(CHECK, "the API server has called none"),
                false => {
                    let found = format!("{} runs here and in the API server", twice.join(", "));
                    let advice = "disable it here (--disable-admission-plugins) or in the API server";
                    Finding::warning(CHECK, found, advice)
                }
            }
        }
        Err(why) if is_passthrough => Finding::ok(CHECK, format!("not told: {why}")),
        Err(why) => Finding::warning(
            CHECK,
            format!("not told: {why}"),
            "allow the proxy to get /metrics, or set --upstream-calls-webhooks",
        ),
    })
}

async fn of_release(connected: &Connected, patience: Duration) -> Finding {
    const CHECK: &str = "release";
    match timeout(patience, connected.client.apiserver_version()).await {
        Ok(Ok(info)) => match release::later_than_known(&info.major, &info.minor) {
            Some(found) => Finding::warning(
                CHECK,
                found,
                "emulate it with --emulated-version, or install the release of the proxy for it",
            ),
            None => Finding::ok(CHECK, format!("Kubernetes {}", info.git_version)),
        },
        Ok(Err(error)) => Finding::warning(CHECK, error, "the API server tells no version"),
        Err(_) => Finding::warning(CHECK, "no answer in time", "the API server tells no version"),
    }
}

/// Compares the clocks by the header Date, which has seconds.
async fn of_clock(connected: &Connected, patience: Duration) -> Option<Finding> {
    let mut request = Request::new(empty());
    *request.uri_mut() = http::Uri::from_static("/version");
    let before = SystemTime::now();
    let answer = timeout(patience, connected.transport.send(request)).await.ok()?.ok()?;
    let date = answer.headers().get(header::DATE)?.to_str().ok()?;
    let theirs = SystemTime::from(jiff::fmt::rfc2822::parse(date).ok()?.timestamp());
    let elapsed = before.elapsed().unwrap_or_default();
    Some(compare(before, theirs, elapsed))
}

/// `theirs` was read between `ours` and `elapsed` later, and is up to a second old.
fn compare(ours: SystemTime, theirs: SystemTime, elapsed: Duration) -> Finding {
    const CHECK: &str = "clock";
    let difference = match theirs.duration_since(ours) {
        Ok(ahead) => ahead.saturating_sub(elapsed),
        Err(behind) => behind.duration().saturating_sub(Duration::from_secs(1)),
    };
    let found = format!("the API server's differs by {} s", difference.as_secs());
    let advice = "synchronize the clocks: certificates and tokens of a moment ago may be invalid on the other side";
    if difference >= LARGE_DIFFERENCE {
        Finding::failure(CHECK, found, advice)
    } else if difference >= DIFFERENCE {
        Finding::warning(CHECK, found, advice)
    } else {
        Finding::ok(CHECK, "as the API server's")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::doctor::Outcome;

    #[test]
    fn clocks_differ_by_more_than_the_header_and_the_way_explain() {
        let seconds = Duration::from_secs;
        let ours = SystemTime::UNIX_EPOCH + seconds(1_000_000);
        for (theirs, elapsed, outcome) in [
            (ours - seconds(1), 0, Outcome::Ok),
            (ours + seconds(8), 6, Outcome::Ok),
            (ours + seconds(8), 0, Outcome::Warning),
            (ours - seconds(8), 20, Outcome::Warning),
            (ours - seconds(61), 0, Outcome::Failure),
            (ours + seconds(3600), 1, Outcome::Failure),
        ] {
            assert_eq!(compare(ours, theirs, seconds(elapsed)).outcome, outcome, "{theirs:?} {elapsed}");
        }
    }
}
