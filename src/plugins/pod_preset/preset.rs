//! The cached fields of a PodPreset.

use crate::cluster::{Need, Projection, RemovedKind};
use crate::kind::GroupVersionKind;
use crate::object::normal::{self, NormalError};
use crate::object::selector::{InvalidSelector, LabelSelector};
use crate::removed::{Api, POD_PRESETS};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use serde::Deserialize;
use serde_json::{Value, json};

/// A PodPreset. The lists are in the form that they have in a pod of admission, so that equal items are equal values.
#[derive(Debug, PartialEq)]
pub(super) struct Preset {
    pub(super) name: Box<str>,
    pub(super) resource_version: Box<str>,
    pub(super) selector: Result<LabelSelector, UnusableSelector>,
    pub(super) env: Vec<Value>,
    pub(super) env_from: Vec<Value>,
    pub(super) volumes: Vec<Value>,
    pub(super) volume_mounts: Vec<Value>,
}

/// The reason why a selector cannot be used, with the selector as Go prints it.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{selector} for selector: {why}")]
pub(super) struct UnusableSelector {
    selector: String,
    why: InvalidSelector,
}

/// A decoded PodPreset.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Written")]
pub(super) struct Decoded {
    namespace: String,
    preset: Preset,
}

/// A PodPreset as the API server writes it.
#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    metadata: Metadata,
    spec: Option<Spec>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    namespace: String,
    name: String,
    resource_version: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    selector: Option<meta::LabelSelector>,
    env: Value,
    env_from: Value,
    volumes: Value,
    volume_mounts: Value,
}

/// The reason why the lists of a PodPreset are no lists of a pod.
#[derive(Debug, thiserror::Error)]
enum NoPod {
    /// The table of types lacks pods.
    #[error("pods have no type")]
    NoType,
    /// A pod with the lists has no normal form.
    #[error(transparent)]
    NoForm(#[from] NormalError),
}

impl TryFrom<Written> for Decoded {
    type Error = NoPod;

    fn try_from(written: Written) -> Result<Self, NoPod> {
        let Metadata { namespace, name, resource_version } = written.metadata;
        let Spec { selector, env, env_from, volumes, volume_mounts } = written.spec.unwrap_or_default();
        let selector = selector.unwrap_or_default();
        let converted = LabelSelector::from_api(Some(&selector));
        let selector = converted.map_err(|why| UnusableSelector { selector: go_print(&selector), why });
        // The API server gives the lists of a PodPreset the defaults that they have in a pod.
        let container = json!({"env": env, "envFrom": env_from, "volumeMounts": volume_mounts});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"volumes": volumes, "containers": [container]}});
        let pod = normal::built_in(&GroupVersionKind::new("", "v1", "Pod"), pod).ok_or(NoPod::NoType)??.object;
        let container = pod.items(&["spec", "containers"]).first().unwrap_or(&Value::Null);
        let list = |field: &str| container.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
        let preset = Preset {
            name: name.into(),
            resource_version: resource_version.into(),
            selector,
            env: list("env"),
            env_from: list("envFrom"),
            volumes: pod.items(&["spec", "volumes"]).to_vec(),
            volume_mounts: list("volumeMounts"),
        };
        Ok(Self { namespace, preset })
    }
}

/// The selector as Go's `%v` prints it.
fn go_print(selector: &meta::LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}:{value}"));
    let expressions = selector.match_expressions.iter().flatten().map(|expression| {
        let values = expression.values.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" ");
        format!("{{{} {} [{values}]}}", expression.key, expression.operator)
    });
    let (labels, expressions): (Vec<_>, Vec<_>) = (labels.collect(), expressions.collect());
    format!("{{map[{}] [{}]}}", labels.join(" "), expressions.join(" "))
}

impl Projection for Preset {
    const NEED: Need = Need::removed::<Self>("PodPresets");
    const FIELDS: &'static [&'static str] =
        &["metadata.name", "metadata.namespace", "metadata.resourceVersion", "spec"];
    type Object = Decoded;

    fn project(Decoded { namespace, preset }: Decoded) -> (String, Self) {
        (format!("{namespace}/{}", preset.name), preset)
    }
}

impl RemovedKind for Preset {
    const API: &'static Api = &POD_PRESETS;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(spec: Value) -> Result<Preset, serde_json::Error> {
        let metadata = json!({"name": "p", "namespace": "n", "resourceVersion": "7"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).map(|decoded| Preset::project(decoded).1)
    }

    #[test]
    fn lists_have_the_defaults_of_a_pod() {
        let preset = decoded(json!({
            "env": [{"name": "A", "value": ""}, {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "envFrom": [{"secretRef": {"name": "s"}, "unknown": 1}],
            "volumes": [{"name": "e"}, {"name": "s", "secret": {"secretName": "s"}}],
            "volumeMounts": [{"name": "e", "mountPath": "/e", "readOnly": false}],
        }));
        let preset = preset.unwrap();
        let field = json!({"apiVersion": "v1", "fieldPath": "metadata.name"});
        assert_eq!(preset.env, [json!({"name": "A"}), json!({"name": "N", "valueFrom": {"fieldRef": field}})]);
        assert_eq!(preset.env_from, [json!({"secretRef": {"name": "s"}})]);
        let secret = json!({"secretName": "s", "defaultMode": 420});
        assert_eq!(preset.volumes, [json!({"name": "e", "emptyDir": {}}), json!({"name": "s", "secret": secret})]);
        assert_eq!(preset.volume_mounts, [json!({"name": "e", "mountPath": "/e"})]);
        assert_eq!((&*preset.name, &*preset.resource_version), ("p", "7"));
    }

    #[test]
    fn a_preset_without_a_selector_selects_all_pods() {
        for spec in [json!({}), json!({"selector": {}}), json!({"selector": null}), Value::Null] {
            assert!(decoded(spec).unwrap().selector.unwrap().is_empty());
        }
    }

    #[test]
    fn lists_of_wrong_types_cannot_be_decoded() {
        for spec in [json!({"env": "text"}), json!({"env": [{"name": 1}]}), json!({"selector": []})] {
            assert!(decoded(spec.clone()).is_err(), "{spec}");
        }
    }
}
