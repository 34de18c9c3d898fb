//! What should happen for a deployment: a pure function of the snapshot, the memory and the time
//! (contract: federation.md §3.4).

use super::{
    conditions,
    observe::{HubNamespaceState, Snapshot},
    render,
};
use crate::{
    api::keys,
    engine::{
        clock::Now,
        diff::{Digest, merge_patch},
        key::Plane,
        plan::{Effect, Endpoint, Exact, Next, Plan, Prepared, Target, Write},
    },
    gateway::{
        companions::resolve,
        world::{
            digest::{Copy, Source},
            status::{OwnCondition, returned},
        },
    },
    plane::table::Row,
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// How long after the copy was written a missing delivery becomes `Propagating`, a missing report `NoCellReporting`,
/// and a `Federated=True` is written alone.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// How long a claim must have named a wrong policy before it is repaired.
const CLAIM_PATIENCE: Duration = Duration::from_secs(10);
/// How often a claim is repaired at most.
const CLAIM_REPAIR_EVERY: Duration = Duration::from_secs(30);

/// What the federator remembers of a deployment between passes; losing it costs nothing but patience.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// Since when the copy is not delivered.
    pub undelivered: Option<Instant>,
    /// Since when the references are unresolved.
    pub unresolved: Option<Instant>,
    /// When the change that is on its way to the hub came in; for the measurement, not for decisions.
    pub carrying: Option<Instant>,
    /// Since when the hub says that no cell reports.
    pub unreported: Option<Instant>,
    /// Since when only `Federated=True` waits to be written.
    pub good_news: Option<Instant>,
    /// Since when the claim names a wrong policy.
    pub claim_wrong: Option<Instant>,
    /// When the claim was last repaired.
    pub claim_repaired: Option<Instant>,
    /// Since when a deletion waits for cells.
    pub leaving: Option<(Instant, jiff::Timestamp)>,
    /// When the project's status was last written.
    pub status_written: Option<Instant>,
    /// The project's API does not take a returned status as it is: what the hub had, and what the project made of it.
    pub status_settled: Option<(Digest, Digest)>,
    /// The hub keeps a default of its own in the payload: what we wanted, and what it made of it.
    pub settled: Option<(Digest, Digest)>,
}

/// Settings.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Shortest time between two status writes of one deployment.
    pub status_interval: Duration,
    /// After how long a deletion stops waiting for cells; `None` for never.
    pub release_after: Option<Duration>,
}

/// A decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// The plan needs these bodies; read them and ask again.
    Read {
        /// The project's object.
        source: bool,
        /// The hub's copy.
        copy: bool,
    },
    /// Do this.
    Do(Plan<Prepared>),
}

fn idle() -> Decision {
    Decision::Do(Plan::default())
}

/// Decides.
pub fn decide(s: &Snapshot, memory: &mut Memory, settings: &Settings, now: Now) -> Decision {
    let Some(source) = &s.source else {
        *memory = Memory::default();
        return idle();
    };
    let ours = has_finalizer(source, keys::FEDERATOR_FINALIZER);
    if source.deleting {
        return if ours {
            leave(s, source, memory, settings, now)
        } else {
            idle()
        };
    }
    if let Some(refusal) = conditions::invalid(s, source) {
        return status_only(s, source, &[refusal], memory, settings, now);
    }
    if s.hub.is_none() {
        return idle();
    }
    if let Some(effect) = project_patch(s, source) {
        // The city counts as announced from the answer on; the copy follows in the next pass.
        return Decision::Do(Plan::one(effect));
    }
    let mut next = Next::OnEvent;
    if s.hub_state == HubNamespaceState::Ours && s.city_ready {
        match copy_step(s, source, memory, now) {
            Step::Read(source, copy) => return Decision::Read { source, copy },
            Step::Act(plan) => return Decision::Do(*plan),
            Step::Wait(later) => next = later,
        }
    }
    match status_step(s, source, memory, settings, now) {
        Step::Read(source, copy) => Decision::Read { source, copy },
        Step::Act(plan) => {
            memory.status_written = Some(now.instant);
            Decision::Do(plan.by(next))
        }
        Step::Wait(later) => Decision::Do(Plan::wait(later.sooner(next))),
    }
}

enum Step {
    /// These bodies are needed: the source's, the copy's.
    Read(bool, bool),
    /// Do this now.
    Act(Box<Plan<Prepared>>),
    /// Nothing now.
    Wait(Next),
}

fn act(effect: Effect) -> Step {
    Step::Act(Box::new(Plan::one(effect)))
}

fn has_finalizer(source: &Row<Source>, finalizer: &str) -> bool {
    source.digest.finalizers.iter().any(|f| &**f == finalizer)
}

fn source_target(s: &Snapshot) -> Target {
    Target::namespaced(
        Plane::Project(s.project.clone()),
        &s.profile().resource,
        &s.namespace,
        &s.name,
    )
}

fn copy_target(s: &Snapshot) -> Target {
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
                (None, true) => source.digest.expected.as_deref().map(str::to_owned),
            };
            let mut set = |key: &Option<String>, had: Option<&str>, wanted: Option<String>| {
                if let Some(key) = key
                    && had != wanted.as_deref()
                {
                    annotations.insert(key.clone(), json!(wanted));
                }
            };
            set(&rules.error_annotation, source.digest.error.as_deref(), error);
            set(
                &rules.expected_annotation,
                source.digest.expected.as_deref(),
                expected,
            );
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

fn delete_copy(s: &Snapshot, copy: &Row<Copy>, reason: &'static str) -> Effect {
    let write = Write::Delete {
        uid: copy.uid.to_string(),
        resource_version: None,
    };
    Effect {
        target: copy_target(s),
        endpoint: Endpoint::Main,
        write,
        reason,
    }
}

/// Creates, updates, moves or repairs the copy.
fn copy_step(s: &Snapshot, source: &Row<Source>, memory: &mut Memory, now: Now) -> Step {
    let (Some(hub), Ok(city)) = (&s.hub, &source.digest.city) else {
        return Step::Wait(Next::OnEvent);
    };
    let Some(copy) = &s.copy else {
        if !s.companions_there || s.references.as_ref().is_some_and(|r| r.resolving) {
            return Step::Wait(Next::OnEvent);
        }
        let Some(body) = &source.body else {
            return Step::Read(true, false);
        };
        let body = render::copy(s.profile(), body, hub.as_str(), city);
        memory.undelivered = Some(now.instant);
        return apply(s, body, "create_copy");
    };
    if copy.deleting || conditions::taken(s, copy) {
        return Step::Wait(Next::OnEvent);
    }
    if copy
        .digest
        .source_uid
        .as_ref()
        .is_some_and(|uid| *uid != source.uid)
    {
        return act(delete_copy(s, copy, "replace_copy"));
    }
    if copy
        .digest
        .source_generation
        .is_some_and(|g| g > source.digest.generation)
    {
        return Step::Wait(Next::OnEvent);
    }
    if copy.digest.city.as_ref() != Some(city) && copy.digest.city.is_some() {
        let (Some(from), Some(to)) = (&copy.body, &source.body) else {
            return Step::Read(source.body.is_none(), copy.body.is_none());
        };
        let body = render::copy(s.profile(), to, hub.as_str(), city);
        memory.undelivered = Some(now.instant);
        let mut plan = Plan::one(move_copy(s, copy, &from.data, &body));
        plan.notes.push(conditions::moved(s, source, copy, city));
        return Step::Act(Box::new(plan));
    }
    let same_content = copy.digest.content == source.digest.content
        || memory.settled == Some((source.digest.content, copy.digest.content));
    if !same_content || copy.digest.source_generation != Some(source.digest.generation) {
        let Some(body) = &source.body else {
            return Step::Read(true, false);
        };
        let mut body = render::copy(s.profile(), body, hub.as_str(), city);
        body["metadata"]["uid"] = json!(&*copy.uid);
        return apply(s, body, "update_copy");
    }
    repair_claim(s, copy, memory, now)
}

fn apply(s: &Snapshot, body: Value, reason: &'static str) -> Step {
    let exact = Exact::roots(render::exact_roots(&body));
    let write = Write::Apply { body, exact };
    act(Effect {
        target: copy_target(s),
        endpoint: Endpoint::Main,
        write,
        reason,
    })
}

fn unclaim() -> (Value, Value) {
    (
        json!({keys::CLAIM_ID: null}),
        json!({keys::CLAIM_NAME: null, keys::CLAIM_NAMESPACE: null}),
    )
}

/// One merge patch: label, payload, generation, and the claim taken off, so that Karmada decides anew.
fn move_copy(s: &Snapshot, copy: &Row<Copy>, from: &Value, body: &Value) -> Effect {
    let (mut labels, mut annotations) = unclaim();
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
    let mut patch = json!({"metadata": {"uid": &*copy.uid, "resourceVersion": copy.resource_version(),
        "labels": labels, "annotations": annotations}});
    for root in render::exact_roots(body) {
        if let Some(inner) = merge_patch(&from[&root], &body[&root]) {
            patch[&root] = inner;
        }
    }
    let write = Write::Merge { patch };
    Effect {
        target: copy_target(s),
        endpoint: Endpoint::Main,
        write,
        reason: "move_copy",
    }
}

fn repair_claim(s: &Snapshot, copy: &Row<Copy>, memory: &mut Memory, now: Now) -> Step {
    if s.claim_good {
        memory.claim_wrong = None;
        return Step::Wait(Next::OnEvent);
    }
    let since = *memory.claim_wrong.get_or_insert(now.instant);
    let due = memory.claim_repaired.map_or(since + CLAIM_PATIENCE, |at| {
        (at + CLAIM_REPAIR_EVERY).max(since + CLAIM_PATIENCE)
    });
    if now.instant < due {
        return Step::Wait(Next::After(due - now.instant));
    }
    memory.claim_repaired = Some(now.instant);
    let (labels, annotations) = unclaim();
    let patch = json!({"metadata": {"uid": &*copy.uid, "resourceVersion": copy.resource_version(),
        "labels": labels, "annotations": annotations}});
    let write = Write::Merge { patch };
    act(Effect {
        target: copy_target(s),
        endpoint: Endpoint::Main,
        write,
        reason: "repair_claim",
    })
}

/// Returns the copy's status and the gateway's own conditions, if that changes anything and is due.
fn status_step(
    s: &Snapshot,
    source: &Row<Source>,
    memory: &mut Memory,
    settings: &Settings,
    now: Now,
) -> Step {
    if s.references.as_ref().is_some_and(|r| r.resolving) {
        // Lists that are still being read are not worth a write.
        let waited = now.since(*memory.unresolved.get_or_insert(now.instant));
        if waited < PATIENCE {
            return Step::Wait(Next::After(PATIENCE.saturating_sub(waited)));
        }
    } else {
        memory.unresolved = None;
    }
    let own_types = &s.profile().status.own_conditions;
    let report = s.copy.as_ref().filter(|c| {
        c.digest.status.reported
            && c.digest.source_uid.as_deref() == Some(&*source.uid)
            && c.digest.status.size <= 64 * 1024
    });
    let (own, mut next) = conditions::own(s, source, report.is_some(), memory, now);
    let mut due = false;
    if let Some(copy) = report
        && !source
            .digest
            .status
            .has_returned(&copy.digest.status, own_types, source.digest.generation)
        && memory.status_settled != Some(settlement(copy, source))
    {
        match conditions::early_silence(copy, source, memory, now) {
            Some(wait) => next = next.sooner(Next::After(wait)),
            None => due = true,
        }
    } else {
        memory.unreported = None;
    }
    let changed = |c: &&OwnCondition| {
        !source
            .digest
            .status
            .condition(c.kind)
            .is_some_and(|had| c.equals(had))
    };
    let vanished = source.digest.status.conditions.iter().any(|had| {
        own_types.iter().any(|t| **t == *had.kind)
            && *had.kind != *conditions::FEDERATED
            && !own.iter().any(|c| *c.kind == *had.kind)
            && source.digest.references.is_empty()
    });
    due |= vanished;
    for condition in own.iter().filter(changed) {
        if condition.kind == conditions::FEDERATED && condition.status {
            let since = *memory.good_news.get_or_insert(now.instant);
            let waited = now.since(since);
            due |= waited >= PATIENCE;
            next = next.sooner(Next::After(PATIENCE.saturating_sub(waited)));
        } else {
            due = true;
        }
    }
    if !due {
        return Step::Wait(if own.iter().any(|c| changed(&c)) {
            next
        } else {
            next_without_news(memory, next)
        });
    }
    if let Some(wait) = throttle(memory, settings, now) {
        return Step::Wait(next.sooner(Next::After(wait)));
    }
    match write_status(s, source, report, &own, memory, now) {
        Step::Act(plan) => Step::Act(Box::new(plan.by(next))),
        step => step,
    }
}

/// What the hub has and what the project has, for [`Memory::status_settled`].
pub fn settlement(copy: &Row<Copy>, source: &Row<Source>) -> (Digest, Digest) {
    (
        Digest::of_hash(&copy.digest.status),
        Digest::of_hash(&source.digest.status),
    )
}

fn next_without_news(memory: &mut Memory, next: Next) -> Next {
    memory.good_news = None;
    next
}

fn throttle(memory: &Memory, settings: &Settings, now: Now) -> Option<Duration> {
    let last = memory.status_written?;
    let wait = settings.status_interval.saturating_sub(now.since(last));
    (!wait.is_zero()).then_some(wait)
}

fn write_status(
    s: &Snapshot,
    source: &Row<Source>,
    report: Option<&Row<Copy>>,
    own: &[OwnCondition],
    memory: &mut Memory,
    now: Now,
) -> Step {
    // Without a report the project keeps what it has, own conditions replaced.
    let (body, own_types): (_, Vec<String>) = match report {
        Some(copy) => (&copy.body, s.profile().status.own_conditions.clone()),
        None => (&source.body, own.iter().map(|c| c.kind.to_owned()).collect()),
    };
    let Some(body) = body else {
        return Step::Read(report.is_none(), report.is_some());
    };
    let base = body.data.get("status").cloned().unwrap_or_else(|| json!({}));
    let generation = source.digest.generation;
    let counters = &s.profile().status.counters;
    let status = returned(
        &base,
        counters,
        &own_types,
        own,
        &source.digest.status,
        generation,
        now.wall,
    );
    memory.good_news = None;
    let resource = &s.profile().resource;
    let body = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": &*s.name, "namespace": &*s.namespace, "uid": &*source.uid},
        "status": status,
    });
    let write = Write::Apply {
        body,
        exact: Exact::roots(["status"]),
    };
    let effect = Effect {
        target: source_target(s),
        endpoint: Endpoint::Status,
        write,
        reason: "return_status",
    };
    let mut plan = Plan::one(effect);
    plan.notes
        .extend(own.iter().filter_map(|c| conditions::note(s, source, c)));
    Step::Act(Box::new(plan))
}

/// Writes the gateway's own verdict and nothing to the hub.
pub fn status_only(
    s: &Snapshot,
    source: &Row<Source>,
    own: &[OwnCondition],
    memory: &mut Memory,
    settings: &Settings,
    now: Now,
) -> Decision {
    let said = |c: &OwnCondition| {
        source
            .digest
            .status
            .condition(c.kind)
            .is_some_and(|had| c.equals(had))
    };
    if own.iter().all(said) {
        return idle();
    }
    if let Some(wait) = throttle(memory, settings, now) {
        return Decision::Do(Plan::after(wait));
    }
    match write_status(s, source, None, own, memory, now) {
        Step::Read(source, copy) => Decision::Read { source, copy },
        Step::Act(plan) => {
            memory.status_written = Some(now.instant);
            Decision::Do(*plan)
        }
        Step::Wait(next) => Decision::Do(Plan::wait(next)),
    }
}

/// Deletion: copy, its binding gone, companions, city policy, finalizers (contract: federation.md §3.4).
fn leave(s: &Snapshot, source: &Row<Source>, memory: &mut Memory, settings: &Settings, now: Now) -> Decision {
    let released = match (memory.leaving, settings.release_after) {
        (Some((since, _)), Some(limit)) => now.since(since) >= limit,
        _ => false,
    };
    let mine = |c: &&Row<Copy>| c.digest.source_uid.as_ref().is_none_or(|uid| *uid == source.uid);
    if let Some(copy) = s.copy.as_ref().filter(mine)
        && !released
    {
        if copy.deleting || conditions::taken(s, copy) {
            return if conditions::taken(s, copy) {
                let_go(s, source)
            } else {
                wait_for_cells(s, source, memory, settings, now)
            };
        }
        return Decision::Do(Plan::one(delete_copy(s, copy, "delete_copy")));
    }
    if s.binding.is_some() && s.copy.as_ref().is_none_or(|c| mine(&c)) && !released {
        return wait_for_cells(s, source, memory, settings, now);
    }
    if s.companions_hold || s.policy_leaving {
        return idle();
    }
    let_go(s, source)
}

fn let_go(s: &Snapshot, source: &Row<Source>) -> Decision {
    let rest: Vec<&str> = source
        .digest
        .finalizers
        .iter()
        .map(|f| &**f)
        .filter(|f| *f != keys::FEDERATOR_FINALIZER && *f != keys::REFERENCED_DATA_FINALIZER)
        .collect();
    let patch = json!({"metadata": {"uid": &*source.uid, "resourceVersion": source.resource_version(), "finalizers": rest}});
    let write = Write::Merge { patch };
    Decision::Do(Plan::one(Effect {
        target: source_target(s),
        endpoint: Endpoint::Main,
        write,
        reason: "let_go",
    }))
}

/// Waits for the cells by event, and says so once it takes long.
fn wait_for_cells(
    s: &Snapshot,
    source: &Row<Source>,
    memory: &mut Memory,
    settings: &Settings,
    now: Now,
) -> Decision {
    let (since, wall) = *memory.leaving.get_or_insert((now.instant, now.wall));
    let waited = now.since(since);
    let release = settings
        .release_after
        .map_or(Next::OnEvent, |limit| Next::After(limit.saturating_sub(waited)));
    if waited < PATIENCE {
        return Decision::Do(Plan::wait(
            release.sooner(Next::After(PATIENCE.saturating_sub(waited))),
        ));
    }
    let condition = conditions::waiting_for_cells(s, source, wall);
    match status_only(s, source, &[condition], memory, settings, now) {
        Decision::Do(plan) => Decision::Do(plan.by(release)),
        read @ Decision::Read { .. } => read,
    }
}
