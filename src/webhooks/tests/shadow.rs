//! Hooks that are called but decide nothing, and the time that all hooks may take together.

use super::*;
use crate::admission::shadow::{HOOKS, ShadowNames};
use crate::backend::testing::{HookServer, Reply, patch};
use crate::manifests::Source;

/// The reports in the audit annotations of shadow hooks, by the end of their keys.
fn reports(attributes: &Attributes) -> Vec<(String, Value)> {
    let annotations = attributes.annotations.take().into_iter();
    let of_shadows = annotations.filter_map(|(key, value, _)| {
        let (phase, name) = key.split_once(".shadow.kube-admission-proxy.dev/")?;
        Some((format!("{phase} {name}"), serde_json::from_str(&value).unwrap()))
    });
    of_shadows.collect()
}

fn shadowed<T: serde::de::DeserializeOwned>(names: &str, hooks: &[Value]) -> T {
    let metadata = json!({"name": "c", "annotations": {HOOKS: names}});
    serde_json::from_value(json!({"metadata": metadata, "webhooks": hooks})).unwrap()
}

#[tokio::test]
async fn a_mutating_shadow_changes_nothing_and_is_reported() {
    let secret = patch(&json!([
        {"op": "test", "path": "/kind", "value": "ConfigMap"},
        {"op": "add", "path": "/data", "value": {"password": "very secret"}}
    ]));
    let misfit = patch(&json!([{"op": "remove", "path": "/not/there"}]));
    let replies = [
        ("secret", Reply::Response(secret)),
        ("misfit", Reply::Response(misfit)),
        ("broken", Reply::Reset),
        ("broken/too", Reply::Reset),
    ];
    let server = HookServer::start(&replies).await;
    let hooks = [
        at(&server, "a.lab.dev", "/deny", json!({"failurePolicy": "Ignore"})),
        at(&server, "b.lab.dev", "/secret", json!({})),
        at(&server, "c.lab.dev", "/label/real/1", json!({})),
        at(&server, "d.lab.dev", "/broken", json!({"failurePolicy": "Ignore"})),
        at(&server, "e.lab.dev", "/broken/too", json!({"failurePolicy": "Fail"})),
        at(&server, "f.lab.dev", "/misfit", json!({})),
        at(&server, "h.lab.dev", "/warn", json!({})),
    ];
    let names = "a.lab.dev, b.lab.dev,d.lab.dev,e.lab.dev,f.lab.dev,h.lab.dev";
    let world = mutating_in(FixedState { mutating_webhooks: vec![shadowed(names, &hooks)], ..default_state() });
    let mut attributes = create(configmap());
    world.plugin.admit(&mut attributes).await.unwrap();
    let object = attributes.object.take().unwrap().into_value();
    assert_eq!((&object["metadata"]["labels"], &object["data"]), (&json!({"real": "1"}), &Value::Null));
    assert!(attributes.context.warnings.header_values().is_empty());
    assert_eq!(server.paths().len(), 7);

    let reports = reports(&attributes);
    let decisions: Vec<_> =
        reports.iter().map(|(key, report)| (key.as_str(), report["decision"].as_str().unwrap())).collect();
    let wanted = [
        ("mutation webhook_index_0", "denied"),
        ("mutation webhook_index_1", "changed"),
        ("mutation webhook_index_3", "failed-open"),
        ("mutation webhook_index_4", "failed-closed"),
        ("mutation webhook_index_5", "failed-closed"),
    ];
    assert_eq!(decisions[..5], wanted);
    assert_eq!(decisions.last(), Some(&("mutation webhook_index_6", "allowed")));
    let denied = "admission webhook \"a.lab.dev\" denied the request: denied by the lab";
    assert_eq!((&reports[0].1["code"], &reports[0].1["message"]), (&json!(400), &json!(denied)));
    assert_eq!(reports[1].1["paths"], json!(["/data"]));
    assert!(reports[1].1["patchBytes"].as_u64().unwrap() > 20);
    assert!(!reports.iter().any(|(_, report)| report.to_string().contains("secret\"")), "{reports:?}");
    assert!(world.metric(
        r#"admission_proxy_shadow_decisions_total{decision="denied",kind="webhook",name="a.lab.dev",operation="CREATE",type="admit"} 1"#
    ));
    // A rejection that a shadow hook only reported is not in kube-apiserver's metrics.
    let text = TextEncoder::new().encode_to_string(&world.registry.gather()).unwrap();
    assert!(!text.contains(r#"apiserver_admission_webhook_rejection_count{"#), "{text}");
}

#[tokio::test]
async fn validating_shadows_are_named_on_the_command_line_as_well() {
    let server = HookServer::start(&[]).await;
    let hooks = [at(&server, "a.lab.dev", "/deny", json!({})), at(&server, "b.lab.dev", "/deny/too", json!({}))];
    let world = validating(&hooks);
    let plugin = world.plugin.with_shadows(ShadowNames::new(vec!["c/a.lab.dev".into()]));
    let attributes = create(configmap());
    let status = refused(plugin.validate(&attributes).await, &attributes);
    assert_eq!(status.message, "admission webhook \"b.lab.dev\" denied the request: denied by the lab");
    assert_eq!(reports(&attributes)[0].0, "validation webhook_index_0");

    let plugin = validating(&hooks).plugin.with_shadows(ShadowNames::new(vec!["c".into()]));
    let attributes = create(configmap());
    plugin.validate(&attributes).await.unwrap();
    assert_eq!(reports(&attributes).len(), 2);
}

#[tokio::test]
async fn annotations_are_obeyed_unless_the_command_line_forbids_it_and_are_counted() {
    let server = HookServer::start(&[]).await;
    let hooks = [at(&server, "a.lab.dev", "/deny", json!({}))];
    let gauge = |count| format!(r#"admission_proxy_shadow_annotations{{kind="webhook",type="admit"}} {count}"#);
    for (are_obeyed, count) in [(true, 1), (false, 0)] {
        let state = FixedState { mutating_webhooks: vec![shadowed("true", &hooks)], ..default_state() };
        let mut world = mutating_in(state);
        world.plugin = world.plugin.with_shadows(ShadowNames::default().with_annotations(are_obeyed));
        assert_eq!(world.plugin.admit(&mut create(configmap())).await.is_ok(), are_obeyed);
        assert!(world.metric(&gauge(count)));
    }
}

#[tokio::test]
async fn a_shadow_runs_beside_the_others_and_takes_no_longer_than_its_timeout() {
    let barrier = Arc::new(tokio::sync::Barrier::new(3));
    let together = ["together/a", "together/c", "together/d"].map(|name| (name, Reply::Together(barrier.clone())));
    let [a, c, d] = together;
    let server = HookServer::start(&[("hang", Reply::Hang), a, c, d]).await;
    let hooks = [
        at(&server, "a.lab.dev", "/together/a", json!({})),
        at(&server, "b.lab.dev", "/hang", json!({"timeoutSeconds": 1})),
        at(&server, "c.lab.dev", "/together/c", json!({})),
        at(&server, "d.lab.dev", "/together/d", json!({})),
    ];
    let configuration = shadowed("a.lab.dev,b.lab.dev,c.lab.dev", &hooks);
    let world = mutating_in(FixedState { mutating_webhooks: vec![configuration], ..default_state() });
    let mut attributes = create(configmap());
    world.plugin.admit(&mut attributes).await.unwrap();
    let decisions: Vec<_> = reports(&attributes).into_iter().map(|(_, report)| report["decision"].clone()).collect();
    assert_eq!(decisions, ["allowed", "failed-closed", "allowed"]);
}

#[tokio::test]
async fn slow_hooks_that_may_fail_do_not_add_up_past_the_admission_timeout() {
    let names = ["hang/0", "hang/1", "hang/2", "hang/3"];
    let server = HookServer::start(&names.map(|name| (name, Reply::Hang))).await;
    let slow = json!({"failurePolicy": "Ignore", "timeoutSeconds": 30});
    let hooks = names
        .map(|name| at(&server, &format!("{}.lab.dev", name.replace('/', "-")), &format!("/{name}"), slow.clone()));
    let world = mutating(&hooks);
    let mut attributes = create(configmap());
    attributes.context.budget = Budget::new(Some(Duration::from_millis(500)));
    {
        let _phase = attributes.context.budget.run();
        world.plugin.admit(&mut attributes).await.unwrap();
    }
    assert_eq!(server.seen().len(), 1);
    let open = attributes.annotations.take();
    let open = open.iter().filter(|(key, ..)| key.starts_with("failed-open.mutation.webhook.admission.k8s.io/"));
    assert_eq!(open.count(), 4);

    // The validating phase gets only the rest of the time: a hook with failurePolicy Fail then rejects the request.
    let world = validating(&[at(&server, "w.lab.dev", "/allow", json!({"failurePolicy": "Fail"}))]);
    let _phase = attributes.context.budget.run();
    let status = refused(world.plugin.validate(&attributes).await, &attributes);
    assert_eq!(failed_calling(&status, "w.lab.dev"), "failed to call webhook: context deadline exceeded");
}

#[tokio::test]
async fn hooks_from_files_come_first_and_see_what_configures_admission() {
    let server = HookServer::start(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let everything =
        json!({"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]});
    let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "z.static.k8s.io"}, "webhooks": [at(&server, "file.lab.dev", "/label/file/1", everything.clone())]});
    std::fs::write(folder.path().join("a.yaml"), object.to_string()).unwrap();
    let (_, metrics) = metrics();
    let manifests =
        Source::follow(folder.path().to_owned(), "MutatingAdmissionWebhook", metrics.manifests().clone(), |folder| {
            crate::manifests::webhooks::load::<MutatingWebhookConfiguration>(folder, crate::cel::Release::default())
        });
    let stored =
        configuration::<MutatingWebhookConfiguration>(&[at(&server, "api.lab.dev", "/label/api/1", everything)]);
    let cluster = Cluster::fixed(FixedState { mutating_webhooks: vec![stored], ..default_state() });
    let (limits, users) = (Limits::default(), Kubeconfig::default());
    let plugin = MutatingWebhooks::new(cluster, discovery(), metrics, &limits, users, manifests.unwrap());
    plugin.admit(&mut create(configmap())).await.unwrap();
    assert_eq!(server.paths(), ["/label/file/1", "/label/api/1"]);
    let mut attributes = create(configmap());
    attributes.kind = GroupVersionKind::new("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration");
    let resource = GroupVersionResource::new("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations");
    (attributes.resource, attributes.namespace) = (resource, String::new());
    attributes.object = None;
    // The request has no object to change; the test checks only that the hook was called.
    let _ = plugin.admit(&mut attributes).await;
    assert_eq!(server.paths()[2..], ["/label/file/1"]);
}
