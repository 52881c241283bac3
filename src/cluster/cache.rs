//! One watch cache: what is kept of every object of one kind, in step with the API server.

use super::read::Read;
use super::{Kept, Need};
use arc_swap::ArcSwapOption;
use futures_util::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
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
    type Object: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static;

    /// The object's key and what is kept of it.
    fn project(object: Self::Object) -> (String, Self);

    /// What else than its key it is found by, if anything: for a Pod its node.
    fn index(&self) -> Option<&str> {
        None
    }
}

/// The key of an object, in a namespace or not.
pub(super) fn key<'a>(namespace: &str, name: &'a str) -> Cow<'a, str> {
    if namespace.is_empty() { name.into() } else { namespaced_key(namespace, name).into() }
}

/// The key of an object in a namespace.
pub(super) fn namespaced_key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

pub(super) type Objects<P> = BTreeMap<Arc<str>, Arc<P>>;
/// A list as it comes. Made of all of it at once, the tree has no room that is empty; of sorted objects one by one, half.
type Listed<P> = Vec<(Arc<str>, Arc<P>)>;

/// The kept objects by key, and by index and key. Both share keys and objects.
#[derive(Debug)]
pub(super) struct Store<P> {
    by_key: Objects<P>,
    by_index: BTreeMap<Box<str>, Objects<P>>,
}

impl<P: Projection> Store<P> {
    pub(super) fn find(&self, key: &str) -> Option<&Arc<P>> {
        self.by_key.get(key)
    }

    /// Answers whether that changed anything.
    pub(super) fn insert(&mut self, key: Arc<str>, object: Arc<P>) -> bool {
        if self.by_key.get(&key) == Some(&object) {
            return false;
        }
        self.remove(&key);
        self.enter(&key, &object);
        self.by_key.insert(key, object);
        true
    }

    /// Answers whether that changed anything.
    fn remove(&mut self, key: &str) -> bool {
        let Some(old) = self.by_key.remove(key) else { return false };
        if let Some(index) = old.index()
            && let Some(objects) = self.by_index.get_mut(index)
        {
            objects.remove(key);
            if objects.is_empty() {
                self.by_index.remove(index);
            }
        }
        true
    }

    /// Takes over a complete list. What did not change stays the same `Arc`. Answers whether anything did.
    fn replace(&mut self, mut listed: Objects<P>) -> bool {
        let mut changed = self.by_key.len() != listed.len();
        for (key, object) in &mut listed {
            match self.by_key.get(key).filter(|old| *old == object) {
                Some(old) => *object = old.clone(),
                None => changed = true,
            }
        }
        if changed {
            self.by_index.clear();
            for (key, object) in &listed {
                self.enter(key, object);
            }
            self.by_key = listed;
        }
        changed
    }

    fn enter(&mut self, key: &Arc<str>, object: &Arc<P>) {
        let Some(index) = object.index() else { return };
        match self.by_index.get_mut(index) {
            Some(objects) => _ = objects.insert(key.clone(), object.clone()),
            None => _ = self.by_index.insert(index.into(), [(key.clone(), object.clone())].into()),
        }
    }
}

/// The kept objects, and all of them sorted by key as soon as somebody wants that.
#[derive(Debug)]
pub(super) struct Cache<P> {
    store: RwLock<Store<P>>,
    sorted: ArcSwapOption<Vec<Arc<P>>>,
    synced: watch::Sender<bool>,
    changes: watch::Sender<u64>,
    last_error: Mutex<Option<String>>,
}

impl<P: Projection> Cache<P> {
    pub(super) fn new() -> Self {
        Self {
            store: RwLock::new(Store { by_key: BTreeMap::new(), by_index: BTreeMap::new() }),
            sorted: ArcSwapOption::default(),
            synced: watch::Sender::new(false),
            changes: watch::Sender::new(0),
            last_error: Mutex::default(),
        }
    }

    /// A cache that holds these objects and follows nothing.
    pub(super) fn fixed(objects: impl IntoIterator<Item = (String, P)>, synced: bool) -> Self {
        let cache = Self::new();
        let listed = objects.into_iter().map(|(key, object)| (key.into(), Arc::new(object))).collect();
        cache.change(|store| store.replace(listed));
        cache.synced.send_replace(synced);
        cache
    }

    pub(super) fn find(&self, key: &str) -> Option<Arc<P>> {
        self.read().by_key.get(key).cloned()
    }

    /// The object of this key, if it has this index.
    pub(super) fn indexed(&self, index: &str, key: &str) -> Option<Arc<P>> {
        self.read().by_index.get(index)?.get(key).cloned()
    }

    /// The objects with this index, sorted by key.
    pub(super) fn of_index(&self, index: &str) -> Vec<Arc<P>> {
        self.read().by_index.get(index).map(|objects| objects.values().cloned().collect()).unwrap_or_default()
    }

    fn read(&self) -> RwLockReadGuard<'_, Store<P>> {
        self.store.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// All objects, sorted by key; the same `Arc` as long as none changed.
    pub(super) fn sorted(&self) -> Arc<Vec<Arc<P>>> {
        if let Some(sorted) = self.sorted.load_full() {
            return sorted;
        }
        // Under the lock, so that no change comes between reading the objects and keeping the list.
        let store = self.read();
        let sorted: Arc<Vec<_>> = Arc::new(store.by_key.values().cloned().collect());
        self.sorted.store(Some(sorted.clone()));
        sorted
    }

    /// The objects in a namespace, sorted by name.
    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<P>> {
        let prefix = namespaced_key(namespace, "");
        let store = self.read();
        let from = store.by_key.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
        from.take_while(|(key, _)| key.starts_with(&prefix)).map(|(_, object)| object.clone()).collect()
    }

    pub(super) fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// How often the objects changed so far, and when they do.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Keeps the cache of a kind in step with the API server; what is kept of an object is `complete`d first. A list that
    /// stalls for `list_timeout` is begun anew.
    pub(super) async fn follow(
        &self,
        kind: &str,
        api: kube::Api<Read<P>>,
        complete: impl Fn(&mut P),
        list_timeout: Duration,
    ) {
        let complete = |read: &mut Read<P>| Arc::get_mut(&mut read.kept).into_iter().for_each(&complete);
        loop {
            let config = watcher::Config::default().page_size(P::PAGE);
            let mut events = pin!(watcher(api.clone(), config).default_backoff().modify(complete));
            let mut listed = None;
            loop {
                let is_listing = listed.is_some() || !self.is_synced();
                let bound = if is_listing { list_timeout } else { Duration::MAX };
                match tokio::time::timeout(bound, events.next()).await {
                    Ok(Some(Ok(event))) => self.take(event, &mut listed),
                    Ok(Some(Err(error))) => {
                        let code = refusal(&error);
                        if code != Some(404) || !P::MAY_BE_ABSENT {
                            self.note(kind, &error.to_string());
                        }
                        if P::MAY_BE_ABSENT && matches!(code, Some(401 | 403 | 404)) {
                            self.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
                        }
                    }
                    Ok(None) => break,
                    Err(_) => {
                        self.note(kind, "the list takes too long");
                        break;
                    }
                }
            }
        }
    }

    fn note(&self, kind: &str, error: &str) {
        tracing::warn!(kind, error, "watch of the API server failed; trying again");
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_owned());
    }

    /// One event of the watch. While the API server lists anew, `listed` gathers and readers see what was there before.
    fn take(&self, event: watcher::Event<Read<P>>, listed: &mut Option<Listed<P>>) {
        match event {
            watcher::Event::Init => *listed = Some(Vec::new()),
            watcher::Event::InitApply(read) => listed.get_or_insert_default().extend([(read.key, read.kept)]),
            watcher::Event::InitDone => {
                let listed = listed.take().unwrap_or_default();
                self.change(|store| store.replace(listed.into_iter().collect()));
                self.synced.send_replace(true);
            }
            watcher::Event::Apply(read) => self.change(|store| store.insert(read.key, read.kept)),
            watcher::Event::Delete(read) => self.change(|store| store.remove(&read.key)),
        }
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Store<P>) -> bool) {
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        if change(&mut store) {
            self.sorted.store(None);
            self.changes.send_modify(|changes| *changes += 1);
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

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes()
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
        fn index(&self) -> Option<&str> {
            self.1.as_deref()
        }
    }

    fn map(name: &str, value: &str) -> Read<Map> {
        serde_json::from_value(serde_json::json!({"metadata": {"name": name}, "data": {"k": value}})).unwrap()
    }

    fn feed(cache: &Cache<Map>, events: Vec<Event<Read<Map>>>) {
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

    #[test]
    fn an_object_is_found_by_the_index_that_it_has_now() {
        let cache = Cache::new();
        let has = |index: &str, key: &str| cache.indexed(index, key).is_some();
        feed(
            &cache,
            vec![Event::Init, Event::InitApply(map("a", "1")), Event::InitApply(map("b", "1")), Event::InitDone],
        );
        assert!(has("1", "a") && has("1", "b") && !has("2", "a") && !has("1", "c"));
        feed(&cache, vec![Event::Apply(map("a", "2"))]);
        assert!(!has("1", "a") && has("2", "a") && has("1", "b"));
        feed(&cache, vec![Event::Delete(map("b", "1"))]);
        assert!(!has("1", "b") && has("2", "a"));
        feed(&cache, vec![Event::Init, Event::InitApply(map("c", "3")), Event::InitDone]);
        assert!(!has("2", "a") && has("3", "c"));
        // Nothing stays behind for an index that no object has.
        assert_eq!(cache.read().by_index.len(), 1);
    }

    #[test]
    fn an_object_without_an_index_is_found_by_its_key_only() {
        let cache = Cache::fixed([("a".to_owned(), Map("a".to_owned(), None))], true);
        assert!(cache.find("a").is_some() && cache.read().by_index.is_empty());
    }
}
