//! Instance control: which Instances a deployment should have, and what is to be done next so that it has them
//! (contract: cell.md §2.2). A library of values and pure functions: it knows no server and no clock.
//!
//! [`plan`] takes a deployment and its Instances and returns every step that is left to do, in order, each with its
//! reason, and says which of them may be done now. What may not is what people ask about when nothing seems to happen.

pub mod hash;
pub mod labels;
pub mod make;
mod order;
pub mod ordinal;

#[cfg(test)]
mod tests;

use crate::api::{ManagementPolicy, Reason};
use labels::{Labels, Linking};
use serde_json::Value;
use std::{fmt, sync::Arc};

/// What a deployment asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    /// Its name, the first part of its Instances' names.
    pub name: Arc<str>,
    /// Its UID: Instances of another UID are a former deployment's.
    pub uid: Arc<str>,
    /// How many Instances it wants; `None` if its number makes no sense: then none comes or goes.
    pub replicas: Option<u32>,
    /// In which order they come and go.
    pub policy: Policy,
    /// What its Instances' labels say of it.
    pub linking: Linking,
}

/// In which order Instances come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// One at a time, the next when the former is ready.
    OrderedReady,
    /// All at once.
    Parallel,
    /// A name that this version does not know: nothing comes or goes.
    Unsupported,
}

impl Policy {
    /// Reads the wire form; empty means the default.
    pub fn of(policy: &ManagementPolicy) -> Self {
        match policy.0.as_str() {
            ManagementPolicy::ORDERED_READY | "" => Self::OrderedReady,
            ManagementPolicy::PARALLEL => Self::Parallel,
            _ => Self::Unsupported,
        }
    }
}

/// An Instance that there is: one that the deployment controls, or one that has a name of its form.
// Each flag is a fact of its own that decisions combine freely; no enum would say it better.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Its name.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Arc<str>,
    /// The version that was looked at.
    pub version: Arc<str>,
    /// When it was made, in seconds since 1970.
    pub created: i64,
    /// Who controls it.
    pub owner: Owner,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether its condition Ready is True.
    pub ready: bool,
    /// Whether its condition Ready has ever been True.
    pub served: bool,
    /// Whether it is going and nobody confirms its end: what does not need its place does not wait for it.
    pub lost: bool,
    /// Whether it is what the template says now ([`hash::is_current`]).
    pub current: bool,
    /// Its labels.
    pub labels: Labels,
}

/// The controller of an Instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// A deployment of the right name, with this UID.
    Deployment(Arc<str>),
    /// Nobody, or something else.
    Foreign,
}

/// Why nothing may be made or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// The deployment is suspended.
    Suspended,
    /// Something is wrong with the deployment or its place.
    Blocked(Reason),
    /// A replacement could not be granted quota now: nothing is replaced, all else goes on.
    Rolls,
}

/// What to do with an Instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Make the Instance of this ordinal.
    Create(u32),
    /// Delete this very object.
    Delete {
        /// Its UID.
        uid: Arc<str>,
        /// Its version, where the decision rests on the state that it was seen in.
        version: Option<Arc<str>>,
    },
    /// Change its labels.
    PatchLabels {
        /// Its UID.
        uid: Arc<str>,
        /// A merge patch of `metadata.labels`.
        patch: Value,
    },
    /// Nothing can be done.
    Wait,
}

/// Why a step is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The slot is empty.
    Missing,
    /// It has no slot: it is a second one, a former deployment's, or has no ordinal.
    Stray,
    /// More Instances than are wanted.
    Surplus,
    /// It has never been ready and the template has changed: the new one may be.
    FixForward,
    /// It is ready or has been, and the template has changed.
    Roll,
    /// It is not ready yet.
    NotReady,
    /// It is going.
    Terminating,
    /// It is going, and nobody confirms its end.
    Lost,
    /// Its name is held by an object that is not ours.
    NameConflict,
    /// It would be replaced, but the replacement could not be granted quota now.
    RollsHeld,
    /// The deployment is suspended.
    Suspended,
    /// Something is wrong with the deployment or its place.
    Blocked(Reason),
    /// Labels of the controller are missing or wrong.
    Labels,
}

/// A step towards what the deployment asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Name of the Instance.
    pub instance: Arc<str>,
    /// What to do.
    pub act: Act,
    /// Why.
    pub why: Why,
    /// Whether it may be done now; otherwise it is shown as waiting.
    pub now: bool,
}

impl fmt::Display for Step {
    /// E.g. `Create storefront-us-dfw-1 (Missing)`, with `*` behind what may be done now.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let act = match self.act {
            Act::Create(_) => "Create",
            Act::Delete { .. } => "Delete",
            Act::PatchLabels { .. } => "PatchLabels",
            Act::Wait => "Wait",
        };
        let mark = if self.now { "*" } else { "" };
        write!(f, "{act} {}{mark} ({:?})", self.instance, self.why)
    }
}

/// Every step that is left, in order: first what makes and replaces Instances, then what takes surplus ones away, which
/// nothing holds up, then labels. Steps that are `now` may all be performed at once.
pub fn plan(deployment: &Deployment, instances: &[Instance], hold: Option<Hold>) -> Vec<Step> {
    order::Sorted::of(deployment, instances).steps(deployment, hold)
}
