//! The syntax tree, in cel-go's shape, with macros expanded.

use std::collections::HashMap;

/// The number of a node in its tree.
pub(crate) type Id = u64;

/// A parsed source.
#[derive(Clone, Debug)]
pub struct Ast {
    /// The outermost expression.
    pub root: Expr,
    /// The parsed text.
    pub source: String,
    /// The position of each node in the source: a line from 1 and a column from 0, in code points. A node that a macro made has the macro's
    /// position.
    pub positions: HashMap<Id, (usize, usize)>,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The node's number.
    pub id: Id,
    /// The expression of the node.
    pub kind: Kind,
}

/// The expression of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A constant.
    Literal(Literal),
    /// A variable or the first part of a qualified name.
    Ident(Box<str>),
    /// `operand.field`, or its presence test `has(operand.field)`.
    Select {
        /// The expression that has the field.
        operand: Box<Expr>,
        /// The field's name.
        field: Box<str>,
        /// Whether the expression is a presence test.
        test: bool,
    },
    /// A function, a method or an operator (`_+_`, `_[_]`, `_?._`, …).
    Call {
        /// The function's name.
        function: Box<str>,
        /// The expression before the dot of a method.
        target: Option<Box<Expr>>,
        /// The arguments in parentheses.
        arguments: Vec<Expr>,
    },
    /// `[a, ?b]`.
    List {
        /// The elements in order.
        elements: Vec<Expr>,
        /// Positions of the optional elements, which are omitted if they are an empty optional.
        optional: Vec<usize>,
    },
    /// `{k: v, ?k: v}`.
    Map(Vec<Entry<Expr>>),
    /// `Name{field: v}`.
    Struct {
        /// The type's name.
        name: Box<str>,
        /// The fields of the message.
        fields: Vec<Entry<Box<str>>>,
    },
    /// The expansion of `all`, `exists`, `map`, `filter`, ….
    Comprehension(Box<Comprehension>),
}

/// An entry of a map or a field of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<K> {
    /// The entry's number.
    pub id: Id,
    /// The key.
    pub key: K,
    /// The value.
    pub value: Expr,
    /// Whether the entry is omitted if the value is an empty optional.
    pub optional: bool,
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `null`.
    Null,
    /// `true`.
    Bool(bool),
    /// `1`.
    Int(i64),
    /// `1u`.
    Uint(u64),
    /// `1.0`.
    Double(f64),
    /// `'a'`.
    String(Box<str>),
    /// `b'a'`.
    Bytes(Box<[u8]>),
}

/// A fold over a list or a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Comprehension {
    /// The list or map to iterate over.
    pub range: Expr,
    /// The element (one variable, list), the key (map) or the index (two variables, list).
    pub variable: Box<str>,
    /// The value, if there are two variables.
    pub variable2: Option<Box<str>>,
    /// The name of the accumulator.
    pub accumulator: Box<str>,
    /// The accumulator's first value.
    pub initial: Expr,
    /// The condition for another round.
    pub condition: Expr,
    /// The accumulator's next value.
    pub step: Expr,
    /// The result of the comprehension.
    pub result: Expr,
}
