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
const UNBOUNDED: usize = usize::MAX;

thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(UNBOUNDED) };
}

/// Bounds what is done here, if nothing around it does.
pub fn bounded<T>(work: impl FnOnce() -> T) -> T {
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            LEFT.set(self.0);
        }
    }
    let _unbounded = (LEFT.get() == UNBOUNDED).then(|| Restore(LEFT.replace(MAX_BYTES)));
    work()
}

/// How much may still be done here, for another thread that goes on with it, and back.
pub fn left() -> usize {
    LEFT.get()
}

/// Goes on with what was left elsewhere.
pub fn resume(left: usize) {
    LEFT.set(left);
}

/// Counts bytes that are about to be written.
///
/// # Errors
/// When they are too many.
pub fn write(bytes: usize) -> Result<(), Error> {
    match LEFT.get() {
        UNBOUNDED => Ok(()),
        left => {
            LEFT.set(left.saturating_sub(bytes));
            if bytes <= left { Ok(()) } else { Err(Error::CostLimit) }
        }
    }
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
}
