//! Decisions on what goes from the hub to a project: the Instances and Secrets that cells and members have written.

use super::{index::GatewayIndex, reason::Verdict};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    plan::{Plan, Prepared},
    reconcile::quarantine::VerdictLabel,
};
use std::time::Duration;

/// The reason why an object is not projected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The verdict.
    pub verdict: VerdictLabel,
    /// The fault and the next step.
    pub message: String,
}

/// A decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Wait for an event.
    Wait,
    /// Wait for an event, or for this time.
    WaitFor(Duration),
    /// The write is due after this time; the body that was read for it is kept.
    Throttled(Duration),
    /// The object is not projected in its present state.
    Quarantine(Rejection),
    /// Read the object from the hub, and decide again.
    Read,
    /// Execute this if a GET from the hub shows no object.
    Confirm(Plan<Prepared>),
    /// Execute this.
    Do(Plan<Prepared>),
}

impl Decision {
    /// The object is not projected, for this reason.
    pub fn refuse(verdict: Verdict, message: impl Into<String>) -> Self {
        Self::Quarantine(Rejection {
            verdict: verdict.into(),
            message: message.into(),
        })
    }

    /// True if something is written other than a deletion.
    pub fn writes(&self) -> bool {
        match self {
            Self::Read => true,
            Self::Do(plan) | Self::Confirm(plan) => {
                plan.status.is_some() || !plan.effects.iter().all(|effect| effect.write.deletes())
            }
            Self::Wait | Self::WaitFor(_) | Self::Throttled(_) | Self::Quarantine(_) => false,
        }
    }
}

/// True if a hub Namespace has the UID of this project, its owner: only then the ownership holds.
pub fn is_namespace_of(index: &GatewayIndex, hub: &str, project: &ProjectKey) -> bool {
    let namespace = index.hub.namespaces.get("", hub);
    let labelled = namespace.and_then(|row| row.digest.project_uid.as_ref());
    let uid = index
        .projects
        .get(project)
        .and_then(|project| project.uid.as_ref());
    labelled.is_some() && labelled == uid
}
