//! Answers of the upstream, believed for a while: bounded, one question at a time each, errors never kept.

use rand::random;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A question, hashed: neither tokens nor long attributes stay in memory.
pub(crate) type Key = [u8; 32];

/// A cache of answers. Callers with the same question share one look-up.
pub(crate) struct AnswerCache<V> {
    entries: moka::future::Cache<Key, Entry<V>>,
    secret: Secret,
}

#[derive(Clone)]
struct Entry<V> {
    expires: Instant,
    value: V,
}

impl<V: Clone + Send + Sync + 'static> AnswerCache<V> {
    /// A cache of at most so many answers.
    pub(crate) fn new(capacity: u64) -> Self {
        Self { entries: moka::future::Cache::new(capacity), secret: Secret::new() }
    }

    /// The key of a question made of these parts.
    pub(crate) fn key(&self, parts: &[&[u8]]) -> Key {
        self.secret.hash(parts)
    }

    /// The answer that is kept, or else what `look_up` finds, kept as long as `lifetime` says.
    ///
    /// # Errors
    /// The look-up's own, shared by all who waited for it.
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
        // On the heap: a look-up is a large future, of which moka's own would hold several copies.
        let look_up = Box::pin(async {
            let value = look_up().await?;
            Ok(Entry { expires: Instant::now() + lifetime(&value), value })
        });
        self.entries.try_get_with(key, look_up).await.map(|entry| entry.value)
    }
}

/// What hashes depend on in this process alone, so that nobody outside can find two questions of one hash, or compute
/// one beforehand (`tokencache.keyFunc`).
pub(super) struct Secret([u8; 32]);

impl Secret {
    pub(super) fn new() -> Self {
        Self(random())
    }

    /// Each part goes in with its length, so that "xy" "z" is not "x" "yz".
    pub(super) fn hash(&self, parts: &[&[u8]]) -> Key {
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
