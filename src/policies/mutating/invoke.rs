//! The calls of the matching policies, one after the other; a policy in shadow mode leaves the object unchanged.

use super::mutate::{Kind, Refusal};
use super::policy::Mutation;
use super::reinvocation::{Key, Reinvocation};
use super::{FAILED, Failure, Invocation, Mutating, Told};
use crate::admission::metrics::MatchConditions;
use crate::admission::shadow::Decision;
use crate::admission::{Attributes, Denial};
use crate::expressions::request::{Shared, Shown};
use crate::expressions::reviews::evaluated;
use crate::expressions::{Beside, Verdict};
use crate::kind::GroupVersionKind;
use crate::matching::{Versions, Wanted};
use crate::object::round_trip::Kept;
use crate::object::{Object, normal};
use crate::policies::metrics::ErrorType;
use crate::policies::shadow::Would;
use crate::status::Status;
use serde_json::{Map, Value as Json};
use std::time::Instant;

/// The effects of one policy.
#[derive(Default)]
struct Done {
    is_changed: bool,
    failures: Vec<String>,
}

/// The kinds that were looked up so far.
type Kinds = Vec<(GroupVersionKind, Kind)>;

impl Mutating {
    /// Calls the policies one after the other, each with the object as changed so far.
    pub(super) async fn invoke<'a>(
        &self,
        invocations: &[Invocation<'a>],
        namespace: Option<Map<String, Json>>,
        (attributes, versions): (&mut Attributes, &mut Versions),
        again: &mut Reinvocation,
        told: &mut Told<'a>,
    ) -> Result<(), Denial> {
        if attributes.reinvocation.is_reinvoke && again.is_changed(attributes.object.as_ref()) {
            // A plugin changed the object since the first pass.
            again.require();
        }
        let shared = Shared::new(attributes.authorizer.clone());
        let mut kinds = Kinds::new();
        let kept = attributes.object.as_ref().map(|object| Kept::of(&attributes.kind, object.fields()));
        // The kind and resource in which the object was changed last.
        let mut changed = None;
        for invocation in invocations {
            let (policy, wanted) = (invocation.policy, &invocation.wanted);
            let failed =
                |message| Failure { policy, binding: Some(invocation.binding), message, reason: Some("Invalid") };
            let started = Instant::now();
            match self.is_meant(invocation, attributes, versions, &shared).await {
                Verdict::Matches => {}
                Verdict::Excluded => continue,
                Verdict::Failed(why) => {
                    told.fail(attributes, failed(why), invocation.is_shadow);
                    continue;
                }
            }
            let beside = (namespace.as_ref(), &shared, &mut kinds);
            if invocation.is_shadow {
                let would = self.would(invocation, (attributes, versions), beside).await;
                let of = (&*policy.name, Some(invocation.binding));
                told.shadows.tell(attributes, of, &would, started.elapsed());
                continue;
            }
            let key = Key::new(&policy.name, invocation.binding, invocation.parameter.as_deref());
            // A policy that the first pass did not require is not called in the second.
            if attributes.reinvocation.is_reinvoke && !again.is_required(&key) {
                continue;
            }
            let done = self.run(invocation, (attributes, versions), beside).await?;
            if done.is_changed {
                changed = Some(wanted);
            }
            told.failures.extend(done.failures.into_iter().map(failed));
            if policy.rules.is_reinvocable {
                again.add(key);
            }
        }
        let Some(wanted) = changed else { return Ok(()) };
        again.require();
        attributes.reinvocation.requested = true;
        attributes.reinvocation.has_fine_times = false;
        let failed = |why| Status::internal_error(format!("failed to convert object: {why}"));
        if *wanted.kind(attributes) != attributes.kind {
            if let Some(object) = versions.object_mut(attributes, wanted).take() {
                let Attributes { resource, kind, deadline, .. } = &*attributes;
                let own = self.converter.convert(&object, resource, wanted.kind(attributes), kind, *deadline).await;
                attributes.object = Some(own.map_err(failed)?);
            }
        } else if let Attributes { kind, object: Some(object), .. } = attributes {
            normal::round_trip(kind, object, &kept.unwrap_or_default()).map_err(failed)?;
        }
        Ok(())
    }

    /// Applies the mutations of one policy to the object, up to the first error that ends the request.
    ///
    /// # Errors
    /// If the error ends the request.
    async fn run(
        &self,
        invocation: &Invocation<'_>,
        (attributes, versions): (&mut Attributes, &mut Versions),
        (namespace, shared, kinds): (Option<&Map<String, Json>>, &Shared, &mut Kinds),
    ) -> Result<Done, Denial> {
        let (policy, wanted) = (invocation.policy, &invocation.wanted);
        let namespace = namespace.filter(|_| policy.looks.at_namespace);
        let mut done = Done::default();
        for mutation in &policy.rules.mutations {
            if versions.view(attributes, wanted).object.is_none() {
                break;
            }
            let started = Instant::now();
            let mutated = match self.kind(attributes, wanted, kinds).await {
                Ok(kind) => {
                    let of = (&*attributes, &*versions);
                    self.mutate(invocation, (mutation, kind), namespace, of, shared).await
                }
                Err(status) => Err(Refusal::Status(status)),
            };
            let observe = |error| {
                let on = (&*policy.name, invocation.binding);
                if !invocation.is_shadow {
                    self.checks.observe_mutation(on, error, started.elapsed());
                }
            };
            match mutated {
                Ok(mutated) => {
                    observe(ErrorType::None);
                    *versions.object_mut(attributes, wanted) = Some(mutated);
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
    async fn would(
        &self,
        invocation: &Invocation<'_>,
        (attributes, versions): (&mut Attributes, &mut Versions),
        beside: (Option<&Map<String, Json>>, &Shared, &mut Kinds),
    ) -> Would {
        let wanted = &invocation.wanted;
        let before = versions.view(attributes, wanted).object.cloned();
        let done = self.run(invocation, (&mut *attributes, &mut *versions), beside).await;
        let object = versions.object_mut(attributes, wanted);
        let paths = before.as_ref().zip(object.as_ref()).map(|(before, after)| changed_paths(before, after));
        *object = before;
        let paths = paths.unwrap_or_default();
        match done.map(|done| done.failures.into_iter().next()) {
            Err(denial) => {
                let status = denial.into_status(attributes);
                Would::fail(false, status.code, status.message)
            }
            Ok(Some(why)) => Would { paths, ..Would::fail(invocation.policy.ignores_failure, FAILED, why) },
            Ok(None) if paths.is_empty() => Would::be(Decision::Allowed),
            Ok(None) => Would { paths, ..Would::be(Decision::Changed) },
        }
    }

    /// Whether the request meets the policy's matchConditions.
    async fn is_meant(
        &self,
        invocation: &Invocation<'_>,
        attributes: &Attributes,
        versions: &Versions,
        shared: &Shared,
    ) -> Verdict {
        let policy = invocation.policy;
        let operation = attributes.operation;
        let labels = MatchConditions { name: &policy.name, kind: "policy", step: "validate", operation };
        loop {
            let verdict = {
                let view = versions.view(attributes, &invocation.wanted);
                let shown = Shown::new(attributes, view, None, shared);
                let parameters = invocation.parameters();
                let beside = Beside { variables: &policy.variables, parameters, looks: policy.looks };
                evaluated(|| policy.conditions.evaluate(&shown, beside, &labels, &self.metrics))
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
        (mutation, kind): (&Mutation, &Kind),
        namespace: Option<&Map<String, Json>>,
        (attributes, versions): (&Attributes, &Versions),
        shared: &Shared,
    ) -> Result<Object, Refusal> {
        loop {
            tokio::task::consume_budget().await;
            let mutated = {
                let view = versions.view(attributes, &invocation.wanted);
                let shown = Shown::new(attributes, view, namespace, shared);
                evaluated(|| invocation.mutated(mutation, kind, &shown))
            };
            match mutated {
                Ok(mutated) => return mutated,
                Err(pause) => shared.reviews.end(pause).await,
            }
        }
    }

    /// Looks up the wanted kind, once per request (`TypeConverterManager.GetTypeConverter`).
    async fn kind<'k>(
        &self,
        attributes: &Attributes,
        wanted: &Wanted,
        known: &'k mut Kinds,
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
