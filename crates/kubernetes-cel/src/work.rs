//! Bounds on the work of evaluations that their cost does not cover: bytes that they write, values that they visit.
//!
//! Costs are Kubernetes', in which many calls cost 1 whatever their size: a format that contains a text a thousand times, a list that
//! contains another list twice, which contains another list twice. Therefore the proxy has a bound of its own. The bound belongs to the
//! thread, from the outermost [`bounded`] on; outside of [`bounded`] there is no bound.

use super::error::Error;
use std::cell::Cell;

/// The number of bytes that may be written, including the results of calls for which Kubernetes charges by length: `split('')` makes 160
/// bytes for each unit of cost, so that `PerCallLimit` ends an expression before this bound does.
const MAX_BYTES: usize = 256 << 20;
/// The bytes that a visit of one value counts as.
const LOOK: usize = 8;
/// The number of bytes that are written in the time in which one byte of a request is decoded: about 100 ns.
const BYTES_FOR_ONE: usize = 32;
/// The number of bytes of a request that are decoded in the time of one unit of cost.
const BYTES_FOR_A_UNIT: usize = 2;

/// The work that is left.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    bytes: usize,
    cost: u64,
    /// Whether the bound of brief work is exceeded.
    is_over: bool,
}

impl Left {
    const UNBOUNDED: Self = Self { bytes: usize::MAX, cost: u64::MAX, is_over: false };
    const BOUNDED: Self = Self { bytes: MAX_BYTES, ..Self::UNBOUNDED };

    fn is_brief(self) -> bool {
        self.cost != u64::MAX
    }

    /// A bound of `bytes` bytes.
    #[cfg(test)]
    pub fn of_bytes(bytes: usize) -> Self {
        Self { bytes, ..Self::UNBOUNDED }
    }
}

thread_local! {
    static LEFT: Cell<Left> = const { Cell::new(Left::UNBOUNDED) };
}

/// Bounds the work, unless a surrounding bound exists.
pub fn bounded<T>(work: impl FnOnce() -> T) -> T {
    match LEFT.get().bytes {
        usize::MAX => within(Left::BOUNDED, work).0,
        _ => work(),
    }
}

/// Does work that takes no longer than the decoding of `bytes` of a request. Returns the result and the bytes that are left, or `None` if
/// the work exceeded its bound: a result can then be wrong, because an expression can turn the error of the bound into a value.
pub fn briefly<T>(bytes: usize, work: impl FnOnce() -> T) -> Option<(T, usize)> {
    let cost = u64::try_from(bytes / BYTES_FOR_A_UNIT).unwrap_or(u64::MAX);
    let bound = Left { bytes: bytes.saturating_mul(BYTES_FOR_ONE), cost, is_over: false };
    let (result, left) = within(bound, work);
    let by_cost = usize::try_from(cost - left.cost).unwrap_or(usize::MAX).saturating_mul(BYTES_FOR_A_UNIT);
    let used = by_cost.saturating_add((bound.bytes - left.bytes).div_ceil(BYTES_FOR_ONE));
    (!left.is_over).then_some((result, bytes.saturating_sub(used)))
}

fn within<T>(left: Left, work: impl FnOnce() -> T) -> (T, Left) {
    struct Restore(Left);
    impl Drop for Restore {
        fn drop(&mut self) {
            LEFT.set(self.0);
        }
    }
    let _restore = Restore(LEFT.replace(left));
    let result = work();
    (result, LEFT.get())
}

/// The work that is left on this thread, to hand it to another thread and back.
pub fn left() -> Left {
    LEFT.get()
}

/// Sets the work that is left on this thread.
pub fn resume(left: Left) {
    LEFT.set(left);
}

/// Whether the bound of the surrounding [`briefly`] is exceeded, so that its result is dropped.
pub fn is_over() -> bool {
    LEFT.get().is_over
}

/// The cost that evaluations on this thread may still have.
pub fn cost_left() -> u64 {
    LEFT.get().cost
}

/// Counts the cost of an evaluation.
pub fn spend(cost: u64) {
    let left = LEFT.get();
    if left.is_brief() {
        LEFT.set(Left { cost: left.cost.saturating_sub(cost), is_over: left.is_over || cost > left.cost, ..left });
    }
}

/// Counts bytes before they are written.
///
/// # Errors
/// If the bytes exceed the bound.
pub fn write(bytes: usize) -> Result<(), Error> {
    let left = LEFT.get();
    if left.bytes == usize::MAX {
        return Ok(());
    }
    let is_too_much = bytes > left.bytes;
    let is_over = left.is_over || is_too_much && left.is_brief();
    LEFT.set(Left { bytes: left.bytes.saturating_sub(bytes), is_over, ..left });
    if is_too_much { Err(Error::CostLimit) } else { Ok(()) }
}

/// Counts values before they are visited.
///
/// # Errors
/// If the values exceed the bound.
pub fn look(values: usize) -> Result<(), Error> {
    write(values.saturating_mul(LOOK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_bound_counts() {
        let much = MAX_BYTES / 2 + 1;
        assert_eq!((write(much), write(much)), (Ok(()), Ok(())));
        for _ in 0..2 {
            bounded(|| {
                assert_eq!(bounded(|| write(much)), Ok(()));
                assert_eq!(bounded(|| write(much)), Err(Error::CostLimit));
                assert_eq!(look(1), Err(Error::CostLimit));
            });
        }
        assert_eq!(write(much), Ok(()));
    }

    #[test]
    fn brief_work_has_no_result_past_its_bound() {
        let most = 100 * BYTES_FOR_ONE;
        assert_eq!(briefly(100, || write(most)), Some((Ok(()), 0)));
        assert_eq!(briefly(100, || write(most + 1).is_ok()), None);
        assert_eq!(briefly(100, || write(BYTES_FOR_ONE + 1)), Some((Ok(()), 98)));
        let costs = |costs: [u64; 2]| briefly(100, || costs.into_iter().for_each(spend));
        assert_eq!(costs([1, 9]), Some(((), 100 - 10 * BYTES_FOR_A_UNIT)));
        assert_eq!(costs([1, 49]), Some(((), 0)));
        assert_eq!(costs([1, 50]), None);
        assert!(!is_over());
        assert_eq!(bounded(|| (write(MAX_BYTES + 1), is_over())), (Err(Error::CostLimit), false));
    }
}
