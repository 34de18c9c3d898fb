//! Decides the writes for a Workload: a pure function of the snapshot and the time (contract: cell.md §1).

use super::{
    checks::{self, CheckOutcome},
    matching::{self, Match},
    name, ready,
    replaced::{self, Kept},
    rollup::{self, Outcome},
    snapshot::{Locations, WorkloadSnapshot, controller, is_leaving},
    wanted::{Access, Pair},
};
use fedgate_api::{
    API_VERSION, GROUP, InstanceTemplate, LocationReference, Place, Workload, WorkloadDeployment,
    WorkloadDeploymentSpec, WorkloadRef, WorkloadStatus, keys,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// One write on the project plane.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum WorkloadEffect {
    /// Add the finalizer to the Workload; the event of this write enqueues the next reconcile.
    AddFinalizer,
    /// Remove the finalizer; finalizers of others stay.
    RemoveFinalizer,
    /// POST the deployment. Here and below the Workload's template takes the place of the empty one.
    Create(Box<WorkloadDeployment>),
    /// Set our labels, the owner and the whole spec of the deployment with this UID, in one write; other metadata stays.
    Update(Box<WorkloadDeployment>),
    /// Give the deployment with this UID the place and the placement's name of this one, in one write: it has the one field
    /// of the two and not the other. Other differences are written afterwards.
    ChangePlace(Box<WorkloadDeployment>),
    /// Delete the deployment with this UID.
    Delete {
        /// The deployment's name.
        name: String,
        /// The deployment's UID, the precondition.
        uid: String,
    },
    /// Replace the Workload's status.
    PatchStatus(Box<WorkloadStatus>),
}

/// Writes of a plan that are executed together.
#[derive(Debug, Default)]
pub struct Part {
    /// The writes.
    pub effects: Vec<WorkloadEffect>,
    /// Names of the deployments whose bodies are written.
    pub bodies: BTreeSet<String>,
    /// True if other writes of the plan follow in a later part.
    pub is_first_of_several: bool,
}

impl Part {
    /// The first writes, with at most so many bodies of deployments beside those that are `written` already, which are left
    /// out. If none is left for later, all other writes follow, in their order.
    pub fn of(effects: Vec<WorkloadEffect>, most: usize, written: &BTreeSet<String>) -> Self {
        let mut part = Self::default();
        for effect in effects {
            if let WorkloadEffect::Create(deployment) | WorkloadEffect::Update(deployment) = &effect {
                let name = text(deployment.metadata.name.as_ref());
                if written.contains(&name) {
                    continue;
                }
                if part.bodies.len() == most {
                    part.is_first_of_several = true;
                    break;
                }
                part.bodies.insert(name);
            }
            part.effects.push(effect);
        }
        part
    }
}

/// True if the Workload must be read again before these writes: a stale view would delete deployments that a later edit has
/// added, and restore those that it has removed. A Workload without deployments has nothing to lose.
pub fn needs_confirmation(effects: &[WorkloadEffect], snapshot: &WorkloadSnapshot) -> bool {
    use WorkloadEffect::{AddFinalizer, PatchStatus, RemoveFinalizer};
    let is_own = |effect: &WorkloadEffect| matches!(effect, AddFinalizer | RemoveFinalizer | PatchStatus(_));
    !effects.iter().all(is_own) && !snapshot.deployments.is_empty()
}

/// Decides the writes of the next iteration, in the required order; the first failure ends the iteration. Without any, nothing
/// differs, or an event is awaited.
pub fn decide(snapshot: &WorkloadSnapshot, now: Timestamp) -> Vec<WorkloadEffect> {
    let metadata = &snapshot.workload.metadata;
    let finalized = metadata
        .finalizers
        .iter()
        .flatten()
        .any(|f| f == keys::WORKLOAD_FINALIZER);
    if metadata.deletion_timestamp.is_some() {
        leave(snapshot, finalized)
    } else if finalized {
        reconcile(snapshot, now)
    } else {
        vec![WorkloadEffect::AddFinalizer]
    }
}

/// Deletes the deployments of a Workload that is being deleted, then removes the finalizer.
fn leave(snapshot: &WorkloadSnapshot, finalized: bool) -> Vec<WorkloadEffect> {
    if snapshot.deployments.is_empty() {
        return if finalized {
            vec![WorkloadEffect::RemoveFinalizer]
        } else {
            Vec::new()
        };
    }
    delete(snapshot.deployments.iter())
}

/// Deletes deployments that are not terminating already, by name.
fn delete<'a>(deployments: impl Iterator<Item = &'a WorkloadDeployment>) -> Vec<WorkloadEffect> {
    let mut live: Vec<_> = deployments
        .filter(|d| !is_leaving(d))
        .map(|d| (text(d.metadata.name.as_ref()), d))
        .collect();
    live.sort_by(|a, b| a.0.cmp(&b.0));
    live.into_iter()
        .map(|(name, d)| WorkloadEffect::Delete {
            name,
            uid: text(d.metadata.uid.as_ref()),
        })
        .collect()
}

fn reconcile(snapshot: &WorkloadSnapshot, now: Timestamp) -> Vec<WorkloadEffect> {
    let verdict = checks::check(snapshot);
    if verdict == CheckOutcome::Wait || snapshot.checks.locations == Locations::Pending {
        return Vec::new();
    }
    let matches = matching::assign(snapshot);
    // Its completion enqueues the Workload.
    if !snapshot.clusters_listed && matches.may_change_form() {
        return Vec::new();
    }
    let kept = Kept::of(snapshot, &matches);
    let mut effects = Vec::new();
    let mut outcomes: Vec<Outcome> = matches
        .pairs
        .iter()
        .map(|(_, found)| Outcome::of(found))
        .collect();
    if verdict == CheckOutcome::Good {
        let mut names = Names::new(snapshot);
        let mut changes_of_place = Vec::new();
        let replaced = replaced::uids_to_replace(snapshot, &matches);
        for ((pair, found), outcome) in matches.pairs.iter().zip(&mut outcomes) {
            let replaced = replaced.get(&*pair.placement.name).map(String::as_str);
            let (done, effect) = upsert(snapshot, pair, found, &mut names, replaced);
            *outcome = match &snapshot.checks.refused {
                Some(words) if effect.is_some() => Outcome::Refused(words.clone()),
                _ => done,
            };
            match effect {
                Some(WorkloadEffect::ChangePlace(_)) => changes_of_place.extend(effect),
                _ => effects.extend(effect),
            }
        }
        // A deployment that changes to one of several locations leaves the cells of the others: theirs are made before.
        effects.extend(changes_of_place);
        // A pair that waits, or whose names are in use, is an upsert that has not succeeded.
        if !outcomes
            .iter()
            .any(|o| matches!(o, Outcome::Waits | Outcome::NameConflict(_)))
        {
            let unmatched = matches.unmatched.iter().copied();
            effects.extend(delete(unmatched.filter(|d| !kept.contains(d))));
        }
    }
    let status = rollup::status(snapshot, &matches, &kept, &outcomes, &verdict, now);
    if ready::is_due(snapshot.workload.status.as_ref(), &status) {
        effects.push(WorkloadEffect::PatchStatus(Box::new(status)));
    }
    effects
}

/// The outcome of a pair, and the write that creates its deployment or applies to it, if one is due. A new deployment
/// replaces those with the UIDs in `replaced`.
fn upsert(
    snapshot: &WorkloadSnapshot,
    pair: &Pair,
    found: &Match,
    names: &mut Names,
    replaced: Option<&str>,
) -> (Outcome, Option<WorkloadEffect>) {
    let workload = &snapshot.workload;
    match found {
        Match::Leaving => (Outcome::Waits, None),
        Match::Live(existing) if differs(workload, pair, existing) => {
            let changed = Box::new(changed(workload, pair, existing));
            let effect = if existing.spec.place() == Some(pair.place) {
                WorkloadEffect::Update(changed)
            } else {
                WorkloadEffect::ChangePlace(changed)
            };
            (Outcome::Applied, Some(effect))
        }
        Match::Live(_) => (Outcome::Exists, None),
        Match::None if pair.access != Access::Open => (Outcome::Absent, None),
        Match::None => match names.take(workload, pair) {
            Name::Free(name) => {
                let effect = WorkloadEffect::Create(Box::new(created(snapshot, pair, name, replaced)));
                (Outcome::Created, Some(effect))
            }
            Name::Leaving => (Outcome::Waits, None),
            Name::Held(name) => (Outcome::NameConflict(name), None),
        },
    }
}

/// The spec without the template: a Workload may have thousands of places, and as many templates would fill the memory.
fn spec(workload: &Workload, pair: &Pair) -> WorkloadDeploymentSpec {
    WorkloadDeploymentSpec {
        workload_ref: reference(workload),
        placement_name: pair.placement.name.clone(),
        city_code: pair.place.city().map(|city| (*city).to_owned()),
        location_ref: pair.place.location().map(|name| reference_to(name)),
        replicas: None,
        template: InstanceTemplate::default(),
        scale_settings: pair.placement.scale_settings.clone(),
    }
}

/// A deployment's reference to a location, which is cluster-scoped.
pub(super) fn reference_to(location: &str) -> LocationReference {
    LocationReference {
        name: location.to_owned(),
        namespace: None,
    }
}

pub(super) fn reference(workload: &Workload) -> WorkloadRef {
    WorkloadRef {
        name: text(workload.metadata.name.as_ref()),
        uid: text(workload.metadata.uid.as_ref()),
    }
}

/// Our labels on a deployment at a place; a city alone has no label.
pub(super) fn labels(workload: &Workload, place: Option<&Place<&str>>) -> BTreeMap<String, String> {
    let uid = text(workload.metadata.uid.as_ref());
    let location = place.and_then(Place::location).copied().map(str::to_owned);
    let always = [
        (keys::WORKLOAD_UID.to_owned(), uid),
        (keys::SERVICE_NAME.to_owned(), GROUP.to_owned()),
    ];
    let location = location.map(|name| (keys::INSTANCE_LOCATION.to_owned(), name));
    always.into_iter().chain(location).collect()
}

/// The controlling owner. `blockOwnerDeletion` stays unset: it needs a permission on the Workload's finalizers.
pub(super) fn owner(workload: &Workload) -> OwnerReference {
    OwnerReference {
        api_version: API_VERSION.to_owned(),
        kind: "Workload".to_owned(),
        name: text(workload.metadata.name.as_ref()),
        uid: text(workload.metadata.uid.as_ref()),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

fn differs(workload: &Workload, pair: &Pair, existing: &WorkloadDeployment) -> bool {
    let metadata = &existing.metadata;
    let labelled = |(key, value): (String, String)| {
        metadata
            .labels
            .as_ref()
            .and_then(|l| l.get(&key))
            .is_some_and(|has| *has == value)
    };
    let owned = controller(metadata).is_some_and(|has| {
        let wanted = owner(workload);
        has.uid == wanted.uid && has.name == wanted.name && has.kind == wanted.kind
    });
    let mut labels = labels(workload, Some(&pair.place)).into_iter();
    existing.spec != spec(workload, pair) || !owned || !labels.all(labelled)
}

fn changed(workload: &Workload, pair: &Pair, existing: &WorkloadDeployment) -> WorkloadDeployment {
    WorkloadDeployment {
        metadata: ObjectMeta {
            name: existing.metadata.name.clone(),
            namespace: existing.metadata.namespace.clone(),
            uid: existing.metadata.uid.clone(),
            labels: Some(labels(workload, Some(&pair.place))),
            owner_references: Some(vec![owner(workload)]),
            ..ObjectMeta::default()
        },
        spec: spec(workload, pair),
        status: None,
    }
}

/// A new deployment has the annotation and the finalizer that the federator would patch first, which saves that
/// request.
fn created(
    snapshot: &WorkloadSnapshot,
    pair: &Pair,
    name: String,
    replaced: Option<&str>,
) -> WorkloadDeployment {
    let workload = &snapshot.workload;
    let hub_namespace = snapshot.hub_namespace.as_str().to_owned();
    let named = snapshot.own_hub.iter().map(|uid| (keys::HUB, uid.to_string()));
    let annotations = [(keys::FEDERATION_NAMESPACE, hub_namespace)]
        .into_iter()
        .chain(named)
        .chain(replaced.map(|uids| (keys::REPLACES, uids.to_owned())));
    WorkloadDeployment {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: workload.metadata.namespace.clone(),
            labels: Some(labels(workload, Some(&pair.place))),
            annotations: Some(annotations.map(|(key, value)| (key.to_owned(), value)).collect()),
            finalizers: Some(vec![keys::FEDERATOR_FINALIZER.to_owned()]),
            owner_references: Some(vec![owner(workload)]),
            ..ObjectMeta::default()
        },
        spec: spec(workload, pair),
        status: None,
    }
}

/// Names of deployments in the namespace; true if the deployment is terminating.
struct Names(BTreeMap<String, bool>);

/// State of a pair's name.
enum Name {
    Free(String),
    /// The deployment of this name is terminating; its delete event enqueues the Workload.
    Leaving,
    /// Both forms are in use; this is the second.
    Held(String),
}

impl Names {
    fn new(snapshot: &WorkloadSnapshot) -> Self {
        let own = snapshot
            .deployments
            .iter()
            .map(|d| (text(d.metadata.name.as_ref()), is_leaving(d)));
        Self(snapshot.held.clone().into_iter().chain(own).collect())
    }

    /// Reserves the first form that is free.
    fn take(&mut self, workload: &Workload, pair: &Pair) -> Name {
        let (placement, place) = (&pair.placement.name, pair.at());
        let of = text(workload.metadata.name.as_ref());
        let second = name::hashed(&of, &text(workload.metadata.uid.as_ref()), placement, place);
        for form in name::plain(&of, placement, place)
            .into_iter()
            .chain([second.clone()])
        {
            match self.0.get(&form) {
                None => {
                    self.0.insert(form.clone(), false);
                    return Name::Free(form);
                }
                Some(true) => return Name::Leaving,
                Some(false) => {}
            }
        }
        Name::Held(second)
    }
}

/// A field that the API server always sets.
pub(super) fn text(field: Option<&String>) -> String {
    field.cloned().unwrap_or_default()
}
