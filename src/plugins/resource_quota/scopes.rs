//! Quota scopes, which select the objects that a quota counts.

use crate::go_text::go_quote;
use crate::object::selector::LabelSelector;
use k8s_openapi::api::core::v1::{ResourceQuotaSpec, ScopedResourceSelectorRequirement};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector as Labels, LabelSelectorRequirement};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The scopes that select by class.
const OF_CLASSES: [&str; 2] = ["PriorityClass", "VolumeAttributesClass"];

/// The data of an object that scopes need.
#[derive(Debug, Default)]
pub(super) enum Scoped {
    /// An object to which no scope applies.
    #[default]
    Nothing,
    Pod(PodScopes),
    /// The VolumeAttributesClasses to which a PersistentVolumeClaim refers.
    VolumeClaim(BTreeSet<String>),
}

/// The data of a pod that scopes need.
#[derive(Debug, Default)]
pub(super) struct PodScopes {
    pub(super) is_terminating: bool,
    pub(super) is_best_effort: bool,
    pub(super) crosses_namespaces: bool,
    /// The priority class, if the pod names one.
    pub(super) priority_class: Option<String>,
}

/// `v1.ScopedResourceSelectorRequirement`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Selector {
    pub(super) name: String,
    pub(super) operator: String,
    pub(super) values: Vec<String>,
}

/// The reason why a scope cannot be compared with an object, with kube-apiserver's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct InvalidScope(String);

impl Selector {
    /// All scopes of a quota (`getScopeSelectorsFromQuota`).
    pub(super) fn all(spec: &ResourceQuotaSpec) -> Vec<Self> {
        let existing = |name: &String| Self { name: name.clone(), operator: "Exists".to_owned(), values: Vec::new() };
        let scopes = spec.scopes.iter().flatten().map(existing);
        let expressions = spec.scope_selector.iter().flat_map(|selector| selector.match_expressions.iter().flatten());
        scopes.chain(expressions.map(Self::from)).collect()
    }

    /// Whether the scope selects the object (`podMatchesScopeFunc`, `pvcMatchesScopeFunc`).
    pub(super) fn matches(&self, scoped: &Scoped) -> Result<bool, InvalidScope> {
        match (scoped, &*self.name) {
            (Scoped::Pod(pod), "Terminating") => Ok(pod.is_terminating),
            (Scoped::Pod(pod), "NotTerminating") => Ok(!pod.is_terminating),
            (Scoped::Pod(pod), "BestEffort") => Ok(pod.is_best_effort),
            (Scoped::Pod(pod), "NotBestEffort") => Ok(!pod.is_best_effort),
            (Scoped::Pod(pod), "CrossNamespacePodAffinity") => Ok(pod.crosses_namespaces),
            (Scoped::Pod(pod), "PriorityClass") => self.matches_class(pod.priority_class.iter()),
            (Scoped::VolumeClaim(classes), "VolumeAttributesClass") => self.matches_class(classes.iter()),
            _ => Ok(false),
        }
    }

    /// Checks that the selector is valid.
    pub(super) fn check(&self) -> Result<(), InvalidScope> {
        match OF_CLASSES.contains(&&*self.name) && self.operator != "Exists" {
            true => self.compile().map(drop),
            false => Ok(()),
        }
    }

    fn matches_class<'a>(&self, mut classes: impl ExactSizeIterator<Item = &'a String>) -> Result<bool, InvalidScope> {
        if self.operator == "Exists" {
            return Ok(classes.len() > 0);
        }
        let selector =
            self.compile().map_err(|why| InvalidScope(format!("failed to parse and convert selector: {why}")))?;
        if classes.len() == 0 {
            return Ok(selector.matches_map(&BTreeMap::new()));
        }
        Ok(classes.any(|class| selector.matches_map(&BTreeMap::from([(self.name.clone(), class.clone())]))))
    }

    /// `ScopedResourceSelectorRequirementsAsSelector`.
    fn compile(&self) -> Result<LabelSelector, InvalidScope> {
        if !["In", "NotIn", "Exists", "DoesNotExist"].contains(&&*self.operator) {
            return Err(InvalidScope(format!("{} is not a valid scope selector operator", go_quote(&self.operator))));
        }
        let (key, operator) = (self.name.clone(), self.operator.clone());
        let requirement = LabelSelectorRequirement { key, operator, values: Some(self.values.clone()) };
        let labels = Labels { match_expressions: Some(vec![requirement]), match_labels: None };
        LabelSelector::from_api(Some(&labels)).map_err(|why| InvalidScope(why.to_string()))
    }
}

impl From<&ScopedResourceSelectorRequirement> for Selector {
    fn from(requirement: &ScopedResourceSelectorRequirement) -> Self {
        let ScopedResourceSelectorRequirement { scope_name, operator, values } = requirement.clone();
        Self { name: scope_name, operator, values: values.unwrap_or_default() }
    }
}

/// The form in which Go prints the struct.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{} {} [{}]}}", self.name, self.operator, self.values.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(name: &str, operator: &str, values: &[&str]) -> Selector {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Selector { name: name.to_owned(), operator: operator.to_owned(), values }
    }

    fn pod(class: Option<&str>) -> Scoped {
        Scoped::Pod(PodScopes { priority_class: class.map(str::to_owned), ..PodScopes::default() })
    }

    #[test]
    fn a_priority_class_is_named_or_not() {
        for (operator, values, of_high, of_low, of_none) in [
            ("In", &["high", "other"][..], true, false, false),
            ("NotIn", &["high"], false, true, true),
            ("Exists", &[], true, true, false),
            ("DoesNotExist", &[], false, false, true),
        ] {
            let selector = selector("PriorityClass", operator, values);
            for (class, want) in [(Some("high"), of_high), (Some("low"), of_low), (None, of_none)] {
                assert_eq!(selector.matches(&pod(class)), Ok(want), "{selector} {class:?}");
            }
            assert_eq!(selector.matches(&Scoped::Nothing), Ok(false));
            assert_eq!(selector.matches(&Scoped::VolumeClaim(BTreeSet::new())), Ok(false));
        }
    }

    #[test]
    fn one_class_of_a_claim_is_enough() {
        let claim = |classes: &[&str]| Scoped::VolumeClaim(classes.iter().map(|class| (*class).to_owned()).collect());
        let gold = selector("VolumeAttributesClass", "In", &["gold"]);
        assert_eq!(gold.matches(&claim(&["silver", "gold"])), Ok(true));
        assert_eq!(gold.matches(&claim(&["silver"])), Ok(false));
        let none = selector("VolumeAttributesClass", "DoesNotExist", &[]);
        assert_eq!((none.matches(&claim(&[])), none.matches(&claim(&["gold"]))), (Ok(true), Ok(false)));
    }

    #[test]
    fn the_state_of_a_pod_decides_for_every_operator() {
        let busy = Scoped::Pod(PodScopes { is_terminating: true, crosses_namespaces: true, ..PodScopes::default() });
        for (name, want) in [
            ("Terminating", true),
            ("NotTerminating", false),
            ("BestEffort", false),
            ("NotBestEffort", true),
            ("CrossNamespacePodAffinity", true),
            ("VolumeAttributesClass", false),
            ("Unheard", false),
        ] {
            assert_eq!(selector(name, "DoesNotExist", &["x"]).matches(&busy), Ok(want), "{name}");
        }
    }

    #[test]
    fn an_invalid_scope_selector_is_an_error() {
        let long = "x".repeat(64);
        for (operator, values, want) in [
            ("Like", &["a"][..], "\"Like\" is not a valid scope selector operator"),
            ("In", &[], "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"),
            ("NotIn", &[&*long], "must be no more than 63"),
        ] {
            let selector = selector("PriorityClass", operator, values);
            let error = selector.matches(&pod(Some("high"))).unwrap_err().to_string();
            assert!(error.starts_with("failed to parse and convert selector: ") && error.contains(want), "{error}");
            assert!(selector.check().is_err());
        }
        assert_eq!(selector("BestEffort", "Like", &[]).check(), Ok(()));
        assert_eq!(selector("PriorityClass", "In", &["a", "b"]).to_string(), "{PriorityClass In [a b]}");
    }
}
