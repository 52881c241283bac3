//! The webhook front end, as the API server sees it: webhook configurations, calls, and who else may call.

use super::{Config, Connected, Finding, at, get};
use crate::config::FrontEndOptions;
use crate::upstream::metric_lines;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::timeout;

/// The names of the webhooks that `print webhooks` and the chart write, and their resources.
const WEBHOOKS: [(&str, &str); 2] = [
    ("mutate.kube-admission-proxy.dev", "mutatingwebhookconfigurations"),
    ("validate.kube-admission-proxy.dev", "validatingwebhookconfigurations"),
];

pub(super) async fn findings(config: &Config, connected: &Connected) -> Vec<Finding> {
    let Some(front_end) = &config.front_end else { return Vec::new() };
    let mut findings = Vec::new();
    for (name, resource) in WEBHOOKS {
        findings.extend(of_webhook(front_end, connected, name, resource).await);
    }
    findings.push(of_calls(connected, config.limits.call_timeout).await);
    let namespace = config.serving.secret.as_ref().map(|secret| secret.namespace.clone()).or_else(own_namespace);
    if let (true, Some(namespace)) = (front_end.anonymous, namespace) {
        findings.push(of_network(connected, &namespace).await);
    }
    findings
}

/// The namespace of the pod in which the process runs.
fn own_namespace() -> Option<String> {
    let file = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
    std::fs::read_to_string(file).ok().map(|name| name.trim().to_owned())
}

/// Findings about a webhook of the front end. Without the name of the configurations, all of them are read.
async fn of_webhook(
    front_end: &FrontEndOptions,
    connected: &Connected,
    name: &'static str,
    resource: &str,
) -> Vec<Finding> {
    const CHECK: &str = "webhook configurations";
    let path = format!("/apis/admissionregistration.k8s.io/v1/{resource}");
    let path = front_end.configurations.as_ref().map_or_else(|| path.clone(), |named| format!("{path}/{named}"));
    let read = match get(&connected.client, &path).await {
        Ok(read) => read.unwrap_or_default(),
        Err(why) => {
            let advice = "set --webhook-configurations, or allow the proxy to list webhook configurations";
            return vec![Finding::warning(CHECK, why, advice)];
        }
    };
    let configurations = match read.get("items").and_then(Value::as_array) {
        Some(items) => items.clone(),
        None => vec![read],
    };
    let webhooks =
        configurations.iter().filter_map(|configuration| at(configuration, "/webhooks").as_array()).flatten();
    let webhook = webhooks.into_iter().find(|webhook| at(webhook, "/name") == name);
    webhook.map_or_else(
        || {
            let found = format!("no webhook {name}: the API server does not call the front end");
            vec![Finding::failure(CHECK, found, "apply the output of \"kube-admission-proxy print webhooks\"")]
        },
        |webhook| of_configured(name, webhook),
    )
}

fn of_configured(name: &'static str, webhook: &Value) -> Vec<Finding> {
    const CHECK: &str = "webhook configurations";
    let client = at(webhook, "/clientConfig");
    let has_bundle = at(client, "/caBundle").as_str().is_some_and(|bundle| !bundle.is_empty());
    let mut findings = Vec::new();
    if !has_bundle && at(client, "/url").is_null() {
        let advice = "set --webhook-configurations, so that the proxy writes it, or caBundle in the configuration";
        findings.push(Finding::failure(CHECK, format!("{name} has no caBundle"), advice));
    }
    if at(webhook, "/failurePolicy") == "Ignore" {
        let found = format!("{name} has failurePolicy Ignore: writes pass unadmitted while the front end is away");
        findings.push(Finding::warning(CHECK, found, "set failurePolicy to Fail once the front end is ready"));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, format!("{name} is configured")));
    }
    findings
}

/// The API server's calls of the front end, by its metrics.
async fn of_calls(connected: &Connected, patience: Duration) -> Finding {
    const CHECK: &str = "front end reachable";
    let mut calls = BTreeMap::new();
    let read = metric_lines(&connected.transport, |line| count(line, &mut calls));
    match timeout(patience, read).await {
        Ok(Ok(())) => judge(&calls),
        Ok(Err(why)) => Finding::warning(CHECK, format!("not told: {why}"), "allow the proxy to get /metrics"),
        Err(_) => Finding::warning(CHECK, "not told: no answer in time", "see the API server's log"),
    }
}

/// Adds a line of metrics to the number of calls of the front end's webhooks by the status code of the answer; code 0 is a call without an
/// answer.
fn count(line: &[u8], calls: &mut BTreeMap<u16, u64>) {
    let line = line.strip_prefix(b"apiserver_admission_webhook_request_total{");
    let Some(line) = line.and_then(|line| std::str::from_utf8(line).ok()) else { return };
    let label = |name: &str| line.split_once(&format!("{name}=\""))?.1.split('"').next();
    let is_own =
        label(",name").or_else(|| label("name")).is_some_and(|name| WEBHOOKS.iter().any(|(own, _)| *own == name));
    let count = line.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok()).unwrap_or_default();
    if let (true, Some(code)) = (is_own, label("code").and_then(|code| code.parse().ok())) {
        *calls.entry(code).or_default() += count as u64;
    }
}

fn judge(calls: &BTreeMap<u16, u64>) -> Finding {
    const CHECK: &str = "front end reachable";
    let answered = calls.get(&200).copied().unwrap_or_default();
    let failed: u64 = calls.iter().filter(|(code, _)| **code != 200).map(|(_, count)| count).sum();
    let advice = "let the API server reach the front end's port: security group, firewall, Service, network policy";
    match (answered, failed) {
        (0, 0) => {
            let found = "the API server that answers has called no webhook of the front end yet";
            Finding::warning(CHECK, found, "create an object, and look again")
        }
        (0, failed) => Finding::failure(CHECK, format!("none of {failed} calls was answered"), advice),
        (answered, 0) => Finding::ok(CHECK, format!("{answered} calls of the API server were answered")),
        (answered, failed) => {
            let found = format!("{failed} of {} calls of the API server were not answered", answered + failed);
            Finding::warning(CHECK, found, advice)
        }
    }
}

/// A front end that takes callers without credentials relies on the network.
async fn of_network(connected: &Connected, namespace: &str) -> Finding {
    const CHECK: &str = "network policy";
    let advice = "restrict ingress to the API servers' addresses (networkPolicy.apiServers of the chart)";
    let path = format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies");
    let policies = match get(&connected.client, &path).await {
        Ok(policies) => policies.unwrap_or_default(),
        Err(why) => return Finding::warning(CHECK, format!("not told: {why}"), advice),
    };
    match is_open(at(&policies, "/items").as_array().map_or(&[], Vec::as_slice)) {
        Some(found) => Finding::warning(CHECK, format!("namespace {namespace}: {found}"), advice),
        None => Finding::ok(CHECK, format!("namespace {namespace}: ingress is restricted")),
    }
}

/// The reason why everybody may call, if no policy of the namespace restricts ingress.
fn is_open(policies: &[Value]) -> Option<String> {
    let of_ingress = |policy: &&Value| {
        let types = at(policy, "/spec/policyTypes").as_array();
        types.is_none_or(|types| types.iter().any(|kind| kind == "Ingress"))
    };
    let policies: Vec<&Value> = policies.iter().filter(of_ingress).collect();
    if policies.is_empty() {
        return Some("no network policy restricts ingress, and callers need no credentials".to_owned());
    }
    let opens = |policy: &&&Value| {
        let rules = at(policy, "/spec/ingress").as_array();
        rules.is_some_and(|rules| rules.iter().any(|rule| at(rule, "/from").as_array().is_none_or(Vec::is_empty)))
    };
    let open = policies.iter().find(opens)?;
    Some(format!("the network policy {} lets everybody in", at(open, "/metadata/name")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::doctor::Outcome;
    use serde_json::json;

    #[test]
    fn calls_of_the_front_end_are_counted_by_code() {
        let text = r#"
apiserver_admission_webhook_request_total{code="200",name="mutate.kube-admission-proxy.dev",operation="CREATE",rejected="false",type="admit"} 3
apiserver_admission_webhook_request_total{code="200",name="validate.kube-admission-proxy.dev",operation="UPDATE",rejected="true",type="validating"} 2
apiserver_admission_webhook_request_total{code="0",name="mutate.kube-admission-proxy.dev",operation="CREATE",rejected="true",type="admit"} 4
apiserver_admission_webhook_request_total{code="200",name="other.example.com",operation="CREATE",rejected="false",type="admit"} 7
"#;
        let mut found = BTreeMap::new();
        text.lines().for_each(|line| count(line.as_bytes(), &mut found));
        assert_eq!(found, BTreeMap::from([(0, 4), (200, 5)]));
        for (calls, outcome) in [
            (&[][..], Outcome::Warning),
            (&[(200, 1)], Outcome::Ok),
            (&[(0, 2)], Outcome::Failure),
            (&[(0, 2), (200, 1)], Outcome::Warning),
        ] {
            assert_eq!(judge(&calls.iter().copied().collect()).outcome, outcome, "{calls:?}");
        }
    }

    #[test]
    fn a_webhook_needs_a_bundle_and_a_strict_policy() {
        let outcome =
            |webhook: Value| of_configured("w", &webhook).iter().map(|finding| finding.outcome).collect::<Vec<_>>();
        let service = json!({"service": {"name": "n"}, "caBundle": "eA=="});
        assert_eq!(outcome(json!({"clientConfig": service, "failurePolicy": "Fail"})), [Outcome::Ok]);
        assert_eq!(outcome(json!({"clientConfig": service, "failurePolicy": "Ignore"})), [Outcome::Warning]);
        assert_eq!(outcome(json!({"clientConfig": {"service": {"name": "n"}}})), [Outcome::Failure]);
        assert_eq!(outcome(json!({"clientConfig": {"url": "https://x"}})), [Outcome::Ok]);
    }

    #[test]
    fn an_open_network_is_told() {
        let policy = |spec: Value| json!({"metadata": {"name": "p"}, "spec": spec});
        for (policies, is_told) in [
            (vec![], true),
            (vec![policy(json!({"policyTypes": ["Egress"]}))], true),
            (vec![policy(json!({"ingress": [{"ports": []}]}))], true),
            (vec![policy(json!({"ingress": [{"from": []}]}))], true),
            (vec![policy(json!({"ingress": []}))], false),
            (vec![policy(json!({"policyTypes": ["Ingress"], "ingress": [{"from": [{"ipBlock": {}}]}]}))], false),
        ] {
            assert_eq!(is_open(&policies).is_some(), is_told, "{policies:?}");
        }
    }
}
