//! Whether a hook is to be called for a request (`generic.Webhook.ShouldCallHook`).

use super::hook::Hook;
use super::rules::{Match, match_rules};
use crate::admission::{Attributes, Denial, Operation};
use crate::cluster::{Cluster, Namespace};
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

/// Matches one request against hooks; it looks its namespace up at most once.
pub struct Matcher<'a> {
    cluster: &'a Cluster,
    namespace: Option<Result<Arc<Namespace>, Status>>,
}

impl<'a> Matcher<'a> {
    /// For one pass over the hooks.
    pub fn new(cluster: &'a Cluster) -> Self {
        Self { cluster, namespace: None }
    }

    /// Whether the hook is to be called.
    ///
    /// # Errors
    /// When that cannot be told of a hook whose rules match.
    pub async fn wants(&mut self, hook: &Hook, attributes: &Attributes) -> Result<bool, Denial> {
        let matched = match_rules(&hook.rules, attributes, hook.equivalent);
        if matched == Match::No {
            return Ok(false);
        }
        let namespace = self.namespace_matches(&hook.namespace_selector, attributes).await;
        if let Ok(false) = namespace {
            return Ok(false);
        }
        let object = object_matches(&hook.object_selector, attributes);
        if let Ok(false) = object {
            return Ok(false);
        }
        if let Match::Equivalent(other) = matched {
            let other = format!("{}/{}, Resource={}", other.group, other.version, other.resource);
            return Err(Status::internal_error(format!("unable to convert to {other}: unknown conversion")).into());
        }
        namespace.map_err(|status| Denial::Status(Box::new(status)))?;
        object.map_err(|error| Denial::from(Status::internal_error(error)))?;
        if hook.has_match_conditions {
            let resource = &attributes.resource;
            let why = format!("matchConditions of webhook \"{}\" are not supported yet", hook.name);
            return Err(Status::forbidden(&resource.group, &resource.resource, &attributes.name, &why).into());
        }
        Ok(true)
    }

    /// Whether the hook may be called, as far as can be told without asking anybody.
    pub fn may_want(&self, hook: &Hook, attributes: &Attributes) -> bool {
        match_rules(&hook.rules, attributes, hook.equivalent) != Match::No
            && self.may_select(&hook.namespace_selector, &hook.object_selector, attributes)
    }

    /// Whether selectors may match, as far as can be told without asking anybody.
    pub fn may_select(
        &self,
        namespaces: &Result<LabelSelector, String>,
        objects: &Result<LabelSelector, String>,
        attributes: &Attributes,
    ) -> bool {
        let namespace = self.cluster.namespace(&attributes.namespace);
        let outside = match (namespaces, namespace) {
            // A namespace's own labels may become others.
            (Ok(selector), Some(namespace)) if attributes.resource.resource != "namespaces" => {
                !selector.is_empty() && !selector.matches_map(&namespace.labels)
            }
            _ => false,
        };
        !outside && object_matches(objects, attributes) != Ok(false)
    }

    /// `namespace.Matcher.MatchNamespaceSelector`.
    pub async fn namespace_matches(
        &mut self,
        selector: &Result<LabelSelector, String>,
        attributes: &Attributes,
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
        let written = matches!(attributes.operation, Operation::Create | Operation::Update);
        if is_namespaces && attributes.subresource.is_empty() && written {
            return Ok(attributes.object.as_ref().is_some_and(|object| selector.matches(object.labels())));
        }
        let namespace = self.namespace(&attributes.namespace).await?;
        Ok(selector.matches_map(&namespace.labels))
    }

    /// A namespace, from the cache or else from the API server.
    pub async fn namespace(&mut self, name: &str) -> Result<Arc<Namespace>, Status> {
        if let Some(namespace) = self.cluster.namespace(name) {
            return Ok(namespace);
        }
        if let Some(asked) = &self.namespace {
            return asked.clone();
        }
        let asked = match self.cluster.live_namespace(name).await {
            Ok(Some(namespace)) => Ok(namespace),
            Ok(None) => Err(Status::not_found("", "namespaces", name)),
            Err(status) if status.reason == "NotFound" => Err(status),
            Err(status) => Err(Status::internal_error(status)),
        };
        self.namespace = Some(asked.clone());
        asked
    }
}

/// `object.Matcher.MatchObjectSelector`: by the new or by the old object. A connect's options have no metadata to look at.
pub fn object_matches(selector: &Result<LabelSelector, String>, attributes: &Attributes) -> Result<bool, String> {
    let selector = selector.as_ref().map_err(Clone::clone)?;
    if selector.is_empty() {
        return Ok(true);
    }
    if attributes.operation == Operation::Connect {
        return Ok(false);
    }
    let objects = [attributes.object.as_ref(), attributes.old_object.as_deref()];
    Ok(objects.into_iter().flatten().any(|object| selector.matches(object.labels())))
}
