//! Functions of libraries: `CostEstimator.EstimateCallCost` of Kubernetes, and the estimates of cel-go's own libraries of lists and sets.

use super::language::{REGEX, TRAVERSAL};
use super::{Argument, Call, Estimator, Range};
use crate::ast::{Kind, Literal};
use crate::types::Type;

/// The cost of an access review. An expression can afford two.
const CHECK: u64 = 350_000;
/// `MaxNameFormatRegexSize`
const FORMAT_REGEX_SIZE: f64 = 128.0;
/// `MaxFormatSize`
const FORMAT_SIZE: u64 = 64;
/// Bytes of an IP address.
const ADDRESS: Range = Range { min: 4, max: 16 };

impl<'c> Estimator<'c> {
    /// The cost of a call without its arguments, if a library defines it.
    pub(super) fn library(
        &self,
        function: &str,
        overload: &str,
        target: Option<&Argument<'c>>,
        arguments: &[Argument<'c>],
    ) -> Option<Call> {
        list(overload, target, arguments)
            .or_else(|| self.kubernetes(function, overload, target, arguments))
            .or_else(|| (function == "_==_").then(|| equality(arguments)).flatten())
    }

    fn kubernetes(
        &self,
        function: &str,
        overload: &str,
        target: Option<&Argument<'c>>,
        arguments: &[Argument<'c>],
    ) -> Option<Call> {
        let cost = |cost: Range| Some(Call { cost, size: None });
        let traversal = |of: &Argument<'_>| size(of).times(TRAVERSAL);
        let first = arguments.first();
        match function {
            "check" => cost(Range::fixed(CHECK)),
            "serviceAccount"
            | "path"
            | "group"
            | "resource"
            | "subresource"
            | "namespace"
            | "name"
            | "allowed"
            | "reason"
            | "error"
            | "errored"
            | "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery" => cost(Range::fixed(1)),
            "fieldSelector" | "labelSelector" => match arguments {
                [selector] => cost(selector_cost(size(selector))),
                _ => None,
            },
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => {
                match self.element(target?) {
                    Some((Type::String | Type::Bytes, element)) => {
                        cost(size(target?) * (Range::fixed(1) + element.times(TRAVERSAL)))
                    }
                    Some(_) => cost(size(target?)),
                    None if function == "includes" => cost(size(target?)),
                    // The argument is a text.
                    None => cost(traversal(target?)),
                }
            }
            "url" | "jsonpatch.escapeKey" => match arguments {
                [text] => Some(Call { cost: traversal(text), size: Some(size(text)) }),
                _ => None,
            },
            "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                Some(Call { cost: traversal(target?), size: Some(size(target?)) })
            }
            "replace" => match arguments {
                [from, to, ..] => {
                    let text = size(target?);
                    Some(Call { cost: text.times(2.0 * TRAVERSAL), size: Some(replaced(text, size(from), size(to))) })
                }
                _ => None,
            },
            "split" => {
                let text = size(target?);
                let limit = arguments.get(1).and_then(|limit| match &limit.expr.kind {
                    Kind::Literal(Literal::Int(limit)) => Some(*limit as u64),
                    _ => None,
                });
                let size = Some(Range::up_to(limit.unwrap_or(text.max)));
                Some(Call { cost: text.times(2.0 * TRAVERSAL), size })
            }
            "join" => {
                let list = size(target?);
                let texts = self.element(target?).map_or(Range::default(), |(_, element)| list * element);
                let between = Range { min: list.min.saturating_sub(1), max: list.max.saturating_sub(1) };
                let whole = first.map_or(texts, |separator| texts + size(separator) * between);
                Some(Call { cost: whole.times(TRAVERSAL), size: Some(whole) })
            }
            "find" | "findAll" => {
                let text = size(target?);
                let cost = (text + Range::fixed(1)).times(TRAVERSAL) * size(first?).times(REGEX);
                Some(Call { cost, size: Some(Range::up_to(text.max)) })
            }
            "ip" if overload == "cidr_ip" => cost(Range::fixed(1)),
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                cost(traversal(first?))
            }
            "ip.isCanonical" => cost(size(first?).times(2.0 * TRAVERSAL)),
            "containsIP" | "containsCIDR" => {
                let mut sum = (ADDRESS + ADDRESS).times(TRAVERSAL);
                if function == "containsCIDR" {
                    sum = sum + ADDRESS.times(TRAVERSAL) + Range::fixed(1);
                }
                if matches!(overload, "cidr_contains_ip_string" | "cidr_contains_cidr_string") {
                    sum = sum + traversal(first?);
                }
                first.and_then(|_| cost(sum))
            }
            "validate" => cost(traversal(first?).times(FORMAT_REGEX_SIZE * REGEX)),
            _ => None,
        }
    }

    /// The type and size of a list's elements; `None` for other values (`listElementNode`).
    fn element(&self, list: &Argument<'c>) -> Option<(&'c Type, Range)> {
        let of = list.of.parameters().into_iter().next()?;
        let known = list.path.is_known().then(|| {
            list.path.read(|path| {
                let path: Vec<&str> = path.iter().copied().chain(["@items"]).collect();
                (self.sizes)(&path)
            })
        });
        Some((of, known.flatten().map_or(Range::UNKNOWN, Range::up_to)))
    }
}

fn size(argument: &Argument<'_>) -> Range {
    argument.size.unwrap_or(Range::UNKNOWN)
}

/// `selectorCostEstimate`: the cost of a list, and of a requirement for every two characters.
fn selector_cost(length: Range) -> Range {
    Range::fixed(10) + length.times(TRAVERSAL) + length.times(0.5).times(50.0)
}

/// The size of a text after a replacement: largest for the shortest replaced text, and vice versa.
fn replaced(text: Range, from: Range, to: Range) -> Range {
    let bound = |text: u64, from: u64, to: u64| {
        let (count, kept) = if from == 0 {
            // With an empty `from`, the replacement is put before and after every character.
            (text.saturating_add(1), text)
        } else if to <= from {
            (0, text)
        } else {
            ((text as f64 / from as f64).ceil() as u64, 0)
        };
        count.saturating_mul(to).saturating_add(kept)
    };
    Range { min: bound(text.min, from.max, to.min), max: bound(text.max, from.min, to.max) }
}

/// Comparing two values of a library costs 1, except for formats and URLs.
fn equality(arguments: &[Argument<'_>]) -> Option<Call> {
    let [left, right] = arguments else { return None };
    let Type::Opaque(name, _) = left.of else { return None };
    if left.of != right.of {
        return None;
    }
    let max = match &**name {
        "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver" => 1,
        name if name.starts_with("kubernetes.authorization.") => 1,
        "kubernetes.NamedFormat" => FORMAT_SIZE,
        "kubernetes.URL" => right.size.map_or(1, |size| size.max),
        _ => return None,
    };
    let cost = match &**name {
        "kubernetes.NamedFormat" | "kubernetes.URL" => Range { min: 1, max }.times(TRAVERSAL),
        _ => Range::fixed(1),
    };
    Some(Call { cost, size: None })
}

/// `ext.Lists` and `ext.Sets`.
fn list(overload: &str, target: Option<&Argument<'_>>, arguments: &[Argument<'_>]) -> Option<Call> {
    let allocating = |factor: f64, size: Range| {
        Some(Call { cost: size.times(factor) + Range::fixed(1) + Range::fixed(10), size: Some(size) })
    };
    let sorting = |list: Range, of: &str| {
        allocating(if matches!(of, "string" | "bytes") { 2.0 + TRAVERSAL } else { 2.0 }, list * list)
    };
    if let Some(of) = overload.strip_prefix("list_").and_then(|rest| rest.strip_suffix("_sort")) {
        return sorting(size(target?), of);
    }
    if let Some(of) = overload.strip_prefix("list_").and_then(|rest| rest.strip_suffix("_sortByAssociatedKeys")) {
        return sorting(size(arguments.first()?), of);
    }
    match (overload, arguments) {
        ("list_slice", [start, end]) => {
            let (start, end) = (written_int(start, 0), written_int(end, size(target?).max));
            allocating(1.0, Range::fixed(end.wrapping_sub(start)))
        }
        ("list_flatten", []) => allocating(1.0, size(target?)),
        ("list_flatten_int", [depth]) => allocating(written_int(depth, u64::MAX) as f64, size(target?)),
        ("lists_range", [count]) => allocating(1.0, Range::fixed(written_int(count, u64::MAX))),
        ("list_reverse", []) => allocating(1.0, size(target?)),
        ("list_distinct", []) => allocating(2.0, size(target?) * size(target?)),
        ("list_sets_contains_list" | "list_sets_intersects_list" | "list_sets_equivalent_list", [left, right]) => {
            let factor = if overload == "list_sets_equivalent_list" { 2.0 } else { 1.0 };
            Some(Call { cost: (size(left) * size(right)).times(factor) + Range::fixed(1), size: None })
        }
        _ => None,
    }
}

/// The number of a literal, zero for a negative one; `otherwise` for other expressions (`nodeAsIntValue`).
fn written_int(argument: &Argument<'_>, otherwise: u64) -> u64 {
    match &argument.expr.kind {
        Kind::Literal(Literal::Int(value)) => u64::try_from(*value).unwrap_or(0),
        _ => otherwise,
    }
}
