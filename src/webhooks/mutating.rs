//! MutatingAdmissionWebhook's calls: one after the other, each with the object as patched so far (`mutatingDispatcher`).

use super::answer::Response;
use super::call::{CallError, Outcome, WebhookType, call, settle};
use super::hook::{Hook, Hooks, meets_conditions};
use super::machinery::Webhooks;
use super::patched::{Before, Patched, decode};
use super::review::Review;
use super::shadow::ShadowCalls;
use crate::admission::{Attributes, Denial, Level};
use crate::conversion::Versioned;
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::matching::{Candidates, InvocationKind, Matcher, View};
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

/// The plugin's webhooks and their calls.
pub(crate) type MutatingWebhooks = Webhooks<MutatingWebhookConfiguration>;

/// The state that the first pass leaves for the second (`webhookReinvokeContext`).
#[derive(Default)]
struct WebhookReinvocation {
    /// Reinvocable hooks that were called since the object last changed.
    called: HashSet<String>,
    /// Hooks to call in the second pass.
    due: HashSet<String>,
    /// The object after the first pass; kept only if `called` is not empty.
    last: Option<Object>,
}

impl WebhookReinvocation {
    fn require(&mut self) {
        self.due.extend(self.called.drain());
    }
}

/// The review that the last hook got, without its uid. The next hook gets the same if it wants the same kind and resource.
#[derive(Default)]
struct LastReview {
    /// The review, and the number of conversions until then.
    sent: Option<(usize, InvocationKind, Review)>,
    /// Whether the object changed since.
    is_outdated: bool,
}

impl LastReview {
    /// Returns the review for a hook that gets the request as `wanted`, to which the objects are converted already.
    ///
    /// # Errors
    /// If an object cannot be written as JSON.
    fn for_hook(
        &mut self,
        wanted: InvocationKind,
        attributes: &Attributes,
        versioned: &Versioned<'_>,
    ) -> Result<&Review, Status> {
        let conversions = versioned.conversions();
        let sent = match self.sent.take() {
            Some((at, as_what, mut review)) if at == conversions && as_what == wanted => {
                if self.is_outdated {
                    review.set_object(versioned.object(attributes)).map_err(Status::internal_error)?;
                }
                (at, as_what, review)
            }
            _ => {
                let (object, old_object) = (versioned.object(attributes), versioned.old_object(attributes));
                let review = Review::new(attributes, &wanted, object, old_object).map_err(Status::internal_error)?;
                (conversions, wanted, review)
            }
        };
        self.is_outdated = false;
        Ok(&self.sent.insert(sent).2)
    }
}

/// The state of one pass over the hooks.
struct Pass<'a> {
    matcher: Matcher<'a>,
    versioned: Versioned<'a>,
    reinvocation: &'a mut WebhookReinvocation,
}

impl MutatingWebhooks {
    /// Calls the hooks that match the request; they may change its object.
    ///
    /// # Errors
    /// If a hook rejects the request, or fails while its failurePolicy is `Fail`.
    pub(crate) async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        let Some(hooks) = self.ready_hooks(attributes).await? else { return Ok(()) };
        let mut candidates = hooks.candidates(attributes, &self.cluster);
        candidates.narrow(attributes, attributes.object.as_ref());
        if candidates.is_done() {
            return Ok(());
        }
        let mut reinvocation: WebhookReinvocation = attributes.reinvocation.take(PLUGIN).unwrap_or_default();
        if attributes.reinvocation.is_reinvoke
            && !reinvocation.called.is_empty()
            && reinvocation.last != attributes.object
        {
            // A plugin changed the object since the first pass.
            reinvocation.require();
        }
        let result = self.dispatch(&hooks, candidates, attributes, &mut reinvocation).await;
        reinvocation.last = if reinvocation.called.is_empty() { None } else { attributes.object.clone() };
        attributes.reinvocation.leave(PLUGIN, reinvocation);
        result
    }

    async fn dispatch(
        &self,
        hooks: &Arc<Hooks>,
        mut candidates: Candidates<'_, Hook>,
        attributes: &mut Attributes,
        reinvocation: &mut WebhookReinvocation,
    ) -> Result<(), Denial> {
        let matcher = Matcher::new(&self.cluster, &self.converter);
        let mut pass = Pass { matcher, versioned: Versioned::new(&self.converter), reinvocation };
        let mut shadows = ShadowCalls::new(WebhookType::Mutating, hooks);
        let mut last = LastReview::default();
        loop {
            if pass.versioned.is_new() {
                candidates.narrow(attributes, pass.versioned.object(attributes));
                last.is_outdated = true;
            }
            let Some((index, hook)) = candidates.next() else { break };
            let review = match self.review(hook, attributes, &mut pass, &mut last).await {
                Ok(Some(review)) => review,
                Ok(None) => continue,
                // A shadow hook reports in the first pass only.
                Err(_) if hook.is_shadow && attributes.reinvocation.is_reinvoke => continue,
                Err(denial) if hook.is_shadow => {
                    shadows.undecided(index, denial, attributes);
                    continue;
                }
                Err(denial) => return Err(denial),
            };
            if hook.is_shadow {
                shadows.call(index, attributes, review, &self.cluster);
            } else {
                self.run(index, hook, attributes, review, &mut pass).await?;
            }
        }
        shadows.finish(attributes, &self.metrics).await;
        pass.versioned.finish(attributes).await.map_err(|why| Status::plain(why).into())
    }

    /// Returns the review for the hook; `None` if the hook is not called.
    async fn review<'r>(
        &self,
        hook: &Hook,
        attributes: &mut Attributes,
        pass: &mut Pass<'_>,
        last: &'r mut LastReview,
    ) -> Result<Option<&'r Review>, Denial> {
        let Some(wanted) = self.wants(hook, attributes, pass).await? else { return Ok(None) };
        // A hook that the first pass did not call is not called in the second.
        if attributes.reinvocation.is_reinvoke && !pass.reinvocation.due.contains(&hook.uid) {
            return Ok(None);
        }
        convert(&mut pass.versioned, attributes, &wanted).await?;
        Ok(Some(last.for_hook(wanted, attributes, &pass.versioned)?))
    }

    /// Returns the kind and resource in which the hook gets the request; `None` if the hook does not match.
    async fn wants(
        &self,
        hook: &Hook,
        attributes: &mut Attributes,
        pass: &mut Pass<'_>,
    ) -> Result<Option<InvocationKind>, Denial> {
        let Pass { matcher, versioned, .. } = pass;
        let wanted = matcher.wants(&hook.criteria, attributes, versioned.object(attributes)).await?;
        if hook.conditions.is_empty() {
            return Ok(wanted);
        }
        let Some(wanted) = wanted else { return Ok(None) };
        convert(versioned, attributes, &wanted).await?;
        let (kind, resource) = (wanted.kind(attributes), &attributes.resource);
        let (object, old_object) = (versioned.object(attributes), versioned.old_object(attributes));
        let view = View { kind, resource, object, old_object };
        let is_meant = meets_conditions("admit", hook, attributes, view, &self.metrics).await?;
        Ok(if is_meant { Some(wanted) } else { None })
    }

    /// Calls a hook that is not in shadow mode, and records the result.
    ///
    /// # Errors
    /// If the hook rejects the request, or fails while its failurePolicy is `Fail`.
    async fn run(
        &self,
        index: usize,
        hook: &Hook,
        attributes: &mut Attributes,
        review: &Review,
        pass: &mut Pass<'_>,
    ) -> Result<(), Denial> {
        let started = Instant::now();
        let key = Key::new(attributes, index);
        let called = self.call(hook, attributes, &mut pass.versioned, review, &key).await;
        let changed = matches!(called, Ok(true));
        attributes.annotations.add(key.with(MUTATION), mutation_annotation(&hook.audit_text, changed));
        let error = called.as_ref().err();
        let outcome = settle(WebhookType::Mutating, hook, attributes, started.elapsed(), error, &self.metrics);
        if changed {
            pass.reinvocation.require();
            attributes.reinvocation.requested = true;
        }
        if hook.reinvocable {
            pass.reinvocation.called.insert(hook.uid.clone());
        }
        match outcome {
            Outcome::Passed => Ok(()),
            Outcome::Refused(status) => Err(status.into()),
            Outcome::FailedOpen => {
                attributes.annotations.add(key.with(FAILED_OPEN), &*hook.name);
                if Instant::now() >= attributes.context.deadline {
                    return Err(Status::timeout("request did not complete within requested timeout").into());
                }
                Ok(())
            }
        }
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
        let response = call(WebhookType::Mutating, hook, attributes, review, &self.cluster).await?;
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
        let before = Before { object, is_defaulted: versioned.is_defaulted(), defaulting: attributes.defaulting };
        let Patched { object: patched, is_changed: changed } =
            decode(before, patched, kind).map_err(CallError::Internal)?;
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

/// Converts the objects to the kind in which a hook wants them.
///
/// # Errors
/// If an object cannot be converted.
async fn convert(
    versioned: &mut Versioned<'_>,
    attributes: &mut Attributes,
    wanted: &InvocationKind,
) -> Result<(), Status> {
    if versioned.kind(attributes) == wanted.kind(attributes) {
        return Ok(());
    }
    let kind = wanted.kind(attributes).clone();
    let converted = versioned.convert(attributes, &kind).await;
    // kube-apiserver wraps the error twice: in the accessor of the versions and in the accessor's caller.
    converted.map_err(|why| Status::internal_error(Status::internal_error(why)))
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
