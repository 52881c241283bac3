//! One watch cache: what is kept of every object of one kind, in step with the API server.

use super::{Kept, Need};
use arc_swap::ArcSwapOption;
use futures_util::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::watch;

/// What is kept of an object.
pub(crate) trait Projection: Debug + PartialEq + Send + Sync + Sized + 'static {
    /// What asks for its cache.
    const NEED: Need;
    /// How many objects are asked for at once.
    const PAGE: u32 = 500;
    /// Whether an API server may lack the resource, or keep it from the proxy. What the cache does not hold is looked up then.
    const MAY_BE_ABSENT: bool = false;
    /// The object as the API server sends it.
    type Object: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static;

    /// The object's key and what is kept of it.
    fn project(object: Self::Object) -> (String, Self);
}

/// The key of an object, in a namespace or not.
pub(super) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { namespaced_key(namespace, name) }
}

/// The key of an object in a namespace.
pub(super) fn namespaced_key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

pub(super) type Objects<P> = BTreeMap<String, Arc<P>>;

/// The kept objects by key, and all of them sorted by key as soon as somebody wants that.
#[derive(Debug)]
pub(super) struct Cache<P> {
    by_key: RwLock<Objects<P>>,
    sorted: ArcSwapOption<Vec<Arc<P>>>,
    synced: watch::Sender<bool>,
    last_error: Mutex<Option<String>>,
}

impl<P: Projection> Cache<P> {
    pub(super) fn new() -> Self {
        Self {
            by_key: RwLock::default(),
            sorted: ArcSwapOption::default(),
            synced: watch::Sender::new(false),
            last_error: Mutex::default(),
        }
    }

    /// A cache that holds these objects and follows nothing.
    pub(super) fn fixed(objects: impl IntoIterator<Item = (String, P)>, synced: bool) -> Self {
        let cache = Self::new();
        cache.replace(objects.into_iter().map(|(key, object)| (key, Arc::new(object))).collect());
        cache.synced.send_replace(synced);
        cache
    }

    pub(super) fn find(&self, key: &str) -> Option<Arc<P>> {
        self.by_key.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// All objects, sorted by key; the same `Arc` as long as none changed.
    pub(super) fn sorted(&self) -> Arc<Vec<Arc<P>>> {
        if let Some(sorted) = self.sorted.load_full() {
            return sorted;
        }
        // Under the lock, so that no change comes between reading the objects and keeping the list.
        let objects = self.by_key.read().unwrap_or_else(PoisonError::into_inner);
        let sorted: Arc<Vec<_>> = Arc::new(objects.values().cloned().collect());
        self.sorted.store(Some(sorted.clone()));
        sorted
    }

    /// The objects in a namespace, sorted by name.
    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<P>> {
        let prefix = namespaced_key(namespace, "");
        let objects = self.by_key.read().unwrap_or_else(PoisonError::into_inner);
        let from = objects.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
        from.take_while(|(key, _)| key.starts_with(&prefix)).map(|(_, object)| object.clone()).collect()
    }

    pub(super) fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Keeps the cache in step with the API server. A list that stalls for `list_timeout` is begun anew.
    pub(super) async fn follow(&self, api: kube::Api<P::Object>, list_timeout: Duration) {
        loop {
            let config = watcher::Config::default().page_size(P::PAGE);
            let mut events = pin!(watcher(api.clone(), config).default_backoff());
            let mut listed = None;
            loop {
                let is_listing = listed.is_some() || !self.is_synced();
                let bound = if is_listing { list_timeout } else { Duration::MAX };
                match tokio::time::timeout(bound, events.next()).await {
                    Ok(Some(Ok(event))) => self.take(event, &mut listed),
                    Ok(Some(Err(error))) => {
                        let code = refusal(&error);
                        if code != Some(404) || !P::MAY_BE_ABSENT {
                            self.note(&error.to_string());
                        }
                        if P::MAY_BE_ABSENT && matches!(code, Some(401 | 403 | 404)) {
                            self.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
                        }
                    }
                    Ok(None) => break,
                    Err(_) => {
                        self.note("the list takes too long");
                        break;
                    }
                }
            }
        }
    }

    fn note(&self, error: &str) {
        let kind = <P::Object as kube::Resource>::kind(&());
        tracing::warn!(%kind, error, "watch of the API server failed; trying again");
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_owned());
    }

    /// One event of the watch. While the API server lists anew, `listed` gathers and readers see what was there before.
    fn take(&self, event: watcher::Event<P::Object>, listed: &mut Option<Objects<P>>) {
        let kept = |object| {
            let (key, object) = P::project(object);
            (key, Arc::new(object))
        };
        match event {
            watcher::Event::Init => *listed = Some(BTreeMap::new()),
            watcher::Event::InitApply(object) => listed.get_or_insert_default().extend([kept(object)]),
            watcher::Event::InitDone => {
                self.replace(listed.take().unwrap_or_default());
                self.synced.send_replace(true);
            }
            watcher::Event::Apply(object) => {
                let (key, object) = kept(object);
                self.change(|objects| objects.insert(key, object.clone()).is_none_or(|old| old != object));
            }
            watcher::Event::Delete(object) => {
                let (key, _) = P::project(object);
                self.change(|objects| objects.remove(&key).is_some());
            }
        }
    }

    /// Takes over a complete list. What did not change stays the same `Arc`.
    fn replace(&self, mut listed: Objects<P>) {
        self.change(|objects| {
            let mut changed = objects.len() != listed.len();
            for (key, object) in &mut listed {
                match objects.get(key).filter(|old| *old == object) {
                    Some(old) => *object = old.clone(),
                    None => changed = true,
                }
            }
            *objects = listed;
            changed
        });
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Objects<P>) -> bool) {
        let mut objects = self.by_key.write().unwrap_or_else(PoisonError::into_inner);
        if change(&mut objects) {
            self.sorted.store(None);
        }
    }
}

/// The code with which the API server refused the list.
fn refusal(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

impl<P: Projection> Kept for Cache<P> {
    fn problem(&self) -> Option<String> {
        if self.is_synced() {
            return None;
        }
        let last_error = self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(last_error.unwrap_or_else(|| "the first list is not complete yet".to_owned()))
    }

    fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use watcher::Event;

    #[derive(Debug, PartialEq)]
    struct Map(String, Option<String>);

    impl Projection for Map {
        const NEED: Need = Need::Services;
        type Object = ConfigMap;
        fn project(object: ConfigMap) -> (String, Self) {
            let name = object.metadata.name.unwrap_or_default();
            (name.clone(), Self(name, object.data.and_then(|mut data| data.remove("k"))))
        }
    }

    fn map(name: &str, value: &str) -> ConfigMap {
        serde_json::from_value(serde_json::json!({"metadata": {"name": name}, "data": {"k": value}})).unwrap()
    }

    fn feed(cache: &Cache<Map>, events: Vec<Event<ConfigMap>>) {
        let mut listed = None;
        for event in events {
            cache.take(event, &mut listed);
        }
    }

    fn names(cache: &Cache<Map>) -> Vec<String> {
        cache.sorted().iter().map(|kept| kept.0.clone()).collect()
    }

    #[test]
    fn is_synced_after_the_first_whole_list_and_sorted() {
        let cache = Cache::new();
        feed(&cache, vec![Event::Init, Event::InitApply(map("b", "1")), Event::InitApply(map("a", "1"))]);
        assert!(!cache.is_synced() && names(&cache).is_empty() && cache.problem().is_some());
        feed(
            &cache,
            vec![Event::Init, Event::InitApply(map("b", "1")), Event::InitApply(map("a", "1")), Event::InitDone],
        );
        assert!(cache.is_synced() && cache.problem().is_none());
        assert_eq!(names(&cache), ["a", "b"]);
        assert_eq!(cache.find("b").unwrap().1.as_deref(), Some("1"));
    }

    #[test]
    fn keeps_the_old_list_until_the_new_one_is_whole() {
        let cache = Cache::fixed([("a".to_owned(), Map("a".to_owned(), None))], true);
        let mut listed = None;
        cache.take(Event::Init, &mut listed);
        cache.take(Event::InitApply(map("b", "1")), &mut listed);
        assert_eq!(names(&cache), ["a"]);
        cache.take(Event::InitDone, &mut listed);
        assert_eq!(names(&cache), ["b"]);
        assert!(cache.find("a").is_none());
    }

    #[test]
    fn the_same_snapshot_stays_while_nothing_kept_changes() {
        let cache = Cache::new();
        let list =
            || vec![Event::Init, Event::InitApply(map("a", "1")), Event::InitApply(map("b", "1")), Event::InitDone];
        feed(&cache, list());
        let before = cache.sorted();
        feed(&cache, list());
        feed(&cache, vec![Event::Apply(map("a", "1")), Event::Delete(map("c", "1"))]);
        assert!(Arc::ptr_eq(&before, &cache.sorted()));
        feed(&cache, vec![Event::Apply(map("a", "2"))]);
        assert!(!Arc::ptr_eq(&before, &cache.sorted()));
        assert!(Arc::ptr_eq(&before[1], &cache.sorted()[1]));
        feed(&cache, vec![Event::Delete(map("a", "2"))]);
        assert_eq!(names(&cache), ["b"]);
    }
}
