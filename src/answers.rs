//! A bounded cache of the upstream's answers: each question has one look-up at a time, and errors are never cached. All answers
//! can be forgotten at once, or those in one namespace.

use rand::random;
use sha2::{Digest, Sha256};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::time::Instant;

/// The number of groups of namespaces. The answers in a group are forgotten together, so that the cache keeps no names.
const GROUPS: usize = 256;

/// A question, hashed: neither tokens nor long attributes stay in memory.
pub(crate) type Key = [u8; 32];

/// A cache of answers. Callers with the same question share one look-up.
pub(crate) struct AnswerCache<V> {
    entries: moka::future::Cache<Key, Entry<V>>,
    secret: Secret,
    all: Generation,
    groups: Vec<Generation>,
    /// Chooses the group of a namespace, so that no client can find two namespaces of one group.
    group_of: RandomState,
}

/// The state of answers that are forgotten together.
#[derive(Default)]
struct Generation {
    /// Part of each key: a new generation makes all earlier answers unreachable, pending ones too.
    number: AtomicU64,
    /// The time until which answers are not cached.
    unsettled_until: RwLock<Option<Instant>>,
}

impl Generation {
    fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    fn end(&self, settling: Duration) {
        *self.unsettled_until.write().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + settling);
        self.number.fetch_add(1, Ordering::AcqRel);
    }

    fn is_settled(&self, now: Instant) -> bool {
        self.unsettled_until.read().unwrap_or_else(PoisonError::into_inner).is_none_or(|until| until <= now)
    }
}

/// The answers that a question belongs to: all of them, or those in a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerScope(Option<usize>);

#[derive(Clone)]
struct Entry<V> {
    expires: Instant,
    lifetime: Duration,
    value: V,
}

/// Frees the memory of answers that can no longer be reached.
struct Lifetimes;

impl<V> moka::Expiry<Key, Entry<V>> for Lifetimes {
    fn expire_after_create(&self, _: &Key, entry: &Entry<V>, _: std::time::Instant) -> Option<Duration> {
        Some(entry.lifetime)
    }
}

/// The outcome of a look-up that is not cached; shared by the callers who waited for it.
enum Unkept<V, E> {
    Answer(V),
    Error(Arc<E>),
}

impl<V: Clone + Send + Sync + 'static> AnswerCache<V> {
    /// Creates a cache of at most `capacity` answers.
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            entries: moka::future::Cache::builder().max_capacity(capacity).expire_after(Lifetimes).build(),
            secret: Secret::new(),
            all: Generation::default(),
            groups: std::iter::repeat_with(Generation::default).take(GROUPS).collect(),
            group_of: RandomState::new(),
        }
    }

    /// Returns the scope of the questions in a namespace; of all questions without one.
    pub(crate) fn scope(&self, namespace: &str) -> AnswerScope {
        let group = || (self.group_of.hash_one(namespace) % GROUPS as u64) as usize;
        AnswerScope((!namespace.is_empty()).then(group))
    }

    /// Returns the key of a question with these parts; valid until [`Self::forget_all`].
    pub(crate) fn key(&self, parts: &[&[u8]]) -> Key {
        self.key_in(AnswerScope::default(), parts)
    }

    /// Returns the key of a question in a scope; valid until [`Self::forget_all`] or [`Self::forget`].
    pub(crate) fn key_in(&self, scope: AnswerScope, parts: &[&[u8]]) -> Key {
        let generations = [self.all.number(), self.group(scope).map_or(0, Generation::number)].map(u64::to_be_bytes);
        let parts: Vec<&[u8]> = generations.iter().map(|bytes| &bytes[..]).chain(parts.iter().copied()).collect();
        self.secret.hash(&parts)
    }

    /// Forgets every answer, and caches no answer for the time `settling`: the upstream itself may take a moment until its
    /// answers change.
    pub(crate) fn forget_all(&self, settling: Duration) {
        self.all.end(settling);
        self.entries.invalidate_all();
    }

    /// Forgets the answers in a scope, as [`Self::forget_all`] forgets all.
    pub(crate) fn forget(&self, scope: AnswerScope, settling: Duration) {
        match self.group(scope) {
            Some(group) => group.end(settling),
            None => self.forget_all(settling),
        }
    }

    /// The number of times that the answers in the scope were forgotten. `None` while answers are not cached.
    pub(crate) fn generation(&self, scope: AnswerScope) -> Option<u64> {
        let generation = || self.all.number() + self.group(scope).map_or(0, Generation::number);
        self.is_settled(scope, Instant::now()).then(generation)
    }

    fn group(&self, scope: AnswerScope) -> Option<&Generation> {
        self.groups.get(scope.0?)
    }

    fn is_settled(&self, scope: AnswerScope, now: Instant) -> bool {
        self.all.is_settled(now) && self.group(scope).is_none_or(|group| group.is_settled(now))
    }

    /// Returns the cached answer, or the answer of `look_up`, which is cached for its `lifetime`. An answer with a lifetime of
    /// zero is not cached.
    ///
    /// # Errors
    /// If the look-up fails; all callers who waited for the look-up get its error.
    pub(crate) async fn answer<E: Send + Sync + 'static, F: Future<Output = Result<V, E>>>(
        &self,
        key: Key,
        lifetime: impl FnOnce(&V) -> Duration,
        look_up: impl FnOnce() -> F,
    ) -> Result<V, Arc<E>> {
        self.answer_in(AnswerScope::default(), key, lifetime, look_up).await
    }

    /// Returns the answer to a question in a scope, as [`Self::answer`] does.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub(crate) async fn answer_in<E: Send + Sync + 'static, F: Future<Output = Result<V, E>>>(
        &self,
        scope: AnswerScope,
        key: Key,
        lifetime: impl FnOnce(&V) -> Duration,
        look_up: impl FnOnce() -> F,
    ) -> Result<V, Arc<E>> {
        if let Some(entry) = self.entries.get(&key).await {
            if Instant::now() < entry.expires {
                return Ok(entry.value);
            }
            self.entries.invalidate(&key).await;
        }
        // On the heap, because a look-up is a large future, and moka's future would hold several copies.
        let look_up = Box::pin(async {
            let asked = Instant::now();
            let value = look_up().await.map_err(|error| Unkept::Error(Arc::new(error)))?;
            let lifetime = lifetime(&value);
            match !lifetime.is_zero() && self.is_settled(scope, asked) {
                // The lifetime begins with the question, because the answer may be that old.
                true => Ok(Entry { expires: asked + lifetime, lifetime, value }),
                false => Err(Unkept::Answer(value)),
            }
        });
        match self.entries.try_get_with(key, look_up).await {
            Ok(entry) => Ok(entry.value),
            Err(unkept) => match &*unkept {
                Unkept::Answer(value) => Ok(value.clone()),
                Unkept::Error(error) => Err(error.clone()),
            },
        }
    }
}

/// A random secret of this process that goes into every hash, so that no client can find two questions with one hash, or compute
/// a hash beforehand (`tokencache.keyFunc`).
pub(crate) struct Secret([u8; 32]);

impl Secret {
    pub(crate) fn new() -> Self {
        Self(random())
    }

    /// Hashes the parts. Each part is hashed with its length, so that "xy" "z" is not "x" "yz".
    pub(crate) fn hash(&self, parts: &[&[u8]]) -> Key {
        let inner = parts
            .iter()
            .fold(Sha256::new().chain_update(self.0), |hash, part| {
                hash.chain_update((part.len() as u64).to_be_bytes()).chain_update(part)
            })
            .finalize();
        Sha256::new().chain_update(self.0).chain_update(inner).finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const TTL: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_kept_until_it_expires() {
        let (cache, calls) = (AnswerCache::<usize>::new(8), AtomicUsize::new(0));
        let key = cache.key(&[b"x"]);
        let ask = || cache.answer(key, |_| TTL, || async { Ok::<_, ()>(calls.fetch_add(1, Ordering::SeqCst)) });
        assert_eq!(ask().await, Ok(0));
        tokio::time::advance(TTL - Duration::from_millis(1)).await;
        assert_eq!(ask().await, Ok(0));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(ask().await, Ok(1));
    }

    #[tokio::test]
    async fn an_error_is_not_kept() {
        let cache = AnswerCache::<usize>::new(8);
        let key = cache.key(&[b"x"]);
        assert!(cache.answer(key, |_| TTL, || async { Err("down") }).await.is_err());
        assert_eq!(cache.answer(key, |_| TTL, || async { Ok::<_, &str>(1) }).await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn forgotten_answers_are_asked_for_again_and_kept_only_after_a_while() {
        let (cache, calls) = (AnswerCache::<usize>::new(8), AtomicUsize::new(0));
        let ask = || {
            let look_up = || async { Ok::<_, ()>(calls.fetch_add(1, Ordering::SeqCst)) };
            cache.answer(cache.key(&[b"x"]), |_| TTL, look_up)
        };
        assert_eq!((ask().await, ask().await), (Ok(0), Ok(0)));
        cache.forget_all(TTL / 10);
        assert_eq!((ask().await, ask().await), (Ok(1), Ok(2)));
        tokio::time::advance(TTL / 10).await;
        assert_eq!((ask().await, ask().await), (Ok(3), Ok(3)));
    }

    #[tokio::test]
    async fn an_answer_that_was_asked_for_before_all_were_forgotten_is_not_kept() {
        let cache = AnswerCache::<usize>::new(8);
        let forgetting = || async {
            cache.forget_all(Duration::ZERO);
            Ok::<_, ()>(1)
        };
        assert_eq!(cache.answer(cache.key(&[b"x"]), |_| TTL, forgetting).await, Ok(1));
        assert_eq!(cache.answer(cache.key(&[b"x"]), |_| TTL, || async { Ok::<_, ()>(2) }).await, Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn the_answers_of_a_namespace_are_forgotten_alone() {
        let (cache, calls) = (AnswerCache::<usize>::new(64), AtomicUsize::new(0));
        let ask = async |namespace: &str| {
            let look_up = || async { Ok::<_, ()>(calls.fetch_add(1, Ordering::SeqCst)) };
            let scope = cache.scope(namespace);
            cache.answer_in(scope, cache.key_in(scope, &[namespace.as_bytes()]), |_| TTL, look_up).await.unwrap()
        };
        let is_apart = |name: &&str| cache.scope(name) != cache.scope("a");
        let other = ["b", "c", "d", "e"].into_iter().find(is_apart).unwrap();
        let mut seen = Vec::new();
        for namespace in ["a", other, "", "a", other, ""] {
            seen.push(ask(namespace).await);
        }
        assert_eq!(seen, [0, 1, 2, 0, 1, 2]);
        let before = [cache.generation(cache.scope("a")), cache.generation(cache.scope(other))];
        cache.forget(cache.scope("a"), TTL / 10);
        assert_eq!((ask(other).await, ask("").await, ask("a").await, ask("a").await), (1, 2, 3, 4));
        assert_eq!([cache.generation(cache.scope("a")), cache.generation(cache.scope(other))], [None, before[1]]);
        tokio::time::advance(TTL / 10).await;
        assert_eq!((ask("a").await, ask("a").await), (5, 5));
        assert!(cache.generation(cache.scope("a")) > before[0]);
        cache.forget(cache.scope(""), Duration::ZERO);
        assert_eq!((ask("a").await, ask(other).await, ask("").await), (6, 7, 8));
    }

    #[tokio::test]
    async fn an_answer_without_a_lifetime_is_not_kept() {
        let cache = AnswerCache::<usize>::new(8);
        let key = cache.key(&[b"x"]);
        for wanted in [1, 2] {
            let answer = cache.answer(key, |_| Duration::ZERO, || async { Ok::<_, ()>(wanted) }).await;
            assert_eq!(answer, Ok(wanted));
        }
    }

    #[tokio::test]
    async fn the_same_question_is_asked_once_at_a_time() {
        let (cache, calls) = (AnswerCache::<usize>::new(8), AtomicUsize::new(0));
        let key = cache.key(&[b"x"]);
        let ask = || {
            cache.answer(
                key,
                |_| TTL,
                || async {
                    tokio::task::yield_now().await;
                    Ok::<_, ()>(calls.fetch_add(1, Ordering::SeqCst))
                },
            )
        };
        assert_eq!(tokio::join!(ask(), ask(), ask()), (Ok(0), Ok(0), Ok(0)));
    }

    #[test]
    fn parts_do_not_run_together_and_processes_differ() {
        let secret = Secret::new();
        assert_ne!(secret.hash(&[b"xy", b"z"]), secret.hash(&[b"x", b"yz"]));
        assert_ne!(secret.hash(&[b"x"]), Secret::new().hash(&[b"x"]));
    }
}
