//! What evaluations do besides what they cost: bytes that they write, values that they go through.
//!
//! Costs are Kubernetes', and much costs 1 there whatever it comes to: a format that holds a text a thousand times, a list that
//! holds another one twice, which holds another one twice. So there is a bound of our own. It is the thread's, from the outermost
//! [`bounded`] on; without one there is none.

use super::value::Error;
use std::cell::Cell;

/// Bytes that may be written. Among them is all that a call makes which Kubernetes charges for by its length: `split('')` makes 160
/// bytes for each unit of cost, so that `PerCallLimit` ends an expression before this does.
const MAX_BYTES: usize = 256 << 20;
/// What going through one value counts as, bytes.
const LOOK: usize = 8;
/// Bytes that are written in the time in which one byte of a request is decoded: about 100 ns.
const BYTES_FOR_ONE: usize = 32;
/// Bytes of a request that are decoded in the time that one unit of cost takes.
const BYTES_FOR_A_UNIT: usize = 2;

/// The work that may still be done.
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

    /// A bound of so many bytes.
    #[cfg(test)]
    pub fn of_bytes(bytes: usize) -> Self {
        Self { bytes, ..Self::UNBOUNDED }
    }
}

thread_local! {
    static LEFT: Cell<Left> = const { Cell::new(Left::UNBOUNDED) };
}

/// Bounds what is done here, if nothing around it does.
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

/// How much may still be done here, for another thread that goes on with it, and back.
pub fn left() -> Left {
    LEFT.get()
}

/// Goes on with what was left elsewhere.
pub fn resume(left: Left) {
    LEFT.set(left);
}

/// Whether the bound of the brief work around is exceeded, so that [`briefly`] drops the result.
pub fn is_over() -> bool {
    LEFT.get().is_over
}

/// The cost that evaluations may still have here.
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

/// Counts bytes that are about to be written.
///
/// # Errors
/// When they are too many.
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

/// Counts values that are about to be gone through.
///
/// # Errors
/// When they are too many.
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
