//! Whether the user may: SubjectAccessReviews at the upstream, believed for a while; and how a refusal reads.

mod attributes;
mod selectors;

pub use attributes::Attributes;

use crate::answers::AnswerCache;
use crate::request::RequestInfo;
use crate::shares::Shares;
use crate::status::Status;
use crate::upstream::{ClientCredentials, SharedTransport, review};
use crate::user::UserInfo;
use k8s_openapi::api::authorization::v1::{
    SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview, SubjectAccessReviewSpec,
    SubjectAccessReviewStatus,
};
pub use review::ReviewError;
use serde::{Serialize, de::DeserializeOwned};
use std::sync::Arc;
use std::time::Duration;

const SUBJECT_ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const SELF_SUBJECT_ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// So long after a change of roles or bindings no answer is kept: the API server's own authorizer learns of it by a watch.
const SETTLING: Duration = Duration::from_secs(1);
/// Attributes that the client chose and that are this long together are not cached (`maxControlledAttrCacheSize`).
const MAX_CACHED_ATTRIBUTES_BYTES: usize = 10_000;

/// Who decides on a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The proxy asks before it does anything for a request.
    #[default]
    Webhook,
    /// Only the upstream, when the request gets there. Whatever only the proxy can see (impersonation) is asked still.
    AlwaysAllow,
    /// Nobody: the upstream is the API server in this process, at which everybody may do anything.
    Unrestricted,
}

/// Who answers reviews.
#[derive(Clone)]
pub enum Reviewer {
    /// The upstream, asked by the proxy about the user.
    Subject(kube::Client),
    /// The upstream, asked by the client about itself (passthrough), and by the proxy about anybody else.
    Oneself(SharedTransport, kube::Client),
}

/// How authorization works.
#[derive(Clone)]
pub struct Config {
    /// Who decides.
    pub mode: Mode,
    /// Whom to ask.
    pub reviewer: Reviewer,
    /// How long a yes is believed: as long may pass until somebody whose rights were revoked is refused.
    pub authorized_ttl: Duration,
    /// How long a no is believed: as long may pass until somebody who was granted a right has it. Zero for not at all.
    pub unauthorized_ttl: Duration,
    /// Answers kept at the same time.
    pub cache_capacity: u64,
    /// For one answer, with all attempts.
    pub timeout: Duration,
    /// Reviews at a time; further ones wait, as long as for an answer.
    pub reviews: usize,
    /// The same about one user.
    pub user_reviews: usize,
}

impl Config {
    /// The defaults.
    pub fn new(mode: Mode, reviewer: Reviewer) -> Self {
        Self {
            mode,
            reviewer,
            authorized_ttl: Duration::from_secs(10),
            unauthorized_ttl: Duration::ZERO,
            cache_capacity: 8192,
            timeout: Duration::from_secs(10),
            reviews: 512,
            user_reviews: 32,
        }
    }
}

/// An authorizer's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether the user may.
    pub allowed: bool,
    /// Whether the answer is a "no" that nobody else may overrule, rather than no opinion.
    pub denied: bool,
    /// Why, for a person.
    pub reason: String,
}

/// Asks whether users may do things.
pub struct Authorizer {
    config: Config,
    answers: AnswerCache<Decision>,
    pace: Arc<Shares>,
}

impl Authorizer {
    /// An authorizer of this kind.
    pub fn new(config: Config) -> Self {
        let answers = AnswerCache::new(config.cache_capacity);
        let pace = Shares::new(config.reviews, config.user_reviews);
        Self { config, answers, pace }
    }

    /// Lets a request pass that its user may make (`WithAuthorization`).
    ///
    /// # Errors
    /// 403 in kube-apiserver's words; 500 when nobody can tell.
    pub async fn authorize(
        &self,
        user: &UserInfo,
        info: &RequestInfo,
        credentials: Option<&ClientCredentials>,
    ) -> Result<Decision, Status> {
        if self.config.mode != Mode::Webhook {
            return Ok(Decision { allowed: true, ..Decision::default() });
        }
        let attributes = Attributes::from(info);
        match self.check(user, &attributes, credentials).await {
            Ok(decision) if decision.allowed => Ok(decision),
            Ok(decision) => Err(attributes.forbidden(user, &decision.reason)),
            Err(error) => Err(Status::internal_error(error)),
        }
    }

    /// Forgets what the upstream said: roles or bindings have changed.
    pub fn forget_answers(&self) {
        self.answers.forget_all(SETTLING);
    }

    /// Whether the upstream alone will decide on a request, when it gets there.
    pub fn leaves_it_to_the_upstream(&self) -> bool {
        self.config.mode == Mode::AlwaysAllow
    }

    /// What the upstream says to this, whatever the mode (`WebhookAuthorizer.Authorize`). With passthrough the question is
    /// about whoever has the credentials, and the user is not looked at.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn check(
        &self,
        user: &UserInfo,
        attributes: &Attributes,
        credentials: Option<&ClientCredentials>,
    ) -> Result<Decision, ReviewError> {
        match &self.config.reviewer {
            Reviewer::Subject(_) => self.check_about(user, attributes).await,
            Reviewer::Oneself(transport, _) => {
                let Some(credentials) = credentials else {
                    return Err(ReviewError("there are no credentials of the client to ask with".into()));
                };
                let question = own_question(attributes);
                let key = self.key(&question.spec, Some(credentials))?;
                let ask = || self.paced(user, self.review_oneself(transport, credentials, question));
                self.answer(key, attributes, ask).await
            }
        }
    }

    /// What the upstream says of somebody who need not be the caller; asked with the proxy's own credentials.
    ///
    /// # Errors
    /// When there is no answer, also because the proxy may not ask.
    pub async fn check_about(&self, user: &UserInfo, attributes: &Attributes) -> Result<Decision, ReviewError> {
        let (Reviewer::Subject(client) | Reviewer::Oneself(_, client)) = &self.config.reviewer;
        let spec = subject_spec(user, attributes);
        let key = self.key(&spec, None)?;
        self.answer(key, attributes, || self.paced(user, self.review(client, spec))).await
    }

    fn key(&self, spec: &impl Serialize, credentials: Option<&ClientCredentials>) -> Result<[u8; 32], ReviewError> {
        let spec = serde_json::to_vec(spec).map_err(|error| ReviewError(error.to_string()))?;
        let mut parts = vec![spec.as_slice()];
        if let Some(credentials) = credentials {
            parts.push(credentials.authorization.as_ref().map_or(&[], |value| value.as_bytes()));
            for (name, value) in &credentials.impersonation {
                parts.extend([name.as_str().as_bytes(), value.as_bytes()]);
            }
        }
        Ok(self.answers.key(&parts))
    }

    async fn answer<F: Future<Output = Result<Decision, ReviewError>>>(
        &self,
        key: [u8; 32],
        attributes: &Attributes,
        look_up: impl FnOnce() -> F,
    ) -> Result<Decision, ReviewError> {
        let lifetime = |decision: &Decision| {
            if decision.allowed { self.config.authorized_ttl } else { self.config.unauthorized_ttl }
        };
        let decision = if attributes.size() < MAX_CACHED_ATTRIBUTES_BYTES {
            self.answers.answer(key, lifetime, look_up).await.map_err(|error| ReviewError(error.0.clone()))
        } else {
            Box::pin(look_up()).await
        }?;
        if decision.allowed && decision.denied {
            return Err(ReviewError("webhook subject access review returned both allow and deny response".into()));
        }
        Ok(decision)
    }

    /// Asks when it is the user's turn: no flood of one user's requests is a flood of reviews.
    async fn paced<T>(
        &self,
        user: &UserInfo,
        review: impl Future<Output = Result<T, ReviewError>>,
    ) -> Result<T, ReviewError> {
        let turn = tokio::time::timeout(self.config.timeout, self.pace.take(&user.username, 1)).await;
        let _turn = turn.map_err(|_| ReviewError("too many access reviews about this user are under way".into()))?;
        review.await
    }

    async fn review(&self, client: &kube::Client, spec: SubjectAccessReviewSpec) -> Result<Decision, ReviewError> {
        let question = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer = review::create(client, SUBJECT_ACCESS_REVIEWS, &question, self.config.timeout).await?;
        Ok(answer.status.unwrap_or_default().into())
    }

    async fn review_oneself(
        &self,
        transport: &SharedTransport,
        credentials: &ClientCredentials,
        question: SelfSubjectAccessReview,
    ) -> Result<Decision, ReviewError> {
        let answer = self.create_as(transport, credentials, &question).await?;
        // Whoever may not even ask may not do the thing either.
        Ok(answer.and_then(|review| review.status).map(Decision::from).unwrap_or_default())
    }

    async fn create_as<T: Serialize + DeserializeOwned>(
        &self,
        transport: &SharedTransport,
        credentials: &ClientCredentials,
        question: &T,
    ) -> Result<Option<T>, ReviewError> {
        let timeout = self.config.timeout;
        Ok(review::create_as(transport, credentials, SELF_SUBJECT_ACCESS_REVIEWS, question, timeout).await?.ok())
    }
}

impl From<SubjectAccessReviewStatus> for Decision {
    fn from(status: SubjectAccessReviewStatus) -> Self {
        Self {
            allowed: status.allowed,
            denied: status.denied.unwrap_or_default(),
            reason: status.reason.unwrap_or_default(),
        }
    }
}

/// What somebody asks about themselves.
pub(crate) fn own_question(attributes: &Attributes) -> SelfSubjectAccessReview {
    let (resource_attributes, non_resource_attributes) = attributes.to_api();
    let spec = SelfSubjectAccessReviewSpec { resource_attributes, non_resource_attributes };
    SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() }
}

fn subject_spec(user: &UserInfo, attributes: &Attributes) -> SubjectAccessReviewSpec {
    let (resource_attributes, non_resource_attributes) = attributes.to_api();
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    SubjectAccessReviewSpec {
        user: given(&user.username),
        uid: given(&user.uid),
        groups: (!user.groups.is_empty()).then(|| user.groups.clone()),
        extra: (!user.extra.is_empty()).then(|| user.extra.clone()),
        resource_attributes,
        non_resource_attributes,
    }
}

#[cfg(test)]
mod tests;
