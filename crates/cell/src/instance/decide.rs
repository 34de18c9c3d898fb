//! Decides the next write to an Instance: finalizers, conditions, gates, in that order. Pure functions.

use super::observe::InstanceSnapshot;
use crate::{
    conditions::{self, Verdict, gates, is_final_state, written},
    reason::WriteReason,
    writes,
};
use fedgate_api::{
    Condition,
    ConditionStatus::{False, True},
    Reason,
    conditions::{
        find,
        types::{AVAILABLE, INITIALIZED, PROGRAMMED, QUOTA_GRANTED, READY, REFERENCED_DATA_READY},
    },
    keys,
};
use fedgate_engine::plan::{Effect, Event, Plan, Prepared};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Finalizers of this controller.
pub const OURS: [&str; 2] = [keys::CLAIM_FINALIZER, keys::INSTANCE_FINALIZER];

/// Text of the Event on an Instance that no deployment controls.
pub const NOT_CONTROLLED: &str = "no WorkloadDeployment controls this Instance, so fedgate neither runs it nor \
     writes it back; delete it, and create a Workload in the project instead";

/// The next write, if any is left. `quota` is the new value of the condition `QuotaGranted`; `None` keeps its status,
/// reason and message.
pub fn decide(snapshot: &InstanceSnapshot, quota: Option<&Verdict>, now: Timestamp) -> Plan<Prepared> {
    if !snapshot.row.deleting
        && let Some(patch) = metadata(snapshot, now)
    {
        return write(snapshot, patch, WriteReason::InstanceFinalizers);
    }
    let conditions = conditions(snapshot, quota, now);
    if conditions[..] != snapshot.row.digest.conditions[..] {
        let patch = json!({"status": {"conditions": conditions}});
        let mut plan = write(snapshot, patch, WriteReason::InstanceConditions);
        plan.notes = notes(snapshot, &conditions);
        return plan;
    }
    if snapshot.row.deleting {
        return Plan::default();
    }
    let left: Vec<&str> = remaining(snapshot).collect();
    if left.len() == snapshot.row.digest.gates.len() {
        return Plan::default();
    }
    let left: Vec<Value> = left.into_iter().map(|gate| json!({"name": gate})).collect();
    let patch = json!({"spec": {"controller": {"schedulingGates": left}}});
    write(snapshot, patch, WriteReason::InstanceGates)
}

fn write(snapshot: &InstanceSnapshot, patch: Value, reason: WriteReason) -> Plan<Prepared> {
    Plan::one(writes::patch(&snapshot.row, snapshot.target(), patch, reason))
}

/// True if a deployment controls the Instance, or did when the Instance got our finalizers. Manually created Instances
/// are not touched.
pub fn is_ours(snapshot: &InstanceSnapshot) -> bool {
    let instance = &snapshot.row.digest;
    instance.is_deployments() || OURS.iter().any(|name| instance.has_finalizer(name))
}

/// True if the Instance has the claim finalizer, so that a claim created now is released in the end.
pub fn may_claim(snapshot: &InstanceSnapshot) -> bool {
    snapshot.row.digest.has_finalizer(keys::CLAIM_FINALIZER)
}

/// True if quota was requested: the default of the condition has no observed generation.
pub fn has_claimed(snapshot: &InstanceSnapshot) -> bool {
    let said = snapshot.row.digest.condition(QUOTA_GRANTED);
    said.is_some_and(|c| c.observed_generation.is_some() && c.reason != Reason::QuotaDisabled.as_str())
}

/// True if the Instance is being deleted and only our finalizers are left.
pub fn is_ending(snapshot: &InstanceSnapshot) -> bool {
    let finalizers = &snapshot.row.digest.finalizers;
    snapshot.row.deleting && !finalizers.is_empty() && finalizers.iter().all(|name| OURS.contains(&&**name))
}

/// Merge patch that adds missing finalizers and the timestamp of the referenced-data gate.
fn metadata(snapshot: &InstanceSnapshot, now: Timestamp) -> Option<Value> {
    let instance = &snapshot.row.digest;
    let missing: Vec<&str> = writes::finalizers(snapshot.hub)
        .filter(|name| !instance.has_finalizer(name))
        .collect();
    let mut metadata = json!({});
    if !missing.is_empty() {
        let all = instance.finalizers.iter().map(|name| &**name);
        metadata["finalizers"] = all.chain(missing).collect();
    }
    if instance.has_gate(gates::REFERENCED_DATA) && !instance.gate_seen {
        metadata["annotations"] = json!({keys::GATE_START: now.to_string()});
    }
    (metadata != json!({})).then(|| json!({"metadata": metadata}))
}

/// Patch that removes our two finalizers.
pub fn release(snapshot: &InstanceSnapshot) -> Effect {
    let all = snapshot.row.digest.finalizers.iter().map(|name| &**name);
    let left: Vec<&str> = all.filter(|name| !OURS.contains(name)).collect();
    let patch = json!({"metadata": {"finalizers": left}});
    writes::patch(
        &snapshot.row,
        snapshot.target(),
        patch,
        WriteReason::InstanceReleased,
    )
}

fn conditions(snapshot: &InstanceSnapshot, quota: Option<&Verdict>, now: Timestamp) -> Vec<Condition> {
    let instance = &snapshot.row.digest;
    let mut conditions = instance.conditions.to_vec();
    let generation = instance.generation;
    let say = |conditions: &mut Vec<Condition>, type_, verdict: &Verdict| {
        verdict.set(conditions, type_, generation, now);
    };
    if !snapshot.row.deleting {
        match quota {
            Some(verdict) => say(&mut conditions, QUOTA_GRANTED, verdict),
            None => restamp(&mut conditions, QUOTA_GRANTED, generation),
        }
        if let Some(data) = &snapshot.data {
            say(&mut conditions, REFERENCED_DATA_READY, data);
        }
        if let Some(refused) = never_started(snapshot, &conditions) {
            say(&mut conditions, PROGRAMMED, &refused);
            say(&mut conditions, AVAILABLE, &refused);
        }
    }
    let ready = conditions::ready(&conditions::ReadyInputs {
        instance,
        deleting: snapshot.row.deleting,
        conditions: &conditions,
        network_refused: snapshot.network_refused.as_deref(),
    });
    // The controller that replaces Instances infers from Initialized that the Instance has been ready with its
    // template.
    if ready.status != True
        && !snapshot.row.deleting
        && find(&conditions, READY).is_some_and(|c| c.status == True)
    {
        let message = "Instance has been ready";
        say(
            &mut conditions,
            INITIALIZED,
            &Verdict::of(True, Reason::Initialized, message),
        );
    }
    say(&mut conditions, READY, &ready);
    conditions
}

/// True if the conditions that a plan writes are more than progress: users wait for them, or they open the next gate.
/// Progress alone may wait, because more of it follows soon. `None` if the plan writes no conditions.
pub fn is_urgent(snapshot: &InstanceSnapshot, plan: &Plan<Prepared>) -> Option<bool> {
    let after = written(plan)?;
    let instance = &snapshot.row.digest;
    let holds_up = |now: &Condition| {
        let gate = match now.type_.as_str() {
            QUOTA_GRANTED => gates::QUOTA,
            REFERENCED_DATA_READY => gates::REFERENCED_DATA,
            _ => return false,
        };
        now.status == True && instance.has_gate(gate)
    };
    Some(
        snapshot.row.deleting
            || after
                .iter()
                .any(|now| is_transition(snapshot, now) || holds_up(now)),
    )
}

/// True if the conditions that a plan writes change Ready, which is visible outside the cell.
pub fn is_seen(snapshot: &InstanceSnapshot, plan: &Plan<Prepared>) -> bool {
    let after = written(plan).unwrap_or_default();
    find(&after, READY).is_some_and(|now| is_transition(snapshot, now))
}

fn is_transition(snapshot: &InstanceSnapshot, now: &Condition) -> bool {
    is_final_state(snapshot.row.digest.condition(&now.type_), now)
}

/// A condition that is True stays True at a new generation.
fn restamp(conditions: &mut [Condition], type_: &str, generation: i64) {
    let holds = |c: &&mut Condition| c.type_ == type_ && c.status == True;
    if let Some(condition) = conditions.iter_mut().find(holds) {
        condition.observed_generation = Some(generation);
    }
}

/// The value of the provider's conditions for an Instance that was denied quota before any provider started it.
fn never_started(snapshot: &InstanceSnapshot, conditions: &[Condition]) -> Option<Verdict> {
    let quota = find(conditions, QUOTA_GRANTED).filter(|c| c.status == False)?;
    let gated = snapshot.row.digest.has_gate(gates::QUOTA) && !snapshot.row.digest.suspended;
    let untouched = |type_| {
        let reason = find(conditions, type_).map(|c| Reason::parse(&c.reason));
        matches!(reason, None | Some(Some(Reason::Pending | Reason::PendingQuota)))
    };
    let never = gated && untouched(PROGRAMMED) && untouched(AVAILABLE);
    never.then(|| Verdict::of(False, Reason::PendingQuota, &*quota.message))
}

/// The gates that stay. A condition clears its gate if it is True for the current generation.
fn remaining(snapshot: &InstanceSnapshot) -> impl Iterator<Item = &str> {
    let instance = &snapshot.row.digest;
    let holds = |type_| {
        let condition = instance.condition(type_);
        condition.is_some_and(|c| c.status == True && c.observed_generation == Some(instance.generation))
    };
    let (quota, data) = (holds(QUOTA_GRANTED), holds(REFERENCED_DATA_READY));
    let gates = instance.gates.iter().map(|gate| &**gate);
    gates.filter(move |gate| !(quota && *gate == gates::QUOTA || data && *gate == gates::REFERENCED_DATA))
}

/// Events for the condition changes that users should see.
fn notes(snapshot: &InstanceSnapshot, conditions: &[Condition]) -> Vec<Event> {
    let said = [
        (REFERENCED_DATA_READY, Reason::AwaitingPropagation, "Waiting"),
        (QUOTA_GRANTED, Reason::QuotaNoBudget, "Claiming"),
        (QUOTA_GRANTED, Reason::QuotaExceeded, "Claiming"),
        (READY, Reason::NodeLost, "Stopping"),
    ];
    let news = said.into_iter().filter_map(|(type_, reason, action)| {
        let now = find(conditions, type_).filter(|c| c.reason == reason.as_str())?;
        let before = snapshot.row.digest.condition(type_);
        let told = before.is_some_and(|c| c.reason == now.reason);
        (!told).then(|| note(snapshot, reason.as_str(), action, &now.message))
    });
    news.collect()
}

/// A warning Event about the Instance.
pub fn note(snapshot: &InstanceSnapshot, reason: &str, action: &str, message: &str) -> Event {
    let target = snapshot.target();
    writes::warning(target, &snapshot.row.uid, reason, action, message.to_owned())
}
