//! The rights of the proxy's own credentials, which the API server tells for SelfSubjectAccessReviews.
//!
//! A proxy that may not impersonate answers every request with 403, while its caches and probes work. So the rights are asked for, and the
//! proxy is not ready without the ones that every request needs.

use super::review::{self, ReviewError};
use crate::server::health::Unhealthy;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const REVIEWS_OF_USERS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
/// Rounds of questions between two in which the rights that are there are asked for again: another one may take a right away.
const ROUNDS: u64 = 20;

/// One verb on one resource, in all namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NeededAccess {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    /// The purpose.
    pub(crate) reason: String,
    /// The right that is enough too.
    pub(crate) otherwise: Option<Box<NeededAccess>>,
}

impl NeededAccess {
    /// Whether the credentials have the right.
    ///
    /// # Errors
    /// If the API server does not say.
    pub(crate) async fn is_allowed(&self, client: &kube::Client, patience: Duration) -> Result<bool, ReviewError> {
        let first = self.is_itself_allowed(client, patience).await?;
        match &self.otherwise {
            Some(other) if !first => other.is_itself_allowed(client, patience).await,
            _ => Ok(first),
        }
    }

    async fn is_itself_allowed(&self, client: &kube::Client, patience: Duration) -> Result<bool, ReviewError> {
        let attributes = ResourceAttributes {
            verb: Some(self.verb.clone()),
            group: Some(self.group.clone()),
            resource: Some(self.resource.clone()),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), non_resource_attributes: None };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let answer = review::create(client, ACCESS_REVIEWS, &review, patience).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

/// The name of the user of these credentials.
///
/// # Errors
/// If the API server does not know the user, or does not answer.
pub(crate) async fn user(client: &kube::Client, patience: Duration) -> Result<String, ReviewError> {
    let review = review::create(client, REVIEWS_OF_USERS, &SelfSubjectReview::default(), patience).await?;
    let user = review.status.and_then(|status| status.user_info);
    user.and_then(|user| user.username).ok_or(ReviewError::NoUser)
}

/// The rights of one user, as far as they are needed.
pub(crate) struct Needed {
    /// The client with the credentials.
    pub(crate) client: kube::Client,
    /// The flag with the credentials, for the text.
    pub(crate) flag: &'static str,
    pub(crate) rights: Vec<NeededAccess>,
}

/// What is missing. Dropping the value ends the questions.
pub(crate) struct Rights {
    missing: watch::Receiver<String>,
    _task: AbortOnDropHandle<()>,
}

impl Rights {
    /// Asks at once, and then for missing rights every `every`. Until the first answers, and while the API server does not answer,
    /// nothing is missing: the probe says so. Must be called inside a tokio runtime.
    pub(crate) fn follow(needed: Vec<Needed>, every: Duration, patience: Duration) -> Self {
        let (said, missing) = watch::channel(String::new());
        let asking = async move {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut states: Vec<State> = needed.iter().map(State::new).collect();
            for round in 0_u64.. {
                ticks.tick().await;
                for state in &mut states {
                    state.ask(round % ROUNDS == 0, patience).await;
                }
                let texts: Vec<String> = states.iter().filter_map(State::text).collect();
                let text = texts.join("; ");
                if *said.borrow() != text {
                    match text.is_empty() {
                        true => tracing::info!("the proxy's credentials have all rights that requests need"),
                        false => tracing::warn!("{text}"),
                    }
                    said.send_replace(text);
                }
            }
        };
        Self { missing, _task: AbortOnDropHandle::new(tokio::spawn(asking)) }
    }

    /// Checks that no right is missing.
    ///
    /// # Errors
    /// If one is, with the user and advice.
    pub(crate) fn check(&self) -> Result<(), Unhealthy> {
        let missing = self.missing.borrow();
        if missing.is_empty() { Ok(()) } else { Err(Unhealthy::of(&*missing)) }
    }
}

struct State<'a> {
    needed: &'a Needed,
    /// Whether each right is missing; `None` until the API server has said.
    missing: Vec<Option<bool>>,
    user: Option<String>,
}

impl<'a> State<'a> {
    fn new(needed: &'a Needed) -> Self {
        Self { needed, missing: vec![None; needed.rights.len()], user: None }
    }

    /// Asks for the rights that are missing or unknown, or for all. An answer that does not come changes nothing.
    async fn ask(&mut self, all: bool, patience: Duration) {
        let client = &self.needed.client;
        for (access, missing) in self.needed.rights.iter().zip(&mut self.missing) {
            if all || *missing != Some(false) {
                match access.is_allowed(client, patience).await {
                    Ok(allowed) => *missing = Some(!allowed),
                    Err(error) => {
                        tracing::debug!(%error, ?access, "no answer about a right of the proxy");
                        break;
                    }
                }
            }
        }
        if self.user.is_none() && self.missing.contains(&Some(true)) {
            self.user = user(client, patience).await.ok();
        }
    }

    fn text(&self) -> Option<String> {
        let rights = self.needed.rights.iter().zip(&self.missing);
        let missing: Vec<&NeededAccess> =
            rights.filter(|(_, missing)| **missing == Some(true)).map(|(access, _)| access).collect();
        let user = self.user.as_ref().map_or_else(|| "the user".to_owned(), |name| format!("the user {name:?}"));
        (!missing.is_empty()).then(|| {
            let what = listed(&missing);
            format!(
                "{user} of {} may not {what}: bind the ClusterRole of \"kube-admission-proxy print rbac\"",
                self.needed.flag
            )
        })
    }
}

/// The rights as a part of a sentence, by their verbs.
pub(crate) fn listed(rights: &[&NeededAccess]) -> String {
    let mut by_verb: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for NeededAccess { verb, group, resource, .. } in rights {
        let resource = if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") };
        by_verb.entry(verb).or_default().push(resource);
    }
    let each: Vec<String> =
        by_verb.iter().map(|(verb, resources)| format!("{verb} {}", resources.join(", "))).collect();
    each.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::full;
    use crate::request::body;
    use crate::upstream::{from_fn, kube_client};
    use http::Response;
    use serde_json::{Value, json};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn access(verb: &str, group: &str, resource: &str) -> NeededAccess {
        let [verb, group, resource] = [verb, group, resource].map(str::to_owned);
        NeededAccess { verb, group, resource, reason: "forwarded requests".to_owned(), otherwise: None }
    }

    /// A server that allows everything but `impersonate`, which it allows if `may` is set.
    fn server(may: &Arc<AtomicBool>) -> kube::Client {
        let may = may.clone();
        kube_client(from_fn(move |request| {
            let may = may.load(Ordering::Relaxed);
            async move {
                let path = request.uri().path().to_owned();
                let text = body::read(request.into_body(), 1 << 20).await.unwrap();
                let mut review: Value = serde_json::from_slice(&text).unwrap();
                review["status"] = match &*path {
                    ACCESS_REVIEWS => {
                        let verb = &review["spec"]["resourceAttributes"]["verb"];
                        json!({"allowed": may || verb != "impersonate"})
                    }
                    _ => json!({"userInfo": {"username": "reader"}}),
                };
                Ok(Response::builder().status(201).body(full(review.to_string())).unwrap())
            }
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_right_is_named_until_it_is_there() {
        let may = Arc::new(AtomicBool::new(false));
        let rights = ["users", "groups"].map(|resource| access("impersonate", "", resource));
        let rights = rights.into_iter().chain([access("create", "authorization.k8s.io", "subjectaccessreviews")]);
        let needed = Needed { client: server(&may), flag: "--upstream-kubeconfig", rights: rights.collect() };
        let mut followed = Rights::follow(vec![needed], Duration::from_secs(30), Duration::from_secs(5));
        assert_eq!(followed.check(), Ok(()));
        followed.missing.changed().await.unwrap();
        let text = "the user \"reader\" of --upstream-kubeconfig may not impersonate users, groups: bind the ClusterRole of \
                    \"kube-admission-proxy print rbac\"";
        assert_eq!(followed.check(), Err(Unhealthy::of(text)));
        may.store(true, Ordering::Relaxed);
        followed.missing.changed().await.unwrap();
        assert_eq!(followed.check(), Ok(()));
        let confined = Box::new(access("impersonate:user-info", "authentication.k8s.io", "users"));
        let either = NeededAccess { otherwise: Some(confined), ..access("impersonate", "", "users") };
        assert_eq!(either.is_allowed(&server(&Arc::default()), Duration::from_secs(5)).await, Ok(true));
        // A right that is taken away is missing after a while.
        may.store(false, Ordering::Relaxed);
        followed.missing.changed().await.unwrap();
        assert!(followed.check().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn rights_are_asked_for_again_soon_if_the_api_server_was_away_at_the_start() {
        let is_away = Arc::new(AtomicBool::new(true));
        let (away, api_server) = (is_away.clone(), Arc::<AtomicBool>::default());
        let client = server(&api_server);
        let guarded = tower::service_fn(move |request| {
            let (away, client) = (away.load(Ordering::Relaxed), client.clone());
            async move {
                match away {
                    true => Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into()),
                    false => client.send(request).await.map_err(|error| Box::new(error) as tower::BoxError),
                }
            }
        });
        let client = kube::Client::new(guarded, "default");
        let rights = vec![access("impersonate", "", "users")];
        let needed = Needed { client, flag: "--upstream-kubeconfig", rights };
        let mut followed = Rights::follow(vec![needed], Duration::from_secs(30), Duration::from_secs(5));
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(followed.check(), Ok(()));
        is_away.store(false, Ordering::Relaxed);
        let told = tokio::time::timeout(Duration::from_secs(60), followed.missing.changed()).await;
        assert!(told.is_ok() && followed.check().is_err());
    }

    #[test]
    fn rights_are_listed_by_verb() {
        let rights = [access("list", "", "pods"), access("create", "a.b", "c"), access("list", "apps", "deployments")];
        let rights: Vec<&NeededAccess> = rights.iter().collect();
        assert_eq!(listed(&rights), "create c.a.b; list pods, deployments.apps");
    }
}
