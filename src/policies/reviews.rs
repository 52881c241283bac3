//! Access reviews that expressions ask for: each is asked of the API server once for a request, between two evaluations.

use crate::admission::CallerAuthorizer;
use crate::authz::Decision;
use crate::cel::library::authz;
use crate::cel::value::Review;
use std::sync::{Arc, Mutex, PoisonError};

/// What the API server said so far.
#[derive(Debug)]
pub struct Reviews {
    authorizer: CallerAuthorizer,
    answers: Arc<Answers>,
}

/// The answers, as expressions read them.
#[derive(Debug, Default)]
pub struct Answers(Mutex<Vec<(Review, Result<Decision, String>)>>);

impl authz::Answers for Answers {
    fn answer(&self, review: &Review) -> Option<Result<Decision, String>> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.iter().find(|(asked, _)| asked == review).map(|(_, answer)| answer.clone())
    }
}

impl Reviews {
    /// About the caller of one request.
    pub fn new(authorizer: CallerAuthorizer) -> Self {
        Self { authorizer, answers: Arc::default() }
    }

    /// What is answered so far, and what will be.
    pub fn answers(&self) -> Arc<Answers> {
        self.answers.clone()
    }

    /// Asks the API server.
    pub async fn ask(&self, review: Review) {
        let answer = match &review.service_account {
            None => self.authorizer.check(&review.attributes).await,
            Some((namespace, name)) => self.authorizer.check_service_account(namespace, name, &review.attributes).await,
        };
        let answer = answer.map_err(|error| error.to_string());
        self.answers.0.lock().unwrap_or_else(PoisonError::into_inner).push((review, answer));
    }
}
