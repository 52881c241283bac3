//! Authorization checks that plugins make about the caller of a request.

use crate::authz::{AccessAttributes, Authorizer, Decision, Epoch, ReviewError};
use crate::upstream::ClientCredentials;
use crate::user::UserInfo;
use std::fmt;
use std::sync::Arc;

/// Checks whether a request's caller may do something besides the request.
#[derive(Clone)]
pub struct CallerAuthorizer(Answerer);

#[derive(Clone)]
enum Answerer {
    Upstream {
        authorizer: Arc<Authorizer>,
        user: Arc<UserInfo>,
        credentials: Option<ClientCredentials>,
    },
    /// Allows nothing.
    Nothing,
    #[cfg(test)]
    Fixed(Arc<RuleFor>),
}

/// A rule about the user with this name, or about the caller.
#[cfg(test)]
type RuleFor = dyn Fn(Option<&str>, &AccessAttributes) -> Decision + Send + Sync;

impl CallerAuthorizer {
    /// An authorizer that asks the upstream API server, about `user` or with the caller's credentials.
    pub fn new(authorizer: Arc<Authorizer>, user: Arc<UserInfo>, credentials: Option<ClientCredentials>) -> Self {
        Self(Answerer::Upstream { authorizer, user, credentials })
    }

    /// An authorizer that answers by a fixed rule.
    #[cfg(test)]
    pub(crate) fn fixed(rule: fn(&AccessAttributes) -> Decision) -> Self {
        Self::fixed_for(move |_, asked| rule(asked))
    }

    /// An authorizer that answers by a fixed rule. The rule receives the name of the user that a question is about, unless it is
    /// the caller.
    #[cfg(test)]
    pub(crate) fn fixed_for(
        rule: impl Fn(Option<&str>, &AccessAttributes) -> Decision + Send + Sync + 'static,
    ) -> Self {
        Self(Answerer::Fixed(Arc::new(rule)))
    }

    /// The time for which a decision about the caller may be remembered ([`Authorizer::epoch`]).
    pub fn epoch(&self) -> Option<Epoch> {
        match &self.0 {
            Answerer::Upstream { authorizer, .. } => authorizer.epoch(),
            _ => None,
        }
    }

    /// The API server's decision, which may come from the cache.
    ///
    /// # Errors
    /// If the API server returns no decision.
    pub async fn check(&self, attributes: &AccessAttributes) -> Result<Decision, ReviewError> {
        match &self.0 {
            Answerer::Upstream { authorizer, user, credentials } => {
                authorizer.check(user, attributes, credentials.as_ref()).await
            }
            Answerer::Nothing => Ok(Decision::default()),
            #[cfg(test)]
            Answerer::Fixed(rule) => Ok(rule(None, attributes)),
        }
    }

    /// The API server's decision about a service account. The proxy asks with its own credentials.
    ///
    /// # Errors
    /// If the API server returns no decision, or the proxy may not ask.
    pub async fn check_service_account(
        &self,
        namespace: &str,
        name: &str,
        attributes: &AccessAttributes,
    ) -> Result<Decision, ReviewError> {
        match &self.0 {
            Answerer::Upstream { authorizer, .. } => {
                authorizer.check_about(&service_account(namespace, name), attributes).await
            }
            Answerer::Nothing => Ok(Decision::default()),
            #[cfg(test)]
            Answerer::Fixed(rule) => Ok(rule(Some(&service_account(namespace, name).username), attributes)),
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
    /// An authorizer that allows nothing.
    fn default() -> Self {
        Self(Answerer::Nothing)
    }
}

impl fmt::Debug for CallerAuthorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallerAuthorizer")
    }
}
