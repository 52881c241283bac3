//! Which of many lists of rules may take a request, told without looking at the others.

use super::rules::Rule;
use crate::admission::Operation;
use std::collections::HashMap;

/// Positions of lists of rules, by resource and operation.
#[derive(Debug, Default)]
pub struct Index {
    /// By resource name: the lists with a rule that names it or any.
    by_resource: HashMap<Box<str>, ByOperation>,
    /// The lists with a rule for any resource.
    any_resource: ByOperation,
}

/// Positions by operation, ascending.
#[derive(Clone, Debug, Default)]
struct ByOperation([Vec<usize>; 4]);

const OPERATIONS: [Operation; 4] = [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];

impl ByOperation {
    fn of(&self, operation: Operation) -> &[usize] {
        let [create, update, delete, connect] = &self.0;
        match operation {
            Operation::Create => create,
            Operation::Update => update,
            Operation::Delete => delete,
            Operation::Connect => connect,
        }
    }

    fn add(&mut self, position: usize, rule: Option<&Rule>) {
        for (positions, operation) in self.0.iter_mut().zip(OPERATIONS) {
            if rule.is_none_or(|rule| rule.has_operation(operation)) && positions.last() != Some(&position) {
                positions.push(position);
            }
        }
    }
}

impl Index {
    /// Of these lists, in this order; `None` is one that takes every request.
    pub fn new<'a>(lists: impl Iterator<Item = Option<&'a [Rule]>> + Clone) -> Self {
        let names = lists.clone().flatten().flatten().flat_map(Rule::resource_names).filter(|name| *name != "*");
        let mut by_resource: HashMap<Box<str>, ByOperation> =
            names.map(|name| (name.into(), ByOperation::default())).collect();
        let mut any_resource = ByOperation::default();
        for (position, rules) in lists.enumerate() {
            let takes_any = |rule: &&Rule| rule.resource_names().any(|name| name == "*");
            let mut add_to_all = |rule: Option<&Rule>| {
                any_resource.add(position, rule);
                by_resource.values_mut().for_each(|positions| positions.add(position, rule));
            };
            match rules {
                None => add_to_all(None),
                Some(rules) => rules.iter().filter(takes_any).for_each(|rule| add_to_all(Some(rule))),
            }
            for rule in rules.into_iter().flatten() {
                for name in rule.resource_names() {
                    if let Some(positions) = by_resource.get_mut(name) {
                        positions.add(position, Some(rule));
                    }
                }
            }
        }
        Self { by_resource, any_resource }
    }

    /// The positions of the lists that may take such a request, ascending.
    pub fn candidates(&self, resource: &str, operation: Operation) -> impl Iterator<Item = usize> + use<'_> {
        self.by_resource.get(resource).unwrap_or(&self.any_resource).of(operation).iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;

    fn rule(resources: &[&str], operations: &[&str]) -> Rule {
        let all = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect());
        let any = Some(vec!["*".to_owned()]);
        let operations = all(operations);
        Rule::new(&RuleWithOperations {
            api_groups: any.clone(),
            api_versions: any,
            operations,
            resources: all(resources),
            scope: None,
        })
    }

    #[test]
    fn candidates_are_what_names_the_resource_or_any_in_order() {
        let lists = [
            Some(vec![rule(&["pods", "pods/status"], &["CREATE"]), rule(&["pods"], &["*"])]),
            Some(vec![rule(&["*/*"], &["UPDATE"])]),
            Some(vec![rule(&["services"], &["*"])]),
            None,
            Some(vec![rule(&["pods/*"], &["DELETE"]), rule(&["*"], &["CREATE"])]),
            Some(vec![]),
        ];
        let index = Index::new(lists.iter().map(Option::as_deref));
        for (resource, operation, expected) in [
            ("pods", Operation::Create, &[0, 3, 4][..]),
            ("pods", Operation::Update, &[0, 1, 3]),
            ("pods", Operation::Delete, &[0, 3, 4]),
            ("services", Operation::Create, &[2, 3, 4]),
            ("secrets", Operation::Update, &[1, 3]),
            ("secrets", Operation::Connect, &[3]),
        ] {
            assert_eq!(index.candidates(resource, operation).collect::<Vec<_>>(), expected, "{resource} {operation:?}");
        }
    }
}
