//! The pauses of an evaluation, after which it is repeated: an access review, which the API server gets once per request, or the wait
//! for a thread that long work may block.

use crate::admission::CallerAuthorizer;
use crate::authz::AccessAttributes;
use crate::cel::library::authz::{self, AccessReviewError};
use crate::cel::value::{Access, AccessDecision, Review};
use crate::cel::work;
use crate::processor;
use std::sync::{Arc, Mutex, PoisonError};

/// The reason why an evaluation has to be repeated.
#[derive(Debug, PartialEq)]
pub(crate) enum Pause {
    /// An access review has to be asked for first.
    Review(Box<Review>),
    /// The evaluation takes longer than it may block an async worker.
    LongWork,
}

/// Evaluates within the bounds of an evaluation; on an async worker, within the time that the worker has left at this poll.
///
/// # Errors
/// If the evaluation has to be repeated.
pub(crate) fn evaluated<T>(evaluate: impl FnOnce() -> Result<T, Pause>) -> Result<T, Pause> {
    let Some(left) = processor::short_left() else { return work::bounded(evaluate) };
    let (result, left) = work::briefly(left, evaluate).ok_or(Pause::LongWork)?;
    processor::set_short_left(left);
    result
}

/// The access reviews of one request so far.
#[derive(Debug)]
pub(crate) struct Reviews {
    authorizer: CallerAuthorizer,
    answers: Arc<Answers>,
}

/// The answers of access reviews, as expressions read them.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<Vec<(Review, Result<AccessDecision, AccessReviewError>)>>);

impl authz::Answers for Answers {
    fn answer(&self, review: &Review) -> Option<Result<AccessDecision, AccessReviewError>> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.iter().find(|(asked, _)| asked == review).map(|(_, answer)| answer.clone())
    }
}

impl Reviews {
    /// Creates the reviews for the caller of one request.
    pub(crate) fn new(authorizer: CallerAuthorizer) -> Self {
        Self { authorizer, answers: Arc::default() }
    }

    /// Returns the answers so far; later answers are added to the same value.
    pub(crate) fn answers(&self) -> Arc<Answers> {
        self.answers.clone()
    }

    /// Waits for the end of a pause, after which the evaluation is repeated.
    pub(crate) async fn end(&self, pause: Pause) {
        let review = match pause {
            Pause::Review(review) => *review,
            Pause::LongWork => return processor::expect_long().await,
        };
        let attributes = attributes(&review.access);
        let answer = match &review.service_account {
            None => self.authorizer.check(&attributes).await,
            Some((namespace, name)) => self.authorizer.check_service_account(namespace, name, &attributes).await,
        };
        let answer = answer.map(|decision| AccessDecision { allowed: decision.allowed, reason: decision.reason });
        let answer = answer.map_err(|error| AccessReviewError(error.to_string()));
        self.answers.0.lock().unwrap_or_else(PoisonError::into_inner).push((review, answer));
    }
}

/// The access of an expression, as the authorizer checks it.
fn attributes(access: &Access) -> AccessAttributes {
    let attributes = AccessAttributes {
        is_resource_request: access.is_resource_request,
        verb: access.verb.clone(),
        namespace: access.namespace.clone(),
        api_group: access.api_group.clone(),
        api_version: access.api_version.clone(),
        resource: access.resource.clone(),
        subresource: access.subresource.clone(),
        name: access.name.clone(),
        path: access.path.clone(),
        ..AccessAttributes::default()
    };
    attributes.selecting(&access.field_selector, &access.label_selector)
}
