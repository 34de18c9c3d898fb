//! A write whose answer is awaited.

use super::PlaneAccess;
use crate::plan::Target;

/// A write in flight. Dropping it without an answer, e.g. because its task is cancelled, calls
/// [`PlaneAccess::write_unresolved`].
pub(super) struct InFlightWrite<'a> {
    pub(super) surroundings: &'a dyn PlaneAccess,
    pub(super) target: &'a Target,
    pub(super) answered: bool,
}

impl Drop for InFlightWrite<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.surroundings.write_unresolved(self.target);
        }
    }
}
