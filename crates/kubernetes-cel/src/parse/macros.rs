//! The macros of Kubernetes 1.36: cel-go's standard ones, those of optionals, `ext.TwoVarComprehensions` and `sortBy`. The expansions equal
//! cel-go's in every node, since nodes determine the cost.

use super::lower::Lowering;
use crate::ast::{Comprehension, Expr, Id, Kind, Literal};

/// A macro.
pub(super) enum Macro {
    /// A fold over a list or a map.
    Fold {
        /// The number of variables at the start of the arguments.
        variables: usize,
        /// The error for a variable that is no name.
        unnamed: &'static str,
        /// The parts of the fold.
        parts: fn(&mut Maker<'_, '_>, Body) -> Option<Parts>,
    },
    /// Any other macro.
    Other(fn(&mut Lowering<'_>, Id, Option<Expr>, Vec<Expr>) -> Option<Expr>),
}

/// The name of the accumulators: `HiddenAccumulatorName`.
const RESULT: &str = "@result";
/// The name of the variable of a loop without rounds.
const UNUSED: &str = "#unused";
const SORT_INPUT: &str = "@__sortBy_input__";

/// The macro of this name, call style and number of arguments.
pub(super) fn find(function: &str, method: bool, arguments: usize) -> Option<Macro> {
    let fold = |variables, parts| Macro::Fold { variables, unnamed: "argument must be a simple name", parts };
    let collection = |parts| Macro::Fold { variables: 1, unnamed: "argument is not an identifier", parts };
    Some(match (function, method, arguments) {
        ("has", false, 1) => Macro::Other(has),
        ("all", true, 2) => fold(1, all),
        ("all", true, 3) => fold(2, all),
        ("exists", true, 2) => fold(1, exists),
        ("exists", true, 3) => fold(2, exists),
        ("exists_one", true, 2) => fold(1, exists_one),
        ("exists_one" | "existsOne", true, 3) => fold(2, exists_one),
        ("map", true, 2 | 3) => collection(map),
        ("filter", true, 2) => collection(filter),
        ("transformList", true, 3 | 4) => fold(2, map),
        ("transformMap", true, 3 | 4) => fold(2, transform_map),
        ("transformMapEntry", true, 3 | 4) => fold(2, transform_map_entry),
        ("optMap", true, 2) => Macro::Other(|of, at, target, arguments| optional(of, at, target, arguments, true)),
        ("optFlatMap", true, 2) => Macro::Other(|of, at, target, arguments| optional(of, at, target, arguments, false)),
        ("sortBy", true, 2) => Macro::Other(sort_by),
        _ => return None,
    })
}

impl Macro {
    /// Expands a call at a position. Records errors. `None` if the tree becomes too large.
    pub(super) fn expand(
        &self,
        lowering: &mut Lowering<'_>,
        at: Id,
        target: Option<Expr>,
        arguments: Vec<Expr>,
    ) -> Option<Expr> {
        match self {
            Self::Fold { variables, unnamed, parts } => {
                fold(lowering, at, target, arguments, *variables, unnamed, *parts)
            }
            Self::Other(expand) => expand(lowering, at, target, arguments),
        }
    }
}

/// Makes nodes at the position of a macro.
pub(super) struct Maker<'l, 's> {
    lowering: &'l mut Lowering<'s>,
    at: Id,
}

impl Maker<'_, '_> {
    fn node(&mut self, kind: Kind) -> Expr {
        self.lowering.node(self.at, kind)
    }

    fn ident(&mut self, name: &str) -> Expr {
        self.node(Kind::Ident(name.into()))
    }

    fn result(&mut self) -> Expr {
        self.ident(RESULT)
    }

    fn literal(&mut self, literal: Literal) -> Expr {
        self.node(Kind::Literal(literal))
    }

    fn list(&mut self, elements: Vec<Expr>) -> Expr {
        self.node(Kind::List { elements, optional: Vec::new() })
    }

    fn call(&mut self, function: &str, arguments: Vec<Expr>) -> Expr {
        self.node(Kind::Call { function: function.into(), target: None, arguments })
    }

    fn method(&mut self, target: Expr, function: &str, arguments: Vec<Expr>) -> Expr {
        self.node(Kind::Call { function: function.into(), target: Some(Box::new(target)), arguments })
    }

    /// `condition ? step : @result`, or only the step if there is no condition.
    fn if_holds(&mut self, condition: Option<Expr>, step: Expr) -> Expr {
        let Some(condition) = condition else { return step };
        let unchanged = self.result();
        self.call("_?_:_", vec![condition, step, unchanged])
    }

    /// `let name = value in body`: a loop without rounds.
    fn bind(&mut self, name: &str, value: Expr, result: Expr) -> Expr {
        let range = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(false));
        let step = self.ident(name);
        self.node(Kind::Comprehension(Box::new(Comprehension {
            range,
            variable: UNUSED.into(),
            variable2: None,
            accumulator: name.into(),
            initial: value,
            condition,
            step,
            result,
        })))
    }
}

fn refused(lowering: &mut Lowering<'_>, at: Id, message: &str) -> Option<Expr> {
    lowering.refuse(at, message);
    Some(lowering.node(at, Kind::Literal(Literal::Null)))
}

fn name(expression: &Expr) -> Option<&str> {
    match &expression.kind {
        Kind::Ident(name) => Some(name),
        _ => None,
    }
}

fn has(lowering: &mut Lowering<'_>, at: Id, _: Option<Expr>, mut arguments: Vec<Expr>) -> Option<Expr> {
    let argument = arguments.pop()?;
    match argument.kind {
        Kind::Select { operand, field, .. } => Some(lowering.node(at, Kind::Select { operand, field, test: true })),
        _ => refused(lowering, argument.id, "invalid argument to has() macro"),
    }
}

/// The parts of a fold that depend on the macro.
pub(super) struct Parts {
    initial: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
}

/// The arguments of a fold.
pub(super) struct Body {
    /// The expression of the (first) variable.
    variable: Expr,
    /// The arguments after the variables.
    rest: Vec<Expr>,
}

fn fold(
    lowering: &mut Lowering<'_>,
    at: Id,
    range: Option<Expr>,
    mut arguments: Vec<Expr>,
    variables: usize,
    unnamed: &str,
    parts: fn(&mut Maker<'_, '_>, Body) -> Option<Parts>,
) -> Option<Expr> {
    let rest = arguments.split_off(variables);
    let mut names: Vec<Box<str>> = Vec::with_capacity(variables);
    for argument in &arguments {
        match name(argument) {
            Some(name) => names.push(name.into()),
            None => return refused(lowering, argument.id, unnamed),
        }
    }
    if let ([one, other], [_, second]) = (&names[..], &arguments[..])
        && one == other
    {
        return refused(lowering, second.id, &format!("duplicate variable name: {one}"));
    }
    let mut named = arguments.iter().zip(&names);
    if let Some((taken, _)) = named.find(|(_, name)| matches!(&***name, RESULT | "__result__")) {
        return refused(lowering, taken.id, "iteration variable overwrites accumulator variable");
    }
    let mut maker = Maker { lowering, at };
    let body = Body { variable: arguments.into_iter().next()?, rest };
    let Parts { initial, condition, step, result } = parts(&mut maker, body)?;
    let mut names = names.into_iter();
    Some(maker.node(Kind::Comprehension(Box::new(Comprehension {
        range: range?,
        variable: names.next()?,
        variable2: names.next(),
        accumulator: RESULT.into(),
        initial,
        condition,
        step,
        result,
    }))))
}

fn all(of: &mut Maker<'_, '_>, mut body: Body) -> Option<Parts> {
    let initial = of.literal(Literal::Bool(true));
    let result = of.result();
    let condition = of.call("@not_strictly_false", vec![result]);
    let result = of.result();
    let step = of.call("_&&_", vec![result, body.rest.pop()?]);
    Some(Parts { initial, condition, step, result: of.result() })
}

fn exists(of: &mut Maker<'_, '_>, mut body: Body) -> Option<Parts> {
    let initial = of.literal(Literal::Bool(false));
    let result = of.result();
    let not = of.call("!_", vec![result]);
    let condition = of.call("@not_strictly_false", vec![not]);
    let result = of.result();
    let step = of.call("_||_", vec![result, body.rest.pop()?]);
    Some(Parts { initial, condition, step, result: of.result() })
}

fn exists_one(of: &mut Maker<'_, '_>, mut body: Body) -> Option<Parts> {
    let initial = of.literal(Literal::Int(0));
    let condition = of.literal(Literal::Bool(true));
    let (result, one) = (of.result(), of.literal(Literal::Int(1)));
    let step = of.call("_+_", vec![result, one]);
    let step = of.if_holds(body.rest.pop(), step);
    let (result, one) = (of.result(), of.literal(Literal::Int(1)));
    Some(Parts { initial, condition, step, result: of.call("_==_", vec![result, one]) })
}

fn map(of: &mut Maker<'_, '_>, mut body: Body) -> Option<Parts> {
    let transform = body.rest.pop()?;
    collect(of, transform, body.rest.pop())
}

fn filter(of: &mut Maker<'_, '_>, mut body: Body) -> Option<Parts> {
    collect(of, body.variable, body.rest.pop())
}

/// Makes the parts of a fold into a list.
fn collect(of: &mut Maker<'_, '_>, element: Expr, condition: Option<Expr>) -> Option<Parts> {
    let initial = of.list(Vec::new());
    let forever = of.literal(Literal::Bool(true));
    let (result, element) = (of.result(), of.list(vec![element]));
    let step = of.call("_+_", vec![result, element]);
    let step = of.if_holds(condition, step);
    Some(Parts { initial, condition: forever, step, result: of.result() })
}

fn transform_map(of: &mut Maker<'_, '_>, mut body: Body) -> Option<Parts> {
    let transform = body.rest.pop()?;
    let key = of.node(body.variable.kind);
    insert(of, vec![key, transform], body.rest.pop())
}

fn transform_map_entry(of: &mut Maker<'_, '_>, mut body: Body) -> Option<Parts> {
    let entry = body.rest.pop()?;
    insert(of, vec![entry], body.rest.pop())
}

/// Makes the parts of a fold into a map.
fn insert(of: &mut Maker<'_, '_>, what: Vec<Expr>, condition: Option<Expr>) -> Option<Parts> {
    let initial = of.node(Kind::Map(Vec::new()));
    let forever = of.literal(Literal::Bool(true));
    let mut arguments = vec![of.result()];
    arguments.extend(what);
    let step = of.call("cel.@mapInsert", arguments);
    let step = of.if_holds(condition, step);
    Some(Parts { initial, condition: forever, step, result: of.result() })
}

fn optional(
    lowering: &mut Lowering<'_>,
    at: Id,
    target: Option<Expr>,
    arguments: Vec<Expr>,
    wrap: bool,
) -> Option<Expr> {
    let [variable, body] = <[Expr; 2]>::try_from(arguments).ok()?;
    let Some(name) = name(&variable) else {
        let message = if wrap { "optMap()" } else { "optFlatMap()" };
        return refused(lowering, variable.id, &format!("{message} variable name must be a simple identifier"));
    };
    let target = target?;
    let value = lowering.copy(&target, at)?;
    let mut maker = Maker { lowering, at };
    let has_value = maker.method(target, "hasValue", Vec::new());
    let value = maker.method(value, "value", Vec::new());
    let bound = maker.bind(name, value, body);
    let some = if wrap { maker.call("optional.of", vec![bound]) } else { bound };
    let none = maker.call("optional.none", Vec::new());
    Some(maker.call("_?_:_", vec![has_value, some, none]))
}

fn sort_by(lowering: &mut Lowering<'_>, at: Id, target: Option<Expr>, arguments: Vec<Expr>) -> Option<Expr> {
    let target = target?;
    if !matches!(
        target.kind,
        Kind::List { .. } | Kind::Select { .. } | Kind::Ident(_) | Kind::Comprehension(_) | Kind::Call { .. }
    ) {
        let message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return refused(lowering, target.id, message);
    }
    let input = lowering.node(at, Kind::Ident(SORT_INPUT.into()));
    let keys = find("map", true, 2)?.expand(lowering, at, Some(input), arguments)?;
    let mut maker = Maker { lowering, at };
    let input = maker.ident(SORT_INPUT);
    let sorted = maker.method(input, "@sortByAssociatedKeys", vec![keys]);
    Some(maker.bind(SORT_INPUT, target, sorted))
}
