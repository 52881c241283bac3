//! What plugins may ask about the caller of a request: whether it may do something else, too.

use crate::authz::{Attributes, Authorizer, Decision, ReviewError};
use crate::upstream::ClientCredentials;
use crate::user::UserInfo;
use std::fmt;
use std::sync::Arc;

/// Asks whether a request's caller may do something.
#[derive(Clone)]
pub struct CallerAuthorizer(Answerer);

#[derive(Clone)]
enum Answerer {
    Upstream { authorizer: Arc<Authorizer>, user: Arc<UserInfo>, credentials: Option<ClientCredentials> },
    Fixed(fn(&Attributes) -> Decision),
}

impl CallerAuthorizer {
    /// One that asks the API server behind, about this user or with these credentials.
    pub fn new(authorizer: Arc<Authorizer>, user: Arc<UserInfo>, credentials: Option<ClientCredentials>) -> Self {
        Self(Answerer::Upstream { authorizer, user, credentials })
    }

    /// One that answers by this rule: for tests and for the chain without a server.
    pub fn fixed(rule: fn(&Attributes) -> Decision) -> Self {
        Self(Answerer::Fixed(rule))
    }

    /// The API server's answer, as long as it is believed from the cache.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn check(&self, attributes: &Attributes) -> Result<Decision, ReviewError> {
        match &self.0 {
            Answerer::Upstream { authorizer, user, credentials } => {
                authorizer.check(user, attributes, credentials.as_ref()).await
            }
            Answerer::Fixed(rule) => Ok(rule(attributes)),
        }
    }

    /// The same about a service account, asked by the proxy.
    ///
    /// # Errors
    /// When there is no answer, also because the proxy may not ask.
    pub async fn check_service_account(
        &self,
        namespace: &str,
        name: &str,
        attributes: &Attributes,
    ) -> Result<Decision, ReviewError> {
        match &self.0 {
            Answerer::Upstream { authorizer, .. } => {
                authorizer.check_about(&service_account(namespace, name), attributes).await
            }
            Answerer::Fixed(rule) => Ok(rule(attributes)),
        }
    }
}

/// `serviceaccount.UserInfo`
fn service_account(namespace: &str, name: &str) -> UserInfo {
    let group = format!("system:serviceaccounts:{namespace}");
    let groups = vec!["system:serviceaccounts".to_owned(), group];
    UserInfo { username: format!("system:serviceaccount:{namespace}:{name}"), groups, ..UserInfo::default() }
}

impl Default for CallerAuthorizer {
    /// One that says no to everything.
    fn default() -> Self {
        Self::fixed(|_| Decision::default())
    }
}

impl fmt::Debug for CallerAuthorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallerAuthorizer")
    }
}
