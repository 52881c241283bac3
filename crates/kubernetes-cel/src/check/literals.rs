//! The AST validators that Kubernetes enables: for literal durations, timestamps, regular expressions and formats, and for literal lists
//! and maps of one type.

use super::format;
use crate::ast::{Ast, Entry, Expr, Id, Kind, Literal};
use crate::environment::Environment;
use crate::re2::Regex;
use crate::source::Errors;
use crate::types::Type;
use crate::value::Value;
use std::collections::HashMap;

/// Records the validators' errors in a tree that type checks.
pub(super) fn validate(ast: &Ast, types: &HashMap<Id, Type>, environment: &Environment, errors: &mut Errors) {
    let mut validator = Validator { ast, types, environment, errors };
    validator.visit(&ast.root, false);
}

struct Validator<'a> {
    ast: &'a Ast,
    types: &'a HashMap<Id, Type>,
    environment: &'a Environment,
    errors: &'a mut Errors,
}

impl Validator<'_> {
    /// Validates a node and its children. Lists and maps within the arguments of a format may mix types.
    fn visit(&mut self, expression: &Expr, in_format: bool) {
        match &expression.kind {
            Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select { operand, .. } => self.visit(operand, in_format),
            Kind::Call { function, target, arguments } => {
                self.argument(function, arguments);
                if let ("format", Some(target), [list]) = (&**function, target, &arguments[..])
                    && let (Kind::Literal(Literal::String(text)), Kind::List { elements, .. }) =
                        (&target.kind, &list.kind)
                    && let Err(why) = format::check(text, elements, self.types)
                {
                    self.error(why.argument.unwrap_or(expression.id), why.to_string());
                }
                let in_format = in_format || &**function == "format";
                target.iter().for_each(|target| self.visit(target, in_format));
                arguments.iter().for_each(|argument| self.visit(argument, in_format));
            }
            Kind::List { elements, optional } => {
                if !in_format {
                    self.same_type(elements, optional);
                }
                elements.iter().for_each(|element| self.visit(element, in_format));
            }
            Kind::Map(entries) => {
                if !in_format {
                    self.same_types(entries);
                }
                for entry in entries {
                    self.visit(&entry.key, in_format);
                    self.visit(&entry.value, in_format);
                }
            }
            Kind::Struct { fields, .. } => fields.iter().for_each(|field| self.visit(&field.value, in_format)),
            Kind::Comprehension(of) => {
                for part in [&of.range, &of.initial, &of.condition, &of.step, &of.result] {
                    self.visit(part, in_format);
                }
            }
        }
    }

    fn error(&mut self, at: Id, message: String) {
        self.errors.add(self.ast.positions.get(&at).copied(), message);
    }

    fn r#type(&self, of: &Expr, optional: bool) -> Type {
        let found = self.types.get(&of.id).unwrap_or(&Type::Dyn);
        found.optional_value().filter(|_| optional).unwrap_or(found).clone()
    }

    /// `formatValidator`: checks a literal first argument with the function. A method's first argument is the one in parentheses.
    fn argument(&mut self, function: &str, arguments: &[Expr]) {
        let Some(Expr { id, kind: Kind::Literal(literal) }) = arguments.first() else { return };
        let valid = match (function, literal) {
            ("duration" | "timestamp", Literal::String(text)) => self.takes(function, &[Value::text(text)]),
            ("timestamp", Literal::Int(seconds)) => self.takes(function, &[Value::Int(*seconds)]),
            ("duration" | "timestamp", _) => false,
            ("matches", Literal::String(pattern)) => Regex::compile(pattern).is_ok(),
            _ => true,
        };
        if !valid {
            self.error(*id, format!("invalid {function} argument"));
        }
    }

    fn takes(&self, name: &str, arguments: &[Value<'_>]) -> bool {
        let mut functions = self.environment.libraries().iter().copied().flatten();
        functions.find(|function| function.name == name).is_none_or(|function| (function.call)(arguments).is_ok())
    }

    fn same_type(&mut self, elements: &[Expr], optional: &[usize]) {
        let Some(first) = elements.first() else { return };
        let expected = self.r#type(first, optional.contains(&0));
        for (i, element) in elements.iter().enumerate().skip(1) {
            let found = self.r#type(element, optional.contains(&i));
            if found != expected {
                self.error(element.id, format!("expected type '{expected}' but found '{found}'"));
                break;
            }
        }
    }

    fn same_types(&mut self, entries: &[Entry<Expr>]) {
        let Some((first, others)) = entries.split_first() else { return };
        let expected = (self.r#type(&first.key, false), self.r#type(&first.value, first.optional));
        for entry in others {
            let found = (self.r#type(&entry.key, false), self.r#type(&entry.value, entry.optional));
            for (at, expected, found) in [(&entry.key, &expected.0, found.0), (&entry.value, &expected.1, found.1)] {
                if found != *expected {
                    self.error(at.id, format!("expected type '{expected}' but found '{found}'"));
                }
            }
        }
    }
}
