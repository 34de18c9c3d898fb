//! Probes: what the index does not tell of an object that lives at one member. Karmada is asked for its Works, and, while the
//! object is being deleted, the member is asked for the object itself (contract: clusters.md §3.4, §4).

mod ask;
mod watches;
mod works;

pub use ask::{Subject, probe, proves_absence};
pub use watches::Watches;
pub use works::{is_stuck, named, works_resource};

use crate::index::single_member::Pin;
use fedgate_engine::plan::{Requeue, Target};
use std::{sync::Arc, time::Duration};

/// A question to Karmada or to a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// Whether Karmada dispatches nothing of the Works of the bindings with these ids at this member, and preserves nothing.
    Works {
        /// The member.
        member: Arc<str>,
        /// The permanent ids of the bindings.
        ids: Vec<Arc<str>>,
    },
    /// Whether the Work of an earlier binding of the object at this member does not end.
    StuckWork {
        /// The member.
        member: Arc<str>,
    },
    /// Under which name the hub knows the gateway.
    HubUser,
    /// Whether the member has the object, whatever Karmada does.
    Object {
        /// The pin, which names the member and the copies of the object.
        pin: Arc<Pin>,
    },
    /// Whether the member has the object, once Karmada has no Work of it left.
    Member {
        /// The pin, which names the member and the copies of the object.
        pin: Arc<Pin>,
        /// The permanent id of the binding, if it is known.
        id: Option<Arc<str>>,
    },
}

/// The answer to a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// The name under which the hub knows the gateway is in the index.
    HubUser,
    /// Karmada dispatches nothing of the object's Works, and preserves nothing.
    WorksStopped,
    /// Karmada still has a Work of the object that it dispatches, preserves or has not deleted yet.
    WorksGoOn,
    /// The Work with this namespace and name is being deleted and does not end.
    WorkStuck(String),
    /// The member has no such object that was made from a copy of the pin.
    Absent,
    /// The member has the object.
    There {
        /// True if it is being deleted.
        deleting: bool,
        /// Finalizers of the object.
        finalizers: Vec<String>,
        /// Generation of the project's object whose spec it has; `None` if it names none of this object.
        generation: Option<i64>,
        /// True if a guard of its kind holds in it, or if it is too large to tell.
        guarded: bool,
    },
    /// No answer proves anything, for this reason.
    Unknown(String),
}

/// The answer to a probe, and the object whose next change may change it: its target, and the version that was read.
#[derive(Debug)]
pub struct Answered {
    /// The answer.
    pub observation: Observation,
    watched: Option<(Target, String)>,
}

impl From<Observation> for Answered {
    fn from(observation: Observation) -> Self {
        Self {
            observation,
            watched: None,
        }
    }
}

/// First and longest time between two probes of one object.
const PROBE_EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The time until the next probe, after this number of probes.
pub fn probe_delay(probes: u32) -> Duration {
    let (first, longest) = PROBE_EVERY;
    first.saturating_mul(1 << probes.min(6)).min(longest)
}

/// The probes of one object: the last answer, and how many there were.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Probing {
    /// The last answer, until a decision has used it.
    pub observation: Option<Observation>,
    /// Number of probes since their question was last answered for good; the next one is delayed by [`probe_delay`].
    pub count: u32,
}

impl Probing {
    /// Drops the answer and counts it; returns the time until the next probe.
    pub fn again(&mut self) -> Requeue {
        self.observation = None;
        self.count = self.count.saturating_add(1);
        Requeue::After(probe_delay(self.count - 1))
    }
}

#[cfg(test)]
mod tests;
