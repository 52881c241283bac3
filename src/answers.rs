//! A bounded cache of the upstream's answers: each question has one look-up at a time, and errors are never cached. All answers
//! can be forgotten at once.

use rand::random;
use sha2::{Digest, Sha256};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::time::Instant;

/// A question, hashed: neither tokens nor long attributes stay in memory.
pub(crate) type Key = [u8; 32];

/// A cache of answers. Callers with the same question share one look-up.
pub(crate) struct AnswerCache<V> {
    entries: moka::future::Cache<Key, Entry<V>>,
    secret: Secret,
    /// Part of each key: a new generation makes all earlier answers unreachable, pending ones too.
    generation: AtomicU64,
    /// The time until which answers are not cached.
    unsettled_until: RwLock<Option<Instant>>,
}

#[derive(Clone)]
struct Entry<V> {
    expires: Instant,
    value: V,
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
            entries: moka::future::Cache::new(capacity),
            secret: Secret::new(),
            generation: AtomicU64::new(0),
            unsettled_until: RwLock::default(),
        }
    }

    /// Returns the key of a question with these parts; valid until [`Self::forget_all`].
    pub(crate) fn key(&self, parts: &[&[u8]]) -> Key {
        let generation = self.generation.load(Ordering::Acquire).to_be_bytes();
        let parts: Vec<&[u8]> = std::iter::once(&generation[..]).chain(parts.iter().copied()).collect();
        self.secret.hash(&parts)
    }

    /// Forgets every answer, and caches no answer for the time `settling`: the upstream itself may take a moment until its
    /// answers change.
    pub(crate) fn forget_all(&self, settling: Duration) {
        let until = Instant::now() + settling;
        *self.unsettled_until.write().unwrap_or_else(PoisonError::into_inner) = Some(until);
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.entries.invalidate_all();
    }

    /// The number of times that all answers were forgotten. `None` while answers are not cached.
    pub(crate) fn generation(&self) -> Option<u64> {
        self.is_settled(Instant::now()).then(|| self.generation.load(Ordering::Acquire))
    }

    fn is_settled(&self, now: Instant) -> bool {
        self.unsettled_until.read().unwrap_or_else(PoisonError::into_inner).is_none_or(|until| until <= now)
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
            match !lifetime.is_zero() && self.is_settled(asked) {
                // The lifetime begins with the question, because the answer may be that old.
                true => Ok(Entry { expires: asked + lifetime, value }),
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
