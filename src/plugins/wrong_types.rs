//! No plugin panics for any values of an object.

use super::pod_security_policy::PodSecurityPolicy;
use super::{ALL, checker};
use crate::admission::metrics::Metrics;
use crate::admission::{Operation, PluginEnvironment, Resources, Spec};
use crate::cluster::discovery::Discovery;
use crate::cluster::{Cluster, FixedState, INJECT_LABEL, Namespace};
use crate::config::{OWN_API_VERSION, PluginConfiguration};
use crate::metrics::Registry;
use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::{LimitRange, Node, ResourceQuota};
use k8s_openapi::api::storage::v1::StorageClass;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use tokio::runtime::Builder;

/// Random objects of every built-in kind, with a value in every field.
static OBJECTS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let recorded = include_bytes!("../../crates/kubernetes-object/src/protobuf/objects.gz");
    let mut text = String::new();
    GzDecoder::new(&recorded[..]).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line.split_once(' ').unwrap().1).unwrap()).collect()
});

/// The configuration of a plugin that does not run without one. `folder` receives the files that the configuration names.
fn configuration(plugin: &str, folder: &Path) -> Option<PluginConfiguration> {
    let value = match plugin {
        "EventRateLimit" => {
            let limits = ["Server", "Namespace", "User", "SourceAndObject"]
                .map(|limit| json!({"type": limit, "qps": 1000, "burst": 1000}));
            json!({"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration", "limits": limits})
        }
        "ImagePolicyWebhook" => {
            let file = folder.join("kubeconfig");
            // No server has this port.
            let cluster = json!({"name": "a", "cluster": {"server": "https://127.0.0.1:1/"}});
            let context = json!({"name": "a", "context": {"cluster": "a", "user": ""}});
            let kubeconfig = json!({"clusters": [cluster], "contexts": [context], "current-context": "a"});
            fs::write(&file, kubeconfig.to_string()).unwrap();
            json!({"imagePolicy": {"kubeConfigFile": file, "retryBackoff": 1, "defaultAllow": true}})
        }
        "InClusterClients" => {
            json!({"apiVersion": OWN_API_VERSION, "kind": "InClusterClientsConfiguration", "host": "proxy",
                "certificateAuthority": "ca.crt"})
        }
        _ => return None,
    };
    Some(PluginConfiguration { origin: "test".to_owned(), directory: folder.to_owned(), value })
}

/// The group, resource and subresource of requests that a plugin handles.
fn resources(spec: &Spec) -> Vec<(&'static str, &'static str, &'static str)> {
    match spec.resources {
        Resources::Only(list) => {
            let both = |subresource| if subresource == "*" { vec!["", "status"] } else { vec![subresource] };
            list.iter()
                .flat_map(|&(group, resource, sub)| both(sub).into_iter().map(move |sub| (group, resource, sub)))
                .collect()
        }
        Resources::All | Resources::Namespaced => {
            vec![("", "pods", ""), ("", "pods", "resize"), ("", "namespaces", ""), ("apps", "deployments", "")]
        }
    }
}

/// Recorded objects of the kind of a resource, or else pods.
fn objects(resource: &str) -> Vec<&'static Value> {
    let is_of = |object: &&Value, resource: &str| {
        let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
        [format!("{kind}s"), format!("{kind}es"), kind.trim_end_matches('y').to_owned() + "ies"]
            .contains(&resource.to_owned())
    };
    let of = |resource: &str| OBJECTS.iter().filter(|object| is_of(object, resource)).collect::<Vec<_>>();
    let found = of(resource);
    if found.is_empty() { of("pods") } else { found }
}

fn pointers(at: &str, value: &Value, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                pointers(&format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), value, found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                pointers(&format!("{at}/{index}"), value, found);
            }
        }
        _ => {}
    }
}

fn wrong() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(""),
        json!("x"),
        json!("1e99999"),
        json!("-/:=\u{0}\u{fffd}"),
        json!([]),
        json!([null]),
        json!([[], {}, 1, "a"]),
        json!({}),
        json!({"": null}),
        json!({"cpu": {}, "name": [], "limits": 1, "matchLabels": []}),
    ])
}

/// An object in which some values are replaced, the metadata's name and namespace excepted.
fn changed(object: &Value, changes: &[(Index, Value)]) -> Value {
    let mut object = object.clone();
    for (index, value) in changes {
        let mut found = Vec::new();
        pointers("", &object, &mut found);
        found.retain(|pointer| !["", "/metadata"].contains(&&**pointer));
        *object.pointer_mut(index.get::<String>(&found)).unwrap() = value.clone();
    }
    object["metadata"]["name"] = "a".into();
    object["metadata"]["namespace"] = "default".into();
    object
}

fn cluster() -> Arc<Cluster> {
    let of = |spec: Value| json!({"metadata": {"name": "a", "namespace": "default"}, "spec": spec});
    let limit = json!({"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "2"}});
    let hard = json!({"pods": "5", "requests.cpu": "3", "count/deployments.apps": "1", "services": "1", "requests.storage": "1Gi"});
    let texts = |texts: &[(&str, &str)]| texts.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let namespace = Namespace {
        name: "default".into(),
        labels: texts(&[("pod-security.kubernetes.io/enforce", "restricted"), (INJECT_LABEL, "true")]),
        annotations: texts(&[("scheduler.alpha.kubernetes.io/node-selector", "a=b")]),
        ..Namespace::default()
    };
    let state = FixedState { namespaces: vec![namespace], ..FixedState::default() };
    let state = state.with::<LimitRange>(vec![serde_json::from_value(of(json!({ "limits": [limit] }))).unwrap()]);
    let state = state.with::<ResourceQuota>(vec![serde_json::from_value(of(json!({ "hard": hard }))).unwrap()]);
    let state = state.with::<Node>(vec![serde_json::from_value(of(json!({}))).unwrap()]);
    let state = state.cached::<PodSecurityPolicy>(vec![serde_json::from_value(of(pod_security_policy())).unwrap()]);
    let class = json!({"metadata": {"name": "a", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p"});
    Cluster::fixed(state.with::<StorageClass>(vec![serde_json::from_value(class).unwrap()]))
}

/// The spec of a policy with a rule of every kind.
fn pod_security_policy() -> Value {
    let ids = json!({"rule": "MustRunAs", "ranges": [{"min": 1, "max": 5}]});
    json!({
        "runAsUser": ids, "runAsGroup": ids, "supplementalGroups": ids, "fsGroup": ids,
        "seLinux": {"rule": "MustRunAs", "seLinuxOptions": {"level": "s0:c1"}},
        "volumes": ["secret", "hostPath"], "allowedHostPaths": [{"pathPrefix": "/a", "readOnly": true}],
        "defaultAddCapabilities": ["A"], "requiredDropCapabilities": ["B"], "readOnlyRootFilesystem": true,
        "allowPrivilegeEscalation": false, "runtimeClass": {"allowedRuntimeClassNames": ["a"], "defaultRuntimeClassName": "a"},
    })
}

#[test]
fn no_plugin_panics_for_values_of_wrong_types() {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let _entered = runtime.enter();
    let metrics = Arc::new(Metrics::new(&Registry::new()).unwrap());
    let (cluster, folder) = (cluster(), tempfile::tempdir().unwrap());
    for spec in ALL {
        let configuration = configuration(spec.name, folder.path());
        let environment = PluginEnvironment::with_defaults(cluster.clone(), Discovery::unconnected(), metrics.clone());
        let built = (spec.build)(&PluginEnvironment { configuration: configuration.as_ref(), ..environment });
        let plugin = built.unwrap_or_else(|why| panic!("{}: {why}", spec.name));
        let resources = resources(spec);
        let operations = [Operation::Create, Operation::Update, Operation::Delete];
        let case = (
            (prop::sample::select(resources), prop::sample::select(operations.to_vec()), any::<Index>()),
            prop::collection::vec((any::<Index>(), wrong()), 1..8),
            prop::collection::vec((any::<Index>(), wrong()), 0..4),
        );
        let mut runner =
            proptest::test_runner::TestRunner::new(ProptestConfig { cases: 200, ..ProptestConfig::default() });
        let checked = runner.run(&case, |(((group, resource, subresource), operation, of), new, old)| {
            let object = *of.get(&objects(resource));
            let new = (operation != Operation::Delete).then(|| changed(object, &new));
            let old = (operation != Operation::Create).then(|| changed(object, &old));
            let mut attributes = checker::attributes(operation, group, resource, new, old);
            attributes.subresource = subresource.to_owned();
            runtime.block_on(async {
                if spec.phases.mutate() {
                    drop(plugin.admit(&mut attributes).await);
                }
                if spec.phases.validate() {
                    drop(plugin.validate(&attributes).await);
                }
            });
            Ok(())
        });
        checked.unwrap_or_else(|why| panic!("{}: {why}", spec.name));
    }
}
