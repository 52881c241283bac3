//! MutatingAdmissionPolicy: what policies make of a request's object (`mutating.dispatcher`).

mod apply;
mod json_patch;
mod mutate;
mod names;
mod policy;
mod reinvocation;
#[cfg(test)]
mod tests;

use super::Audience;
use super::conditions::{Beside, Verdict};
use super::files::{Files, follow};
use super::metrics::{Checks, ErrorType};
use super::parameters::{Collected, check_kind, collect};
use super::request::{Shown, namespace_name, namespace_value};
use super::reviews::Reviews;
use super::source::{Hook, Source};
use super::versions::Versions;
use crate::admission::metrics::{MatchConditions, Metrics};
use crate::admission::{Attributes, BuildError, Denial, Environment};
use crate::cel::work;
use crate::cluster::discovery::Discovery;
use crate::cluster::{Cluster, Parameter};
use crate::config::Limits;
use crate::conversion::Converter;
use crate::manifests;
use crate::object::{GroupVersionKind, Object};
use crate::status::{Cause, Status};
use crate::webhooks::matching::{Matcher, Wanted};
use k8s_openapi::api::admissionregistration::v1::MutatingAdmissionPolicyBinding;
use mutate::{Kind, Refusal};
use policy::{Mutation, Policy};
use reinvocation::{Key, Reinvocation};
use serde_json::{Map, Value as Json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

const PLUGIN: &str = "MutatingAdmissionPolicy";
type MutatingHook = Hook<Policy, MutatingAdmissionPolicyBinding>;
/// The policies of a folder.
type MutatingFiles = manifests::Source<Files<Policy, MutatingAdmissionPolicyBinding>>;

/// Applies MutatingAdmissionPolicies.
pub struct Mutating {
    cluster: Arc<Cluster>,
    metrics: Arc<Metrics>,
    checks: Checks,
    converter: Converter,
    source: Source<Policy, MutatingAdmissionPolicyBinding>,
}

/// A policy that is asked for a binding with a parameter (`generic.PolicyInvocation`).
struct Invocation<'a> {
    policy: &'a Policy,
    binding: &'a str,
    parameter: Option<Arc<Parameter>>,
    /// Whether the parameter does not say what it is.
    is_bare: bool,
    wanted: Wanted,
}

/// Something that went wrong with a policy (`generic.PolicyError`).
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

/// Follows the folder that the plugin's configuration names, if it names one.
///
/// # Errors
/// When what is there cannot be used.
pub(crate) fn mutating_files(
    folder: Option<PathBuf>,
    environment: &Environment<'_>,
) -> Result<MutatingFiles, BuildError> {
    follow(folder, "MutatingAdmissionPolicy", environment)
}

impl Mutating {
    /// With this state of the cluster, and these policies from files.
    ///
    /// # Errors
    /// When its metrics are registered already.
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        discovery: Arc<Discovery>,
        metrics: Arc<Metrics>,
        limits: &Limits,
        files: MutatingFiles,
    ) -> prometheus::Result<Self> {
        let checks = Checks::mutating(metrics.registry())?;
        let converter = Converter::new(cluster.clone(), discovery.clone(), limits);
        Ok(Self { source: Source::new(cluster.clone(), discovery, files), cluster, metrics, checks, converter })
    }

    /// The policies with a mistake in them, and what it is.
    pub fn problems(&self) -> Vec<String> {
        let policies = self.source.policies();
        policies.problems().map(|(name, why)| format!("MutatingAdmissionPolicy {name}: {why}")).collect()
    }

    /// Whether a policy may be for the request, whatever is in its object by then.
    pub fn may_want(&self, attributes: &Attributes) -> bool {
        let Some(audience) = self.source.audience(attributes) else { return false };
        let (policies, matcher) = (self.source.policies(), Matcher::new(&self.cluster, &self.converter));
        let mut candidates = policies.candidates(audience, attributes);
        let may_be = |hook: &MutatingHook| {
            hook.policy.criteria.as_ref().is_none_or(|criteria| matcher.rules_may_match(criteria, attributes))
        };
        (audience == Audience::All && !self.cluster.is_synced()) || candidates.any(may_be)
    }

    /// Asks the policies that are for the request; they may change its object.
    ///
    /// # Errors
    /// When one of them fails and minds.
    pub async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let Some(audience) = self.source.audience(attributes) else { return Ok(()) };
        // What only policies from files see does not wait for others.
        if audience == Audience::All && !self.cluster.is_synced() && !self.cluster.wait_synced().await {
            return Err(Denial::forbidden("not yet ready to handle request"));
        }
        let policies = self.source.policies();
        let mut hooks = policies.candidates(audience, attributes).peekable();
        if hooks.peek().is_none() {
            return Ok(());
        }
        let mut matcher = Matcher::new(&self.cluster, &self.converter);
        let (mut invocations, mut failures, mut versions) = (Vec::new(), Vec::new(), Versions::default());
        for hook in hooks {
            self.collect(hook, attributes, (&mut matcher, &mut versions), &mut invocations, &mut failures).await;
        }
        if !invocations.is_empty() {
            let namespace = match namespace_name(attributes) {
                Some(name) => Some(namespace_value(&*matcher.namespace(name).await?)),
                None => None,
            };
            let mut again: Reinvocation = attributes.reinvocation.take(PLUGIN).unwrap_or_default();
            let result =
                self.invoke(&invocations, namespace, (attributes, &mut versions), &mut again, &mut failures).await;
            again.remember(attributes.object.as_ref());
            attributes.reinvocation.leave(PLUGIN, again);
            result?;
        }
        failures.retain(|failure| !failure.policy.ignores_failure);
        match failures.as_slice() {
            [] => Ok(()),
            failures => Err(refusal(failures, attributes).into()),
        }
    }

    /// What is to be asked of one policy.
    async fn collect<'a>(
        &self,
        hook: &'a MutatingHook,
        attributes: &Attributes,
        (matcher, versions): (&mut Matcher<'_>, &mut Versions),
        invocations: &mut Vec<Invocation<'a>>,
        failures: &mut Vec<Failure<'a>>,
    ) {
        let policy = &*hook.policy;
        let mut misconfigured = |binding: Option<&'a str>, why: String| {
            let what = if binding.is_some() { "binding" } else { "policy" };
            let message = format!("failed to configure {what}: {why}");
            failures.push(Failure { policy, binding, message, reason: None });
        };
        let matched = match &policy.criteria {
            None => Err("policy contained no match constraints, a required field".to_owned()),
            Some(criteria) => {
                let wanted = matcher.wants(criteria, attributes, attributes.object.as_ref()).await;
                wanted.map_err(|status| status.message)
            }
        };
        let wanted = match matched {
            Ok(None) => return,
            Ok(Some(wanted)) => check_kind(hook.parameters.as_ref()).await.map(|()| wanted),
            Err(why) => Err(why),
        };
        let wanted = match wanted {
            Ok(wanted) => wanted,
            Err(why) => return misconfigured(None, why),
        };
        for binding in &hook.bindings {
            let name = &*binding.name;
            match &binding.criteria {
                None => {}
                Some(criteria) => match matcher.wants(criteria, attributes, attributes.object.as_ref()).await {
                    Ok(None) => continue,
                    Ok(Some(_)) => {}
                    Err(status) => {
                        misconfigured(Some(name), status.message);
                        continue;
                    }
                },
            }
            if let Err(why) = versions.prepare(&self.converter, attributes, &wanted).await {
                misconfigured(None, why);
                continue;
            }
            let (kind, reference) = (policy.parameter_kind.as_ref(), binding.parameters.as_deref());
            let collected = collect(kind, hook.parameters.as_ref(), reference, &attributes.namespace).await;
            let parameters = match collected {
                Ok(Collected::None) => vec![None],
                Ok(Collected::Some(all)) => all.into_iter().map(Some).collect(),
                Err(why) => {
                    misconfigured(Some(name), why);
                    continue;
                }
            };
            let is_bare = matches!(&hook.parameters, Some(Ok(parameters)) if parameters.is_built_in());
            invocations.extend(parameters.into_iter().map(|parameter| Invocation {
                policy,
                binding: name,
                parameter,
                is_bare,
                wanted: wanted.clone(),
            }));
        }
    }

    /// Asks them one after the other, each with the object as changed so far.
    async fn invoke<'a>(
        &self,
        invocations: &[Invocation<'a>],
        namespace: Option<Map<String, Json>>,
        (attributes, versions): (&mut Attributes, &mut Versions),
        again: &mut Reinvocation,
        failures: &mut Vec<Failure<'a>>,
    ) -> Result<(), Denial> {
        if attributes.reinvocation.is_reinvoke && again.is_changed(attributes.object.as_ref()) {
            // A plugin changed the object since the first pass.
            again.require();
        }
        let reviews = Reviews::new(attributes.authorizer.clone());
        let mut kinds: Vec<(GroupVersionKind, Kind)> = Vec::new();
        // As what the object was changed last.
        let mut changed = None;
        for invocation in invocations {
            let (policy, wanted) = (invocation.policy, &invocation.wanted);
            let failed =
                |message| Failure { policy, binding: Some(invocation.binding), message, reason: Some("Invalid") };
            match self.is_meant(invocation, attributes, versions, &reviews).await {
                Verdict::Matches => {}
                Verdict::Excluded => continue,
                Verdict::Failed(why) => {
                    failures.push(failed(why));
                    continue;
                }
            }
            let key = Key::new(&policy.name, invocation.binding, invocation.parameter.as_deref());
            // What the first pass did not ask for is not asked for in the second.
            if attributes.reinvocation.is_reinvoke && !again.is_required(&key) {
                continue;
            }
            for mutation in &policy.mutations {
                if versions.view(attributes, wanted).object.is_none() {
                    break;
                }
                let started = Instant::now();
                let mutated = match self.kind(attributes, wanted, &mut kinds).await {
                    Ok(kind) => {
                        let namespace = namespace.as_ref().filter(|_| policy.looks.at_namespace);
                        let of = (&*attributes, &*versions);
                        self.mutate(invocation, (mutation, kind), namespace, of, &reviews).await
                    }
                    Err(status) => Err(Refusal::Status(status)),
                };
                let observe = |error| {
                    let on = (&*policy.name, invocation.binding);
                    self.checks.observe_mutation(on, error, started.elapsed());
                };
                match mutated {
                    Ok(mutated) => {
                        observe(ErrorType::None);
                        *versions.object_mut(attributes, wanted) = Some(mutated);
                        changed = Some(wanted);
                    }
                    Err(Refusal::Status(status)) => {
                        observe(ErrorType::of(&status.message));
                        return Err(Denial::Status(status));
                    }
                    Err(Refusal::Error(why)) => {
                        observe(ErrorType::of(&why));
                        failures.push(failed(why));
                    }
                }
            }
            if policy.is_reinvocable {
                again.add(key);
            }
        }
        let Some(wanted) = changed else { return Ok(()) };
        again.require();
        attributes.reinvocation.requested = true;
        if let Wanted::As(_) = wanted
            && let Some(object) = versions.object_mut(attributes, wanted).take()
        {
            let Attributes { resource, kind, deadline, .. } = &*attributes;
            let own = self.converter.convert(&object, resource, wanted.kind(attributes), kind, *deadline).await;
            let failed = |why| Status::internal_error(format!("failed to convert object: {why}"));
            attributes.object = Some(own.map_err(failed)?);
        }
        Ok(())
    }

    /// Whether the policy's matchConditions let it be asked.
    async fn is_meant(
        &self,
        invocation: &Invocation<'_>,
        attributes: &Attributes,
        versions: &Versions,
        reviews: &Reviews,
    ) -> Verdict {
        let policy = invocation.policy;
        let operation = attributes.operation;
        let labels = MatchConditions { name: &policy.name, kind: "policy", step: "validate", operation };
        loop {
            let verdict = {
                let view = versions.view(attributes, &invocation.wanted);
                let shown = Shown::new(attributes, view, None, reviews);
                let parameters = invocation.parameters();
                let beside = Beside { variables: &policy.variables, parameters, looks: policy.looks };
                policy.conditions.evaluate(&shown, beside, &labels, &self.metrics)
            };
            match verdict {
                Ok(verdict) => return verdict,
                Err(review) => reviews.ask(*review).await,
            }
        }
    }

    /// What one mutation makes of the object.
    async fn mutate(
        &self,
        invocation: &Invocation<'_>,
        (mutation, kind): (&Mutation, &Kind),
        namespace: Option<&Map<String, Json>>,
        (attributes, versions): (&Attributes, &Versions),
        reviews: &Reviews,
    ) -> Result<Object, Refusal> {
        loop {
            tokio::task::consume_budget().await;
            let mutated = {
                let view = versions.view(attributes, &invocation.wanted);
                let shown = Shown::new(attributes, view, namespace, reviews);
                work::bounded(|| invocation.mutated(mutation, kind, &shown))
            };
            match mutated {
                Ok(mutated) => return mutated,
                Err(review) => reviews.ask(*review).await,
            }
        }
    }

    /// What is known of the kind that is wanted (`TypeConverterManager.GetTypeConverter`).
    async fn kind<'k>(
        &self,
        attributes: &Attributes,
        wanted: &Wanted,
        known: &'k mut Vec<(GroupVersionKind, Kind)>,
    ) -> Result<&'k Kind, Box<Status>> {
        let kind = wanted.kind(attributes);
        let at = match known.iter().position(|(of, _)| of == kind) {
            Some(at) => at,
            None => {
                known.push((kind.clone(), Kind::find(&self.cluster, &attributes.resource, kind).await?));
                known.len() - 1
            }
        };
        known.get(at).map(|(_, kind)| kind).ok_or_else(|| Box::new(Status::internal_error("no kind")))
    }
}

impl Invocation<'_> {
    fn parameters(&self) -> Option<&Json> {
        let parameter = self.parameter.as_deref()?;
        Some(if self.is_bare { parameter.bare() } else { parameter.value() })
    }
}

/// The refusal: all that went wrong, in the words of the first.
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
