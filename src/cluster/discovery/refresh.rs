//! When discovery is fetched anew.

use super::{Limits, Shared, fetch};
use crate::upstream::SharedTransport;
use futures_util::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Api, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};
use std::fmt::Debug;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// The pause after the first failed refresh; each further one doubles it.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// Fetches at once, and then whenever there is a reason, at most once in `refresh_interval`.
pub(super) async fn run(shared: Arc<Shared>, transport: SharedTransport, limits: Limits) {
    let mut retry = FIRST_RETRY;
    let mut settle: Option<Instant> = None;
    loop {
        let begun_at = Instant::now();
        let number = shared.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let old = shared.table.load_full();
        let pause = match fetch::all(&transport, limits, &old).await {
            Ok(fetched) => {
                let table = fetched.into_table(&old);
                if table != *old {
                    shared.table.store(Arc::new(table));
                }
                shared.synced.send_replace(true);
                retry = FIRST_RETRY;
                limits.periodic_interval
            }
            Err(error) => {
                tracing::warn!(error, "discovery failed; trying again");
                let pause = retry.min(limits.retry_interval);
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
                sleep(limits.change_delay).await;
                settle = Some(Instant::now() + limits.settle_delay);
            }
        }
        sleep_until(begun_at + limits.refresh_interval).await;
    }
}

/// Asks for a refresh when a CustomResourceDefinition comes, changes or goes.
pub(super) async fn follow_definitions(shared: Arc<Shared>, client: kube::Client, limits: Limits) {
    follow::<CustomResourceDefinition>(shared, client, limits).await;
}

/// Asks for a refresh when an APIService comes, changes or goes.
pub(super) async fn follow_api_services(shared: Arc<Shared>, client: kube::Client, limits: Limits) {
    follow::<APIService>(shared, client, limits).await;
}

/// A server that does not have the resource, or does not let us watch it, is asked again now and then: what is looked up
/// and not known is found all the same.
async fn follow<K>(shared: Arc<Shared>, client: kube::Client, limits: Limits)
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
{
    let kind = K::kind(&());
    let api: Api<PartialObjectMeta<K>> = Api::all(client);
    let mut events = pin!(watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_) | watcher::Event::InitDone) => {
                shared.changed.notify_one()
            }
            Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => {}
            Err(error) if is_refused(&error) => {
                tracing::debug!(%kind, %error, "changes cannot be watched; discovery is refreshed now and then");
                sleep(limits.periodic_interval).await;
            }
            Err(error) => tracing::warn!(%kind, %error, "watch of the API server failed; trying again"),
        }
    }
}

fn is_refused(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => {
            matches!(status.code, 401 | 403 | 404 | 405)
        }
        _ => false,
    }
}
