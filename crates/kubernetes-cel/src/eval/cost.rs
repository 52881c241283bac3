//! The cost of an evaluation: `CostTracker` of cel-go.
//!
//! cel-go keeps a stack of observed values and finds a call's arguments there by the numbers of their expressions; a call whose arguments
//! are missing costs nothing. The costs depend on the entries that stay on the stack or are dropped with an entry below them. Therefore
//! this stack exists here too, without the values.

use crate::value::Error;

/// `ListCreateBaseCost` of cel-go.
pub(super) const LIST_CREATION: u64 = 10;
/// `MapCreateBaseCost`.
pub(super) const MAP_CREATION: u64 = 30;
/// `StructCreateBaseCost`.
pub(super) const STRUCT_CREATION: u64 = 40;

/// The absence of an entry.
const NONE: u32 = u32::MAX;

pub(super) struct Tracker {
    pub cost: u64,
    limit: u64,
    /// The numbers, each with the position of the previous entry of that number.
    stack: Vec<(u32, u32)>,
    /// The last position of each number on the stack.
    last: Vec<u32>,
}

impl Tracker {
    pub(super) fn new(nodes: usize, limit: u64) -> Self {
        Self { cost: 0, limit, stack: Vec::with_capacity(nodes), last: vec![NONE; nodes] }
    }

    #[inline]
    pub(super) fn add(&mut self, cost: u64) {
        self.cost = self.cost.saturating_add(cost);
    }

    /// Checks that the limit allows this additional cost. Adds the cost if not, since the call was attempted.
    pub(super) fn affords(&mut self, cost: u64) -> Result<(), Error> {
        if self.cost.saturating_add(cost) <= self.limit {
            return Ok(());
        }
        self.add(cost);
        Err(Error::CostLimit)
    }

    /// Pushes an observed value's number, and checks the limit.
    #[inline]
    pub(super) fn observe(&mut self, id: u32) -> Result<(), Error> {
        self.push(id);
        if self.cost > self.limit { Err(Error::CostLimit) } else { Ok(()) }
    }

    /// Pushes an observed value's number, without checking the limit.
    #[inline]
    pub(super) fn push(&mut self, id: u32) {
        if let Some(last) = self.last.get_mut(id as usize) {
            self.stack.push((id, *last));
            *last = self.stack.len() as u32 - 1;
        }
    }

    /// Removes a number and all entries above it. Returns false if the number is not on the stack.
    #[inline]
    pub(super) fn drop(&mut self, id: u32) -> bool {
        let Some(&position) = self.last.get(id as usize) else { return false };
        if position == NONE {
            return false;
        }
        while self.stack.len() > position as usize {
            let Some((id, before)) = self.stack.pop() else { break };
            if let Some(last) = self.last.get_mut(id as usize) {
                *last = before;
            }
        }
        true
    }

    /// Removes the arguments of a call, the last one first. Stops at a missing argument and returns false.
    #[inline]
    pub(super) fn drop_arguments(&mut self, ids: impl DoubleEndedIterator<Item = u32>) -> bool {
        ids.rev().all(|id| self.drop(id))
    }
}
