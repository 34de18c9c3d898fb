//! Returns the copy's status, with the gateway's own conditions, to the project.

use super::{Act, CopyStep, Pass, READ_SOURCE, WAIT, single_member, source_target};
use crate::{
    federator::{
        conditions,
        delay::Delay,
        events,
        memory::{GRACE_PERIOD, Memory},
        observe::Snapshot,
    },
    index::rows::{
        ConditionsAt, HubCopy, Source,
        status::{FEDERATED, OwnCondition, render_foreign, render_status},
    },
    reason::WriteReason,
    single_member::conditions::status_ending,
};
use fedgate_api::keys;
use fedgate_engine::{
    diff::Digest,
    plan::{Effect, Endpoint, ExactFields, Plan, Requeue, Write},
    reconcile::throttle::{Rate, WriteKind},
    store::table::Row,
};
use fedgate_kinds::ConditionsIn;
use serde_json::{Value, json};
use std::{iter, time::Duration};

/// Writes the project's status if that changes anything and is due.
pub(super) fn return_status(p: &Pass<'_>, memory: &mut Memory) -> CopyStep {
    let Pass { s, source, now, .. } = *p;
    let resolving = s.companions.references.as_ref().is_some_and(|r| r.resolving);
    if resolving && conditions::invalid(s, source).is_none() {
        // While lists are incomplete a difference may be temporary and is not written.
        let waited = now.since(*memory.since.unresolved.get_or_insert(now.instant));
        if waited < GRACE_PERIOD {
            return CopyStep::Wait(Requeue::After(GRACE_PERIOD.saturating_sub(waited)));
        }
    } else {
        memory.since.unresolved = None;
    }
    let own_types = &s.profile().status.own_conditions;
    let (report, refused) = returnable(p, memory);
    let is_reported = report.is_some();
    let (own, next) = match &s.single_member {
        Some(at) => single_member::own(p, at, is_reported, memory),
        None => conditions::own(s, source, is_reported, memory, now),
    };
    let mut next = refused.map_or(next, |later| next.earlier(later));
    let (mut due, mut is_unreturned) = (false, false);
    let accepted = |copy| {
        let (hub, project) = status_digests(copy, source);
        memory.status.accepts(hub, project)
    };
    if let Some(copy) = report
        && !source
            .digest
            .status
            .is_returned(&copy.digest.status, own_types, source.digest.generation)
        && !accepted(copy)
    {
        if let Some(wait) = conditions::defer_no_cell_reporting(copy, source, memory, now) {
            next = next.earlier(Requeue::After(wait));
        } else {
            (due, is_unreturned) = (true, true);
        }
    } else {
        memory.since.unreported = None;
    }
    let changed = |c: &&OwnCondition| !source.digest.status.has_condition(c);
    let vanished = source.digest.status.conditions.iter().any(|had| {
        own_types.iter().any(|t| **t == *had.kind)
            && *had.kind != *FEDERATED
            && !own.iter().any(|c| *c.kind == *had.kind)
            && source.digest.references.is_empty()
    });
    due |= vanished;
    for condition in own.iter().filter(changed) {
        let had = source.digest.status.condition(condition.kind);
        let news = !had.is_some_and(|had| condition.agrees(had));
        // `True`, and an unchanged condition of a new generation, wait for the next reported status.
        if !news || condition.kind == FEDERATED && condition.status {
            let since = *memory.since.only_true.get_or_insert(now.instant);
            let waited = now.since(since);
            due |= waited >= GRACE_PERIOD;
            next = next.earlier(Requeue::After(GRACE_PERIOD.saturating_sub(waited)));
        } else {
            due = true;
        }
    }
    if !due && source.digest.conditions == ConditionsAt::StatusAndAnnotation {
        return end_note(p, memory).by(next);
    }
    if !due {
        if !own.iter().any(|c| changed(&c)) {
            memory.since.only_true = None;
        }
        return CopyStep::Wait(next);
    }
    if notes_conditions(source, memory) && !is_unreturned {
        return note_conditions(p, &own, memory).by(next);
    }
    let serving = report.map(|copy| copy.digest.status.serving());
    let write_kind = if serving.is_some_and(|new| new != source.digest.status.serving()) {
        WriteKind::Transition
    } else {
        WriteKind::Progress
    };
    if let Some(wait) = throttle(p, memory, write_kind) {
        return CopyStep::Wait(next.earlier(Requeue::After(wait)));
    }
    write_status(p, report, WriteReason::ReturnStatus, &own, memory).by(next)
}

/// The copy whose status may be returned, and the time of the next attempt with one that the project has refused.
fn returnable<'a>(p: &Pass<'a>, memory: &Memory) -> (Option<&'a Row<HubCopy>>, Option<Requeue>) {
    let Pass { s, source, now, .. } = *p;
    let Some(copy) = &s.copy else {
        return (None, None);
    };
    let refusal = memory.status_refusal(source, copy, now);
    let is_returnable = copy.digest.status.reported
        && copy.digest.source_uid.as_deref() == Some(&*source.uid)
        && !conditions::is_older(source, copy)
        && copy.digest.status.size <= s.profile().status.max_bytes
        && refusal.is_none();
    let later = refusal.map(|(_, left)| Requeue::After(left));
    (is_returnable.then_some(copy), later)
}

/// Digests of the hub's and the project's status, for [`Memory::status`].
pub fn status_digests(copy: &Row<HubCopy>, source: &Row<Source>) -> (Digest, Digest) {
    (
        Digest::of_hash(&copy.digest.status),
        Digest::of_hash(&source.digest.status),
    )
}

fn throttle(p: &Pass<'_>, memory: &Memory, write_kind: WriteKind) -> Option<Duration> {
    let rate = Rate::new(p.settings.status_interval);
    memory.status_writes.wait(rate, write_kind, p.now.instant)
}

/// True if the gateway's own conditions are kept in an annotation: the kind says so, or the project's schema has none.
fn notes_conditions(source: &Row<Source>, memory: &Memory) -> bool {
    match source.digest.conditions {
        ConditionsAt::Annotation => true,
        ConditionsAt::StatusAndAnnotation => false,
        ConditionsAt::Status => memory.pruned.is_some(),
    }
}

/// True if a status goes to the project without the gateway's own conditions: the kind says so, or its server dropped them a
/// short while ago. A later schema may have conditions, so they are sent after that time.
fn returns_bare(p: &Pass<'_>, memory: &Memory) -> bool {
    let has_them = p.source.digest.conditions == ConditionsAt::StatusAndAnnotation;
    let is_dropped = memory.are_conditions_dropped(p.now) && !has_them;
    p.s.profile().status.conditions_in == ConditionsIn::Annotation || is_dropped
}

/// Removes the annotation, because the status has the conditions.
fn end_note(p: &Pass<'_>, memory: &Memory) -> CopyStep {
    if let Some(wait) = throttle(p, memory, WriteKind::Progress) {
        return CopyStep::Wait(Requeue::After(wait));
    }
    let applied = Memory {
        pruned: None,
        ..written(p, memory)
    };
    CopyStep::Act(Box::new(Act::new(Plan::one(note(p, &Value::Null)), applied)))
}

/// The write of the annotation.
fn note(p: &Pass<'_>, text: &Value) -> Effect {
    let patch = json!({"metadata": {"uid": &*p.source.uid, "annotations": {keys::CONDITIONS: text}}});
    Effect::main(
        source_target(p.s),
        Write::Merge { patch },
        WriteReason::ReturnStatus,
    )
}

/// Writes the gateway's own conditions to the annotation, those of other types in it stay.
fn note_conditions(p: &Pass<'_>, own: &[OwnCondition], memory: &Memory) -> CopyStep {
    let Pass { s, source, now, .. } = *p;
    if let Some(wait) = throttle(p, memory, WriteKind::Progress) {
        return CopyStep::Wait(Requeue::After(wait));
    }
    let Some(body) = &source.body else {
        return READ_SOURCE;
    };
    let annotations = body.metadata.annotations.as_ref();
    let noted = annotations.and_then(|all| all.get(keys::CONDITIONS));
    let noted: Value = noted
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let own_types = &s.profile().status.own_conditions;
    let is_own = |had: &&Value| own_types.iter().any(|own| had["type"] == **own);
    let own_noted: Vec<Value> = noted
        .as_array()
        .into_iter()
        .flatten()
        .filter(is_own)
        .cloned()
        .collect();
    let rendered = render_status(
        &json!({"conditions": own_noted}),
        &[],
        &replaced(s, source, own),
        own,
        &source.digest.status,
        source.digest.generation,
        now.wall,
    );
    let text = rendered["conditions"].to_string();
    let mut plan = Plan::one(note(p, &json!(text)));
    plan.notes.extend(events::of_conditions(s, source, own));
    if memory.pruned.is_some() && source.digest.conditions != ConditionsAt::Annotation {
        plan.notes.push(events::pruned(s, source));
    }
    CopyStep::Act(Box::new(Act::new(plan, written(p, memory))))
}

/// The memory after a write.
fn written(p: &Pass<'_>, memory: &Memory) -> Memory {
    let mut applied = memory.clone();
    applied.since.only_true = None;
    let rate = Rate::new(p.settings.status_interval);
    applied.status_writes.take(rate, p.now.instant);
    applied
}

/// Writes the status of a copy, or the gateway's own conditions alone.
fn write_status(
    p: &Pass<'_>,
    report: Option<&Row<HubCopy>>,
    reason: WriteReason,
    own: &[OwnCondition],
    memory: &Memory,
) -> CopyStep {
    let Pass { s, source, now, .. } = *p;
    if report.is_none() && notes_conditions(source, memory) {
        return note_conditions(p, own, memory);
    }
    // Without a report the project keeps its status; only own conditions are replaced.
    let (body, own_types): (_, Vec<String>) = match report {
        Some(copy) => (&copy.body, s.profile().status.own_conditions.clone()),
        None => (&source.body, replaced(s, source, own)),
    };
    let base = match body {
        Some(body) => body.data.get("status").cloned().unwrap_or_else(|| json!({})),
        None if report.is_none() && source.digest.status.is_absent() => json!({}),
        None => {
            return CopyStep::Read {
                source: report.is_none(),
                copy: report.is_some(),
            };
        }
    };
    let (generation, had) = (source.digest.generation, &source.digest.status);
    let counters = &s.profile().status.counters;
    let (own, status) = if returns_bare(p, memory) {
        (
            &[][..],
            render_foreign(&base, counters, had, generation, now.wall),
        )
    } else {
        let status = render_status(&base, counters, &own_types, own, had, generation, now.wall);
        (own, status)
    };
    let rollout = events::of_rollout(s, source, &status);
    let resource = &s.profile().resource;
    let body = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": &*s.name, "namespace": &*s.namespace, "uid": &*source.uid},
        "status": status,
    });
    let exact = ExactFields::roots(["status"]);
    let mut effect = Effect::main(source_target(s), Write::Apply { body, exact }, reason);
    effect.endpoint = Endpoint::Status;
    let mut plan = Plan::one(effect);
    plan.notes.extend(events::of_conditions(s, source, own));
    plan.notes.extend(rollout);
    CopyStep::Act(Box::new(Act::new(plan, written(p, memory))))
}

/// The condition types that a write without a report replaces: those that it sets, and conditions of references
/// that no longer exist.
fn replaced(s: &Snapshot, source: &Row<Source>, own: &[OwnCondition]) -> Vec<String> {
    let idle = |kind: &str| kind != FEDERATED && source.digest.references.is_empty();
    let types = s.profile().status.own_conditions.iter();
    types
        .filter(|kind| idle(kind) || own.iter().any(|c| *c.kind == ***kind))
        .cloned()
        .collect()
}

/// The write that says in the deployment's status why it does not reach the hub; `None` if the status says so already.
pub(super) fn report_delay(p: &Pass<'_>, delay: &Delay, memory: &Memory) -> Option<CopyStep> {
    let mut own_types = p.s.profile().status.own_conditions.iter();
    let is_reported = own_types.any(|kind| kind == FEDERATED);
    let own = [delay.condition(p.source.digest.generation)];
    let is_told = p.source.digest.status.has_condition(&own[0]);
    let reason = WriteReason::ReportDelay;
    (is_reported && !is_told).then(|| write_status(p, None, reason, &own, memory))
}

/// Writes a condition of the gateway to the project, unless that is suspended, and nothing to the hub.
pub(super) fn report_own(p: &Pass<'_>, own: &OwnCondition, memory: &Memory) -> CopyStep {
    let ending = p.s.single_member.as_ref().filter(|_| p.source.deleting);
    let ending = ending.and_then(|_| status_ending(p.source, p.s.profile()));
    let own: Vec<OwnCondition> = iter::once(own.clone()).chain(ending).collect();
    if p.s.suspended || own.iter().all(|own| p.source.digest.status.has_condition(own)) {
        return WAIT;
    }
    if let Some(wait) = throttle(p, memory, WriteKind::Progress) {
        return CopyStep::Wait(Requeue::After(wait));
    }
    write_status(p, None, WriteReason::ReturnStatus, &own, memory)
}
