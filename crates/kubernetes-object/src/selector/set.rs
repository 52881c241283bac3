//! A set of selectors that matches labels against all of them at once: the time depends on the labels, and hardly on the number of
//! selectors.

use super::{LabelSelector, Operator};
use std::collections::{HashMap, HashSet};

/// Selectors by position; equal selectors are stored once.
#[derive(Debug, Default)]
pub struct SelectorSet {
    /// For each position, the number of its selector.
    which: Box<[u32]>,
    /// For each selector, the number of labels that it requires.
    wanted: Box<[u32]>,
    /// For each selector, whether it has requirements.
    asks: Box<[bool]>,
    by_key: HashMap<Box<str>, ByValue>,
}

/// The effects of labels with one key.
#[derive(Debug, Default)]
struct ByValue {
    any: Vec<Effect>,
    by_value: HashMap<Box<str>, Vec<Effect>>,
}

/// The effect of a label on a selector.
#[derive(Clone, Copy, Debug)]
struct Effect {
    selector: u32,
    /// Whether the selector requires the label; otherwise the selector excludes the label.
    is_wanted: bool,
}

/// For each selector, the number of required labels that are missing; `NEVER` or more if a label is excluded.
#[derive(Debug)]
pub struct Matching(Vec<u32>);

/// The number of missing labels of a selector that cannot match.
const NEVER: u32 = 1 << 31;

impl SelectorSet {
    /// Makes a set of these selectors, in this order.
    pub fn new<'a>(selectors: impl Iterator<Item = &'a LabelSelector>) -> Self {
        let (mut set, mut known) = (Self::default(), HashMap::new());
        let (mut which, mut wanted, mut asks) = (Vec::new(), Vec::new(), Vec::new());
        for selector in selectors {
            which.push(*known.entry(selector).or_insert_with(|| {
                let number = u32::try_from(wanted.len()).unwrap_or(u32::MAX);
                wanted.push(set.add(number, selector));
                asks.push(!selector.is_empty());
                number
            }));
        }
        Self { which: which.into(), wanted: wanted.into(), asks: asks.into(), ..set }
    }

    /// Adds a selector and returns the number of labels that it requires. Counts a numeric comparison as met.
    fn add(&mut self, number: u32, selector: &LabelSelector) -> u32 {
        let mut wanted = if selector.nothing { NEVER } else { 0 };
        for requirement in &selector.requirements {
            let is_wanted = matches!(requirement.operator, Operator::In | Operator::Exists);
            let effect = Effect { selector: number, is_wanted };
            let by_value = self.by_key.entry(requirement.key.as_str().into()).or_default();
            match requirement.operator {
                Operator::In | Operator::NotIn => {
                    for value in requirement.values.iter().collect::<HashSet<_>>() {
                        by_value.by_value.entry(value.as_str().into()).or_default().push(effect);
                    }
                }
                Operator::Exists | Operator::DoesNotExist => by_value.any.push(effect),
                Operator::GreaterThan | Operator::LessThan => {}
            }
            wanted += u32::from(is_wanted);
        }
        wanted
    }

    /// Whether no selector has requirements.
    pub fn is_trivial(&self) -> bool {
        !self.asks.contains(&true)
    }

    /// Matches the selectors against labels.
    pub fn matching<'a>(&self, labels: impl Iterator<Item = (&'a str, &'a str)>) -> Matching {
        let mut wanted = self.wanted.to_vec();
        for Effect { selector, is_wanted } in labels.flat_map(|(key, value)| self.effects(key, value)) {
            if let Some(left) = wanted.get_mut(*selector as usize) {
                *left = if *is_wanted { *left - 1 } else { *left | NEVER };
            }
        }
        Matching(wanted)
    }

    /// Matches the selectors without requirements.
    pub fn idle(&self) -> Matching {
        Matching(self.asks.iter().map(|asks| if *asks { NEVER } else { 0 }).collect())
    }

    fn effects(&self, key: &str, value: &str) -> impl Iterator<Item = &Effect> {
        let of_key = self.by_key.get(key);
        let of_value = of_key.and_then(|of_key| of_key.by_value.get(value));
        of_key.into_iter().flat_map(|of_key| &of_key.any).chain(of_value.into_iter().flatten())
    }

    /// Whether the selector at this position matches.
    pub fn has(&self, matching: &Matching, position: usize) -> bool {
        let which = self.which.get(position);
        which.and_then(|which| matching.0.get(*which as usize)).is_some_and(|left| *left == 0)
    }
}

impl Matching {
    /// The selectors that match in one of two results of one set.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(left, other)| *left = other.min(*left));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn selectors() -> Vec<LabelSelector> {
        let one =
            |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        [
            json!([]),
            json!([one("a", "In", &["1", "2", "2"])]),
            json!([one("a", "NotIn", &["1"])]),
            json!([one("a", "Exists", &[]), one("b", "DoesNotExist", &[])]),
            json!([one("a", "In", &["1"]), one("a", "NotIn", &["2"]), one("b", "Exists", &[])]),
            json!([one("a", "In", &["1"]), one("a", "In", &["2", "1"])]),
            json!([one("a", "Exists", &[]), one("a", "NotIn", &["1", "3"]), one("b", "NotIn", &["", "1"])]),
            json!([one("a", "NotIn", &["1"])]),
        ]
        .map(|expressions| LabelSelector::from_json(Some(&json!({ "matchExpressions": expressions }))).unwrap())
        .into_iter()
        .chain([LabelSelector::nothing()])
        .collect()
    }

    #[test]
    fn a_set_matches_as_each_of_its_selectors_does() {
        let selectors = selectors();
        let set = SelectorSet::new(selectors.iter());
        assert_eq!(set.wanted.len(), selectors.len() - 1, "equal ones are one");
        let values = [None, Some(""), Some("1"), Some("2"), Some("3")];
        for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b))) {
            let labels = [("a", a), ("b", b), ("c", Some("1"))];
            let labels: BTreeMap<_, _> =
                labels.iter().filter_map(|(key, value)| Some(((*key).to_owned(), (*value)?.to_owned()))).collect();
            let matching = set.matching(labels.iter().map(|(key, value)| (&**key, &**value)));
            for (position, selector) in selectors.iter().enumerate() {
                assert_eq!(set.has(&matching, position), selector.matches_map(&labels), "{selector:?} {labels:?}");
            }
        }
    }

    #[test]
    fn several_labels_may_match_and_none_only_what_asks_nothing() {
        let selectors = selectors();
        let set = SelectorSet::new(selectors.iter());
        let both = set.matching([("a", "1")].into_iter()).or(set.matching([("b", "2")].into_iter()));
        let has = |matching: &Matching| {
            (0..selectors.len()).filter(|position| set.has(matching, *position)).collect::<Vec<_>>()
        };
        assert_eq!(has(&both), [0, 1, 2, 3, 5, 7]);
        assert_eq!(has(&set.idle()), [0]);
    }

    #[test]
    fn looks_only_at_those_that_a_label_concerns() {
        let selecting = |key: &str, value: usize| json!({"matchLabels": {key: value.to_string(), "env": "test"}});
        let selectors: Vec<_> =
            (0..1000).map(|number| LabelSelector::from_json(Some(&selecting("team", number))).unwrap()).collect();
        let set = SelectorSet::new(selectors.iter());
        for (labels, looked_at) in [(&[("team", "7")][..], 1), (&[("team", "x"), ("a", "b")], 0), (&[], 0)] {
            assert_eq!(labels.iter().flat_map(|(key, value)| set.effects(key, value)).count(), looked_at);
        }
    }

    #[test]
    fn a_set_is_trivial_if_nothing_is_asked() {
        let everything = [LabelSelector::everything(), LabelSelector::everything()];
        assert!(SelectorSet::new(everything.iter()).is_trivial() && SelectorSet::default().is_trivial());
        for selector in &selectors()[1..] {
            assert!(!SelectorSet::new([selector].into_iter()).is_trivial(), "{selector:?}");
        }
    }
}
