//! `pod_security_*`, with kube-apiserver's names and labels.

use super::policy::{Level, LevelVersion, Version};
use crate::admission::{Attributes, Operation};
use crate::metrics::Registry;
use prometheus::{IntCounterVec, Opts};
use std::borrow::Cow;

/// The mode of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Enforce,
    Audit,
    Warn,
}

impl Mode {
    fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Audit => "audit",
            Self::Warn => "warn",
        }
    }
}

/// The plugin's counters, which clones share.
#[derive(Clone)]
pub(super) struct Metrics {
    /// The minor version of the emulated release. Later versions are counted as `future`.
    minor: u64,
    evaluations: IntCounterVec,
    exemptions: IntCounterVec,
    errors: IntCounterVec,
}

impl Metrics {
    /// Registers the metrics, and creates the series that dashboards use as denominators.
    ///
    /// # Errors
    /// If one of the names is registered already.
    pub(super) fn new(registry: &Registry, minor: u16) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(format!("pod_security_{name}_total"), help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            prometheus::Result::Ok(counter)
        };
        let metrics = Self {
            minor: minor.into(),
            evaluations: counter(
                "evaluations",
                "[ALPHA] Number of policy evaluations that occurred, not counting ignored or exempt requests.",
                &["decision", "policy_level", "policy_version", "mode", "request_operation", "resource", "subresource"],
            )?,
            exemptions: counter(
                "exemptions",
                "[ALPHA] Number of exempt requests, not counting ignored or out of scope requests.",
                &["request_operation", "resource", "subresource"],
            )?,
            errors: counter(
                "errors",
                "[ALPHA] Number of errors preventing normal evaluation. Non-fatal errors may result in the latest restricted \
                 profile being used for evaluation.",
                &["fatal", "request_operation", "resource", "subresource"],
            )?,
        };
        for operation in ["create", "update"] {
            let evaluation = ["allow", "privileged", "latest", "enforce", operation, "pod", ""];
            metrics.evaluations.with_label_values(&evaluation);
            metrics.exemptions.with_label_values(&[operation, "pod", ""]);
            metrics.exemptions.with_label_values(&[operation, "controller", ""]);
        }
        Ok(metrics)
    }

    /// Counts the evaluation of a policy.
    pub(super) fn evaluated(&self, is_allowed: bool, policy: LevelVersion, mode: Mode, attributes: &Attributes) {
        let version = match policy.version {
            // The privileged level is the same in every version.
            _ if policy.level == Level::Privileged => Cow::Borrowed("latest"),
            Version::Latest => Cow::Borrowed("latest"),
            Version::Minor(minor) if minor > self.minor => Cow::Borrowed("future"),
            version => Cow::Owned(version.to_string()),
        };
        let decision = if is_allowed { "allow" } else { "deny" };
        let [operation, resource, subresource] = request(attributes);
        let labels = [decision, policy.level.as_str(), &version, mode.as_str(), operation, resource, subresource];
        self.evaluations.with_label_values(&labels).inc();
    }

    /// Counts an exempt request.
    pub(super) fn exempted(&self, attributes: &Attributes) {
        self.exemptions.with_label_values(&request(attributes)).inc();
    }

    /// Counts a failure to read an object or a policy.
    pub(super) fn failed(&self, is_fatal: bool, attributes: &Attributes) {
        let [operation, resource, subresource] = request(attributes);
        let fatal = if is_fatal { "true" } else { "false" };
        self.errors.with_label_values(&[fatal, operation, resource, subresource]).inc();
    }
}

/// The operation, the resource and the subresource as labels.
fn request(attributes: &Attributes) -> [&str; 3] {
    let operation = match attributes.operation {
        Operation::Create => "create",
        Operation::Update => "update",
        Operation::Delete => "delete",
        Operation::Connect => "connect",
    };
    let resource = match (&*attributes.resource.group, &*attributes.resource.resource) {
        ("", "pods") => "pod",
        ("", "namespaces") => "namespace",
        _ => "controller",
    };
    [operation, resource, &attributes.subresource]
}
