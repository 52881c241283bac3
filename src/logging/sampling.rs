//! The lines that clients cause at will: few for each sharer, and few for all.

use crate::sharer::Sharer;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time in which a sharer causes a number of lines.
const PERIOD: Duration = Duration::from_secs(60);

/// The lines of one kind.
pub(crate) struct Sampling {
    sharers: usize,
    lines: usize,
    caused: Mutex<HashMap<Sharer, Lines>>,
}

/// The lines that a sharer caused.
struct Lines {
    since: Instant,
    written: usize,
    left_out: u64,
}

impl Sampling {
    /// In a minute so many sharers cause so many lines each.
    pub(crate) fn new(sharers: usize, lines: usize) -> Self {
        Self { sharers, lines, caused: Mutex::default() }
    }

    /// Whether the sharer may cause a line now; if so, the number of its lines that were left out before.
    pub(crate) fn take(&self, sharer: Sharer, now: Instant) -> Option<u64> {
        let mut all = self.caused.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains_key(&sharer) && all.len() >= self.sharers {
            all.retain(|_, lines| now.duration_since(lines.since) < PERIOD);
            if all.len() >= self.sharers {
                return None;
            }
        }
        let lines = all.entry(sharer).or_insert(Lines { since: now, written: 0, left_out: 0 });
        if now.duration_since(lines.since) >= PERIOD {
            (lines.since, lines.written) = (now, 0);
        }
        if lines.written == self.lines {
            lines.left_out += 1;
            return None;
        }
        lines.written += 1;
        Some(std::mem::take(&mut lines.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARERS: usize = 100;
    const LINES: usize = 20;

    fn sampling() -> (Sampling, Instant) {
        (Sampling::new(SHARERS, LINES), Instant::now())
    }

    #[test]
    fn a_user_causes_few_lines_and_silences_nobody() {
        let (sampling, now) = sampling();
        let user = Sharer::named;
        let taken = (0..LINES + 5).filter(|_| sampling.take(user("a"), now).is_some()).count();
        assert_eq!(taken, LINES);
        assert_eq!(sampling.take(user("b"), now), Some(0));
        assert_eq!(sampling.take(user("a"), now + PERIOD), Some(5));
        assert_eq!(sampling.take(user("a"), now + PERIOD), Some(0));
    }

    #[test]
    fn service_accounts_of_a_namespace_are_one() {
        let (sampling, now) = sampling();
        let account = |number: usize| Sharer::named(&format!("system:serviceaccount:a:{number}"));
        let taken = (0..2 * LINES).filter(|number| sampling.take(account(*number), now).is_some()).count();
        assert_eq!(taken, LINES);
    }

    #[test]
    fn many_users_cause_a_bounded_number_of_lines() {
        let (sampling, now) = sampling();
        let user = |number: usize| Sharer::named(&number.to_string());
        let taken = (0..5 * SHARERS).filter(|number| sampling.take(user(*number), now).is_some()).count();
        assert_eq!(taken, SHARERS);
        assert_eq!(sampling.take(Sharer::named("later"), now + PERIOD), Some(0));
    }
}
