//! Stuck objects that follow from the index: brakes, refused, undelivered, deleting, orphaned and unavailable ones.

use super::{HUB_UNREACHABLE, Operations, plural};
use crate::{
    PLATFORM,
    index::{
        Deployment, GatewayIndex, TableId,
        derived::summary::{ObjectKey, Problem, ProblemClass},
        derived::undelivered::{Since, is_of_leader},
    },
};
use fedgate_api::{conditions::types, names::ProjectKey};
use fedgate_engine::metrics::Holder;
use fedgate_engine::{
    clock::Now,
    runtime::inspect::{SLICE, Survey},
    store::table::Name,
};
use fedgate_kinds::KindId;
use fedgate_operations::views::stuck::{self as views, Found, is_older};
use fedgate_operations::{Class, Stage, StuckItem, Time};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// The word of a policy that can take objects of tenants.
pub(super) const INTRUDER: &str = "foreign_policy";
/// A copy that Karmada has not delivered is shown after this time.
const UNDELIVERED_BY_KARMADA: Duration = Duration::from_mins(2);
/// A deletion is shown after this time.
const DELETING: Duration = Duration::from_mins(15);
/// An unavailable deployment is shown after this time.
const UNAVAILABLE: Duration = Duration::from_mins(10);

/// All stuck objects. Those that are only unavailable are many where a tenant's program fails.
pub(super) fn found(
    of: &Operations,
    survey: &Survey,
    stuck_for: Duration,
    with_unavailable: bool,
) -> Vec<Found> {
    let now = of.gateway.shared.now();
    let mut found = views::of_runtime(&of.gateway, survey, stuck_for, &|key| of.naming(key));
    found.extend(brakes(of));
    let failing: BTreeSet<(String, String, String)> = found
        .iter()
        .filter(|one| matches!(one.class, Class::Retrying | Class::Waiting | Class::Quarantined))
        .map(|one| {
            (
                one.item.project.clone(),
                one.item.namespace.clone(),
                one.item.name.clone(),
            )
        })
        .collect();
    found.extend(problems(of, with_unavailable, now));
    let is_failing = |item: &StuckItem| {
        failing.contains(&(item.project.clone(), item.namespace.clone(), item.name.clone()))
    };
    found.extend(
        undelivered(of, stuck_for, now)
            .into_iter()
            .filter(|one| !is_failing(&one.item)),
    );
    found.extend(orphans(of));
    found
}

fn brakes(of: &Operations) -> Vec<Found> {
    let brake = |word: &str, count: usize, message: String| Found {
        class: Class::Brake,
        plane: "hub",
        word: word.to_owned(),
        item: StuckItem {
            kind: "planes".to_owned(),
            name: "hub".to_owned(),
            message: format!("{count}{message}"),
            ..StuckItem::default()
        },
    };
    let role = &of.gateway.role;
    let (mut found, withheld) = {
        let index = of.gateway.shared.read_index(Holder::Operations);
        (unknown_projects(&index), index.hub.withheld.len())
    };
    let names = role.garbage.brakes();
    if !names.is_empty() {
        let message = format!(
            " brakes hold: {}",
            names.join(", ").chars().take(400).collect::<String>()
        );
        found.push(brake("orphans", names.len(), message));
    }
    if withheld > 0 {
        found.push(brake(
            "projections",
            withheld,
            " deployments keep their projections".to_owned(),
        ));
    }
    let drift = role.interpreters.drift();
    {
        let index = of.gateway.shared.read_index(Holder::Operations);
        found.extend(intruders(&index));
    }
    if drift > 0 {
        found.push(brake("drift", drift, " interpreters differ from ours".to_owned()));
    }
    found
}

/// The projects that the brake of the platform holds.
pub(crate) fn unknown_projects(index: &GatewayIndex) -> Vec<Found> {
    let all = index.unknown_projects().into_iter();
    let found = all.map(|(label, uid)| Found {
        class: Class::Brake,
        plane: "hub",
        word: PLATFORM.to_owned(),
        item: StuckItem {
            kind: "projects".to_owned(),
            name: label.as_ref().unwrap_or(&uid).to_string(),
            message: format!(
                "Namespaces of the hub name the Project of UID {uid}, which the platform does not have"
            ),
            ..StuckItem::default()
        },
    });
    found.collect()
}

/// Policies of other clients that can take what the hub has of tenants.
fn intruders(index: &GatewayIndex) -> Vec<Found> {
    let one = |table, (namespace, name): (&Arc<str>, &Arc<str>)| {
        Found {
        class: Class::Brake,
        plane: "hub",
        word: INTRUDER.to_owned(),
        item: StuckItem {
            namespace: namespace.to_string(),
            kind: plural(index, table),
            name: name.to_string(),
            message: "its selectors match objects of tenants, which Karmada then takes to the clusters of this policy"
                .to_owned(),
            ..StuckItem::default()
        },
    }
    };
    let (sets, policies) = (index.hub.city_sets.iter(), index.hub.city_policies.iter());
    let sets = sets.filter(|(_, row)| row.digest.is_intruder);
    let policies = policies.filter(|(_, row)| row.digest.is_intruder);
    sets.map(|(name, _)| one(TableId::CitySets, name))
        .chain(policies.map(|(name, _)| one(TableId::CityPolicies, name)))
        .collect()
}

/// Objects whose own status reports a problem. A tenant may have any number of them, so they are read in slices.
fn problems(of: &Operations, with_unavailable: bool, now: Now) -> Vec<Found> {
    if !with_unavailable {
        return urgent(of, now);
    }
    let projects: Vec<ProjectKey> = {
        let index = of.gateway.shared.read_index(Holder::Operations);
        index.summary.with_problems().cloned().collect()
    };
    let mut found = Vec::new();
    for project in projects {
        let mut last: Option<(KindId, Name)> = None;
        loop {
            let index = of.gateway.shared.read_index(Holder::Operations);
            let Some(summary) = index.projects.get(&project).map(|of| &of.summary) else {
                break;
            };
            let mut slice = summary.problems_after(last.as_ref(), SLICE).peekable();
            if slice.peek().is_none() {
                break;
            }
            let mut end = None;
            for (object, problem) in slice {
                if is_shown(problem, now) {
                    found.push(of_problem(&index, &project, object, problem));
                }
                end = Some(object.clone());
            }
            last = end;
        }
    }
    found
}

/// As [`problems`], without those that are only unavailable, which it does not visit.
fn urgent(of: &Operations, now: Now) -> Vec<Found> {
    let mut found = Vec::new();
    let mut last: Option<ObjectKey> = None;
    loop {
        let index = of.gateway.shared.read_index(Holder::Operations);
        let mut end = None;
        for key in index.summary.urgent_after(last.as_ref(), SLICE) {
            let (project, object) = key;
            let of_project = index.projects.get(project);
            if let Some(problem) = of_project.and_then(|of| of.summary.problems.get(object))
                && is_shown(problem, now)
            {
                found.push(of_problem(&index, project, object, problem));
            }
            end = Some(key.clone());
        }
        if end.is_none() {
            return found;
        }
        last = end;
    }
}

fn is_shown(problem: &Problem, now: Now) -> bool {
    let after = match problem.class {
        ProblemClass::Refused => Duration::ZERO,
        ProblemClass::Deleting => DELETING,
        ProblemClass::Unavailable => UNAVAILABLE,
    };
    is_older(Some(Time::from_second(problem.since)), after, now)
}

/// The class of a problem.
pub(super) fn class_of(problem: &Problem) -> Class {
    match problem.class {
        ProblemClass::Refused => Class::Refused,
        ProblemClass::Deleting => Class::Deleting,
        ProblemClass::Unavailable => Class::Unavailable,
    }
}

pub(super) fn of_problem(
    index: &GatewayIndex,
    project: &ProjectKey,
    (kind, (namespace, name)): &(KindId, Name),
    problem: &Problem,
) -> Found {
    let kind = *kind;
    let hub = index.owned_hub_namespace(project, namespace);
    let binding = hub.and_then(|hub| index.binding(kind, hub.as_str(), name));
    let cells = binding.map(|binding| binding.digest.clusters.join(", "));
    let source = index
        .projects
        .get(project)
        .and_then(|of| of.sources[kind].get(namespace, name));
    let type_ = match problem.class {
        ProblemClass::Refused | ProblemClass::Deleting => types::FEDERATED,
        ProblemClass::Unavailable => types::AVAILABLE,
    };
    let said = source.and_then(|row| row.digest.status.condition(type_)?.shown.clone());
    Found {
        class: class_of(problem),
        plane: "project",
        word: problem.reason.to_string(),
        item: StuckItem {
            project: project.as_str().to_owned(),
            namespace: namespace.to_string(),
            kind: plural(index, TableId::Federated(kind)),
            name: name.to_string(),
            cell: cells.unwrap_or_default(),
            since: Some(Time::from_second(problem.since)),
            message: said.as_deref().unwrap_or_default().to_owned(),
            ..StuckItem::default()
        },
    }
}

/// Objects that are not yet where they are to go. A standby does not know those of all stages.
fn undelivered(of: &Operations, stuck_for: Duration, now: Now) -> Vec<Found> {
    let leads = of.gateway.shared.planes.lease.may_write();
    let outage = of.hub_outage();
    let outage = outage.map(|since| format!("{HUB_UNREACHABLE}: {since}"));
    let mut found = Vec::new();
    for stage in Stage::ALL
        .into_iter()
        .filter(|stage| leads || !is_of_leader(*stage))
    {
        let after = match stage {
            Stage::HubToCell => stuck_for.max(UNDELIVERED_BY_KARMADA),
            _ => stuck_for,
        };
        let index = of.gateway.shared.read_index(Holder::Operations);
        let old: Vec<(Deployment, Since)> = index
            .undelivered
            .of(stage)
            .iter()
            .filter(|(_, since)| is_older(Some(Time(since.at)), after, now))
            .map(|(object, since)| (object.clone(), *since))
            .collect();
        drop(index);
        let message = outage.as_ref().filter(|_| stage == Stage::ProjectToHub);
        let message = message.map_or("", String::as_str);
        for slice in old.chunks(SLICE) {
            let index = of.gateway.shared.read_index(Holder::Operations);
            let waiting = |(object, since): &(Deployment, Since)| {
                let mut found = waiting(&index, stage, object, *since)?;
                found.item.message = if message.is_empty() {
                    told(&index, stage, object)
                } else {
                    message.to_owned()
                };
                Some(found)
            };
            found.extend(slice.iter().filter_map(waiting));
        }
    }
    found
}

fn waiting(index: &GatewayIndex, stage: Stage, object: &Deployment, since: Since) -> Option<Found> {
    let (kind, hub, name) = object;
    let owner = index.owners.get(hub)?;
    let (table, plane) = match stage {
        Stage::ProjectToHub | Stage::HubToCell => (TableId::Federated(*kind), "hub"),
        Stage::HubStatusToProject => (TableId::Federated(*kind), "project"),
        Stage::WritebackToProjection => (TableId::WrittenBack(*kind), "project"),
    };
    let cell = match stage {
        Stage::HubToCell => index
            .binding(*kind, hub, name)
            .map(|row| row.digest.clusters.join(", ")),
        Stage::WritebackToProjection => {
            let row = index.hub.write_backs[*kind].get(hub, name);
            row.and_then(|row| row.digest.cell.as_deref().map(str::to_owned))
        }
        Stage::ProjectToHub | Stage::HubStatusToProject => None,
    };
    Some(Found {
        class: Class::Undelivered,
        plane,
        word: stage.as_str().to_owned(),
        item: StuckItem {
            project: owner.project.as_str().to_owned(),
            namespace: owner.namespace.to_string(),
            kind: plural(index, table),
            name: name.to_string(),
            cell: cell.unwrap_or_default(),
            since: Some(Time(since.at)),
            since_at_least: since.at_least,
            ..StuckItem::default()
        },
    })
}

/// Why the hub or a cell does not have a deployment, as its tenant reads it.
fn told(index: &GatewayIndex, stage: Stage, (kind, hub, name): &Deployment) -> String {
    let owner = index.owners.get(hub);
    let project = owner.and_then(|owner| Some((owner, index.projects.get(&owner.project)?)));
    let row = project.and_then(|(owner, of)| of.sources[*kind].get(&owner.namespace, name));
    let federated = row.and_then(|row| row.digest.status.condition("Federated"));
    match (stage, federated) {
        (Stage::ProjectToHub | Stage::HubToCell, Some(said)) if &*said.status != "True" => {
            format!("{}: {}", said.reason, said.shown.as_deref().unwrap_or_default())
        }
        _ => String::new(),
    }
}

fn orphans(of: &Operations) -> Vec<Found> {
    let keys = of.gateway.role.garbage.orphaned_copies();
    let orphans = keys.iter().map(|key| {
        let item = of.naming(key);
        Found {
            class: Class::Orphan,
            plane: "hub",
            word: item.kind.clone(),
            item,
        }
    });
    orphans.collect()
}
