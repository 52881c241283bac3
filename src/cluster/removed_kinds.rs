//! Objects of APIs that Kubernetes removed: their caches, from the group in which the API server serves them.

use super::AnyCache;
use super::cache::{Cache, CacheRoom, Projection};
use super::follow::{Bounds, Failure, Follower, Source, follow};
use crate::config::Limits;
use crate::removed::Api;
use kube::api::ApiResource;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

/// The interval in which an absent API is looked for.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(10);

/// A kind whose API Kubernetes removed.
pub(crate) trait RemovedKind: Projection {
    /// The removed API.
    const API: &'static Api;
}

/// Starts the cache of a removed kind. An API server without the kind does not count as one without objects: the cache is not synced then.
pub(super) fn spawn<P: RemovedKind>(
    client: &kube::Client,
    limits: &Limits,
    room: &Arc<CacheRoom>,
    watches: &mut Vec<AbortOnDropHandle<()>>,
) -> Arc<dyn AnyCache> {
    let cache = Arc::new(Cache::<P>::within(room));
    let sources: Vec<Source> = P::API.groups().map(|group| source(client, P::API, group)).collect();
    let (followed, bounds) = (cache.clone(), Bounds::of_cache(limits));
    let task = async move {
        loop {
            let mut follower = Served { following: followed.following(P::API.kind, |_| ()), api: P::API };
            for source in &sources {
                if !source.is_surely_absent().await {
                    follow(source, bounds, &mut follower).await;
                }
            }
            follower.absent();
            sleep(LOOKUP_INTERVAL).await;
        }
    };
    watches.push(AbortOnDropHandle::new(tokio::spawn(task)));
    cache
}

fn source(client: &kube::Client, api: &Api, group: &str) -> Source {
    let resource = ApiResource {
        group: group.to_owned(),
        version: api.version.to_owned(),
        api_version: crate::kind::api_version(group, api.version),
        kind: api.kind.to_owned(),
        plural: api.plural.to_owned(),
    };
    Source::of(client.clone(), resource, None)
}

/// A follower for which an absent API is a failure. Objects that were read before still count.
struct Served<F> {
    following: F,
    api: &'static Api,
}

impl<F: Follower> Follower for Served<F> {
    fn begin(&mut self) {
        self.following.begin();
    }

    fn item(&mut self, object: &str) {
        self.following.item(object);
    }

    fn end(&mut self) {
        self.following.end();
    }

    fn applied(&mut self, object: &str) {
        self.following.applied(object);
    }

    fn deleted(&mut self, object: &str) {
        self.following.deleted(object);
    }

    fn answered(&mut self) {
        self.following.answered();
    }

    fn absent(&mut self) -> bool {
        self.following.failed(&Failure::Missing(missing(self.api)));
        false
    }

    fn failed(&mut self, failure: &Failure) {
        self.following.failed(failure);
    }

    fn is_full(&self) -> bool {
        self.following.is_full()
    }
}

fn missing(api: &Api) -> String {
    let groups: Vec<&str> = api.groups().collect();
    format!(
        "the API server serves no {} in {}: create the definition that `kube-admission-proxy print crds` prints, \
         or name a folder as staticManifestsDir in the plugin's configuration",
        api.plural,
        groups.join(" or ")
    )
}
