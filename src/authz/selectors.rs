//! The requirements of a request's selectors, for authorizers that let a user see only some objects.
//!
//! An unreadable selector gives no requirements: the review is then about all objects, which never grants more.

use crate::object::selector::{FieldRequirement, FieldSelector, LabelRequirement, LabelSelector, Operator};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldSelectorRequirement, LabelSelectorRequirement};

/// Returns the requirements of a field selector (`fields.ParseSelector` and `fieldSelectorToAuthorizationAPI`).
pub(super) fn fields(selector: &str) -> Vec<FieldSelectorRequirement> {
    let selector = FieldSelector::parse(selector).unwrap_or_default();
    let requirement = |requirement: &FieldRequirement| FieldSelectorRequirement {
        key: requirement.field.clone(),
        operator: if requirement.equals { "In" } else { "NotIn" }.to_owned(),
        values: Some(vec![requirement.value.clone()]),
    };
    selector.requirements().iter().map(requirement).collect()
}

/// Returns the requirements of a label selector, sorted by key, without comparisons of numbers (`labels.Parse` and
/// `labelSelectorToAuthorizationAPI`).
pub(super) fn labels(selector: &str) -> Vec<LabelSelectorRequirement> {
    let selector = LabelSelector::parse(selector).unwrap_or_default();
    let requirement = |requirement: &LabelRequirement| {
        let operator = match requirement.operator {
            Operator::In => "In",
            Operator::NotIn => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            Operator::GreaterThan | Operator::LessThan => return None,
        };
        let values = (!requirement.values.is_empty()).then(|| requirement.values.clone());
        Some(LabelSelectorRequirement { key: requirement.key.clone(), operator: operator.to_owned(), values })
    };
    selector.requirements().iter().filter_map(requirement).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_field_selectors() {
        type Row = (&'static str, &'static [(&'static str, &'static str, &'static str)]);
        let table: &[Row] = &[
            ("", &[]),
            ("metadata.name=x", &[("metadata.name", "In", "x")]),
            ("a==x,b!=y,,c=", &[("a", "In", "x"), ("b", "NotIn", "y"), ("c", "In", "")]),
            (r"a=x\,y\=z\\", &[("a", "In", r"x,y=z\")]),
            ("a", &[]),
            ("a=x,b", &[]),
            ("a=b=c", &[]),
            (r"a=\x", &[]),
            ("=,a=x,!=", &[("a", "In", "x")]),
        ];
        for (selector, wanted) in table {
            let found = fields(selector);
            let found: Vec<_> = found
                .iter()
                .map(|r| (r.key.as_str(), r.operator.as_str(), r.values.as_ref().unwrap()[0].as_str()))
                .collect();
            assert_eq!(found, *wanted, "{selector}");
        }
    }

    #[test]
    fn reads_label_selectors() {
        let table = [
            ("", ""),
            ("b=x,a", "a Exists []; b In [x]"),
            ("!a, b==x ,c!=y", "a DoesNotExist []; b In [x]; c NotIn [y]"),
            ("x.io/a in (q, p,q), b notin ( )", "b NotIn []; x.io/a In [p,q]"),
            ("a=", "a In []"),
            ("a>5,b", "b Exists []"),
            ("a>x,b", ""),
            ("in in (in)", "in In [in]"),
            ("a,", ""),
            ("a b", ""),
            ("-a=x", ""),
            ("a=x/y", ""),
            ("a in p", ""),
            ("a in (p", ""),
            ("a in (p q)", ""),
            ("UP/a", ""),
            ("a\0=b", "a In [b]"),
        ];
        for (selector, wanted) in table {
            let found: Vec<_> = labels(selector)
                .iter()
                .map(|r| format!("{} {} [{}]", r.key, r.operator, r.values.clone().unwrap_or_default().join(",")))
                .collect();
            assert_eq!(found.join("; "), wanted, "{selector}");
        }
    }
}
