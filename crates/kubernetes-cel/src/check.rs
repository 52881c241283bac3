//! The type checker: finds the type of each node, and the overloads that each call may use.

mod format;
mod literals;
#[cfg(test)]
mod tests;
mod unify;

use super::ast::{Ast, Comprehension, Entry, Expr, Id, Kind, Literal};
use super::declarations::Declaration;
use super::environment::{Environment, Name};
use super::source::{CompileError, Errors, Position};
use super::types::Type;
use super::well_known;
use std::collections::HashMap;
use std::sync::Arc;
use unify::{Substitutions, most_general};

/// The result of the checker.
#[derive(Debug)]
pub struct Checked {
    /// The tree. Qualified names of variables, types and functions are joined into one name.
    pub ast: Ast,
    /// The type of each node.
    pub types: HashMap<Id, Type>,
    /// The referents of names and calls. A name without an entry is a comprehension's variable.
    pub references: HashMap<Id, Reference>,
}

/// The referent of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Reference {
    /// A variable's slot.
    Variable(usize),
    /// A type by its name (`int`, `google.protobuf.Duration`).
    Type(Type),
    /// A number of an enumeration.
    Constant(i64),
    /// The ids of the overloads that the call may use.
    Overloads(Vec<&'static str>),
}

impl Checked {
    /// The type of the whole expression.
    pub fn output(&self) -> &Type {
        self.types.get(&self.ast.root.id).unwrap_or(&Type::Dyn)
    }
}

/// Checks a tree.
///
/// # Errors
/// If a name, an overload or a type does not fit, or if one of Kubernetes' AST validators finds an error.
pub(crate) fn check(mut ast: Ast, environment: &Environment) -> Result<Checked, CompileError> {
    let mut checker = Checker {
        environment,
        positions: &ast.positions,
        errors: Errors::default(),
        types: HashMap::new(),
        references: HashMap::new(),
        known: Substitutions::default(),
        fresh: 0,
        locals: Vec::new(),
    };
    checker.check(&mut ast.root);
    let mut types = std::mem::take(&mut checker.types);
    for (id, of) in &mut types {
        *of = checker.known.substitute(of, true);
        if of.is_too_large() {
            *of = checker.too_large(*id);
        }
    }
    let Checker { errors, references, .. } = checker;
    errors.into_result(&ast.source)?;
    let mut errors = Errors::default();
    literals::validate(&ast, &types, environment, &mut errors);
    errors.into_result(&ast.source)?;
    Ok(Checked { ast, types, references })
}

struct Checker<'e> {
    environment: &'e Environment,
    positions: &'e HashMap<Id, Position>,
    errors: Errors,
    types: HashMap<Id, Type>,
    references: HashMap<Id, Reference>,
    known: Substitutions,
    /// The number of type parameters so far.
    fresh: usize,
    /// Variables of the surrounding comprehensions, innermost last.
    locals: Vec<(Box<str>, Type)>,
}

impl Checker<'_> {
    fn error(&mut self, at: Id, message: String) {
        self.errors.add(self.positions.get(&at).copied(), message);
    }

    fn mismatch(&mut self, at: Id, expected: &Type, found: &Type) {
        self.error(at, format!("expected type '{expected}' but found '{found}'"));
    }

    fn undeclared(&mut self, at: Id, name: &str) -> Type {
        self.error(at, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn fresh(&mut self) -> Type {
        self.fresh += 1;
        Type::Parameter(format!("_var{}", self.fresh - 1).into())
    }

    /// Checks a node and records its type.
    fn check(&mut self, expression: &mut Expr) -> Type {
        let id = expression.id;
        let found = match &mut expression.kind {
            Kind::Literal(literal) => match literal {
                Literal::Null => Type::Null,
                Literal::Bool(_) => Type::Bool,
                Literal::Int(_) => Type::Int,
                Literal::Uint(_) => Type::Uint,
                Literal::Double(_) => Type::Double,
                Literal::String(_) => Type::String,
                Literal::Bytes(_) => Type::Bytes,
            },
            Kind::Ident(name) => {
                let name = std::mem::take(name);
                match self.name(id, &name) {
                    Some((found, resolved)) => {
                        expression.kind = Kind::Ident(resolved);
                        found
                    }
                    None => self.undeclared(id, &name),
                }
            }
            Kind::Select { .. } => self.select(expression),
            Kind::Call { .. } => self.call(expression),
            Kind::List { elements, optional } => self.list(elements, optional),
            Kind::Map(entries) => self.map(entries),
            Kind::Struct { name, fields } => self.message(id, name, fields),
            Kind::Comprehension(of) => self.comprehension(of),
        };
        let found = if found.is_too_large() { self.too_large(id) } else { found };
        self.types.insert(id, found.clone());
        found
    }

    fn too_large(&mut self, at: Id) -> Type {
        self.error(at, "its type is too large".to_owned());
        Type::Error
    }

    /// Resolves a name: returns its type and its full form, and records its referent (`Env.resolveSimpleIdent`; until 1.36
    /// `Env.LookupIdent`, for which a leading dot has no meaning).
    fn name(&mut self, id: Id, name: &str) -> Option<(Type, Box<str>)> {
        let (name, is_global) = match name.strip_prefix('.') {
            Some(name) => (name, self.environment.release().since(37)),
            None => (name, false),
        };
        let local = self.local(name).cloned();
        match local {
            Some(found) if !is_global => return Some((found, name.into())),
            // The dot distinguishes the variable from the one of the comprehension.
            Some(_) => self.global(id, self.environment.name(name)?, format!(".{name}")),
            None => self.global(id, self.environment.name(name)?, name.to_owned()),
        }
    }

    fn local(&self, name: &str) -> Option<&Type> {
        self.locals.iter().rev().find(|(local, _)| **local == *name).map(|(_, found)| found)
    }

    fn global(&mut self, id: Id, referent: Name, name: String) -> Option<(Type, Box<str>)> {
        let (found, reference) = match referent {
            Name::Variable(slot, found) => (found, Reference::Variable(slot)),
            Name::Type(of) => (Type::Type(Arc::new(of.clone())), Reference::Type(of)),
            Name::Constant(number) => (Type::Int, Reference::Constant(number)),
        };
        self.references.insert(id, reference);
        Some((found, name.into()))
    }

    /// Resolves the name of a message (`Env.resolveTypeIdent`; until 1.36, the name of a variable counts too).
    fn message_name(&mut self, id: Id, name: &str) -> Option<(Type, Box<str>)> {
        if !self.environment.release().since(37) {
            return self.name(id, name);
        }
        let name = name.strip_prefix('.').unwrap_or(name);
        match self.environment.type_or_constant(name)? {
            Name::Constant(_) => None,
            referent => self.global(id, referent, name.to_owned()),
        }
    }

    /// Resolves a qualified name (`Env.resolveQualifiedIdent`). Since 1.37, a selection from a comprehension's variable is none.
    fn qualified(&mut self, expression: &Expr) -> Option<(Type, Box<str>)> {
        let qualified = qualified_name(expression)?;
        let first = qualified.split('.').next().unwrap_or_default();
        if self.environment.release().since(37) && self.local(first).is_some() {
            return None;
        }
        self.name(expression.id, &qualified)
    }

    fn select(&mut self, expression: &mut Expr) -> Type {
        if let Some((found, name)) = self.qualified(expression) {
            expression.kind = Kind::Ident(name);
            return found;
        }
        let Kind::Select { operand, field, test } = &mut expression.kind else { return Type::Error };
        let found = self.field(expression.id, operand, field, false);
        if *test { Type::Bool } else { self.known.substitute(&found, false) }
    }

    fn field(&mut self, id: Id, operand: &mut Expr, field: &str, optional: bool) -> Type {
        let operand = self.check(operand);
        let operand = self.known.substitute(&operand, false);
        let unwrapped = operand.optional_value();
        let found = match unwrapped.unwrap_or(&operand) {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(name) => self.field_of(id, name, field),
            // Kubernetes declares its libraries' types as messages without known fields.
            Type::Opaque(name, _) if name.starts_with("kubernetes.") => self.field_of(id, name, field),
            parameter @ Type::Parameter(_) => {
                self.known.assign(&Type::Dyn, parameter);
                Type::Dyn
            }
            unknown if unknown.is_unknown() => Type::Dyn,
            other => {
                self.error(id, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        if optional || unwrapped.is_some() { Type::optional(found) } else { found }
    }

    fn field_of(&mut self, id: Id, message: &str, field: &str) -> Type {
        if !self.environment.has_message(message) {
            self.error(id, format!("unexpected failed resolution of '{message}'"));
            return Type::Error;
        }
        self.environment.field(message, field).unwrap_or_else(|| {
            self.error(id, format!("undefined field '{field}'"));
            Type::Error
        })
    }

    fn call(&mut self, expression: &mut Expr) -> Type {
        let id = expression.id;
        let Kind::Call { function, target, arguments } = &mut expression.kind else { return Type::Error };
        if &**function == "_?._"
            && let [operand, Expr { kind: Kind::Literal(Literal::String(field)), .. }] = &mut arguments[..]
        {
            let found = self.field(id, operand, field, true);
            self.references.insert(id, Reference::Overloads(vec!["select_optional_field"]));
            return self.known.substitute(&found, false);
        }
        let mut types: Vec<(Id, Type)> = Vec::with_capacity(arguments.len() + 1);
        for argument in arguments.iter_mut() {
            types.push((argument.id, self.check(argument)));
        }
        let environment = self.environment;
        if let Some(of) = target {
            let qualified = qualified_name(of).map(|prefix| format!("{prefix}.{function}"));
            let qualified = qualified.as_deref().map(|name| name.strip_prefix('.').unwrap_or(name));
            if let Some((name, declarations)) = qualified.and_then(|name| Some((name, environment.function(name)?))) {
                *function = name.into();
                *target = None;
                return self.overload(id, function, declarations, &types, false);
            }
            types.insert(0, (of.id, self.check(of)));
        }
        let name = function.strip_prefix('.').filter(|_| target.is_none()).unwrap_or(function);
        let Some(declarations) = environment.function(name) else { return self.undeclared(id, function) };
        *function = name.into();
        self.overload(id, function, declarations, &types, target.is_some())
    }

    /// The result type of a call (`resolveOverload`).
    fn overload(
        &mut self,
        id: Id,
        function: &str,
        declarations: &[Declaration],
        arguments: &[(Id, Type)],
        method: bool,
    ) -> Type {
        if matches!(function, "_&&_" | "_||_") {
            return self.logical(id, declarations, arguments);
        }
        let types: Vec<Type> = arguments.iter().map(|(_, of)| of.clone()).collect();
        let mut result: Option<Type> = None;
        let mut overloads = Vec::new();
        for declaration in declarations.iter().filter(|declaration| declaration.method == method) {
            let mut expected = declaration.arguments.clone();
            let mut returns = declaration.result.clone();
            if !declaration.parameters.is_empty() {
                let fresh: Vec<(Arc<str>, Type)> =
                    declaration.parameters.iter().map(|name| (name.clone(), self.fresh())).collect();
                expected.iter_mut().chain([&mut returns]).for_each(|of| *of = instantiate(of, &fresh));
            }
            if !self.known.assign_all(&types, &expected) {
                continue;
            }
            overloads.push(declaration.id);
            let returns = self.known.substitute(&returns, false);
            result = Some(match result {
                None => returns,
                Some(before) if before.is_dynamic() || before == returns => before,
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            let mut names: Vec<String> = types.iter().map(|of| self.known.substitute(of, true).to_string()).collect();
            let target = if method { names.remove(0) + "." } else { String::new() };
            self.error(
                id,
                format!("found no matching overload for '{function}' applied to '{target}({})'", names.join(", ")),
            );
            return Type::Error;
        };
        self.references.insert(id, Reference::Overloads(overloads));
        result
    }

    fn logical(&mut self, id: Id, declarations: &[Declaration], arguments: &[(Id, Type)]) -> Type {
        let mut found = Type::Bool;
        for (argument, of) in arguments {
            if !self.known.assign(of, &Type::Bool) {
                self.mismatch(*argument, &Type::Bool, of);
                found = Type::Error;
            }
        }
        self.references
            .insert(id, Reference::Overloads(declarations.iter().map(|declaration| declaration.id).collect()));
        found
    }

    fn list(&mut self, elements: &mut [Expr], optional: &[usize]) -> Type {
        let mut joined = None;
        for (i, element) in elements.iter_mut().enumerate() {
            let found = self.check(element);
            let found = if optional.contains(&i) { self.unwrap(element.id, found) } else { found };
            joined = Some(self.join(joined, found));
        }
        Type::list(joined.unwrap_or_else(|| self.fresh()))
    }

    fn map(&mut self, entries: &mut [Entry<Expr>]) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            let key = self.check(&mut entry.key);
            keys = Some(self.join(keys, key));
            let value = self.check(&mut entry.value);
            let value = if entry.optional { self.unwrap(entry.value.id, value) } else { value };
            values = Some(self.join(values, value));
        }
        let keys = keys.unwrap_or_else(|| self.fresh());
        Type::map(keys, values.unwrap_or_else(|| self.fresh()))
    }

    /// The value type of an optional element, entry or field.
    fn unwrap(&mut self, id: Id, found: Type) -> Type {
        if let Some(value) = found.optional_value() {
            return value.clone();
        }
        if !found.is_dynamic() {
            self.mismatch(id, &Type::optional(found.clone()), &found);
        }
        found
    }

    /// The common type of two elements (`joinTypes`). A validator requires elements of one type.
    fn join(&mut self, before: Option<Type>, found: Type) -> Type {
        let Some(before) = before else { return found };
        if self.known.assign(&before, &found) {
            return most_general(&before, &found).clone();
        }
        Type::Dyn
    }

    fn message(&mut self, id: Id, name: &mut Box<str>, fields: &mut [Entry<Box<str>>]) -> Type {
        let Some((declared, resolved)) = self.message_name(id, name) else {
            // cel-go does not check the fields of an unknown message.
            return self.undeclared(id, name);
        };
        *name = resolved;
        let mut message: Arc<str> = (&**name).into();
        let found = match declared {
            Type::Error => Type::Error,
            Type::Type(of) => match (well_known::message_of(&of), &*of) {
                (Some(known), _) => {
                    message = known.into();
                    (*of).clone()
                }
                (None, Type::Object(_)) => (*of).clone(),
                (None, other) => {
                    let name = other.name();
                    self.error(id, format!("'{name}' is not a message type"));
                    Type::Error
                }
            },
            other => {
                let name = other.name();
                self.error(id, format!("'{name}' is not a type"));
                Type::Error
            }
        };
        for field in fields {
            let value = self.check(&mut field.value);
            let expected = self.field_of(field.id, &message, &field.key);
            let value = if field.optional { self.unwrap(field.value.id, value) } else { value };
            if !self.known.assign(&expected, &value) {
                let text =
                    format!("expected type of field '{}' is '{expected}' but provided type is '{value}'", field.key);
                self.error(field.id, text);
            }
        }
        found
    }

    fn comprehension(&mut self, of: &mut Comprehension) -> Type {
        let range = self.check(&mut of.range);
        let accumulator = self.check(&mut of.initial);
        let range = self.known.substitute(&range, false);
        let outside = self.locals.len();
        self.locals.push((of.accumulator.clone(), accumulator.clone()));
        let (first, second) = match &range {
            Type::List(element) if of.variable2.is_some() => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Dyn),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Any | Type::Error | Type::Parameter(_) => {
                self.known.assign(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let text = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.error(of.range.id, text);
                (Type::Error, Type::Error)
            }
        };
        self.locals.push((of.variable.clone(), first));
        if let Some(variable) = &of.variable2 {
            self.locals.push((variable.clone(), second));
        }
        for (part, expected) in [(&mut of.condition, &Type::Bool), (&mut of.step, &accumulator)] {
            let found = self.check(part);
            if !self.known.assign(expected, &found) {
                self.mismatch(part.id, expected, &found);
            }
        }
        self.locals.truncate(outside + 1);
        let result = self.check(&mut of.result);
        self.locals.truncate(outside);
        self.known.substitute(&result, false)
    }
}

/// Replaces a declaration's type parameters by fresh ones.
fn instantiate(of: &Type, fresh: &[(Arc<str>, Type)]) -> Type {
    match of {
        Type::Parameter(name) => {
            fresh.iter().find(|(known, _)| known == name).map_or_else(|| of.clone(), |(_, fresh)| fresh.clone())
        }
        _ => of.map_parameters(&mut |parameter| instantiate(parameter, fresh)),
    }
}

/// Joins names and selections to `a.b.c` (`containers.ToQualifiedName`).
fn qualified_name(expression: &Expr) -> Option<String> {
    let mut parts = Vec::new();
    let mut current = expression;
    loop {
        match &current.kind {
            Kind::Ident(name) => {
                parts.push(&**name);
                parts.reverse();
                return Some(parts.join("."));
            }
            Kind::Select { operand, field, test: false } => {
                parts.push(field);
                current = operand;
            }
            _ => return None,
        }
    }
}
