//! A cache of the backend's answers.

use super::review::Verdict;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The number of cached answers (`NewLRUExpireCache(1024)`).
const ENTRIES: usize = 1024;

/// The answers, by the hash of the review's spec, because the length of a spec is not bounded.
pub(super) struct Answers {
    allow_ttl: Duration,
    deny_ttl: Duration,
    entry_bytes: usize,
    cache: Cache<[u8; 32], (Arc<Verdict>, Instant)>,
}

impl Answers {
    /// An empty cache of about `bytes` bytes. An answer that is longer than its share is not cached.
    pub(super) fn new(allow_ttl: Duration, deny_ttl: Duration, bytes: usize) -> Self {
        let entries = u64::try_from(ENTRIES).unwrap_or(u64::MAX);
        let cache = Cache::builder().max_capacity(entries).eviction_policy(EvictionPolicy::lru()).build();
        Self { allow_ttl, deny_ttl, entry_bytes: bytes / ENTRIES, cache }
    }

    /// The answer about the spec, unless the answer has expired.
    pub(super) fn of(&self, spec: &str) -> Option<Arc<Verdict>> {
        let key = key(spec);
        let (verdict, until) = self.cache.get(&key)?;
        if Instant::now() < until {
            return Some(verdict);
        }
        self.cache.invalidate(&key);
        None
    }

    /// Caches the answer about the spec.
    pub(super) fn remember(&self, spec: &str, verdict: &Arc<Verdict>) {
        let ttl = if verdict.allowed { self.allow_ttl } else { self.deny_ttl };
        if !ttl.is_zero() && verdict.size() <= self.entry_bytes {
            self.cache.insert(key(spec), (verdict.clone(), Instant::now() + ttl));
        }
    }
}

fn key(spec: &str) -> [u8; 32] {
    Sha256::digest(spec.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn verdict(allowed: bool, reason: &str) -> Arc<Verdict> {
        Arc::new(Verdict { allowed, reason: reason.into(), ..Verdict::default() })
    }

    #[tokio::test(start_paused = true)]
    async fn a_yes_and_a_no_are_remembered_for_different_times() {
        let answers = Answers::new(Duration::from_secs(5), Duration::from_secs(2), 1 << 20);
        answers.remember("yes", &verdict(true, ""));
        answers.remember("no", &verdict(false, "why"));
        tokio::time::advance(Duration::from_millis(1999)).await;
        assert_eq!(answers.of("no"), Some(verdict(false, "why")));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(answers.of("no"), None);
        assert_eq!(answers.of("yes"), Some(verdict(true, "")));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(answers.of("yes"), None);
        assert_eq!(answers.of("other"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_without_a_lifetime_is_not_remembered() {
        let answers = Answers::new(Duration::ZERO, HOUR, 1 << 20);
        answers.remember("s", &verdict(true, ""));
        assert_eq!(answers.of("s"), None);
    }

    #[test]
    fn the_memory_of_answers_is_bounded() {
        let answers = Answers::new(HOUR, HOUR, 10 * ENTRIES);
        answers.remember("short", &verdict(false, "0123456789"));
        answers.remember("long", &verdict(false, "0123456789a"));
        assert!(answers.of("short").is_some());
        assert!(answers.of("long").is_none());
        for number in 0..2 * ENTRIES {
            answers.remember(&number.to_string(), &verdict(true, ""));
        }
        answers.cache.run_pending_tasks();
        assert!(answers.cache.entry_count() <= ENTRIES as u64);
        assert!(answers.of("short").is_none());
    }
}
