//! The attempts of a write. A write is prepared without the lock of the store, and starts over if what it depends on has changed meanwhile
//! (`GuaranteedUpdate`).

use crate::embedded::http::call::Call;
use crate::embedded::store::State;
use crate::embedded::strategies;
use crate::processor;
use crate::status::{OPTIMISTIC_LOCK, Status};
use crate::turns::Turn;
use tokio::time::Instant;

/// The attempts of one write. From the second attempt on, the writes of one object follow each other, so that an object that takes long to
/// prepare gets its turn.
pub(in crate::embedded) struct Attempts<'a> {
    call: &'a Call,
    turn: Option<Turn<'a>>,
    made: usize,
}

impl<'a> Attempts<'a> {
    pub(in crate::embedded) fn new(call: &'a Call) -> Self {
        Self { call, turn: None, made: 0 }
    }

    /// Waits for the turn of the object for a further attempt.
    ///
    /// # Errors
    /// 409 after too many attempts, or 429 for a create, which no other write of the object can be in conflict with. kube-apiserver goes on until
    /// the request times out.
    pub(in crate::embedded) async fn start_over(&mut self) -> Result<(), Status> {
        let Call { server, resource, info, .. } = self.call;
        let limits = &server.limits;
        self.made += 1;
        if self.made >= limits.conflict_retries {
            if info.verb == "create" {
                return Err(Status::try_again_later());
            }
            return Err(Status::conflict(&resource.group, &resource.name, &info.name, OPTIMISTIC_LOCK));
        }
        if self.turn.is_none() {
            let collection = self.call.collection();
            let key = if Basis::is_needed(self.call) { String::new() } else { self.call.key() };
            self.turn = server.store.turns.wait((collection, key), Instant::now() + limits.conflict_wait).await;
        }
        Ok(())
    }
}

/// The state of a collection on which a write depends as a whole.
#[derive(Clone, Copy)]
pub(in crate::embedded) struct Basis(Option<u64>);

impl Basis {
    /// Whether the call writes to a collection whose objects depend on each other.
    pub(in crate::embedded) fn is_needed(call: &Call) -> bool {
        strategies::of(&call.resource).depends_on_others()
    }

    /// The current state.
    pub(in crate::embedded) fn of(call: &Call) -> Self {
        Self(Self::is_needed(call).then(|| call.server.store.with(|state| state.changed(call.collection()))))
    }

    /// Whether the state is still the same.
    pub(in crate::embedded) fn holds(self, call: &Call, state: &State) -> bool {
        self.0.is_none_or(|changed| changed == state.changed(call.collection()))
    }
}

/// Announces the work on a write, in which the stored object has so many bytes. Long work leaves the worker.
pub(in crate::embedded) async fn expect(call: &Call, stored: usize) {
    // Expressions and schemas take longer to compile than their bytes say.
    if strategies::of(&call.resource).takes_long() {
        return processor::expect_long().await;
    }
    processor::expect(call.body.len().saturating_add(stored)).await;
}
