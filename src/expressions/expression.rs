//! Expressions of policies and webhooks: compiled once, evaluated with the values of a request and a budget
//! (`cel.compiler`, `cel.evaluationActivation`).

use super::variables::{Variable, Variables};
use crate::cel::environment::CompileError;
use crate::cel::estimate::Range;
use crate::cel::library::jsonpatch;
use crate::cel::messages::{AdmissionTypes, VARIABLES};
use crate::cel::value::{Map, Review};
use crate::cel::{Environment, Error, EvaluationLimits, Program, Release, Type, Value};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The maximum cost of one evaluation (`PerCallLimit`).
pub(crate) const EXPRESSION_COST: u64 = 1_000_000;
/// The maximum cost of a policy's expressions for one binding and parameter (`RuntimeCELCostBudget`).
pub(crate) const POLICY_COST: u64 = 10_000_000;
/// The maximum cost of matchConditions (`RuntimeCELCostBudgetMatchConditions`).
pub(crate) const CONDITIONS_COST: u64 = 2_500_000;

/// The maximum nesting of variables and the variables that they use; their values nest as deeply.
const MAX_NESTING: usize = 1_000;

/// The error text for a spent budget.
pub(crate) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The variables that expressions may use beyond the ones that all may use (`OptionalVariableDeclarations`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Declarations {
    /// `params`
    pub(crate) parameters: bool,
    /// `authorizer` and `authorizer.requestResource`
    pub(crate) authorizer: bool,
    /// `variables`
    pub(crate) variables: bool,
    /// `Object` and `JSONPatch`
    pub(crate) patches: bool,
}

/// A compiled expression, or its compile error.
#[derive(Debug)]
pub(crate) struct Expression {
    source: Box<str>,
    release: Release,
    declarations: Declarations,
    program: Result<Program, CompileError>,
}

impl Declarations {
    /// The declarations of most policy expressions.
    pub(crate) const OF_POLICIES: Self = Self { parameters: false, authorizer: true, variables: true, patches: false };
}

impl Expression {
    /// Returns the source text.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Returns the release whose rules the expression follows.
    pub(super) fn release(&self) -> Release {
        self.release
    }

    /// Returns the compile error, if the expression has one.
    pub(crate) fn compile_error(&self) -> Option<&str> {
        self.program.as_ref().err().map(|CompileError(why)| why.as_str())
    }

    /// Returns the type of the value; `Dyn` if the expression does not compile.
    fn output(&self) -> Type {
        self.program.as_ref().map_or(Type::Dyn, |program| program.output.clone())
    }

    /// Whether the expression may use a name.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        self.source.contains(name)
    }

    /// Evaluates the expression and returns its cost, which the caller takes from a budget.
    pub(super) fn run<'a>(&'a self, slots: &Slots<'a>, limits: &EvaluationLimits) -> (Result<Value<'a>, Failure>, u64) {
        match &self.program {
            Err(CompileError(why)) => (Err(Failure::Compilation(why.clone())), 0),
            Ok(program) => {
                let outcome = program.evaluate(&slots.of(self.declarations), limits);
                (outcome.value.map_err(Failure::Evaluation), outcome.cost)
            }
        }
    }
}

/// The reason why an expression has no value.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The expression does not compile.
    Compilation(String),
    /// The evaluation fails.
    Evaluation(Error),
}

/// The compiler of the expressions of one policy or webhook.
#[derive(Debug)]
pub(crate) struct Compiler {
    release: Release,
    messages: AdmissionTypes,
    has_parameters: bool,
}

impl Compiler {
    /// Creates the compiler for a policy with or without a paramKind, by the rules of a release.
    pub(crate) fn new(has_parameters: bool, release: Release) -> Self {
        Self { release, messages: AdmissionTypes::default().with_variables(), has_parameters }
    }

    /// Creates the compiler for a webhook.
    pub(crate) fn of_webhook(release: Release) -> Self {
        Self { release, messages: AdmissionTypes::default(), has_parameters: false }
    }

    /// Compiles the policy's variables. A variable may use the variables before it, and expressions that are compiled later may use all.
    pub(crate) fn variables<'a>(&mut self, variables: impl Iterator<Item = (&'a str, &'a str)>) -> Box<[Variable]> {
        let mut nesting: HashMap<&str, usize> = HashMap::new();
        let compile = |(name, source): (&'a str, &'a str)| {
            let mut expression = self.compile(source, Declarations::OF_POLICIES, &[]);
            let words = source.split(|c: char| !c.is_alphanumeric() && c != '_');
            let below = words.filter_map(|word| nesting.get(word)).max().copied().unwrap_or(0);
            let own = expression.program.as_ref().map_or(0, Program::depth);
            if below + own > MAX_NESTING {
                let why = "compilation failed: the variables that it is made of nest too deeply";
                expression.program = Err(CompileError(why.to_owned()));
            }
            nesting.insert(name, below + own);
            self.messages.add_variable(name, &expression.output());
            Variable { name: name.into(), expression }
        };
        variables.map(compile).collect()
    }

    /// Compiles an expression whose value must have one of these types; any type if the list is empty.
    pub(crate) fn compile(&self, source: &str, declarations: Declarations, types: &[Type]) -> Expression {
        let program = self.environment(declarations).compile_to(source, types);
        let declarations = Declarations { parameters: self.has_parameters, ..declarations };
        Expression { source: source.into(), release: self.release, declarations, program }
    }

    /// Estimates the cost of an expression on unknown values; `None` if the expression does not compile.
    pub(crate) fn estimate(&self, source: &str, declarations: Declarations) -> Option<Range> {
        let environment = self.environment(declarations);
        let checked = environment.check(source).ok()?;
        environment.estimate(&checked, &|_| None).ok()
    }

    fn environment(&self, declarations: Declarations) -> Environment {
        let messages = self.messages.clone();
        let messages = if declarations.patches { messages.with_patches() } else { messages };
        environment(self.release, messages, Declarations { parameters: self.has_parameters, ..declarations })
    }
}

/// Creates the environment of these declarations; [`Slots::of`] has the order of its variables.
fn environment(release: Release, messages: AdmissionTypes, declarations: Declarations) -> Environment {
    let mut environment = Environment::of(release, Arc::new(messages))
        .variable("object", Type::Dyn)
        .variable("oldObject", Type::Dyn)
        .variable("namespaceObject", Type::object("kubernetes.Namespace"))
        .variable("request", Type::object("kubernetes.AdmissionRequest"));
    if declarations.variables {
        environment = environment.variable("variables", Type::object(VARIABLES));
    }
    if declarations.parameters {
        environment = environment.variable("params", Type::Dyn);
    }
    if declarations.authorizer {
        environment = environment
            .variable("authorizer", Type::opaque("kubernetes.authorization.Authorizer"))
            .variable("authorizer.requestResource", Type::opaque("kubernetes.authorization.ResourceCheck"));
    }
    if declarations.patches {
        environment = environment.library(jsonpatch::FUNCTIONS);
    }
    environment
}

/// The values of variables.
#[derive(Clone, Debug)]
pub(crate) struct Slots<'a> {
    /// `object`
    pub(crate) object: Value<'a>,
    /// `oldObject`
    pub(crate) old_object: Value<'a>,
    /// `namespaceObject`
    pub(crate) namespace: Value<'a>,
    /// `request`
    pub(crate) request: Value<'a>,
    /// `params`
    pub(crate) parameters: Value<'a>,
    /// `authorizer` and `authorizer.requestResource`; `None` leaves them unbound.
    pub(crate) authorizer: Option<[Value<'static>; 2]>,
    /// `variables`
    pub(crate) variables: Option<Map<'a>>,
}

impl<'a> Slots<'a> {
    fn of(&self, declarations: Declarations) -> Vec<Option<Value<'a>>> {
        let mut slots = Vec::with_capacity(8);
        slots.extend([&self.object, &self.old_object, &self.namespace, &self.request].map(|value| Some(value.clone())));
        if declarations.variables {
            slots.push(self.variables.clone().map(Value::Map));
        }
        if declarations.parameters {
            slots.push(Some(self.parameters.clone()));
        }
        if declarations.authorizer {
            let both = self.authorizer.clone().map(|both| both.map(Some));
            slots.extend(both.unwrap_or_default());
        }
        slots
    }
}

/// The reason to stop a series of evaluations.
#[derive(Debug, PartialEq)]
pub(crate) enum Stop {
    /// The budget is spent.
    OutOfBudget,
    /// An access review has to be asked for first.
    Review(Box<Review>),
}

/// The reason why an expression has no value, as kube-apiserver shows it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct EvaluationError(pub String);

/// The result of one expression.
#[derive(Debug)]
pub(crate) struct Evaluated<'a> {
    /// The value, or the error (`EvaluationResult.Error`).
    pub(crate) value: Result<Value<'a>, EvaluationError>,
    /// The time that the evaluation took.
    pub(crate) elapsed: Duration,
}

/// A series of evaluations with one budget (`ConditionEvaluator.ForInput`).
#[derive(Debug)]
pub(crate) struct Series<'a> {
    variables: &'a Variables<'a>,
    limits: EvaluationLimits,
    budget: u64,
}

impl<'a> Series<'a> {
    /// Creates a series that evaluates these variables anew; `budget` is the maximum cost of the series.
    pub(crate) fn new(variables: &'a Variables<'a>, limits: EvaluationLimits, budget: u64) -> Self {
        Self { variables, limits, budget }
    }

    /// Returns the rest of the budget.
    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }

    /// Evaluates one expression.
    ///
    /// # Errors
    /// If the budget is spent, or an access review has to be asked for first.
    pub(crate) fn evaluate(&mut self, expression: &'a Expression) -> Result<Evaluated<'a>, Stop> {
        if let Some(why) = expression.compile_error() {
            let why = EvaluationError(format!("compilation error: {why}"));
            return Ok(Evaluated { value: Err(why), elapsed: Duration::ZERO });
        }
        let started = Instant::now();
        let (value, cost) = expression.run(self.variables.slots(), &self.limits);
        let elapsed = started.elapsed();
        let value = match value {
            Ok(value) => Ok(value),
            Err(Failure::Evaluation(Error::Review(review))) => return Err(Stop::Review(review)),
            Err(failure) => {
                let (source, why) = (&expression.source, text(&failure));
                Err(EvaluationError(format!("expression '{source}' resulted in error: {why}")))
            }
        };
        for cost in [self.variables.take_cost(), cost] {
            self.budget = self.budget.checked_sub(cost).ok_or(Stop::OutOfBudget)?;
        }
        Ok(Evaluated { value, elapsed })
    }
}

/// Returns the text of a failure in cel-go's words.
pub(super) fn text(failure: &Failure) -> String {
    match failure {
        Failure::Compilation(why) => why.clone(),
        Failure::Evaluation(error) => error.to_string(),
    }
}
