//! The stack that an evaluation is on: the caller's, or that of a thread of its own for what is deep.

use crate::work;
use std::cell::Cell;
use std::thread;

/// How many levels of expressions there is room for on a caller's stack.
const SHALLOW: usize = 48;
/// How many there is room for on a thread's, besides those that it was made for: a variable is evaluated where it is asked for,
/// and may be made of another one.
const SPARE: usize = 1024;
/// Room for one level.
const LEVEL_BYTES: usize = 24 * 1024;

thread_local! {
    /// How many levels there is room for yet.
    static ROOM: Cell<usize> = const { Cell::new(SHALLOW) };
}

/// Does what goes so many levels down.
///
/// # Errors
/// When there is no thread to be had, or it panicked.
pub(super) fn with_room_for<T: Send>(levels: usize, evaluate: impl FnOnce() -> T + Send) -> Result<T, String> {
    // The evaluation itself is one more.
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
        let thread = thread.spawn_scoped(scope, evaluate).map_err(|error| error.to_string())?;
        thread.join().map_err(|_| "it panicked".to_owned())
    })?;
    work::resume(left);
    Ok(outcome)
}
