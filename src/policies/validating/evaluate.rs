//! One evaluation of a ValidatingAdmissionPolicy with one parameter, valid for every binding with that parameter (`validator.Validate`).

use super::policy::{Annotation, Policy, Validation};
use crate::admission::metrics::{MatchConditions, Metrics};
use crate::admission::shadow::ShadowVerdict;
use crate::cel::Value;
use crate::expressions::expression::{Evaluated, EvaluationError, OUT_OF_BUDGET, POLICY_COST, Series, Slots, Stop};
use crate::expressions::request::RequestValues;
use crate::expressions::reviews::Pause;
use crate::expressions::variables::Variables;
use crate::expressions::{Inputs, Verdict};
use crate::policies::binding::Action;
use crate::policies::shadow::ShadowDecision;
use serde_json::Value as Json;
use std::time::Duration;

/// Bytes that the value of a messageExpression may have (`MaxEvaluatedMessageExpressionSizeBytes`).
const MESSAGE_BYTES: usize = 5 * 1024;

/// The result of one evaluation.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Evaluation {
    /// The failed validations.
    pub(crate) failures: Vec<Failure>,
    /// The audit annotations.
    pub(crate) annotations: Vec<Annotated>,
}

impl Evaluation {
    /// Returns the decision that these actions of a binding lead to.
    pub(crate) fn would(&self, actions: &[Action]) -> ShadowDecision {
        let denies = actions.contains(&Action::Deny);
        let of_failures = self.failures.iter().filter_map(|failure| match &failure.reason {
            None if !failure.denies || denies => {
                Some(ShadowDecision::fail(!failure.denies, code(None), &*failure.message))
            }
            Some(reason) if denies => {
                let (code, message) = (code(Some(reason.as_str())), failure.message.clone());
                Some(ShadowDecision { code, message, ..ShadowDecision::be(ShadowVerdict::Denied) })
            }
            _ => None,
        });
        let of_annotations = self.annotations.iter().filter_map(|annotated| match annotated {
            Annotated::Error(why, _) => Some(ShadowDecision::fail(false, code(None), &**why)),
            Annotated::Value(..) => None,
        });
        ShadowDecision::worst(of_failures.chain(of_annotations))
    }
}

/// Returns the code of a rejection for this reason.
pub(super) fn code(reason: Option<&str>) -> u16 {
    match reason {
        Some("Forbidden") => 403,
        Some("Unauthorized") => 401,
        Some("RequestEntityTooLarge") => 413,
        _ => 422,
    }
}

/// A validation that is false, or that cannot be evaluated (`PolicyDecision`).
#[derive(Debug, PartialEq)]
pub(crate) struct Failure {
    /// The index of the policy's validation.
    pub(crate) index: usize,
    /// Whether the failure counts against the request; errors may be ignored.
    pub(crate) denies: bool,
    pub(crate) message: String,
    /// The reason of a false validation; `None` for an error.
    pub(crate) reason: Option<String>,
    /// The time that the evaluation took.
    pub(crate) elapsed: Duration,
}

/// The result of one audit annotation (`PolicyAuditAnnotation`).
#[derive(Debug, PartialEq)]
pub(crate) enum Annotated {
    /// A key with a value.
    Value(String, String),
    /// An error, which rejects the request.
    Error(String, Duration),
}

impl Policy {
    /// Evaluates the policy; `None` if the matchConditions exclude the request.
    ///
    /// # Errors
    /// If the evaluation has to be repeated.
    pub(crate) fn evaluate(
        &self,
        shown: &RequestValues<'_>,
        parameters: Option<&Json>,
        metrics: &Metrics,
    ) -> Result<Option<Evaluation>, Pause> {
        let operation = shown.attributes.operation;
        let labels = MatchConditions { name: &self.name, kind: "policy", step: "validate", operation };
        let inputs = Inputs { variables: &self.variables, parameters, reads: self.reads };
        match self.conditions.evaluate(shown, inputs, &labels, metrics)? {
            Verdict::Matches => {}
            Verdict::Excluded => return Ok(None),
            Verdict::Failed(why) => return Ok(Some(self.failed(why))),
        }
        let slots = shown.slots(self.reads, parameters);
        let failures = match self.validate(shown, &slots) {
            Ok(failures) => failures,
            Err(Stop::Review(review)) => return Err(Pause::Review(review)),
            Err(Stop::OutOfBudget) => return Ok(Some(self.failed(OUT_OF_BUDGET.to_owned()))),
        };
        match self.annotate(shown, slots) {
            Ok(annotations) => Ok(Some(Evaluation { failures, annotations })),
            Err(Stop::Review(review)) => Err(Pause::Review(review)),
            Err(Stop::OutOfBudget) => Ok(Some(self.failed(OUT_OF_BUDGET.to_owned()))),
        }
    }

    /// Creates an evaluation that consists of one error.
    fn failed(&self, message: String) -> Evaluation {
        let failures = vec![self.error(0, message, Duration::ZERO)];
        Evaluation { failures, annotations: Vec::new() }
    }

    fn error(&self, index: usize, message: String, elapsed: Duration) -> Failure {
        Failure { index, denies: !self.ignores_failure, message, reason: None, elapsed }
    }

    /// Evaluates the validations and returns those that fail.
    fn validate(&self, shown: &RequestValues<'_>, slots: &Slots<'_>) -> Result<Vec<Failure>, Stop> {
        let variables = Variables::new(&self.variables, slots.clone(), shown.limits());
        let mut series = Series::new(&variables, shown.limits(), POLICY_COST);
        let validations = &self.rules.validations;
        let results = validations.iter().map(|validation| series.evaluate(&validation.expression));
        let results: Vec<Evaluated<'_>> = results.collect::<Result<_, _>>()?;
        // Messages are evaluated even if no validation fails: their cost counts. They have no authorizer.
        let slots = Slots { authorizer: None, ..slots.clone() };
        let variables = Variables::new(&self.variables, slots, shown.limits());
        let mut series = Series::new(&variables, shown.limits(), series.budget());
        let has_messages = validations.iter().any(|validation| validation.message_expression.is_some());
        let with_messages = if has_messages { &**validations } else { &[] };
        let messages = with_messages.iter().map(|validation| {
            let Some(expression) = &validation.message_expression else { return Ok(None) };
            Ok(series.evaluate(expression)?.value.ok())
        });
        let messages = match messages.collect::<Result<Vec<_>, _>>() {
            Ok(messages) => Some(messages),
            Err(Stop::OutOfBudget) => None,
            Err(stop) => return Err(stop),
        };
        let mut failures = Vec::new();
        for (index, (validation, Evaluated { value, elapsed })) in validations.iter().zip(results).enumerate() {
            let message = messages.as_ref().map(|messages| messages.get(index).and_then(Option::as_ref));
            failures.extend(match (value, message) {
                (Err(EvaluationError(why)), _) => Some(self.error(index, why, elapsed)),
                (Ok(_), None) => Some(self.error(index, format!("failed messageExpression: {OUT_OF_BUDGET}"), elapsed)),
                (Ok(Value::Bool(true)), _) => None,
                (Ok(_), Some(message)) => Some(Failure {
                    index,
                    denies: true,
                    message: validation.say(message),
                    reason: Some(validation.reason.clone().unwrap_or_else(|| "Invalid".into())),
                    elapsed,
                }),
            });
        }
        Ok(failures)
    }

    fn annotate(&self, shown: &RequestValues<'_>, slots: Slots<'_>) -> Result<Vec<Annotated>, Stop> {
        if self.rules.annotations.is_empty() {
            return Ok(Vec::new());
        }
        let slots = Slots { authorizer: None, ..slots };
        let variables = Variables::new(&self.variables, slots, shown.limits());
        let mut series = Series::new(&variables, shown.limits(), POLICY_COST);
        let mut annotated = Vec::new();
        for annotation in &self.rules.annotations {
            let evaluated = series.evaluate(&annotation.expression)?;
            annotated.extend(self.annotated(annotation, evaluated));
        }
        Ok(annotated)
    }

    fn annotated(&self, annotation: &Annotation, Evaluated { value, elapsed }: Evaluated<'_>) -> Option<Annotated> {
        match value {
            Err(EvaluationError(why)) => (!self.ignores_failure).then_some(Annotated::Error(why, elapsed)),
            Ok(Value::Null) => None,
            Ok(Value::String(text)) => {
                let text = text.trim();
                (!text.is_empty()).then(|| Annotated::Value(annotation.key.clone(), text.to_owned()))
            }
            Ok(_) => Some(Annotated::Error(
                format!(
                    "valueExpression '{}' resulted in unsupported return type. Return type must be either string or null.",
                    annotation.expression.source()
                ),
                elapsed,
            )),
        }
    }
}

impl Validation {
    /// Returns the message of the failed validation.
    fn say(&self, message: Option<&Value<'_>>) -> String {
        let made = match message {
            Some(Value::String(text)) => text.trim(),
            _ => "",
        };
        if !made.is_empty() && made.len() <= MESSAGE_BYTES && !made.contains('\n') {
            made.to_owned()
        } else if !self.message.is_empty() {
            self.message.clone()
        } else {
            format!("failed expression: {}", self.expression.source().trim())
        }
    }
}
