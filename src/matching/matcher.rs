//! The matcher of a hook, a policy or a binding (`generic.Webhook.ShouldCallHook`, `matching.Matcher.Matches`).

use super::criteria::Criteria;
use crate::admission::{Attributes, Operation};
use crate::cluster::{Cluster, Namespace};
use crate::conversion::{Converter, Equivalent};
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::object::Object;
use crate::object::selector::{InvalidSelector, LabelSelector};
use crate::status::Status;
use std::sync::Arc;

/// Kinds of `admissionregistration.k8s.io` that no webhook from the API matches, so that a webhook cannot block its own removal.
const EXEMPT_KINDS: &[&str] = &[
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

/// Whether the request is on admission configuration (`rules.IsExemptAdmissionConfigurationResource`).
pub(crate) fn is_exempt(attributes: &Attributes) -> bool {
    attributes.kind.group == "admissionregistration.k8s.io" && EXEMPT_KINDS.contains(&&*attributes.kind.kind)
}

/// Resources of reviews, which nothing stores: refusing these requests would break the cluster (`exclusion.Excluded`).
const REVIEWS: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// The feature gate with which webhooks do not see reviews. Policies never do.
pub(crate) const EXCLUDING_GATE: &str = "ExcludeAdmissionWebhookVirtualResources";

/// Whether a resource is that of reviews of access or of tokens.
pub(crate) fn is_review(group: &str, resource: &str) -> bool {
    REVIEWS.contains(&(group, resource))
}

/// The kind and resource in which a hook or a policy gets a request (`generic.WebhookInvocation`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InvocationKind {
    /// The request's own kind and resource.
    AsItIs,
    /// An equivalent resource and its kind.
    As(Equivalent),
}

impl InvocationKind {
    /// Returns the resource that the hook gets.
    pub(crate) fn resource<'a>(&'a self, attributes: &'a Attributes) -> &'a GroupVersionResource {
        match self {
            Self::AsItIs => &attributes.resource,
            Self::As(equivalent) => &equivalent.resource,
        }
    }

    /// Returns the kind of the objects that the hook gets.
    pub(crate) fn kind<'a>(&'a self, attributes: &'a Attributes) -> &'a GroupVersionKind {
        match self {
            Self::AsItIs => &attributes.kind,
            Self::As(equivalent) => &equivalent.kind,
        }
    }
}

/// The content of a request's object that the answer to "may this match?" assumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The present content.
    Present,
    /// Any content, because plugins may still change the object.
    Any,
}

/// A matcher of one request with hooks or policies. Reads the namespace and the equivalents of the resource at most once each.
pub(crate) struct Matcher<'a> {
    cluster: &'a Cluster,
    converter: &'a Converter,
    namespace: Option<Result<Arc<Namespace>, Status>>,
    equivalents: Option<Vec<Equivalent>>,
}

impl<'a> Matcher<'a> {
    /// Creates a matcher for one pass over hooks or policies.
    pub(crate) fn new(cluster: &'a Cluster, converter: &'a Converter) -> Self {
        Self { cluster, converter, namespace: None, equivalents: None }
    }

    /// Returns the kind and resource in which the request matches, or `None`. `object` is the request's object in its present version.
    ///
    /// # Errors
    /// If the rules may match, but a selector is invalid, or the equivalents or the namespace cannot be read.
    pub(crate) async fn wants(
        &mut self,
        criteria: &Criteria,
        attributes: &Attributes,
        object: Option<&Object>,
    ) -> Result<Option<InvocationKind>, Status> {
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

    /// Matches the request's own resource first; then its equivalents, in the order of the rules.
    async fn match_rules(
        &mut self,
        criteria: &Criteria,
        attributes: &Attributes,
    ) -> Result<Option<InvocationKind>, Status> {
        let resource = &attributes.resource;
        if criteria.excludes(attributes, resource) {
            return Ok(None);
        }
        let is_named = criteria.names(attributes, resource);
        let may_be_excluded = criteria.may_exclude_equivalents(attributes);
        if !may_be_excluded && is_named {
            return Ok(Some(InvocationKind::AsItIs));
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
            return Ok(Some(InvocationKind::AsItIs));
        }
        let may_be_named = criteria.concerns_equivalents(attributes);
        let named = criteria.first_named(attributes, equivalents, |equivalent| &equivalent.resource);
        Ok(named.filter(|_| may_be_named).cloned().map(InvocationKind::As))
    }

    /// Whether a request may match, as far as is known without a call to the API server.
    pub(crate) fn may_match(&self, criteria: &Criteria, attributes: &Attributes, content: Content) -> bool {
        let object_may_match = || match content {
            Content::Any => true,
            Content::Present => object_matches(&criteria.objects, attributes, attributes.object.as_ref()) != Ok(false),
        };
        self.rules_may_match(criteria, attributes) && object_may_match()
    }

    fn rules_may_match(&self, criteria: &Criteria, attributes: &Attributes) -> bool {
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

    /// Whether the namespace's labels match (`namespace.Matcher.MatchNamespaceSelector`).
    async fn namespace_matches(
        &mut self,
        selector: &Result<LabelSelector, InvalidSelector>,
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
        // A write of a namespace is matched by the labels in the request: the cache has not seen these labels yet.
        if attributes.writes_namespace() {
            return Ok(object.is_some_and(|object| selector.matches(object.labels())));
        }
        let namespace = self.namespace(&attributes.namespace).await?;
        Ok(selector.matches_map(&namespace.labels))
    }

    /// Returns a namespace, from the cache or else from the API server.
    ///
    /// # Errors
    /// If the namespace does not exist, or the API server cannot be asked.
    pub(crate) async fn namespace(&mut self, name: &str) -> Result<Arc<Namespace>, Status> {
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

/// Whether the new or the old object matches (`object.Matcher.MatchObjectSelector`). The options of a connect have no metadata.
fn object_matches(
    selector: &Result<LabelSelector, InvalidSelector>,
    attributes: &Attributes,
    object: Option<&Object>,
) -> Result<bool, InvalidSelector> {
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
