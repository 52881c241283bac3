//! Pods' tolerations: whether one covers another, and merged lists of them.

use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// A toleration's fields; a missing field is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Toleration<'a> {
    key: &'a str,
    operator: &'a str,
    value: &'a str,
    effect: &'a str,
    seconds: Option<i64>,
}

impl<'a> Toleration<'a> {
    fn of(value: &'a Value) -> Self {
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
        Self {
            key: text("key"),
            operator: text("operator"),
            value: text("value"),
            effect: text("effect"),
            seconds: value.get("tolerationSeconds").and_then(Value::as_i64),
        }
    }
}

/// The error of a pod that has too many tolerations to merge.
pub(crate) const TOO_MANY: &str = "spec.tolerations: there are too many to be merged with others";

/// The number of pairs of tolerations that a merge may compare, which bounds the time of a request.
const MAX_PAIRS: usize = 1 << 26;

/// Whether `one` tolerates every taint that `other` tolerates (`tolerations.isSuperset`).
fn is_superset(one: &Toleration<'_>, other: &Toleration<'_>) -> bool {
    if one == other {
        return true;
    }
    let keys = one.key == other.key || one.key.is_empty() && one.operator == "Exists";
    let effects = one.effect.is_empty() || one.effect == other.effect;
    let seconds = match one.seconds {
        Some(limit) if one.effect == "NoExecute" => other.seconds.is_some_and(|seconds| seconds <= limit),
        _ => true,
    };
    keys && effects
        && seconds
        && match one.operator {
            // The other's operator must be `Equal` literally: an empty operator does not count here, though it means `Equal` too.
            "" | "Equal" => other.operator == "Equal" && other.value == one.value,
            "Exists" => true,
            _ => false,
        }
}

/// Merges two lists, without tolerations that another one covers (`tolerations.MergeTolerations`); `None` if the lists are too long.
pub(crate) fn merge(first: &[Value], second: &[Value]) -> Option<Vec<Value>> {
    let all: Vec<(&Value, Toleration<'_>)> =
        first.iter().chain(second).map(|value| (value, Toleration::of(value))).collect();
    if all.len().saturating_mul(all.len()) > MAX_PAIRS {
        return None;
    }
    let mut merged: Vec<&(&Value, Toleration<'_>)> = Vec::new();
    for (i, each) in all.iter().enumerate() {
        let toleration = &each.1;
        let is_redundant = merged.iter().any(|(_, kept)| is_superset(kept, toleration))
            || all.iter().skip(i + 1).any(|(_, later)| toleration != later && is_superset(later, toleration));
        if !is_redundant {
            merged.push(each);
        }
    }
    Some(merged.into_iter().map(|(value, _)| (*value).clone()).collect())
}

/// Whether the whitelist covers all the tolerations (`tolerations.VerifyAgainstWhitelist`). An empty whitelist allows everything.
pub(crate) fn are_allowed(tolerations: &[Value], whitelist: &[Value]) -> bool {
    let index = Whitelist::of(whitelist);
    whitelist.is_empty() || tolerations.iter().all(|toleration| index.covers(&Toleration::of(toleration)))
}

/// Key, effect and value; the key is `None` for every key, the value is `None` for every value.
type Covered<'a> = (Option<&'a str>, &'a str, Option<&'a str>);

/// An index of tolerations by the taints that they cover: a pod may have too many to compare each with each.
#[derive(Default)]
struct Whitelist<'a> {
    /// All tolerations. Each one covers its equals.
    all: HashSet<Toleration<'a>>,
    /// The longest time that is covered, in seconds; `None` is no limit.
    wide: HashMap<Covered<'a>, Option<i64>>,
}

impl<'a> Whitelist<'a> {
    fn of(list: &'a [Value]) -> Self {
        let mut index = Self::default();
        for one in list.iter().map(Toleration::of) {
            index.all.insert(one);
            let (key, value) = match one.operator {
                "" | "Equal" => (Some(one.key), Some(one.value)),
                "Exists" => (Some(one.key).filter(|key| !key.is_empty()), None),
                _ => continue,
            };
            let seconds = one.seconds.filter(|_| one.effect == "NoExecute");
            let widest = index.wide.entry((key, one.effect, value)).or_insert(seconds);
            *widest = widest.zip(seconds).map(|(one, other)| one.max(other));
        }
        index
    }

    /// Whether an indexed toleration is a superset of this one, as [`is_superset`].
    fn covers(&self, toleration: &Toleration<'_>) -> bool {
        let values = [None, Some(toleration.value).filter(|_| toleration.operator == "Equal")];
        let widest = [Some(toleration.key), None]
            .into_iter()
            .flat_map(|key| ["", toleration.effect].map(|effect| (key, effect)))
            .flat_map(|(key, effect)| values.map(|value| self.wide.get(&(key, effect, value))))
            .flatten();
        let lasts = |limit: &Option<i64>| limit.is_none_or(|limit| toleration.seconds.is_some_and(|s| s <= limit));
        self.all.contains(toleration) || widest.into_iter().any(lasts)
    }
}

/// Whether both tolerations are for the same taint (`Toleration.MatchToleration`).
pub(crate) fn are_about_the_same(one: &Value, other: &Value) -> bool {
    let (one, other) = (Toleration::of(one), Toleration::of(other));
    Toleration { seconds: None, ..one } == Toleration { seconds: None, ..other }
}

/// Whether all fields of both tolerations are equal.
pub(crate) fn are_equal(one: &Value, other: &Value) -> bool {
    Toleration::of(one) == Toleration::of(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn covers(one: &Value, other: &Value) -> bool {
        is_superset(&Toleration::of(one), &Toleration::of(other))
    }

    fn toleration(key: &str, operator: &str, value: &str, effect: &str, seconds: Option<i64>) -> Value {
        json!({"key": key, "operator": operator, "value": value, "effect": effect, "tolerationSeconds": seconds})
    }

    #[test]
    fn a_wider_toleration_covers_a_narrower_one() {
        let all = toleration("", "Exists", "", "", None);
        let key = toleration("k", "Exists", "", "", None);
        let value = toleration("k", "Equal", "v", "NoSchedule", None);
        let implied = toleration("k", "", "v", "NoSchedule", None);
        let execute = |seconds| toleration("k", "Exists", "", "NoExecute", seconds);
        for (one, other, want) in [
            (&all, &value, true),
            (&key, &value, true),
            (&value, &key, false),
            (&key, &all, false),
            (&implied, &value, true),
            (&value, &implied, false),
            (&implied, &implied, true),
            (&execute(Some(60)), &execute(Some(30)), true),
            (&execute(Some(60)), &execute(Some(90)), false),
            (&execute(Some(60)), &execute(None), false),
            (&execute(None), &execute(Some(30)), true),
            (&toleration("k", "Gt", "1", "", None), &value, false),
        ] {
            assert_eq!(covers(one, other), want, "{one} {other}");
        }
    }

    #[test]
    fn a_whitelist_allows_what_one_of_it_covers() {
        let mut all = Vec::new();
        for key in ["", "k"] {
            for operator in ["", "Equal", "Exists", "Gt"] {
                for (value, effect) in [("", ""), ("v", ""), ("", "NoSchedule"), ("v", "NoExecute"), ("", "NoExecute")]
                {
                    all.extend([None, Some(30), Some(60)].map(|s| toleration(key, operator, value, effect, s)));
                }
            }
        }
        for one in &all {
            for other in &all {
                for list in [vec![one.clone()], vec![one.clone(), all[7].clone()], vec![all[59].clone(), one.clone()]] {
                    let expected = list.iter().any(|allowed| covers(allowed, other));
                    assert_eq!(are_allowed(std::slice::from_ref(other), &list), expected, "{list:?} {other}");
                }
            }
        }
    }

    #[test]
    fn merging_keeps_the_widest_and_of_equals_the_first() {
        let key = toleration("k", "Exists", "", "", None);
        let value = toleration("k", "Equal", "v", "NoSchedule", None);
        let other = toleration("o", "Exists", "", "", None);
        let merged = |first: &[Value], second: &Value| merge(first, std::slice::from_ref(second)).unwrap();
        assert_eq!(merged(&[value.clone(), other.clone()], &key), [other.clone(), key.clone()]);
        assert_eq!(merged(&[key.clone(), key.clone()], &value), std::slice::from_ref(&key));
        assert_eq!(merge(&vec![key.clone(); 4096], &vec![key.clone(); 4097]), None);
        assert!(
            are_allowed(std::slice::from_ref(&value), std::slice::from_ref(&key))
                && !are_allowed(&[value, other], &[key])
        );
        assert!(are_allowed(&[json!({})], &[]));
    }
}
