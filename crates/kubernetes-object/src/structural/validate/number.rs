//! `minimum`, `maximum`, `multipleOf` and the ranges of formats (`numberValidator`).

use super::node::{Bound, Node};
use super::walk::Found;
use crate::go_text::go_print;
use crate::status::invalid;
use serde_json::{Number, Value};
use std::cmp::Ordering;

/// A number as Go decodes it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Decoded {
    Whole(i64),
    Float(f64),
}

impl Decoded {
    fn of(number: &Number) -> Self {
        match number.as_i64() {
            Some(whole) => Self::Whole(whole),
            None => Self::Float(number.as_f64().unwrap_or_default()),
        }
    }

    fn float(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Float(float) => float,
        }
    }

    /// `%v`
    fn text(self) -> String {
        match self {
            Self::Whole(whole) => whole.to_string(),
            Self::Float(float) => go_print(&Value::from(float)),
        }
    }
}

/// Checks a number against the bounds of a schema.
pub(super) fn check(node: &Node, number: &Number, path: &str, found: &mut Found) {
    let value = Decoded::of(number);
    let checker = Checker { range: Range::of(node), path };
    found.extend(checker.out_of_range(value, "Checked"));
    if let Some(factor) = node.multiple_of {
        checker.multiple_of(value, factor, found);
    }
    if let Some(bound) = node.minimum {
        checker.bound(value, bound, &MINIMUM, found);
    }
    if let Some(bound) = node.maximum {
        checker.bound(value, bound, &MAXIMUM, found);
    }
}

/// Whether a number has no fraction and fits a JSON number exactly (`swag.IsFloat64AJSONInteger`).
pub(super) fn is_whole(float: f64) -> bool {
    const MOST: f64 = 9_007_199_254_740_991.0;
    if !(-MOST..=MOST).contains(&float) {
        return false;
    }
    let truncated = float.trunc();
    if float == truncated {
        return true;
    }
    // Go converts to an unsigned number here, so that the tolerance exists above positive numbers only.
    float > 1.0 && (float - truncated) / (float + truncated) < 1e-9
}

/// The numbers that a type and its format allow.
#[derive(Clone, Copy, Debug)]
struct Range<'a> {
    name: &'a str,
    format: Option<&'a str>,
}

impl<'a> Range<'a> {
    fn of(node: &'a Node) -> Self {
        let format = |known: [&str; 2]| node.format.as_deref().filter(|format| known.contains(format));
        match &*node.types {
            [one] if **one == *"integer" => Self { name: "integer", format: format(["int32", "int64"]) },
            [one] if **one == *"number" => Self { name: "number", format: format(["float", "double"]) },
            _ => Self { name: "", format: None },
        }
    }

    fn contains(self, value: Decoded) -> bool {
        match (self.name, self.format) {
            ("integer", format) => {
                let whole = match value {
                    Decoded::Whole(whole) => Some(whole),
                    Decoded::Float(float) => whole(float),
                };
                whole.is_some_and(|whole| format != Some("int32") || i32::try_from(whole).is_ok())
            }
            ("number", Some("float")) => (value.float() as f32).is_finite(),
            _ => true,
        }
    }
}

/// The words and the comparison of a bound.
struct Side {
    prefix: &'static str,
    inclusive: &'static str,
    exclusive: &'static str,
    is_maximum: bool,
}

const MINIMUM: Side = Side {
    prefix: "Minimum boundary",
    inclusive: "greater than or equal to",
    exclusive: "greater than",
    is_maximum: false,
};
const MAXIMUM: Side =
    Side { prefix: "Maximum boundary", inclusive: "less than or equal to", exclusive: "less than", is_maximum: true };

struct Checker<'a> {
    range: Range<'a>,
    path: &'a str,
}

impl Checker<'_> {
    /// `IsValueValidAgainstRange`
    fn out_of_range(&self, value: Decoded, prefix: &str) -> Option<crate::status::Cause> {
        if self.range.contains(value) {
            return None;
        }
        let Range { name, format } = self.range;
        let format = format.map_or("(default format)".to_owned(), |format| format!("with format {format}"));
        let why = format!("{prefix} value must be of type {name} {format} in {}", self.path);
        Some(invalid::invalid("", "\"\"", &why))
    }

    fn invalid(&self, found: &mut Found, value: Decoded, why: &str) {
        found.push(invalid::invalid(self.path, &value.text(), why));
    }

    fn multiple_of(&self, value: Decoded, factor: f64, found: &mut Found) {
        let wrong = self.out_of_range(Decoded::Float(factor), "MultipleOf");
        let (value, factor) = match (&wrong, value) {
            (None, Decoded::Whole(_)) => (value, Decoded::Whole(go_int(factor))),
            _ => (Decoded::Float(value.float()), Decoded::Float(factor)),
        };
        found.extend(wrong);
        let is_multiple = match (value, factor) {
            (_, Decoded::Whole(..=0)) => None,
            (_, Decoded::Float(factor)) if factor <= 0.0 => None,
            (Decoded::Whole(value), Decoded::Whole(factor)) => Some(value % factor == 0),
            (value, factor) => {
                let (value, factor) = (value.float(), factor.float());
                Some(is_whole(if factor < 1.0 { 1.0 / factor * value } else { value / factor }))
            }
        };
        match is_multiple {
            Some(true) => {}
            Some(false) => {
                let why = format!("{} in body should be a multiple of {}", self.path, factor.text());
                self.invalid(found, value, &why);
            }
            None => {
                let why = format!("factor MultipleOf declared for {} must be positive: {}", self.path, factor.text());
                self.invalid(found, factor, &why);
            }
        }
    }

    fn bound(&self, value: Decoded, bound: Bound, side: &Side, found: &mut Found) {
        let wrong = self.out_of_range(Decoded::Float(bound.limit), side.prefix);
        let (value, limit) = match (&wrong, value) {
            (None, Decoded::Whole(_)) => (value, Decoded::Whole(go_int(bound.limit))),
            _ => (Decoded::Float(value.float()), Decoded::Float(bound.limit)),
        };
        found.extend(wrong);
        let order = match (value, limit) {
            (Decoded::Whole(value), Decoded::Whole(limit)) => value.cmp(&limit),
            (value, limit) => value.float().partial_cmp(&limit.float()).unwrap_or(Ordering::Equal),
        };
        let order = if side.is_maximum { order } else { order.reverse() };
        if order.is_gt() || (bound.is_exclusive && order.is_eq()) {
            let relation = if bound.is_exclusive { side.exclusive } else { side.inclusive };
            let why = format!("{} in body should be {relation} {}", self.path, limit.text());
            self.invalid(found, value, &why);
        }
    }
}

/// A floating-point number as an integer, if it is one of 64 bits.
fn whole(float: f64) -> Option<i64> {
    let fits = float.fract() == 0.0 && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float);
    fits.then_some(float as i64)
}

/// Go's conversion on amd64: a number that does not fit becomes the smallest integer.
fn go_int(float: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float) { float as i64 } else { i64::MIN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_a_tolerance_above_but_not_below() {
        for (float, expected) in [
            (1.0, true),
            (-1.0, true),
            (0.0, true),
            (0.5, false),
            (-1.5, false),
            (3.000_000_000_1, true),
            (2.999_999_999_9, false),
            (1e20, false),
            (f64::NAN, false),
        ] {
            assert_eq!(is_whole(float), expected, "{float}");
        }
    }
}
