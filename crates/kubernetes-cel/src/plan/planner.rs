//! Turns the checked tree into the nodes of a program.

use super::nodes::{Call, Dispatch, Fold, Node, Path, Qualifier, QualifierKind, Source};
use super::{Program, optimize};
use crate::ast::{Comprehension, Expr, Id, Kind, Literal};
use crate::check::{Checked, Reference};
use crate::environment::Environment;
use crate::function::Function;
use crate::release::Release;
use crate::types::Type;
use crate::value::{Error, Text, Value};
use crate::well_known;
use std::collections::HashMap;
use std::sync::Arc;

pub(super) fn plan(checked: &Checked, environment: &Environment) -> Result<Program, Error> {
    let mut planner = Planner {
        checked,
        release: environment.release(),
        variables: environment.variables(),
        libraries: environment.libraries(),
        numbers: HashMap::new(),
        scope: Vec::new(),
        locals: 0,
        depth: 0,
        deepest: 0,
    };
    let root = planner.node(&checked.ast.root)?;
    let output = checked.types.get(&checked.ast.root.id).cloned().unwrap_or(Type::Dyn);
    Ok(Program { output, root, locals: planner.locals, nodes: planner.numbers.len(), depth: planner.deepest })
}

struct Planner<'c> {
    checked: &'c Checked,
    release: Release,
    variables: &'c [(Arc<str>, Type)],
    libraries: &'c [&'static [Function]],
    /// Consecutive numbers of the expressions.
    numbers: HashMap<Id, u32>,
    /// Comprehension variables in scope, innermost last.
    scope: Vec<Local>,
    locals: usize,
    /// The depth of the current expression, and the largest depth so far.
    depth: usize,
    deepest: usize,
}

struct Local {
    name: Box<str>,
    slot: usize,
    accumulates: bool,
}

impl Planner<'_> {
    fn number(&mut self, id: Id) -> u32 {
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        *self.numbers.entry(id).or_insert(next)
    }

    fn node(&mut self, expr: &Expr) -> Result<Node, Error> {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        let node = self.node_of(expr);
        self.depth -= 1;
        node
    }

    fn node_of(&mut self, expr: &Expr) -> Result<Node, Error> {
        let id = self.number(expr.id);
        match &expr.kind {
            Kind::Literal(literal) => Ok(Node::Constant(id, constant(literal))),
            Kind::Ident(name) => self.ident(expr.id, name),
            Kind::Select { operand, field, test } => self.select(expr, operand, field, *test),
            Kind::Call { function, target, arguments } => self.call(expr, function, target.as_deref(), arguments),
            Kind::List { elements, optional } => {
                let planned = elements.iter().enumerate();
                let planned = planned.map(|(index, element)| Ok((self.node(element)?, optional.contains(&index))));
                Ok(optimize::list(id, planned.collect::<Result<_, Error>>()?))
            }
            Kind::Map(entries) => {
                let planned =
                    entries.iter().map(|entry| Ok((self.node(&entry.key)?, self.node(&entry.value)?, entry.optional)));
                Ok(optimize::map(id, planned.collect::<Result<_, Error>>()?))
            }
            Kind::Struct { name, fields } => {
                let fields = fields
                    .iter()
                    .map(|field| Ok((Arc::from(&*field.key), self.node(&field.value)?, field.optional)))
                    .collect::<Result<_, Error>>()?;
                Ok(Node::Struct { id, release: self.release, name: name.trim_start_matches('.').into(), fields })
            }
            Kind::Comprehension(fold) => self.fold(id, fold),
        }
    }

    fn ident(&mut self, id: Id, name: &str) -> Result<Node, Error> {
        let number = self.number(id);
        let local = self.scope.iter().rev().find(|local| &*local.name == name);
        let source = match (local, self.checked.references.get(&id)) {
            (Some(local), _) => Source::Local(local.slot),
            (None, Some(Reference::Type(_))) if !well_known::is_a_value(name) => {
                return Err(Error::new(format!("reference to undefined type: {name}")));
            }
            (None, Some(Reference::Constant(value))) => return Ok(Node::Constant(number, Value::Int(*value))),
            (None, Some(Reference::Type(named))) => {
                return Ok(Node::Constant(number, Value::Type(Arc::new(named.clone()))));
            }
            (None, Some(Reference::Variable(slot))) => {
                let is_hidden = name.starts_with('.');
                let name = self.variables.get(*slot).map_or(name, |(name, _)| name);
                if is_hidden { Source::Hidden(*slot, name.into()) } else { Source::Variable(*slot, name.into()) }
            }
            (None, _) => {
                let slot = self.variables.iter().position(|(other, _)| &**other == name);
                Source::Variable(slot.unwrap_or(usize::MAX), name.into())
            }
        };
        Ok(Node::Attribute(Box::new(Path::Absolute { id: number, source, qualifiers: Vec::new() }), None))
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &str, test: bool) -> Result<Node, Error> {
        // A qualified name of a variable or type.
        if matches!(
            self.checked.references.get(&expr.id),
            Some(Reference::Variable(_) | Reference::Type(_) | Reference::Constant(_))
        ) {
            return self.ident(expr.id, &format!("{}.{field}", qualified_name(operand).unwrap_or_default()));
        }
        let id = self.number(expr.id);
        let mut path = self.path(operand)?;
        path.qualify(Arc::new(Qualifier {
            id,
            kind: QualifierKind::Constant(Value::string(field)),
            optional: false,
            test,
            field: self.is_message(operand),
        }));
        Ok(Node::Attribute(path, test.then_some(id)))
    }

    /// The operand of a selection or an index, as a path.
    fn path(&mut self, operand: &Expr) -> Result<Box<Path>, Error> {
        Ok(match self.node(operand)? {
            Node::Attribute(path, None) => path,
            operand => Box::new(Path::Relative { id: operand.id(), operand, qualifiers: Vec::new() }),
        })
    }

    /// Whether the type of an expression is a message that an expression made.
    fn is_message(&self, expr: &Expr) -> bool {
        let r#type = self.checked.types.get(&expr.id);
        matches!(r#type, Some(Type::Object(name)) if &**name == "Object" || name.starts_with("Object."))
    }

    fn call(&mut self, expr: &Expr, name: &str, target: Option<&Expr>, arguments: &[Expr]) -> Result<Node, Error> {
        let id = self.number(expr.id);
        let (name, target) = self.function_name(name, target);
        match (&*name, arguments) {
            ("_[_]", [operand, index]) => return self.index(id, operand, index, false),
            ("_[?_]" | "_?._", [operand, index]) => return self.index(id, operand, index, true),
            _ => {}
        }
        let arguments: Vec<Node> =
            target.into_iter().chain(arguments).map(|argument| self.node(argument)).collect::<Result<_, _>>()?;
        let arguments = match <[Node; 2]>::try_from(arguments) {
            Ok(pair) => {
                let pair = Box::new(pair);
                match &*name {
                    "_||_" | "_&&_" => return Ok(Node::Logic { id, or: &*name == "_||_", terms: pair }),
                    "_==_" | "_!=_" => return Ok(Node::Equal { id, negated: &*name == "_!=_", arguments: pair }),
                    "or" | "orValue" if target.is_some() => {
                        let (value, is_strict) = (&*name == "orValue", self.release.since(37));
                        return Ok(Node::Or { id, value, is_strict, arguments: pair });
                    }
                    _ => Vec::from(*pair),
                }
            }
            Err(arguments) => arguments,
        };
        let arguments = match <[Node; 3]>::try_from(arguments) {
            Ok([condition, truthy, falsy]) if &*name == "_?_:_" => {
                let (truthy, falsy) = (branch(truthy), branch(falsy));
                return Ok(Node::Attribute(Box::new(Path::Conditional { id, condition, truthy, falsy }), None));
            }
            Ok(arguments) => Vec::from(arguments),
            Err(arguments) => arguments,
        };
        let call = self.function(expr.id, name, arguments);
        if let Some(slot) = self.accumulator(&call) {
            match (&*call.name, call.overload) {
                ("_+_", "add_list") => return Ok(Node::Append(Box::new(call), slot)),
                ("cel.@mapInsert", _) => return Ok(Node::Insert(Box::new(call), slot)),
                _ => {}
            }
        }
        optimize::call(call)
    }

    /// The name of a function; and its target if the call is a method, rather than a function with a qualified name.
    fn function_name<'e>(&self, name: &'e str, target: Option<&'e Expr>) -> (Box<str>, Option<&'e Expr>) {
        if let Some(prefix) = target.filter(|target| !self.checked.references.contains_key(&target.id)) {
            let qualified = qualified_name(prefix).map(|prefix| format!("{prefix}.{name}"));
            if let Some(qualified) = qualified.filter(|name| self.functions(name).next().is_some()) {
                return (qualified.into(), None);
            }
        }
        (name.trim_start_matches('.').into(), target)
    }

    fn functions<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'static Function> + 's {
        self.libraries.iter().flat_map(|functions| functions.iter()).filter(move |function| function.name == name)
    }

    fn function(&mut self, expr: Id, name: Box<str>, arguments: Vec<Node>) -> Call {
        let id = self.number(expr);
        let ids: &[&'static str] = match self.checked.references.get(&expr) {
            Some(Reference::Overloads(ids)) => ids,
            _ => &[],
        };
        let overload = if let [overload] = ids { overload } else { "" };
        let meant = |function: &&'static Function| {
            ids.is_empty() || function.overloads.iter().any(|overload| ids.contains(&overload.id))
        };
        let functions: Vec<_> = self.functions(&name).filter(meant).collect();
        let cost = functions
            .iter()
            .find_map(|function| function.cost)
            .or_else(|| optimize::standard_cost(overload, self.release));
        let early = match arguments.len() {
            2 => overload.is_empty() && !optimize::has_one_binding(&name) || optimize::takes_a_slice(&name),
            count => count > 2,
        };
        let dispatch = match &*name {
            "@not_strictly_false" | "__not_strictly_false__" => Dispatch::NotStrictlyFalse,
            _ => Dispatch::Functions(functions),
        };
        let is_search = matches!(&*name, "matches" | "find" | "findAll");
        Call { id, name, overload, arguments, dispatch, cost, early, is_search }
    }

    /// The slot of the accumulator, if the first argument is the accumulator of the surrounding comprehension.
    fn accumulator(&self, call: &Call) -> Option<usize> {
        let Some(Node::Attribute(path, None)) = call.arguments.first() else { return None };
        match &**path {
            Path::Absolute { source: Source::Local(slot), qualifiers, .. } if qualifiers.is_empty() => {
                let local = self.scope.iter().find(|local| local.slot == *slot)?;
                (local.accumulates && local.name.starts_with('@')).then_some(*slot)
            }
            _ => None,
        }
    }

    fn index(&mut self, id: u32, operand: &Expr, index: &Expr, optional: bool) -> Result<Node, Error> {
        let mut path = self.path(operand)?;
        let field = self.is_message(operand);
        let kind = match self.node(index)? {
            Node::Constant(_, key) => match key {
                Value::String(_) | Value::Int(_) | Value::Uint(_) | Value::Bool(_) | Value::Double(_) => {
                    QualifierKind::Constant(key)
                }
                _ => return Err(key.as_invalid_qualifier()),
            },
            Node::Attribute(path, _) => QualifierKind::Attribute(*path),
            operand => QualifierKind::Computed(Path::Relative { id, operand, qualifiers: Vec::new() }),
        };
        let field = field && matches!(kind, QualifierKind::Constant(Value::String(_)));
        path.qualify(Arc::new(Qualifier { id, kind, optional, test: false, field }));
        Ok(Node::Attribute(path, None))
    }

    fn fold(&mut self, id: u32, fold: &Comprehension) -> Result<Node, Error> {
        let initial = self.node(&fold.initial)?;
        let range = self.node(&fold.range)?;
        let depth = self.scope.len();
        let variable = self.local(&fold.variable, false);
        let variable2 = fold.variable2.as_deref().map(|name| self.local(name, false));
        let accumulator = self.local(&fold.accumulator, true);
        let condition = self.node(&fold.condition)?;
        let step = self.node(&fold.step)?;
        // The variables are not in scope for the result.
        let accumulates = self.scope.pop();
        self.scope.truncate(depth);
        self.scope.extend(accumulates);
        let result = self.node(&fold.result)?;
        self.scope.truncate(depth);
        let fold = Fold { id, range, variable, variable2, accumulator, initial, condition, step, result };
        Ok(Node::Fold(Box::new(fold)))
    }

    fn local(&mut self, name: &str, accumulates: bool) -> usize {
        let slot = self.locals;
        self.locals += 1;
        self.scope.push(Local { name: name.into(), slot, accumulates });
        slot
    }
}

/// A branch of a conditional.
fn branch(node: Node) -> Box<Path> {
    match node {
        Node::Attribute(path, _) => path,
        operand => Box::new(Path::Relative { id: operand.id(), operand, qualifiers: Vec::new() }),
    }
}

/// Joins selections from an identifier to `a.b.c`.
fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Ident(name) => Some(name.trim_start_matches('.').to_owned()),
        Kind::Select { operand, field, test: false } => Some(format!("{}.{field}", qualified_name(operand)?)),
        _ => None,
    }
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(value) => Value::String(Text::Shared(value.clone().into())),
        Literal::Bytes(value) => Value::Bytes(value.clone().into()),
    }
}
