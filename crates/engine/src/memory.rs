//! What a decision changes in the memory of its key.

/// The memory of a key after a decision.
///
/// A write may fail, or its answer may be lost: what it stands for is remembered only once every effect was applied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryUpdate<M> {
    /// What was learned by looking, e.g. since when something is missing; stored always.
    pub observed: M,
    /// The same, and what the plan changes; stored only when every effect of the plan was applied.
    pub applied: M,
}

impl<M: Clone> MemoryUpdate<M> {
    /// An update by looking alone.
    pub fn observed(observed: M) -> Self {
        Self {
            applied: observed.clone(),
            observed,
        }
    }
}
