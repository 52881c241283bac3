//! Shadow mode: the proxy calls webhooks and policies in shadow mode as usual, but ignores their decisions. The would-be
//! decisions are counted, logged and written to the audit log. kube-apiserver has no shadow mode.

use super::Attributes;
use crate::metrics::Registry;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The annotation that puts a configuration's webhooks into shadow mode: `true` for all webhooks, or their names separated by commas.
pub(crate) const HOOKS: &str = "shadow.kube-admission-proxy.dev/hooks";
/// The annotation that puts a policy with all its bindings, or a single binding, into shadow mode: `true`.
pub(crate) const POLICY: &str = "shadow.kube-admission-proxy.dev/policy";

/// The histogram buckets in seconds, equal to those of webhook calls.
const LATENCIES: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];
/// The number of a patch's paths in a report, and the length of each path.
const MAX_PATHS: usize = 32;
const MAX_PATH_CHARACTERS: usize = 256;
/// The length of a message in a report.
const MAX_MESSAGE_CHARACTERS: usize = 1024;

/// The webhooks, or the policies, that the command line puts into shadow mode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShadowNames {
    names: Vec<String>,
    ignores_annotations: bool,
}

impl ShadowNames {
    /// `names` lists configurations, and webhooks as `configuration/hook`; or policies, and bindings as `policy/binding`. A `*` at the end of a
    /// name stands for any end.
    pub(crate) fn new(names: Vec<String>) -> Self {
        Self { names, ignores_annotations: false }
    }

    /// Adds names.
    #[must_use]
    pub(crate) fn with_more(mut self, names: &[String]) -> Self {
        self.names.extend_from_slice(names);
        self
    }

    /// Sets whether annotations of objects put webhooks and policies into shadow mode.
    #[must_use]
    pub(crate) fn with_annotations(self, are_obeyed: bool) -> Self {
        Self { ignores_annotations: !are_obeyed, ..self }
    }

    /// Whether annotations of objects put webhooks and policies into shadow mode.
    pub(crate) fn obey_annotations(&self) -> bool {
        !self.ignores_annotations
    }

    /// Whether the command line names the configuration or its hook, or the policy or its binding.
    pub(crate) fn contain(&self, configuration: &str, hook: &str) -> bool {
        self.names.iter().any(|named| match named.split_once('/') {
            Some((of, name)) => is_named(of, configuration) && is_named(name, hook),
            None => is_named(named, configuration),
        })
    }
}

/// Whether a name matches the given one, which may end with `*`.
fn is_named(given: &str, name: &str) -> bool {
    match given.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => given == name,
    }
}

/// The annotation's value.
fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The annotation of a webhook configuration that names hooks in shadow mode.
pub(crate) fn of_hooks(metadata: &ObjectMeta) -> Option<&str> {
    annotation(metadata, HOOKS)
}

/// Whether the annotation of a policy or a binding puts it into shadow mode.
pub(crate) fn is_policy(metadata: &ObjectMeta) -> bool {
    annotation(metadata, POLICY).is_some_and(|value| value.trim() == "true")
}

/// Whether a configuration's annotation puts the hook into shadow mode.
pub(crate) fn is_annotated(hook: &str, annotation: Option<&str>) -> bool {
    annotation.is_some_and(|value| value.trim() == "true" || value.split(',').any(|name| name.trim() == hook))
}

/// The decision that a shadow would have made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ShadowVerdict {
    /// The request would have passed unchanged.
    Allowed,
    /// The request would have been refused.
    Denied,
    /// The object would have been changed.
    Changed,
    /// The call or evaluation failed, and failurePolicy Ignore would have admitted the request.
    FailedOpen,
    /// The call or evaluation failed, and failurePolicy Fail would have refused the request.
    FailedClosed,
}

impl ShadowVerdict {
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

/// The identity of a webhook or a policy in shadow mode.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Shadow {
    /// The webhook's configuration, or the policy's binding.
    pub(crate) configuration: String,
    /// The webhook's or the policy's name.
    pub(crate) name: String,
    /// `webhook` or `policy`.
    #[serde(skip)]
    pub(crate) kind: &'static str,
    /// `admit` or `validating`, as in the labels of other metrics.
    #[serde(skip)]
    pub(crate) step: &'static str,
    /// The position among all webhooks or policies of this kind.
    #[serde(skip)]
    pub(crate) index: usize,
}

/// The decision that a shadow would have made. A report contains no values of the object.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// The webhook or the policy.
    #[serde(flatten)]
    pub(crate) shadow: Shadow,
    pub(crate) decision: ShadowVerdict,
    /// The HTTP code of the refusal; 0 if there is no refusal.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) code: u16,
    /// The reason of the refusal or of the failure.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    /// The first paths of the patch, at most `MAX_PATHS`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) paths: Vec<String>,
    /// The length of the patch in bytes.
    #[serde(skip_serializing_if = "is_empty")]
    pub(crate) patch_bytes: usize,
    /// The time that the call or the evaluation took.
    #[serde(skip)]
    pub(crate) elapsed: Duration,
}

fn is_zero(code: &u16) -> bool {
    *code == 0
}

fn is_empty(bytes: &usize) -> bool {
    *bytes == 0
}

impl Report {
    /// A report without code, message and patch.
    pub(crate) fn new(shadow: Shadow, decision: ShadowVerdict, elapsed: Duration) -> Self {
        Self { shadow, decision, code: 0, message: String::new(), paths: Vec::new(), patch_bytes: 0, elapsed }
    }

    /// Sets the code and the reason.
    #[must_use]
    pub(crate) fn because(self, code: u16, message: &str) -> Self {
        Self { code, message: message.chars().take(MAX_MESSAGE_CHARACTERS).collect(), ..self }
    }

    /// Sets the paths and the length of the patch.
    #[must_use]
    pub(crate) fn changing<'a>(self, paths: impl Iterator<Item = &'a str>, patch_bytes: usize) -> Self {
        let paths = paths.take(MAX_PATHS).map(|path| path.chars().take(MAX_PATH_CHARACTERS).collect());
        Self { paths: paths.collect(), patch_bytes, ..self }
    }

    /// Counts the decision.
    pub(crate) fn count(&self, attributes: &Attributes, metrics: &Metrics) {
        let Shadow { kind, name, step, .. } = &self.shadow;
        let labels = [kind, &**name, step, attributes.operation.as_str(), self.decision.as_str()];
        metrics.seconds.with_label_values(&labels[..4]).observe(self.elapsed.as_secs_f64());
        metrics.decisions.with_label_values(&labels).inc();
    }

    /// Counts the decision, logs the decision, and adds an audit annotation.
    pub(crate) fn publish(&self, attributes: &Attributes, metrics: &Metrics) {
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
            // `message` is the name of the event's own text.
            reason = message,
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

/// The metrics of shadow mode.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    decisions: IntCounterVec,
    seconds: HistogramVec,
    annotated: IntGaugeVec,
    /// The names that annotations put into shadow mode at the last count, by the gauge's labels.
    known: Arc<Mutex<HashMap<[&'static str; 2], BTreeSet<String>>>>,
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If one of the names is registered already.
    pub(crate) fn new(registry: &Registry) -> prometheus::Result<Self> {
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

    /// Counts the shadows that annotations name, of one kind and type, and logs which names are new or gone.
    pub(crate) fn annotated(&self, kind: &'static str, step: &'static str, names: BTreeSet<String>) {
        let count = i64::try_from(names.len()).unwrap_or(i64::MAX);
        self.annotated.with_label_values(&[kind, step]).set(count);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.entry([kind, step]).or_default();
        for name in names.difference(before) {
            tracing::warn!(kind, step, name, "in shadow mode by an annotation: its decisions have no effect");
        }
        for name in before.difference(&names) {
            tracing::info!(kind, step, name, "no longer in shadow mode by an annotation");
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
        let shadows = ShadowNames::new(vec!["whole".into(), "part/a.b.c".into(), "new-*".into(), "some/b*".into()]);
        for (configuration, hook, annotation, wanted) in [
            ("whole", "x", None, true),
            ("part", "a.b.c", None, true),
            ("part", "x", None, false),
            ("other", "x", None, false),
            ("new-one", "x", None, true),
            ("new", "x", None, false),
            ("some", "b.c", None, true),
            ("some", "", None, false),
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
