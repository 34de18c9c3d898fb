//! Returns the copy's status, with the gateway's own conditions, to the project.

use super::{Act, Settings, Step, lanes::Case, source_target};
use crate::reason::WriteReason;
use crate::{
    federator::{
        conditions,
        delay::Delay,
        events, lanes,
        memory::{GRACE_PERIOD, Memory},
        observe::Snapshot,
    },
    index::rows::{
        ConditionsAt, HubCopy, Source,
        status::{OwnCondition, render_foreign, render_status},
    },
};
use fedgate_api::keys;
use fedgate_engine::{
    clock::Now,
    diff::Digest,
    plan::{Effect, Endpoint, ExactFields, Plan, Prepared, Requeue, Write},
    reconcile::throttle::{Rate, WriteKind},
    store::table::Row,
};
use fedgate_kinds::ConditionsIn;
use serde_json::{Value, json};
use std::time::Duration;

/// Writes the project's status if that changes anything and is due.
pub(super) fn status_step(
    s: &Snapshot,
    source: &Row<Source>,
    memory: &mut Memory,
    settings: &Settings,
    now: Now,
) -> Step {
    let resolving = s.references.as_ref().is_some_and(|r| r.resolving);
    if resolving && conditions::invalid(s, source).is_none() {
        // While lists are incomplete a difference may be temporary and is not written.
        let waited = now.since(*memory.unresolved.get_or_insert(now.instant));
        if waited < GRACE_PERIOD {
            return Step::Wait(Requeue::After(GRACE_PERIOD.saturating_sub(waited)));
        }
    } else {
        memory.unresolved = None;
    }
    let own_types = &s.profile().status.own_conditions;
    let (report, refused) = returnable(s, source, memory, now);
    let (own, next) = match &s.lanes {
        Some(lanes) => lanes::conditions::own(
            &Case {
                s,
                lanes,
                source,
                now,
            },
            report.is_some(),
            memory,
        ),
        None => conditions::own(s, source, report.is_some(), memory, now),
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
        memory.unreported = None;
    }
    let changed = |c: &&OwnCondition| !source.digest.status.has_condition(c);
    let vanished = source.digest.status.conditions.iter().any(|had| {
        own_types.iter().any(|t| **t == *had.kind)
            && *had.kind != *conditions::FEDERATED
            && !own.iter().any(|c| *c.kind == *had.kind)
            && source.digest.references.is_empty()
    });
    due |= vanished;
    for condition in own.iter().filter(changed) {
        let had = source.digest.status.condition(condition.kind);
        let news = !had.is_some_and(|had| condition.agrees(had));
        // `True`, and an unchanged condition of a new generation, wait for the next reported status.
        if !news || condition.kind == conditions::FEDERATED && condition.status {
            let since = *memory.true_since.get_or_insert(now.instant);
            let waited = now.since(since);
            due |= waited >= GRACE_PERIOD;
            next = next.earlier(Requeue::After(GRACE_PERIOD.saturating_sub(waited)));
        } else {
            due = true;
        }
    }
    if !due && source.digest.conditions == ConditionsAt::StatusAndAnnotation {
        return end_note(s, source, memory, settings, now).by(next);
    }
    if !due {
        return Step::Wait(if own.iter().any(|c| changed(&c)) {
            next
        } else {
            requeue_unchanged(memory, next)
        });
    }
    if notes_conditions(source, memory) && !is_unreturned {
        return note_conditions(s, source, &own, memory, settings, now).by(next);
    }
    let serving = report.map(|copy| copy.digest.status.serving());
    let write_kind = if serving.is_some_and(|new| new != source.digest.status.serving()) {
        WriteKind::Transition
    } else {
        WriteKind::Progress
    };
    if let Some(wait) = throttle(memory, settings, write_kind, now) {
        return Step::Wait(next.earlier(Requeue::After(wait)));
    }
    write_status(
        s,
        source,
        (report, WriteReason::ReturnStatus),
        &own,
        memory,
        settings,
        now,
    )
    .by(next)
}

/// The copy whose status may be returned, and the time of the next attempt with one that the project has refused.
fn returnable<'a>(
    s: &'a Snapshot,
    source: &Row<Source>,
    memory: &Memory,
    now: Now,
) -> (Option<&'a Row<HubCopy>>, Option<Requeue>) {
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

fn requeue_unchanged(memory: &mut Memory, next: Requeue) -> Requeue {
    memory.true_since = None;
    next
}

fn throttle(memory: &Memory, settings: &Settings, write_kind: WriteKind, now: Now) -> Option<Duration> {
    let rate = Rate::new(settings.status_interval);
    memory.status_writes.wait(rate, write_kind, now.instant)
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
/// short while ago. A later schema may have conditions, so they are sent again after that.
fn returns_bare(s: &Snapshot, source: &Row<Source>, memory: &Memory, now: Now) -> bool {
    let has_them = source.digest.conditions == ConditionsAt::StatusAndAnnotation;
    let is_dropped = memory.are_conditions_dropped(now) && !has_them;
    s.profile().status.conditions_in == ConditionsIn::Annotation || is_dropped
}

/// Takes the annotation off: the status has the conditions again.
fn end_note(s: &Snapshot, source: &Row<Source>, memory: &Memory, settings: &Settings, now: Now) -> Step {
    if let Some(wait) = throttle(memory, settings, WriteKind::Progress, now) {
        return Step::Wait(Requeue::After(wait));
    }
    let effect = note(s, source, &Value::Null);
    let applied = Memory {
        pruned: None,
        ..written(memory, settings, now)
    };
    Step::Act(Box::new(Act::new(Plan::one(effect), applied)))
}

/// The write of the annotation.
fn note(s: &Snapshot, source: &Row<Source>, text: &Value) -> Effect {
    Effect {
        target: source_target(s),
        endpoint: Endpoint::Main,
        write: Write::Merge {
            patch: json!({"metadata": {"uid": &*source.uid, "annotations": {keys::CONDITIONS: text}}}),
        },
        reason: WriteReason::ReturnStatus.into(),
    }
}

/// Writes the gateway's own conditions to the annotation, those of other types in it stay.
fn note_conditions(
    s: &Snapshot,
    source: &Row<Source>,
    own: &[OwnCondition],
    memory: &Memory,
    settings: &Settings,
    now: Now,
) -> Step {
    if let Some(wait) = throttle(memory, settings, WriteKind::Progress, now) {
        return Step::Wait(Requeue::After(wait));
    }
    let Some(body) = &source.body else {
        return Step::Read(true, false);
    };
    let noted = body
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(keys::CONDITIONS));
    let noted: Value = noted
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let kept: Vec<Value> = noted
        .as_array()
        .into_iter()
        .flatten()
        .filter(|had| {
            s.profile()
                .status
                .own_conditions
                .iter()
                .any(|own| had["type"] == **own)
        })
        .cloned()
        .collect();
    let (types, generation) = (replaced(s, source, own), source.digest.generation);
    let had = &source.digest.status;
    let rendered = render_status(
        &json!({"conditions": kept}),
        &[],
        &types,
        own,
        had,
        generation,
        now.wall,
    );
    let text = rendered["conditions"].to_string();
    let effect = note(s, source, &json!(text));
    let mut plan = with_events(Plan::one(effect), s, source, own);
    if memory.pruned.is_some() && source.digest.conditions != ConditionsAt::Annotation {
        plan.notes.push(events::pruned(s, source));
    }
    Step::Act(Box::new(Act::new(plan, written(memory, settings, now))))
}

/// The plan with the Events of the conditions that it writes.
fn with_events(
    mut plan: Plan<Prepared>,
    s: &Snapshot,
    source: &Row<Source>,
    own: &[OwnCondition],
) -> Plan<Prepared> {
    plan.notes
        .extend(own.iter().filter_map(|c| events::note(s, source, c)));
    plan.notes
        .extend(own.iter().find_map(|c| events::resumed(s, source, c)));
    plan
}

/// The memory after a write.
fn written(memory: &Memory, settings: &Settings, now: Now) -> Memory {
    let mut applied = Memory {
        true_since: None,
        ..memory.clone()
    };
    applied
        .status_writes
        .take(Rate::new(settings.status_interval), now.instant);
    applied
}

fn write_status(
    s: &Snapshot,
    source: &Row<Source>,
    (report, reason): (Option<&Row<HubCopy>>, WriteReason),
    own: &[OwnCondition],
    memory: &Memory,
    settings: &Settings,
    now: Now,
) -> Step {
    if report.is_none() && notes_conditions(source, memory) {
        return note_conditions(s, source, own, memory, settings, now);
    }
    // Without a report the project keeps its status; only own conditions are replaced.
    let (body, own_types): (_, Vec<String>) = match report {
        Some(copy) => (&copy.body, s.profile().status.own_conditions.clone()),
        None => (&source.body, replaced(s, source, own)),
    };
    let base = match body {
        Some(body) => body.data.get("status").cloned().unwrap_or_else(|| json!({})),
        None if report.is_none() && source.digest.status.is_absent() => json!({}),
        None => return Step::Read(report.is_none(), report.is_some()),
    };
    let (generation, had) = (source.digest.generation, &source.digest.status);
    let counters = &s.profile().status.counters;
    let is_noted = returns_bare(s, source, memory, now);
    let own = if is_noted { &[] } else { own };
    let status = if is_noted {
        render_foreign(&base, counters, had, generation, now.wall)
    } else {
        render_status(&base, counters, &own_types, own, had, generation, now.wall)
    };
    let resource = &s.profile().resource;
    let body = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": &*s.name, "namespace": &*s.namespace, "uid": &*source.uid},
        "status": status,
    });
    let write = Write::Apply {
        body,
        exact: ExactFields::roots(["status"]),
    };
    let effect = Effect {
        target: source_target(s),
        endpoint: Endpoint::Status,
        write,
        reason: reason.into(),
    };
    let plan = with_events(Plan::one(effect), s, source, own);
    Step::Act(Box::new(Act::new(plan, written(memory, settings, now))))
}

/// The condition types that a write without a report replaces: those that it sets, and conditions of references
/// that no longer exist.
fn replaced(s: &Snapshot, source: &Row<Source>, own: &[OwnCondition]) -> Vec<String> {
    let idle = |kind: &str| kind != conditions::FEDERATED && source.digest.references.is_empty();
    let types = s.profile().status.own_conditions.iter();
    types
        .filter(|kind| idle(kind) || own.iter().any(|c| *c.kind == ***kind))
        .cloned()
        .collect()
}

/// Tells the tenant why the deployment does not reach the hub; `None` if its status says so.
pub(super) fn delay_step(
    s: &Snapshot,
    source: &Row<Source>,
    delay: &Delay,
    memory: &Memory,
    settings: &Settings,
    now: Now,
) -> Option<Step> {
    let is_reported = s
        .profile()
        .status
        .own_conditions
        .iter()
        .any(|kind| kind == conditions::FEDERATED);
    let own = [delay.condition(source.digest.generation)];
    let is_told = source.digest.status.has_condition(&own[0]);
    (is_reported && !is_told).then(|| {
        write_status(
            s,
            source,
            (None, WriteReason::ReportDelay),
            &own,
            memory,
            settings,
            now,
        )
    })
}

/// Writes the gateway's own conditions to the project, unless it is suspended, and nothing to the hub.
pub(in crate::federator) fn status_only(
    s: &Snapshot,
    source: &Row<Source>,
    own: &[OwnCondition],
    memory: &Memory,
    settings: &Settings,
    now: Now,
) -> Step {
    if s.suspended || own.iter().all(|c| source.digest.status.has_condition(c)) {
        return Step::Wait(Requeue::AwaitChange);
    }
    if let Some(wait) = throttle(memory, settings, WriteKind::Progress, now) {
        return Step::Wait(Requeue::After(wait));
    }
    write_status(
        s,
        source,
        (None, WriteReason::ReturnStatus),
        own,
        memory,
        settings,
        now,
    )
}
