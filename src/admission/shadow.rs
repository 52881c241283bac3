//! Shadow mode: hooks that are called as ever but decide nothing. What they would have decided is counted, logged, and in the
//! audit log. kube-apiserver has nothing of the kind.

use super::Attributes;
use crate::metrics::Registry;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The annotation of a configuration whose hooks are shadows: `true` for all of them, or their names with commas between.
pub const HOOKS: &str = "shadow.kube-admission-proxy.dev/hooks";
/// The annotation of a policy that is a shadow for all its bindings, or of one of these: `true`.
pub const POLICY: &str = "shadow.kube-admission-proxy.dev/policy";

/// The buckets of shadows' calls: those of webhooks.
const LATENCIES: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];
/// How many paths of a patch are named, and how long each may be.
const MAX_PATHS: usize = 32;
const MAX_PATH_CHARACTERS: usize = 256;
/// How much of a message is kept.
const MAX_MESSAGE_CHARACTERS: usize = 1024;

/// The shadows of one kind that the command line names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shadows {
    names: Vec<String>,
    ignores_annotations: bool,
}

impl Shadows {
    /// From names of configurations, and of hooks as `configuration/hook`; or of policies, and of bindings as `policy/binding`.
    pub fn new(names: Vec<String>) -> Self {
        Self { names, ignores_annotations: false }
    }

    /// With annotations of objects in effect or not.
    #[must_use]
    pub fn with_annotations(self, are_obeyed: bool) -> Self {
        Self { ignores_annotations: !are_obeyed, ..self }
    }

    /// Whether annotations of objects make shadows.
    pub fn obey_annotations(&self) -> bool {
        !self.ignores_annotations
    }

    /// Whether a hook of a configuration, or a binding of a policy, is one.
    pub fn contain(&self, configuration: &str, hook: &str) -> bool {
        self.names.iter().any(|named| match named.split_once('/') {
            Some((of, name)) => (of, name) == (configuration, hook),
            None => named == configuration,
        })
    }
}

/// What this annotation of an object says, if it has it.
fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// What a configuration says of its hooks.
pub fn of_hooks(metadata: &ObjectMeta) -> Option<&str> {
    annotation(metadata, HOOKS)
}

/// Whether a policy or a binding says that it is a shadow.
pub fn is_policy(metadata: &ObjectMeta) -> bool {
    annotation(metadata, POLICY).is_some_and(|value| value.trim() == "true")
}

/// Whether a configuration's annotation means this hook.
pub fn is_annotated(hook: &str, annotation: Option<&str>) -> bool {
    annotation.is_some_and(|value| value.trim() == "true" || value.split(',').any(|name| name.trim() == hook))
}

/// What would have become of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// Nothing else.
    Allowed,
    /// It would have been refused.
    Denied,
    /// It would have been changed.
    Changed,
    /// There was no decision, which would have been ignored.
    FailedOpen,
    /// There was no decision, and it would have been refused for that.
    FailedClosed,
}

impl Decision {
    fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Changed => "changed",
            Self::FailedOpen => "failed-open",
            Self::FailedClosed => "failed-closed",
        }
    }
}

/// Who decides in the shadow.
#[derive(Clone, Debug, Serialize)]
pub struct Shadow {
    /// Its configuration, or a policy's binding.
    pub configuration: String,
    /// The webhook's or the policy's name.
    pub name: String,
    /// `webhook` or `policy`.
    #[serde(skip)]
    pub kind: &'static str,
    /// `admit` or `validating`, as other metrics name it.
    #[serde(skip)]
    pub step: &'static str,
    /// Its position among all of its kind.
    #[serde(skip)]
    pub index: usize,
}

/// What it would have decided. There are no values of the object in it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Who.
    #[serde(flatten)]
    pub shadow: Shadow,
    /// What.
    pub decision: Decision,
    /// The code of the refusal; 0 where there is none.
    #[serde(skip_serializing_if = "is_zero")]
    pub code: u16,
    /// Why it would have been refused, or why there is no decision.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The paths that the patch names; the first ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The patch's length.
    #[serde(skip_serializing_if = "is_empty")]
    pub patch_bytes: usize,
    /// How long it took.
    #[serde(skip)]
    pub elapsed: Duration,
}

fn is_zero(code: &u16) -> bool {
    *code == 0
}

fn is_empty(bytes: &usize) -> bool {
    *bytes == 0
}

impl Report {
    /// A decision without more to say.
    pub fn new(shadow: Shadow, decision: Decision, elapsed: Duration) -> Self {
        Self { shadow, decision, code: 0, message: String::new(), paths: Vec::new(), patch_bytes: 0, elapsed }
    }

    /// Why it is so.
    #[must_use]
    pub fn because(self, code: u16, message: &str) -> Self {
        Self { code, message: message.chars().take(MAX_MESSAGE_CHARACTERS).collect(), ..self }
    }

    /// What would have been changed.
    #[must_use]
    pub fn changing<'a>(self, paths: impl Iterator<Item = &'a str>, patch_bytes: usize) -> Self {
        let paths = paths.take(MAX_PATHS).map(|path| path.chars().take(MAX_PATH_CHARACTERS).collect());
        Self { paths: paths.collect(), patch_bytes, ..self }
    }

    /// Counts it.
    pub fn count(&self, attributes: &Attributes, metrics: &Metrics) {
        let Shadow { kind, name, step, .. } = &self.shadow;
        let labels = [kind, &**name, step, attributes.operation.as_str(), self.decision.as_str()];
        metrics.seconds.with_label_values(&labels[..4]).observe(self.elapsed.as_secs_f64());
        metrics.decisions.with_label_values(&labels).inc();
    }

    /// Counts, logs and annotates it.
    pub fn publish(&self, attributes: &Attributes, metrics: &Metrics) {
        self.count(attributes, metrics);
        let Self { shadow, decision, code, message, paths, patch_bytes, .. } = self;
        let Shadow { configuration, name, kind, step, index } = shadow;
        let (operation, resource) = (attributes.operation.as_str(), &attributes.resource);
        tracing::info!(
            kind,
            configuration,
            name,
            step,
            decision = decision.as_str(),
            code,
            message,
            ?paths,
            patch_bytes,
            operation,
            group = resource.group,
            resource = resource.resource,
            subresource = attributes.subresource,
            namespace = attributes.namespace,
            object = attributes.name,
            "shadow decision"
        );
        if let Ok(text) = serde_json::to_string(self) {
            let phase = if *step == "admit" { "mutation" } else { "validation" };
            let key = format!("{phase}.shadow.kube-admission-proxy.dev/{kind}_index_{index}");
            attributes.annotations.add(key, text);
        }
    }
}

/// What is counted of shadows.
#[derive(Clone, Debug)]
pub struct Metrics {
    decisions: IntCounterVec,
    seconds: HistogramVec,
    annotated: IntGaugeVec,
    /// What was last known to be a shadow by an annotation, by the gauge's labels.
    known: Arc<Mutex<HashMap<[&'static str; 2], BTreeSet<String>>>>,
}

impl Metrics {
    /// Registers them.
    ///
    /// # Errors
    /// When one of the names is registered already.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let decisions = Opts::new(
            "admission_proxy_shadow_decisions_total",
            "Number of decisions that webhooks and policies in shadow mode would have made, by kind, name, type, operation and decision.",
        );
        let seconds = HistogramOpts::new(
            "admission_proxy_shadow_duration_seconds",
            "Latency of webhooks and policies in shadow mode in seconds, by kind, name, type and operation.",
        );
        let annotated = Opts::new(
            "admission_proxy_shadow_annotations",
            "Number of webhooks and policies that an annotation puts into shadow mode, by kind and type.",
        );
        let metrics = Self {
            decisions: IntCounterVec::new(decisions, &["kind", "name", "type", "operation", "decision"])?,
            seconds: HistogramVec::new(seconds.buckets(LATENCIES.to_vec()), &["kind", "name", "type", "operation"])?,
            annotated: IntGaugeVec::new(annotated, &["kind", "type"])?,
            known: Arc::default(),
        };
        registry.register(Box::new(metrics.decisions.clone()))?;
        registry.register(Box::new(metrics.seconds.clone()))?;
        registry.register(Box::new(metrics.annotated.clone()))?;
        Ok(metrics)
    }

    /// Counts those of one kind and type that decide nothing because of an annotation, and logs which are new.
    pub fn annotated(&self, kind: &'static str, step: &'static str, names: BTreeSet<String>) {
        let count = i64::try_from(names.len()).unwrap_or(i64::MAX);
        self.annotated.with_label_values(&[kind, step]).set(count);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.entry([kind, step]).or_default();
        for name in names.difference(before) {
            tracing::warn!(kind, step, name, "an annotation keeps it from deciding: it is only a shadow");
        }
        for name in before.difference(&names) {
            tracing::info!(kind, step, name, "no annotation keeps it from deciding any more");
        }
        *before = names;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotated_ones_are_counted_as_they_are_now() {
        let metrics = Metrics::new(&Registry::new()).unwrap();
        for names in [&["a/x", "a/y"][..], &["a/y"], &[]] {
            metrics.annotated("webhook", "admit", names.iter().map(|&name| name.to_owned()).collect());
            let count = metrics.annotated.with_label_values(&["webhook", "admit"]).get();
            assert_eq!(count, i64::try_from(names.len()).unwrap());
        }
    }

    #[test]
    fn shadows_are_named_by_annotation_and_on_the_command_line() {
        let shadows = Shadows::new(vec!["whole".into(), "part/a.b.c".into()]);
        for (configuration, hook, annotation, wanted) in [
            ("whole", "x", None, true),
            ("part", "a.b.c", None, true),
            ("part", "x", None, false),
            ("other", "x", None, false),
            ("other", "x", Some("true"), true),
            ("other", "x", Some("false"), false),
            ("other", "x", Some("y, x"), true),
            ("other", "x", Some(""), false),
            ("other", "x", Some("y"), false),
        ] {
            let is_one = shadows.contain(configuration, hook) || is_annotated(hook, annotation);
            assert_eq!(is_one, wanted, "{configuration}/{hook} {annotation:?}");
        }
    }
}
