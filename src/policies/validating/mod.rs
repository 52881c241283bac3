//! ValidatingAdmissionPolicy: the policies that reject a request, and the effect of their failures (`validating.dispatcher`).

mod annotations;
mod evaluate;
mod policy;
#[cfg(test)]
mod tests;

use super::binding::{Action, Binding};
use super::machinery::{AdmissionPolicies, binding_matches};
use super::metrics::ErrorType;
use super::misconfigured::Misconfigured;
use super::parameters::{Collected, Uncollected, collect};
use super::shadow::{ShadowDecision, ShadowDecisions};
use super::source::PolicyHook;
use crate::admission::{Attributes, Denial};
use crate::cluster::{Namespace, Parameter};
use crate::expressions::request::{RequestValues, Shared, namespace_name, namespace_value};
use crate::expressions::reviews::evaluated;
use crate::matching::{InvocationKind, Matcher, Versions};
use crate::status::{Cause, Status};
use annotations::{Collector, Failures};
use evaluate::{Annotated, Evaluation, code};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use policy::Policy;
pub(in crate::policies) use policy::Validations;
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The plugin that evaluates ValidatingAdmissionPolicies.
pub(crate) type ValidatingPolicies = AdmissionPolicies<Validations, ValidatingAdmissionPolicyBinding>;
type ValidatingHook = PolicyHook<Validations, ValidatingAdmissionPolicyBinding>;

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
    failures: Failures,
    shadows: ShadowDecisions<'a>,
}

/// The reason why a policy is not evaluated for a binding.
enum Trouble {
    /// An error of the policy or the binding.
    Misconfigured(Misconfigured),
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

impl ValidatingPolicies {
    /// Evaluates all policies that match the request, also after one rejects it.
    ///
    /// # Errors
    /// If a policy rejects the request; the first rejection counts.
    pub(crate) async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        let Some((audience, policies)) = self.ready_policies(attributes).await? else { return Ok(()) };
        let mut pass = None;
        let mut candidates = policies.candidates(audience, attributes, &self.cluster);
        candidates.narrow(attributes, attributes.object.as_ref());
        for (_, hook) in candidates {
            let pass = pass.get_or_insert_with(|| Pass {
                attributes,
                matcher: Matcher::new(&self.cluster, &self.converter),
                shared: Shared::new(attributes.context.authorizer.clone()),
                versions: Versions::default(),
                namespace: None,
                namespace_value: OnceLock::new(),
                denied: Vec::new(),
                failures: Failures::new(self.gates.since(37)),
                shadows: ShadowDecisions::new("validating", &self.metrics),
            });
            self.ask(hook, pass).await?;
        }
        let Some(Pass { failures, denied, .. }) = pass else { return Ok(()) };
        failures.publish(attributes);
        match denied.into_iter().next() {
            Some(denied) => Err(denied.into_status(attributes).into()),
            None => Ok(()),
        }
    }

    /// Evaluates one policy, for each of its bindings.
    async fn ask(&self, hook: &ValidatingHook, pass: &mut Pass<'_>) -> Result<(), Denial> {
        let (policy, attributes) = (&hook.policy, pass.attributes);
        let wanted = match Self::wants(hook, attributes, &mut pass.matcher).await {
            Ok(None) => return Ok(()),
            Ok(Some(wanted)) => wanted,
            Err(why) if hook.is_shadow() => {
                pass.would(policy, None, &misconfigured(policy, None, &why), Duration::ZERO);
                return Ok(());
            }
            Err(why) => {
                pass.misconfigured(policy, None, &why);
                return Ok(());
            }
        };
        let (mut collector, mut known) = (Collector::default(), Known::default());
        for (binding, is_shadow) in hook.bound() {
            let (name, started) = (&*binding.name, Instant::now());
            match (self.evaluate_for(hook, binding, &wanted, &mut known, pass).await, is_shadow) {
                (Ok(evaluations), false) => {
                    for evaluation in &evaluations {
                        self.settle(policy, binding, evaluation, &mut collector, pass);
                    }
                }
                (Ok(evaluations), true) if evaluations.is_empty() => {}
                (Ok(evaluations), true) => {
                    let would =
                        ShadowDecision::worst(evaluations.iter().map(|evaluation| evaluation.would(&binding.actions)));
                    pass.would(policy, Some(name), &would, started.elapsed());
                }
                (Err(Trouble::Misconfigured(why)), false) => pass.misconfigured(policy, Some(name), &why),
                (Err(Trouble::Misconfigured(why)), true) => {
                    pass.would(policy, Some(name), &misconfigured(policy, Some(name), &why), started.elapsed());
                }
                (Err(Trouble::Refused(denial)), false) => return Err(denial),
                (Err(Trouble::Refused(denial)), true) => {
                    let status = denial.into_status(attributes);
                    let would = ShadowDecision::fail(false, status.code, status.message);
                    pass.would(policy, Some(name), &would, started.elapsed());
                }
            }
        }
        collector.publish(&policy.name, &attributes.annotations);
        Ok(())
    }

    /// Returns the evaluations for one binding, one for each parameter; none if the binding does not match the request.
    async fn evaluate_for(
        &self,
        hook: &ValidatingHook,
        binding: &Binding<ValidatingAdmissionPolicyBinding>,
        wanted: &InvocationKind,
        known: &mut Known,
        pass: &mut Pass<'_>,
    ) -> Result<Vec<Arc<Evaluation>>, Trouble> {
        let (policy, attributes) = (&hook.policy, pass.attributes);
        let matches = binding_matches(binding, attributes, &mut pass.matcher).await;
        let mut evaluations = Vec::new();
        if !matches.map_err(Trouble::Misconfigured)? {
            return Ok(evaluations);
        }
        let (kind, reference) = (policy.parameter_kind.as_ref(), binding.parameters.as_deref());
        let reader = self.reader(attributes);
        let collected = collect(kind, hook.parameters.as_ref(), reference, &attributes.namespace, reader).await;
        let (without, parameters) = match collected? {
            Collected::None => (Some(None), Vec::new()),
            Collected::Some(all) => (None, all),
        };
        if without.is_some() || !parameters.is_empty() {
            let prepared = pass.versions.prepare(&self.converter, attributes, wanted).await;
            prepared.map_err(|why| Trouble::Misconfigured(Misconfigured::ValidatingVersion(why)))?;
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
        Ok(evaluations)
    }

    /// Evaluates a policy, again after each pause.
    async fn evaluate(
        &self,
        policy: &Policy,
        wanted: &InvocationKind,
        parameter: Option<&Parameter>,
        pass: &Pass<'_>,
    ) -> Option<Evaluation> {
        loop {
            tokio::task::consume_budget().await;
            let evaluated = {
                let view = pass.versions.view(pass.attributes, wanted);
                let namespace = pass.namespace.as_deref().filter(|_| policy.reads.namespace);
                let value = |namespace| pass.namespace_value.get_or_init(|| namespace_value(namespace));
                let namespace = namespace.map(value);
                let shown = RequestValues::new(pass.attributes, view, namespace, &pass.shared);
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
        binding: &Binding<ValidatingAdmissionPolicyBinding>,
        evaluation: &Evaluation,
        collector: &mut Collector,
        pass: &mut Pass<'_>,
    ) {
        let (binding, actions) = (&*binding.name, &*binding.actions);
        let observe = |message: &str, action: &str, elapsed: Duration| {
            self.checks.observe_validation(&policy.name, binding, ErrorType::of(message), action, elapsed);
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
                        pass.failures.add(pass.attributes, &policy.name, binding, failure.index, message, actions);
                        observe(message, "audit", elapsed);
                    }
                    Action::Warn => {
                        pass.attributes.context.warnings.add(format!(
                            "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{binding}': {message}",
                            policy.name
                        ));
                        observe(message, "warn", elapsed);
                    }
                }
            }
        }
        for annotation in &evaluation.annotations {
            match annotation {
                Annotated::Value(key, value) => collector.add(key, value),
                Annotated::Error(why, elapsed) => {
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
    fn misconfigured(&mut self, policy: &Policy, binding: Option<&str>, why: &Misconfigured) {
        if !policy.ignores_failure {
            let ShadowDecision { message, .. } = misconfigured(policy, binding, why);
            self.deny(policy, binding, &message, None);
        }
    }

    /// Reports the decision of a policy in shadow mode.
    fn would(&mut self, policy: &Policy, binding: Option<&str>, would: &ShadowDecision, elapsed: Duration) {
        self.shadows.report(self.attributes, &policy.name, binding, would, elapsed);
    }

    /// Looks up the namespace of a namespaced request, once.
    async fn find_namespace(&mut self) -> Result<(), Denial> {
        let Some(name) = namespace_name(self.attributes).filter(|_| self.namespace.is_none()) else { return Ok(()) };
        self.namespace = Some(self.matcher.namespace(name).await?);
        Ok(())
    }
}

/// Returns the decision of an error of the policy or of its binding.
fn misconfigured(policy: &Policy, binding: Option<&str>, why: &Misconfigured) -> ShadowDecision {
    let what = if binding.is_some() { "binding" } else { "policy" };
    ShadowDecision::fail(policy.ignores_failure, code(None), format!("failed to configure {what}: {why}"))
}
