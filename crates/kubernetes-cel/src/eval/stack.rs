//! The stack of an evaluation: the caller's, or that of a separate thread for deep expressions.

use crate::work;
use std::cell::Cell;
use std::thread;

/// The number of levels of expressions that fit a caller's stack.
const SHALLOW: usize = 48;
/// The number of levels that a thread's stack has beyond those of its expression: a variable is evaluated at its first use, and may use
/// another variable.
const SPARE: usize = 1024;
/// The bytes of stack for one level.
const LEVEL_BYTES: usize = 24 * 1024;

thread_local! {
    /// The number of levels that still fit.
    static ROOM: Cell<usize> = const { Cell::new(SHALLOW) };
}

/// An evaluation has no stack.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoStack {
    #[error(transparent)]
    Spawn(#[from] std::io::Error),
    #[error("it panicked")]
    Panic,
}

/// Runs an evaluation that needs `levels` levels of stack.
///
/// # Errors
/// If no thread can be started, or if it panics.
pub(super) fn with_room_for<T: Send>(levels: usize, evaluate: impl FnOnce() -> T + Send) -> Result<T, NoStack> {
    // The evaluation itself takes one more level.
    if let Some(rest) = ROOM.get().checked_sub(levels + 1) {
        let before = ROOM.replace(rest);
        let outcome = evaluate();
        ROOM.set(before);
        return Ok(outcome);
    }
    let left = work::left();
    let evaluate = || {
        ROOM.set(SPARE);
        work::resume(left);
        (evaluate(), work::left())
    };
    let (outcome, left) = thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size((levels + SHALLOW + SPARE) * LEVEL_BYTES);
        thread.spawn_scoped(scope, evaluate)?.join().map_err(|_| NoStack::Panic)
    })?;
    work::resume(left);
    Ok(outcome)
}
