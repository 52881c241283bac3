//! Operators and functions of the language: `coster.functionCost` of cel-go.

use super::{Argument, Call, Estimator, Range};
use crate::ast::Expr;

/// `StringTraversalCostFactor`
pub(super) const TRAVERSAL: f64 = 0.1;
/// `RegexStringLengthCostFactor`
pub(super) const REGEX: f64 = 0.25;

impl<'c> Estimator<'c> {
    /// The cost of a call of an overload, its arguments included.
    pub(super) fn function(
        &mut self,
        expr: &Expr,
        function: &str,
        overload: &str,
        target: Option<&Argument<'c>>,
        arguments: &[Argument<'c>],
        costs: &[Range],
    ) -> Call {
        let of_arguments = costs.iter().fold(Range::default(), |sum, cost| sum + *cost);
        if let Some(call) = self.library(function, overload, target, arguments) {
            return Call { cost: call.cost + of_arguments, ..call };
        }
        let size = |argument: &Argument<'c>| argument.size.unwrap_or(Range::UNKNOWN);
        let (cost, result) = match (overload, target, arguments) {
            ("string_format", Some(target), _) => (size(target).times(TRAVERSAL), None),
            ("string_to_bytes", _, [text]) => {
                let Range { min, max } = size(text);
                // A character has at most four bytes.
                (size(text).times(TRAVERSAL), Some(Range { min, max: max.wrapping_mul(4) }))
            }
            ("bytes_to_string", _, [bytes]) => {
                let Range { min, max } = size(bytes);
                (size(bytes).times(TRAVERSAL), Some(Range { min: min / 4, max }))
            }
            ("strings_quote", _, [text]) => {
                let Range { min, max } = size(text);
                let quoted = Range { min: min.wrapping_add(2), max: max.wrapping_mul(2).wrapping_add(2) };
                (size(text).times(TRAVERSAL), Some(quoted))
            }
            ("starts_with_string" | "ends_with_string", _, [text]) => (size(text).times(TRAVERSAL), None),
            ("in_list", _, [_, list]) => (size(list), None),
            ("matches", None, [_, _]) if !self.release.since(37) => (Range::fixed(1), None),
            ("matches_string", Some(text), [pattern]) | ("matches", None, [text, pattern]) => {
                ((size(text) + Range::fixed(1)).times(TRAVERSAL) * size(pattern).times(REGEX), None)
            }
            ("contains_string", Some(text), [part]) => {
                (size(text).times(TRAVERSAL) * size(part).times(TRAVERSAL), None)
            }
            ("logical_or" | "logical_and", _, _) => {
                let [left, right] = costs else { return Call { cost: of_arguments, size: None } };
                return Call { cost: Range { min: left.min, max: (*left + *right).max }, size: None };
            }
            ("conditional", _, [_, truthy, falsy]) => {
                let [condition, if_true, if_false] = costs else { return Call { cost: of_arguments, size: None } };
                if let (Some(truthy), Some(falsy)) = (self.entry(truthy.expr), self.entry(falsy.expr)) {
                    self.set_entry(expr, Some(truthy.union(falsy)));
                }
                let size = Some(size(truthy).union(size(falsy)));
                return Call { cost: *condition + if_true.union(*if_false), size };
            }
            ("add_string" | "add_bytes" | "add_list", _, [left, right]) => {
                if let (Some(left), Some(right)) = (self.entry(left.expr), self.entry(right.expr)) {
                    self.set_entry(expr, Some(left.union(right)));
                }
                let sum = size(left) + size(right);
                (if overload == "add_list" { Range::fixed(1) } else { sum.times(TRAVERSAL) }, Some(sum))
            }
            (
                "less_string"
                | "greater_string"
                | "less_equals_string"
                | "greater_equals_string"
                | "less_bytes"
                | "greater_bytes"
                | "less_equals_bytes"
                | "greater_equals_bytes"
                | "equals"
                | "not_equals",
                _,
                [left, right],
            ) => {
                let max = size(left).max.min(size(right).max);
                (Range { min: max.min(1), max }.times(TRAVERSAL), None)
            }
            _ => (Range::fixed(1), None),
        };
        Call { cost: cost + of_arguments, size: result }
    }
}
