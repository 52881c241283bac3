//! Authorization: SubjectAccessReviews at the upstream, cached for a while; and the text of a rejection.

mod attributes;
mod selectors;

pub(crate) use attributes::AccessAttributes;

use crate::answers::{AnswerCache, AnswerScope, Key};
use crate::config::Limits;
use crate::request::RequestInfo;
use crate::sharer::{Sharer, Sharing};
use crate::shares::Shares;
use crate::status::Status;
pub(crate) use crate::upstream::review::ReviewError;
use crate::upstream::{ClientCredentials, SharedTransport, no_answer, review};
use crate::user::UserInfo;
use k8s_openapi::api::authorization::v1::{
    SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview, SubjectAccessReviewSpec,
    SubjectAccessReviewStatus,
};
use serde::{Serialize, de::DeserializeOwned};
use std::sync::Arc;
use std::time::Duration;

const SUBJECT_ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const SELF_SUBJECT_ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// After a change of roles or bindings, answers are not cached for so long: the API server's own authorizer sees the change by a watch.
const SETTLING: Duration = Duration::from_secs(1);
/// Bytes of client-chosen attributes from which an answer is not cached (`maxControlledAttrCacheSize`).
const MAX_CACHED_ATTRIBUTES_BYTES: usize = 10_000;

/// The authorizer that decides on a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The proxy asks the upstream before it does anything for a request.
    #[default]
    Webhook,
    /// Only the upstream decides, when the request arrives there. The proxy still asks about actions that only it sees (impersonation).
    AlwaysAllow,
    /// No authorizer: the upstream is the API server in this process, which allows every user everything.
    Unrestricted,
}

/// The way to ask for reviews.
#[derive(Clone)]
pub enum Reviewer {
    /// The proxy asks the upstream about the user.
    Subject(kube::Client),
    /// The client asks the upstream about itself (passthrough), and the proxy asks about other users.
    Oneself(SharedTransport, kube::Client),
}

/// The configuration of authorization.
#[derive(Clone)]
pub struct Config {
    /// The authorizer that decides.
    pub(crate) mode: Mode,
    /// The way to ask for reviews.
    pub(crate) reviewer: Reviewer,
    /// The lifetime of an approval in the cache: a user whose rights were revoked may keep them for as long.
    pub(crate) authorized_ttl: Duration,
    /// The lifetime of a denial in the cache: a user who was granted a right may have to wait for as long. Zero disables the cache.
    pub(crate) unauthorized_ttl: Duration,
    /// The number of cached answers.
    pub(crate) cache_capacity: u64,
    /// The longest wait for one answer, with all attempts.
    pub timeout: Duration,
    /// Reviews at the same time; further ones wait, as long as for an answer.
    pub reviews: usize,
    /// Reviews at the same time about one user, or the service accounts of one namespace.
    pub(crate) user_reviews: usize,
}

impl Config {
    /// Creates a configuration with these bounds.
    pub fn new(mode: Mode, reviewer: Reviewer, limits: &Limits) -> Self {
        Self {
            mode,
            reviewer,
            authorized_ttl: limits.authorized_ttl,
            unauthorized_ttl: limits.unauthorized_ttl,
            cache_capacity: limits.authorization_cache_entries,
            timeout: limits.call_timeout,
            reviews: limits.access_reviews,
            user_reviews: limits.user_access_reviews,
        }
    }
}

/// The Status of a request about which no answer came: the API server's absence is told apart from its refusal.
pub(crate) fn unanswered(error: ReviewError) -> Status {
    if error.is_passing() {
        tracing::debug!(%error, "no answer to an access review");
        no_answer()
    } else {
        Status::internal_error(error)
    }
}

/// An authorizer's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Whether the action is allowed.
    pub(crate) allowed: bool,
    /// Whether the answer is a denial that no other authorizer may overrule, rather than no opinion.
    pub(crate) denied: bool,
    /// The reason, for people.
    pub(crate) reason: String,
}

/// The time for which an answer about a user may be remembered outside of the cache: `lifetime`, unless the generation changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    /// The generation of the cached answers.
    pub(crate) generation: u64,
    /// The lifetime of an answer.
    pub(crate) lifetime: Duration,
}

/// The reviews of an API server, with the answers that all its authorizers know.
pub struct AccessReviews {
    config: Config,
    answers: AnswerCache<Decision>,
    pace: Arc<Shares>,
    /// The reviews of several tenants, of which one has at most half.
    of_tenants: Arc<Shares>,
}

impl AccessReviews {
    /// Creates reviews with this configuration.
    pub fn new(config: Config) -> Arc<Self> {
        let answers = AnswerCache::new(config.cache_capacity);
        let pace = Shares::new(config.reviews, config.user_reviews);
        let of_tenants = Shares::new(config.reviews, config.reviews / 2);
        Arc::new(Self { config, answers, pace, of_tenants })
    }
}

/// The authorizer of the requests of one tenant: asks whether users may perform actions.
pub struct Authorizer {
    reviews: Arc<AccessReviews>,
    sharing: Sharing,
}

impl Authorizer {
    /// Creates an authorizer. All users of one of several tenants together have the tenant's share of the reviews.
    pub fn new(reviews: Arc<AccessReviews>, sharing: Sharing) -> Self {
        Self { reviews, sharing }
    }

    /// Authorizes a request (`WithAuthorization`).
    ///
    /// # Errors
    /// 403 with kube-apiserver's text if the user may not make the request; 503 if the API server does not answer; 500 if it refuses the
    /// review.
    pub(crate) async fn authorize(
        &self,
        user: &UserInfo,
        info: &RequestInfo,
        credentials: Option<&ClientCredentials>,
    ) -> Result<Decision, Status> {
        if self.reviews.config.mode != Mode::Webhook {
            return Ok(Decision { allowed: true, ..Decision::default() });
        }
        let attributes = AccessAttributes::from(info);
        match self.check(user, &attributes, credentials).await {
            Ok(decision) if decision.allowed => Ok(decision),
            Ok(decision) => Err(attributes.forbidden(user, &decision.reason)),
            Err(error) => Err(unanswered(error)),
        }
    }

    /// Drops the cached answers of the API server in a namespace, whose roles or bindings have changed; all its answers without a namespace.
    pub(crate) fn forget_answers(&self, namespace: &str) {
        self.reviews.answers.forget(self.reviews.answers.scope(namespace), SETTLING);
    }

    /// The epoch of an answer in a namespace that is given now. `None` if the answer may not be remembered, or depends on the caller's
    /// credentials.
    pub(crate) fn epoch(&self, namespace: &str) -> Option<Epoch> {
        let Reviewer::Subject(_) = self.reviews.config.reviewer else { return None };
        let generation = self.reviews.answers.generation(self.reviews.answers.scope(namespace))?;
        Some(Epoch { generation, lifetime: self.reviews.config.authorized_ttl })
    }

    /// Whether only the upstream decides on a request, when the request arrives there.
    pub(crate) fn leaves_it_to_the_upstream(&self) -> bool {
        self.reviews.config.mode == Mode::AlwaysAllow
    }

    /// Asks the upstream, whatever the mode (`WebhookAuthorizer.Authorize`). With passthrough the review is
    /// about the owner of the credentials, and `user` does not affect the answer.
    ///
    /// # Errors
    /// If no answer comes.
    pub(crate) async fn check(
        &self,
        user: &UserInfo,
        attributes: &AccessAttributes,
        credentials: Option<&ClientCredentials>,
    ) -> Result<Decision, ReviewError> {
        match &self.reviews.config.reviewer {
            Reviewer::Subject(_) => self.check_about(user, attributes).await,
            Reviewer::Oneself(transport, _) => {
                let Some(credentials) = credentials else {
                    return Err(ReviewError::NoCredentials);
                };
                let question = own_question(attributes);
                let key = self.key(attributes, &question.spec, Some(credentials))?;
                let ask = || self.paced(user, self.review_oneself(transport, credentials, question));
                self.answer(key, attributes, ask).await
            }
        }
    }

    /// Asks the upstream about a user who need not be the caller, with the proxy's own credentials.
    ///
    /// # Errors
    /// If no answer comes, also because the proxy may not ask.
    pub(crate) async fn check_about(
        &self,
        user: &UserInfo,
        attributes: &AccessAttributes,
    ) -> Result<Decision, ReviewError> {
        let (Reviewer::Subject(client) | Reviewer::Oneself(_, client)) = &self.reviews.config.reviewer;
        let spec = subject_spec(user, attributes);
        let key = self.key(attributes, &spec, None)?;
        self.answer(key, attributes, || self.paced(user, self.review(client, spec))).await
    }

    /// Returns the scope and the key of a question. Roles and bindings of a namespace only give rights in the namespace.
    fn key(
        &self,
        attributes: &AccessAttributes,
        spec: &impl Serialize,
        credentials: Option<&ClientCredentials>,
    ) -> Result<(AnswerScope, Key), ReviewError> {
        let spec = serde_json::to_vec(spec).map_err(ReviewError::failed)?;
        let mut parts = vec![spec.as_slice()];
        if let Some(credentials) = credentials {
            parts.push(credentials.authorization.as_ref().map_or(&[], |value| value.as_bytes()));
            for (name, value) in &credentials.impersonation {
                parts.extend([name.as_str().as_bytes(), value.as_bytes()]);
            }
        }
        let scope = self.reviews.answers.scope(&attributes.namespace);
        Ok((scope, self.reviews.answers.key_in(scope, &parts)))
    }

    async fn answer<F: Future<Output = Result<Decision, ReviewError>>>(
        &self,
        (scope, key): (AnswerScope, Key),
        attributes: &AccessAttributes,
        look_up: impl FnOnce() -> F,
    ) -> Result<Decision, ReviewError> {
        let lifetime = |decision: &Decision| {
            if decision.allowed { self.reviews.config.authorized_ttl } else { self.reviews.config.unauthorized_ttl }
        };
        let decision = if attributes.size() < MAX_CACHED_ATTRIBUTES_BYTES {
            self.reviews.answers.answer_in(scope, key, lifetime, look_up).await.map_err(|error| (*error).clone())
        } else {
            Box::pin(look_up()).await
        }?;
        if decision.allowed && decision.denied {
            return Err(ReviewError::Contradiction);
        }
        Ok(decision)
    }

    /// Runs a review when it is the user's turn, so that a flood of one user's requests is no flood of reviews.
    async fn paced<T>(
        &self,
        user: &UserInfo,
        review: impl Future<Output = Result<T, ReviewError>>,
    ) -> Result<T, ReviewError> {
        let turn = async {
            let of_tenant = match self.sharing.as_tenant() {
                Some(tenant) => Some(self.reviews.of_tenants.take(&tenant, 1).await),
                None => None,
            };
            (of_tenant, self.reviews.pace.take(&Sharer::named(&user.username), 1).await)
        };
        let turn = tokio::time::timeout(self.reviews.config.timeout, turn).await;
        let _turn = turn.map_err(|_| ReviewError::TooMany)?;
        review.await
    }

    async fn review(&self, client: &kube::Client, spec: SubjectAccessReviewSpec) -> Result<Decision, ReviewError> {
        let question = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer = review::create(client, SUBJECT_ACCESS_REVIEWS, &question, self.reviews.config.timeout).await?;
        Ok(answer.status.unwrap_or_default().into())
    }

    async fn review_oneself(
        &self,
        transport: &SharedTransport,
        credentials: &ClientCredentials,
        question: SelfSubjectAccessReview,
    ) -> Result<Decision, ReviewError> {
        let answer = self.create_as(transport, credentials, &question).await?;
        // A user who may not create the review may not perform the action either.
        Ok(answer.and_then(|review| review.status).map(Decision::from).unwrap_or_default())
    }

    async fn create_as<T: Serialize + DeserializeOwned>(
        &self,
        transport: &SharedTransport,
        credentials: &ClientCredentials,
        question: &T,
    ) -> Result<Option<T>, ReviewError> {
        let timeout = self.reviews.config.timeout;
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

/// Creates a review in which the caller asks about itself.
pub(crate) fn own_question(attributes: &AccessAttributes) -> SelfSubjectAccessReview {
    let (resource_attributes, non_resource_attributes) = attributes.to_api();
    let spec = SelfSubjectAccessReviewSpec { resource_attributes, non_resource_attributes };
    SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() }
}

fn subject_spec(user: &UserInfo, attributes: &AccessAttributes) -> SubjectAccessReviewSpec {
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
