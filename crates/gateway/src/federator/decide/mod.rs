//! The decision for a deployment: a pure function of snapshot, memory and time (contract: federation.md §3.4).

pub(super) mod copy;
pub(super) mod deletion;
pub(super) mod lanes;
pub(super) mod status;
mod suspension;

pub use status::status_digests;
pub use suspension::unmarked;

use super::{
    conditions,
    memory::Memory,
    observe::{HubNamespaceState, Snapshot},
    pauses,
};
use crate::reason::WriteReason;
use crate::{
    index::{
        derived::project_hub::NamedHub,
        rows::{HubCopy, Source},
    },
    member::Look,
    rate_limit::{Class, Permit},
    references,
};
use copy::{copy_step, delete_copy};
use deletion::delete_step;
use fedgate_api::keys;
use fedgate_engine::{
    clock::Now,
    key::Plane,
    plan::{Effect, Endpoint, Plan, Prepared, Requeue, Target, Write},
    reconcile::memory::MemoryUpdate,
    store::table::Row,
};
use lanes::Case;
use serde_json::{Value, json};
use status::{delay_step, status_step};
use std::time::Duration;
use suspension::suspension_step;

/// Reasons of the writes that bring a copy to the hub, each of which needs a permit.
pub const WRITES: [WriteReason; 5] = [
    WriteReason::ChangeLane,
    WriteReason::CreateCopy,
    WriteReason::UpdateCopy,
    WriteReason::MoveCopy,
    WriteReason::SuspendCopy,
];

/// Settings.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Interval at which each object may have one more status write.
    pub status_interval: Duration,
    /// Time after which a deletion stops waiting for cells; `None` is never.
    pub release_after: Option<Duration>,
}

/// A decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The action.
    pub action: Action,
    /// The memory update.
    pub memory: MemoryUpdate<Memory>,
}

/// An action.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Read these bodies and decide again: the plan needs them.
    Read {
        /// The project's object.
        source: bool,
        /// The hub's copy.
        copy: bool,
    },
    /// Execute the plan if a GET from the project shows the object of the index: another API server may show an
    /// older state.
    Confirm(Plan<Prepared>),
    /// Ask the hub whether it has a copy or a binding that the index does not show, and decide again if it has
    /// none.
    ConfirmGone,
    /// See for this outside the index and decide again.
    Look(Look),
    /// Get a permit for the hub and decide again.
    Permit(Class),
    /// Execute the plan; an empty plan ends the reconcile.
    Apply(Plan<Prepared>),
}

/// Decides.
pub fn decide(s: &Snapshot, memory: &Memory, settings: &Settings, permit: Permit, now: Now) -> Decision {
    let mut observed = memory.clone();
    match step(s, &mut observed, settings, permit, now) {
        Step::Permit(class) => Decision {
            action: Action::Permit(class),
            memory: MemoryUpdate::observed(observed),
        },
        Step::Look(look) => Decision {
            action: Action::Look(look),
            memory: MemoryUpdate::observed(observed),
        },
        Step::ConfirmGone => Decision {
            action: Action::ConfirmGone,
            memory: MemoryUpdate::observed(observed),
        },
        Step::Read(source, copy) => Decision {
            action: Action::Read { source, copy },
            memory: MemoryUpdate::observed(observed),
        },
        Step::Act(act) => Decision {
            action: if act.confirmed {
                Action::Apply(act.plan)
            } else {
                Action::Confirm(act.plan)
            },
            memory: MemoryUpdate {
                observed,
                applied: act.applied,
            },
        },
        Step::Wait(next) => Decision {
            action: Action::Apply(Plan::wait(next)),
            memory: MemoryUpdate::observed(observed),
        },
    }
}

/// The next step. Observations update the memory at once; the effect of a write on it belongs to the write.
fn step(s: &Snapshot, memory: &mut Memory, settings: &Settings, permit: Permit, now: Now) -> Step {
    let Some(source) = &s.source else {
        *memory = Memory::default();
        return Step::Wait(Requeue::AwaitChange);
    };
    if s.named_hub == NamedHub::Other {
        // A name that a tenant writes keeps no cell of this hub running while the project is suspended.
        let marks = s.suspended.then(|| suspension_step(s, source, memory, permit));
        return marks.flatten().unwrap_or(Step::Wait(Requeue::AwaitChange));
    }
    if let Some(delay) = s.delay.as_ref().filter(|_| s.complete && !s.suspended)
        && let Some(step) = delay_step(s, source, delay, memory, settings, now)
    {
        return step;
    }
    let ours = has_finalizer(source, keys::FEDERATOR_FINALIZER);
    if source.deleting {
        return if ours && s.complete {
            match &s.lanes {
                Some(lanes) => {
                    let case = Case {
                        s,
                        lanes,
                        source,
                        now,
                    };
                    lanes::deletion::delete_step(&case, memory, settings, permit)
                }
                None => delete_step(s, source, memory, settings, now),
            }
        } else {
            Step::Wait(Requeue::AwaitChange)
        };
    }
    memory.pause_failed &= pauses::differs(s);
    memory.unguarded = false;
    if let Some(step) = suspension_step(s, source, memory, permit) {
        return step;
    }
    let mut next = Requeue::AwaitChange;
    // An invalid deployment changes nothing on the hub, and the status of its copy is returned as usual.
    let is_valid = conditions::invalid(s, source).is_none() && !s.lacks_api() && !s.lacks_sources();
    if (is_valid || keeps_member(s, source)) && s.hub_state != HubNamespaceState::Claimed {
        if s.hub.is_none() {
            return Step::Wait(Requeue::AwaitChange);
        }
        // A suspended project refuses the patch; a deployment that was announced before is carried as it was.
        if s.suspended && !is_announced(s, source) {
            return Step::Wait(Requeue::AwaitChange);
        }
        if let Some(effect) = project_patch(s, source).filter(|_| is_valid && !s.suspended) {
            // The city counts as announced once this patch is answered; the copy follows in the next pass.
            return act(effect, memory.clone());
        }
        // An object with a member ends step by step (`garbage::members`).
        if s.complete
            && s.hub_state == HubNamespaceState::EarlierLife
            && s.lanes.is_none()
            && let Some(copy) = s.copy.as_ref().filter(|copy| is_anothers(copy, source))
        {
            return act(
                delete_copy(s, copy, WriteReason::DrainEarlierLife),
                memory.clone(),
            )
            .unconfirmed();
        }
        if s.hub_state == HubNamespaceState::Ours && s.is_ready {
            let step = match &s.lanes {
                Some(lanes) => {
                    let case = Case {
                        s,
                        lanes,
                        source,
                        now,
                    };
                    lanes::copy_step(&case, memory, permit)
                }
                None => copy_step(s, source, memory, permit, now),
            };
            match step {
                Step::Wait(later) => next = later,
                step => return step,
            }
        }
    }
    if !s.complete || s.suspended {
        return Step::Wait(next);
    }
    status_step(s, source, memory, settings, now).by(next)
}

pub(super) enum Step {
    /// Read the bodies of the source and of the copy, as needed.
    Read(bool, bool),
    /// Confirm that the hub has nothing of the deployment.
    ConfirmGone,
    /// See for this.
    Look(Look),
    /// Get a permit of this class.
    Permit(Class),
    /// Execute this.
    Act(Box<Act>),
    /// Nothing to do now.
    Wait(Requeue),
}

impl Step {
    /// Limits the time until the next reconcile.
    pub(super) fn by(self, next: Requeue) -> Self {
        match self {
            step @ (Self::Read(..) | Self::ConfirmGone | Self::Look(_) | Self::Permit(_)) => step,
            Self::Act(act) => Self::Act(Box::new(Act {
                plan: act.plan.by(next),
                ..*act
            })),
            Self::Wait(later) => Self::Wait(later.earlier(next)),
        }
    }

    /// Makes the execution depend on a GET of the object from its project.
    pub(super) fn unconfirmed(self) -> Self {
        match self {
            Self::Act(act) => Self::Act(Box::new(Act {
                confirmed: false,
                ..*act
            })),
            step => step,
        }
    }
}

/// A plan, and the memory after all of it was applied.
pub(super) struct Act {
    plan: Plan<Prepared>,
    applied: Memory,
    /// True if no GET from the project is needed.
    confirmed: bool,
}

impl Act {
    pub(super) fn new(plan: Plan<Prepared>, applied: Memory) -> Self {
        Self {
            plan,
            applied,
            confirmed: true,
        }
    }
}

/// True if the existing copy was made from another object.
fn is_anothers(copy: &Row<HubCopy>, source: &Row<Source>) -> bool {
    let from = copy.digest.source_uid.as_ref();
    !copy.deleting && from.is_some_and(|uid| *uid != source.uid)
}

pub(super) fn act(effect: Effect, applied: Memory) -> Step {
    Step::Act(Box::new(Act::new(Plan::one(effect), applied)))
}

/// True if a spec is refused of an object that has its member: its copy stays on its way, with the spec that it has.
fn keeps_member(s: &Snapshot, source: &Row<Source>) -> bool {
    let has_member = s.lanes.as_ref().is_some_and(|lanes| lanes.pinned().is_some());
    has_member && s.copy.is_some() && s.keeps_spec(source) && conditions::misplaced(s, source).is_none()
}

fn has_finalizer(source: &Row<Source>, finalizer: &str) -> bool {
    source.digest.finalizers.iter().any(|f| &**f == finalizer)
}

fn is_announced(s: &Snapshot, source: &Row<Source>) -> bool {
    let hub = s.hub.as_ref().map(fedgate_api::names::HubNamespace::as_str);
    has_finalizer(source, keys::FEDERATOR_FINALIZER) && source.digest.federation_namespace.as_deref() == hub
}

pub(super) fn source_target(s: &Snapshot) -> Target {
    Target::namespaced(
        Plane::Project(s.project.clone()),
        &s.profile().resource,
        &s.namespace,
        &s.name,
    )
}

/// The UID of the deployment.
pub(super) fn source_uid(s: &Snapshot) -> Option<&str> {
    s.source.as_ref().map(|source| &*source.uid)
}

pub(super) fn copy_target(s: &Snapshot) -> Target {
    let hub = s.hub.as_ref().map_or("", |h| h.as_str());
    Target::namespaced(Plane::Hub, &s.profile().resource, hub, &s.name)
}

/// Finalizers and annotations that the project's object must have before any hub write.
fn project_patch(s: &Snapshot, source: &Row<Source>) -> Option<Effect> {
    let mut annotations = serde_json::Map::new();
    let hub = s.hub.as_ref()?.as_str();
    if source.digest.federation_namespace.as_deref() != Some(hub) {
        annotations.insert(keys::FEDERATION_NAMESPACE.into(), json!(hub));
    }
    let mut finalizers: Vec<&str> = source.digest.finalizers.iter().map(|f| &**f).collect();
    let before = finalizers.clone();
    if !finalizers.contains(&keys::FEDERATOR_FINALIZER) {
        finalizers.push(keys::FEDERATOR_FINALIZER);
    }
    if let (Some(rules), Some(found)) = (&s.profile().companions, &s.references) {
        let any = !source.digest.references.is_empty();
        if any && !finalizers.contains(&keys::REFERENCED_DATA_FINALIZER) {
            finalizers.push(keys::REFERENCED_DATA_FINALIZER);
        } else if !any && !s.companions_hold {
            finalizers.retain(|f| *f != keys::REFERENCED_DATA_FINALIZER);
        }
        if !found.resolving {
            let error = found
                .error
                .as_ref()
                .map(|(reason, message)| references::error_text(reason, message));
            let expected = match (&found.expected, any) {
                (_, false) => None,
                (Some(list), true) => Some(references::expected_text(&s.companion_kinds, list)),
                (None, true) => source.digest.expected().map(str::to_owned),
            };
            let mut set = |key: &Option<String>, had: Option<&str>, wanted: Option<String>| {
                if let Some(key) = key
                    && had != wanted.as_deref()
                {
                    annotations.insert(key.clone(), json!(wanted));
                }
            };
            set(&rules.error_annotation, source.digest.error(), error);
            set(&rules.expected_annotation, source.digest.expected(), expected);
        }
    }
    let is_unnamed = matches!(s.named_hub, NamedHub::None | NamedHub::Replaced);
    let own_hub = s.own_hub.as_deref().filter(|_| is_unnamed);
    if let Some(uid) = own_hub {
        annotations.insert(keys::HUB.into(), json!(uid));
    }
    if annotations.is_empty() && finalizers == before {
        return None;
    }
    let mut metadata = json!({"uid": &*source.uid});
    if !annotations.is_empty() {
        metadata["annotations"] = Value::Object(annotations);
    }
    if finalizers != before {
        metadata["finalizers"] = json!(finalizers);
    }
    if finalizers != before || own_hub.is_some() {
        // The list is replaced as a whole, so it must be the one that was read; and of two gateways one names its hub.
        metadata["resourceVersion"] = json!(source.resource_version());
    }
    let write = Write::Merge {
        patch: json!({"metadata": metadata}),
    };
    Some(Effect {
        target: source_target(s),
        endpoint: Endpoint::Main,
        write,
        reason: WriteReason::Announce.into(),
    })
}
