//! `matchConditions` of policies and webhooks (`matchconditions.matcher`).

use super::expression::{
    CONDITIONS_COST, Compiler, Declarations, EvaluationError, Expression, OUT_OF_BUDGET, Series, Stop,
};
use super::request::{Reads, RequestValues, Shared};
use super::reviews::{Pause, evaluated};
use super::variables::{Variable, Variables};
use crate::admission::Attributes;
use crate::admission::metrics::{MatchConditions as Labels, Metrics};
use crate::cel::{Release, Type, Value, work};
use crate::matching::View;
use crate::status::invalid::aggregate;
use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use serde_json::Value as Json;
use std::time::Instant;

/// Compiled matchConditions.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    all: Box<[Expression]>,
    /// Whether failurePolicy is `Ignore`: an error then excludes the request.
    ignores_failure: bool,
    reads: Reads,
}

/// The result of matchConditions for a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All conditions hold.
    Matches,
    /// A condition is false, or an error is ignored.
    Excluded,
    /// A condition cannot be evaluated, and failurePolicy is `Fail`.
    Failed(String),
}

/// The inputs of an evaluation other than the request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inputs<'a> {
    /// The policy's variables.
    pub(crate) variables: &'a [Variable],
    /// The policy's parameters.
    pub(crate) parameters: Option<&'a Json>,
    /// The values that the policy's expressions may read.
    pub(crate) reads: Reads,
}

impl Conditions {
    /// Compiles conditions.
    pub(crate) fn compile(
        conditions: &[MatchCondition],
        compiler: &Compiler,
        declarations: Declarations,
        ignores_failure: bool,
    ) -> Self {
        let compile = |condition: &MatchCondition| compiler.compile(&condition.expression, declarations, &[Type::Bool]);
        let all: Box<[_]> = conditions.iter().map(compile).collect();
        let reads = Reads { namespace: false, ..Reads::of(all.iter()) };
        Self { all, ignores_failure, reads }
    }

    /// Compiles the conditions of a webhook by the rules of a release.
    pub(crate) fn of_webhook(conditions: &[MatchCondition], failure_policy: Option<&str>, release: Release) -> Self {
        if conditions.is_empty() {
            return Self::default();
        }
        let declarations = Declarations { authorizer: true, ..Declarations::default() };
        let compiler = Compiler::of_webhook(release.stored());
        Self::compile(conditions, &compiler, declarations, failure_policy == Some("Ignore"))
    }

    /// Evaluates a webhook's conditions, again after each pause: an access review, or long work.
    pub(crate) async fn ask(
        &self,
        attributes: &Attributes,
        view: View<'_>,
        labels: &Labels<'_>,
        metrics: &Metrics,
    ) -> Verdict {
        if self.is_empty() {
            return Verdict::Matches;
        }
        let shared = Shared::new(attributes.context.authorizer.clone());
        loop {
            let verdict = {
                let shown = RequestValues::new(attributes, view, None, &shared);
                let inputs = Inputs { reads: self.reads, ..Inputs::default() };
                evaluated(|| self.evaluate(&shown, inputs, labels, metrics))
            };
            match verdict {
                Ok(verdict) => return verdict,
                Err(pause) => shared.reviews.end(pause).await,
            }
        }
    }

    /// Whether there are no conditions.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the expressions.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.all.iter()
    }

    /// Evaluates the conditions. A false condition excludes the request, whatever errors the others have.
    ///
    /// # Errors
    /// If the evaluation has to be repeated.
    pub(crate) fn evaluate(
        &self,
        shown: &RequestValues<'_>,
        inputs: Inputs<'_>,
        labels: &Labels<'_>,
        metrics: &Metrics,
    ) -> Result<Verdict, Pause> {
        if self.is_empty() {
            return Ok(Verdict::Matches);
        }
        let started = Instant::now();
        // Conditions see the requested resource, whatever resource the policy matched.
        let shown = &shown.on_its_own_resource();
        let slots = shown.slots(Reads { namespace: false, ..inputs.reads }, inputs.parameters);
        let slots = super::expression::Slots { namespace: Value::Null, ..slots };
        let variables = Variables::new(inputs.variables, slots, shown.limits());
        let results = self.run(&variables, shown);
        if work::is_over() {
            // The metrics count only the evaluation that completes.
            return Err(Pause::LongWork);
        }
        let verdict = match results {
            Err(Stop::Review(review)) => return Err(Pause::Review(review)),
            Err(Stop::OutOfBudget) => self.failed(OUT_OF_BUDGET.to_owned()),
            Ok(results) => {
                let mut errors: Vec<String> = Vec::new();
                let mut excluded = false;
                for result in results {
                    match result {
                        Ok(true) => {}
                        Ok(false) => {
                            excluded = true;
                            break;
                        }
                        Err(EvaluationError(why)) => {
                            metrics.conditions().observe_error(labels);
                            errors.push(why);
                        }
                    }
                }
                match (excluded, aggregate(errors)) {
                    (true, _) => Verdict::Excluded,
                    (false, None) => Verdict::Matches,
                    (false, Some(errors)) => self.failed(errors),
                }
            }
        };
        if verdict != Verdict::Matches {
            metrics.conditions().observe(labels, started.elapsed());
        }
        Ok(verdict)
    }

    /// Evaluates all conditions, also after a false one: they share one budget.
    fn run<'a>(
        &'a self,
        variables: &'a Variables<'a>,
        shown: &RequestValues<'_>,
    ) -> Result<Vec<Result<bool, EvaluationError>>, Stop> {
        let mut series = Series::new(variables, shown.limits(), CONDITIONS_COST);
        let evaluate = |expression| {
            let evaluated = series.evaluate(expression)?;
            Ok(evaluated.value.map(|value| !matches!(value, Value::Bool(false))))
        };
        self.all.iter().map(evaluate).collect()
    }

    fn failed(&self, why: String) -> Verdict {
        if self.ignores_failure { Verdict::Excluded } else { Verdict::Failed(why) }
    }
}
