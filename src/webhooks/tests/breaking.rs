//! The effect of circuit breakers on hooks and their callers.

use super::*;
use crate::backend::testing::{HookServer, Reply};

fn limits(failures: usize) -> Limits {
    let probe_interval = Duration::from_millis(200);
    Limits { webhook_breaker_failures: failures, webhook_breaker_probe_interval: probe_interval, ..Limits::default() }
}

fn world(limits: &Limits, hooks: &[Value]) -> World<ValidatingWebhooks> {
    let (registry, metrics) = metrics();
    let state = FixedState { validating_webhooks: vec![configuration(hooks)], ..default_state() };
    let (cluster, users) = (Cluster::fixed(state), Kubeconfig::default());
    World {
        plugin: ValidatingWebhooks::new(cluster, discovery(), metrics, limits, users, Manifests::default()),
        registry,
    }
}

async fn heard(world: &World<ValidatingWebhooks>) -> Result<(), String> {
    let attributes = create(configmap());
    let result = world.plugin.validate(&attributes).await;
    if result.is_ok() {
        return Ok(());
    }
    Err(failed_calling(&refused(result, &attributes), "w.lab.dev"))
}

#[tokio::test]
async fn a_hook_that_gives_no_answers_is_left_alone_for_a_while() {
    let url = "https://127.0.0.1:1/x";
    let world = world(&limits(2), &[hook("w.lab.dev", url, None, json!({}))]);
    let refused = "failed to call webhook: Post \"https://127.0.0.1:1/x?timeout=10s\": dial tcp 127.0.0.1:1: connect: connection refused";
    for _ in 0..2 {
        assert_eq!(heard(&world).await, Err(refused.into()));
    }
    let last = refused.strip_prefix("failed to call webhook: ").unwrap();
    let open = format!(
        "failed to call webhook: the circuit breaker is open: 2 calls in a row got no answer, the last: {last}"
    );
    assert_eq!(heard(&world).await, Err(open));
    for line in [
        r#"kube_admission_proxy_webhook_circuit_breaker_open{endpoint="https://127.0.0.1:1/x",type="validating"} 1"#,
        r#"kube_admission_proxy_webhook_circuit_breaker_rejected_calls_total{endpoint="https://127.0.0.1:1/x",type="validating"} 1"#,
        r#"apiserver_admission_webhook_request_total{code="503",name="w.lab.dev",operation="CREATE",rejected="true",type="validating"} 3"#,
    ] {
        assert!(world.metric(line), "{line}");
    }
}

#[tokio::test]
async fn the_failure_policy_decides_for_an_open_breaker() {
    let ignoring = hook("w.lab.dev", "https://127.0.0.1:1/x", None, json!({"failurePolicy": "Ignore"}));
    let world = world(&limits(1), &[ignoring]);
    for _ in 0..3 {
        assert_eq!(heard(&world).await, Ok(()));
    }
    assert!(world.metric(r#"apiserver_admission_webhook_fail_open_count{name="w.lab.dev",type="validating"} 3"#));
    assert!(world.metric(r#"kube_admission_proxy_webhook_circuit_breaker_rejected_calls_total{endpoint="https://127.0.0.1:1/x",type="validating"} 2"#));
}

#[tokio::test]
async fn one_answer_closes_a_breaker() {
    let server =
        HookServer::start(&[("x", Reply::InTurn(vec![Reply::Reset, Reply::Reset, Reply::Response(json!({}))]))]).await;
    let world = world(&limits(2), &[at(&server, "w.lab.dev", "/x", json!({}))]);
    for _ in 0..2 {
        assert!(heard(&world).await.is_err());
    }
    let closed = async {
        while heard(&world).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), closed).await.unwrap();
    assert_eq!(server.paths().len(), 3);
    assert_eq!(heard(&world).await, Ok(()));
}

#[tokio::test]
async fn error_answers_and_requests_with_a_short_deadline_do_not_open_a_breaker() {
    let server = HookServer::start(&[("e", Reply::Http(500, "text/plain", Vec::new())), ("hang", Reply::Hang)]).await;
    let erring = world(&limits(1), &[at(&server, "w.lab.dev", "/e", json!({}))]);
    for _ in 0..3 {
        assert!(heard(&erring).await.unwrap_err().contains("an error on the server"));
    }
    let hung = world(&limits(1), &[at(&server, "w.lab.dev", "/hang", json!({}))]);
    for _ in 0..3 {
        let mut attributes = create(configmap());
        attributes.context.deadline = Instant::now() + Duration::from_millis(200);
        let status = refused(hung.plugin.validate(&attributes).await, &attributes);
        assert!(!status.message.contains("circuit breaker"), "{}", status.message);
    }
}
