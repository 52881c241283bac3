//! The rest of a transaction, done after it without the lock: large objects take time to write and to free.

use super::{Change, Collection};
use crate::object::Object;
use std::sync::Arc;

#[derive(Default)]
pub(super) struct Leftovers {
    /// Objects that only the history kept parsed.
    pub(super) unpacked: Vec<(Collection, String, Arc<Object>)>,
    /// Changes that nobody needs.
    pub(super) changes: Vec<Arc<Change>>,
}
