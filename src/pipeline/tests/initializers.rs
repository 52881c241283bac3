//! `metadata.initializers` on the path in front of the embedded API server.

use super::*;
use crate::plugins::initializers::{InitializerConfiguration, SPEC};

/// Builds a path with the plugin, and with two initializers of config maps.
async fn path() -> Path {
    let features = embedded::Settings { initializers: true, ..embedded::Settings::default() };
    let server = embedded::Server::with(Arc::default(), features);
    let initializer = |name: &str| json!({"name": name, "rules": [{"apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"]}]});
    let configuration =
        json!({"metadata": {"name": "c"}, "initializers": [initializer("one.lab.io"), initializer("two.lab.io")]});
    let configuration: InitializerConfiguration = serde_json::from_value(configuration).unwrap();
    let state = FixedState::default().cached::<InitializerConfiguration>(vec![configuration]);
    let mut path = Path::with_plugins(server.clone(), Arc::new(server), &[&WITNESS, &SPEC], state).await;
    path.pipeline.keeps_initializers = true;
    path
}

fn both() -> Value {
    json!({"pending": [{"name": "one.lab.io"}, {"name": "two.lab.io"}]})
}

fn initializers(object: &Value) -> &Value {
    &object["metadata"]["initializers"]
}

/// Creates an uninitialized config map.
async fn created(path: &Path, name: &str) -> Value {
    let (code, created) =
        path.json("POST", &format!("{CONFIG_MAPS}?includeUninitialized=true"), &config_map(name)).await;
    assert_eq!(code, 202, "{created}");
    created
}

#[tokio::test]
async fn a_new_object_gets_its_initializers_and_the_validating_phase_sees_them() {
    let path = path().await;
    assert_eq!(initializers(&created(&path, "i-new").await), &both());
    assert_eq!(initializers(&path.stored(&at("i-new")).await), &both());
    assert_eq!(initializers(&seen("i-new")[0]["object"]), &both());
}

#[tokio::test]
async fn a_create_ends_when_the_object_is_initialized() {
    let path = Arc::new(path().await);
    let (creator, object) = (path.clone(), config_map("i-waits"));
    let create = tokio::spawn(async move { creator.json("POST", CONFIG_MAPS, &object).await });
    while path.stored(&at("i-waits")).await["kind"] == "Status" {
        tokio::task::yield_now().await;
    }
    assert!(!create.is_finished());
    for (media_type, patch) in [
        (
            "strategic-merge-patch",
            json!({"metadata": {"initializers": {"pending": [{"name": "two.lab.io", "$patch": "delete"}]}}}),
        ),
        (
            "json-patch",
            json!([{"op": "test", "path": "/metadata/initializers/pending", "value": [{"name": "one.lab.io"}]}]),
        ),
        ("merge-patch", json!({"metadata": {"initializers": {"pending": []}}, "data": {"done": "yes"}})),
    ] {
        let (code, patched) =
            path.ask("PATCH", &at("i-waits"), &format!("application/{media_type}+json"), patch.to_string()).await;
        assert_eq!(code, 200, "{patched}");
    }
    let (code, created) = create.await.unwrap();
    assert_eq!((code, initializers(&created), &created["data"]["done"]), (201, &Value::Null, &json!("yes")));
}

#[tokio::test]
async fn the_own_initializers_of_a_new_object_are_kept() {
    let path = path().await;
    let query = "includeUninitialized=true&fieldValidation=Strict";
    let mut object = config_map("i-own");
    object["metadata"]["initializers"] = json!({"pending": [{"name": "x.y.z"}]});
    let (code, created) = path.json("POST", &format!("{CONFIG_MAPS}?{query}"), &object).await;
    assert_eq!((code, initializers(&created)), (202, &json!({"pending": [{"name": "x.y.z"}]})));
    object = config_map("i-none");
    object["metadata"]["initializers"] = json!({"pending": []});
    let (code, created) = path.json("POST", CONFIG_MAPS, &object).await;
    assert_eq!((code, initializers(&created)), (201, &Value::Null));
}

#[tokio::test]
async fn an_update_keeps_adds_and_removes_initializers() {
    let path = path().await;
    let mut object = created(&path, "i-put").await;
    let put = async |object: &Value| path.json("PUT", &format!("{}?fieldValidation=Strict", at("i-put")), object).await;
    let added = json!({"pending": [{"name": "two.lab.io"}, {"name": "new.lab.io"}]});
    object["metadata"]["initializers"] = added.clone();
    let (code, mut updated) = put(&object).await;
    assert_eq!((code, initializers(&updated)), (200, &added), "{updated}");
    assert_eq!(initializers(&path.stored(&at("i-put")).await), &added);
    updated["metadata"]["initializers"] = json!({"pending": [{"name": "a.b"}]});
    assert_eq!(put(&updated).await.0, 422);
    updated["metadata"]["initializers"] = Value::Null;
    let (code, updated) = put(&updated).await;
    assert_eq!((code, initializers(&updated)), (200, &Value::Null), "{updated}");
}

#[tokio::test]
async fn a_patch_of_other_fields_keeps_the_initializers() {
    let path = path().await;
    created(&path, "i-patch").await;
    for media_type in ["merge", "strategic-merge"] {
        let patch = json!({"data": {"by": media_type}, "unknown": 1}).to_string();
        let kind = format!("application/{media_type}-patch+json");
        let (code, patched) = path.ask("PATCH", &at("i-patch"), &kind, patch).await;
        assert_eq!((code, initializers(&patched), &patched["unknown"]), (200, &both(), &Value::Null), "{patched}");
    }
    let strict = format!("{}?fieldValidation=Strict", at("i-patch"));
    let patch = json!({"metadata": {"initializers": {"pending": "x"}}}).to_string();
    let (code, refused) = path.ask("PATCH", &strict, "application/merge-patch+json", patch).await;
    assert_eq!(code, 422, "{refused}");
}

#[tokio::test]
async fn an_initialized_object_stays_initialized() {
    let path = path().await;
    created(&path, "i-done").await;
    let patch = async |value: Value| {
        let patch = json!({"metadata": {"initializers": value}}).to_string();
        path.ask("PATCH", &at("i-done"), "application/merge-patch+json", patch).await
    };
    assert_eq!(patch(Value::Null).await.0, 200);
    let (code, refused) = patch(both()).await;
    let message = "ConfigMap \"i-done\" is invalid: metadata.initializers: Invalid value: \"null\": field is immutable once \
        initialization has completed";
    assert_eq!((code, &refused["message"]), (422, &json!(message)));
    assert_eq!(patch(json!({"pending": []})).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn the_api_server_answers_after_the_timeout_of_the_client() {
    let path = path().await;
    for (query, within) in [("", "30s"), ("?timeout=2s", "2s"), ("?dryRun=All&timeout=3s", "3s")] {
        let object = config_map(&format!("i-timeout-{within}"));
        let (code, answer) = path.json("POST", &format!("{CONFIG_MAPS}{query}"), &object).await;
        let message = format!("Timeout: request did not complete within requested timeout {within}");
        assert_eq!((code, &answer["message"]), (504, &json!(message)), "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_of_the_proxy_does_not_wait() {
    let path = path().await;
    let mut object = config_map("i-look");
    object["metadata"]["labels"] = json!({"look": "stored"});
    let (code, answer) = path.json("POST", &format!("{CONFIG_MAPS}?includeUninitialized=1"), &object).await;
    assert_eq!(code, 202, "{answer}");
    assert_eq!(initializers(&seen("i-look")[0]["object"]), &both());
    object["metadata"]["name"] = json!("i-look-dry");
    let started = Instant::now();
    let (code, _) = path.json("POST", &format!("{CONFIG_MAPS}?dryRun=All"), &object).await;
    assert_eq!((code, started.elapsed().as_secs()), (504, 30));
}

#[tokio::test]
async fn a_put_that_creates_does_not_wait() {
    let path = path().await;
    let lease = json!({"metadata": {"name": "l", "initializers": {"pending": [{"name": "x.y.z"}]}}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let (code, created) = path.json("PUT", &format!("{leases}/l"), &lease).await;
    assert_eq!((code, initializers(&created)), (201, &json!({"pending": [{"name": "x.y.z"}]})), "{created}");
}

#[tokio::test]
async fn a_deletecollection_deletes_uninitialized_objects() {
    let path = path().await;
    created(&path, "i-deleted").await;
    let (code, deleted) = path.ask("DELETE", CONFIG_MAPS, "", "").await;
    assert_eq!((code, &deleted["items"][0]["metadata"]["name"]), (200, &json!("i-deleted")));
    assert_eq!(path.stored(&at("i-deleted")).await["reason"], "NotFound");
    assert_eq!(initializers(&seen("i-deleted")[1]["oldObject"]), &both());
}

#[tokio::test]
async fn without_the_plugin_the_field_is_unknown() {
    let path = Path::new().await;
    let mut object = config_map("i-off");
    object["metadata"]["initializers"] = both();
    let (code, refused) = path.json("POST", &format!("{CONFIG_MAPS}?fieldValidation=Strict"), &object).await;
    assert_eq!(code, 400, "{refused}");
    let (code, created) = path.json("POST", CONFIG_MAPS, &object).await;
    assert_eq!((code, initializers(&created)), (201, &Value::Null));
}
