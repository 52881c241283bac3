//! Authorization checks that plugins make about the caller of a request.

use crate::authz::{AccessAttributes, Authorizer, Decision, Epoch, ReviewError};
use crate::upstream::ClientCredentials;
use crate::user::UserInfo;
use async_trait::async_trait;
use std::fmt;
use std::sync::Arc;

/// Checks whether a request's caller may do something besides the request. The default allows nothing.
#[derive(Clone, Default)]
pub(crate) struct CallerAuthorizer(Option<Asker>);

#[derive(Clone)]
struct Asker {
    reviews: Arc<dyn Reviews>,
    user: Arc<UserInfo>,
    credentials: Option<ClientCredentials>,
}

/// The source of decisions about users.
#[async_trait]
trait Reviews: Send + Sync {
    /// The time for which a decision about the caller in a namespace may be remembered.
    fn epoch(&self, namespace: &str) -> Option<Epoch>;

    /// The decision about the caller.
    async fn check(
        &self,
        caller: &UserInfo,
        attributes: &AccessAttributes,
        credentials: Option<&ClientCredentials>,
    ) -> Result<Decision, ReviewError>;

    /// The decision about another user.
    async fn check_about(&self, user: &UserInfo, attributes: &AccessAttributes) -> Result<Decision, ReviewError>;
}

#[async_trait]
impl Reviews for Authorizer {
    fn epoch(&self, namespace: &str) -> Option<Epoch> {
        self.epoch(namespace)
    }

    async fn check(
        &self,
        caller: &UserInfo,
        attributes: &AccessAttributes,
        credentials: Option<&ClientCredentials>,
    ) -> Result<Decision, ReviewError> {
        self.check(caller, attributes, credentials).await
    }

    async fn check_about(&self, user: &UserInfo, attributes: &AccessAttributes) -> Result<Decision, ReviewError> {
        self.check_about(user, attributes).await
    }
}

impl CallerAuthorizer {
    /// An authorizer that asks the upstream API server, about `user` or with the caller's credentials.
    pub(crate) fn new(
        authorizer: Arc<Authorizer>,
        user: Arc<UserInfo>,
        credentials: Option<ClientCredentials>,
    ) -> Self {
        Self(Some(Asker { reviews: authorizer, user, credentials }))
    }

    /// The time for which a decision about the caller in a namespace may be remembered ([`Authorizer::epoch`]).
    pub(crate) fn epoch(&self, namespace: &str) -> Option<Epoch> {
        self.0.as_ref()?.reviews.epoch(namespace)
    }

    /// The API server's decision, which may come from the cache.
    ///
    /// # Errors
    /// If the API server returns no decision.
    pub(crate) async fn check(&self, attributes: &AccessAttributes) -> Result<Decision, ReviewError> {
        match &self.0 {
            Some(asker) => asker.reviews.check(&asker.user, attributes, asker.credentials.as_ref()).await,
            None => Ok(Decision::default()),
        }
    }

    /// The API server's decision about a service account. The proxy asks with its own credentials.
    ///
    /// # Errors
    /// If the API server returns no decision, or the proxy may not ask.
    pub(crate) async fn check_service_account(
        &self,
        namespace: &str,
        name: &str,
        attributes: &AccessAttributes,
    ) -> Result<Decision, ReviewError> {
        match &self.0 {
            Some(asker) => asker.reviews.check_about(&service_account(namespace, name), attributes).await,
            None => Ok(Decision::default()),
        }
    }
}

/// `serviceaccount.UserInfo`
fn service_account(namespace: &str, name: &str) -> UserInfo {
    let group = format!("system:serviceaccounts:{namespace}");
    let groups = vec!["system:serviceaccounts".to_owned(), group];
    UserInfo { username: format!("system:serviceaccount:{namespace}:{name}"), groups, ..UserInfo::default() }
}

impl fmt::Debug for CallerAuthorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallerAuthorizer")
    }
}

/// Decisions by a fixed rule.
#[cfg(test)]
mod fixed {
    use super::*;

    /// A rule about the user with this name, or about the caller.
    struct Rule<F>(F);

    #[async_trait]
    impl<F: Fn(Option<&str>, &AccessAttributes) -> Decision + Send + Sync> Reviews for Rule<F> {
        fn epoch(&self, _: &str) -> Option<Epoch> {
            None
        }

        async fn check(
            &self,
            _: &UserInfo,
            attributes: &AccessAttributes,
            _: Option<&ClientCredentials>,
        ) -> Result<Decision, ReviewError> {
            Ok((self.0)(None, attributes))
        }

        async fn check_about(&self, user: &UserInfo, attributes: &AccessAttributes) -> Result<Decision, ReviewError> {
            Ok((self.0)(Some(&user.username), attributes))
        }
    }

    struct Broken;

    #[async_trait]
    impl Reviews for Broken {
        fn epoch(&self, _: &str) -> Option<Epoch> {
            None
        }

        async fn check(
            &self,
            _: &UserInfo,
            _: &AccessAttributes,
            _: Option<&ClientCredentials>,
        ) -> Result<Decision, ReviewError> {
            Err(ReviewError::Refused("it is broken".to_owned()))
        }

        async fn check_about(&self, _: &UserInfo, _: &AccessAttributes) -> Result<Decision, ReviewError> {
            Err(ReviewError::Refused("it is broken".to_owned()))
        }
    }

    impl CallerAuthorizer {
        /// An authorizer that answers by a fixed rule.
        pub(crate) fn fixed(rule: fn(&AccessAttributes) -> Decision) -> Self {
            Self::fixed_for(move |_, asked| rule(asked))
        }

        /// An authorizer that has no answers.
        pub(crate) fn broken() -> Self {
            Self(Some(Asker { reviews: Arc::new(Broken), user: Arc::default(), credentials: None }))
        }

        /// An authorizer that answers by a fixed rule. The rule receives the name of the user that a question is about, unless it is
        /// the caller.
        pub(crate) fn fixed_for(
            rule: impl Fn(Option<&str>, &AccessAttributes) -> Decision + Send + Sync + 'static,
        ) -> Self {
            Self(Some(Asker { reviews: Arc::new(Rule(rule)), user: Arc::default(), credentials: None }))
        }
    }
}
