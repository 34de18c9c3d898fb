//! The decision for a write-back: a pure function of the snapshot (contract: federation.md §3.8).

use crate::reason::{Verdict, WriteReason};
use crate::{
    index::rows::{
        HubCopy, LEVEL_LIMIT, Projection, SIZE_LIMIT, Source, WriteBackDigest, label, without_generations,
    },
    projection::Decision,
    projector::memory::Memory,
    settings::Settings,
};
use fedgate_api::{
    keys,
    names::{HubNamespace, ProjectKey},
};
use fedgate_engine::{
    clock::Now,
    key::Plane,
    plan::{Effect, Endpoint, ExactFields, Plan, Target, Write},
    reconcile::throttle::{Rate, WriteKind},
    store::table::Row,
};
use fedgate_kinds::{FederatedKind, KindId, PerKind, WriteBack};
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Maximum number of conditions that are projected.
const CONDITION_LIMIT: u32 = 32;

/// Time that the hub's garbage collector has to delete objects of an earlier copy.
const COLLECTION: Duration = Duration::from_mins(1);

/// A write-back and the objects that it depends on. Exists only for a hub namespace that a live project namespace
/// owns.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// All federated kinds.
    pub kinds: Arc<PerKind<FederatedKind>>,
    /// Index in `kinds` of the kind that owns the write-back.
    pub kind: KindId,
    /// The rules of that kind for write-backs.
    pub rules: WriteBack,
    /// The project that owns the hub namespace.
    pub project: ProjectKey,
    /// The namespace in that project.
    pub namespace: Arc<str>,
    /// The hub namespace.
    pub hub: HubNamespace,
    /// Name of the Instance on every plane.
    pub name: Arc<str>,
    /// True if the hub Namespace has this project's UID.
    pub is_of_project: bool,
    /// The write-back.
    pub write_back: Option<Row<WriteBackDigest>>,
    /// The copy that it names.
    pub copy: Option<Row<HubCopy>>,
    /// The cells that may report on the copy: the one that it names, else those to which Karmada schedules it; empty if unknown.
    pub cells: Box<[Arc<str>]>,
    /// The project's deployment of that name.
    pub source: Option<Row<Source>>,
    /// True if the deployment of the write-back, or of the projection without one, names another hub.
    pub of_other_hub: bool,
    /// True while the platform suspends the project.
    pub suspended: bool,
    /// True if the deletion of the write-back was observed: one that is only missing from a list may still exist.
    pub ended: bool,
    /// True if absence from the index proves absence on the hub.
    pub proven: bool,
    /// Reports of the cells on the deployment whose write-back is missing.
    pub reporting: Reporting,
    /// The project's Instance of the name.
    pub projection: Option<Row<Projection>>,
    /// Number of write-backs of the same cell and deployment that come before this one, if there are many.
    pub rank: usize,
    /// Maximum number of them that are projected.
    pub most: usize,
}

impl Snapshot {
    /// The profile of the owning kind.
    pub fn profile(&self) -> &FederatedKind {
        &self.kinds[self.kind]
    }

    /// The project plane.
    pub fn plane(&self) -> Plane {
        Plane::Project(self.project.clone())
    }

    /// Name of the deployment that the write-back names.
    pub fn deployment(&self) -> Option<&str> {
        self.write_back.as_ref()?.digest.deployment.as_deref()
    }
}

/// Reports of the cells on a deployment whose write-back is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reporting {
    /// The cells report on it, or it is deleted: the missing write-back was deleted.
    Given,
    /// The cells have not reported on it since the hub has its copy, or since many write-backs disappeared at once.
    Awaited(Option<Instant>),
}

/// Decides.
pub fn decide(s: &Snapshot, memory: &mut Memory, settings: &Settings, now: Now) -> Decision {
    if s.of_other_hub {
        return Decision::Wait;
    }
    let Some(write_back) = &s.write_back else {
        return without_write_back(s, memory, settings, now);
    };
    memory.unreported = None;
    let w = &write_back.digest;
    if !s.is_of_project {
        return Decision::Wait;
    }
    let cluster = s.project.label();
    if w.cluster.as_deref() != Some(&*cluster) || w.namespace.as_deref() != Some(&*s.namespace) {
        return Decision::refuse(
            Verdict::IdentityMismatch,
            "its identity labels are not those of its hub Namespace; the cell must correct them",
        );
    }
    let Some(deployment) = w.deployment.as_deref().filter(|d| !d.is_empty()) else {
        return Decision::refuse(
            Verdict::MissingDeploymentName,
            format!("it has no label {}; the cell must set it", s.rules.owner_label),
        );
    };
    let Some(copy) = &s.copy else {
        return Decision::Wait;
    };
    if let Some(answer) = of_another(s, w, copy, deployment, memory, settings, now) {
        return answer;
    }
    if w.city.is_some() && w.city != copy.digest.city {
        return Decision::Wait;
    }
    // Other cells may not report on it.
    if let Some(cell) = &w.cell
        && !s.cells.is_empty()
        && !s.cells.contains(cell)
    {
        return Decision::Wait;
    }
    if w.is_too_large() || w.conditions > CONDITION_LIMIT {
        return too_large(s, w);
    }
    let Some(source) = s.source.as_ref().filter(|source| !source.deleting) else {
        return Decision::Wait;
    };
    // The two planes show different deployments of the same name; an event that brings them together follows.
    if copy
        .digest
        .source_uid
        .as_ref()
        .is_some_and(|uid| *uid != source.uid)
    {
        return Decision::Wait;
    }
    if s.rank >= s.most {
        return Decision::refuse(
            Verdict::TooMany,
            format!(
                "cell {} has written more than {} Instances of deployment {deployment}; it must remove some",
                w.cell.as_deref().unwrap_or("(unnamed)"),
                s.most
            ),
        );
    }
    match decide_write(s, memory, write_back, source, deployment) {
        // A cell that changes an Instance all the time does not cost the project a write for each change.
        Decision::Do(plan) if !plan.is_idle() => {
            let wait = s.projection.as_ref().and_then(|projection| {
                let rate = Rate::new(settings.status_interval);
                memory
                    .updates
                    .wait(rate, write_kind(w, &projection.digest), now.instant)
            });
            wait.map_or(Decision::Do(plan), Decision::Throttled)
        }
        decision => decision,
    }
}

/// The answer to a write-back that another object than the copy controls, or none where one is required.
fn of_another(
    s: &Snapshot,
    w: &WriteBackDigest,
    copy: &Row<HubCopy>,
    deployment: &str,
    memory: &mut Memory,
    settings: &Settings,
    now: Now,
) -> Option<Decision> {
    let Some((kind, name, uid)) = &w.controller else {
        let message = format!(
            "Instance {} has no controller; the cell must set the hub's {deployment}",
            s.name
        );
        return settings
            .require_owner
            .then(|| Decision::refuse(Verdict::OwnerMismatch, message));
    };
    let named = **kind == *s.profile().resource.kind && **name == *deployment;
    if named && *uid == copy.uid {
        memory.stale_owner_since = None;
        return None;
    }
    if named
        && w.created < copy.digest.created
        && let Some(left) = gc_grace_left(memory, now)
    {
        return Some(Decision::WaitFor(left));
    }
    Some(Decision::refuse(
        Verdict::OwnerMismatch,
        format!(
            "Instance {} is controlled by {kind} {name} ({uid}), not by the hub's {deployment}; the cell must correct its owner",
            s.name
        ),
    ))
}

/// Remaining time for the hub's garbage collector to delete what belongs to an earlier copy of the name.
fn gc_grace_left(memory: &mut Memory, now: Now) -> Option<Duration> {
    let since = *memory.stale_owner_since.get_or_insert(now.instant);
    let left = COLLECTION.saturating_sub(now.since(since));
    (!left.is_zero()).then_some(left)
}

fn write_kind(w: &WriteBackDigest, projection: &Projection) -> WriteKind {
    if w.serving == projection.serving {
        WriteKind::Progress
    } else {
        WriteKind::Transition
    }
}

fn too_large(s: &Snapshot, w: &WriteBackDigest) -> Decision {
    let size = if w.size == u32::MAX {
        "more than can be read".to_owned()
    } else {
        format!("{} bytes", w.size)
    };
    let message = format!(
        "Instance {} has {size} and {} conditions, at most {SIZE_LIMIT} bytes, {LEVEL_LIMIT} levels and {CONDITION_LIMIT} conditions are projected",
        s.name, w.conditions
    );
    Decision::refuse(Verdict::TooLarge, message)
}

/// The write-back is gone: its projection is deleted, unless the hub may only have lost the write-back.
fn without_write_back(s: &Snapshot, memory: &mut Memory, settings: &Settings, now: Now) -> Decision {
    let waits = std::mem::take(memory).unreported;
    let Some(projection) = &s.projection else {
        return Decision::Do(Plan::default());
    };
    let ours = projection.digest.cluster.as_deref() == Some(&*s.project.label())
        && (projection.digest.owner.is_some() || projection.digest.orphaned);
    if !ours || projection.deleting {
        return Decision::Do(Plan::default());
    }
    let write = Write::delete(&projection.uid);
    let plan = Plan::one(effect(s, Endpoint::Main, write, WriteReason::DeleteProjection));
    if s.ended {
        return Decision::Do(plan);
    }
    if !s.proven {
        return Decision::Wait;
    }
    if let Reporting::Awaited(since) = s.reporting {
        let since = since.or(waits).unwrap_or(now.instant);
        memory.unreported = Some(since);
        let left = settings.projection_retention.saturating_sub(now.since(since));
        if !left.is_zero() {
            return Decision::WaitFor(left);
        }
    }
    Decision::Confirm(plan)
}

fn effect(s: &Snapshot, endpoint: Endpoint, write: Write, reason: WriteReason) -> Effect {
    let target = Target::namespaced(s.plane(), &s.rules.resource, &s.namespace, &s.name);
    Effect {
        target,
        endpoint,
        write,
        reason: reason.into(),
    }
}

fn decide_write(
    s: &Snapshot,
    memory: &Memory,
    write_back: &Row<WriteBackDigest>,
    source: &Row<Source>,
    deployment: &str,
) -> Decision {
    let w = &write_back.digest;
    let Some(projection) = &s.projection else {
        let Some(body) = &write_back.body else {
            return Decision::Read;
        };
        // The status follows once the answer shows the defaults that the API server has set.
        let write = Write::create(render_object(s, body, source, deployment, None));
        return Decision::Do(Plan::one(effect(
            s,
            Endpoint::Main,
            write,
            WriteReason::CreateProjection,
        )));
    };
    let p = &projection.digest;
    let owner = p.owner.as_ref();
    // Without any owner its labels tell: a deployment that was deleted with `orphan`, or an earlier gateway, has left it.
    let is_ours = owner.map_or(p.orphaned, |(name, _)| **name == *deployment);
    if p.cluster.as_deref() != Some(&*s.project.label()) || !is_ours {
        return Decision::refuse(
            Verdict::NameTaken,
            format!(
                "the project has an Instance {} that fedgate did not make; rename or delete it",
                s.name
            ),
        );
    }
    if projection.deleting {
        return Decision::Wait;
    }
    let rightly = p.plain_owner && owner.is_some_and(|(_, uid)| *uid == source.uid);
    let main_differs = !rightly || !memory.main_settled(w, p);
    let status_differs = w.reported && !memory.status_settled(w, p);
    if !main_differs && !status_differs {
        return Decision::Do(Plan::default());
    }
    let Some(body) = &write_back.body else {
        return Decision::Read;
    };
    let mut plan = Plan::default();
    if main_differs {
        let mut body = render_object(s, body, source, deployment, Some(&projection.uid));
        if !rightly || p.labels != w.labels {
            replace_labels(s, projection, &mut body);
        }
        let strict = false;
        let write = Write::Update { body, strict };
        plan.effects
            .push(effect(s, Endpoint::Main, write, WriteReason::UpdateProjection));
    }
    if status_differs {
        // Written also if the project refuses labels and spec: a tenant reads the truth on its Instance.
        plan.status = Some(Box::new(status_effect(s, body, &projection.uid)));
    }
    Decision::Do(plan)
}

/// Labels that the write-back lacks are removed, if the projection is still the one that the decision has seen.
fn replace_labels(s: &Snapshot, projection: &Row<Projection>, body: &mut Value) {
    body["metadata"]["resourceVersion"] = json!(projection.resource_version());
    for key in &s.rules.linking_labels {
        if body["metadata"]["labels"].get(key).is_none() {
            body["metadata"]["labels"][key] = Value::Null;
        }
    }
}

fn render_object(
    s: &Snapshot,
    body: &DynamicObject,
    source: &Row<Source>,
    deployment: &str,
    uid: Option<&str>,
) -> Value {
    let rules = &s.rules;
    let mut labels: Map<String, Value> = rules
        .linking_labels
        .iter()
        .filter_map(|key| label(body, key).map(|value| (key.clone(), json!(value))))
        .collect();
    if let (Some(written), Some(copy)) = (&s.write_back, &s.copy) {
        let more = written.digest.labels_of_copy(&copy.digest, rules);
        labels.extend(
            more.into_iter()
                .map(|(key, value)| (key.to_owned(), json!(value))),
        );
    }
    labels.insert(rules.owner_label.clone(), json!(deployment));
    labels.insert(keys::UPSTREAM_CLUSTER.to_owned(), json!(s.project.label()));
    labels.insert(keys::UPSTREAM_NAMESPACE.to_owned(), json!(&*s.namespace));
    let mut metadata = json!({
        "name": &*s.name,
        "namespace": &*s.namespace,
        "labels": labels,
        "ownerReferences": [owner_reference(s, source, deployment)],
    });
    if let Some(uid) = uid {
        metadata["uid"] = json!(uid);
    }
    let mut object = json!({
        "apiVersion": rules.resource.api_version,
        "kind": rules.resource.kind,
        "metadata": metadata,
    });
    if let Some(spec) = body.data.get("spec") {
        object["spec"] = spec.clone();
    }
    object
}

/// The one place that makes an owner reference: from a live deployment, with the UID read in its project.
fn owner_reference(s: &Snapshot, source: &Row<Source>, deployment: &str) -> Value {
    let resource = &s.profile().resource;
    json!({"apiVersion": resource.api_version, "kind": resource.kind, "name": deployment, "uid": &*source.uid})
}

fn status_effect(s: &Snapshot, body: &DynamicObject, uid: &str) -> Effect {
    let rules = &s.rules;
    let metadata = json!({"name": &*s.name, "namespace": &*s.namespace, "uid": uid});
    let body = json!({
        "apiVersion": rules.resource.api_version,
        "kind": rules.resource.kind,
        "metadata": metadata,
        "status": without_generations(body.data.get("status").unwrap_or(&Value::Null)),
    });
    let write = Write::Apply {
        body,
        exact: ExactFields::roots(["status"]),
    };
    effect(s, Endpoint::Status, write, WriteReason::ProjectStatus)
}
