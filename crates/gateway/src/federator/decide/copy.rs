//! The copy on the hub: its creation, updates, city moves and claim repair.

use super::{Act, CopyStep, Pass, READ_SOURCE, WAIT, act, copy_target, single_member};
use crate::{
    federator::{conditions, events, memory::Memory, observe::Snapshot, pauses, render},
    index::rows::{HubCopy, Routed, Source},
    rate_limit::{Class, Permit},
    reason::WriteReason,
    route::CityRoute,
};
use fedgate_api::{keys, names::HubNamespace};
use fedgate_engine::{
    diff::{is_payload, merge_patch},
    plan::{Effect, Plan, Requeue, Write},
    store::table::Row,
};
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Time for which a claim must name a wrong policy before it is repaired.
const CLAIM_PATIENCE: Duration = Duration::from_secs(10);

/// Minimum time between two repairs of a claim.
const CLAIM_REPAIR_EVERY: Duration = Duration::from_secs(30);

/// Creates, updates, moves or repairs the copy.
pub(super) fn sync(p: &Pass<'_>, memory: &mut Memory) -> CopyStep {
    let Pass { s, source, now, .. } = *p;
    if let Some(at) = &s.single_member {
        return single_member::sync(p, at, memory);
    }
    let Ok(destination) = &s.destination.to else {
        return WAIT;
    };
    if let Some((_, left)) = memory.refusal(source, now) {
        return CopyStep::Wait(Requeue::After(left));
    }
    // New references are synced before the spec that needs them, as before a new copy.
    let furnished = s.companions.allow_write();
    let Some(copy) = &s.copy else {
        return if furnished { create(p, None, memory) } else { WAIT };
    };
    if copy.deleting || copy.partial || conditions::taken(s, copy) {
        return WAIT;
    }
    let from = copy.digest.source_uid.as_ref();
    if from.is_some_and(|uid| *uid != source.uid) {
        return if s.complete {
            act(delete_copy(s, copy, WriteReason::ReplaceCopy), memory.clone()).after_get()
        } else {
            WAIT
        };
    }
    // Either the index is stale or the project was restored to an older state; a GET from the project decides.
    if conditions::is_older(source, copy) && !s.complete {
        return WAIT;
    }
    let moves =
        copy.digest.routed != Routed::Nowhere && copy.digest.route().as_ref() != Some(&destination.route);
    let differs = differs(s, source, copy, memory) || copy.digest.route().is_none();
    // The copy of an object that names another place stays as it is.
    let (moves, differs) = (moves && s.asks_for.is_none(), differs && s.asks_for.is_none());
    if (moves || differs) && !furnished {
        return WAIT;
    }
    if moves {
        let labels = destination.route.labels(s.profile()).into_iter();
        let labels = labels.map(|(key, value)| (key, json!(value))).collect();
        let mut step = reroute(p, copy, labels, true, WriteReason::MoveCopy, memory);
        if let CopyStep::Act(act) = &mut step
            && copy.digest.city.as_ref() != Some(&destination.city)
        {
            let note = events::moved(s, source, copy, &destination.city);
            act.plan.notes.insert(0, note);
        }
        return step;
    }
    if differs {
        return update(p, copy, None, memory);
    }
    // The copy has the payload, so that a rejection of it no longer counts.
    memory.refused = None;
    if !s.complete {
        return WAIT;
    }
    repair_claim(p, copy, memory)
}

/// True if the copy has another payload than the deployment, or that of another generation.
pub(super) fn differs(s: &Snapshot, source: &Row<Source>, copy: &Row<HubCopy>, memory: &Memory) -> bool {
    !memory.payload.accepts(s.wanted(source), copy.digest.whole())
        || copy.digest.source_generation != Some(source.digest.generation)
}

/// Creates the copy, in a delivery policy if its object lives at one member.
pub(super) fn create(p: &Pass<'_>, policy: Option<&str>, memory: &Memory) -> CopyStep {
    let (Some(hub), Ok(destination)) = (&p.s.hub, &p.s.destination.to) else {
        return WAIT;
    };
    if let Some(step) = await_permit(p, Class::Create) {
        return step;
    }
    let Some(body) = &p.source.body else {
        return READ_SOURCE;
    };
    let body = render(p, body, hub, destination, policy);
    let write = Write::Create { body, strict: true };
    let effect = Effect::main(copy_target(p.s), write, WriteReason::CreateCopy);
    act(effect, written(p, memory, true))
}

/// Gives the copy the deployment's spec.
pub(super) fn update(p: &Pass<'_>, copy: &Row<HubCopy>, policy: Option<&str>, memory: &Memory) -> CopyStep {
    let (Some(hub), Ok(destination)) = (&p.s.hub, &p.s.destination.to) else {
        return WAIT;
    };
    if let Some(step) = await_permit(p, Class::Update) {
        return step;
    }
    let Some(body) = &p.source.body else {
        return READ_SOURCE;
    };
    let mut body = render(p, body, hub, destination, policy);
    body["metadata"]["uid"] = json!(&*copy.uid);
    let profile = p.s.profile();
    let carried = profile.carried_annotations.iter().map(String::as_str);
    for key in carried.chain(profile.suspension_mark()) {
        if body["metadata"]["annotations"].get(key).is_none() {
            body["metadata"]["annotations"][key] = Value::Null;
        }
    }
    let write = Write::Update { body, strict: true };
    let mut plan = Plan::one(Effect::main(copy_target(p.s), write, WriteReason::UpdateCopy));
    plan.notes.extend(pauses::changed(p.s));
    let mut act = Act::new(plan, written(p, memory, false));
    confirm_older(p, copy, &mut act);
    CopyStep::Act(Box::new(act))
}

/// Gives the copy to another policy by its labels, with one merge patch that removes Karmada's claim, so that Karmada schedules
/// it again. The deployment's spec goes with it if `with_spec`.
pub(super) fn reroute(
    p: &Pass<'_>,
    copy: &Row<HubCopy>,
    labels: Vec<(&str, Value)>,
    with_spec: bool,
    reason: WriteReason,
    memory: &Memory,
) -> CopyStep {
    let (Some(hub), Ok(destination)) = (&p.s.hub, &p.s.destination.to) else {
        return WAIT;
    };
    if let Some(step) = await_permit(p, Class::Update) {
        return step;
    }
    let payload = match (with_spec, &copy.body, &p.source.body) {
        (false, ..) => None,
        (true, Some(from), Some(to)) => Some((from, render(p, to, hub, destination, None))),
        (true, from, to) => {
            return CopyStep::Read {
                source: to.is_none(),
                copy: from.is_none(),
            };
        }
    };
    let (claim, mut annotations) = unclaim();
    for (key, cell) in [
        (keys::CELL, copy.digest.cell()),
        (keys::MOVE_TO, copy.digest.move_to()),
        (keys::MOVING_TO, copy.digest.moving_to()),
    ] {
        if cell.is_some() {
            annotations[key] = Value::Null;
        }
    }
    let mut metadata = json!({"uid": &*copy.uid, "resourceVersion": copy.resource_version(),
        "labels": claim, "annotations": annotations});
    let mut patch = Map::new();
    if let Some((from, body)) = &payload {
        for field in ["labels", "annotations"] {
            if let (Some(into), Some(wanted)) = (
                metadata[field].as_object_mut(),
                body["metadata"][field].as_object(),
            ) {
                into.extend(wanted.clone());
            }
        }
        for key in &p.s.profile().carried_annotations {
            if metadata["annotations"].get(key).is_none() {
                metadata["annotations"][key] = Value::Null;
            }
        }
        let roots = [&from.data, body].into_iter().filter_map(Value::as_object);
        for root in roots.flat_map(Map::keys).filter(|root| is_payload(root)) {
            if let Some(inner) = merge_patch(&from.data[root], &body[root]) {
                patch.insert(root.clone(), inner);
            }
        }
    }
    for (key, value) in labels {
        metadata["labels"][key] = value;
    }
    patch.insert("metadata".to_owned(), metadata);
    let write = Write::Merge { patch: patch.into() };
    let effect = Effect::main(copy_target(p.s), write, reason);
    let mut plan = Plan::one(effect);
    plan.notes.extend(pauses::changed(p.s).filter(|_| with_spec));
    let mut act = Act::new(plan, written(p, memory, true));
    if with_spec {
        confirm_older(p, copy, &mut act);
    }
    CopyStep::Act(Box::new(act))
}

/// The whole copy, with the mark of a suspended deployment.
fn render(
    p: &Pass<'_>,
    body: &DynamicObject,
    hub: &HubNamespace,
    destination: &CityRoute,
    policy: Option<&str>,
) -> Value {
    let (kind, location) = (p.s.profile(), p.s.destination.location.as_ref());
    let mut copy = render::copy(kind, body, hub.as_str(), destination, location);
    if let Some(key) = kind.suspension_mark().filter(|_| p.source.digest.suspended) {
        copy["metadata"]["annotations"][key] = json!("true");
    }
    if let Some(policy) = policy {
        copy["metadata"]["labels"][keys::LANE] = json!(policy);
    }
    copy
}

/// A write that syncs an older generation than the copy's is confirmed by a GET first, and reported.
fn confirm_older(p: &Pass<'_>, copy: &Row<HubCopy>, act: &mut Act) {
    if conditions::is_older(p.source, copy) {
        act.needs_get = true;
        act.plan.notes.push(events::rewound(p.s, p.source, copy));
    }
}

/// Permit for a write that makes Karmada work: no body is read or kept for a write that is not sent yet.
pub(super) fn await_permit(p: &Pass<'_>, class: Class) -> Option<CopyStep> {
    match p.permit {
        Permit::Unasked => Some(CopyStep::Permit(class)),
        Permit::Wait(wait) => Some(CopyStep::Wait(Requeue::After(wait))),
        Permit::Granted => None,
    }
}

pub(super) fn delete_copy(s: &Snapshot, copy: &Row<HubCopy>, reason: WriteReason) -> Effect {
    Effect::main(copy_target(s), Write::delete(&copy.uid), reason)
}

/// The memory after the hub has stored the copy; its delivery begins anew if it `is_sent` to a member.
fn written(p: &Pass<'_>, memory: &Memory, is_sent: bool) -> Memory {
    let mut applied = memory.clone();
    applied.refused = None;
    if is_sent {
        applied.since.undelivered = Some(p.now.instant);
    }
    applied
}

/// The labels and annotations that remove Karmada's claim.
fn unclaim() -> (Value, Value) {
    (
        json!({keys::CLAIM_ID: null}),
        json!({keys::CLAIM_NAME: null, keys::CLAIM_NAMESPACE: null}),
    )
}

fn repair_claim(p: &Pass<'_>, copy: &Row<HubCopy>, memory: &mut Memory) -> CopyStep {
    let Pass { s, now, .. } = *p;
    if s.is_claim_right {
        memory.since.claim_mismatch = None;
        return WAIT;
    }
    let since = *memory.since.claim_mismatch.get_or_insert(now.instant);
    let due = memory.claim_repaired.map_or(since + CLAIM_PATIENCE, |at| {
        (at + CLAIM_REPAIR_EVERY).max(since + CLAIM_PATIENCE)
    });
    if now.instant < due {
        return CopyStep::Wait(Requeue::After(due - now.instant));
    }
    let (labels, annotations) = unclaim();
    let patch = json!({"metadata": {"uid": &*copy.uid, "resourceVersion": copy.resource_version(),
        "labels": labels, "annotations": annotations}});
    let effect = Effect::main(copy_target(s), Write::Merge { patch }, WriteReason::RepairClaim);
    let applied = Memory {
        claim_repaired: Some(now.instant),
        ..memory.clone()
    };
    act(effect, applied)
}
