//! The criteria of a hook, a policy or a binding: rules and selectors.

use super::rules::Rule;
use crate::admission::Attributes;
use crate::kind::GroupVersionResource;
use crate::object::selector::{InvalidSelector, LabelSelector};
use k8s_openapi::api::admissionregistration::v1::{MatchResources, NamedRuleWithOperations, RuleWithOperations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as ApiSelector;

/// The answer of rules for a kind of request.
#[derive(Debug, PartialEq)]
pub(crate) enum RuleMatch<'a> {
    /// The rules may match, whatever the object's name.
    Always,
    /// The rules may match if the object has one of these names.
    Named(Vec<&'a str>),
    /// The rules do not match.
    Never,
}

/// Compiled rules and selectors.
#[derive(Debug, PartialEq)]
pub(crate) struct Criteria {
    /// The rules that match resources.
    rules: Box<[Rule]>,
    /// The rules that exclude resources.
    excluded: Box<[Rule]>,
    /// Whether every resource matches: the rules of a policy or binding are empty. Empty rules of a webhook match none.
    is_any: bool,
    /// Whether a rule also matches the equivalents of the resources that it names.
    equivalent: bool,
    /// The namespace selector; or the error in it.
    pub(crate) namespaces: Result<LabelSelector, InvalidSelector>,
    /// The object selector; or the error in it.
    pub(crate) objects: Result<LabelSelector, InvalidSelector>,
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

/// Compiles a selector; a missing one is the API's default, which selects everything.
fn selector(selector: Option<&ApiSelector>) -> Result<LabelSelector, InvalidSelector> {
    selector.map_or_else(|| Ok(LabelSelector::everything()), |selector| LabelSelector::from_api(Some(selector)))
}

impl Criteria {
    /// Compiles the criteria of a webhook.
    pub(crate) fn of_webhook(
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

    /// Returns whether the rules may match requests of this kind, and for which object names.
    pub(crate) fn means(&self, attributes: &Attributes) -> RuleMatch<'_> {
        let leaves_out = |rule: &Rule| rule.object_names().is_empty() && rule.matches(attributes, &attributes.resource);
        if self.excluded.iter().any(leaves_out) {
            return RuleMatch::Never;
        }
        if self.is_any {
            return RuleMatch::Always;
        }
        let mut names = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.may_match(attributes, self.equivalent)) {
            match rule.object_names() {
                [] => return RuleMatch::Always,
                named => names.extend(named.iter().map(String::as_str)),
            }
        }
        names.sort_unstable();
        names.dedup();
        if names.is_empty() { RuleMatch::Never } else { RuleMatch::Named(names) }
    }

    /// Whether a rule names the resource, which is the request's own or an equivalent of it.
    pub(crate) fn names(&self, attributes: &Attributes, resource: &GroupVersionResource) -> bool {
        self.is_any || self.rules.iter().any(|rule| rule.matches(attributes, resource))
    }

    /// Returns the first of these resources that a rule names, in the order of the rules.
    pub(crate) fn first_named<'a, T>(
        &self,
        attributes: &Attributes,
        resources: &'a [T],
        resource: impl Fn(&T) -> &GroupVersionResource,
    ) -> Option<&'a T> {
        self.rules.iter().find_map(|rule| resources.iter().find(|one| rule.matches(attributes, resource(one))))
    }

    /// Whether a rule may name an equivalent of the request's resource.
    pub(crate) fn concerns_equivalents(&self, attributes: &Attributes) -> bool {
        self.equivalent && self.rules.iter().any(|rule| rule.concerns(attributes))
    }

    /// Whether a rule excludes the resource.
    pub(crate) fn excludes(&self, attributes: &Attributes, resource: &GroupVersionResource) -> bool {
        self.excluded.iter().any(|rule| rule.matches(attributes, resource))
    }

    /// Whether an equivalent of the request's resource may be excluded, and with it the request.
    pub(crate) fn may_exclude_equivalents(&self, attributes: &Attributes) -> bool {
        self.equivalent && self.excluded.iter().any(|rule| rule.concerns(attributes))
    }
}
