//! The variables, functions and types that an expression may use.

use super::check::declarations::{self, Declaration, Functions};
use super::check::{self, Checked};
use super::function::Function;
use super::plan::Program;
use super::types::Type;
use super::{estimate, well_known, work};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

/// The first words of an error in a constant part of an expression, for which the API has a separate kind of error.
pub const NOT_INSTANTIATED: &str = "program instantiation failed";

/// Declares the variables, functions and message types of expressions.
#[derive(Clone, Debug)]
pub struct Environment {
    variables: Vec<(Arc<str>, Type)>,
    libraries: Vec<&'static [Function]>,
    functions: Arc<Functions>,
    messages: Arc<dyn Messages>,
}

/// The message types of an environment.
pub trait Messages: fmt::Debug + Send + Sync {
    /// Whether a message has this name.
    fn has(&self, name: &str) -> bool;
    /// The type of a message's field; `None` if the message has no such field.
    fn field(&self, name: &str, field: &str) -> Option<Type>;
}

/// Message types with their fields. Empty by default.
#[derive(Clone, Debug, Default)]
pub struct Table(HashMap<Arc<str>, BTreeMap<Arc<str>, Type>>);

impl Table {
    /// Adds a type with its fields.
    pub fn with(mut self, name: &str, fields: impl IntoIterator<Item = (&'static str, Type)>) -> Self {
        self.0.insert(name.into(), fields.into_iter().map(|(field, of)| (field.into(), of)).collect());
        self
    }

    /// Adds a type without fields, unless a type of this name exists.
    pub fn add_type(&mut self, name: &str) {
        self.0.entry(name.into()).or_default();
    }

    /// Adds a field to a type, and creates the type if it does not exist.
    pub fn add(&mut self, name: &str, field: &str, of: Type) {
        self.0.entry(name.into()).or_default().insert(field.into(), of);
    }
}

impl Messages for Table {
    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A reserved word may stand for its escaped name (`recognizeKeywordAsFieldName`).
    fn field(&self, name: &str, field: &str) -> Option<Type> {
        let fields = self.0.get(name)?;
        let escaped = || super::schema::is_reserved(field).then(|| fields.get(&*format!("__{field}__"))).flatten();
        fields.get(field).or_else(escaped).cloned()
    }
}

/// The referent of a name.
#[derive(Clone, Debug, PartialEq)]
pub enum Name {
    /// A variable: its slot and type.
    Variable(usize, Type),
    /// A type.
    Type(Type),
    /// A number of an enumeration.
    Constant(i64),
}

/// The reason why a source does not compile, with cel-go's text: all lines, with positions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(pub String);

impl Environment {
    /// An environment with Kubernetes 1.36's libraries and these messages, without variables.
    pub fn new(messages: Arc<dyn Messages>) -> Self {
        let functions = declarations::ALL.clone();
        Self { variables: Vec::new(), libraries: super::library::ALL.to_vec(), functions, messages }
    }

    /// Adds a variable. Its slot is the number of variables before it.
    pub fn variable(mut self, name: &str, r#type: Type) -> Self {
        self.variables.push((name.into(), r#type));
        self
    }

    /// Adds a library.
    pub fn library(mut self, functions: &'static [Function]) -> Self {
        self.libraries.push(functions);
        declarations::declare(Arc::make_mut(&mut self.functions), functions);
        self
    }

    /// Replaces the messages.
    pub fn with_messages(mut self, messages: Arc<dyn Messages>) -> Self {
        self.messages = messages;
        self
    }

    /// The libraries, in the order of their addition.
    pub fn libraries(&self) -> &[&'static [Function]] {
        &self.libraries
    }

    /// Whether a message has this name.
    pub fn has_message(&self, name: &str) -> bool {
        self.messages.has(name) || well_known::of_name(name).is_some()
    }

    /// The type of a message's field; `None` if the message has no such field.
    pub fn field(&self, message: &str, field: &str) -> Option<Type> {
        self.messages.field(message, field).or_else(|| well_known::field(message, field))
    }

    /// The overloads of a function.
    pub fn function(&self, name: &str) -> Option<&[Declaration]> {
        self.functions.get(name).map(Vec::as_slice)
    }

    /// The referent of a full name: a variable, else a type, else a number of an enumeration.
    pub fn name(&self, name: &str) -> Option<Name> {
        if let Some(slot) = self.variables.iter().position(|(declared, _)| **declared == *name) {
            return Some(Name::Variable(slot, self.variables[slot].1.clone()));
        }
        let found = match name {
            "bool" => Type::Bool,
            "bytes" => Type::Bytes,
            "double" => Type::Double,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "string" => Type::String,
            "null_type" => Type::Null,
            "list" => Type::list(Type::Parameter("A".into())),
            "map" => Type::map(Type::Parameter("A".into()), Type::Parameter("B".into())),
            "type" => Type::of_types(),
            "net.IP" | "net.CIDR" | "optional_type" => Type::opaque(name),
            "google.protobuf.NullValue.NULL_VALUE" => return Some(Name::Constant(0)),
            _ if self.messages.has(name) => Type::object(name),
            _ => well_known::of_name(name)?,
        };
        Some(Name::Type(found))
    }

    /// Parses and checks a source.
    ///
    /// # Errors
    /// If the source is no expression or has a type error.
    pub fn check(&self, source: &str) -> Result<Checked, CompileError> {
        self.on_a_large_stack(source, || check::check(super::parse::parse(source)?, self))
    }

    /// Parses, checks and plans a source.
    ///
    /// # Errors
    /// If the source is no expression or has a type error, or if a constant part fails.
    pub fn compile(&self, source: &str) -> Result<Program, CompileError> {
        self.on_a_large_stack(source, || self.plan(&check::check(super::parse::parse(source)?, self)?))
    }

    /// Compiles an expression whose type must be one of `types`; any type if `types` is empty (`CompileCELExpression`).
    ///
    /// # Errors
    /// As [`Self::compile`], and if the type is another one; with kube-apiserver's text.
    pub fn compile_to(&self, source: &str, types: &[Type]) -> Result<Program, CompileError> {
        self.on_a_large_stack(source, || {
            let checked = super::parse::parse(source).and_then(|ast| check::check(ast, self));
            let checked = checked.map_err(|error| CompileError(format!("compilation failed: {error}")))?;
            let found = checked.output();
            if !types.is_empty() && !types.contains(found) {
                let expected: Vec<String> = types.iter().map(Type::declaration).collect();
                let expected = match expected.as_slice() {
                    [one] => one.clone(),
                    several => format!("one of [{}]", several.join(" ")),
                };
                return Err(CompileError(format!("must evaluate to {expected} but got {}", found.declaration())));
            }
            self.plan(&checked)
        })
    }

    /// Plans a checked expression.
    ///
    /// # Errors
    /// If a constant part of the expression fails.
    pub fn instantiate(&self, checked: &Checked) -> Result<Program, CompileError> {
        self.on_a_large_stack(&checked.ast.source, || self.plan(checked))
    }

    /// The lowest and the highest cost of a checked expression, for values of these sizes.
    ///
    /// # Errors
    /// If no thread with a large enough stack can be started.
    pub fn estimate(&self, checked: &Checked, sizes: &estimate::Sizes<'_>) -> Result<estimate::Range, CompileError> {
        self.on_a_large_stack(&checked.ast.source, || Ok(estimate::estimate(checked, sizes)))
    }

    fn plan(&self, checked: &Checked) -> Result<Program, CompileError> {
        let planned = Program::new(checked, &self.variables, &self.libraries);
        planned.map_err(|error| CompileError(format!("{NOT_INSTANTIATED}: {error}")))
    }

    /// Runs on a thread of its own: the parser's depth depends on the source, and threads of a pool have too little stack.
    fn on_a_large_stack<T: Send>(
        &self,
        source: &str,
        compile: impl FnOnce() -> Result<T, CompileError> + Send,
    ) -> Result<T, CompileError> {
        let failed = |what: &str| CompileError(format!("the expression could not be compiled: {what}"));
        work::bounded(|| {
            let left = work::left();
            let compile = || {
                work::resume(left);
                (compile(), work::left())
            };
            let (compiled, left) = std::thread::scope(|scope| {
                let thread = std::thread::Builder::new().stack_size(super::parse::stack_bytes(source));
                let thread = thread.spawn_scoped(scope, compile).map_err(|error| failed(&error.to_string()))?;
                thread.join().map_err(|_| failed("the compiler panicked"))
            })?;
            work::resume(left);
            compiled
        })
    }
}
