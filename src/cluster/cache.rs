//! One watch cache, which holds the needed fields of every object of one kind.

mod following;
mod room;

pub(crate) use room::CacheRoom;

use super::follow::{Bounds, Failure, Source, follow};
use super::{AnyCache, Health, Need};
use arc_swap::ArcSwapOption;
use room::Taken;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use tokio::sync::watch;
use tokio::time::Instant;

/// The fields of an object that a cache keeps.
pub(crate) trait Projection: Debug + PartialEq + Send + Sync + Sized + 'static {
    /// The need that starts the cache.
    const NEED: Need;
    /// Whether the API server may forbid the proxy to read the resource (401, 403). Objects are then looked up at the API server.
    const MAY_BE_REFUSED: bool = false;
    /// The decoded fields, as `field` or `field.subfield`; empty for all fields. No other field is decoded, so that a bad value
    /// in another field does not make the object undecodable.
    const FIELDS: &'static [&'static str];
    /// The object as the API server sends it.
    type Object: DeserializeOwned + Send + 'static;

    /// Returns the object's key and the fields to keep.
    fn project(object: Self::Object) -> (String, Self);

    /// The value of a second index beside the key, if there is one: for a Pod, the name of its node.
    fn index(&self) -> Option<&str> {
        None
    }

    /// The labels, if a view may choose objects by them.
    fn labels(&self) -> Option<&BTreeMap<String, String>> {
        None
    }

    /// The estimated size of the object in memory. `text` is the length of the JSON text of [`Self::FIELDS`]: a decoded object takes
    /// about three times as much.
    fn bytes(&self, text: usize) -> usize {
        3 * text
    }
}

/// The memory of an object in a cache, besides the object itself.
const OBJECT_BYTES: usize = 512;

/// The key of an object. The namespace is empty for a cluster-scoped object.
pub(super) fn key<'a>(namespace: &str, name: &'a str) -> Cow<'a, str> {
    if namespace.is_empty() { name.into() } else { namespaced_key(namespace, name).into() }
}

/// The key of an object in a namespace.
pub(super) fn namespaced_key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

type Objects<P> = BTreeMap<Arc<str>, Arc<P>>;
/// The items of a list in their order. A tree that is built from the whole list is dense; sorted single inserts leave its nodes
/// half empty.
type Listed<P> = Vec<(Arc<str>, Measured<P>)>;

/// An object with its estimated size.
#[derive(Debug)]
pub(super) struct Measured<P> {
    object: Arc<P>,
    bytes: usize,
}

impl<P> Clone for Measured<P> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), bytes: self.bytes }
    }
}

/// The objects by key, and by index value and key. Both maps share keys and objects.
#[derive(Debug)]
pub(super) struct Store<P> {
    by_key: BTreeMap<Arc<str>, Measured<P>>,
    by_index: BTreeMap<Box<str>, Objects<P>>,
    /// The keys of the objects whose current state could not be decoded. `by_key` may hold an older state of such an object.
    undecodable: Keys,
    /// The estimated size of all objects.
    bytes: usize,
    /// The room for the objects.
    taken: Taken,
}

/// The keys of objects that could not be decoded.
#[derive(Debug, Default)]
struct Keys {
    all: BTreeSet<Arc<str>>,
    /// The estimated size of the keys.
    bytes: usize,
}

impl Keys {
    fn size(key: &str) -> usize {
        OBJECT_BYTES + key.len()
    }

    fn insert(&mut self, key: Arc<str>) -> bool {
        let bytes = Self::size(&key);
        let is_new = self.all.insert(key);
        self.bytes += if is_new { bytes } else { 0 };
        is_new
    }

    fn remove(&mut self, key: &str) -> bool {
        let was_there = self.all.remove(key);
        self.bytes -= if was_there { Self::size(key) } else { 0 };
        was_there
    }
}

impl<P: Projection> Store<P> {
    /// Returns whether the object changed.
    #[cfg(test)]
    pub(super) fn put(&mut self, key: Arc<str>, object: P) -> bool {
        self.insert(key, Measured { object: Arc::new(object), bytes: 0 })
    }

    /// Returns whether the object changed.
    fn insert(&mut self, key: Arc<str>, object: Measured<P>) -> bool {
        if self.by_key.get(&key).is_some_and(|old| old.object == object.object) {
            return false;
        }
        self.remove(&key);
        self.enter(&key, &object.object);
        self.bytes += object.bytes;
        self.by_key.insert(key, object);
        true
    }

    /// Returns whether the object was present.
    fn remove(&mut self, key: &str) -> bool {
        let Some(Measured { object: old, bytes }) = self.by_key.remove(key) else { return false };
        self.bytes = self.bytes.saturating_sub(bytes);
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

    /// Replaces all objects by a complete list. Unchanged objects keep their `Arc`. Returns whether any object changed.
    fn replace(&mut self, mut listed: BTreeMap<Arc<str>, Measured<P>>) -> bool {
        let mut changed = self.by_key.len() != listed.len();
        for (key, listed) in &mut listed {
            match self.by_key.get(key).filter(|old| old.object == listed.object) {
                Some(old) => listed.object = old.object.clone(),
                None => changed = true,
            }
        }
        if changed {
            self.by_index.clear();
            for (key, listed) in &listed {
                self.enter(key, &listed.object);
            }
            self.bytes = listed.values().map(|listed| listed.bytes).sum();
            self.by_key = listed;
        }
        changed
    }

    /// Takes the room for the present objects and keys. Returns whether there is room.
    fn take_room(&mut self) -> bool {
        self.taken.set(self.bytes + self.undecodable.bytes)
    }

    fn enter(&mut self, key: &Arc<str>, object: &Arc<P>) {
        let Some(index) = object.index() else { return };
        match self.by_index.get_mut(index) {
            Some(objects) => _ = objects.insert(key.clone(), object.clone()),
            None => _ = self.by_index.insert(index.into(), [(key.clone(), object.clone())].into()),
        }
    }
}

/// The cached objects. The sorted list of all objects is built on the first read.
#[derive(Debug)]
pub(super) struct Cache<P> {
    store: RwLock<Store<P>>,
    sorted: ArcSwapOption<Vec<Arc<P>>>,
    synced: watch::Sender<bool>,
    changes: watch::Sender<u64>,
    state: Mutex<State>,
    /// The estimated size that all objects may have, and of all caches of the API server.
    most_bytes: usize,
    room: Arc<CacheRoom>,
}

/// The state of the list and watch.
#[derive(Debug, Default)]
struct State {
    last_error: Option<String>,
    /// The instant of the API server's last answer.
    answered: Option<Instant>,
    /// The instant of the first in the current series of failures.
    failing_since: Option<Instant>,
    is_absent: bool,
    /// Whether the API server has more objects than the cache may hold. A full cache is empty.
    is_full: bool,
    /// The number of objects and events that could not be decoded so far.
    undecodable: u64,
}

impl<P: Projection> Cache<P> {
    /// A cache that takes its memory from the room of its API server. A full cache holds no objects.
    pub(super) fn within(room: &Arc<CacheRoom>) -> Self {
        Self::bounded(usize::MAX, room)
    }

    /// A cache with a maximum of its own for the estimated size of its objects.
    pub(super) fn bounded(most_bytes: usize, room: &Arc<CacheRoom>) -> Self {
        let (by_key, by_index, undecodable) = Default::default();
        let store = Store { by_key, by_index, undecodable, bytes: 0, taken: Taken::nothing(room) };
        Self {
            store: RwLock::new(store),
            sorted: ArcSwapOption::default(),
            synced: watch::Sender::new(false),
            changes: watch::Sender::new(0),
            state: Mutex::default(),
            most_bytes,
            room: room.clone(),
        }
    }

    /// A cache that holds the given objects and does not watch.
    pub(super) fn fixed(objects: impl IntoIterator<Item = (String, P)>, synced: bool) -> Self {
        let cache = Self::within(&CacheRoom::unbounded());
        let measured = |object| Measured { object: Arc::new(object), bytes: 0 };
        let listed = objects.into_iter().map(|(key, object)| (key.into(), measured(object))).collect();
        cache.change(|store| store.replace(listed));
        cache.synced.send_replace(synced);
        cache
    }

    /// Adds keys of objects that could not be decoded.
    #[cfg(test)]
    pub(super) fn with_undecodable(self, keys: &[&str]) -> Self {
        self.change(|store| {
            keys.iter().for_each(|key| _ = store.undecodable.insert(Arc::from(*key)));
            true
        });
        self
    }

    /// The key of an object that exists, but could never be decoded. Only keys that begin with `prefix` count; an empty prefix
    /// means all keys.
    pub(super) fn unknown(&self, prefix: &str) -> Option<Arc<str>> {
        let store = self.read();
        let from = store.undecodable.all.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        let mut keys = from.take_while(|key| key.starts_with(prefix));
        // The empty key stands for objects whose key could not be read, which may be any key.
        keys.find(|key| !store.by_key.contains_key(*key)).or_else(|| store.undecodable.all.get("")).cloned()
    }

    /// Whether the object could never be decoded, or an object exists whose key could not be read.
    pub(super) fn is_unknown(&self, key: &str) -> bool {
        let store = self.read();
        let is_unknown = |key: &str| store.undecodable.all.contains(key) && !store.by_key.contains_key(key);
        !store.undecodable.all.is_empty() && (is_unknown(key) || is_unknown(""))
    }

    /// Whether the API server has more objects than the cache may hold.
    pub(super) fn is_full(&self) -> bool {
        self.state().is_full
    }

    fn has_own_bound(&self) -> bool {
        self.most_bytes < usize::MAX
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, key: &str) -> Option<Arc<P>> {
        self.read().by_key.get(key).map(|kept| kept.object.clone())
    }

    /// The object with this key, if the object has the index value.
    pub(super) fn indexed(&self, index: &str, key: &str) -> Option<Arc<P>> {
        self.read().by_index.get(index)?.get(key).cloned()
    }

    /// The objects with the index value, sorted by key.
    pub(super) fn of_index(&self, index: &str) -> Vec<Arc<P>> {
        self.read().by_index.get(index).map(|objects| objects.values().cloned().collect()).unwrap_or_default()
    }

    fn read(&self) -> RwLockReadGuard<'_, Store<P>> {
        self.store.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// All objects, sorted by key. The `Arc` stays the same until an object changes.
    pub(super) fn sorted(&self) -> Arc<Vec<Arc<P>>> {
        if let Some(sorted) = self.sorted.load_full() {
            return sorted;
        }
        // The lock prevents a change between the read of the objects and the store of the list.
        let store = self.read();
        let sorted: Arc<Vec<_>> = Arc::new(store.by_key.values().map(|kept| kept.object.clone()).collect());
        self.sorted.store(Some(sorted.clone()));
        sorted
    }

    /// The objects in a namespace, sorted by name.
    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<P>> {
        let prefix = namespaced_key(namespace, "");
        let store = self.read();
        let from = store.by_key.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
        from.take_while(|(key, _)| key.starts_with(&prefix)).map(|(_, kept)| kept.object.clone()).collect()
    }

    pub(super) fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// The number of changes to the objects so far; receivers are notified of each change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Lists and watches the source for ever. `complete` may change each decoded object before the cache keeps it.
    pub(super) async fn follow(&self, source: &Source, complete: impl Fn(&mut P), bounds: Bounds) {
        follow(source, bounds, &mut self.following(source.kind(), complete)).await;
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Store<P>) -> bool) {
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        if change(&mut store) {
            self.sorted.store(None);
            self.changes.send_modify(|changes| *changes += 1);
        }
    }
}

impl<P: Projection> AnyCache for Cache<P> {
    fn problem(&self) -> Option<String> {
        if self.is_synced() {
            return None;
        }
        if self.is_full() {
            return Some(Failure::Full.to_string());
        }
        Some(self.state().last_error.clone().unwrap_or_else(|| "the first list is not complete yet".to_owned()))
    }

    fn health(&self) -> Health {
        let (undecodable_now, objects, bytes) = {
            let store = self.read();
            (store.undecodable.all.len(), store.by_key.len(), store.bytes)
        };
        let state = self.state();
        Health {
            last_error: state.last_error.clone(),
            answered: state.answered,
            failing_since: state.failing_since,
            undecodable_now,
            undecodable_so_far: state.undecodable,
            is_full: state.is_full,
            objects,
            bytes,
        }
    }

    fn unknown(&self, prefix: &str) -> Option<Arc<str>> {
        self.unknown(prefix)
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
    use crate::cluster::follow::Follower;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    #[derive(Debug, PartialEq)]
    struct Map(String, Option<String>);

    impl Projection for Map {
        const NEED: Need = Need::SERVICES;
        const FIELDS: &'static [&'static str] = &["metadata.name", "data"];
        type Object = ConfigMap;
        fn project(object: ConfigMap) -> (String, Self) {
            let name = object.metadata.name.unwrap_or_default();
            (name.clone(), Self(name, object.data.and_then(|mut data| data.remove("k"))))
        }
        fn index(&self) -> Option<&str> {
            self.1.as_deref()
        }
        fn bytes(&self, _: usize) -> usize {
            self.1.as_ref().map_or(0, String::len)
        }
    }

    fn unbounded() -> Cache<Map> {
        Cache::within(&CacheRoom::unbounded())
    }

    fn map(name: &str, value: &str) -> String {
        json!({"metadata": {"name": name}, "data": {"k": value}}).to_string()
    }

    fn broken(name: &str) -> String {
        json!({"metadata": {"name": name}, "data": {"k": 5}}).to_string()
    }

    fn list(cache: &Cache<Map>, items: &[String]) {
        let mut following = cache.following("Map", |_| ());
        following.begin();
        items.iter().for_each(|item| following.item(item));
        if !following.is_full() {
            following.end();
        }
    }

    fn apply(cache: &Cache<Map>, object: &str) {
        cache.following("Map", |_| ()).applied(object);
    }

    fn delete(cache: &Cache<Map>, object: &str) {
        cache.following("Map", |_| ()).deleted(object);
    }

    fn names(cache: &Cache<Map>) -> Vec<String> {
        cache.sorted().iter().map(|kept| kept.0.clone()).collect()
    }

    fn value(cache: &Cache<Map>, name: &str) -> Option<String> {
        cache.find(name)?.1.clone()
    }

    #[test]
    fn is_synced_after_the_first_whole_list_and_sorted() {
        let cache = unbounded();
        let mut following = cache.following("Map", |_| ());
        following.begin();
        following.item(&map("b", "1"));
        assert!(!cache.is_synced() && names(&cache).is_empty() && cache.problem().is_some());
        following.begin();
        following.item(&map("b", "1"));
        following.item(&map("a", "1"));
        following.end();
        assert!(cache.is_synced() && cache.problem().is_none());
        assert_eq!(names(&cache), ["a", "b"]);
        assert_eq!(value(&cache, "b").as_deref(), Some("1"));
    }

    #[test]
    fn keeps_the_old_list_until_the_new_one_is_whole() {
        let cache = Cache::fixed([("a".to_owned(), Map("a".to_owned(), None))], true);
        let mut following = cache.following("Map", |_| ());
        following.begin();
        following.item(&map("b", "1"));
        assert_eq!(names(&cache), ["a"]);
        following.end();
        assert_eq!(names(&cache), ["b"]);
        assert!(cache.find("a").is_none());
    }

    #[test]
    fn the_same_snapshot_stays_while_nothing_kept_changes() {
        let cache = unbounded();
        let both = [map("a", "1"), map("b", "1")];
        list(&cache, &both);
        let before = cache.sorted();
        list(&cache, &both);
        apply(&cache, &map("a", "1"));
        delete(&cache, &map("c", "1"));
        assert!(Arc::ptr_eq(&before, &cache.sorted()));
        apply(&cache, &map("a", "2"));
        assert!(!Arc::ptr_eq(&before, &cache.sorted()));
        assert!(Arc::ptr_eq(&before[1], &cache.sorted()[1]));
        delete(&cache, &map("a", "2"));
        assert_eq!(names(&cache), ["b"]);
    }

    #[test]
    fn an_object_is_found_by_the_index_that_it_has_now() {
        let cache = unbounded();
        let has = |index: &str, key: &str| cache.indexed(index, key).is_some();
        list(&cache, &[map("a", "1"), map("b", "1")]);
        assert!(has("1", "a") && has("1", "b") && !has("2", "a") && !has("1", "c"));
        apply(&cache, &map("a", "2"));
        assert!(!has("1", "a") && has("2", "a") && has("1", "b"));
        delete(&cache, &map("b", "1"));
        assert!(!has("1", "b") && has("2", "a"));
        list(&cache, &[map("c", "3")]);
        assert!(!has("2", "a") && has("3", "c"));
        // No empty map stays behind for an index value without objects.
        assert_eq!(cache.read().by_index.len(), 1);
    }

    #[test]
    fn an_object_without_an_index_is_found_by_its_key_only() {
        let cache = Cache::fixed([("a".to_owned(), Map("a".to_owned(), None))], true);
        assert!(cache.find("a").is_some() && cache.read().by_index.is_empty());
    }

    #[test]
    fn an_object_that_cannot_be_decoded_stops_no_other() {
        let cache = unbounded();
        list(&cache, &[map("a", "1"), broken("b"), map("c", "1")]);
        assert!(cache.is_synced());
        assert_eq!(names(&cache), ["a", "c"]);
        assert!(cache.is_unknown("b") && !cache.is_unknown("a") && !cache.is_unknown("d"));
        assert_eq!(
            (cache.unknown("").as_deref(), cache.unknown("b").as_deref(), cache.unknown("c")),
            (Some("b"), Some("b"), None)
        );
        apply(&cache, &map("b", "2"));
        assert_eq!((names(&cache).len(), cache.unknown("")), (3, None));
    }

    #[test]
    fn an_object_that_cannot_be_decoded_any_more_keeps_its_last_state() {
        let cache = unbounded();
        list(&cache, &[map("a", "1"), map("b", "1")]);
        apply(&cache, &broken("a"));
        assert_eq!((value(&cache, "a").as_deref(), cache.is_unknown("a")), (Some("1"), false));
        list(&cache, &[broken("a"), map("b", "2")]);
        assert_eq!((value(&cache, "a").as_deref(), value(&cache, "b").as_deref()), (Some("1"), Some("2")));
        let health = cache.health();
        assert_eq!((health.undecodable_now, health.undecodable_so_far), (1, 2));
        delete(&cache, &broken("a"));
        assert_eq!((value(&cache, "a"), cache.is_unknown("a"), cache.health().undecodable_now), (None, false, 0));
        apply(&cache, &broken("new"));
        assert!(cache.is_unknown("new"));
        list(&cache, &[map("b", "2")]);
        assert!(!cache.is_unknown("new"));
    }

    #[test]
    fn an_object_without_a_readable_key_may_be_any() {
        let cache = unbounded();
        list(&cache, &[map("a", "1"), r#"{"metadata": 5}"#.to_owned()]);
        assert!(cache.is_unknown("b") && cache.find("a").is_some());
    }

    #[test]
    fn too_much_is_nothing_until_it_is_less() {
        let cache = Cache::bounded(4 + 2 * OBJECT_BYTES, &CacheRoom::unbounded());
        list(&cache, &[map("a", "12"), map("b", "34")]);
        assert!(!cache.is_full() && names(&cache).len() == 2);
        apply(&cache, &map("a", "123"));
        assert!(cache.is_full() && names(&cache).is_empty() && cache.read().bytes == 0);
        list(&cache, &[map("a", "12"), map("b", "345")]);
        assert!(cache.is_full() && names(&cache).is_empty());
        list(&cache, &[map("a", "12"), map("b", "34")]);
        assert!(!cache.is_full() && names(&cache).len() == 2 && cache.health().bytes == 4 + 2 * OBJECT_BYTES);
        apply(&cache, &map("a", ""));
        delete(&cache, &map("b", ""));
        assert_eq!(cache.health().bytes, OBJECT_BYTES);
    }
}
