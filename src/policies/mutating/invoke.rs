//! The calls of the matching policies, one after the other; a policy in shadow mode leaves the object unchanged.

use super::mutate::{Kind, Refusal};
use super::policy::Mutation;
use super::reinvocation::{Key, PolicyReinvocation};
use super::{FAILED, Failure, Invocation, MutatingPolicies, Results};
use crate::admission::metrics::MatchConditions;
use crate::admission::shadow::ShadowVerdict;
use crate::admission::{Attributes, Denial};
use crate::conversion::ConversionError;
use crate::expressions::request::{RequestValues, Shared};
use crate::expressions::reviews::evaluated;
use crate::expressions::{Inputs, Verdict};
use crate::kind::GroupVersionKind;
use crate::matching::{InvocationKind, Versions};
use crate::object::round_trip::InternalValues;
use crate::object::{Object, normal};
use crate::policies::metrics::ErrorType;
use crate::policies::shadow::ShadowDecision;
use crate::status::Status;
use serde_json::{Map, Value as Json};
use std::sync::Arc;
use std::time::Instant;

/// The plugin of the policies.
const PLUGIN: &str = "MutatingAdmissionPolicy";

/// The effects of one policy.
#[derive(Default)]
struct Done {
    is_changed: bool,
    failures: Vec<String>,
}

/// The request in one pass over the policies, and the values that their evaluations share.
pub(super) struct Pass<'a> {
    attributes: &'a mut Attributes,
    versions: Versions,
    namespace: Option<Map<String, Json>>,
    shared: Shared,
    /// The kinds that were looked up so far.
    kinds: Vec<(GroupVersionKind, Arc<Kind>)>,
}

impl<'a> Pass<'a> {
    /// Creates the pass over a request, whose objects are converted to `versions`.
    pub(super) fn new(
        attributes: &'a mut Attributes,
        versions: Versions,
        namespace: Option<Map<String, Json>>,
    ) -> Self {
        let shared = Shared::new(attributes.context.authorizer.clone());
        Self { attributes, versions, namespace, shared, kinds: Vec::new() }
    }
}

impl MutatingPolicies {
    /// Calls the policies one after the other, each with the object as changed so far.
    pub(super) async fn invoke<'a>(
        &self,
        invocations: &[Invocation<'a>],
        pass: &mut Pass<'_>,
        again: &mut PolicyReinvocation,
        results: &mut Results<'a>,
    ) -> Result<(), Denial> {
        let is_reinvoke = pass.attributes.reinvocation.is_reinvoke;
        if is_reinvoke && again.is_changed(pass.attributes.object.as_ref()) {
            // A plugin changed the object since the first pass.
            again.require();
        }
        let kind = &pass.attributes.kind;
        let kept = pass.attributes.object.as_ref().map(|object| InternalValues::of(kind, object.fields()));
        // The kind and resource in which the object was changed last.
        let mut changed = None;
        for invocation in invocations {
            let (policy, wanted) = (invocation.policy, &invocation.wanted);
            let failed =
                |message| Failure { policy, binding: Some(invocation.binding), message, reason: Some("Invalid") };
            let started = Instant::now();
            match self.is_meant(invocation, pass).await {
                Verdict::Matches => {}
                Verdict::Excluded => continue,
                Verdict::Failed(why) => {
                    results.fail(pass.attributes, failed(why), invocation.is_shadow);
                    continue;
                }
            }
            if invocation.is_shadow {
                let (would, binding) = (self.would(invocation, pass).await, Some(invocation.binding));
                results.shadows.report(pass.attributes, &policy.name, binding, &would, started.elapsed());
                continue;
            }
            let key = Key::new(&policy.name, invocation.binding, invocation.parameter.as_deref());
            // A policy that the first pass did not require is not called in the second.
            if is_reinvoke && !again.is_required(&key) {
                continue;
            }
            let names_changes = pass.attributes.annotations.names_changes();
            let before = pass.versions.view(pass.attributes, wanted).object.filter(|_| names_changes).cloned();
            let done = self.run(invocation, pass).await?;
            if let (Some(before), Some(after)) = (&before, pass.versions.view(pass.attributes, wanted).object) {
                pass.attributes.annotations.changed(PLUGIN, Some(&policy.name), before, after);
            }
            if done.is_changed {
                changed = Some(wanted);
            }
            results.failures.extend(done.failures.into_iter().map(failed));
            if policy.rules.is_reinvocable {
                again.add(key);
            }
        }
        let Some(wanted) = changed else { return Ok(()) };
        again.require();
        let Pass { attributes, versions, .. } = pass;
        attributes.reinvocation.requested = true;
        attributes.reinvocation.has_fine_times = false;
        let failed = |why: ConversionError| Status::internal_error(format!("failed to convert object: {why}"));
        if *wanted.kind(attributes) != attributes.kind {
            if let Some(object) = versions.object_mut(attributes, wanted).take() {
                let Attributes { resource, kind, context, .. } = &**attributes;
                let own =
                    self.converter.convert(&object, resource, wanted.kind(attributes), kind, context.deadline).await;
                attributes.object = Some(own.map_err(failed)?);
            }
        } else if let Attributes { kind, object: Some(object), .. } = &mut **attributes {
            normal::round_trip(kind, object, &kept.unwrap_or_default()).map_err(|why| failed(why.into()))?;
        }
        Ok(())
    }

    /// Applies the mutations of one policy to the object, up to the first error that ends the request.
    ///
    /// # Errors
    /// If the error ends the request.
    async fn run(&self, invocation: &Invocation<'_>, pass: &mut Pass<'_>) -> Result<Done, Denial> {
        let (policy, wanted) = (invocation.policy, &invocation.wanted);
        let mut done = Done::default();
        for mutation in &policy.rules.mutations {
            if pass.versions.view(pass.attributes, wanted).object.is_none() {
                break;
            }
            let started = Instant::now();
            let mutated = match self.kind(wanted, pass).await {
                Ok(kind) => self.mutate(invocation, mutation, &kind, pass).await,
                Err(status) => Err(Refusal::Status(status)),
            };
            let observe = |error| {
                if !invocation.is_shadow {
                    self.checks.observe_mutation(&policy.name, invocation.binding, error, started.elapsed());
                }
            };
            match mutated {
                Ok(mutated) => {
                    observe(ErrorType::None);
                    *pass.versions.object_mut(pass.attributes, wanted) = Some(mutated);
                    done.is_changed = true;
                }
                Err(Refusal::Status(status)) => {
                    observe(ErrorType::of(&status.message));
                    return Err(Denial::Status(status));
                }
                Err(Refusal::Error(why)) => {
                    observe(ErrorType::of(&why));
                    done.failures.push(why);
                }
            }
        }
        Ok(done)
    }

    /// Returns the effect that a policy in shadow mode would have; the object stays as it is.
    async fn would(&self, invocation: &Invocation<'_>, pass: &mut Pass<'_>) -> ShadowDecision {
        let wanted = &invocation.wanted;
        let before = pass.versions.view(pass.attributes, wanted).object.cloned();
        let done = self.run(invocation, pass).await;
        let object = pass.versions.object_mut(pass.attributes, wanted);
        let paths = before.as_ref().zip(object.as_ref()).map(|(before, after)| changed_paths(before, after));
        *object = before;
        let paths = paths.unwrap_or_default();
        match done.map(|done| done.failures.into_iter().next()) {
            Err(denial) => {
                let status = denial.into_status(pass.attributes);
                ShadowDecision::fail(false, status.code, status.message)
            }
            Ok(Some(why)) => {
                ShadowDecision { paths, ..ShadowDecision::fail(invocation.policy.ignores_failure, FAILED, why) }
            }
            Ok(None) if paths.is_empty() => ShadowDecision::be(ShadowVerdict::Allowed),
            Ok(None) => ShadowDecision { paths, ..ShadowDecision::be(ShadowVerdict::Changed) },
        }
    }

    /// Whether the request meets the policy's matchConditions.
    async fn is_meant(&self, invocation: &Invocation<'_>, pass: &Pass<'_>) -> Verdict {
        let Pass { attributes, versions, shared, .. } = pass;
        let (policy, operation) = (invocation.policy, attributes.operation);
        let labels = MatchConditions { name: &policy.name, kind: "policy", step: "validate", operation };
        loop {
            let verdict = {
                let view = versions.view(attributes, &invocation.wanted);
                let shown = RequestValues::new(attributes, view, None, shared);
                let parameters = invocation.parameters();
                let inputs = Inputs { variables: &policy.variables, parameters, reads: policy.reads };
                evaluated(|| policy.conditions.evaluate(&shown, inputs, &labels, &self.metrics))
            };
            match verdict {
                Ok(verdict) => return verdict,
                Err(pause) => shared.reviews.end(pause).await,
            }
        }
    }

    /// Applies one mutation, again after each pause.
    async fn mutate(
        &self,
        invocation: &Invocation<'_>,
        mutation: &Mutation,
        kind: &Kind,
        pass: &Pass<'_>,
    ) -> Result<Object, Refusal> {
        let Pass { attributes, versions, shared, .. } = pass;
        let namespace = pass.namespace.as_ref().filter(|_| invocation.policy.reads.namespace);
        loop {
            tokio::task::consume_budget().await;
            let mutated = {
                let view = versions.view(attributes, &invocation.wanted);
                let shown = RequestValues::new(attributes, view, namespace, shared);
                evaluated(|| invocation.mutated(mutation, kind, &shown))
            };
            match mutated {
                Ok(mutated) => return mutated,
                Err(pause) => shared.reviews.end(pause).await,
            }
        }
    }

    /// Looks up the wanted kind, once per request (`TypeConverterManager.GetTypeConverter`).
    async fn kind(&self, wanted: &InvocationKind, pass: &mut Pass<'_>) -> Result<Arc<Kind>, Box<Status>> {
        let kind = wanted.kind(pass.attributes);
        if let Some((_, known)) = pass.kinds.iter().find(|(of, _)| of == kind) {
            return Ok(known.clone());
        }
        let found = Arc::new(Kind::find(&self.cluster, &pass.attributes.resource, kind).await?);
        pass.kinds.push((kind.clone(), found.clone()));
        Ok(found)
    }
}

impl Invocation<'_> {
    /// Returns the parameters for the policy's expressions.
    pub(super) fn parameters(&self) -> Option<&Json> {
        let parameter = self.parameter.as_deref()?;
        Some(if self.is_bare { parameter.bare() } else { parameter.value() })
    }
}

/// Returns the paths at which an object was changed; a list counts as one place.
fn changed_paths(before: &Object, after: &Object) -> Vec<String> {
    fn collect(path: &str, before: &Map<String, Json>, after: &Map<String, Json>, paths: &mut Vec<String>) {
        let below = |key: &String| format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
        paths.extend(before.keys().filter(|key| !after.contains_key(*key)).map(below));
        for (key, value) in after {
            match (before.get(key), value) {
                (Some(old), new) if old == new => {}
                (Some(Json::Object(old)), Json::Object(new)) => collect(&below(key), old, new, paths),
                _ => paths.push(below(key)),
            }
        }
    }
    let mut paths = Vec::new();
    collect("", before.fields(), after.fields(), &mut paths);
    paths
}
