//! ValidatingAdmissionPolicy: the policies that reject a request, and the effect of their failures (`validating.dispatcher`).

mod annotations;
mod evaluate;
mod policy;
#[cfg(test)]
mod tests;

use super::Audience;
use super::binding::{Action, Binding, VALIDATING_BINDINGS};
use super::files::{Files, follow};
use super::metrics::{Checks, ErrorType};
use super::parameters::{Collected, Uncollected, check_kind, collect};
use super::shadow::{Shadows, Would};
use super::source::{Hook, Policies, Shadowing, Source};
use crate::admission::metrics::Metrics;
use crate::admission::{Attributes, BuildError, Denial, Environment};
use crate::cluster::{Cluster, Namespace, Need, Parameter};
use crate::conversion::Converter;
use crate::expressions::request::{Shared, Shown, namespace_name, namespace_value};
use crate::expressions::reviews::evaluated;
use crate::manifests;
use crate::matching::{Matcher, Versions, Wanted};
use crate::status::{Cause, Status};
use annotations::{Collector, publish_failure};
use evaluate::{Evaluation, Told, code};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use policy::Policy;
pub(in crate::policies) use policy::Validations;
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

type ValidatingHook = Hook<Validations, ValidatingAdmissionPolicyBinding>;
/// The policies of a folder.
type ValidatingFiles = manifests::Source<Files<Validations, ValidatingAdmissionPolicyBinding>>;

/// The plugin that evaluates ValidatingAdmissionPolicies.
pub struct Validating {
    cluster: Arc<Cluster>,
    metrics: Arc<Metrics>,
    checks: Checks,
    converter: Converter,
    source: Source<Validations, ValidatingAdmissionPolicyBinding>,
}

/// A rejection: the policy's name, the binding's name if a binding was reached, and the message.
struct Denied {
    policy: Box<str>,
    binding: Option<Box<str>>,
    message: String,
    reason: Option<String>,
}

impl Denied {
    fn text(&self) -> String {
        let Self { policy, binding, message, .. } = self;
        match binding {
            Some(binding) => {
                format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}")
            }
            None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {message}"),
        }
    }

    fn into_status(self, attributes: &Attributes) -> Status {
        let text = self.text();
        let resource = &attributes.resource;
        let mut status = Status::forbidden(&resource.group, &resource.resource, attributes.name_for_errors(), &text);
        status.reason = self.reason.unwrap_or_else(|| "Invalid".into());
        status.code = code(Some(&status.reason));
        if let Some(details) = &mut status.details {
            details.causes.push(Cause { message: text, ..Cause::default() });
        }
        status
    }
}

/// The state that the evaluations of one request share.
struct Pass<'a> {
    attributes: &'a Attributes,
    matcher: Matcher<'a>,
    shared: Shared,
    versions: Versions,
    namespace: Option<Arc<Namespace>>,
    namespace_value: OnceLock<Map<String, Json>>,
    denied: Vec<Denied>,
    shadows: Shadows<'a>,
}

/// The reason why a policy is not evaluated for a binding.
enum Trouble {
    /// An error of the policy or the binding.
    Misconfigured(String),
    /// An error that ends the request.
    Refused(Denial),
}

impl From<Uncollected> for Trouble {
    fn from(why: Uncollected) -> Self {
        match why {
            Uncollected::Misconfigured(why) => Self::Misconfigured(why),
            Uncollected::Unusable(status) => Self::Refused(status.into()),
        }
    }
}

/// The evaluations of one policy so far: bindings with the same parameter share one. `None` if matchConditions exclude the request.
#[derive(Default)]
struct Known {
    without: Option<Option<Arc<Evaluation>>>,
    /// Evaluations by the address of the parameter; the map keeps the parameter, so that no other parameter gets the address.
    with: HashMap<usize, (Arc<Parameter>, Option<Arc<Evaluation>>)>,
}

impl Known {
    fn find(&self, parameter: Option<&Arc<Parameter>>) -> Option<Option<Arc<Evaluation>>> {
        match parameter {
            None => self.without.clone(),
            Some(parameter) => Some(self.with.get(&Arc::as_ptr(parameter).addr())?.1.clone()),
        }
    }

    fn add(&mut self, parameter: Option<Arc<Parameter>>, evaluation: Option<Arc<Evaluation>>) {
        match parameter {
            None => self.without = Some(evaluation),
            Some(parameter) => {
                self.with.insert(Arc::as_ptr(&parameter).addr(), (parameter, evaluation));
            }
        }
    }
}

/// Follows the folder of static manifests that the plugin's configuration names, if it names one.
///
/// # Errors
/// If the files in the folder cannot be used.
pub(crate) fn validating_files(
    folder: Option<PathBuf>,
    environment: &Environment<'_>,
) -> Result<ValidatingFiles, BuildError> {
    follow(folder, "ValidatingAdmissionPolicy", environment)
}

impl Validating {
    /// Creates the plugin from the cluster's state and the policies from files.
    ///
    /// # Errors
    /// If the plugin's metrics are registered already.
    pub(crate) fn new(environment: &Environment<'_>, files: ValidatingFiles) -> prometheus::Result<Self> {
        let Environment { cluster, discovery, metrics, limits, policies, .. } = environment;
        let shadows =
            Shadowing { named: policies.shadows.clone(), step: "validating", metrics: metrics.shadows().clone() };
        Ok(Self {
            checks: metrics.registry().once("validating", Checks::validating)?,
            converter: Converter::new(cluster.clone(), discovery.clone(), limits, metrics.conversions()),
            source: Source::new(cluster.clone(), discovery.clone(), files, shadows),
            cluster: cluster.clone(),
            metrics: metrics.clone(),
        })
    }

    /// Returns the invalid policies, each with its error.
    pub fn problems(&self) -> Vec<String> {
        let policies = self.source.policies();
        policies.problems().map(|(name, why)| format!("ValidatingAdmissionPolicy {name}: {why}")).collect()
    }

    /// Whether a policy may match the request; matchConditions are not evaluated.
    pub fn looks_at_stored(&self, attributes: &Attributes) -> bool {
        let Some(audience) = self.source.audience(attributes) else { return false };
        let (policies, matcher) = (self.source.policies(), Matcher::new(&self.cluster, &self.converter));
        let mut candidates = policies.candidates(audience, attributes, &self.cluster);
        candidates.look_at(attributes, attributes.object.as_ref());
        let may_be = |(_, hook): (usize, &ValidatingHook)| {
            hook.policy.criteria.as_ref().is_none_or(|criteria| matcher.may_want(criteria, attributes))
        };
        (audience == Audience::All && !self.cluster.is_synced()) || candidates.any(may_be)
    }

    /// Evaluates all policies that match the request, also after one rejects it.
    ///
    /// # Errors
    /// If a policy rejects the request; the first rejection counts.
    pub async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let Some(audience) = self.source.audience(attributes) else { return Ok(()) };
        // A request on policies or bindings matches only policies from files, so it does not wait for the cluster's policies.
        if audience == Audience::All && !self.cluster.is_synced() && !self.cluster.wait_synced().await {
            return Err(Denial::forbidden("not yet ready to handle request"));
        }
        if audience == Audience::All {
            self.cluster.check_decodable(&[Need::VALIDATING_POLICIES, VALIDATING_BINDINGS], "")?;
        }
        let policies: Arc<Policies<_, _>> = self.source.policies();
        let mut pass = None;
        let mut candidates = policies.candidates(audience, attributes, &self.cluster);
        candidates.look_at(attributes, attributes.object.as_ref());
        for (_, hook) in candidates {
            let pass = pass.get_or_insert_with(|| Pass {
                attributes,
                matcher: Matcher::new(&self.cluster, &self.converter),
                shared: Shared::new(attributes.authorizer.clone()),
                versions: Versions::default(),
                namespace: None,
                namespace_value: OnceLock::new(),
                denied: Vec::new(),
                shadows: Shadows::new("validating", &self.metrics),
            });
            self.ask(hook, pass).await?;
        }
        match pass.and_then(|pass| pass.denied.into_iter().next()) {
            Some(denied) => Err(denied.into_status(attributes).into()),
            None => Ok(()),
        }
    }

    /// Evaluates one policy, for each of its bindings.
    async fn ask(&self, hook: &ValidatingHook, pass: &mut Pass<'_>) -> Result<(), Denial> {
        let (policy, attributes) = (&hook.policy, pass.attributes);
        let matched = match &policy.criteria {
            None => Err("policy contained no match constraints, a required field".to_owned()),
            Some(criteria) => {
                let wanted = pass.matcher.wants(criteria, attributes, attributes.object.as_ref()).await;
                wanted.map_err(|status| status.message)
            }
        };
        let wanted = match matched {
            Ok(None) => return Ok(()),
            Ok(Some(wanted)) => check_kind(hook.parameters.as_ref()).await.map(|()| wanted),
            Err(why) => Err(why),
        };
        let wanted = match wanted {
            Ok(wanted) => wanted,
            Err(why) if hook.is_shadow() => {
                pass.would(policy, None, &misconfigured(policy, None, &why), Duration::ZERO);
                return Ok(());
            }
            Err(why) => {
                pass.misconfigured(policy, None, &why);
                return Ok(());
            }
        };
        let (mut collector, mut known, mut evaluations) = (Collector::default(), Known::default(), Vec::new());
        for (binding, is_shadow) in hook.bound() {
            let (name, started) = (&*binding.name, Instant::now());
            evaluations.clear();
            match (self.evaluate_for(hook, binding, &wanted, (&mut known, &mut evaluations), pass).await, is_shadow) {
                (Ok(()), false) => {
                    for evaluation in &evaluations {
                        self.settle(policy, (name, &binding.actions), evaluation, &mut collector, pass);
                    }
                }
                (Ok(()), true) if evaluations.is_empty() => {}
                (Ok(()), true) => {
                    let would = Would::worst(evaluations.iter().map(|evaluation| evaluation.would(&binding.actions)));
                    pass.would(policy, Some(name), &would, started.elapsed());
                }
                (Err(Trouble::Misconfigured(why)), false) => pass.misconfigured(policy, Some(name), &why),
                (Err(Trouble::Misconfigured(why)), true) => {
                    pass.would(policy, Some(name), &misconfigured(policy, Some(name), &why), started.elapsed());
                }
                (Err(Trouble::Refused(denial)), false) => return Err(denial),
                (Err(Trouble::Refused(denial)), true) => {
                    let status = denial.into_status(attributes);
                    let would = Would::fail(false, status.code, status.message);
                    pass.would(policy, Some(name), &would, started.elapsed());
                }
            }
        }
        collector.publish(&policy.name, &attributes.annotations);
        Ok(())
    }

    /// Adds the evaluations for one binding, one for each parameter; none if the binding does not match the request.
    async fn evaluate_for(
        &self,
        hook: &ValidatingHook,
        binding: &Binding<ValidatingAdmissionPolicyBinding>,
        wanted: &Wanted,
        (known, evaluations): (&mut Known, &mut Vec<Arc<Evaluation>>),
        pass: &mut Pass<'_>,
    ) -> Result<(), Trouble> {
        let (policy, attributes) = (&hook.policy, pass.attributes);
        if let Some(criteria) = &binding.criteria {
            let wanted = pass.matcher.wants(criteria, attributes, attributes.object.as_ref()).await;
            if wanted.map_err(|status| Trouble::Misconfigured(status.message))?.is_none() {
                return Ok(());
            }
        }
        let (kind, reference) = (policy.parameter_kind.as_ref(), binding.parameters.as_deref());
        let collected = collect(kind, hook.parameters.as_ref(), reference, &attributes.namespace).await;
        let (without, parameters) = match collected? {
            Collected::None => (Some(None), Vec::new()),
            Collected::Some(all) => (None, all),
        };
        if without.is_some() || !parameters.is_empty() {
            let prepared = pass.versions.prepare(&self.converter, attributes, wanted).await;
            let failed = |why| Trouble::Misconfigured(format!("failed to convert object version: {why}"));
            prepared.map_err(failed)?;
        }
        pass.find_namespace().await.map_err(Trouble::Refused)?;
        for parameter in without.into_iter().chain(parameters.into_iter().map(Some)) {
            let evaluation = match known.find(parameter.as_ref()) {
                Some(evaluation) => evaluation,
                None => {
                    let evaluation = self.evaluate(policy, wanted, parameter.as_deref(), pass).await.map(Arc::new);
                    known.add(parameter, evaluation.clone());
                    evaluation
                }
            };
            evaluations.extend(evaluation);
        }
        Ok(())
    }

    /// Evaluates a policy, again after each pause.
    async fn evaluate(
        &self,
        policy: &Policy,
        wanted: &Wanted,
        parameter: Option<&Parameter>,
        pass: &Pass<'_>,
    ) -> Option<Evaluation> {
        loop {
            tokio::task::consume_budget().await;
            let evaluated = {
                let view = pass.versions.view(pass.attributes, wanted);
                let namespace = pass.namespace.as_deref().filter(|_| policy.looks.at_namespace);
                let value = |namespace| pass.namespace_value.get_or_init(|| namespace_value(namespace));
                let namespace = namespace.map(value);
                let shown = Shown::new(pass.attributes, view, namespace, &pass.shared);
                evaluated(|| policy.evaluate(&shown, parameter.map(Parameter::value), &self.metrics))
            };
            match evaluated {
                Ok(evaluation) => return evaluation,
                Err(pause) => pass.shared.reviews.end(pause).await,
            }
        }
    }

    /// Applies the effects of an evaluation for one binding.
    fn settle(
        &self,
        policy: &Policy,
        (binding, actions): (&str, &[Action]),
        evaluation: &Evaluation,
        collector: &mut Collector,
        pass: &mut Pass<'_>,
    ) {
        let observe = |message: &str, action: &str, elapsed: Duration| {
            self.checks.observe_validation((&policy.name, binding), ErrorType::of(message), action, elapsed);
        };
        for failure in &evaluation.failures {
            let (message, elapsed) = (&*failure.message, failure.elapsed);
            if !failure.denies {
                observe(message, "allow", elapsed);
                continue;
            }
            for action in actions {
                match action {
                    Action::Deny => {
                        pass.deny(policy, Some(binding), message, failure.reason.as_deref());
                        observe(message, "deny", elapsed);
                    }
                    Action::Audit => {
                        let on = (&*policy.name, binding);
                        publish_failure(&pass.attributes.annotations, on, failure.index, message, actions);
                        observe(message, "audit", elapsed);
                    }
                    Action::Warn => {
                        pass.attributes.warnings.add(format!(
                            "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{binding}': {message}",
                            policy.name
                        ));
                        observe(message, "warn", elapsed);
                    }
                }
            }
        }
        for told in &evaluation.annotations {
            match told {
                Told::Value(key, value) => collector.add(key, value),
                Told::Error(why, elapsed) => {
                    pass.deny(policy, Some(binding), why, None);
                    observe(why, "deny", *elapsed);
                }
            }
        }
    }
}

impl Pass<'_> {
    fn deny(&mut self, policy: &Policy, binding: Option<&str>, message: &str, reason: Option<&str>) {
        self.denied.push(Denied {
            policy: policy.name.clone(),
            binding: binding.map(Box::from),
            message: message.to_owned(),
            reason: reason.map(str::to_owned),
        });
    }

    /// Records an error of the policy or of its binding.
    fn misconfigured(&mut self, policy: &Policy, binding: Option<&str>, why: &str) {
        if !policy.ignores_failure {
            let Would { message, .. } = misconfigured(policy, binding, why);
            self.deny(policy, binding, &message, None);
        }
    }

    /// Reports the decision of a policy in shadow mode.
    fn would(&mut self, policy: &Policy, binding: Option<&str>, would: &Would, elapsed: Duration) {
        self.shadows.tell(self.attributes, (&policy.name, binding), would, elapsed);
    }

    /// Looks up the namespace of a namespaced request, once.
    async fn find_namespace(&mut self) -> Result<(), Denial> {
        let Some(name) = namespace_name(self.attributes).filter(|_| self.namespace.is_none()) else { return Ok(()) };
        self.namespace = Some(self.matcher.namespace(name).await?);
        Ok(())
    }
}

/// Returns the decision of an error of the policy or of its binding.
fn misconfigured(policy: &Policy, binding: Option<&str>, why: &str) -> Would {
    let what = if binding.is_some() { "binding" } else { "policy" };
    Would::fail(policy.ignores_failure, code(None), format!("failed to configure {what}: {why}"))
}
