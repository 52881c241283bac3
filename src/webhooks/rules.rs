//! A hook's rules: which operations on which resources it wants to see (`predicates/rules`).

use crate::admission::{Attributes, Operation, Operations};
use crate::object::GroupVersionResource;
use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;

/// Built-in resources that are stored once and served under several groups or versions.
const EQUIVALENT: &[&[(&str, &str, &str)]] = &[
    &[("autoscaling", "v1", "horizontalpodautoscalers"), ("autoscaling", "v2", "horizontalpodautoscalers")],
    &[("", "v1", "events"), ("events.k8s.io", "v1", "events")],
];

/// The groups of built-in kinds. A resource of any other group may be a custom one, whose versions are all equivalent.
const BUILT_IN_GROUPS: &[&str] = &[
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// One rule, compiled.
#[derive(Debug, PartialEq)]
pub struct Rule {
    operations: Operations,
    groups: Names,
    versions: Names,
    resources: Vec<(String, String)>,
    scope: Scope,
    /// Names of objects; none is any object.
    object_names: Box<[String]>,
}

/// How a hook's rules take a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Match {
    /// They do not.
    No,
    /// A rule names the request's own resource.
    Exact,
    /// Only an equivalent resource is named.
    Equivalent(GroupVersionResource),
}

#[derive(Debug, PartialEq)]
struct Names {
    any: bool,
    listed: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Scope {
    All,
    Namespaced,
    Cluster,
    /// Anything else matches nothing.
    Unknown,
}

impl Names {
    fn new(names: Option<&Vec<String>>) -> Self {
        let listed = names.cloned().unwrap_or_default();
        Self { any: listed.iter().any(|name| name == "*"), listed }
    }

    fn contain(&self, name: &str) -> bool {
        self.any || self.listed.iter().any(|listed| listed == name)
    }
}

impl Rule {
    /// Compiles a rule; a scope that is not given is `*`.
    pub fn new(rule: &RuleWithOperations) -> Self {
        let mut operations = Operations::NONE;
        for operation in rule.operations.iter().flatten() {
            operations = operations.or(match &**operation {
                "*" => Operations::ALL,
                "CREATE" => Operations::CREATE,
                "UPDATE" => Operations::UPDATE,
                "DELETE" => Operations::DELETE,
                "CONNECT" => Operations::CONNECT,
                _ => Operations::NONE,
            });
        }
        let resources = rule.resources.iter().flatten().map(|resource| match resource.split_once('/') {
            Some((resource, subresource)) => (resource.to_owned(), subresource.to_owned()),
            None => (resource.clone(), String::new()),
        });
        Self {
            operations,
            groups: Names::new(rule.api_groups.as_ref()),
            versions: Names::new(rule.api_versions.as_ref()),
            resources: resources.collect(),
            scope: match rule.scope.as_deref() {
                None | Some("*") => Scope::All,
                Some("Namespaced") => Scope::Namespaced,
                Some("Cluster") => Scope::Cluster,
                Some(_) => Scope::Unknown,
            },
            object_names: [].into(),
        }
    }

    /// The same for objects of these names only, unless there are none; an object without a name yet is none of them.
    pub fn for_objects(mut self, names: &[String]) -> Self {
        self.object_names = names.into();
        self
    }

    /// The resources that it names, without their subresources; `*` is any.
    pub fn resource_names(&self) -> impl Iterator<Item = &str> {
        self.resources.iter().map(|(resource, _)| &**resource)
    }

    /// Whether it names the operation.
    pub fn has_operation(&self, operation: Operation) -> bool {
        self.operations.contain(operation)
    }

    /// `rules.Matcher.Matches`, for the request or for an equivalent of its resource.
    fn matches(&self, attributes: &Attributes, group: &str, version: &str, resource: &str) -> bool {
        self.has_operation(attributes.operation)
            && self.scope_matches(attributes, group, version, resource)
            && self.groups.contain(group)
            && self.versions.contain(version)
            && self.names(resource, &attributes.subresource)
            && (self.object_names.is_empty() || self.object_names.contains(&attributes.name))
    }

    fn names(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|(r, s)| (r == "*" || r == resource) && (s == "*" || s == subresource))
    }

    /// A Namespace is cluster-scoped, though its requests have a namespace.
    fn scope_matches(&self, attributes: &Attributes, group: &str, version: &str, resource: &str) -> bool {
        let cluster = attributes.namespace.is_empty() || (group, version, resource) == ("", "v1", "namespaces");
        match self.scope {
            Scope::All => true,
            Scope::Namespaced => !cluster,
            Scope::Cluster => cluster,
            Scope::Unknown => false,
        }
    }

    /// The version of this very group and resource that the rule names instead of the request's.
    fn other_version(&self, attributes: &Attributes) -> Option<&str> {
        let GroupVersionResource { group, version, resource } = &attributes.resource;
        self.versions
            .listed
            .iter()
            .map(|named| &**named)
            .find(|named| named != version && self.matches(attributes, group, named, resource))
    }
}

/// How the rules take the request; with `equivalent` also by what its resource is equivalent to.
///
/// Whether a custom resource has the version that a rule names is not known here, versions that are not served included. As
/// ignoring the hook would let the request pass unseen, the version is taken to exist.
pub fn match_rules(rules: &[Rule], attributes: &Attributes, equivalent: bool) -> Match {
    let GroupVersionResource { group, version, resource } = &attributes.resource;
    if rules.iter().any(|rule| rule.matches(attributes, group, version, resource)) {
        return Match::Exact;
    }
    if !equivalent {
        return Match::No;
    }
    let own = (&**group, &**version, &**resource);
    let others = EQUIVALENT.iter().find(|set| set.contains(&own)).copied().unwrap_or_default();
    for rule in rules {
        let built_in = others.iter().find(|&&(g, v, r)| (g, v, r) != own && rule.matches(attributes, g, v, r));
        if let Some(&(group, version, resource)) = built_in {
            return Match::Equivalent(GroupVersionResource::new(group, version, resource));
        }
        if !BUILT_IN_GROUPS.contains(&&**group)
            && let Some(version) = rule.other_version(attributes)
        {
            return Match::Equivalent(GroupVersionResource::new(&**group, version, &**resource));
        }
    }
    Match::No
}
