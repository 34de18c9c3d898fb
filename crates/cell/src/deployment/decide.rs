//! Decides the writes for a deployment. Pure.

use super::{
    observe::{DeploymentSnapshot, KnownInstance},
    status::{self, Blocker, Progress, RolloutInputs, StatusInputs},
};
use crate::{
    conditions::{gates, source_error},
    index::{
        CellLocation,
        digest::{InstanceDigest, Spec},
        tables::TableId,
    },
    network::NetworkState,
    reason::WriteReason,
    rollout::{
        self, Policy, RolloutHold, Step, StepAction, StepReason,
        make::{self, NewInstance},
    },
    writes::{self, create, delete, finalizers, patch_labels},
};
use fedgate_api::{
    Place, Reason, WorkloadDeploymentStatus,
    conditions::{
        Serving, find,
        types::{AVAILABLE, PROGRESSING, REPLICAS_READY},
    },
    keys,
};
use fedgate_engine::{
    diff,
    plan::{Effect, Write},
    reconcile::throttle::WriteKind,
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};

/// Writes for a deployment.
#[derive(Debug, Default, PartialEq)]
pub struct DeploymentDecision {
    /// Writes that do not depend on each other.
    pub writes: Vec<Effect>,
    /// The deployment's own status, if it differs.
    pub status: Option<Effect>,
    /// True if the replacement of Instances waits until quota is available.
    pub held: bool,
    /// The number of steps that are left, if every one of them waits for Instances.
    pub stalled: Option<usize>,
    /// Time until the progress deadline, if nothing else happens until then.
    pub due: Option<Duration>,
}

/// Decides.
pub fn decide(snapshot: &DeploymentSnapshot, now: Timestamp) -> DeploymentDecision {
    let spec = match &snapshot.row.digest.spec {
        Ok(spec) => spec,
        Err(why) => {
            let unreadable = Blocker::new(Reason::InvalidTemplate, &**why);
            return DeploymentDecision {
                status: write_status(snapshot, None, &[], Some(&unreadable), now).0,
                ..DeploymentDecision::default()
            };
        }
    };
    let block = find_fault(snapshot, spec);
    let deployment = snapshot.control(spec);
    let instances = snapshot.instances.iter().map(|known| &known.control);
    let is_paused = spec.strategy.is_some_and(|strategy| strategy.paused);
    let hold = rollout_hold(snapshot, is_paused, block.as_ref());
    let steps = rollout::plan(&deployment, instances, hold);
    let mut writes = rollout_writes(snapshot, spec, &deployment, &steps, now);
    if block.as_ref().is_none_or(|block| has_network(block.reason)) {
        writes.extend(snapshot.network.iter().flat_map(|network| network.writes.clone()));
    }
    writes.extend(in_place_writes(snapshot, &steps));
    // A write that the server refused holds back no other write, because it is tried again.
    let refused = snapshot.refused.as_deref();
    let block = block.or(refused.map(|message| Blocker::new(Reason::ApplyFailed, message)));
    let (status, progress) = write_status(snapshot, Some(spec), &steps, block.as_ref(), now);
    // The annotation is written after the status, so that a refusal of it holds up no status.
    if status.is_none()
        && let Some(progress) = &progress
    {
        writes.extend(record_rollout(snapshot, spec, progress));
    }
    DeploymentDecision {
        writes,
        status,
        held: steps.iter().any(|step| step.why == StepReason::RollsHeld),
        stalled: progress.as_ref().and_then(|progress| progress.stalled),
        due: progress.and_then(|progress| progress.due),
    }
}

/// Longest template that is written to the annotation, in bytes. All annotations of an object together may have 256 KiB.
const MAX_RECORDED_TEMPLATE: usize = 128 * 1024;

/// The annotation write for `onFailure: Undo`: the template of a rollout that completed, or the hash of a template whose rollout
/// failed. Without `Undo` the annotations are removed, because a later `Undo` must not return to a template of that time.
fn record_rollout(snapshot: &DeploymentSnapshot, spec: &Spec, progress: &Progress) -> Option<Effect> {
    let deployment = &snapshot.row.digest;
    let recorded = deployment.complete_template_hash.as_ref();
    let has_any = recorded.is_some() || deployment.has_undone;
    let is_completed = recorded == Some(&spec.hash) && !deployment.has_undone;
    let (annotations, reason) = match Reason::parse(&progress.verdict.reason)? {
        _ if !spec.strategy?.undo_on_failure => {
            let none = json!({keys::COMPLETE_TEMPLATE: null, keys::UNDONE: null});
            (has_any.then_some(none)?, WriteReason::RolloutRecorded)
        }
        Reason::RolloutComplete if !is_completed && spec.replicas > Some(0) => {
            let template = (spec.template.len() <= MAX_RECORDED_TEMPLATE).then_some(&*spec.template);
            if template.is_none() && !has_any {
                return None;
            }
            let completed = json!({keys::COMPLETE_TEMPLATE: template, keys::UNDONE: null});
            (completed, WriteReason::RolloutRecorded)
        }
        Reason::ProgressDeadlineExceeded if recorded.is_some_and(|hash| *hash != spec.hash) => {
            (json!({keys::UNDONE: *spec.hash}), WriteReason::RolloutUndone)
        }
        _ => return None,
    };
    let target = TableId::Deployments.target(&snapshot.namespace, &snapshot.name);
    let patch = json!({"metadata": {"annotations": annotations}});
    Some(writes::patch(&snapshot.row, target, patch, reason))
}

/// False for a location that is wrong or unknown, which has no network, and for an invalid template, which may name a
/// Network that is not allowed: the cell requests none for those.
fn has_network(block: Reason) -> bool {
    !matches!(
        block,
        Reason::CityCodeMismatch
            | Reason::LocationMismatch
            | Reason::AmbiguousServingLocation
            | Reason::NoMatchingLocation
            | Reason::InvalidTemplate
    )
}

/// The fault of the deployment or of its location; a fault of the location comes first.
fn find_fault(snapshot: &DeploymentSnapshot, spec: &Spec) -> Option<Blocker> {
    let place = match &snapshot.located {
        CellLocation::At { location, city } => place_mismatch(&spec.place, &location.name, city),
        CellLocation::Untold => None,
        CellLocation::Nowhere => Some(Blocker::new(
            Reason::NoMatchingLocation,
            "the cell has no ServingLocation with a city; make one, or configure the cell's place",
        )),
        CellLocation::Ambiguous(count) => Some(Blocker::new(
            Reason::AmbiguousServingLocation,
            format!("the cell has {count} ServingLocations; keep one, or configure the cell's place"),
        )),
    };
    let policy = || {
        let message = format!(
            "instanceManagementPolicy {:?} is not known here; OrderedReady and Parallel are",
            spec.policy_name
        );
        let reason = Reason::UnsupportedManagementPolicy;
        (spec.policy == Policy::Unsupported).then(|| Blocker::new(reason, message))
    };
    let template = || {
        let faults = spec.faults.as_ref().map(ToString::to_string);
        let why = faults.or_else(|| foreign_network(snapshot, spec))?;
        Some(Blocker::new(Reason::InvalidTemplate, why))
    };
    place.or_else(policy).or_else(template)
}

/// Characters of a location's name in a message, which those of a label value are.
const NAMED_LOCATION: usize = 63;

/// The mismatch, if a deployment is not meant for this cell: a location decides, without one the city (contract: api.md
/// K11).
fn place_mismatch(place: &Place<Arc<str>>, location: &str, city: &str) -> Option<Blocker> {
    match place {
        Place::Location(wanted) | Place::Both { location: wanted, .. } => {
            (**wanted != *location).then(|| {
                // The text is a tenant's: an API server refuses a condition with too long a message.
                let wanted: String = wanted.chars().take(NAMED_LOCATION).collect();
                let message =
                    format!("spec.locationRef is {wanted}, but this cell is at location {location}");
                Blocker::new(Reason::LocationMismatch, message)
            })
        }
        Place::City(wanted) => (**wanted != *city).then(|| {
            let message = format!("spec.cityCode is {wanted}, but this cell is in {city}");
            Blocker::new(Reason::CityCodeMismatch, message)
        }),
    }
}

/// Error for the first interface whose Network is in a namespace other than the deployment's own.
fn foreign_network(snapshot: &DeploymentSnapshot, spec: &Spec) -> Option<String> {
    if snapshot.settings.cross_namespace_networks {
        return None;
    }
    let own = |namespace: &str| {
        namespace.is_empty()
            || *namespace == *snapshot.namespace
            || snapshot.home.as_deref().is_some_and(|home| *home == *namespace)
    };
    let named = spec.networks.iter().enumerate();
    let mut named = named.filter_map(|(n, network)| Some((n, network.namespace.as_deref()?)));
    let (n, namespace) = named.find(|(_, namespace)| !own(namespace))?;
    Some(format!(
        "spec.template.spec.networkInterfaces[{n}].network.namespace: {namespace} is not the deployment's own; leave it \
         out, or let the cell allow others (--cross-namespace-networks)"
    ))
}

fn rollout_hold(
    snapshot: &DeploymentSnapshot,
    is_paused: bool,
    block: Option<&Blocker>,
) -> Option<RolloutHold> {
    if snapshot.row.digest.suspended {
        return Some(RolloutHold::Blocked(Reason::Suspended));
    }
    let block = block.map(|block| RolloutHold::Blocked(block.reason));
    let paused = || is_paused.then_some(RolloutHold::Paused);
    let unavailable = || snapshot.quota_unavailable.then_some(RolloutHold::Rolls);
    block.or_else(paused).or_else(unavailable)
}

/// True if no Instance needs to wait for the deployment's network.
fn is_network_done(snapshot: &DeploymentSnapshot) -> bool {
    let network = snapshot.network.as_ref();
    !snapshot.settings.networking || network.is_some_and(|of| of.state == NetworkState::Ready)
}

/// Scheduling gates of new Instances, in order.
fn new_gates(snapshot: &DeploymentSnapshot, spec: &Spec) -> Vec<&'static str> {
    let gates = [
        (!is_network_done(snapshot), gates::NETWORK),
        (true, gates::QUOTA),
        (snapshot.settings.data && spec.references, gates::REFERENCED_DATA),
    ];
    let set = gates.into_iter().filter(|(set, _)| *set);
    set.map(|(_, gate)| gate).collect()
}

/// Writes of the steps that may run now.
fn rollout_writes(
    snapshot: &DeploymentSnapshot,
    spec: &Spec,
    deployment: &rollout::Deployment,
    steps: &[Step],
    now: Timestamp,
) -> Vec<Effect> {
    let mut template = None;
    let new = new_gates(snapshot, spec);
    let mut effects = Vec::new();
    for step in steps.iter().filter(|step| step.now) {
        let target = TableId::Instances.target(&snapshot.namespace, &step.instance);
        match &step.act {
            StepAction::Create(ordinal) => {
                let template: &Value =
                    template.get_or_insert_with(|| serde_json::from_str(&spec.template).unwrap_or_default());
                let making = NewInstance {
                    namespace: &snapshot.namespace,
                    template,
                    hash: &spec.hash,
                    gates: &new,
                    location: snapshot.located.reference(),
                };
                let mut body = make::instance(deployment, *ordinal, &making);
                // Create the Instance with its finalizers, so that no deletion in between can leave objects behind.
                let provider = snapshot.settings.provider.then_some(keys::PROVIDER_FINALIZER);
                body["metadata"]["finalizers"] = finalizers(snapshot.settings.hub).chain(provider).collect();
                if new.contains(&gates::REFERENCED_DATA) {
                    body["metadata"]["annotations"][keys::GATE_START] = json!(now.to_string());
                }
                effects.push(create(target, body, WriteReason::InstanceMissing));
            }
            StepAction::Delete { uid, version } => {
                let version = version.as_ref().map(ToString::to_string);
                effects.push(delete(target, uid, version, delete_reason(step.why)));
            }
            StepAction::PatchLabels { uid, patch } => {
                effects.push(patch_labels(target, uid, patch, WriteReason::InstanceLabels));
            }
            StepAction::Wait => {}
        }
    }
    effects
}

fn delete_reason(why: StepReason) -> WriteReason {
    match why {
        StepReason::Stray => WriteReason::InstanceStray,
        StepReason::Surplus => WriteReason::InstanceSurplus,
        StepReason::FixForward => WriteReason::InstanceFixForward,
        _ => WriteReason::InstanceRoll,
    }
}

/// Changes of live Instances in place: the Network gate, the location, suspension.
fn in_place_writes(snapshot: &DeploymentSnapshot, steps: &[Step]) -> Vec<Effect> {
    let network_done = is_network_done(snapshot);
    // An Instance that this reconcile writes has another version afterwards.
    let written = |known: &KnownInstance| {
        let mut now = steps
            .iter()
            .filter(|step| step.now && step.act != StepAction::Wait);
        now.any(|step| step.instance == known.control.name)
    };
    let live = snapshot.own_instances();
    let live = live.filter(|known| !known.control.deleting && !written(known));
    live.filter_map(|known| {
        let KnownInstance { control, row } = known;
        let target = TableId::Instances.target(&snapshot.namespace, &control.name);
        if let Some(patch) = location_and_gate(snapshot, &row.digest, network_done) {
            return Some(writes::patch(row, target, patch, WriteReason::InstanceNetwork));
        }
        (row.digest.suspended != snapshot.row.digest.suspended).then(|| {
            let suspended = snapshot.row.digest.suspended.then_some(true);
            let patch = json!({"status": {"suspended": suspended}});
            writes::patch(row, target, patch, WriteReason::InstanceSuspension)
        })
    })
    .collect()
}

/// The patch that adds the location to an Instance, and removes its gate `Network` once the network is ready.
fn location_and_gate(
    snapshot: &DeploymentSnapshot,
    instance: &InstanceDigest,
    network_done: bool,
) -> Option<Value> {
    let mut spec = Map::new();
    if let Some(location) = snapshot.located.reference().filter(|_| !instance.located) {
        spec.insert("location".to_owned(), json!(location));
    }
    if network_done && instance.has_gate(gates::NETWORK) {
        let left = instance.gates.iter().filter(|gate| ***gate != *gates::NETWORK);
        let left: Vec<Value> = left.map(|gate| json!({"name": **gate})).collect();
        spec.insert("controller".to_owned(), json!({"schedulingGates": left}));
    }
    (!spec.is_empty()).then(|| json!({"spec": spec}))
}

/// The write of the status, if it differs, and the progress of the rollout.
fn write_status(
    snapshot: &DeploymentSnapshot,
    spec: Option<&Spec>,
    steps: &[Step],
    block: Option<&Blocker>,
    now: Timestamp,
) -> (Option<Effect>, Option<Progress>) {
    let deployment = &snapshot.row.digest;
    let mut instances: Vec<&KnownInstance> = snapshot.own_instances().collect();
    instances.sort_by_key(|known| rollout::ordinal::of_name(&snapshot.name, &known.control.name));
    let error = source_error(deployment.data_error.as_deref());
    let written: Value = serde_json::from_str(&deployment.status).unwrap_or_default();
    let before: WorkloadDeploymentStatus = serde_json::from_value(written.clone()).unwrap_or_default();
    // If the desired number is invalid, keep the number of the last status.
    let last = || u32::try_from(before.counts.desired_replicas).unwrap_or_default();
    let seen = StatusInputs {
        desired: spec.and_then(|spec| spec.replicas).unwrap_or_else(last),
        rollout: spec.and_then(|spec| {
            Some(RolloutInputs {
                strategy: spec.strategy?,
                undone: spec.undone,
                generation: deployment.generation,
                progressing: find(&before.conditions, PROGRESSING),
                stalled: snapshot.stalled,
                refused: snapshot.refused.is_some(),
                can_undo: deployment.complete_template_hash.is_some(),
            })
        }),
        instances: &instances,
        steps,
        suspended: deployment.suspended,
        block,
        data_error: error.as_ref(),
    };
    let mut conditions = before.conditions.clone();
    let generation = deployment.generation;
    status::replicas_ready(&seen).set(&mut conditions, REPLICAS_READY, generation, now);
    status::available(&seen).set(&mut conditions, AVAILABLE, generation, now);
    let progress = status::progressing(&seen);
    match &progress {
        Some(Progress { verdict, .. }) => verdict.set(&mut conditions, PROGRESSING, generation, now),
        None => conditions.retain(|condition| condition.type_ != PROGRESSING),
    }
    let status = WorkloadDeploymentStatus {
        location: snapshot.located.reference().cloned().or(before.location),
        conditions,
        counts: status::counts(&seen),
        observed_generation: Some(deployment.generation),
        suspended: deployment.suspended.then_some(true),
        selector: None,
    };
    let write = patch(&written, &json!(status)).map(|patch| {
        let target = TableId::Deployments.target(&snapshot.namespace, &snapshot.name);
        let patch = json!({"status": patch});
        writes::patch(&snapshot.row, target, patch, WriteReason::DeploymentStatus)
    });
    (write, progress)
}

/// Whether a status changes `Available`, for which the tenant waits.
pub fn write_kind(snapshot: &DeploymentSnapshot, status: &Effect) -> WriteKind {
    let Write::Merge { patch } = &status.write else {
        return WriteKind::Progress;
    };
    let before: Value = serde_json::from_str(&snapshot.row.digest.status).unwrap_or_default();
    let conditions = &patch["status"]["conditions"];
    if conditions.is_null() || Serving::of(&patch["status"]) == Serving::of(&before) {
        WriteKind::Progress
    } else {
        WriteKind::Transition
    }
}

/// The merge patch of a status; keeps fields that this version does not know.
fn patch(written: &Value, wanted: &Value) -> Option<Value> {
    let mut whole = written.as_object().cloned().unwrap_or_default();
    whole.remove("suspended");
    whole.extend(wanted.as_object().cloned().unwrap_or_default());
    let empty = json!({});
    let written = if written.is_object() { written } else { &empty };
    diff::merge_patch(written, &Value::Object(whole))
}
