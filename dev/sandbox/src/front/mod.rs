//! Shared parts of the sandbox's fronts: processes before API servers that answer some requests themselves and pass all
//! others on. [`serve`] takes connections and says who asks; [`pass`] sends a request on; [`refusal`] has the answers of a
//! front's own.

pub(super) mod certificate;
pub(super) mod identity;
pub(super) mod pass;
pub(super) mod refusal;
pub(super) mod serve;
pub(super) mod upstream;
