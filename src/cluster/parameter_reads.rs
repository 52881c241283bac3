//! Reads of parameters that no cache has yet: a parameter that was created a moment ago counts (`getParamDirectly`).

use super::decode::decode;
use super::live::{segment, status_of};
use super::parameters::{Parameter, Parameters};
use crate::answers::AnswerCache;
use crate::config::Limits;
use crate::names::is_path_segment;
use crate::sharer::Sharer;
use crate::shares::Shares;
use crate::status::Status;
use crate::user::UserInfo;
use kube::Resource;
use kube::api::{ApiResource, DynamicObject, GetParams, Request};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The reads of parameters of one cluster.
pub(super) struct ParameterReads {
    limits: Arc<Limits>,
    places: Arc<Shares>,
    /// The parameters that do not exist. One that exists is not kept: its cache has it a moment later.
    missing: AnswerCache<Option<Arc<Parameter>>>,
}

impl fmt::Debug for ParameterReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParameterReads").finish_non_exhaustive()
    }
}

/// The reason why a read did not tell whether the parameter exists.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum UnreadParameter {
    /// The object exists, but cannot be decoded.
    #[error("the proxy cannot decode {0:?}")]
    Undecodable(Box<str>),
    /// The API server refused the read, or did not answer.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// The API server did not answer in time.
    #[error("context deadline exceeded")]
    Timeout,
}

impl ParameterReads {
    /// Creates the reads of a cluster.
    pub(super) fn new(limits: &Arc<Limits>) -> Self {
        Self {
            places: Shares::new(limits.parameter_reads, limits.user_parameter_reads),
            missing: AnswerCache::new(limits.missing_parameters),
            limits: limits.clone(),
        }
    }

    async fn read(
        &self,
        client: kube::Client,
        resource: &ApiResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<Parameter>>, UnreadParameter> {
        let within = (!namespace.is_empty()).then(|| segment(namespace));
        let path = DynamicObject::url_path(resource, within.as_deref());
        let request = Request::new(path).get(&segment(name), &GetParams::default());
        let request = request.map_err(|error| UnreadParameter::Refused(Box::new(Status::plain(error.to_string()))))?;
        let answer = tokio::time::timeout(self.limits.parameter_read_timeout, client.request_text(request)).await;
        match answer.map_err(|_| UnreadParameter::Timeout)? {
            Ok(text) => {
                // The text may quote a Secret.
                let decoded = decode::<Parameter>(&text).map_err(|_| UnreadParameter::Undecodable(name.into()))?;
                let mut parameter = decoded.1;
                parameter.set_kind(resource);
                Ok(Some(Arc::new(parameter)))
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(UnreadParameter::Refused(Box::new(status_of(error)))),
        }
    }
}

impl Parameters {
    /// Reads an object that the cache does not have from the API server, on behalf of this user. `None` if the object does not exist, or if its
    /// kind is no longer served. The namespace is empty for cluster-scoped kinds.
    ///
    /// # Errors
    /// If it stays unknown whether the object exists.
    pub(crate) async fn find_live(
        &self,
        namespace: &str,
        name: &str,
        user: &Arc<UserInfo>,
    ) -> Result<Option<Arc<Parameter>>, UnreadParameter> {
        let (Some(client), Some(resource)) = (&self.client, self.resource()) else { return Ok(None) };
        // No object has such a name.
        if name.is_empty() || !is_path_segment(name) || !is_path_segment(namespace) {
            return Ok(None);
        }
        // The place comes first, so that no user waits for the place of another one who reads the same object.
        let _place = self.reads.places.take(&Sharer::User(user.clone()), 1).await;
        let missing = &self.reads.missing;
        let ApiResource { group, version, plural, .. } = &*resource;
        let key = missing.key(&[&**group, &**version, &**plural, namespace, name].map(str::as_bytes));
        let lifetime = |found: &Option<_>| match found {
            None => self.reads.limits.missing_parameter_ttl,
            Some(_) => Duration::ZERO,
        };
        let read = || self.reads.read(client.clone(), &resource, namespace, name);
        missing.answer(key, lifetime, read).await.map_err(|why| (*why).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::discovery::{Discovery, Resource as Served};
    use crate::cluster::tests::client;
    use crate::cluster::{Cluster, Scope};
    use crate::kind::{GroupVersionKind, GroupVersionResource};
    use futures_util::FutureExt;
    use serde_json::{Value, json};
    use std::collections::HashMap;
    use std::sync::Mutex;

    type Answer = Option<(u16, Value)>;

    /// The parameters of the kind ConfigMap, of which no list has any, and the paths of the reads so far. `answer` is that to a read.
    async fn parameters(
        limits: Limits,
        answer: impl Fn(&str) -> Answer + Send + Sync + 'static,
    ) -> (Arc<Parameters>, Arc<Mutex<Vec<String>>>) {
        let reads = Arc::new(Mutex::new(Vec::new()));
        let seen = reads.clone();
        let client = client(move |_, url| match url {
            list if list.contains("watch=true") => None,
            list if list.contains("limit=") => Some((200, json!({"metadata": {"resourceVersion": "1"}, "items": []}))),
            read => {
                seen.lock().unwrap().push(read.to_owned());
                answer(read)
            }
        });
        let kind = GroupVersionKind::new("", "v1", "ConfigMap");
        let served = Served { kind: kind.clone(), namespaced: true, verbs: Vec::new(), subresources: HashMap::new() };
        let discovery = Discovery::fixed([(GroupVersionResource::new("", "v1", "configmaps"), served)]);
        let cluster = Cluster::start(client, &[], Arc::new(limits));
        let parameters = cluster.parameters(&kind, &Scope::All, &discovery).unwrap();
        assert!(parameters.wait_synced("n").await);
        (parameters, reads)
    }

    fn user(name: &str) -> Arc<UserInfo> {
        Arc::new(UserInfo { username: name.to_owned(), ..UserInfo::default() })
    }

    fn not_found() -> Answer {
        Some((
            404,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound"}),
        ))
    }

    #[tokio::test]
    async fn a_parameter_that_no_cache_has_is_read_each_time() {
        let (parameters, reads) = parameters(Limits::default(), |_| {
            let metadata = json!({"name": "a", "namespace": "n", "managedFields": [{"time": 5}]});
            Some((200, json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"k": "v"}})))
        })
        .await;
        let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}, "data": {"k": "v"}});
        for _ in 0..2 {
            assert_eq!(parameters.find("n", "a"), Ok(None));
            assert_eq!(*parameters.find_live("n", "a", &user("alice")).await.unwrap().unwrap().value(), expected);
        }
        assert_eq!(*reads.lock().unwrap(), ["/api/v1/namespaces/n/configmaps/a"; 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_parameter_is_remembered_for_a_moment() {
        let (parameters, reads) = parameters(Limits::default(), |_| not_found()).await;
        let find = async |name: &str| parameters.find_live("n", name, &user("alice")).await;
        for name in ["a", "a", "b", "a/b", "..", ""] {
            assert_eq!(find(name).await, Ok(None));
        }
        let paths = ["/api/v1/namespaces/n/configmaps/a", "/api/v1/namespaces/n/configmaps/b"];
        assert_eq!(*reads.lock().unwrap(), paths);
        let ttl = Limits::default().missing_parameter_ttl;
        assert!(ttl <= Duration::from_secs(1));
        tokio::time::advance(ttl).await;
        assert_eq!(find("a").await, Ok(None));
        assert_eq!(reads.lock().unwrap().len(), 3);
    }

    #[tokio::test]
    async fn an_unknown_parameter_is_an_error() {
        for (code, answer, why) in [
            (
                500,
                json!({"kind": "Status", "message": "it is broken", "code": 500, "reason": "InternalError"}),
                "it is broken",
            ),
            (403, json!({"kind": "Status", "message": "may not", "code": 403, "reason": "Forbidden"}), "may not"),
            (200, (0..200).fold(json!("secret"), |inner, _| json!({"a": inner})), "the proxy cannot decode \"a\""),
        ] {
            let (parameters, reads) = parameters(Limits::default(), move |_| Some((code, answer.clone()))).await;
            for count in 1..=2 {
                let found = parameters.find_live("n", "a", &user("alice")).await;
                assert_eq!(found.unwrap_err().to_string(), why);
                assert_eq!(reads.lock().unwrap().len(), count, "{code}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reads_of_one_user_are_few_and_short() {
        let limits = Limits { parameter_reads: 8, user_parameter_reads: 1, ..Limits::default() };
        let time = limits.parameter_read_timeout;
        let (parameters, reads) =
            parameters(limits, |read| if read.ends_with("slow") { None } else { not_found() }).await;
        let alice = user("alice");
        let mut slow = Box::pin(parameters.find_live("n", "slow", &alice));
        assert!(slow.as_mut().now_or_never().is_none());
        let mut waits = Box::pin(parameters.find_live("n", "b", &alice));
        assert!(waits.as_mut().now_or_never().is_none());
        // Another user does not wait.
        assert_eq!(parameters.find_live("n", "c", &user("bob")).await, Ok(None));
        assert_eq!(reads.lock().unwrap().last().unwrap(), "/api/v1/namespaces/n/configmaps/c");
        let started = tokio::time::Instant::now();
        assert_eq!(slow.await, Err(UnreadParameter::Timeout));
        assert!((time..2 * time).contains(&started.elapsed()));
        assert_eq!(waits.await, Ok(None));
    }
}
