//! The client's own credentials, tried at the upstream: a SelfSubjectReview names their user.

use super::places::ReviewPlaces;
use super::{Failure, Outcome};
use crate::answers::AnswerCache;
use crate::config::Limits;
use crate::server::Connection;
use crate::upstream::{ClientCredentials, SharedTransport, review};
use crate::user::UserInfo;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use std::sync::Arc;
use std::time::Duration;

const PATH: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

pub(super) struct Passthrough {
    transport: SharedTransport,
    limits: Arc<Limits>,
    places: Arc<ReviewPlaces>,
    answers: AnswerCache<Option<Arc<UserInfo>>>,
}

impl Passthrough {
    pub(super) fn new(transport: SharedTransport, limits: Arc<Limits>, places: Arc<ReviewPlaces>) -> Self {
        let answers = AnswerCache::new(limits.token_cache_entries);
        Self { transport, limits, places, answers }
    }

    /// Returns the user of these credentials; `None` only without credentials.
    pub(super) async fn authenticate(&self, credentials: &ClientCredentials, connection: &Connection) -> Outcome {
        let Some(authorization) = &credentials.authorization else {
            return Ok(None);
        };
        if authorization.len() > self.limits.token_bytes {
            return Err("the credentials are too long".into());
        }
        let key = self.answers.key(&[authorization.as_bytes()]);
        let lifetime = |answer: &Option<Arc<UserInfo>>| match answer {
            Some(_) => self.limits.token_cache_ttl,
            None => Duration::ZERO,
        };
        let look_up = || async {
            let Some(_places) = self.places.take_for(&key, connection).await? else {
                return Ok(None);
            };
            let question = SelfSubjectReview::default();
            let answer =
                review::create_as(&self.transport, credentials, PATH, &question, self.limits.call_timeout).await;
            let answer = answer.map_err(Failure::of_review)?;
            let user = answer.ok().and_then(|review| review.status).and_then(|status| status.user_info);
            if user.is_none() {
                connection.state.reject(key);
            }
            Ok::<_, Failure>(user.map(|user| Arc::new(UserInfo::from(user))))
        };
        match self.answers.answer(key, lifetime, look_up).await {
            Ok(Some(user)) => Ok(Some(user)),
            Ok(None) => Err("the upstream does not accept the credentials".into()),
            Err(failure) => Err((*failure).clone()),
        }
    }
}
