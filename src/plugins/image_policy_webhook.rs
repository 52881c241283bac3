//! ImagePolicyWebhook: a backend decides which images pods may run.
//!
//! In kube-apiserver, a pod that is admitted because the backend failed also gets an annotation. The validating phase sets it,
//! so the annotation is never stored. Here the validating phase does not change the pod; only the audit annotation records the
//! failure.

mod answers;
mod configuration;
mod review;

use crate::admission::{
    Attributes, BuildError, Denial, FrontEndSupport, Operations, Phases, Plugin, PluginEnvironment, Resources, Spec,
};
use crate::backend::{CallFailure, GenericWebhook, is_forbidden};
use crate::status::Status;
use answers::Answers;
use async_trait::async_trait;
use configuration::Configuration;
use review::Verdict;
use std::sync::Arc;
use tokio::time::Instant;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "ImagePolicyWebhook",
    default_on: false,
    phases: Phases::Validating,
    operations: Operations::CREATE.or(Operations::UPDATE),
    resources: Resources::Only(&[("", "pods", ""), ("", "pods", "ephemeralcontainers")]),
    needs: &[],
    configuration: Some("imagePolicy"),
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Calls a backend that decides whether a pod may run its images.",
    build,
};

/// `AuditKeyPrefix`.
const AUDIT_PREFIX: &str = "imagepolicywebhook.image-policy.k8s.io/";

/// The annotation that later plugins see on a pod that was admitted without the backend's answer (`api.ImagePolicyFailedOpenKey`).
const FAILED_OPEN: &str = "alpha.image-policy.k8s.io/failed-open";

struct ImagePolicyWebhook {
    backend: GenericWebhook,
    answers: Answers,
    /// Whether a pod is admitted if the backend fails.
    default_allow: bool,
}

fn build(environment: &PluginEnvironment<'_>) -> Result<Box<dyn Plugin>, BuildError> {
    let given = environment.configuration.ok_or(BuildError::Unconfigured("no config specified"))?;
    let configuration = Configuration::read(&given.value);
    let configuration = configuration.map_err(|why| given.invalid(why))?;
    let PluginEnvironment { cluster, limits, .. } = environment;
    let backend =
        GenericWebhook::new(&configuration.kubeconfig_file, configuration.retry_backoff, cluster.clone(), limits);
    Ok(Box::new(ImagePolicyWebhook {
        backend: backend.map_err(|why| given.invalid(format_args!("imagePolicy.kubeConfigFile: {why}")))?,
        answers: Answers::new(configuration.allow_ttl, configuration.deny_ttl, limits.image_review_cache_bytes),
        default_allow: configuration.default_allow,
    }))
}

#[async_trait]
impl Plugin for ImagePolicyWebhook {
    fn has_side_effects(&self, _: &Attributes) -> bool {
        true
    }

    fn reads_stored_object(&self, _: &Attributes) -> bool {
        // In kube-apiserver, the backend does not receive objects that are refused as invalid.
        true
    }

    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let unconvertible = || Status::bad_request("Resource was marked with kind Pod but was unable to be converted");
        let spec = review::spec(attributes).map_err(|_| unconvertible())?;
        let verdict = match self.answers.of(&spec) {
            Some(verdict) => verdict,
            None => match self.ask(&spec, attributes).await {
                Ok(verdict) => {
                    let verdict = Arc::new(verdict);
                    self.answers.remember(&spec, &verdict);
                    verdict
                }
                Err(failure) => return self.without_answer(&failure, attributes),
            },
        };
        for (key, value) in &verdict.audit_annotations {
            attributes.annotations.add(format!("{AUDIT_PREFIX}{key}"), value);
        }
        match (verdict.allowed, &*verdict.reason) {
            (true, _) => Ok(()),
            (false, "") => Err(Denial::forbidden("one or more images rejected by webhook backend")),
            (false, reason) => {
                Err(Denial::forbidden(format!("image policy webhook backend denied one or more images: {reason}")))
            }
        }
    }
}

impl ImagePolicyWebhook {
    async fn ask(&self, spec: &str, attributes: &Attributes) -> Result<Verdict, CallFailure> {
        let answer = self.backend.post(review::body(spec).into(), attributes.context.call_deadline()).await?;
        Verdict::read(&answer).map_err(|why| CallFailure::Other(why.to_string()))
    }

    /// The outcome of a request if the backend failed (`webhookError`).
    fn without_answer(&self, failure: &CallFailure, attributes: &Attributes) -> Result<(), Denial> {
        if Instant::now() >= attributes.context.deadline {
            return Err(Status::out_of_requested_time().into());
        }
        tracing::warn!(%failure, fails_open = self.default_allow, "error contacting the image policy's backend");
        if self.default_allow {
            attributes.annotations.add(format!("{AUDIT_PREFIX}failed-open"), "true");
            attributes.marks.add(FAILED_OPEN, "true");
            return Ok(());
        }
        match failure {
            // `admission.NewForbidden` does not wrap a refusal in a refusal.
            CallFailure::Status(status) if is_forbidden(status) => Err((**status).clone().into()),
            failure => Err(Denial::forbidden(failure.to_string())),
        }
    }
}

#[cfg(test)]
mod tests;
