//! The syntax tree: cel-go's shape, with macros expanded.

use std::collections::HashMap;

/// Numbers the nodes of one tree.
pub type Id = u64;

/// A parsed source.
#[derive(Clone, Debug)]
pub struct Ast {
    /// The outermost expression.
    pub root: Expr,
    /// What was parsed.
    pub source: String,
    /// Where each node is in the source: a line from 1 and a column from 0, in code points. What a macro made is where the
    /// macro was.
    pub positions: HashMap<Id, (usize, usize)>,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Its number.
    pub id: Id,
    /// What it is.
    pub kind: Kind,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A constant.
    Literal(Literal),
    /// A variable or the first part of a qualified name.
    Ident(Box<str>),
    /// `operand.field`, or whether there is one: `has(operand.field)`.
    Select {
        /// What has the field.
        operand: Box<Expr>,
        /// The field's name.
        field: Box<str>,
        /// Whether only its presence is asked for.
        test: bool,
    },
    /// A function, a method or an operator (`_+_`, `_[_]`, `_?._`, …).
    Call {
        /// The function's name.
        function: Box<str>,
        /// What stands before the dot of a method.
        target: Option<Box<Expr>>,
        /// The rest.
        arguments: Vec<Expr>,
    },
    /// `[a, ?b]`.
    List {
        /// The elements in order.
        elements: Vec<Expr>,
        /// Positions of those that are left out where they are an empty optional.
        optional: Vec<usize>,
    },
    /// `{k: v, ?k: v}`.
    Map(Vec<Entry<Expr>>),
    /// `Name{field: v}`.
    Struct {
        /// The type's name.
        name: Box<str>,
        /// Its fields.
        fields: Vec<Entry<Box<str>>>,
    },
    /// What `all`, `exists`, `map`, `filter`, … come to.
    Comprehension(Box<Comprehension>),
}

/// An entry of a map or a field of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<K> {
    /// Its number.
    pub id: Id,
    /// The key.
    pub key: K,
    /// The value.
    pub value: Expr,
    /// Whether it is left out where the value is an empty optional.
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
    /// What is gone through.
    pub range: Expr,
    /// The element (one variable, list), the key (map) or the index (two variables, list).
    pub variable: Box<str>,
    /// The value, where there are two.
    pub variable2: Option<Box<str>>,
    /// Name of the accumulator.
    pub accumulator: Box<str>,
    /// Its first value.
    pub initial: Expr,
    /// Goes on while this holds.
    pub condition: Expr,
    /// The accumulator's next value.
    pub step: Expr,
    /// What the whole comes to.
    pub result: Expr,
}
