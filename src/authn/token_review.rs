//! Bearer tokens that the upstream knows: one TokenReview each, cached for a while.

use super::Failure;
use super::places::ReviewPlaces;
use crate::answers::{AnswerCache, Key};
use crate::config::Limits;
use crate::server::Connection;
use crate::upstream::review;
use crate::user::UserInfo;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use std::sync::Arc;
use std::time::Duration;

const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

pub(super) struct TokenReviews {
    client: kube::Client,
    limits: Arc<Limits>,
    places: Arc<ReviewPlaces>,
    audiences: Vec<String>,
    answers: Arc<AnswerCache<Answer>>,
}

/// The answer to a review: a user, or a rejection.
type Answer = Result<Arc<UserInfo>, Rejected>;

/// The upstream rejects the token, with its reason, if it names one.
#[derive(Clone, Debug, Default)]
struct Rejected(Option<String>);

impl TokenReviews {
    pub(super) fn new(
        client: kube::Client,
        limits: Arc<Limits>,
        places: Arc<ReviewPlaces>,
        audiences: Vec<String>,
    ) -> Self {
        let answers = Arc::new(AnswerCache::new(limits.token_cache_entries));
        Self { client, limits, places, audiences, answers }
    }

    /// Returns these reviews with other places.
    pub(super) fn with_places(&self, places: Arc<ReviewPlaces>) -> Self {
        let (client, limits, audiences) = (self.client.clone(), self.limits.clone(), self.audiences.clone());
        Self { client, limits, places, audiences, answers: self.answers.clone() }
    }

    /// Returns the user of a token.
    pub(super) async fn user(&self, token: &str, connection: &Connection) -> Result<Option<Arc<UserInfo>>, Failure> {
        let key = self.answers.key(&[token.as_bytes()]);
        let lifetime = |answer: &Answer| match answer {
            Ok(_) => self.limits.token_cache_ttl,
            Err(_) => Duration::ZERO,
        };
        match self.answers.answer(key, lifetime, || self.review(token, &key, connection)).await {
            Ok(Ok(user)) => Ok(Some(user)),
            Ok(Err(Rejected(None))) => Ok(None),
            Ok(Err(Rejected(Some(reason)))) => Err(reason.into()),
            Err(failure) => Err((*failure).clone()),
        }
    }

    /// Reviews a token (`WebhookTokenAuthenticator.AuthenticateToken`).
    async fn review(&self, token: &str, key: &Key, connection: &Connection) -> Result<Answer, Failure> {
        let Some(_places) = self.places.take_for(key, connection).await? else {
            return Ok(Err(Rejected::default()));
        };
        let audiences = (!self.audiences.is_empty()).then(|| self.audiences.clone());
        let spec = TokenReviewSpec { token: token.to_owned(), audiences };
        let question = TokenReview { spec, ..TokenReview::default() };
        let answer = review::create(&self.client, PATH, &question, self.limits.call_timeout).await;
        let status = answer.map_err(Failure::of_review)?.status.unwrap_or_default();
        let granted = status.audiences.unwrap_or_default();
        // A reviewer that returns no audiences has reviewed for its own audiences, which are ours.
        let fits = self.audiences.is_empty()
            || granted.is_empty()
            || granted.iter().any(|audience| self.audiences.contains(audience));
        if !fits {
            return Ok(Err(Rejected::default()));
        }
        if status.authenticated != Some(true) {
            connection.state.reject(*key);
            return Ok(Err(Rejected(status.error.filter(|reason| !reason.is_empty()))));
        }
        let user = UserInfo::from(status.user.unwrap_or_default());
        Ok(Ok(Arc::new(user.with_authenticated_group())))
    }
}
