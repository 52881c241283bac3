//! What an evaluation costs: `CostTracker` of cel-go.
//!
//! cel-go finds the arguments of a call again on a stack of what was observed, by the numbers of their expressions, and a call
//! whose arguments it does not find costs nothing. What stays on the stack, and what is dropped with something below it, is
//! part of what costs come to; so the stack is here, without the values.

use crate::value::Error;

/// `ListCreateBaseCost` of cel-go.
pub const LIST_CREATION: u64 = 10;
/// `MapCreateBaseCost`.
pub const MAP_CREATION: u64 = 30;
/// `StructCreateBaseCost`.
pub const STRUCT_CREATION: u64 = 40;

/// No entry.
const NONE: u32 = u32::MAX;

pub struct Tracker {
    pub cost: u64,
    limit: u64,
    /// The numbers, each with where the same number is further down.
    stack: Vec<(u32, u32)>,
    /// Where each number is last on the stack.
    last: Vec<u32>,
}

impl Tracker {
    pub fn new(nodes: usize, limit: u64) -> Self {
        Self { cost: 0, limit, stack: Vec::with_capacity(nodes), last: vec![NONE; nodes] }
    }

    #[inline]
    pub fn add(&mut self, cost: u64) {
        self.cost = self.cost.saturating_add(cost);
    }

    /// Whether so much may still be added. It is added if not, as what is refused has been asked for.
    pub fn affords(&mut self, cost: u64) -> Result<(), Error> {
        if self.cost.saturating_add(cost) <= self.limit {
            return Ok(());
        }
        self.add(cost);
        Err(Error::CostLimit)
    }

    /// Puts what was observed on the stack, and looks at the limit.
    #[inline]
    pub fn observe(&mut self, id: u32) -> Result<(), Error> {
        self.push(id);
        if self.cost > self.limit { Err(Error::CostLimit) } else { Ok(()) }
    }

    /// Puts what was observed on the stack, where nothing was counted.
    #[inline]
    pub fn push(&mut self, id: u32) {
        if let Some(last) = self.last.get_mut(id as usize) {
            self.stack.push((id, *last));
            *last = self.stack.len() as u32 - 1;
        }
    }

    /// Takes a number and everything above it from the stack, if it is there.
    #[inline]
    pub fn drop(&mut self, id: u32) -> bool {
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

    /// Takes the arguments of a call from the stack, the last one first. Stops at one that is not there.
    #[inline]
    pub fn drop_arguments(&mut self, ids: impl DoubleEndedIterator<Item = u32>) -> bool {
        ids.rev().all(|id| self.drop(id))
    }
}
