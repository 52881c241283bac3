//! The schedule of discovery refreshes.

use super::{Shared, fetch};
use crate::cluster::follow::{Bounds, Failure, Follower, Source, follow};
use crate::config::Limits;
use crate::upstream::SharedTransport;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// The pause after the first failed refresh. Each further failure doubles the pause.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// Fetches at once, and then after each trigger, at most once in `refresh_interval`.
pub(super) async fn run(shared: Arc<Shared>, transport: SharedTransport, limits: Arc<Limits>) {
    let mut retry = FIRST_RETRY;
    let mut settle: Option<Instant> = None;
    loop {
        let begun_at = Instant::now();
        let number = shared.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let old = shared.table.load_full();
        let pause = match fetch::all(&transport, &limits, &old).await {
            Ok(fetched) => {
                let table = fetched.into_table(&old);
                if table != *old {
                    shared.table.store(Arc::new(table));
                }
                shared.synced.send_replace(true);
                retry = FIRST_RETRY;
                limits.discovery_interval
            }
            Err(error) => {
                match error.is_unanswered {
                    true => tracing::debug!(%error, "discovery failed; trying again"),
                    false => tracing::warn!(%error, "discovery failed; trying again"),
                }
                let pause = retry.min(limits.discovery_retry_interval);
                retry = pause * 2;
                pause
            }
        };
        shared.ended.send_replace(number);
        let settled = async {
            match settle {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = shared.wanted.notified() => {}
            () = settled => settle = None,
            () = shared.changed.notified() => {
                sleep(limits.discovery_change_delay).await;
                settle = Some(Instant::now() + limits.discovery_settle_delay);
            }
        }
        sleep_until(begun_at + limits.discovery_refresh_interval).await;
    }
}

/// Requests a refresh when a CustomResourceDefinition is added, changed or deleted.
pub(super) async fn follow_definitions(shared: Arc<Shared>, client: kube::Client, limits: Arc<Limits>) {
    follow_kind::<CustomResourceDefinition>(shared, client, limits).await;
}

/// Requests a refresh when an APIService is added, changed or deleted.
pub(super) async fn follow_api_services(shared: Arc<Shared>, client: kube::Client, limits: Arc<Limits>) {
    follow_kind::<APIService>(shared, client, limits).await;
}

/// Watches a kind. If the API server forbids the watch, the watch is retried, and lookups of unknown resources still cause refreshes.
async fn follow_kind<K>(shared: Arc<Shared>, client: kube::Client, limits: Arc<Limits>)
where
    K: kube::Resource<DynamicType = ()>,
{
    let source = Source::all::<K>(client);
    let of_cache = Bounds::of_cache(&limits);
    let bounds = Bounds { list_timeout: limits.call_timeout, object_bytes: limits.discovery_bytes, ..of_cache };
    let mut notice = Notice { shared, kind: K::kind(&()).into_owned(), is_refused: false };
    follow(&source, bounds, &mut notice).await;
}

/// Notifies of changes, without reading the objects.
struct Notice {
    shared: Arc<Shared>,
    kind: String,
    is_refused: bool,
}

impl Follower for Notice {
    fn begin(&mut self) {}

    fn item(&mut self, _: &str) {}

    fn end(&mut self) {
        self.shared.changed.notify_one();
    }

    fn applied(&mut self, _: &str) {
        self.shared.changed.notify_one();
    }

    fn deleted(&mut self, _: &str) {
        self.shared.changed.notify_one();
    }

    fn answered(&mut self) {
        self.is_refused = false;
    }

    fn absent(&mut self) -> bool {
        true
    }

    fn failed(&mut self, failure: &Failure) {
        let kind = &self.kind;
        if failure.is_unanswered() {
            tracing::debug!(kind, error = %failure, "watch of the API server failed; trying again");
        } else if !matches!(failure.code(), Some(401 | 403 | 404 | 405)) {
            tracing::warn!(kind, error = %failure, "watch of the API server failed; trying again");
        } else if !std::mem::replace(&mut self.is_refused, true) {
            tracing::debug!(kind, error = %failure, "changes cannot be watched; discovery is refreshed periodically");
        }
    }
}
