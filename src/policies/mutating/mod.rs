//! MutatingAdmissionPolicy: the changes that policies make to a request's object (`mutating.dispatcher`).

mod apply;
mod invoke;
mod json_patch;
mod mutate;
mod names;
mod policy;
mod reinvocation;
#[cfg(test)]
mod tests;

use super::machinery::{AdmissionPolicies, binding_matches};
use super::misconfigured::Misconfigured;
use super::parameters::{Collected, Uncollected, collect};
use super::policy::Rules;
use super::shadow::{ShadowDecision, ShadowDecisions};
use super::source::PolicyHook;
use crate::admission::{Attributes, Denial};
use crate::cluster::Parameter;
use crate::expressions::request::{namespace_name, namespace_value};
use crate::matching::{InvocationKind, Matcher, Versions};
use crate::status::{Cause, Status};
use invoke::Pass;
use k8s_openapi::api::admissionregistration::v1::MutatingAdmissionPolicyBinding;
pub(in crate::policies) use policy::Mutations;
use policy::Policy;
use reinvocation::PolicyReinvocation;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

/// The code of the rejection when a policy fails.
const FAILED: u16 = 403;
/// The plugin that applies MutatingAdmissionPolicies.
pub(crate) type MutatingPolicies = AdmissionPolicies<Mutations, MutatingAdmissionPolicyBinding>;
type MutatingHook = PolicyHook<Mutations, MutatingAdmissionPolicyBinding>;

/// A call of a policy for one binding and one parameter (`generic.PolicyInvocation`).
struct Invocation<'a> {
    policy: &'a Policy,
    binding: &'a str,
    parameter: Option<Arc<Parameter>>,
    /// Whether expressions get the parameter without its apiVersion and kind.
    is_bare: bool,
    /// Whether the policy is in shadow mode: its effect is only reported.
    is_shadow: bool,
    wanted: InvocationKind,
}

/// An error of a policy (`generic.PolicyError`).
struct Failure<'a> {
    policy: &'a Policy,
    binding: Option<&'a str>,
    message: String,
    reason: Option<&'static str>,
}

impl Failure<'_> {
    fn text(&self) -> String {
        let (policy, message) = (&self.policy.name, &self.message);
        match self.binding {
            Some(binding) => format!("policy '{policy}' with binding '{binding}' denied request: {message}"),
            None => format!("policy {policy:?} denied request: {message}"),
        }
    }
}

/// The results of one pass over the policies: the errors of policies, and the decisions of those in shadow mode.
struct Results<'a> {
    failures: Vec<Failure<'a>>,
    shadows: ShadowDecisions<'a>,
}

impl<'a> Results<'a> {
    fn fail(&mut self, attributes: &Attributes, failure: Failure<'a>, is_shadow: bool) {
        let Failure { policy, binding, message, .. } = &failure;
        if is_shadow {
            let would = ShadowDecision::fail(policy.ignores_failure, FAILED, &**message);
            self.shadows.report(attributes, &policy.name, *binding, &would, Duration::ZERO);
        } else {
            self.failures.push(failure);
        }
    }

    /// Records an error of the policy, or of the binding if there is one.
    fn misconfigured(
        &mut self,
        attributes: &Attributes,
        policy: &'a Policy,
        binding: Option<&'a str>,
        is_shadow: bool,
        why: &dyn Display,
    ) {
        let what = if binding.is_some() { "binding" } else { "policy" };
        let message = format!("failed to configure {what}: {why}");
        self.fail(attributes, Failure { policy, binding, message, reason: None }, is_shadow);
    }
}

impl MutatingPolicies {
    /// Calls the policies that match the request; they may change its object.
    ///
    /// # Errors
    /// If a policy fails whose failurePolicy is `Fail`.
    pub(crate) async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let Some((audience, policies)) = self.ready_policies(attributes).await? else { return Ok(()) };
        let mut hooks = policies.candidates(audience, attributes, &self.cluster);
        hooks.narrow(attributes, attributes.object.as_ref());
        if hooks.is_done() {
            return Ok(());
        }
        let mut matcher = Matcher::new(&self.cluster, &self.converter);
        let mut results =
            Results { failures: Vec::new(), shadows: ShadowDecisions::new(Mutations::STEP, &self.metrics) };
        let (mut invocations, mut versions) = (Vec::new(), Versions::default());
        for (_, hook) in hooks {
            let found = self.invocations(hook, attributes, &mut matcher, &mut versions, &mut results).await?;
            invocations.extend(found);
        }
        let namespace = match namespace_name(attributes).filter(|_| !invocations.is_empty()) {
            None => Ok(None),
            Some(name) => matcher.namespace(name).await.map(|namespace| Some(namespace_value(&namespace))),
        };
        match namespace {
            Err(status) if invocations.iter().any(|invocation| !invocation.is_shadow) => return Err(status.into()),
            Err(status) => {
                for Invocation { policy, binding, .. } in &invocations {
                    let would = ShadowDecision::fail(false, status.code, &*status.message);
                    results.shadows.report(attributes, &policy.name, Some(*binding), &would, Duration::ZERO);
                }
            }
            Ok(namespace) if !invocations.is_empty() => {
                let mut again: PolicyReinvocation = attributes.reinvocation.take(Mutations::KIND).unwrap_or_default();
                let mut pass = Pass::new(attributes, versions, namespace);
                let result = self.invoke(&invocations, &mut pass, &mut again, &mut results).await;
                again.remember(attributes.object.as_ref());
                attributes.reinvocation.leave(Mutations::KIND, again);
                result?;
            }
            Ok(_) => {}
        }
        results.failures.retain(|failure| !failure.policy.ignores_failure);
        match results.failures.as_slice() {
            [] => Ok(()),
            failures => Err(refusal(failures, attributes).into()),
        }
    }

    /// Returns the calls of one policy, one for each binding and parameter.
    ///
    /// # Errors
    /// If the parameters of the policy cannot be known.
    async fn invocations<'a>(
        &self,
        hook: &'a MutatingHook,
        attributes: &Attributes,
        matcher: &mut Matcher<'_>,
        versions: &mut Versions,
        results: &mut Results<'a>,
    ) -> Result<Vec<Invocation<'a>>, Denial> {
        let (policy, mut invocations) = (&*hook.policy, Vec::new());
        let is_second = attributes.reinvocation.is_reinvoke;
        if hook.is_shadow() && is_second {
            return Ok(invocations);
        }
        let wanted = match Self::wants(hook, attributes, matcher).await {
            Ok(Some(wanted)) => wanted,
            Ok(None) => return Ok(invocations),
            Err(why) => {
                results.misconfigured(attributes, policy, None, hook.is_shadow(), &why);
                return Ok(invocations);
            }
        };
        let is_bare = matches!(&hook.parameters, Some(Ok(parameters)) if parameters.is_built_in());
        for (binding, is_shadow) in hook.bound().filter(|(_, is_shadow)| !(*is_shadow && is_second)) {
            let name = &*binding.name;
            match binding_matches(binding, attributes, matcher).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(why) => {
                    results.misconfigured(attributes, policy, Some(name), is_shadow, &why);
                    continue;
                }
            }
            if let Err(why) = versions.prepare(&self.converter, attributes, &wanted).await {
                results.misconfigured(attributes, policy, None, is_shadow, &Misconfigured::MutatingVersion(why));
                continue;
            }
            let (kind, reference) = (policy.parameter_kind.as_ref(), binding.parameters.as_deref());
            let reader = self.reader(attributes);
            let collected = collect(kind, hook.parameters.as_ref(), reference, &attributes.namespace, reader).await;
            let parameters = match collected {
                Ok(Collected::None) => vec![None],
                Ok(Collected::Some(all)) => all.into_iter().map(Some).collect(),
                Err(Uncollected::Unusable(status)) if !is_shadow => return Err(status.into()),
                Err(Uncollected::Unusable(status)) => {
                    results.misconfigured(attributes, policy, Some(name), is_shadow, &status.message);
                    continue;
                }
                Err(Uncollected::Misconfigured(why)) => {
                    results.misconfigured(attributes, policy, Some(name), is_shadow, &why);
                    continue;
                }
            };
            invocations.extend(parameters.into_iter().map(|parameter| Invocation {
                policy,
                binding: name,
                parameter,
                is_bare,
                is_shadow,
                wanted: wanted.clone(),
            }));
        }
        Ok(invocations)
    }
}

/// Builds the rejection: every failure is a cause, and the first gives the message.
fn refusal(failures: &[Failure<'_>], attributes: &Attributes) -> Status {
    let resource = &attributes.resource;
    let mut status = Status::forbidden(&resource.group, &resource.resource, attributes.name_for_errors(), "");
    if let Some(first) = failures.first() {
        status.message = first.text();
        if let Some(reason) = first.reason {
            status.reason = reason.to_owned();
        }
    }
    if let Some(details) = &mut status.details {
        details.causes = failures.iter().map(|failure| Cause { message: failure.text(), ..Cause::default() }).collect();
    }
    status
}
