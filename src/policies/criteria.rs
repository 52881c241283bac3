//! Which requests a policy or a binding is for (`matchConstraints`, `matchResources`).

use crate::admission::Attributes;
use crate::object::selector::LabelSelector;
use crate::webhooks::matching::{Matcher, object_matches};
use crate::webhooks::rules::{Match, Rule, match_rules};
use k8s_openapi::api::admissionregistration::v1::{MatchResources, NamedRuleWithOperations, RuleWithOperations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as ApiSelector;

/// Compiled `MatchResources`.
#[derive(Debug, PartialEq)]
pub struct Criteria {
    rules: Box<[Rule]>,
    excluded: Box<[Rule]>,
    /// Whether a rule also means the resources that are equivalent to those it names.
    equivalent: bool,
    namespaces: Result<LabelSelector, String>,
    objects: Result<LabelSelector, String>,
}

impl From<MatchResources> for Criteria {
    fn from(resources: MatchResources) -> Self {
        let rules = |rules: Option<Vec<NamedRuleWithOperations>>| rules.into_iter().flatten().map(named).collect();
        let selector = |selector: Option<ApiSelector>| match selector {
            // The API server's default.
            None => Ok(LabelSelector::everything()),
            Some(selector) => LabelSelector::from_api(Some(&selector)),
        };
        Self {
            rules: rules(resources.resource_rules),
            excluded: rules(resources.exclude_resource_rules),
            equivalent: resources.match_policy.as_deref() == Some("Equivalent"),
            namespaces: selector(resources.namespace_selector),
            objects: selector(resources.object_selector),
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

impl Criteria {
    /// The rules, for an index; none takes every request.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// How they take a request (`matching.Matcher.Matches`).
    ///
    /// # Errors
    /// When that cannot be told of a request that the rules take.
    pub async fn matches(&self, attributes: &Attributes, matcher: &mut Matcher<'_>) -> Result<Match, String> {
        let matched = self.match_rules(attributes);
        if matched == Match::No {
            return Ok(Match::No);
        }
        let namespace = matcher.namespace_matches(&self.namespaces, attributes).await;
        if let Ok(false) = namespace {
            return Ok(Match::No);
        }
        let object = object_matches(&self.objects, attributes);
        if let Ok(false) = object {
            return Ok(Match::No);
        }
        namespace.map_err(|status| status.message)?;
        object?;
        Ok(matched)
    }

    /// Whether they may take a request, as far as can be told without asking anybody.
    pub fn may_match(&self, attributes: &Attributes, matcher: &Matcher<'_>) -> bool {
        self.match_rules(attributes) != Match::No && matcher.may_select(&self.namespaces, &self.objects, attributes)
    }

    /// Whether the rules take a request, whatever is in its object.
    pub fn rules_match(&self, attributes: &Attributes) -> bool {
        self.match_rules(attributes) != Match::No
    }

    fn match_rules(&self, attributes: &Attributes) -> Match {
        let matched = match self.rules.is_empty() {
            true => Match::Exact,
            false => match_rules(&self.rules, attributes, self.equivalent),
        };
        if matched != Match::No
            && !self.excluded.is_empty()
            && match_rules(&self.excluded, attributes, self.equivalent) != Match::No
        {
            return Match::No;
        }
        matched
    }
}
