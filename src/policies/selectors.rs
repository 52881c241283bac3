//! The selectors of many policies, told together whether they match: equal ones are asked once for a request, and one that wants a
//! label which is not there is not asked at all.

use crate::object::selector::{LabelSelector, Labels, Operator};
use std::collections::HashMap;

/// The number of a selector that matches everything, or that nobody can tell of.
const ALWAYS: usize = usize::MAX;

/// Selectors by their positions in a list.
#[derive(Debug, Default)]
pub struct Selectors {
    /// The number of each position's selector.
    numbers: Box<[usize]>,
    /// The different ones, by number.
    different: Vec<LabelSelector>,
    /// The numbers of those that are asked whatever labels there are.
    always_asked: Vec<usize>,
    /// The others, by the key of a label that they want.
    by_key: HashMap<Box<str>, Wanting>,
}

/// Numbers of selectors that want a label of one key.
#[derive(Debug, Default)]
struct Wanting {
    any: Vec<usize>,
    by_value: HashMap<Box<str>, Vec<usize>>,
}

/// Which selectors match, by number.
#[derive(Debug, Default)]
pub struct Matching(Box<[bool]>);

/// Labels as they are asked for.
pub type List<'a> = Vec<(&'a str, &'a str)>;

impl Labels for List<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }
}

impl Selectors {
    /// Of these positions; `None` where nobody can tell.
    pub fn new<'a>(selectors: impl Iterator<Item = Option<&'a LabelSelector>>) -> Self {
        let (mut all, mut known) = (Self::default(), HashMap::new());
        let numbers = selectors.map(|selector| match selector {
            Some(selector) if !selector.is_empty() => *known.entry(selector).or_insert_with(|| all.add(selector)),
            _ => ALWAYS,
        });
        let numbers = numbers.collect();
        Self { numbers, ..all }
    }

    fn add(&mut self, selector: &LabelSelector) -> usize {
        let number = self.different.len();
        self.different.push(selector.clone());
        let wanted = |operator| selector.requirements().iter().find(|wanted| wanted.operator == operator);
        if let Some(wanted) = wanted(Operator::In) {
            let wanting = self.by_key.entry(wanted.key.as_str().into()).or_default();
            for value in &wanted.values {
                wanting.by_value.entry(value.as_str().into()).or_default().push(number);
            }
        } else if let Some(wanted) = wanted(Operator::Exists) {
            self.by_key.entry(wanted.key.as_str().into()).or_default().any.push(number);
        } else {
            self.always_asked.push(number);
        }
        number
    }

    /// Which of them match one of these lists of labels.
    pub fn matching<'a>(&self, lists: impl Iterator<Item = List<'a>>) -> Matching {
        if self.different.is_empty() {
            return Matching::default();
        }
        let mut matching = vec![false; self.different.len()];
        for labels in lists {
            let mut ask = |numbers: &[usize]| {
                for &number in numbers {
                    if let (Some(selector), Some(matches)) = (self.different.get(number), matching.get_mut(number)) {
                        *matches |= selector.matches_map(&labels);
                    }
                }
            };
            ask(&self.always_asked);
            for (key, value) in &labels {
                let Some(wanting) = self.by_key.get(*key) else { continue };
                ask(&wanting.any);
                ask(wanting.by_value.get(*value).map(Vec::as_slice).unwrap_or_default());
            }
        }
        Matching(matching.into())
    }

    /// Whether the selector at a position may match, by what was found.
    pub fn may_match(&self, position: usize, found: &Matching) -> bool {
        let number = self.numbers.get(position).copied().unwrap_or(ALWAYS);
        number == ALWAYS || found.0.get(number).is_none_or(|matches| *matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_told_of_all_is_what_each_says() {
        let selectors = [
            json!({}),
            json!({"matchLabels": {"a": "1"}}),
            json!({"matchLabels": {"a": "1", "b": "2"}}),
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}, {"key": "b", "operator": "DoesNotExist"}]}),
            json!({"matchExpressions": [{"key": "b", "operator": "Exists"}]}),
            json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}),
            json!({"matchLabels": {"a": "1"}}),
            json!(null),
        ];
        let selectors = selectors.map(|selector| LabelSelector::from_json(Some(&selector)).unwrap());
        let all = Selectors::new(selectors.iter().map(Some).chain([None]));
        assert_eq!(all.different.len(), 6);
        let lists: [&[(&str, &str)]; 6] =
            [&[], &[("a", "1")], &[("a", "2")], &[("a", "1"), ("b", "2")], &[("b", "")], &[("c", "1"), ("a", "3")]];
        for first in lists {
            for second in lists {
                let both = [first.to_vec(), second.to_vec()];
                let found = all.matching(both.iter().cloned());
                for (position, selector) in selectors.iter().enumerate() {
                    let expected = both.iter().any(|labels| selector.matches_map(labels));
                    assert_eq!(all.may_match(position, &found), expected, "{selector:?} {both:?}");
                }
                assert!(all.may_match(selectors.len(), &found));
            }
        }
        assert!((0..=selectors.len()).all(|position| all.may_match(position, &Matching::default())));
    }
}
