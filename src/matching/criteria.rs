//! Which requests a hook, a policy or a binding is for: rules and selectors.

use super::rules::Rule;
use crate::admission::Attributes;
use crate::kind::GroupVersionResource;
use crate::object::selector::LabelSelector;
use k8s_openapi::api::admissionregistration::v1::{MatchResources, NamedRuleWithOperations, RuleWithOperations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as ApiSelector;

/// Whether rules mean requests of a kind.
#[derive(Debug, PartialEq)]
pub enum Meant<'a> {
    /// Whatever the object is called.
    Always,
    /// Where it has one of these names.
    Named(Vec<&'a str>),
    /// Never.
    Never,
}

/// Compiled rules and selectors.
#[derive(Debug, PartialEq)]
pub struct Criteria {
    /// Which resources are meant.
    rules: Box<[Rule]>,
    /// And which of them are not.
    excluded: Box<[Rule]>,
    /// Whether no rules mean every resource, not none.
    is_any: bool,
    /// Whether a rule also means the resources that are equivalent to those it names.
    equivalent: bool,
    /// From which namespaces; or what is wrong with the selector.
    pub namespaces: Result<LabelSelector, String>,
    /// Which objects; or what is wrong with the selector.
    pub objects: Result<LabelSelector, String>,
}

/// A policy's `matchConstraints`, a binding's `matchResources`.
impl From<MatchResources> for Criteria {
    fn from(resources: MatchResources) -> Self {
        let rules = |rules: Option<Vec<NamedRuleWithOperations>>| rules.into_iter().flatten().map(named).collect();
        let rules: (Box<[_]>, _) = (rules(resources.resource_rules), rules(resources.exclude_resource_rules));
        Self {
            is_any: rules.0.is_empty(),
            rules: rules.0,
            excluded: rules.1,
            equivalent: matches!(resources.match_policy.as_deref(), None | Some("Equivalent")),
            namespaces: selector(resources.namespace_selector.as_ref()),
            objects: selector(resources.object_selector.as_ref()),
        }
    }
}

fn named(rule: NamedRuleWithOperations) -> Rule {
    let names = rule.resource_names.unwrap_or_default();
    let rule = RuleWithOperations {
        api_groups: rule.api_groups,
        api_versions: rule.api_versions,
        operations: rule.operations,
        resources: rule.resources,
        scope: rule.scope,
    };
    Rule::new(&rule).for_objects(&names)
}

/// A selector that is not given is the API's default, which selects everything.
fn selector(selector: Option<&ApiSelector>) -> Result<LabelSelector, String> {
    selector.map_or_else(|| Ok(LabelSelector::everything()), |selector| LabelSelector::from_api(Some(selector)))
}

impl Criteria {
    /// A webhook's.
    pub fn of_webhook(
        rules: &[RuleWithOperations],
        match_policy: Option<&str>,
        namespaces: Option<&ApiSelector>,
        objects: Option<&ApiSelector>,
    ) -> Self {
        Self {
            rules: rules.iter().map(Rule::new).collect(),
            excluded: [].into(),
            is_any: false,
            equivalent: matches!(match_policy, None | Some("Equivalent")),
            namespaces: selector(namespaces),
            objects: selector(objects),
        }
    }

    /// Whether the rules may mean requests of this kind, whatever their objects are called.
    pub fn means(&self, attributes: &Attributes) -> Meant<'_> {
        let leaves_out = |rule: &Rule| rule.object_names().is_empty() && rule.matches(attributes, &attributes.resource);
        if self.excluded.iter().any(leaves_out) {
            return Meant::Never;
        }
        if self.is_any {
            return Meant::Always;
        }
        let mut names = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.may_match(attributes, self.equivalent)) {
            match rule.object_names() {
                [] => return Meant::Always,
                named => names.extend(named.iter().map(String::as_str)),
            }
        }
        names.sort_unstable();
        names.dedup();
        if names.is_empty() { Meant::Never } else { Meant::Named(names) }
    }

    /// Whether a rule names the resource, which is the request's own or an equivalent of it.
    pub fn names(&self, attributes: &Attributes, resource: &GroupVersionResource) -> bool {
        self.is_any || self.rules.iter().any(|rule| rule.matches(attributes, resource))
    }

    /// The first of these resources that a rule names, in the order of the rules.
    pub fn first_named<'a, T>(
        &self,
        attributes: &Attributes,
        resources: &'a [T],
        resource: impl Fn(&T) -> &GroupVersionResource,
    ) -> Option<&'a T> {
        self.rules.iter().find_map(|rule| resources.iter().find(|one| rule.matches(attributes, resource(one))))
    }

    /// Whether a rule may name an equivalent of the request's resource.
    pub fn concerns_equivalents(&self, attributes: &Attributes) -> bool {
        self.equivalent && self.rules.iter().any(|rule| rule.concerns(attributes))
    }

    /// Whether the resource is left out.
    pub fn excludes(&self, attributes: &Attributes, resource: &GroupVersionResource) -> bool {
        self.excluded.iter().any(|rule| rule.matches(attributes, resource))
    }

    /// Whether an equivalent of the request's resource may be left out, and with that the request.
    pub fn may_exclude_equivalents(&self, attributes: &Attributes) -> bool {
        self.equivalent && self.excluded.iter().any(|rule| rule.concerns(attributes))
    }
}
