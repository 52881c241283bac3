//! Estimates the lowest and the highest cost of an expression before its evaluation: `checker.Cost` of cel-go with the `CostEstimator` of
//! Kubernetes. The API server rejects rules of custom resources by the higher figure, so the quirks are kept.

mod functions;
mod language;
mod path;
mod range;
#[cfg(test)]
mod tests;

pub use range::Range;

use super::ast::{Comprehension, Expr, Id, Kind, Literal};
use super::check::{Checked, Reference};
use super::release::Release;
use super::types::Type;
use path::Path;
use std::collections::HashMap;

/// The largest size of the value at a path, if known (`EstimateSize`). A path begins with a variable; `@items`, `@values`, `@keys` and
/// `@indices` are the parts of lists and maps.
pub type Sizes<'s> = dyn Fn(&[&str]) -> Option<u64> + Sync + 's;

/// Estimates the cost of a checked expression by the rules of a release.
pub fn estimate(checked: &Checked, sizes: &Sizes<'_>, release: Release) -> Range {
    let mut estimator = Estimator {
        checked,
        sizes,
        release,
        paths: HashMap::new(),
        locals: HashMap::new(),
        computed: HashMap::new(),
        entries: HashMap::new(),
    };
    estimator.cost(&checked.ast.root)
}

struct Estimator<'c> {
    checked: &'c Checked,
    sizes: &'c Sizes<'c>,
    release: Release,
    /// The paths of the values of nodes within variables, as far as they are known.
    paths: HashMap<Id, Path>,
    /// Comprehension variables in scope by name, innermost last.
    locals: HashMap<&'c str, Vec<Local>>,
    computed: HashMap<Id, Range>,
    entries: HashMap<Id, Entry>,
}

/// The facts about a comprehension variable.
struct Local {
    path: Path,
    size: Option<Range>,
    entry: Option<Entry>,
}

/// Sizes of the elements of a list, or of the keys and values of a map.
#[derive(Clone, Copy)]
struct Entry {
    is_list: bool,
    key: Range,
    value: Range,
}

/// An argument or a target of a call (`AstNode`).
struct Argument<'c> {
    path: Path,
    of: &'c Type,
    expr: &'c Expr,
    size: Option<Range>,
}

/// The estimate of a call (`CallEstimate`).
struct Call {
    cost: Range,
    size: Option<Range>,
}

/// The role of a comprehension's variable.
#[derive(Clone, Copy)]
enum Round {
    Key,
    Value,
    /// The only variable: a list's item, a map's key.
    Single,
}

impl Entry {
    fn union(self, other: Self) -> Self {
        Self { is_list: self.is_list, key: self.key.union(other.key), value: self.value.union(other.value) }
    }
}

impl<'c> Estimator<'c> {
    fn cost(&mut self, expr: &'c Expr) -> Range {
        match &expr.kind {
            Kind::Literal(_) => Range::default(),
            Kind::Ident(name) => {
                let path = self.local(name).map_or_else(|| Path::of(name), |local| local.path.clone());
                self.paths.insert(expr.id, path);
                Range::fixed(1)
            }
            Kind::Select { operand, test: true, .. } => self.cost(operand),
            Kind::Select { operand, field, .. } => {
                let cost = self.cost(operand);
                let path = self.path(operand).append(field);
                self.paths.insert(expr.id, path);
                // In cel-go types of libraries are messages.
                match self.of(operand) {
                    Type::Map(..) | Type::Object(_) | Type::Parameter(_) => cost + Range::fixed(1),
                    Type::Opaque(name, _) if name.starts_with("kubernetes.") => cost + Range::fixed(1),
                    _ => cost,
                }
            }
            Kind::Call { function, target, arguments } => self.call(expr, function, target.as_deref(), arguments),
            Kind::List { elements, .. } => {
                let (mut cost, mut item) = (Range::fixed(10), Range::nothing(elements.is_empty()));
                for element in elements {
                    cost = cost + self.cost(element);
                    item = item.union(self.size_or_unknown(element));
                }
                self.entries.insert(expr.id, Entry { is_list: true, key: Range::fixed(1), value: item });
                cost
            }
            Kind::Map(entries) => {
                let none = Range::nothing(entries.is_empty());
                let (mut cost, mut key, mut value) = (Range::fixed(30), none, none);
                for entry in entries {
                    cost = cost + self.cost(&entry.key) + self.cost(&entry.value);
                    key = key.union(self.size_or_unknown(&entry.key));
                    value = value.union(self.size_or_unknown(&entry.value));
                }
                self.entries.insert(expr.id, Entry { is_list: false, key, value });
                cost
            }
            Kind::Struct { fields, .. } => {
                fields.iter().fold(Range::fixed(40), |cost, field| cost + self.cost(&field.value))
            }
            Kind::Comprehension(of) if is_bind(of) => self.bind(expr, of),
            Kind::Comprehension(of) => self.comprehension(expr, of),
        }
    }

    fn call(&mut self, expr: &'c Expr, function: &str, target: Option<&'c Expr>, arguments: &'c [Expr]) -> Range {
        if let ("dyn", [argument, ..]) = (function, arguments) {
            let cost = self.cost(argument) + Range::fixed(1);
            self.copy_sizes(expr, argument);
            return cost;
        }
        let mut known = Vec::with_capacity(arguments.len());
        let mut costs = Vec::with_capacity(arguments.len());
        for argument in arguments {
            costs.push(self.cost(argument));
            known.push(self.argument(argument));
        }
        let checked = self.checked;
        let Some(Reference::Overloads(overloads)) = checked.references.get(&expr.id) else { return Range::default() };
        let (of_target, target) = match target {
            Some(target) => (self.cost(target), Some(self.argument(target))),
            None => (Range::default(), None),
        };
        let mut cost = Range::nothing(false);
        let mut size: Option<Range> = None;
        for overload in overloads {
            let call = self.function(expr, function, overload, target.as_ref(), &known, &costs);
            cost = cost.union(call.cost);
            if let Some(found) = call.size {
                size = Some(size.map_or(found, |size| size.union(found)));
            }
            let part = match *overload {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(part), [operand, ..]) = (part, arguments) {
                size = self.entry(operand).map(|entry| entry.value);
                let path = self.path(operand).append(part);
                self.paths.insert(expr.id, path);
            }
            size = size.or_else(|| self.size(expr));
        }
        self.set_size(expr, size);
        of_target + cost
    }

    fn comprehension(&mut self, expr: &'c Expr, of: &'c Comprehension) -> Range {
        let outside = self.cost(&of.range) + self.cost(&of.initial);
        self.push_bound(&of.accumulator, &of.initial);
        match &of.variable2 {
            Some(variable2) => {
                self.push_round(&of.variable, &of.range, Round::Key);
                self.push_round(variable2, &of.range, Round::Value);
            }
            None => self.push_round(&of.variable, &of.range, Round::Single),
        }
        let round = self.cost(&of.condition) + self.cost(&of.step);
        self.pop(&of.variable);
        of.variable2.iter().for_each(|variable2| self.pop(variable2));
        let result = self.cost(&of.result);
        self.pop(&of.accumulator);
        let rounds = self.size_or_unknown(&of.range);
        match &of.initial.kind {
            Kind::Literal(_) => {
                let size = self.size(&of.initial);
                self.set_size(expr, size);
            }
            Kind::List { .. } | Kind::Map(_) => {
                self.set_size(expr, Some(rounds));
                let entry = self.entry(&of.step);
                self.set_entry(expr, entry);
            }
            _ => {}
        }
        outside + result + rounds * round
    }

    fn bind(&mut self, expr: &'c Expr, of: &'c Comprehension) -> Range {
        let outside = self.cost(&of.range) + self.cost(&of.initial);
        self.push_bound(&of.accumulator, &of.initial);
        let result = self.cost(&of.result);
        self.pop(&of.accumulator);
        self.copy_sizes(expr, &of.result);
        outside + result
    }

    fn push_round(&mut self, name: &'c str, range: &'c Expr, round: Round) {
        let entry = self.entry(range);
        let is_list = entry.map_or_else(|| matches!(self.of(range), Type::List(_)), |entry| entry.is_list);
        let (part, is_key) = match (round, is_list) {
            (Round::Key, true) => ("@indices", true),
            (Round::Key | Round::Single, false) => ("@keys", true),
            (Round::Value | Round::Single, true) => ("@items", false),
            (Round::Value, false) => ("@values", false),
        };
        let size = entry.map(|entry| if is_key { entry.key } else { entry.value });
        let path = self.path(range).append(part);
        self.push(name, Local { path, size, entry: None });
    }

    fn push_bound(&mut self, name: &'c str, value: &'c Expr) {
        let local = Local { path: self.path(value), entry: self.entry(value), size: self.size(value) };
        self.push(name, local);
    }

    fn push(&mut self, name: &'c str, local: Local) {
        self.locals.entry(name).or_default().push(local);
    }

    fn pop(&mut self, name: &str) {
        if let Some(named) = self.locals.get_mut(name) {
            named.pop();
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.get(name)?.last()
    }

    fn local_of(&self, expr: &Expr) -> Option<&Local> {
        match &expr.kind {
            Kind::Ident(name) => self.local(name),
            _ => None,
        }
    }

    fn of(&self, expr: &Expr) -> &'c Type {
        self.checked.types.get(&expr.id).unwrap_or(&Type::Dyn)
    }

    fn path(&self, expr: &Expr) -> Path {
        let local = self.local_of(expr).map(|local| &local.path);
        local.or_else(|| self.paths.get(&expr.id)).cloned().unwrap_or_default()
    }

    fn argument(&mut self, expr: &'c Expr) -> Argument<'c> {
        Argument { path: self.path(expr), of: self.of(expr), expr, size: self.size(expr) }
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> Range {
        self.size(expr).unwrap_or(Range::UNKNOWN)
    }

    /// The size of a value (`computeSize`). Caches sizes that are found by a path.
    fn size(&mut self, expr: &Expr) -> Option<Range> {
        if let Some(size) = self.computed.get(&expr.id) {
            return Some(*size);
        }
        if let Some(size) = written_size(expr) {
            return Some(Range::fixed(size));
        }
        if let Some(size) = self.size_at(&self.path(expr)) {
            self.computed.insert(expr.id, size);
            return Some(size);
        }
        if has_one_size(self.of(expr)) {
            return Some(Range::fixed(1));
        }
        self.local_of(expr)?.size
    }

    fn size_at(&self, path: &Path) -> Option<Range> {
        path.read(|path| if path.is_empty() { None } else { (self.sizes)(path) }).map(Range::up_to)
    }

    fn set_size(&mut self, expr: &Expr, size: Option<Range>) {
        if let Some(size) = size {
            self.computed.insert(expr.id, size);
        }
    }

    fn entry(&self, expr: &Expr) -> Option<Entry> {
        self.entries.get(&expr.id).copied().or_else(|| self.local_of(expr)?.entry)
    }

    fn set_entry(&mut self, expr: &Expr, entry: Option<Entry>) {
        if let Some(entry) = entry {
            self.entries.insert(expr.id, entry);
        }
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        let size = self.size(from);
        self.set_size(to, size);
        self.set_entry(to, self.entry(from));
    }
}

/// Whether the comprehension is an expansion of `cel.bind` or `optMap`: a loop without rounds.
fn is_bind(of: &Comprehension) -> bool {
    matches!(&of.range.kind, Kind::List { elements, .. } if elements.is_empty())
        && of.condition.kind == Kind::Literal(Literal::Bool(false))
}

/// The size of a literal (`computeExprSize`).
fn written_size(expr: &Expr) -> Option<u64> {
    Some(match &expr.kind {
        Kind::Literal(Literal::String(text)) => text.chars().count() as u64,
        Kind::Literal(Literal::Bytes(bytes)) => bytes.len() as u64,
        Kind::Literal(_) => 1,
        Kind::List { elements, .. } => elements.len() as u64,
        Kind::Map(entries) => entries.len() as u64,
        _ => return None,
    })
}

/// Whether all values of a type have size one (`isScalar`).
fn has_one_size(of: &Type) -> bool {
    match of.unwrapped() {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        other => other.optional_value().is_some_and(has_one_size),
    }
}
