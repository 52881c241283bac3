//! Repeated calls after growing pauses (`webhook.WithExponentialBackoff`).

use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The number of attempts (`Steps`).
const ATTEMPTS: usize = 5;
/// The factor between one pause and the next.
const FACTOR: f64 = 1.5;
/// The maximum fraction by which a pause is extended at random.
const JITTER: f64 = 0.2;

/// Calls until a call succeeds, fails for good, or has failed often enough, or until the deadline. Returns the last result.
pub(crate) async fn with_exponential_backoff<T, E, F: Future<Output = Result<T, E>>>(
    first_pause: Duration,
    deadline: Instant,
    is_transient: impl Fn(&E) -> bool,
    mut call: impl FnMut() -> F,
) -> Result<T, E> {
    let mut pause = first_pause;
    for _ in 1..ATTEMPTS {
        let failure = match call().await {
            Err(failure) if is_transient(&failure) => failure,
            settled => return settled,
        };
        let jittered = pause.mul_f64(1.0 + JITTER * rand::random_range(0.0..1.0));
        sleep(jittered.min(deadline.saturating_duration_since(Instant::now()))).await;
        if Instant::now() >= deadline {
            return Err(failure);
        }
        pause = pause.mul_f64(FACTOR);
    }
    call().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::ready;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_by_half_and_a_little_at_random() {
        let mut at = Vec::new();
        let start = Instant::now();
        let result = with_exponential_backoff(
            Duration::from_secs(1),
            start + Duration::from_secs(60),
            |_| true,
            || {
                at.push(start.elapsed().as_secs_f64());
                ready(Err::<(), _>("busy"))
            },
        );
        assert!(result.await.is_err());
        assert_eq!(at.len(), ATTEMPTS);
        for (pause, least) in at.windows(2).map(|pair| pair[1] - pair[0]).zip([1.0, 1.5, 2.25, 3.375]) {
            // The paused clock has a resolution of milliseconds.
            assert!((least..=least * 1.2 + 0.002).contains(&pause), "{at:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_pause_lasts_past_the_deadline() {
        let (start, mut calls) = (Instant::now(), 0);
        let deadline = start + Duration::from_secs(2);
        let result = with_exponential_backoff(
            Duration::from_secs(1),
            deadline,
            |_| true,
            || {
                calls += 1;
                ready(Err::<(), _>("reset"))
            },
        );
        assert_eq!(result.await.unwrap_err(), "reset");
        assert_eq!((calls, start.elapsed()), (2, Duration::from_secs(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_pause_of_zero_makes_all_of_them_zero() {
        let (start, mut calls) = (Instant::now(), 0);
        let deadline = start + Duration::from_secs(2);
        let result = with_exponential_backoff(
            Duration::ZERO,
            deadline,
            |_| true,
            || {
                calls += 1;
                ready(if calls == 4 { Ok(calls) } else { Err("busy") })
            },
        );
        assert_eq!((result.await.unwrap(), start.elapsed()), (4, Duration::ZERO));
    }

    #[tokio::test]
    async fn a_failure_for_good_is_the_last() {
        let mut calls = 0;
        let deadline = Instant::now() + Duration::from_secs(60);
        let result = with_exponential_backoff(
            Duration::ZERO,
            deadline,
            |failure| *failure == 1,
            || {
                calls += 1;
                ready(Err::<(), _>(calls))
            },
        );
        assert_eq!(result.await, Err(2));
    }
}
