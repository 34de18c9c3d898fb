//! What should happen for a deployment: a pure function of the snapshot, the memory and the time
//! (contract: federation.md §3.4).

mod copy;
mod deletion;
mod status;

pub use status::settlement;

use super::{
    conditions,
    memory::Memory,
    observe::{HubNamespaceState, Snapshot},
};
use crate::gateway::{
    companions::resolve,
    index::digest::{HubCopy, Source},
    rate_limit::{Class, Permit},
};
use copy::{copy_step, delete_copy};
use deletion::delete_step;
use fedgate_api::keys;
use fedgate_engine::{
    clock::Now,
    key::Plane,
    memory::MemoryUpdate,
    plan::{Effect, Endpoint, Plan, Prepared, Requeue, Target, Write},
    plane::table::Row,
};
use serde_json::{Value, json};
use status::status_step;
use std::time::Duration;

/// Reasons of the writes that carry a copy to the hub, each of which needs a permit.
pub const WRITES: [&str; 3] = ["create_copy", "update_copy", "move_copy"];

/// Settings.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Interval at which each object may have one more status write.
    pub status_interval: Duration,
    /// After how long a deletion stops waiting for cells; `None` for never.
    pub release_after: Option<Duration>,
}

/// A decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What to do.
    pub action: Action,
    /// What to remember.
    pub memory: MemoryUpdate<Memory>,
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// The plan needs these bodies; read them and ask again.
    Read {
        /// The project's object.
        source: bool,
        /// The hub's copy.
        copy: bool,
    },
    /// Apply this if the project says that its object is the one that is seen: another server may show an old state.
    Confirm(Plan<Prepared>),
    /// Ask the hub whether it has a copy or a binding that is not seen, and decide again if it has none.
    ConfirmGone,
    /// The plan needs a permit for the hub; ask for it and again.
    Permit(Class),
    /// Apply this; an empty plan settles the key.
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

/// The next step. The memory takes what is learned by looking; what a write changes in it is with the write.
fn step(s: &Snapshot, memory: &mut Memory, settings: &Settings, permit: Permit, now: Now) -> Step {
    let Some(source) = &s.source else {
        *memory = Memory::default();
        return Step::Wait(Requeue::AwaitChange);
    };
    let ours = has_finalizer(source, keys::FEDERATOR_FINALIZER);
    if source.deleting {
        return if ours && s.complete {
            delete_step(s, source, memory, settings, now)
        } else {
            Step::Wait(Requeue::AwaitChange)
        };
    }
    let mut next = Requeue::AwaitChange;
    // One that is invalid changes nothing on the hub, and what its copy says returns as ever.
    if conditions::invalid(s, source).is_none() && s.hub_state != HubNamespaceState::Claimed {
        if s.hub.is_none() {
            return Step::Wait(Requeue::AwaitChange);
        }
        if let Some(effect) = project_patch(s, source) {
            // The city counts as announced from the answer on; the copy follows in the next pass.
            return act(effect, memory.clone());
        }
        if s.complete
            && s.hub_state == HubNamespaceState::EarlierLife
            && let Some(copy) = s.copy.as_ref().filter(|copy| is_anothers(copy, source))
        {
            return act(delete_copy(s, copy, "drain_earlier_life"), memory.clone()).unconfirmed();
        }
        if s.hub_state == HubNamespaceState::Ours && s.city_ready {
            match copy_step(s, source, memory, permit, now) {
                Step::Wait(later) => next = later,
                step => return step,
            }
        }
    }
    if !s.complete {
        return Step::Wait(next);
    }
    status_step(s, source, memory, settings, now).by(next)
}

enum Step {
    /// These bodies are needed: the source's, the copy's.
    Read(bool, bool),
    /// The hub has to say that it has nothing of it.
    ConfirmGone,
    /// A permit of this class is needed.
    Permit(Class),
    /// Do this now.
    Act(Box<Act>),
    /// Nothing now.
    Wait(Requeue),
}

impl Step {
    /// The same step, looking again by then at the latest.
    fn by(self, next: Requeue) -> Self {
        match self {
            step @ (Self::Read(..) | Self::ConfirmGone | Self::Permit(_)) => step,
            Self::Act(act) => Self::Act(Box::new(Act {
                plan: act.plan.by(next),
                ..*act
            })),
            Self::Wait(later) => Self::Wait(later.earlier(next)),
        }
    }

    /// The same step, if the project's object is the one that is seen.
    fn unconfirmed(self) -> Self {
        match self {
            Self::Act(act) => Self::Act(Box::new(Act {
                confirmed: false,
                ..*act
            })),
            step => step,
        }
    }
}

/// A plan, and the memory once all of it was applied.
struct Act {
    plan: Plan<Prepared>,
    applied: Memory,
    /// Whether it may be done without asking the project for its object.
    confirmed: bool,
}

impl Act {
    fn new(plan: Plan<Prepared>, applied: Memory) -> Self {
        Self {
            plan,
            applied,
            confirmed: true,
        }
    }
}

/// Whether a copy that stays was made from another object.
fn is_anothers(copy: &Row<HubCopy>, source: &Row<Source>) -> bool {
    let from = copy.digest.source_uid.as_ref();
    !copy.deleting && from.is_some_and(|uid| *uid != source.uid)
}

fn act(effect: Effect, applied: Memory) -> Step {
    Step::Act(Box::new(Act::new(Plan::one(effect), applied)))
}

fn has_finalizer(source: &Row<Source>, finalizer: &str) -> bool {
    source.digest.finalizers.iter().any(|f| &**f == finalizer)
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

/// Finalizers and annotations that must stand in the project before anything is written to the hub.
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
                .map(|(reason, message)| resolve::error_text(reason, message));
            let expected = match (&found.expected, any) {
                (_, false) => None,
                (Some(list), true) => Some(resolve::expected_text(list)),
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
    if annotations.is_empty() && finalizers == before {
        return None;
    }
    let mut metadata = json!({"uid": &*source.uid});
    if !annotations.is_empty() {
        metadata["annotations"] = Value::Object(annotations);
    }
    if finalizers != before {
        metadata["finalizers"] = json!(finalizers);
        // The list is replaced as a whole, so it must be the one that was read.
        metadata["resourceVersion"] = json!(source.resource_version());
    }
    let write = Write::Merge {
        patch: json!({"metadata": metadata}),
    };
    Some(Effect {
        target: source_target(s),
        endpoint: Endpoint::Main,
        write,
        reason: "announce",
    })
}
