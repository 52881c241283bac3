//! From a source to a program: parses, checks, plans and estimates expressions of an environment.

use super::check::{self, Checked};
use super::environment::{Environment, NOT_INSTANTIATED};
use super::plan::Program;
use super::source::CompileError;
use super::types::Type;
use super::{estimate, parse, work};

impl Environment {
    /// Parses and checks a source.
    ///
    /// # Errors
    /// If the source is no expression or has a type error.
    pub fn check(&self, source: &str) -> Result<Checked, CompileError> {
        on_a_large_stack(source, || check::check(parse::parse(source)?, self))
    }

    /// Parses, checks and plans a source.
    ///
    /// # Errors
    /// If the source is no expression or has a type error, or if a constant part fails.
    pub fn compile(&self, source: &str) -> Result<Program, CompileError> {
        on_a_large_stack(source, || self.plan(&check::check(parse::parse(source)?, self)?))
    }

    /// Compiles an expression whose type must be one of `types`; any type if `types` is empty (`CompileCELExpression`).
    ///
    /// # Errors
    /// As [`Self::compile`], and if the type is another one; with kube-apiserver's text.
    pub fn compile_to(&self, source: &str, types: &[Type]) -> Result<Program, CompileError> {
        on_a_large_stack(source, || {
            let checked = parse::parse(source).and_then(|ast| check::check(ast, self));
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
        on_a_large_stack(&checked.ast.source, || self.plan(checked))
    }

    /// The lowest and the highest cost of a checked expression, for values of these sizes.
    ///
    /// # Errors
    /// If no thread with a large enough stack can be started.
    pub fn estimate(&self, checked: &Checked, sizes: &estimate::Sizes<'_>) -> Result<estimate::Range, CompileError> {
        on_a_large_stack(&checked.ast.source, || Ok(estimate::estimate(checked, sizes, self.release())))
    }

    fn plan(&self, checked: &Checked) -> Result<Program, CompileError> {
        let planned = Program::new(checked, self);
        planned.map_err(|error| CompileError(format!("{NOT_INSTANTIATED}: {error}")))
    }
}

/// Runs on a thread of its own: the parser's depth depends on the source, and threads of a pool have too little stack.
fn on_a_large_stack<T: Send>(
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
            let thread = std::thread::Builder::new().stack_size(parse::stack_bytes(source));
            let thread = thread.spawn_scoped(scope, compile).map_err(|error| failed(&error.to_string()))?;
            thread.join().map_err(|_| failed("the compiler panicked"))
        })?;
        work::resume(left);
        compiled
    })
}
