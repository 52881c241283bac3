//! The conversions from versioned to internal types that are not field by field (`conversion.go` of each version).

use crate::webhooks::v1alpha1::types::Structure;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// Annotations of pods that the conversion drops (`dropInitContainerAnnotations`).
const INIT_CONTAINERS: [&str; 4] = [
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];
/// The annotation of a Deployment of apps/v1beta2 that is a field in older versions.
const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
/// The annotation of a DaemonSet of apps/v1beta2 that is a field in older versions.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
/// The annotations of a HorizontalPodAutoscaler of autoscaling/v1 that are fields of the internal object.
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// `DefaultCPUUtilization`
const DEFAULT_CPU_UTILIZATION: u8 = 80;
/// The lists that the conversion from extensions/v1beta1 makes if they are missing.
const NEVER_NIL: [(&str, &[&str]); 4] = [
    ("networking.NetworkPolicySpec", &["ingress", "egress"]),
    ("networking.NetworkPolicyIngressRule", &["ports"]),
    ("networking.NetworkPolicyEgressRule", &["ports", "to"]),
    ("networking.IPBlock", &["except"]),
];

/// Values that replace those of the versioned struct.
#[derive(Default)]
pub(super) struct Special(Vec<(&'static str, Value)>);

impl Special {
    /// Returns the values that the conversion of this struct makes.
    pub(super) fn of(structure: &Structure, source: Option<&Map<String, Value>>) -> Self {
        let nothing = Map::new();
        let source = source.unwrap_or(&nothing);
        Self(match (structure.name, structure.version) {
            ("core.Pod" | "core.PodTemplateSpec", _) => without(source, &INIT_CONTAINERS),
            ("core.PodSpec", _) => pod_spec(source),
            ("core.Secret", _) => secret_data(source),
            // `SetDefaults_ConfigMap`
            ("core.ConfigMap", _) => missing(source, "data", json!({})),
            ("extensions.Deployment", "apps/v1beta2") => {
                moved(source, ROLLBACK_TO, "RollbackTo", |revision| json!({ "Revision": revision }))
            }
            ("extensions.DaemonSet", "apps/v1beta2") => {
                moved(source, TEMPLATE_GENERATION, "TemplateGeneration", Value::from)
            }
            ("extensions.ScaleStatus", _) => selector(source),
            ("autoscaling.HorizontalPodAutoscaler", "autoscaling/v1") => autoscaler(source),
            ("rbac.Subject", "rbac/v1alpha1") => subject(source),
            (name, "extensions/v1beta1") => {
                let lists = NEVER_NIL.iter().filter(|(of, _)| *of == name).flat_map(|(_, lists)| *lists);
                lists.flat_map(|list| missing(source, list, json!([]))).collect()
            }
            _ => Vec::new(),
        })
    }

    /// Returns the value that replaces a field.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(of, _)| *of == name).map(|(_, value)| value)
    }
}

/// The values of a struct.
type Values = Vec<(&'static str, Value)>;

fn missing(source: &Map<String, Value>, name: &'static str, value: Value) -> Values {
    match source.get(name) {
        None | Some(Value::Null) => vec![(name, value)],
        Some(_) => Vec::new(),
    }
}

fn text<'a>(source: &'a Map<String, Value>, name: &str) -> &'a str {
    source.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The field as an object; empty if it is none.
fn fields(source: &Map<String, Value>, name: &str) -> Map<String, Value> {
    source.get(name).and_then(Value::as_object).cloned().unwrap_or_default()
}

fn annotation<'a>(source: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    source.get("metadata")?.get("annotations")?.get(name)?.as_str()
}

/// Removes annotations from the metadata.
fn without(source: &Map<String, Value>, annotations: &[&str]) -> Values {
    if annotations.iter().all(|name| annotation(source, name).is_none()) {
        return Vec::new();
    }
    let mut metadata = fields(source, "metadata");
    if let Some(Value::Object(present)) = metadata.get_mut("annotations") {
        present.retain(|name, _| !annotations.contains(&&**name));
    }
    vec![("metadata", metadata.into())]
}

/// `Convert_v1_PodSpec_To_api_PodSpec`
fn pod_spec(source: &Map<String, Value>) -> Values {
    let mut context = fields(source, "securityContext");
    for (name, internal) in [("hostNetwork", "HostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        context.insert(internal.into(), source.get(name).cloned().unwrap_or_default());
    }
    let mut values = vec![("securityContext", context.into())];
    if text(source, "serviceAccountName").is_empty() {
        values.push(("serviceAccountName", text(source, "serviceAccount").into()));
    }
    values
}

/// `Convert_v1_Secret_To_api_Secret`
fn secret_data(source: &Map<String, Value>) -> Values {
    let texts = fields(source, "stringData");
    if texts.is_empty() {
        return Vec::new();
    }
    let mut data = fields(source, "data");
    let texts = texts.into_iter().map(|(name, text)| (name, STANDARD.encode(text.as_str().unwrap_or_default()).into()));
    data.extend(texts);
    vec![("data", data.into())]
}

/// Moves a number from an annotation into a field of the spec (`Convert_v1beta2_Deployment_To_extensions_Deployment`).
fn moved(source: &Map<String, Value>, from: &'static str, to: &str, form: fn(i64) -> Value) -> Values {
    let Some(number) = annotation(source, from).and_then(|number| number.parse().ok()) else { return Vec::new() };
    let mut spec = fields(source, "spec");
    spec.insert(to.into(), form(number));
    let mut values = without(source, &[from]);
    values.push(("spec", spec.into()));
    values
}

/// `Convert_v1beta1_ScaleStatus_To_extensions_ScaleStatus`. A selector with expressions, which is only in `targetSelector`, is not read.
fn selector(source: &Map<String, Value>) -> Values {
    let labels = source.get("selector").filter(|labels| labels.is_object());
    labels.map(|labels| ("selector", json!({ "matchLabels": labels }))).into_iter().collect()
}

/// `Convert_v1alpha1_Subject_To_rbac_Subject`
fn subject(source: &Map<String, Value>) -> Values {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let (kind, name) = (text(source, "kind"), text(source, "name"));
    let group = match kind {
        "ServiceAccount" => "",
        "User" | "Group" => GROUP,
        _ => text(source, "apiVersion").split_once('/').map_or("", |(group, _)| group),
    };
    let mut values: Values = vec![("APIGroup", group.into())];
    if (kind, name) == ("User", "*") {
        values.extend([("kind", "Group".into()), ("name", "system:authenticated".into())]);
    }
    values
}

/// `Convert_v1_HorizontalPodAutoscaler_To_autoscaling_HorizontalPodAutoscaler`
fn autoscaler(source: &Map<String, Value>) -> Values {
    let list = |name| annotation(source, name).and_then(|text| serde_json::from_str::<Vec<Value>>(text).ok());
    let cpu =
        |field: &str, percentage: &Value| json!({"type": "Resource", "resource": {"name": "cpu", field: percentage}});
    let (mut spec, mut status) = (fields(source, "spec"), fields(source, "status"));
    let mut metrics = list(METRICS).unwrap_or_default();
    let target = spec.get("targetCPUUtilizationPercentage").filter(|target| !target.is_null());
    metrics.extend(target.map(|target| cpu("targetAverageUtilization", target)));
    if metrics.is_empty() {
        metrics.push(cpu("targetAverageUtilization", &DEFAULT_CPU_UTILIZATION.into()));
    }
    spec.insert("Metrics".into(), metrics.into());
    let current = status.get("currentCPUUtilizationPercentage").filter(|current| !current.is_null());
    let current = current.map(|current| vec![cpu("currentAverageUtilization", current)]);
    if let Some(current) = list(CURRENT_METRICS).or(current) {
        status.insert("CurrentMetrics".into(), current.into());
    }
    if let Some(conditions) = list(CONDITIONS) {
        status.insert("Conditions".into(), conditions.into());
    }
    let mut values = without(source, &[METRICS, CURRENT_METRICS, CONDITIONS]);
    values.extend([("spec", spec.into()), ("status", status.into())]);
    values
}
