//! Permissions to use a policy: those of the pod's service account and those of the caller.

use crate::admission::Attributes;
use crate::authz;
use futures_util::future::{BoxFuture, select_ok};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The number of remembered [`Ways`].
const REMEMBERED_WAYS: u64 = 10_000;

/// The ways to a permission, in the order of kube-apiserver: the subject, and the API group that the role names. Policies were
/// in `extensions` before they were in `policy`.
const WAYS: [(Subject, &str); 4] = [
    (Subject::ServiceAccount, "policy"),
    (Subject::ServiceAccount, "extensions"),
    (Subject::Caller, "policy"),
    (Subject::Caller, "extensions"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    ServiceAccount,
    Caller,
}

/// The way that last led to a permission, as an index of [`WAYS`]. It is tried first, because permissions are cached and denials
/// usually are not. A wrong way only costs time.
pub(super) struct Ways(moka::sync::Cache<u64, usize>);

impl Default for Ways {
    fn default() -> Self {
        Self(moka::sync::Cache::new(REMEMBERED_WAYS))
    }
}

/// The subjects whose permissions count for a request.
pub(super) struct Subjects<'a> {
    attributes: &'a Attributes,
    /// The name of the pod's service account; empty if the pod has none.
    service_account: &'a str,
    ways: &'a Ways,
}

impl<'a> Subjects<'a> {
    pub(super) fn new(attributes: &'a Attributes, service_account: &'a str, ways: &'a Ways) -> Self {
        Self { attributes, service_account, ways }
    }

    /// Whether the service account or the caller may use the policy (`isAuthorizedForPolicy`). An error counts as a denial.
    ///
    /// If the first way has no cached permission, all ways are tried at the same time.
    pub(super) async fn may_use(&self, policy: &str) -> bool {
        let key = self.key(policy);
        let last = self.ways.0.get(&key);
        let others = (0..WAYS.len()).filter(|way| Some(*way) != last);
        let attempts: Vec<BoxFuture<'_, Result<usize, ()>>> = last
            .into_iter()
            .chain(others)
            .filter_map(|way| Some((way, *WAYS.get(way)?)))
            .filter(|(_, (subject, _))| *subject == Subject::Caller || !self.service_account.is_empty())
            .map(|(way, (subject, group))| {
                let attempt = async move { self.is_allowed(subject, group, policy).await.then_some(way).ok_or(()) };
                Box::pin(attempt) as BoxFuture<'_, _>
            })
            .collect();
        // `select_ok` polls in the order of the list, so that a cached permission ends it before later ways are tried.
        let Ok((way, _)) = select_ok(attempts).await else { return false };
        if Some(way) != last {
            self.ways.0.insert(key, way);
        }
        true
    }

    async fn is_allowed(&self, subject: Subject, group: &str, policy: &str) -> bool {
        let Attributes { namespace, authorizer, .. } = self.attributes;
        let question = authz::Attributes {
            is_resource_request: true,
            verb: "use".to_owned(),
            namespace: namespace.clone(),
            api_group: group.to_owned(),
            api_version: "*".to_owned(),
            resource: "podsecuritypolicies".to_owned(),
            name: policy.to_owned(),
            ..authz::Attributes::default()
        };
        let answer = match subject {
            Subject::ServiceAccount => {
                authorizer.check_service_account(namespace, self.service_account, &question).await
            }
            Subject::Caller => authorizer.check(&question).await,
        };
        match answer {
            Ok(decision) => decision.allowed,
            Err(error) => {
                tracing::warn!(policy, ?subject, %error, "cannot authorize the use of a PodSecurityPolicy");
                false
            }
        }
    }

    fn key(&self, policy: &str) -> u64 {
        let Attributes { namespace, user, .. } = self.attributes;
        let mut hasher = DefaultHasher::new();
        (namespace, &user.username, self.service_account, policy).hash(&mut hasher);
        hasher.finish()
    }
}
