//! The modes of impersonation, most constrained first (`impersonation.allImpersonationModes`).
//!
//! The modes cache nothing: each relies on access reviews, which are cached.

use super::{Metrics, names};
use crate::authz::{AccessAttributes, Authorizer};
use crate::go_text::go_quote;
use crate::names::domain_prefixed_path_errors;
use crate::status::Status;
use crate::status::invalid::aggregate;
use crate::upstream::ClientCredentials;
use crate::user::{ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS, UserInfo};
use std::collections::BTreeMap;
use std::time::Instant;

const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";
const NODES_GROUP: &str = "system:nodes";
const PRIVILEGED_GROUP: &str = "system:masters";
const NODE_NAME_KEY: &str = "authentication.kubernetes.io/node-name";
const ASSOCIATED_NODE_KEYS: &str = "authentication.kubernetes.io/associated-node-keys";
/// The number of groups or extras from which one check about all of them comes first (`manyAuthorizationChecksInLoop`).
const MANY: usize = 4;

/// A mode of impersonation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// A service account of a pod impersonates the pod's node.
    AssociatedNode,
    /// Any node is impersonated.
    ArbitraryNode,
    /// A service account is impersonated.
    ServiceAccount,
    /// Any other user is impersonated.
    UserInfo,
    /// The legacy verb `impersonate`, without constraints.
    Legacy,
}

/// The modes in the order of their checks.
pub(super) const MODES: [Mode; 5] =
    [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

/// The checks of one request.
pub(super) struct Checks<'a> {
    authorizer: &'a Authorizer,
    requestor: &'a UserInfo,
    credentials: Option<&'a ClientCredentials>,
    left: usize,
    metrics: Option<&'a Metrics>,
}

impl<'a> Checks<'a> {
    pub(super) fn new(
        authorizer: &'a Authorizer,
        requestor: &'a UserInfo,
        credentials: Option<&'a ClientCredentials>,
        max_checks: usize,
        metrics: Option<&'a Metrics>,
    ) -> Self {
        Self { authorizer, requestor, credentials, left: max_checks, metrics }
    }

    pub(super) fn requestor(&self) -> &'a UserInfo {
        self.requestor
    }

    /// Requires an approval (`impersonation.checkAuthorization`); a missing answer is a rejection too.
    async fn require(&mut self, mode: Mode, user: &UserInfo, attributes: &AccessAttributes) -> Result<(), Status> {
        let Some(left) = self.left.checked_sub(1) else {
            return Err(attributes.forbidden(user, "too many users, groups and extras to impersonate in one request"));
        };
        self.left = left;
        let started = Instant::now();
        let decision = self.authorizer.check(user, attributes, self.credentials).await;
        let is_allowed = decision.as_ref().is_ok_and(|decision| decision.allowed);
        if let Some(metrics) = self.metrics {
            metrics.checked(mode.label(), is_allowed, started.elapsed());
        }
        match decision {
            Ok(decision) if decision.allowed => Ok(()),
            Ok(decision) => Err(attributes.forbidden(user, &decision.reason)),
            Err(error) => Err(attributes.forbidden(user, &error.to_string())),
        }
    }
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    /// Returns the mode's label in metrics.
    pub(super) fn label(self) -> &'static str {
        if self == Self::Legacy { "legacy" } else { self.name() }
    }

    /// Returns the verb as an audit event names it; empty for the legacy mode.
    pub(super) fn constraint(self) -> String {
        if self == Self::Legacy { String::new() } else { self.verb() }
    }

    fn verb(self) -> String {
        if self == Self::Legacy { "impersonate".into() } else { format!("impersonate:{}", self.name()) }
    }

    /// Whether the mode applies to such a user at all.
    fn is_about(self, wanted: &UserInfo, requestor: &UserInfo) -> bool {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = names::node(&wanted.username);
        let service_account = names::service_account(&wanted.username).is_some();
        match self {
            Self::AssociatedNode => only_name && node.is_some_and(|node| is_associated(requestor, node)),
            Self::ArbitraryNode => only_name && node.is_some(),
            Self::ServiceAccount => only_name && service_account,
            Self::UserInfo => node.is_none() && !service_account,
            Self::Legacy => true,
        }
    }

    /// Returns the effective user, if the mode applies to the user and the requestor is allowed.
    pub(super) async fn check(
        self,
        checks: &mut Checks<'_>,
        wanted: &UserInfo,
        attributes: &AccessAttributes,
    ) -> Result<Option<UserInfo>, Status> {
        if !self.is_about(wanted, checks.requestor) {
            return Ok(None);
        }
        let requestor = self.requestor_as_asked(checks.requestor);
        if self != Self::Legacy {
            let verb = format!("impersonate-on:{}:{}", self.name(), attributes.verb);
            checks.require(self, &requestor, &AccessAttributes { verb, ..attributes.clone() }).await?;
        }
        let mut user = wanted.clone();
        self.check_name(checks, &requestor, wanted, &mut user).await?;
        if !wanted.uid.is_empty() {
            checks.require(self, &requestor, &self.attributes(AUTHENTICATION_GROUP, "uids", &wanted.uid)).await?;
        }
        self.check_groups(checks, &requestor, &wanted.groups).await?;
        self.check_extra(checks, &requestor, &wanted.extra).await?;
        add_implied_group(&mut user);
        Ok(Some(user))
    }

    /// Returns the requestor of the reviews: a review about an associated node is the same for every node
    /// (`associatedNodeImpersonationAttributes`).
    fn requestor_as_asked(self, requestor: &UserInfo) -> UserInfo {
        let mut requestor = requestor.clone();
        if self == Self::AssociatedNode {
            let keys = requestor.extra.keys().cloned().collect();
            requestor.extra = BTreeMap::from([(ASSOCIATED_NODE_KEYS.to_owned(), keys)]);
        }
        requestor
    }

    fn attributes(self, group: &str, resource: &str, name: &str) -> AccessAttributes {
        AccessAttributes {
            is_resource_request: true,
            verb: self.verb(),
            api_group: group.to_owned(),
            api_version: "v1".into(),
            resource: resource.to_owned(),
            name: if self == Self::AssociatedNode { "*".into() } else { name.to_owned() },
            ..AccessAttributes::default()
        }
    }

    /// Returns the API group of users and groups: core in the legacy mode.
    fn group(self) -> &'static str {
        if self == Self::Legacy { "" } else { AUTHENTICATION_GROUP }
    }

    /// Checks the user name, and sets the groups that follow from it (`impersonationModeState.authorizeUsername`).
    async fn check_name(
        self,
        checks: &mut Checks<'_>,
        requestor: &UserInfo,
        wanted: &UserInfo,
        user: &mut UserInfo,
    ) -> Result<(), Status> {
        let mut attributes = self.attributes(self.group(), "users", &wanted.username);
        if self != Self::Legacy
            && let Some(node) = names::node(&wanted.username)
        {
            attributes = self.attributes(self.group(), "nodes", node);
            user.groups = vec![NODES_GROUP.into()];
        }
        if let Some((namespace, name)) = names::service_account(&wanted.username) {
            attributes = self.attributes(self.group(), "serviceaccounts", name);
            attributes.namespace = namespace.to_owned();
            if wanted.groups.is_empty() {
                user.groups = names::service_account_groups(namespace);
            }
        }
        checks.require(self, requestor, &attributes).await
    }

    /// Checks the groups (`impersonationModeState.authorizeGroups`).
    async fn check_groups(
        self,
        checks: &mut Checks<'_>,
        requestor: &UserInfo,
        groups: &[String],
    ) -> Result<(), Status> {
        let of = |name: &str| self.attributes(self.group(), "groups", name);
        if self != Self::Legacy {
            if groups.iter().any(String::is_empty) {
                return Err(of("").forbidden(requestor, "impersonating the empty string group is not allowed"));
            }
            if groups.iter().any(|group| group == PRIVILEGED_GROUP) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(of(PRIVILEGED_GROUP).forbidden(requestor, why));
            }
            if groups.len() >= MANY && checks.require(self, requestor, &of("*")).await.is_ok() {
                return Ok(());
            }
        }
        for group in groups {
            checks.require(self, requestor, &of(group)).await?;
        }
        Ok(())
    }

    /// Checks the extra fields (`impersonationModeState.authorizeExtra`).
    async fn check_extra(
        self,
        checks: &mut Checks<'_>,
        requestor: &UserInfo,
        extra: &BTreeMap<String, Vec<String>>,
    ) -> Result<(), Status> {
        let of = |key: &str, value: &str| AccessAttributes {
            subresource: key.to_owned(),
            ..self.attributes(AUTHENTICATION_GROUP, "userextras", value)
        };
        if self != Self::Legacy {
            extra_is_valid(extra).map_err(|why| of("", "").forbidden(requestor, &why.to_string()))?;
            let many = extra.len() >= MANY || extra.values().map(Vec::len).sum::<usize>() >= MANY;
            if many && checks.require(self, requestor, &of("*", "*")).await.is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                checks.require(self, requestor, &of(key, value)).await?;
            }
        }
        Ok(())
    }
}

/// Whether the requestor is a service account on this node (`impersonation.requesterAssociatedWithRequestedNodeUsername`).
fn is_associated(requestor: &UserInfo, node: &str) -> bool {
    let named =
        requestor.extra.get(NODE_NAME_KEY).is_some_and(|names| matches!(names.as_slice(), [name] if name == node));
    named && names::service_account(&requestor.username).is_some()
}

fn add_implied_group(user: &mut UserInfo) {
    let has = |user: &UserInfo, group: &str| user.groups.iter().any(|own| own == group);
    let implied = match user.username == ANONYMOUS {
        true => ALL_UNAUTHENTICATED,
        false if has(user, ALL_UNAUTHENTICATED) => return,
        false => ALL_AUTHENTICATED,
    };
    if !has(user, implied) {
        user.groups.push(implied.into());
    }
}

/// The reason why extra fields cannot be impersonated, with kube-apiserver's text.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct InvalidExtra(String);

/// Checks the extra fields (`impersonation.validateExtra`, with the texts of `validation.IsDomainPrefixedPath`).
fn extra_is_valid(extra: &BTreeMap<String, Vec<String>>) -> Result<(), InvalidExtra> {
    for (key, values) in extra {
        if key.is_empty() {
            return Err(InvalidExtra("impersonating the empty string key in extra is not allowed".into()));
        }
        let invalid = domain_prefixed_path_errors(key).into_iter();
        let invalid = invalid.map(|(part, why)| format!("extra.key: Invalid value: {}: {why}", go_quote(part)));
        if let Some(why) = aggregate(invalid) {
            return Err(InvalidExtra(format!("impersonating an invalid key in extra is not allowed: {why}")));
        }
        if key.to_lowercase() != *key {
            return Err(InvalidExtra(format!(
                "impersonating a non-lowercase key in extra is not allowed: {}",
                go_quote(key)
            )));
        }
        if values.iter().any(String::is_empty) {
            return Err(InvalidExtra("impersonating the empty string value in extra is not allowed".into()));
        }
    }
    Ok(())
}
