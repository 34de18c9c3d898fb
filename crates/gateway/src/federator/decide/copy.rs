//! The copy on the hub: its creation, updates, city moves and claim repair.

use super::{Act, Step, act, copy_target};
use crate::reason::WriteReason;
use crate::{
    federator::{conditions, events, memory::Memory, observe::Snapshot, pauses, render},
    index::rows::{HubCopy, Routed, Source},
    rate_limit::{Class, Permit},
    route::{CityRoute, Route},
};
use fedgate_api::{keys, names::HubNamespace};
use fedgate_engine::{
    clock::Now,
    diff::{is_payload, merge_patch},
    plan::{Effect, Endpoint, ExactFields, Plan, Requeue, Write},
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
pub(super) fn copy_step(
    s: &Snapshot,
    source: &Row<Source>,
    memory: &mut Memory,
    permit: Permit,
    now: Now,
) -> Step {
    let (Some(hub), Ok(destination)) = (&s.hub, &s.destination.to) else {
        return Step::Wait(Requeue::AwaitChange);
    };
    if let Some((_, left)) = memory.refusal(source, now) {
        return Step::Wait(Requeue::After(left));
    }
    // New references are synced before the spec that needs them, as before a new copy.
    let furnished = s.companions_there && s.references.as_ref().is_none_or(|r| !r.resolving);
    let Some(copy) = &s.copy else {
        if !furnished {
            return Step::Wait(Requeue::AwaitChange);
        }
        if let Some(step) = held_up(permit, Class::Create) {
            return step;
        }
        let Some(body) = &source.body else {
            return Step::Read(true, false);
        };
        let body = rendered(s, source, body, hub, destination);
        return act(
            apply(s, body, WriteReason::CreateCopy),
            written(memory, Some(now)),
        );
    };
    if copy.deleting || copy.partial || conditions::taken(s, copy) {
        return Step::Wait(Requeue::AwaitChange);
    }
    if copy
        .digest
        .source_uid
        .as_ref()
        .is_some_and(|uid| *uid != source.uid)
    {
        return if s.complete {
            act(delete_copy(s, copy, WriteReason::ReplaceCopy), memory.clone()).unconfirmed()
        } else {
            Step::Wait(Requeue::AwaitChange)
        };
    }
    // Either the index is stale or the project was restored to an older state; a GET from the project decides.
    if conditions::is_older(source, copy) && !s.complete {
        return Step::Wait(Requeue::AwaitChange);
    }
    let moves =
        copy.digest.routed != Routed::Nowhere && copy.digest.route().as_ref() != Some(&destination.route);
    let same_content = memory.payload.accepts(s.wanted(source), copy.digest.whole());
    let differs = !same_content
        || copy.digest.source_generation != Some(source.digest.generation)
        || copy.digest.route().is_none();
    // An object that names another place keeps the copy that it has.
    let (moves, differs) = (moves && s.asks_for.is_none(), differs && s.asks_for.is_none());
    if (moves || differs) && !furnished {
        return Step::Wait(Requeue::AwaitChange);
    }
    if (moves || differs)
        && let Some(step) = held_up(permit, Class::Update)
    {
        return step;
    }
    if moves {
        let (Some(from), Some(to)) = (&copy.body, &source.body) else {
            return Step::Read(source.body.is_none(), copy.body.is_none());
        };
        let body = rendered(s, source, to, hub, destination);
        let mut plan = Plan::one(move_copy(s, copy, &destination.route, &from.data, &body));
        if copy.digest.city.as_ref() != Some(&destination.city) {
            plan.notes.push(events::moved(s, source, copy, &destination.city));
        }
        plan.notes.extend(pauses::changed(s));
        let applied = written(memory, Some(now));
        return confirmed(s, source, copy, Act::new(plan, applied));
    }
    if differs {
        let Some(body) = &source.body else {
            return Step::Read(true, false);
        };
        let mut body = rendered(s, source, body, hub, destination);
        body["metadata"]["uid"] = json!(&*copy.uid);
        let mut plan = Plan::one(apply(s, body, WriteReason::UpdateCopy));
        plan.notes.extend(pauses::changed(s));
        return confirmed(s, source, copy, Act::new(plan, written(memory, None)));
    }
    // The hub has the payload that it rejected before, or the payload that was applied instead.
    memory.refused = None;
    if !s.complete {
        return Step::Wait(Requeue::AwaitChange);
    }
    repair_claim(s, copy, memory, now)
}

/// The whole copy, with the mark of a suspended deployment.
pub(in crate::federator) fn rendered(
    s: &Snapshot,
    source: &Row<Source>,
    body: &DynamicObject,
    hub: &HubNamespace,
    destination: &CityRoute,
) -> Value {
    let mut copy = render::copy(
        s.profile(),
        body,
        hub.as_str(),
        destination,
        s.destination.location.as_ref(),
    );
    let mark = s.profile().suspension_mark();
    if let Some(key) = mark.filter(|_| source.digest.suspended) {
        copy["metadata"]["annotations"][key] = json!("true");
    }
    copy
}

/// A write that syncs an older generation than the copy's is confirmed by a GET first, and reported.
pub(in crate::federator) fn confirmed(
    s: &Snapshot,
    source: &Row<Source>,
    copy: &Row<HubCopy>,
    mut act: Act,
) -> Step {
    if conditions::is_older(source, copy) {
        act.confirmed = false;
        act.plan.notes.push(events::rewound(s, source, copy));
    }
    Step::Act(Box::new(act))
}

/// Permit for a write that makes Karmada work: no body is read or kept for a write that is not sent yet.
pub(in crate::federator) fn held_up(permit: Permit, class: Class) -> Option<Step> {
    match permit {
        Permit::Unasked => Some(Step::Permit(class)),
        Permit::Wait(wait) => Some(Step::Wait(Requeue::After(wait))),
        Permit::Granted => None,
    }
}

pub(in crate::federator) fn delete_copy(s: &Snapshot, copy: &Row<HubCopy>, reason: WriteReason) -> Effect {
    let write = Write::Delete {
        uid: copy.uid.to_string(),
        resource_version: None,
    };
    Effect {
        target: copy_target(s),
        endpoint: Endpoint::Main,
        write,
        reason: reason.into(),
    }
}

/// The memory after the hub has stored the copy; a new delivery begins at `since`.
pub(in crate::federator) fn written(memory: &Memory, since: Option<Now>) -> Memory {
    Memory {
        refused: None,
        undelivered: since.map(|now| now.instant).or(memory.undelivered),
        ..memory.clone()
    }
}

pub(in crate::federator) fn apply(s: &Snapshot, body: Value, reason: WriteReason) -> Effect {
    // An apply keeps fields that another manager has set: a city move therefore uses a merge patch.
    let carried = &body["metadata"]["annotations"];
    let absent = s.profile().carried_annotations.iter();
    let absent = absent.filter(|key| carried.get(*key).is_none()).cloned();
    let exact = ExactFields::payload(absent.collect());
    let write = Write::Apply { body, exact };
    Effect {
        target: copy_target(s),
        endpoint: Endpoint::Main,
        write,
        reason: reason.into(),
    }
}

fn unclaim() -> (Value, Value) {
    (
        json!({keys::CLAIM_ID: null}),
        json!({keys::CLAIM_NAME: null, keys::CLAIM_NAMESPACE: null}),
    )
}

/// The merge patch that gives a copy to another policy: these labels, no claim, and the new payload if there is one.
pub(in crate::federator) fn given<'a>(
    s: &Snapshot,
    copy: &Row<HubCopy>,
    route: impl Iterator<Item = (&'a str, Value)>,
    payload: Option<(&Value, &Value)>,
) -> Value {
    let (mut labels, mut annotations) = unclaim();
    for (key, value) in route {
        labels[key] = value;
    }
    let mut patch = json!({"metadata": {"uid": &*copy.uid, "resourceVersion": copy.resource_version()}});
    if let Some((from, body)) = payload {
        for (into, field) in [(&mut labels, "labels"), (&mut annotations, "annotations")] {
            if let (Some(into), Some(wanted)) = (into.as_object_mut(), body["metadata"][field].as_object()) {
                into.extend(wanted.clone());
            }
        }
        for key in &s.profile().carried_annotations {
            if annotations.get(key).is_none() {
                annotations[key] = Value::Null;
            }
        }
        let roots = [from, body].into_iter().filter_map(Value::as_object);
        for root in roots.flat_map(Map::keys).filter(|root| is_payload(root)) {
            if let Some(inner) = merge_patch(&from[root], &body[root]) {
                patch[root] = inner;
            }
        }
    }
    patch["metadata"]["labels"] = labels;
    patch["metadata"]["annotations"] = annotations;
    patch
}

/// One merge patch: labels, payload, generation and removal of the claim, so that Karmada schedules again.
fn move_copy(s: &Snapshot, copy: &Row<HubCopy>, route: &Route, from: &Value, body: &Value) -> Effect {
    let labels = route.labels(s.profile()).into_iter();
    let labels = labels.map(|(key, value)| (key, json!(value)));
    let patch = given(s, copy, labels, Some((from, body)));
    let write = Write::Merge { patch };
    Effect {
        target: copy_target(s),
        endpoint: Endpoint::Main,
        write,
        reason: WriteReason::MoveCopy.into(),
    }
}

fn repair_claim(s: &Snapshot, copy: &Row<HubCopy>, memory: &mut Memory, now: Now) -> Step {
    if s.claim_good {
        memory.claim_mismatch_since = None;
        return Step::Wait(Requeue::AwaitChange);
    }
    let since = *memory.claim_mismatch_since.get_or_insert(now.instant);
    let due = memory.claim_repaired.map_or(since + CLAIM_PATIENCE, |at| {
        (at + CLAIM_REPAIR_EVERY).max(since + CLAIM_PATIENCE)
    });
    if now.instant < due {
        return Step::Wait(Requeue::After(due - now.instant));
    }
    let (labels, annotations) = unclaim();
    let patch = json!({"metadata": {"uid": &*copy.uid, "resourceVersion": copy.resource_version(),
        "labels": labels, "annotations": annotations}});
    let write = Write::Merge { patch };
    let effect = Effect {
        target: copy_target(s),
        endpoint: Endpoint::Main,
        write,
        reason: WriteReason::RepairClaim.into(),
    };
    let applied = Memory {
        claim_repaired: Some(now.instant),
        ..memory.clone()
    };
    act(effect, applied)
}
