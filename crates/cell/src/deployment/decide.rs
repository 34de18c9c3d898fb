//! Decides the writes for a deployment. Pure.

use super::{
    observe::{Known, Snapshot},
    status::{self, Blocker, Seen},
};
use crate::reason::WriteReason;
use crate::{
    conditions::{Verdict, gates},
    index::{
        CellLocation,
        digest::{Instance, Spec},
        tables::TableId,
    },
    network::decide::{Act as NetworkAct, State},
    rollout::{
        self, Act, Owner, Policy, RolloutHold, Step, StepReason,
        make::{self, NewInstance},
    },
    writes::{ObjectVersion, create, delete, finalizers},
};
use fedgate_api::{
    API_VERSION, Condition, LocationReference, Place, Reason, WorkloadDeploymentStatus,
    conditions::{
        Serving, set,
        types::{AVAILABLE, REPLICAS_READY},
    },
    keys,
};
use fedgate_engine::{
    diff,
    key::Plane,
    plan::{Effect, Endpoint, Target, Write},
    reconcile::throttle::WriteKind,
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Writes for a deployment.
#[derive(Debug, Default, PartialEq)]
pub struct Decision {
    /// Writes that do not depend on each other.
    pub writes: Vec<Effect>,
    /// The deployment's own status, if it differs.
    pub status: Option<Effect>,
    /// True if the replacement of Instances waits until quota is available.
    pub held: bool,
}

/// Decides.
pub fn decide(snapshot: &Snapshot, now: Timestamp) -> Decision {
    let unreadable;
    let spec = match &snapshot.deployment.spec {
        Ok(spec) => spec,
        Err(why) => {
            unreadable = Blocker {
                reason: Reason::InvalidTemplate,
                message: why.to_string(),
            };
            return Decision {
                writes: Vec::new(),
                status: write_status(snapshot, None, &[], Some(&unreadable), now),
                held: false,
            };
        }
    };
    let block = block(snapshot, spec);
    let steps = rollout::plan(
        &rollout::Deployment {
            name: snapshot.name.clone(),
            uid: snapshot.version.uid.clone(),
            replicas: spec.replicas,
            policy: spec.policy,
            linking: snapshot.linking(spec),
        },
        &snapshot
            .instances
            .iter()
            .map(|known| known.control.clone())
            .collect::<Vec<_>>(),
        hold(snapshot, block.as_ref()),
    );
    let mut writes = performed(snapshot, spec, &steps, now);
    if block.as_ref().is_none_or(|block| has_network(block.reason)) {
        writes.extend(network(snapshot));
    }
    writes.extend(in_place(snapshot, &steps));
    // It holds back no other write: what is refused is tried again.
    let refused = snapshot.refused.as_ref().map(|message| Blocker {
        reason: Reason::ApplyFailed,
        message: message.clone(),
    });
    let block = block.or(refused);
    Decision {
        writes,
        status: write_status(snapshot, spec.replicas, &steps, block.as_ref(), now),
        held: steps.iter().any(|step| step.why == StepReason::RollsHeld),
    }
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
fn block(snapshot: &Snapshot, spec: &Spec) -> Option<Blocker> {
    let place = match &snapshot.located {
        CellLocation::At { location, city } => elsewhere(&spec.place, &location.name, city),
        CellLocation::Untold => None,
        CellLocation::Nowhere => Some((
            Reason::NoMatchingLocation,
            "the cell has no ServingLocation with a city; make one, or configure the cell's place".to_owned(),
        )),
        CellLocation::Ambiguous(count) => Some((
            Reason::AmbiguousServingLocation,
            format!("the cell has {count} ServingLocations; keep one, or configure the cell's place"),
        )),
    };
    let policy = || {
        let message = format!(
            "instanceManagementPolicy {:?} is not known here; OrderedReady and Parallel are",
            spec.policy_name
        );
        (spec.policy == Policy::Unsupported).then_some((Reason::UnsupportedManagementPolicy, message))
    };
    let template = || {
        let faults = spec.faults.as_ref().map(ToString::to_string);
        let why = faults.or_else(|| foreign_network(snapshot, spec))?;
        Some((Reason::InvalidTemplate, why))
    };
    let (reason, message) = place.or_else(policy).or_else(template)?;
    Some(Blocker { reason, message })
}

/// Characters of a location's name in a message, which those of a label value are.
const NAMED_LOCATION: usize = 63;

/// The mismatch, if a deployment is not meant for this cell: a location decides, without one the city (contract: api.md
/// K11).
fn elsewhere(place: &Place<Arc<str>>, location: &str, city: &str) -> Option<(Reason, String)> {
    match place {
        Place::Location(wanted) | Place::Both { location: wanted, .. } => {
            (**wanted != *location).then(|| {
                // The text is a tenant's: an API server refuses a condition with too long a message.
                let wanted: String = wanted.chars().take(NAMED_LOCATION).collect();
                let message =
                    format!("spec.locationRef is {wanted}, but this cell is at location {location}");
                (Reason::LocationMismatch, message)
            })
        }
        Place::City(wanted) => (**wanted != *city).then(|| {
            let message = format!("spec.cityCode is {wanted}, but this cell is in {city}");
            (Reason::CityCodeMismatch, message)
        }),
    }
}

/// Error for the first interface whose Network is in a namespace other than the deployment's own.
fn foreign_network(snapshot: &Snapshot, spec: &Spec) -> Option<String> {
    if snapshot.cross_namespace_networks {
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

fn hold(snapshot: &Snapshot, block: Option<&Blocker>) -> Option<RolloutHold> {
    if snapshot.deployment.suspended {
        return Some(RolloutHold::Suspended);
    }
    let block = block.map(|block| RolloutHold::Blocked(block.reason));
    block.or(snapshot.quota_unavailable.then_some(RolloutHold::Rolls))
}

/// Scheduling gates of new Instances, in order.
fn new_gates(snapshot: &Snapshot, spec: &Spec) -> Vec<&'static str> {
    let gates = [
        (snapshot.networking, gates::NETWORK),
        (true, gates::QUOTA),
        (snapshot.data && spec.references, gates::REFERENCED_DATA),
    ];
    gates
        .into_iter()
        .filter(|(set, _)| *set)
        .map(|(_, gate)| gate)
        .collect()
}

fn target(snapshot: &Snapshot, table: TableId, name: &str) -> Target {
    Target::namespaced(Plane::Cell, &table.resource(), &snapshot.namespace, name)
}

fn location(snapshot: &Snapshot) -> Option<&LocationReference> {
    match &snapshot.located {
        CellLocation::At { location, .. } => Some(location),
        CellLocation::Untold | CellLocation::Nowhere | CellLocation::Ambiguous(_) => None,
    }
}

/// Writes of the steps that may run now.
fn performed(snapshot: &Snapshot, spec: &Spec, steps: &[Step], now: Timestamp) -> Vec<Effect> {
    let mut template = None;
    let new = new_gates(snapshot, spec);
    let deployment = rollout::Deployment {
        name: snapshot.name.clone(),
        uid: snapshot.version.uid.clone(),
        replicas: spec.replicas,
        policy: spec.policy,
        linking: snapshot.linking(spec),
    };
    let mut effects = Vec::new();
    for step in steps.iter().filter(|step| step.now) {
        let target = target(snapshot, TableId::Instances, &step.instance);
        match &step.act {
            Act::Create(ordinal) => {
                let template: &Value =
                    template.get_or_insert_with(|| serde_json::from_str(&spec.template).unwrap_or_default());
                let making = NewInstance {
                    namespace: &snapshot.namespace,
                    template,
                    hash: &spec.hash,
                    gates: &new,
                    location: location(snapshot),
                };
                let mut body = make::instance(&deployment, *ordinal, &making);
                // Create the Instance with its finalizers, so that no deletion in between can leave objects behind.
                let mut all = finalizers(snapshot.hub);
                all.extend(snapshot.provider.then_some(keys::PROVIDER_FINALIZER));
                body["metadata"]["finalizers"] = json!(all);
                if new.contains(&gates::REFERENCED_DATA) {
                    body["metadata"]["annotations"][keys::GATE_START] = json!(now.to_string());
                }
                effects.push(create(target, body, WriteReason::InstanceMissing));
            }
            Act::Delete { uid, version } => effects.push(Effect {
                target,
                endpoint: Endpoint::Main,
                write: Write::Delete {
                    uid: uid.to_string(),
                    resource_version: version.as_ref().map(ToString::to_string),
                },
                reason: reason(step.why).into(),
            }),
            Act::PatchLabels { uid, patch } => effects.push(Effect {
                target,
                endpoint: Endpoint::Main,
                write: Write::Merge {
                    patch: json!({"metadata": {"uid": **uid, "labels": patch}}),
                },
                reason: WriteReason::InstanceLabels.into(),
            }),
            Act::Wait => {}
        }
    }
    effects
}

fn reason(why: StepReason) -> WriteReason {
    match why {
        StepReason::Stray => WriteReason::InstanceStray,
        StepReason::Surplus => WriteReason::InstanceSurplus,
        StepReason::FixForward => WriteReason::InstanceFixForward,
        _ => WriteReason::InstanceRoll,
    }
}

/// Writes for the network objects of the deployment.
fn network(snapshot: &Snapshot) -> Vec<Effect> {
    let (Some((acts, _)), Some(location)) = (&snapshot.network, location(snapshot)) else {
        return Vec::new();
    };
    let effect = |act: &NetworkAct| match act {
        NetworkAct::Bind { name, network } => {
            let body = json!({
                "apiVersion": "networking.datumapis.com/v1alpha", "kind": "NetworkBinding",
                "metadata": {
                    "name": name, "namespace": *snapshot.namespace,
                    "ownerReferences": [{"apiVersion": API_VERSION, "kind": "WorkloadDeployment", "name": *snapshot.name,
                        "uid": *snapshot.version.uid, "controller": true, "blockOwnerDeletion": true}],
                },
                "spec": {"network": network, "location": location},
            });
            create(
                target(snapshot, TableId::Bindings, name),
                body,
                WriteReason::NetworkBinding,
            )
        }
        NetworkAct::Unbind { name, uid } => delete(
            target(snapshot, TableId::Bindings, name),
            uid,
            WriteReason::NetworkBindingUnused,
        ),
        NetworkAct::Claim {
            namespace,
            name,
            context,
            owner,
            family,
        } => {
            let body = json!({
                "apiVersion": "networking.datumapis.com/v1alpha", "kind": "SubnetClaim",
                "metadata": {
                    "name": name, "namespace": **namespace,
                    "ownerReferences": [{"apiVersion": "networking.datumapis.com/v1alpha", "kind": "NetworkContext",
                        "name": **context, "uid": **owner}],
                },
                "spec": {"subnetClass": "private", "ipFamily": **family, "networkContext": {"name": **context},
                    "location": location},
            });
            let target = Target::namespaced(Plane::Cell, &TableId::SubnetClaims.resource(), namespace, name);
            create(target, body, WriteReason::SubnetClaim)
        }
    };
    acts.iter().map(effect).collect()
}

/// Changes of live Instances in place: the Network gate, the location, suspension.
fn in_place(snapshot: &Snapshot, steps: &[Step]) -> Vec<Effect> {
    let network_done = !snapshot.networking || matches!(snapshot.network, Some((_, State::Ready)));
    let own = |known: &&Known| known.control.owner == Owner::Deployment(snapshot.version.uid.clone());
    // An Instance that this reconcile writes has another version afterwards.
    let written = |known: &Known| {
        let mut now = steps.iter().filter(|step| step.now && step.act != Act::Wait);
        now.any(|step| step.instance == known.control.name)
    };
    let live = snapshot.instances.iter().filter(own);
    let live = live.filter(|known| !known.control.deleting && !written(known));
    live.filter_map(|known| {
        let Known { control, instance } = known;
        let version = ObjectVersion {
            uid: control.uid.clone(),
            version: control.version.clone(),
        };
        let target = target(snapshot, TableId::Instances, &control.name);
        if let Some(patch) = placed(snapshot, instance, network_done) {
            return Some(version.patch(target, Endpoint::Main, patch, WriteReason::InstanceNetwork));
        }
        (instance.suspended != snapshot.deployment.suspended).then(|| {
            let suspended = snapshot.deployment.suspended.then_some(true);
            let patch = json!({"status": {"suspended": suspended}});
            version.patch(target, Endpoint::Status, patch, WriteReason::InstanceSuspension)
        })
    })
    .collect()
}

fn placed(snapshot: &Snapshot, instance: &Instance, network_done: bool) -> Option<Value> {
    let mut spec = Map::new();
    if let Some(location) = location(snapshot).filter(|_| !instance.located) {
        spec.insert("location".to_owned(), json!(location));
    }
    if network_done && instance.has_gate(gates::NETWORK) {
        let left = instance.gates.iter().filter(|gate| ***gate != *gates::NETWORK);
        let left: Vec<Value> = left.map(|gate| json!({"name": **gate})).collect();
        spec.insert("controller".to_owned(), json!({"schedulingGates": left}));
    }
    (!spec.is_empty()).then(|| json!({"spec": spec}))
}

fn write_status(
    snapshot: &Snapshot,
    desired: Option<u32>,
    steps: &[Step],
    block: Option<&Blocker>,
    now: Timestamp,
) -> Option<Effect> {
    let deployment = &snapshot.deployment;
    let gates: Vec<Vec<&str>> = snapshot
        .instances
        .iter()
        .map(|known| known.instance.gates.iter().map(|gate| &**gate).collect())
        .collect();
    let own = snapshot.instances.iter().zip(&gates);
    let own = own.filter(|(known, _)| known.control.owner == Owner::Deployment(snapshot.version.uid.clone()));
    let mut instances: Vec<status::Instance<'_>> = own
        .map(|(Known { control, instance }, gates)| status::Instance {
            name: &control.name,
            current: control.current,
            made_from: instance.hash.as_deref(),
            applied: instance.applied.as_deref(),
            gates,
            conditions: &instance.conditions,
        })
        .collect();
    instances.sort_by_key(|instance| rollout::ordinal::of_name(&snapshot.name, instance.name));
    let error: Option<(String, String)> = deployment.data_error.as_ref().and_then(|text| {
        let error: Value = serde_json::from_str(text).ok()?;
        Some((
            error["reason"].as_str()?.to_owned(),
            error["message"].as_str()?.to_owned(),
        ))
    });
    let written: Value = serde_json::from_str(&deployment.status).unwrap_or_default();
    let before: WorkloadDeploymentStatus = serde_json::from_value(written.clone()).unwrap_or_default();
    // If the desired number is invalid, keep the number of the last status.
    let last = || u32::try_from(before.counts.desired_replicas).unwrap_or_default();
    let seen = Seen {
        desired: desired.unwrap_or_else(last),
        instances: &instances,
        steps,
        suspended: deployment.suspended,
        block,
        data_error: error.as_ref().map(|(reason, message)| (&**reason, &**message)),
    };
    let mut conditions = before.conditions;
    let mut say = |type_, verdict: Verdict| {
        let condition = Condition::new(type_, verdict.status, &verdict.reason, &verdict.message, now);
        set(&mut conditions, condition.observed(Some(deployment.generation)));
    };
    say(REPLICAS_READY, status::replicas_ready(&seen));
    say(AVAILABLE, status::available(&seen));
    let status = WorkloadDeploymentStatus {
        location: location(snapshot).cloned().or(before.location),
        conditions,
        counts: status::counts(&seen),
        observed_generation: Some(deployment.generation),
        suspended: deployment.suspended.then_some(true),
        selector: None,
    };
    let patch = patch(&written, &json!(status))?;
    let target = target(snapshot, TableId::Deployments, &snapshot.name);
    let patch = json!({"status": patch});
    let version = &snapshot.version;
    Some(version.patch(target, Endpoint::Status, patch, WriteReason::DeploymentStatus))
}

/// Whether a status changes `Available`, for which the tenant waits.
pub fn write_kind(snapshot: &Snapshot, status: &Effect) -> WriteKind {
    let Write::Merge { patch } = &status.write else {
        return WriteKind::Progress;
    };
    let before: Value = serde_json::from_str(&snapshot.deployment.status).unwrap_or_default();
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
