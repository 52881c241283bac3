//! Whether a hook, a policy or a binding is for a request (`generic.Webhook.ShouldCallHook`, `matching.Matcher.Matches`).

use super::criteria::Criteria;
use crate::admission::{Attributes, Operation};
use crate::cluster::{Cluster, Namespace};
use crate::conversion::{Converter, Equivalent};
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::object::Object;
use crate::object::selector::LabelSelector;
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

/// As what a hook or a policy wants a request (`generic.WebhookInvocation`).
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

/// Matches one request against hooks or policies; it looks its namespace up at most once, and what its resource is equivalent to.
pub struct Matcher<'a> {
    cluster: &'a Cluster,
    converter: &'a Converter,
    namespace: Option<Result<Arc<Namespace>, Status>>,
    equivalents: Option<Vec<Equivalent>>,
}

impl<'a> Matcher<'a> {
    /// For one pass over them.
    pub fn new(cluster: &'a Cluster, converter: &'a Converter) -> Self {
        Self { cluster, converter, namespace: None, equivalents: None }
    }

    /// As what a request is wanted, if it is. `object` is the request's in the version that was wanted before.
    ///
    /// # Errors
    /// When that cannot be told of a request that the rules take.
    pub async fn wants(
        &mut self,
        criteria: &Criteria,
        attributes: &Attributes,
        object: Option<&Object>,
    ) -> Result<Option<Wanted>, Status> {
        let Some(wanted) = self.match_rules(criteria, attributes).await? else { return Ok(None) };
        let namespace = self.namespace_matches(&criteria.namespaces, attributes, object).await;
        if let Ok(false) = namespace {
            return Ok(None);
        }
        let object = object_matches(&criteria.objects, attributes, object);
        if let Ok(false) = object {
            return Ok(None);
        }
        namespace?;
        object.map_err(Status::internal_error)?;
        Ok(Some(wanted))
    }

    /// Its own resource first; then those that it is equivalent to, in the order of the rules.
    async fn match_rules(&mut self, criteria: &Criteria, attributes: &Attributes) -> Result<Option<Wanted>, Status> {
        let resource = &attributes.resource;
        if criteria.excludes(attributes, resource) {
            return Ok(None);
        }
        let is_named = criteria.names(attributes, resource);
        let may_be_excluded = criteria.may_exclude_equivalents(attributes);
        if !may_be_excluded && is_named {
            return Ok(Some(Wanted::AsItIs));
        }
        if !may_be_excluded && !criteria.concerns_equivalents(attributes) {
            return Ok(None);
        }
        let equivalents = match &mut self.equivalents {
            Some(found) => found,
            none => none.insert(self.converter.equivalents(resource, &attributes.subresource).await?),
        };
        if may_be_excluded && equivalents.iter().any(|other| criteria.excludes(attributes, &other.resource)) {
            return Ok(None);
        }
        if is_named {
            return Ok(Some(Wanted::AsItIs));
        }
        let may_be_named = criteria.concerns_equivalents(attributes);
        let named = criteria.first_named(attributes, equivalents, |equivalent| &equivalent.resource);
        Ok(named.filter(|_| may_be_named).cloned().map(Wanted::As))
    }

    /// Whether a request may be wanted, as far as can be told without asking anybody.
    pub fn may_want(&self, criteria: &Criteria, attributes: &Attributes) -> bool {
        self.rules_may_match(criteria, attributes)
            && object_matches(&criteria.objects, attributes, attributes.object.as_ref()) != Ok(false)
    }

    /// Whether rules may match, whatever is in the object.
    pub fn rules_may_match(&self, criteria: &Criteria, attributes: &Attributes) -> bool {
        if criteria.excludes(attributes, &attributes.resource) {
            return false;
        }
        if criteria.names(attributes, &attributes.resource) {
            return true;
        }
        let known = || self.converter.known_equivalents(&attributes.resource, &attributes.subresource);
        criteria.concerns_equivalents(attributes)
            && known().is_none_or(|known| known.iter().any(|one| criteria.names(attributes, &one.resource)))
    }

    /// `namespace.Matcher.MatchNamespaceSelector`.
    async fn namespace_matches(
        &mut self,
        selector: &Result<LabelSelector, String>,
        attributes: &Attributes,
        object: Option<&Object>,
    ) -> Result<bool, Status> {
        let is_namespaces = attributes.resource.resource == "namespaces";
        if attributes.namespace.is_empty() && !is_namespaces {
            return Ok(true);
        }
        let selector = selector.as_ref().map_err(Status::internal_error)?;
        if selector.is_empty() {
            return Ok(true);
        }
        // The namespace of a request on a namespace is the one in the request: the cache has not seen it yet.
        if attributes.writes_namespace() {
            return Ok(object.is_some_and(|object| selector.matches(object.labels())));
        }
        let namespace = self.namespace(&attributes.namespace).await?;
        Ok(selector.matches_map(&namespace.labels))
    }

    /// A namespace, from the cache or else from the API server.
    ///
    /// # Errors
    /// When there is none, or the API server cannot be asked.
    pub async fn namespace(&mut self, name: &str) -> Result<Arc<Namespace>, Status> {
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
fn object_matches(
    selector: &Result<LabelSelector, String>,
    attributes: &Attributes,
    object: Option<&Object>,
) -> Result<bool, String> {
    let selector = selector.as_ref().map_err(Clone::clone)?;
    if selector.is_empty() {
        return Ok(true);
    }
    if attributes.operation == Operation::Connect {
        return Ok(false);
    }
    let objects = [object, attributes.old_object.as_deref()];
    Ok(objects.into_iter().flatten().any(|object| selector.matches(object.labels())))
}
