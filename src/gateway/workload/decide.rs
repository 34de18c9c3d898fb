//! What should happen for a Workload: a pure function of the snapshot and the time (contract: cell.md §1).

use super::{
    checks::{self, Verdict},
    matching::{self, Match, Pair},
    name,
    rollup::{self, Outcome},
    snapshot::{Locations, WorkloadSnapshot, controller, is_leaving},
};
use crate::api::{
    API_VERSION, GROUP, Workload, WorkloadDeployment, WorkloadDeploymentSpec, WorkloadRef, WorkloadStatus,
    keys,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use std::collections::BTreeMap;

/// One write on the project plane.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkloadEffect {
    /// Put the finalizer on the Workload; the event of this write goes on.
    AddFinalizer,
    /// Take the finalizer off; others' stay.
    RemoveFinalizer,
    /// POST the deployment.
    Create(Box<WorkloadDeployment>),
    /// Apply our labels, the owner and the spec to the deployment with this UID. The spec has to be exact; of the
    /// metadata nothing else is touched.
    Apply(Box<WorkloadDeployment>),
    /// Delete the deployment with this UID.
    Delete {
        /// Its name.
        name: String,
        /// Its UID, the precondition.
        uid: String,
    },
    /// Replace the Workload's status.
    PatchStatus(Box<WorkloadStatus>),
}

/// What a decision wants, in the order in which it must happen; the first failure ends the pass.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkloadPlan {
    /// The writes. None means that all is as it should be, or that an event is awaited.
    pub effects: Vec<WorkloadEffect>,
}

impl WorkloadPlan {
    /// Whether the Workload must be read once more before this is done: a view of it that lags would take away what a
    /// later edit has added, and bring back what it has removed. One that has no deployments yet has nothing to lose.
    pub fn needs_confirmation(&self, snapshot: &WorkloadSnapshot) -> bool {
        let changes = self.effects.iter().any(|effect| match effect {
            WorkloadEffect::Create(_) | WorkloadEffect::Apply(_) | WorkloadEffect::Delete { .. } => true,
            WorkloadEffect::AddFinalizer
            | WorkloadEffect::RemoveFinalizer
            | WorkloadEffect::PatchStatus(_) => false,
        });
        changes && !snapshot.deployments.is_empty()
    }
}

/// Decides the next pass.
pub fn decide(snapshot: &WorkloadSnapshot, now: Timestamp) -> WorkloadPlan {
    let metadata = &snapshot.workload.metadata;
    let finalized = metadata
        .finalizers
        .iter()
        .flatten()
        .any(|f| f == keys::WORKLOAD_FINALIZER);
    let effects = if metadata.deletion_timestamp.is_some() {
        leave(snapshot, finalized)
    } else if finalized {
        settle(snapshot, now)
    } else {
        vec![WorkloadEffect::AddFinalizer]
    };
    WorkloadPlan { effects }
}

/// The Workload is being deleted: its deployments first, then the finalizer.
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

/// Deletes those that are not leaving already, by name.
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

fn settle(snapshot: &WorkloadSnapshot, now: Timestamp) -> Vec<WorkloadEffect> {
    let verdict = checks::check(snapshot);
    if verdict == Verdict::Wait || snapshot.checks.locations == Locations::Pending {
        return Vec::new();
    }
    let matches = matching::assign(&snapshot.workload.spec.placements, &snapshot.deployments);
    let mut effects = Vec::new();
    let mut outcomes: Vec<Outcome> = matches
        .pairs
        .iter()
        .map(|(_, found)| Outcome::of(found))
        .collect();
    if verdict == Verdict::Good {
        let mut names = Names::new(snapshot);
        for ((pair, found), outcome) in matches.pairs.iter().zip(&mut outcomes) {
            *outcome = upsert(snapshot, pair, found, &mut names, &mut effects);
        }
        // A pair that waits or cannot have its name is an upsert that has not succeeded.
        if !outcomes
            .iter()
            .any(|o| matches!(o, Outcome::Waits | Outcome::NameConflict(_)))
        {
            effects.extend(delete(matches.unmatched.iter().copied()));
        }
    }
    let status = rollup::status(snapshot, &matches, &outcomes, &verdict, now);
    if snapshot.workload.status.as_ref() != Some(&status) {
        effects.push(WorkloadEffect::PatchStatus(Box::new(status)));
    }
    effects
}

/// Brings one pair's deployment about, and says what became of it.
fn upsert(
    snapshot: &WorkloadSnapshot,
    pair: &Pair,
    found: &Match,
    names: &mut Names,
    effects: &mut Vec<WorkloadEffect>,
) -> Outcome {
    let workload = &snapshot.workload;
    match found {
        Match::Leaving => Outcome::Waits,
        Match::Live(existing) => {
            if differs(workload, pair, existing) {
                effects.push(WorkloadEffect::Apply(Box::new(changed(workload, pair, existing))));
            }
            Outcome::Exists
        }
        Match::None if !snapshot.checks.locations.serve(pair.city) => Outcome::Absent,
        Match::None => match names.take(workload, pair) {
            Name::Free(name) => {
                effects.push(WorkloadEffect::Create(Box::new(created(snapshot, pair, name))));
                Outcome::Created
            }
            Name::Leaving => Outcome::Waits,
            Name::Held(name) => Outcome::NameConflict(name),
        },
    }
}

fn spec(workload: &Workload, pair: &Pair) -> WorkloadDeploymentSpec {
    WorkloadDeploymentSpec {
        workload_ref: reference(workload),
        placement_name: pair.placement.name.clone(),
        city_code: pair.city.to_owned(),
        template: workload.spec.template.clone(),
        scale_settings: pair.placement.scale_settings.clone(),
    }
}

pub(super) fn reference(workload: &Workload) -> WorkloadRef {
    WorkloadRef {
        name: text(workload.metadata.name.as_ref()),
        uid: text(workload.metadata.uid.as_ref()),
    }
}

pub(super) fn labels(workload: &Workload) -> BTreeMap<String, String> {
    BTreeMap::from([
        (
            keys::WORKLOAD_UID.to_owned(),
            text(workload.metadata.uid.as_ref()),
        ),
        (keys::SERVICE_NAME.to_owned(), GROUP.to_owned()),
    ])
}

/// The controlling owner. `blockOwnerDeletion` stays unset: it would need a right on the Workload's finalizers.
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
    existing.spec != spec(workload, pair) || !owned || !labels(workload).into_iter().all(labelled)
}

fn changed(workload: &Workload, pair: &Pair, existing: &WorkloadDeployment) -> WorkloadDeployment {
    WorkloadDeployment {
        metadata: ObjectMeta {
            name: existing.metadata.name.clone(),
            namespace: existing.metadata.namespace.clone(),
            uid: existing.metadata.uid.clone(),
            labels: Some(labels(workload)),
            owner_references: Some(vec![owner(workload)]),
            ..ObjectMeta::default()
        },
        spec: spec(workload, pair),
        status: None,
    }
}

/// A new deployment carries what the federator would patch in first, which saves that request.
fn created(snapshot: &WorkloadSnapshot, pair: &Pair, name: String) -> WorkloadDeployment {
    let workload = &snapshot.workload;
    let hub_namespace = snapshot.hub_namespace.as_str().to_owned();
    WorkloadDeployment {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: workload.metadata.namespace.clone(),
            labels: Some(labels(workload)),
            annotations: Some([(keys::FEDERATION_NAMESPACE.to_owned(), hub_namespace)].into()),
            finalizers: Some(vec![keys::FEDERATOR_FINALIZER.to_owned()]),
            owner_references: Some(vec![owner(workload)]),
            ..ObjectMeta::default()
        },
        spec: spec(workload, pair),
        status: None,
    }
}

/// Names of deployments in the namespace, and whether their holders are terminating.
struct Names(BTreeMap<String, bool>);

/// What a pair's name is.
enum Name {
    Free(String),
    /// Its holder is going; its event wakes the Workload.
    Leaving,
    /// Both forms are held.
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

    /// Takes the first form that is free.
    fn take(&mut self, workload: &Workload, pair: &Pair) -> Name {
        let (placement, city) = (&pair.placement.name, pair.city);
        let of = text(workload.metadata.name.as_ref());
        let second = name::hashed(&of, &text(workload.metadata.uid.as_ref()), placement, city);
        for form in name::plain(&of, placement, city)
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

/// A field that the API server always fills in.
pub(super) fn text(field: Option<&String>) -> String {
    field.cloned().unwrap_or_default()
}
