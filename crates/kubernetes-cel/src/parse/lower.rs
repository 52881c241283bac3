//! Converts the `cel` crate's tree and errors to ours.

use super::{macros, places};
use crate::ast::{Entry, Expr, Id, Kind, Literal};
use crate::source::{Errors, Position, Source};
use cel::common::ast::{self as foreign, EntryExpr, IdedExpr, LiteralValue, SourceInfo};
use std::collections::HashMap;

/// The number of nodes that a tree may have after macro expansion. cel-go has no such bound: every `optMap` copies its target.
const MAX_NODES: Id = 100_000;

/// Copies a tree, numbers its nodes and expands its macros.
pub(super) struct Lowering<'a> {
    lines: &'a Source<'a>,
    places: SourceInfo,
    positions: HashMap<Id, Position>,
    errors: Errors,
    /// Whether names that consist of underscores stand for reserved words.
    reserved: bool,
    next: Id,
    depth: u16,
}

impl<'a> Lowering<'a> {
    /// Makes a converter. `errors` are those of the parser.
    pub(super) fn new(lines: &'a Source<'a>, places: SourceInfo, errors: Errors) -> Self {
        let reserved = !errors.is_empty();
        Self { lines, places, positions: HashMap::new(), errors, reserved, next: 1, depth: 0 }
    }

    /// The positions of the nodes, and the errors.
    pub(super) fn finish(self) -> (HashMap<Id, Position>, Errors) {
        (self.positions, self.errors)
    }

    /// Converts the whole tree; `None` if it is too deep.
    pub(super) fn root(&mut self, expression: IdedExpr) -> Option<Expr> {
        self.expression(expression)
    }

    /// Makes a new node at the position of another one.
    pub(super) fn node(&mut self, at: Id, kind: Kind) -> Expr {
        let id = self.number(self.positions.get(&at).copied());
        Expr { id, kind }
    }

    /// Records that a macro does not accept its arguments.
    pub(super) fn refuse(&mut self, at: Id, message: &str) {
        self.errors.add(self.positions.get(&at).copied(), message);
    }

    /// Copies a tree with new numbers (`ExprHelper.Copy`). The copies of entries have the macro's position. `None` if the whole tree
    /// becomes too large.
    pub(super) fn copy(&mut self, expression: &Expr, at: Id) -> Option<Expr> {
        let mut copy = expression.clone();
        self.renumber(&mut copy, self.positions.get(&at).copied())?;
        Some(copy)
    }

    fn renumber(&mut self, expression: &mut Expr, at: Option<Position>) -> Option<()> {
        if self.next > MAX_NODES {
            return None;
        }
        expression.id = self.number(self.positions.get(&expression.id).copied());
        match &mut expression.kind {
            Kind::Literal(_) | Kind::Ident(_) => Some(()),
            Kind::Select { operand, .. } => self.renumber(operand, at),
            Kind::Call { target, arguments, .. } => target
                .iter_mut()
                .map(|target| &mut **target)
                .chain(arguments)
                .try_for_each(|part| self.renumber(part, at)),
            Kind::List { elements, .. } => elements.iter_mut().try_for_each(|element| self.renumber(element, at)),
            Kind::Map(entries) => entries.iter_mut().try_for_each(|entry| {
                entry.id = self.number(at);
                self.renumber(&mut entry.key, at)?;
                self.renumber(&mut entry.value, at)
            }),
            Kind::Struct { fields, .. } => fields.iter_mut().try_for_each(|field| {
                field.id = self.number(at);
                self.renumber(&mut field.value, at)
            }),
            Kind::Comprehension(of) => {
                let parts = [&mut of.range, &mut of.initial, &mut of.condition, &mut of.step, &mut of.result];
                parts.into_iter().try_for_each(|part| self.renumber(part, at))
            }
        }
    }

    fn number(&mut self, position: Option<Position>) -> Id {
        let id = self.next;
        self.next += 1;
        if let Some(position) = position {
            self.positions.insert(id, position);
        }
        id
    }

    fn expression(&mut self, IdedExpr { id: foreign, expr }: IdedExpr) -> Option<Expr> {
        let deeper = match &expr {
            foreign::Expr::Select(_) => true,
            foreign::Expr::Call(call) => call.target.is_some() || nests(&call.func_name),
            _ => false,
        };
        if deeper {
            self.depth += 1;
            if self.depth > super::MAX_DEPTH {
                return None;
            }
        }
        let span = self.places.offset_for(foreign).map(|(start, stop)| Span {
            start: self.lines.code_point(start as usize),
            stop: self.lines.code_point(stop as usize),
        });
        let id = self.number(span.map(|span| self.lines.position(span.start)));
        let lowered = self.kind(id, expr, span);
        if deeper {
            self.depth -= 1;
        }
        lowered
    }

    fn kind(&mut self, id: Id, expr: foreign::Expr, span: Option<Span>) -> Option<Expr> {
        let kind = match expr {
            foreign::Expr::Unspecified => Kind::Literal(Literal::Null),
            // A reserved word; its error is recorded already.
            foreign::Expr::Ident(name) if self.reserved && name.chars().all(|c| c == '_') => {
                Kind::Literal(Literal::Null)
            }
            foreign::Expr::Literal(value) => Kind::Literal(self.literal(id, value, span)),
            foreign::Expr::Ident(name) => Kind::Ident(name.into()),
            foreign::Expr::Select(select) => Kind::Select {
                operand: Box::new(self.expression(*select.operand)?),
                field: select.field.into(),
                test: select.test,
            },
            foreign::Expr::Call(call) => return self.call(id, call),
            foreign::Expr::List(list) => {
                Kind::List { elements: self.expressions(list.elements)?, optional: list.optional_indices }
            }
            foreign::Expr::Map(map) => {
                Kind::Map(map.entries.into_iter().map(|entry| self.map_entry(entry)).collect::<Option<_>>()?)
            }
            foreign::Expr::Struct(message) => Kind::Struct {
                name: message.type_name.into(),
                fields: message.entries.into_iter().map(|field| self.field(field)).collect::<Option<_>>()?,
            },
            // Only macros make comprehensions, and the parser expands none.
            foreign::Expr::Comprehension(_) => return None,
        };
        Some(Expr { id, kind })
    }

    fn expressions(&mut self, list: Vec<IdedExpr>) -> Option<Vec<Expr>> {
        list.into_iter().map(|expression| self.expression(expression)).collect()
    }

    fn call(&mut self, id: Id, call: foreign::CallExpr) -> Option<Expr> {
        let target = match call.target {
            Some(target) => Some(self.expression(*target)?),
            None => None,
        };
        let arguments = self.expressions(call.args)?;
        match macros::find(&call.func_name, target.is_some(), arguments.len()) {
            Some(found) => found.expand(self, id, target, arguments),
            None => Some(Expr {
                id,
                kind: Kind::Call { function: call.func_name.into(), target: target.map(Box::new), arguments },
            }),
        }
    }

    fn entry_number(&mut self, foreign: u64) -> Id {
        let position = self
            .places
            .offset_for(foreign)
            .map(|(start, _)| self.lines.position(self.lines.code_point(start as usize)));
        self.number(position)
    }

    fn map_entry(&mut self, entry: foreign::IdedEntryExpr) -> Option<Entry<Expr>> {
        let id = self.entry_number(entry.id);
        match entry.expr {
            EntryExpr::MapEntry(of) => Some(Entry {
                id,
                key: self.expression(of.key)?,
                value: self.expression(of.value)?,
                optional: of.optional,
            }),
            EntryExpr::StructField(_) => None,
        }
    }

    fn field(&mut self, field: foreign::IdedEntryExpr) -> Option<Entry<Box<str>>> {
        let id = self.entry_number(field.id);
        match field.expr {
            EntryExpr::StructField(of) => {
                Some(Entry { id, key: of.field.into(), value: self.expression(of.value)?, optional: of.optional })
            }
            EntryExpr::MapEntry(_) => None,
        }
    }

    fn literal(&mut self, id: Id, value: LiteralValue, span: Option<Span>) -> Literal {
        let literal = match value {
            LiteralValue::Null => Literal::Null,
            LiteralValue::Boolean(value) => Literal::Bool(value.into_inner()),
            LiteralValue::Int(value) => Literal::Int(value.into_inner()),
            LiteralValue::UInt(value) => Literal::Uint(value.into_inner()),
            LiteralValue::Double(value) => Literal::Double(value.into_inner()),
            LiteralValue::String(value) => Literal::String(value.into_inner().into()),
            LiteralValue::Bytes(value) => Literal::Bytes(value.into_inner().into()),
        };
        let Some(Span { start, stop }) = span else { return literal };
        match &literal {
            // The position of a negative number is that of its sign.
            Literal::Int(..0) | Literal::Double(_) => {
                if let Some(sign) = places::sign_before(self.lines.characters(), start) {
                    self.positions.insert(id, self.lines.position(sign));
                }
            }
            Literal::String(_) | Literal::Bytes(_) => {
                let token = self.lines.characters().get(start..=stop).unwrap_or_default();
                if let Some(message) = places::escape_error(token) {
                    self.refuse(id, message);
                }
            }
            _ => {}
        }
        literal
    }
}

/// The first and the last code point of an expression.
#[derive(Clone, Copy)]
struct Span {
    start: usize,
    stop: usize,
}

/// Whether cel-go counts the depth of an operator: not for `&&`, `||`, `!` and the unary `-`.
fn nests(function: &str) -> bool {
    function == "@in"
        || (function.starts_with('_')
            && !matches!(function, "_&&_" | "_||_")
            && function.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
}
