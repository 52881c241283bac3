//! `--max-requests-inflight` and `--max-mutating-requests-inflight`: who comes on top is told to come back.

use crate::request::RequestInfo;
use crate::status::{Details, Status};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Seats for requests that are neither watches nor upgrades (`filters.WithMaxInFlightLimit`).
pub struct InFlight {
    reads: Option<Arc<Semaphore>>,
    writes: Option<Arc<Semaphore>>,
}

/// A seat, given back when it is dropped.
pub(super) struct Seat {
    _permit: Option<OwnedSemaphorePermit>,
}

impl InFlight {
    /// So many reads and writes at a time; 0 is any number.
    pub fn new(reads: usize, writes: usize) -> Self {
        let seats = |count: usize| (count > 0).then(|| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS))));
        Self { reads: seats(reads), writes: seats(writes) }
    }

    /// Takes a seat.
    ///
    /// # Errors
    /// 429 when none is left.
    pub(super) fn enter(&self, info: &RequestInfo) -> Result<Seat, Status> {
        if info.is_long_running() {
            return Ok(Seat { _permit: None });
        }
        let is_read = matches!(info.verb.as_str(), "get" | "list" | "watch" | "head" | "options");
        let Some(seats) = (if is_read { &self.reads } else { &self.writes }) else { return Ok(Seat { _permit: None }) };
        match seats.clone().try_acquire_owned() {
            Ok(permit) => Ok(Seat { _permit: Some(permit) }),
            Err(_) => {
                let status = Status::failure(429, "TooManyRequests", "Too many requests, please try again later.");
                Err(status.with_details(Details { retry_after_seconds: 1, ..Details::default() }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(verb: &str) -> RequestInfo {
        RequestInfo { verb: verb.into(), ..RequestInfo::default() }
    }

    #[test]
    fn refuses_who_comes_on_top_until_a_seat_is_free() {
        let in_flight = InFlight::new(0, 1);
        let seat = in_flight.enter(&info("create")).unwrap_or_else(|_| unreachable!());
        assert_eq!(in_flight.enter(&info("update")).err().unwrap().code, 429);
        assert!(in_flight.enter(&info("get")).is_ok());
        drop(seat);
        assert!(in_flight.enter(&info("update")).is_ok());
    }

    #[test]
    fn lets_watches_in_without_a_seat() {
        let in_flight = InFlight::new(1, 1);
        let _seat = in_flight.enter(&info("list"));
        assert!(in_flight.enter(&info("watch")).is_ok());
    }
}
