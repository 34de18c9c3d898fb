//! Rollout: plans which Instances a deployment needs and the next steps to create, replace and delete them (contract:
//! cell.md §2.2). Pure functions over values, without I/O or clock.
//!
//! [`plan`] takes a deployment and its Instances and returns every remaining step in order, each with its reason and a
//! flag for steps that may be executed now (`decide`). The other steps are shown as waiting, which explains why a rollout does not
//! progress.

mod decide;
pub mod hash;
pub mod labels;
pub mod make;
pub mod ordinal;
pub mod strategy;

#[cfg(test)]
mod tests;

use fedgate_api::{ManagementPolicy, Reason};
use labels::Labels;
use serde_json::Value;
use std::sync::Arc;
use strategy::RolloutStrategy;

/// The fields of a `WorkloadDeployment` that a rollout depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    /// Name of the deployment, the prefix of its Instances' names.
    pub name: Arc<str>,
    /// UID of the deployment: Instances with another owner UID belong to a former deployment.
    pub uid: Arc<str>,
    /// Number of Instances; `None` if the number is invalid: then no Instance is created or deleted.
    pub replicas: Option<u32>,
    /// Order in which Instances are created and deleted.
    pub policy: Policy,
    /// How Instances are replaced; `None` replaces one at a time, and each ends before its successor is made.
    pub strategy: Option<RolloutStrategy>,
    /// UID of the Workload.
    pub workload_uid: Arc<str>,
    /// Name of the Workload.
    pub workload_name: Arc<str>,
    /// Name of the Workload's placement.
    pub placement_name: Arc<str>,
    /// City code, if known.
    pub city_code: Option<Arc<str>>,
    /// Name of the location, if known.
    pub location: Option<Arc<str>>,
}

/// Order in which Instances are created and deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// One at a time: the next Instance follows once the previous Instance is ready.
    OrderedReady,
    /// All at once.
    Parallel,
    /// A name that this version does not know: no Instance is created or deleted.
    Unsupported,
}

impl Policy {
    /// Parses the wire form; an empty name is the default.
    pub fn of(policy: &ManagementPolicy) -> Self {
        match policy.0.as_str() {
            ManagementPolicy::ORDERED_READY | "" => Self::OrderedReady,
            ManagementPolicy::PARALLEL => Self::Parallel,
            _ => Self::Unsupported,
        }
    }
}

/// An existing Instance that the deployment controls, or whose name has the deployment's form.
// Each flag is an independent fact that decisions combine freely; an enum would not be clearer.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutInstance {
    /// Name of the Instance.
    pub name: Arc<str>,
    /// UID of the Instance.
    pub uid: Arc<str>,
    /// Resource version of the observed state.
    pub version: Arc<str>,
    /// Creation time, in seconds since 1970.
    pub created: i64,
    /// The controller owner.
    pub owner: Owner,
    /// True if the Instance is being deleted.
    pub deleting: bool,
    /// True if the condition Ready is True.
    pub ready: bool,
    /// True if the Instance has been ready for as long as the strategy asks.
    pub available: bool,
    /// True if the condition Ready has ever been True.
    pub served: bool,
    /// True if the Instance waits because the quota is used up, or the project has none.
    pub quota_denied: bool,
    /// True if the Instance is being deleted and its node does not confirm the end: steps for other slots do not wait
    /// for it.
    pub lost: bool,
    /// True if the Instance matches the current template ([`hash::is_current`]).
    pub current: bool,
    /// Labels of the Instance.
    pub labels: Labels,
}

/// The controller of an Instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// A deployment of the expected name, with this UID.
    Deployment(Arc<str>),
    /// No controller, or another controller.
    Foreign,
}

/// Reason why no Instance may be created or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutHold {
    /// The deployment is suspended, or it or the cell's location has a fault.
    Blocked(Reason),
    /// A replacement could not be granted quota now: replacements wait, all other steps continue.
    Rolls,
    /// The rollout is paused: replacements and the surge wait; all other steps continue.
    Paused,
}

/// The action of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepAction {
    /// Create the Instance with this ordinal.
    Create(u32),
    /// Delete the Instance with this UID.
    Delete {
        /// UID of the Instance.
        uid: Arc<str>,
        /// Resource version, if the decision depends on the observed state.
        version: Option<Arc<str>>,
    },
    /// Patch the labels of an Instance.
    PatchLabels {
        /// UID of the Instance.
        uid: Arc<str>,
        /// A merge patch of `metadata.labels`.
        patch: Value,
    },
    /// No action is possible.
    Wait,
}

/// Reason of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepReason {
    /// The slot is empty.
    Missing,
    /// The Instance has no slot: a duplicate, an Instance of a former deployment, or no ordinal.
    Stray,
    /// The ordinal exceeds the wanted number of Instances.
    Surplus,
    /// The Instance has never been ready and the template has changed: the replacement may become ready.
    FixForward,
    /// The Instance is or has been ready, and the template has changed.
    Roll,
    /// The Instance is not available yet.
    NotReady,
    /// The Instance is being deleted.
    Terminating,
    /// The Instance is being deleted, and its node does not confirm the end.
    Lost,
    /// An object with another owner holds the Instance's name.
    NameConflict,
    /// The Instance needs a replacement, but the replacement could not be granted quota now.
    RollsHeld,
    /// The Instance needs a replacement, but the rollout is paused.
    Paused,
    /// Quota for an Instance of the surge was denied: at least one Instance may be unavailable.
    SurgeWithoutQuota,
    /// The deployment is suspended, or it or the cell's location has a fault.
    Blocked(Reason),
    /// Owner labels are missing or wrong.
    Labels,
}

/// A step towards the wanted Instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Name of the Instance.
    pub instance: Arc<str>,
    /// The action.
    pub act: StepAction,
    /// The reason.
    pub why: StepReason,
    /// True if the step may be executed now; otherwise the step is shown as waiting.
    pub now: bool,
}

/// All remaining steps in order: creations and replacements, then deletions of surplus Instances, which no hold delays,
/// then labels. Steps with `now` may be executed together.
pub fn plan<'a>(
    deployment: &Deployment,
    instances: impl IntoIterator<Item = &'a RolloutInstance>,
    hold: Option<RolloutHold>,
) -> Vec<Step> {
    decide::SortedInstances::of(deployment, instances).steps(deployment, hold)
}
