//! Permissions to use a policy: those of the pod's service account and those of the caller.

use crate::admission::Attributes;
use crate::authz;
use futures_util::future::{BoxFuture, select_ok};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::Instant;

/// The number of remembered results ([`Ways`]).
const REMEMBERED: u64 = 10_000;

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

/// The last result for a policy.
#[derive(Clone, Copy, Debug)]
enum Known {
    /// The way that led to the permission, as an index of [`WAYS`]. It is tried first; a wrong way only costs time.
    Way(usize),
    /// No way led to a permission.
    Denied { generation: u64, until: Instant },
}

/// The last results, by user, service account and policy. Permissions themselves are in the cache of the authorizer. Denials usually are
/// not, and a user is denied most of many policies: without this memory, each of them would cost reviews for each pod.
pub(super) struct Ways {
    known: moka::sync::Cache<u64, Known>,
    hasher: RandomState,
}

impl Default for Ways {
    fn default() -> Self {
        Self { known: moka::sync::Cache::new(REMEMBERED), hasher: RandomState::new() }
    }
}

/// The subjects whose permissions count for a request.
pub(super) struct Subjects<'a> {
    attributes: &'a Attributes,
    /// The name of the pod's service account; empty if the pod has none.
    service_account: &'a str,
    ways: &'a Ways,
    /// The hash of the subjects.
    hash: u64,
}

impl<'a> Subjects<'a> {
    pub(super) fn new(attributes: &'a Attributes, service_account: &'a str, ways: &'a Ways) -> Self {
        let Attributes { namespace, context, .. } = attributes;
        let hash = ways.hasher.hash_one((namespace, &context.user, service_account));
        Self { attributes, service_account, ways, hash }
    }

    /// Whether the service account or the caller may use the policy (`isAuthorizedForPolicy`). An error counts as a denial.
    ///
    /// If the first way has no cached permission, all ways are tried at the same time.
    pub(super) async fn may_use(&self, policy: &str) -> bool {
        let key = self.ways.hasher.hash_one((self.hash, policy));
        let epoch = self.attributes.context.authorizer.epoch(&self.attributes.namespace);
        let last = match self.ways.known.get(&key) {
            Some(Known::Way(way)) => Some(way),
            Some(Known::Denied { generation, until })
                if epoch.is_some_and(|epoch| epoch.generation == generation) && Instant::now() < until =>
            {
                return false;
            }
            _ => None,
        };
        let has_failed = AtomicBool::new(false);
        let others = (0..WAYS.len()).filter(|way| Some(*way) != last);
        let attempts: Vec<BoxFuture<'_, Result<usize, ()>>> = last
            .into_iter()
            .chain(others)
            .filter_map(|way| Some((way, *WAYS.get(way)?)))
            .filter(|(_, (subject, _))| *subject == Subject::Caller || !self.service_account.is_empty())
            .map(|(way, (subject, group))| {
                let has_failed = &has_failed;
                let attempt = async move {
                    let is_allowed = self.is_allowed(subject, group, policy).await.unwrap_or_else(|error| {
                        tracing::warn!(policy, ?subject, %error, "cannot authorize the use of a PodSecurityPolicy");
                        has_failed.store(true, Ordering::Relaxed);
                        false
                    });
                    is_allowed.then_some(way).ok_or(())
                };
                Box::pin(attempt) as BoxFuture<'_, _>
            })
            .collect();
        // `select_ok` polls in the order of the list, so that a cached permission ends it before later ways are tried.
        let found = select_ok(attempts).await.map(|(way, _)| way);
        match (found, epoch) {
            (Ok(way), _) if Some(way) != last => self.ways.known.insert(key, Known::Way(way)),
            (Err(()), Some(epoch)) if !has_failed.load(Ordering::Relaxed) => {
                let denied = Known::Denied { generation: epoch.generation, until: Instant::now() + epoch.lifetime };
                self.ways.known.insert(key, denied);
            }
            _ => {}
        }
        found.is_ok()
    }

    async fn is_allowed(&self, subject: Subject, group: &str, policy: &str) -> Result<bool, authz::ReviewError> {
        let Attributes { namespace, context, .. } = self.attributes;
        let authorizer = &context.authorizer;
        let question = authz::AccessAttributes {
            is_resource_request: true,
            verb: "use".to_owned(),
            namespace: namespace.clone(),
            api_group: group.to_owned(),
            api_version: "*".to_owned(),
            resource: "podsecuritypolicies".to_owned(),
            name: policy.to_owned(),
            ..authz::AccessAttributes::default()
        };
        let answer = match subject {
            Subject::ServiceAccount => {
                authorizer.check_service_account(namespace, self.service_account, &question).await
            }
            Subject::Caller => authorizer.check(&question).await,
        };
        Ok(answer?.allowed)
    }
}
