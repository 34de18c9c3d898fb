//! The decision for a deployment: a pure function of snapshot, memory and time (contract: federation.md §3.4).

mod copy;
mod deletion;
mod moves;
mod single_member;
mod status;
mod suspension;

pub use status::status_digests;
pub use suspension::unmarked;

use super::{
    conditions,
    memory::Memory,
    observe::{HubNamespaceState, Snapshot},
    pauses,
};
use crate::{
    index::{
        derived::project_hub::NamedHub,
        rows::{HubCopy, Source},
    },
    rate_limit::{Class, Permit},
    reason::WriteReason,
    references,
    route::CityRoute,
    settings::Settings,
    single_member::Probe,
};
use fedgate_api::{keys, names::HubNamespace};
use fedgate_engine::{
    clock::Now,
    key::Plane,
    plan::{Effect, Plan, Prepared, Requeue, Target, Write},
    store::table::Row,
};
use serde_json::{Value, json};

/// Reasons of the writes that bring a copy to the hub, each of which needs a permit.
pub const WRITES: [WriteReason; 7] = [
    WriteReason::ChangeLane,
    WriteReason::CreateCopy,
    WriteReason::UpdateCopy,
    WriteReason::MoveCopy,
    WriteReason::NameCell,
    WriteReason::RequestMove,
    WriteReason::SuspendCopy,
];

/// The next step for a deployment.
#[derive(Debug)]
pub enum CopyStep {
    /// Read these bodies and decide again: the plan needs them.
    Read {
        /// The project's object.
        source: bool,
        /// The hub's copy.
        copy: bool,
    },
    /// Ask the hub whether it has a copy or a binding that the index does not show, and decide again if it has none.
    ConfirmGone,
    /// Ask Karmada or the member of an object that lives at one member, and decide again.
    Probe(Probe),
    /// Get a permit for the hub and decide again.
    Permit(Class),
    /// Execute this.
    Act(Box<Act>),
    /// Nothing to do until this time.
    Wait(Requeue),
}

/// A plan, and the memory after all of it was applied.
#[derive(Debug)]
pub struct Act {
    /// The plan.
    pub plan: Plan<Prepared>,
    /// The memory once every effect of the plan is applied.
    pub applied: Memory,
    /// True if the plan is executed only once a GET from the project shows the object of the index: another API server may
    /// show an older state.
    pub needs_get: bool,
    /// True if the plan carries the spec to the hub.
    pub carries_spec: bool,
}

impl Act {
    /// A plan that needs no GET.
    pub(super) fn new(plan: Plan<Prepared>, applied: Memory) -> Self {
        let carries_spec = plan.effects.iter().any(|effect| {
            let reason = WriteReason::of(effect.reason);
            matches!(reason, Some(WriteReason::CreateCopy | WriteReason::UpdateCopy))
        });
        Self {
            plan,
            applied,
            needs_get: false,
            carries_spec,
        }
    }
}

/// Nothing to do until the next event.
const WAIT: CopyStep = CopyStep::Wait(Requeue::AwaitChange);

/// Read the project's object, and decide again.
const READ_SOURCE: CopyStep = CopyStep::Read {
    source: true,
    copy: false,
};

impl CopyStep {
    /// Limits the time until the next reconcile.
    fn by(self, next: Requeue) -> Self {
        match self {
            Self::Act(mut act) => {
                act.plan.next = act.plan.next.earlier(next);
                Self::Act(act)
            }
            Self::Wait(later) => Self::Wait(later.earlier(next)),
            step => step,
        }
    }

    /// Makes the execution depend on a GET of the object from its project.
    fn after_get(self) -> Self {
        match self {
            Self::Act(mut act) => {
                act.needs_get = true;
                Self::Act(act)
            }
            step => step,
        }
    }
}

fn act(effect: Effect, applied: Memory) -> CopyStep {
    CopyStep::Act(Box::new(Act::new(Plan::one(effect), applied)))
}

/// The basis of the decision on a deployment that exists.
#[derive(Debug, Clone, Copy)]
struct Pass<'a> {
    s: &'a Snapshot,
    source: &'a Row<Source>,
    settings: &'a Settings,
    permit: Permit,
    now: Now,
}

/// Decides. What was observed updates the memory at once; the effect of a write on it belongs to the write ([`Act::applied`]).
pub fn decide(s: &Snapshot, memory: &mut Memory, settings: &Settings, permit: Permit, now: Now) -> CopyStep {
    let Some(source) = &s.source else {
        *memory = Memory::default();
        return WAIT;
    };
    let p = &Pass {
        s,
        source,
        settings,
        permit,
        now,
    };
    if s.hub_reference.named == NamedHub::Other {
        // Another hub owns the deployment, so that nothing is written here but the mark of a suspension: a tenant who edits the
        // hub annotation of a suspended project does not keep the cells of this hub running.
        let marks = s.suspended.then(|| suspension::suspend(p, memory));
        return marks.flatten().unwrap_or(WAIT);
    }
    if let Some(delay) = s.delay.as_ref().filter(|_| s.complete && !s.suspended)
        && let Some(step) = status::report_delay(p, delay, memory)
    {
        return step;
    }
    if source.deleting {
        let ours = has_finalizer(source, keys::FEDERATOR_FINALIZER);
        return if ours && s.complete {
            deletion::delete(p, memory)
        } else {
            WAIT
        };
    }
    memory.pause_failed &= pauses::differs(s);
    memory.member.deletion.is_unguarded = false;
    if let Some(step) = suspension::suspend(p, memory) {
        return step;
    }
    let mut next = Requeue::AwaitChange;
    // An invalid deployment changes nothing on the hub, and the status of its copy is returned as usual.
    let is_valid = conditions::invalid(s, source).is_none() && !s.lacks_api() && !s.lacks_sources();
    if (is_valid || retains_member(s, source)) && s.hub_state != HubNamespaceState::Foreign {
        if s.hub.is_none() {
            return WAIT;
        }
        match carry(p, is_valid, memory) {
            CopyStep::Wait(later) => next = later,
            step => return step,
        }
    }
    if !s.complete {
        return CopyStep::Wait(next);
    }
    if !s.suspended {
        match status::return_status(p, memory) {
            CopyStep::Wait(later) => next = next.earlier(later),
            step => return step.by(next),
        }
    }
    // A write that brought the copy to another city had no answer, and the index has no copy. The hub is asked whether the copy exists,
    // because the policy of that city is kept until then.
    let was_elsewhere = |to: &CityRoute| s.destination.to.as_ref().ok() != Some(to);
    if s.arriving.as_ref().is_some_and(was_elsewhere) {
        return CopyStep::ConfirmGone;
    }
    // Moves come last, so that a failed move delays neither spec nor status.
    moves::next_move_step(p, memory).map_or(CopyStep::Wait(next), |step| step.by(next))
}

/// Announces the deployment, and brings its copy to the hub.
fn carry(p: &Pass<'_>, is_valid: bool, memory: &mut Memory) -> CopyStep {
    let Pass { s, source, .. } = *p;
    // A suspended project refuses the patch; a deployment that was announced before is carried as it was.
    if s.suspended && !is_announced(s, source) {
        return WAIT;
    }
    if let Some(effect) = announce(s, source).filter(|_| is_valid && !s.suspended) {
        // The city is announced once this patch is answered. The copy follows in the next pass.
        return act(effect, memory.clone());
    }
    // The copy of an object that lives at one member ends step by step (`single_member::orphan`).
    if s.complete
        && s.hub_state == HubNamespaceState::EarlierLife
        && s.single_member.is_none()
        && let Some(copy) = s.copy.as_ref().filter(|copy| is_anothers(copy, source))
    {
        let effect = copy::delete_copy(s, copy, WriteReason::DrainEarlierLife);
        return act(effect, memory.clone()).after_get();
    }
    if s.hub_state == HubNamespaceState::Ours && s.readiness.is_ready {
        copy::sync(p, memory)
    } else {
        WAIT
    }
}

/// True if the existing copy was made from another object.
fn is_anothers(copy: &Row<HubCopy>, source: &Row<Source>) -> bool {
    let from = copy.digest.source_uid.as_ref();
    !copy.deleting && from.is_some_and(|uid| *uid != source.uid)
}

/// True if the object's member is served although the object is not valid: the copy keeps its last spec there, or the member has
/// ended the object and the copy is being withdrawn.
fn retains_member(s: &Snapshot, source: &Row<Source>) -> bool {
    let Some(pin) = s.single_member.as_ref().and_then(|at| at.pinned()) else {
        return false;
    };
    let has_valid_copy =
        || s.copy.is_some() && s.retains_last_spec(source) && conditions::misplaced(s, source).is_none();
    pin.ended.is_some() || has_valid_copy()
}

fn has_finalizer(source: &Row<Source>, finalizer: &str) -> bool {
    source.digest.finalizers.iter().any(|f| &**f == finalizer)
}

fn is_announced(s: &Snapshot, source: &Row<Source>) -> bool {
    let hub = s.hub.as_ref().map(HubNamespace::as_str);
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
fn announce(s: &Snapshot, source: &Row<Source>) -> Option<Effect> {
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
    if let (Some(rules), Some(found)) = (&s.profile().companions, &s.companions.references) {
        let any = !source.digest.references.is_empty();
        if any && !finalizers.contains(&keys::REFERENCED_DATA_FINALIZER) {
            finalizers.push(keys::REFERENCED_DATA_FINALIZER);
        } else if !any && !s.companions.hold {
            finalizers.retain(|f| *f != keys::REFERENCED_DATA_FINALIZER);
        }
        if !found.resolving {
            let error = found
                .error
                .as_ref()
                .map(|(reason, message)| references::error_text(reason.as_str(), message));
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
    let is_unnamed = matches!(s.hub_reference.named, NamedHub::None | NamedHub::Replaced);
    let own_hub = s.hub_reference.own.as_deref().filter(|_| is_unnamed);
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
        // The patch replaces the whole list, so it names the version that was read. Of two gateways that name their hubs, one
        // succeeds.
        metadata["resourceVersion"] = json!(source.resource_version());
    }
    let write = Write::Merge {
        patch: json!({"metadata": metadata}),
    };
    Some(Effect::main(source_target(s), write, WriteReason::Announce))
}
