//! MutatingAdmissionWebhook's calls: one after the other, each with the object as patched so far (`mutatingDispatcher`).

use super::Manifests;
use super::answer::Response;
use super::call::{CallError, Caller, Outcome, call, settle};
use super::hook::{Hook, Hooks, meets_conditions};
use super::patched::{Patched, decode};
use super::review::Review;
use super::shadow::Shadows;
use crate::admission::metrics::Metrics;
use crate::admission::shadow::Shadows as ShadowNames;
use crate::admission::{Attributes, Denial, Level};
use crate::backend::{Clients, Kubeconfig};
use crate::cluster::discovery::Discovery;
use crate::cluster::{Cluster, Need};
use crate::config::Limits;
use crate::conversion::{Converter, Versioned};
use crate::derived::{Both, Derived};
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::matching::{Candidates, Matcher, Wanted, is_exempt};
use crate::object::patch::admission::{Patch, mutation_annotation, patch_annotation};
use crate::object::{Object, schema, typed};
use crate::status::Status;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::time::Instant;

const PLUGIN: &str = "MutatingAdmissionWebhook";
/// The prefix of the annotation that records whether a called hook changed the object.
const MUTATION: &str = "mutation.webhook.admission.k8s.io/";
/// The prefix of the annotation that records a hook's patch.
const PATCH: &str = "patch.webhook.admission.k8s.io/";
/// The prefix of the annotation that names a hook whose call failed and whose failurePolicy is `Ignore`.
const FAILED_OPEN: &str = "failed-open.mutation.webhook.admission.k8s.io/";

/// The caller of mutating webhooks.
pub struct Mutating {
    cluster: Arc<Cluster>,
    metrics: Arc<Metrics>,
    clients: Clients,
    converter: Converter,
    shadows: ShadowNames,
    manifests: Manifests<MutatingWebhookConfiguration>,
    hooks: Derived<Both<MutatingWebhookConfiguration>, Hooks>,
}

/// The state that the first pass leaves for the second (`webhookReinvokeContext`).
#[derive(Default)]
struct Reinvocation {
    /// Reinvocable hooks that were called since the object last changed.
    called: HashSet<String>,
    /// Hooks to call in the second pass.
    again: HashSet<String>,
    /// The object after the first pass; kept only if `called` is not empty.
    last: Option<Object>,
}

impl Reinvocation {
    fn require(&mut self) {
        self.again.extend(self.called.drain());
    }
}

impl Mutating {
    /// Creates the caller from the cluster's state and the configurations from files; hooks are called as `users`.
    pub fn new(
        cluster: Arc<Cluster>,
        discovery: Arc<Discovery>,
        metrics: Arc<Metrics>,
        limits: &Limits,
        users: Kubeconfig,
        manifests: Manifests<MutatingWebhookConfiguration>,
    ) -> Self {
        let converter = Converter::new(cluster.clone(), discovery, limits, metrics.conversions());
        let clients = Clients::new(limits, users).with_breakers(limits, Caller::Mutating.label(), metrics.clone());
        let shadows = ShadowNames::default();
        Self { cluster, metrics, clients, converter, shadows, manifests, hooks: Derived::default() }
    }

    /// Marks the named hooks as shadow hooks.
    #[must_use]
    pub fn with_shadows(self, shadows: ShadowNames) -> Self {
        Self { shadows, ..self }
    }

    fn hooks(&self) -> Arc<Hooks> {
        let present = || (self.manifests.load(), self.cluster.mutating_webhooks());
        let same = |a: &Both<_>, b: &Both<_>| Arc::ptr_eq(&a.0, &b.0) && Arc::ptr_eq(&a.1, &b.1);
        self.hooks.get(present, same, |(manifests, stored), _| {
            Hooks::mutating(manifests, stored, &self.clients).with_shadows(
                &self.shadows,
                Caller::Mutating.label(),
                self.metrics.shadows(),
            )
        })
    }

    /// Calls the hooks that match the request; they may change its object.
    ///
    /// # Errors
    /// If a hook rejects the request, or fails while its failurePolicy is `Fail`.
    pub async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        // A request on admission configuration matches only hooks from files, so it does not wait for the cluster's configurations.
        let is_exempt = is_exempt(attributes);
        if is_exempt && !self.manifests.is_followed() {
            return Ok(());
        }
        if !is_exempt && !self.cluster.is_synced() && !self.cluster.wait_synced().await {
            return Err(Denial::forbidden("not yet ready to handle request"));
        }
        if !is_exempt {
            self.cluster.check_decodable(&[Need::MUTATING_WEBHOOKS], "")?;
        }
        let hooks = self.hooks();
        let mut candidates = hooks.candidates(attributes, &self.cluster);
        candidates.look_at(attributes, attributes.object.as_ref());
        if candidates.is_done() {
            return Ok(());
        }
        let mut again: Reinvocation = attributes.reinvocation.take(PLUGIN).unwrap_or_default();
        if attributes.reinvocation.is_reinvoke && !again.called.is_empty() && again.last != attributes.object {
            // A plugin changed the object since the first pass.
            again.require();
        }
        let result = self.dispatch(&hooks, candidates, attributes, &mut again).await;
        again.last = if again.called.is_empty() { None } else { attributes.object.clone() };
        attributes.reinvocation.leave(PLUGIN, again);
        result
    }

    /// Whether a hook may match the request, whatever the object contains by then.
    pub fn may_want(&self, attributes: &Attributes) -> bool {
        let is_exempt = is_exempt(attributes);
        if is_exempt && !self.manifests.is_followed() {
            return false;
        }
        let (hooks, matcher) = (self.hooks(), Matcher::new(&self.cluster, &self.converter));
        let mut candidates = hooks.candidates(attributes, &self.cluster);
        !is_exempt && !self.cluster.is_synced()
            || candidates.any(|(_, hook)| matcher.rules_may_match(&hook.criteria, attributes))
    }

    async fn dispatch(
        &self,
        hooks: &Arc<Hooks>,
        mut candidates: Candidates<'_, Hook>,
        attributes: &mut Attributes,
        again: &mut Reinvocation,
    ) -> Result<(), Denial> {
        let mut matcher = Matcher::new(&self.cluster, &self.converter);
        let mut versioned = Versioned::new(&self.converter);
        let mut shadows = Shadows::default();
        // The last review that was sent, without its uid, and the number of conversions until then. `is_outdated`: the object changed
        // since.
        let mut shown: Option<(usize, Wanted, Review)> = None;
        let mut is_outdated = false;
        loop {
            if versioned.is_new() {
                candidates.look_at(attributes, versioned.object(attributes));
                is_outdated = true;
            }
            let Some((index, hook)) = candidates.next() else { break };
            let wanted = match self.wants(hook, attributes, &mut matcher, &mut versioned).await {
                Ok(Some(wanted)) => wanted,
                Ok(None) => continue,
                // A shadow hook reports in the first pass only.
                Err(_) if hook.is_shadow && attributes.reinvocation.is_reinvoke => continue,
                Err(denial) if hook.is_shadow => {
                    shadows.undecided(Caller::Mutating, (hook, index), denial, attributes);
                    continue;
                }
                Err(denial) => return Err(denial),
            };
            // A hook that the first pass did not call is not called in the second.
            if attributes.reinvocation.is_reinvoke && !again.again.contains(&hook.uid) {
                continue;
            }
            if versioned.kind(attributes) != wanted.kind(attributes) {
                let kind = wanted.kind(attributes).clone();
                // kube-apiserver wraps the error twice: in the accessor of the versions and in the accessor's caller.
                let converted = versioned.convert(attributes, &kind).await;
                match converted.map_err(|why| Status::internal_error(Status::internal_error(why))) {
                    Ok(()) => {}
                    Err(status) if hook.is_shadow => {
                        shadows.undecided(Caller::Mutating, (hook, index), status.into(), attributes);
                        continue;
                    }
                    Err(status) => return Err(status.into()),
                }
            }
            let conversions = versioned.conversions();
            let review = match &mut shown {
                Some((at, as_what, review)) if *at == conversions && *as_what == wanted => {
                    if is_outdated {
                        review.set_object(versioned.object(attributes)).map_err(Status::internal_error)?;
                    }
                    review
                }
                other => {
                    let (object, old_object) = (versioned.object(attributes), versioned.old_object(attributes));
                    let review =
                        Review::new(attributes, &wanted, object, old_object).map_err(Status::internal_error)?;
                    &mut other.insert((conversions, wanted, review)).2
                }
            };
            is_outdated = false;
            if hook.is_shadow {
                shadows.call(Caller::Mutating, (hooks, index), attributes, review, &self.cluster);
                continue;
            }
            let started = Instant::now();
            let key = Key::new(attributes, index);
            let called = self.call(hook, attributes, &mut versioned, review, &key).await;
            let changed = matches!(called, Ok(true));
            attributes.annotations.add(key.with(MUTATION), mutation_annotation(&hook.audit_text, changed));
            let outcome =
                settle(Caller::Mutating, hook, attributes, started.elapsed(), called.as_ref().err(), &self.metrics);
            if changed {
                again.require();
                attributes.reinvocation.requested = true;
            }
            if hook.reinvocable {
                again.called.insert(hook.uid.clone());
            }
            match outcome {
                Outcome::Passed => {}
                Outcome::Refused(status) => return Err(status.into()),
                Outcome::FailedOpen => {
                    attributes.annotations.add(key.with(FAILED_OPEN), &*hook.name);
                    if Instant::now() >= attributes.deadline {
                        return Err(Status::timeout("request did not complete within requested timeout").into());
                    }
                }
            }
        }
        shadows.finish(attributes, &self.metrics).await;
        versioned.finish(attributes).await.map_err(|why| Status::plain(why).into())
    }

    /// Returns the kind and resource in which the hook gets the request; `None` if the hook does not match.
    async fn wants(
        &self,
        hook: &Hook,
        attributes: &mut Attributes,
        matcher: &mut Matcher<'_>,
        versioned: &mut Versioned<'_>,
    ) -> Result<Option<Wanted>, Denial> {
        let wanted = matcher.wants(&hook.criteria, attributes, versioned.object(attributes)).await?;
        if hook.conditions.is_empty() {
            return Ok(wanted);
        }
        let Some(wanted) = wanted else { return Ok(None) };
        let kind = wanted.kind(attributes).clone();
        let converted = versioned.convert(attributes, &kind).await;
        // Wrapped twice, as in `dispatch`.
        converted.map_err(|why| Status::internal_error(Status::internal_error(why)))?;
        let view = (&kind, versioned.object(attributes), versioned.old_object(attributes));
        let is_meant = meets_conditions("admit", hook, attributes, view, &self.metrics).await?;
        Ok(if is_meant { Some(wanted) } else { None })
    }

    /// Calls one hook and applies its patch. Returns whether the object changed.
    async fn call(
        &self,
        hook: &Hook,
        attributes: &mut Attributes,
        versioned: &mut Versioned<'_>,
        review: &Review,
        key: &Key,
    ) -> Result<bool, CallError> {
        let response = call(Caller::Mutating, hook, attributes, review, &self.cluster).await?;
        let Some(patch) = decode_patch(&response)? else { return Ok(false) };
        let Some(object) = versioned.object(attributes) else {
            return Err(CallError::internal(format!(
                "admission webhook \"{}\" attempted to modify the object, which is not supported for this operation",
                hook.name
            )));
        };
        if response.patch_type != "JSONPatch" {
            let reason = format!("unsupported patch type \"{}\"", response.patch_type);
            return Err(CallError::in_answer(reason, response.status.map_or(400, |status| status.code.max(400))));
        }
        let kind = versioned.kind(attributes);
        let patched = patch.apply(object).map_err(CallError::internal)?;
        let Patched { object: patched, is_changed: changed } =
            decode((object, versioned.is_defaulted()), patched, kind).map_err(CallError::Internal)?;
        if attributes.annotations.is_published(Level::Request)
            && let Some(text) = patch_annotation(&hook.audit_text, &response.patch)
        {
            attributes.annotations.add_with_level(key.with(PATCH), text, Level::Request);
        }
        let patched = self.with_defaults(patched, &attributes.resource, kind).await?;
        let has_type = typed::has_type(kind);
        versioned.set_object(attributes, patched);
        let loses_times = has_type && std::mem::take(&mut attributes.reinvocation.has_fine_times);
        Ok(changed || loses_times)
    }

    /// Adds the defaults of the schema to a patched custom resource; prunes nothing.
    async fn with_defaults(
        &self,
        mut object: Object,
        resource: &GroupVersionResource,
        kind: &GroupVersionKind,
    ) -> Result<Object, CallError> {
        if schema::of(kind).is_none() {
            let definition = self.cluster.find_definition(resource).await;
            let definition = definition.map_err(|status| CallError::Internal(status.into()))?;
            let version = definition.as_ref().and_then(|definition| definition.version(&kind.version));
            let defaulted = version.map_or(Ok(()), |version| version.apply_defaults(&mut object));
            defaulted.map_err(|status| CallError::Internal(status.into()))?;
        }
        Ok(object)
    }
}

/// Decodes the patch of an answer; `None` if there is nothing to apply.
fn decode_patch(response: &Response) -> Result<Option<Patch>, CallError> {
    if response.patch.is_empty() {
        return Ok(None);
    }
    let patch = Patch::decode(&response.patch)
        .map_err(|why| CallError::in_answer(format!("received undecodable patch in webhook response: {why}"), 503))?;
    Ok(if patch.is_empty() { None } else { Some(patch) })
}

/// The end of the keys of a call's audit annotations.
struct Key(String);

impl Key {
    fn new(attributes: &Attributes, index: usize) -> Self {
        Self(format!("round_{}_index_{index}", u8::from(attributes.reinvocation.is_reinvoke)))
    }

    fn with(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.0)
    }
}
