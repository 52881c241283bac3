//! A hook's rules: the operations and resources that the hook matches (`predicates/rules`).

use crate::admission::{Attributes, Operations};
use crate::kind::GroupVersionResource;
use crate::object::kinds::cohabiting_groups;
use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;

/// A compiled rule.
#[derive(Debug, PartialEq)]
pub(crate) struct Rule {
    operations: Operations,
    groups: Names,
    versions: Names,
    resources: Vec<(String, String)>,
    scope: Scope,
    /// Names of objects; an empty list matches any object.
    object_names: Box<[String]>,
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
    /// Any other value; matches nothing.
    Unknown,
}

impl Names {
    fn new(names: Option<&Vec<String>>) -> Self {
        let mut listed = names.cloned().unwrap_or_default();
        let any = listed.iter().position(|name| name == "*");
        if let Some(any) = any {
            listed = vec![listed.swap_remove(any)];
        }
        Self { any: any.is_some(), listed }
    }

    fn contain(&self, name: &str) -> bool {
        self.any || self.listed.iter().any(|listed| listed == name)
    }
}

impl Rule {
    /// Compiles a rule; a missing scope counts as `*`.
    pub(crate) fn new(rule: &RuleWithOperations) -> Self {
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

    /// Restricts the rule to objects of these names, unless the list is empty; an object without a name yet matches no name.
    pub(crate) fn for_objects(mut self, names: &[String]) -> Self {
        self.object_names = names.into();
        self
    }

    /// Returns the names of the objects that the rule matches; empty if the rule matches any object.
    pub(crate) fn object_names(&self) -> &[String] {
        &self.object_names
    }

    /// Whether the rule may match for some object name; with `equivalent`, also through an equivalent resource.
    pub(crate) fn may_match(&self, attributes: &Attributes, equivalent: bool) -> bool {
        let GroupVersionResource { group, version, resource } = &attributes.resource;
        self.is_of_kind(attributes)
            && match equivalent {
                true => cohabiting_groups(group, resource).any(|group| self.groups.contain(group)),
                false => self.groups.contain(group) && self.versions.contain(version),
            }
    }

    /// Whether the rule matches the request's own resource or an equivalent of it (`rules.Matcher.Matches`).
    pub(crate) fn matches(&self, attributes: &Attributes, resource: &GroupVersionResource) -> bool {
        self.concerns(attributes) && self.groups.contain(&resource.group) && self.versions.contain(&resource.version)
    }

    /// Whether the rule would match in some group and version. Equivalent resources have the same resource name in all of them.
    pub(crate) fn concerns(&self, attributes: &Attributes) -> bool {
        self.is_of_kind(attributes) && (self.object_names.is_empty() || self.object_names.contains(&attributes.name))
    }

    /// Whether the rule would match in some group and version, for an object of some name.
    fn is_of_kind(&self, attributes: &Attributes) -> bool {
        self.operations.contain(attributes.operation)
            && self.scope_matches(attributes)
            && self.names(&attributes.resource.resource, &attributes.subresource)
    }

    fn names(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|(r, s)| (r == "*" || r == resource) && (s == "*" || s == subresource))
    }

    /// Whether the scope matches. A Namespace is cluster-scoped, though its requests have a namespace.
    fn scope_matches(&self, attributes: &Attributes) -> bool {
        let GroupVersionResource { group, version, resource } = &attributes.resource;
        let is_namespaces = (&**group, &**version, &**resource) == ("", "v1", "namespaces");
        let cluster = attributes.namespace.is_empty() || is_namespaces;
        match self.scope {
            Scope::All => true,
            Scope::Namespaced => !cluster,
            Scope::Cluster => cluster,
            Scope::Unknown => false,
        }
    }
}
