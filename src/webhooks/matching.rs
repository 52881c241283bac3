//! Whether a hook is to be called for a request (`generic.Webhook.ShouldCallHook`).

use super::hook::Hook;
use crate::admission::{Attributes, Denial, Operation};
use crate::cluster::{Cluster, Namespace};
use crate::conversion::{Converter, Equivalent};
use crate::object::{GroupVersionKind, GroupVersionResource, Object};
use crate::status::Status;
use std::sync::Arc;

/// Kinds of `admissionregistration.k8s.io` that no webhook sees, so that nobody locks himself out.
const EXEMPT_KINDS: &[&str] = &[
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

/// `rules.IsExemptAdmissionConfigurationResource`.
pub fn is_exempt(attributes: &Attributes) -> bool {
    attributes.kind.group == "admissionregistration.k8s.io" && EXEMPT_KINDS.contains(&&*attributes.kind.kind)
}

/// As what a hook wants a request (`generic.WebhookInvocation`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// As what it is.
    AsItIs,
    /// As one on an equivalent resource.
    As(Equivalent),
}

impl Wanted {
    /// The resource that the hook is told of.
    pub fn resource<'a>(&'a self, attributes: &'a Attributes) -> &'a GroupVersionResource {
        match self {
            Self::AsItIs => &attributes.resource,
            Self::As(equivalent) => &equivalent.resource,
        }
    }

    /// The kind of the objects that it is shown.
    pub fn kind<'a>(&'a self, attributes: &'a Attributes) -> &'a GroupVersionKind {
        match self {
            Self::AsItIs => &attributes.kind,
            Self::As(equivalent) => &equivalent.kind,
        }
    }
}

/// Matches one request against hooks; it looks its namespace up at most once, and what its resource is equivalent to.
pub struct Matcher<'a> {
    cluster: &'a Cluster,
    converter: &'a Converter,
    namespace: Option<Result<Arc<Namespace>, Status>>,
    equivalents: Option<Vec<Equivalent>>,
}

impl<'a> Matcher<'a> {
    /// For one pass over the hooks.
    pub fn new(cluster: &'a Cluster, converter: &'a Converter) -> Self {
        Self { cluster, converter, namespace: None, equivalents: None }
    }

    /// As what the hook wants the request, if it is to be called. `object` is the request's in the version that the hook
    /// before wanted.
    ///
    /// # Errors
    /// When that cannot be told of a hook whose rules match.
    pub async fn wants(
        &mut self,
        hook: &Hook,
        attributes: &Attributes,
        object: Option<&Object>,
    ) -> Result<Option<Wanted>, Denial> {
        let Some(wanted) = self.match_rules(hook, attributes).await? else { return Ok(None) };
        let namespace = self.namespace_matches(hook, attributes, object).await;
        if let Ok(false) = namespace {
            return Ok(None);
        }
        let object = object_matches(hook, attributes, object);
        if let Ok(false) = object {
            return Ok(None);
        }
        namespace.map_err(|status| Denial::Status(Box::new(status)))?;
        object.map_err(|error| Denial::from(Status::internal_error(error)))?;
        if hook.has_match_conditions {
            let resource = &attributes.resource;
            let why = format!("matchConditions of webhook \"{}\" are not supported yet", hook.name);
            return Err(Status::forbidden(&resource.group, &resource.resource, &attributes.name, &why).into());
        }
        Ok(Some(wanted))
    }

    /// Its own resource first; then those that it is equivalent to, in the order of the rules.
    async fn match_rules(&mut self, hook: &Hook, attributes: &Attributes) -> Result<Option<Wanted>, Status> {
        if hook.matches(attributes, &attributes.resource) {
            return Ok(Some(Wanted::AsItIs));
        }
        if !hook.concerns_equivalents(attributes) {
            return Ok(None);
        }
        let equivalents = match &mut self.equivalents {
            Some(found) => found,
            none => none.insert(self.converter.equivalents(&attributes.resource, &attributes.subresource).await?),
        };
        let named = hook
            .rules
            .iter()
            .find_map(|rule| equivalents.iter().find(|equivalent| rule.matches(attributes, &equivalent.resource)));
        Ok(named.cloned().map(Wanted::As))
    }

    /// Whether the hook may be called, as far as can be told without asking anybody.
    pub fn may_want(&self, hook: &Hook, attributes: &Attributes) -> bool {
        let namespace = self.cluster.namespace(&attributes.namespace);
        let outside = match (&hook.namespace_selector, namespace) {
            // A namespace's own labels may become others.
            (Ok(selector), Some(namespace)) if attributes.resource.resource != "namespaces" => {
                !selector.is_empty() && !selector.matches_map(&namespace.labels)
            }
            _ => false,
        };
        !outside
            && self.rules_may_match(hook, attributes)
            && object_matches(hook, attributes, attributes.object.as_ref()) != Ok(false)
    }

    /// Whether the hook's rules may match, whatever is in the object.
    pub fn rules_may_match(&self, hook: &Hook, attributes: &Attributes) -> bool {
        if hook.matches(attributes, &attributes.resource) {
            return true;
        }
        let known = || self.converter.known_equivalents(&attributes.resource, &attributes.subresource);
        hook.concerns_equivalents(attributes)
            && known().is_none_or(|known| known.iter().any(|one| hook.matches(attributes, &one.resource)))
    }

    /// `namespace.Matcher.MatchNamespaceSelector`.
    async fn namespace_matches(
        &mut self,
        hook: &Hook,
        attributes: &Attributes,
        object: Option<&Object>,
    ) -> Result<bool, Status> {
        let is_namespaces = attributes.resource.resource == "namespaces";
        if attributes.namespace.is_empty() && !is_namespaces {
            return Ok(true);
        }
        let selector = hook.namespace_selector.as_ref().map_err(Status::internal_error)?;
        if selector.is_empty() {
            return Ok(true);
        }
        // The namespace of a request on a namespace is the one in the request: the cache has not seen it yet.
        let written = matches!(attributes.operation, Operation::Create | Operation::Update);
        if is_namespaces && attributes.subresource.is_empty() && written {
            return Ok(object.is_some_and(|object| selector.matches(object.labels())));
        }
        let namespace = self.namespace(&attributes.namespace).await?;
        Ok(selector.matches_map(&namespace.labels))
    }

    async fn namespace(&mut self, name: &str) -> Result<Arc<Namespace>, Status> {
        if let Some(asked) = &self.namespace {
            return asked.clone();
        }
        let asked = match self.cluster.namespace(name) {
            Some(namespace) => Ok(namespace),
            None => match self.cluster.live_namespace(name).await {
                Ok(Some(namespace)) => Ok(namespace),
                Ok(None) => Err(Status::not_found("", "namespaces", name)),
                Err(status) if status.reason == "NotFound" => Err(status),
                Err(status) => Err(Status::internal_error(status)),
            },
        };
        self.namespace = Some(asked.clone());
        asked
    }
}

/// `object.Matcher.MatchObjectSelector`: by the new or by the old object. A connect's options have no metadata to look at.
fn object_matches(hook: &Hook, attributes: &Attributes, object: Option<&Object>) -> Result<bool, String> {
    let selector = hook.object_selector.as_ref().map_err(Clone::clone)?;
    if selector.is_empty() {
        return Ok(true);
    }
    if attributes.operation == Operation::Connect {
        return Ok(false);
    }
    let objects = [object, attributes.old_object.as_deref()];
    Ok(objects.into_iter().flatten().any(|object| selector.matches(object.labels())))
}
