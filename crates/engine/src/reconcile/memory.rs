//! The change that a decision makes to the in-memory state of its key.

/// The in-memory state of a key after a decision.
///
/// A write may fail, or its response may be lost: the state that depends on a write is stored only after every effect
/// was applied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryUpdate<M> {
    /// State learned from observation, e.g. since when an object is missing; always stored.
    pub observed: M,
    /// `observed` plus the changes of the plan; stored only if every effect of the plan was applied.
    pub applied: M,
}

impl<M: Clone> MemoryUpdate<M> {
    /// An update from observation alone.
    pub fn observed(observed: M) -> Self {
        Self {
            applied: observed.clone(),
            observed,
        }
    }
}
