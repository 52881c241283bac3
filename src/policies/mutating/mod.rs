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

use super::Audience;
use super::binding::MUTATING_BINDINGS;
use super::files::{Files, follow};
use super::metrics::Checks;
use super::parameters::{Collected, Uncollected, check_kind, collect};
use super::shadow::{Shadows, Would};
use super::source::{Hook, Shadowing, Source};
use crate::admission::metrics::Metrics;
use crate::admission::{Attributes, BuildError, Denial, Environment};
use crate::cluster::{Cluster, Need, Parameter};
use crate::conversion::Converter;
use crate::expressions::request::{namespace_name, namespace_value};
use crate::manifests;
use crate::matching::{Matcher, Versions, Wanted};
use crate::status::{Cause, Status};
use k8s_openapi::api::admissionregistration::v1::MutatingAdmissionPolicyBinding;
pub(in crate::policies) use policy::Mutations;
use policy::Policy;
use reinvocation::Reinvocation;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const PLUGIN: &str = "MutatingAdmissionPolicy";
/// The code of the rejection when a policy fails.
const FAILED: u16 = 403;
type MutatingHook = Hook<Mutations, MutatingAdmissionPolicyBinding>;
/// The policies of a folder.
type MutatingFiles = manifests::Source<Files<Mutations, MutatingAdmissionPolicyBinding>>;

/// The plugin that applies MutatingAdmissionPolicies.
pub struct Mutating {
    cluster: Arc<Cluster>,
    metrics: Arc<Metrics>,
    checks: Checks,
    converter: Converter,
    source: Source<Mutations, MutatingAdmissionPolicyBinding>,
}

/// A call of a policy for one binding and one parameter (`generic.PolicyInvocation`).
struct Invocation<'a> {
    policy: &'a Policy,
    binding: &'a str,
    parameter: Option<Arc<Parameter>>,
    /// Whether expressions get the parameter without its apiVersion and kind.
    is_bare: bool,
    /// Whether the policy is in shadow mode: its effect is only reported.
    is_shadow: bool,
    wanted: Wanted,
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

/// The errors of policies, and the reports of those in shadow mode.
struct Told<'a> {
    failures: Vec<Failure<'a>>,
    shadows: Shadows<'a>,
}

impl<'a> Told<'a> {
    fn fail(&mut self, attributes: &Attributes, failure: Failure<'a>, is_shadow: bool) {
        let Failure { policy, binding, message, .. } = &failure;
        if is_shadow {
            let would = Would::fail(policy.ignores_failure, FAILED, &**message);
            self.shadows.tell(attributes, (&policy.name, *binding), &would, Duration::ZERO);
        } else {
            self.failures.push(failure);
        }
    }
}

/// Follows the folder of static manifests that the plugin's configuration names, if it names one.
///
/// # Errors
/// If the files in the folder cannot be used.
pub(crate) fn mutating_files(
    folder: Option<PathBuf>,
    environment: &Environment<'_>,
) -> Result<MutatingFiles, BuildError> {
    follow(folder, "MutatingAdmissionPolicy", environment)
}

impl Mutating {
    /// Creates the plugin from the cluster's state and the policies from files.
    ///
    /// # Errors
    /// If the plugin's metrics are registered already.
    pub(crate) fn new(environment: &Environment<'_>, files: MutatingFiles) -> prometheus::Result<Self> {
        let Environment { cluster, discovery, metrics, limits, policies, .. } = environment;
        let shadows = Shadowing { named: policies.shadows.clone(), step: "admit", metrics: metrics.shadows().clone() };
        Ok(Self {
            checks: metrics.registry().once("mutating", Checks::mutating)?,
            converter: Converter::new(cluster.clone(), discovery.clone(), limits, metrics.conversions()),
            source: Source::new(cluster.clone(), discovery.clone(), files, shadows),
            cluster: cluster.clone(),
            metrics: metrics.clone(),
        })
    }

    /// Returns the invalid policies, each with its error.
    pub fn problems(&self) -> Vec<String> {
        let policies = self.source.policies();
        policies.problems().map(|(name, why)| format!("MutatingAdmissionPolicy {name}: {why}")).collect()
    }

    /// Whether a policy may match the request, whatever the object contains by then.
    pub fn may_want(&self, attributes: &Attributes) -> bool {
        let Some(audience) = self.source.audience(attributes) else { return false };
        let (policies, matcher) = (self.source.policies(), Matcher::new(&self.cluster, &self.converter));
        let mut candidates = policies.candidates(audience, attributes, &self.cluster);
        let may_be = |(_, hook): (usize, &MutatingHook)| {
            hook.policy.criteria.as_ref().is_none_or(|criteria| matcher.rules_may_match(criteria, attributes))
        };
        (audience == Audience::All && !self.cluster.is_synced()) || candidates.any(may_be)
    }

    /// Calls the policies that match the request; they may change its object.
    ///
    /// # Errors
    /// If a policy fails whose failurePolicy is `Fail`.
    pub async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let Some(audience) = self.source.audience(attributes) else { return Ok(()) };
        // A request on policies or bindings matches only policies from files, so it does not wait for the cluster's policies.
        if audience == Audience::All && !self.cluster.is_synced() && !self.cluster.wait_synced().await {
            return Err(Denial::forbidden("not yet ready to handle request"));
        }
        if audience == Audience::All {
            self.cluster.check_decodable(&[Need::MUTATING_POLICIES, MUTATING_BINDINGS], "")?;
        }
        let policies = self.source.policies();
        let mut hooks = policies.candidates(audience, attributes, &self.cluster);
        hooks.look_at(attributes, attributes.object.as_ref());
        if hooks.is_done() {
            return Ok(());
        }
        let mut matcher = Matcher::new(&self.cluster, &self.converter);
        let mut told = Told { failures: Vec::new(), shadows: Shadows::new("admit", &self.metrics) };
        let (mut invocations, mut versions) = (Vec::new(), Versions::default());
        for (_, hook) in hooks {
            self.collect(hook, attributes, (&mut matcher, &mut versions), &mut invocations, &mut told).await?;
        }
        let namespace = match namespace_name(attributes).filter(|_| !invocations.is_empty()) {
            None => Ok(None),
            Some(name) => matcher.namespace(name).await.map(|namespace| Some(namespace_value(&namespace))),
        };
        match namespace {
            Err(status) if invocations.iter().any(|invocation| !invocation.is_shadow) => return Err(status.into()),
            Err(status) => {
                for Invocation { policy, binding, .. } in &invocations {
                    let would = Would::fail(false, status.code, &*status.message);
                    told.shadows.tell(attributes, (&policy.name, Some(*binding)), &would, Duration::ZERO);
                }
            }
            Ok(namespace) if !invocations.is_empty() => {
                let mut again: Reinvocation = attributes.reinvocation.take(PLUGIN).unwrap_or_default();
                let of = (&mut *attributes, &mut versions);
                let result = self.invoke(&invocations, namespace, of, &mut again, &mut told).await;
                again.remember(attributes.object.as_ref());
                attributes.reinvocation.leave(PLUGIN, again);
                result?;
            }
            Ok(_) => {}
        }
        told.failures.retain(|failure| !failure.policy.ignores_failure);
        match told.failures.as_slice() {
            [] => Ok(()),
            failures => Err(refusal(failures, attributes).into()),
        }
    }

    /// Collects the calls of one policy.
    ///
    /// # Errors
    /// If the parameters of the policy cannot be known.
    async fn collect<'a>(
        &self,
        hook: &'a MutatingHook,
        attributes: &Attributes,
        (matcher, versions): (&mut Matcher<'_>, &mut Versions),
        invocations: &mut Vec<Invocation<'a>>,
        told: &mut Told<'a>,
    ) -> Result<(), Denial> {
        let policy = &*hook.policy;
        let is_second = attributes.reinvocation.is_reinvoke;
        let mut misconfigured = |(binding, is_shadow): (Option<&'a str>, bool), why: String| {
            let what = if binding.is_some() { "binding" } else { "policy" };
            let message = format!("failed to configure {what}: {why}");
            told.fail(attributes, Failure { policy, binding, message, reason: None }, is_shadow);
        };
        if hook.is_shadow() && is_second {
            return Ok(());
        }
        let matched = match &policy.criteria {
            None => Err("policy contained no match constraints, a required field".to_owned()),
            Some(criteria) => {
                let wanted = matcher.wants(criteria, attributes, attributes.object.as_ref()).await;
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
            Err(why) => {
                misconfigured((None, hook.is_shadow()), why);
                return Ok(());
            }
        };
        for (binding, is_shadow) in hook.bound().filter(|(_, is_shadow)| !(*is_shadow && is_second)) {
            let name = &*binding.name;
            match &binding.criteria {
                None => {}
                Some(criteria) => match matcher.wants(criteria, attributes, attributes.object.as_ref()).await {
                    Ok(None) => continue,
                    Ok(Some(_)) => {}
                    Err(status) => {
                        misconfigured((Some(name), is_shadow), status.message);
                        continue;
                    }
                },
            }
            if let Err(why) = versions.prepare(&self.converter, attributes, &wanted).await {
                misconfigured((None, is_shadow), why);
                continue;
            }
            let (kind, reference) = (policy.parameter_kind.as_ref(), binding.parameters.as_deref());
            let collected = collect(kind, hook.parameters.as_ref(), reference, &attributes.namespace).await;
            let parameters = match collected {
                Ok(Collected::None) => vec![None],
                Ok(Collected::Some(all)) => all.into_iter().map(Some).collect(),
                Err(Uncollected::Unusable(status)) if !is_shadow => return Err(status.into()),
                Err(Uncollected::Misconfigured(why) | Uncollected::Unusable(Status { message: why, .. })) => {
                    misconfigured((Some(name), is_shadow), why);
                    continue;
                }
            };
            let is_bare = matches!(&hook.parameters, Some(Ok(parameters)) if parameters.is_built_in());
            invocations.extend(parameters.into_iter().map(|parameter| Invocation {
                policy,
                binding: name,
                parameter,
                is_bare,
                is_shadow,
                wanted: wanted.clone(),
            }));
        }
        Ok(())
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
