//! Stuck objects that follow from the index: brakes, refused, undelivered, deleting, orphaned and unavailable ones.

use super::{HUB_UNREACHABLE, Operations, name_of};
use fedgate_api::conditions::types;
use fedgate_engine::{
    clock::Now,
    runtime::inspect::{SLICE, Survey},
};
use fedgate_gateway::{
    PLATFORM,
    index::{
        GatewayIndex, ObjectRef, TableId,
        derived::summary::{ObjectKey, Problem},
        derived::undelivered::{Since, is_of_leader},
    },
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
    let mut found = views::of_runtime(&of.gateway, survey, stuck_for, &|key| name_of(&of.index(), key));
    found.extend(brakes(of));
    let name = |item: &StuckItem| (item.project.clone(), item.namespace.clone(), item.name.clone());
    let failing: BTreeSet<(String, String, String)> = found
        .iter()
        .filter(|one| matches!(one.class, Class::Retrying | Class::Waiting | Class::Quarantined))
        .map(|one| name(&one.item))
        .collect();
    found.extend(problems(of, with_unavailable, now));
    let undelivered = undelivered(of, stuck_for, now).into_iter();
    found.extend(undelivered.filter(|one| !failing.contains(&name(&one.item))));
    found.extend(orphans(of));
    found
}

fn brake(word: &str, kind: &str, name: &str, message: String) -> Found {
    let item = StuckItem {
        kind: kind.to_owned(),
        name: name.to_owned(),
        message,
        ..StuckItem::default()
    };
    Found::new(Class::Brake, "hub", word, item)
}

fn brakes(of: &Operations) -> Vec<Found> {
    let role = &of.gateway.role;
    let (names, drift) = (role.garbage.brakes(), role.interpreters.drift());
    let shown: String = names.join(", ").chars().take(400).collect();
    let index = of.index();
    let counted = [
        ("orphans", names.len(), format!("brakes hold: {shown}")),
        (
            "projections",
            index.intents.withheld.len(),
            "deployments keep their projections".to_owned(),
        ),
        ("drift", drift, "interpreters differ from ours".to_owned()),
        (
            "cells",
            index.intents.moves.held(),
            "cells are lost, and their deployments do not move, because too many cells are not ready"
                .to_owned(),
        ),
    ];
    let counted = counted.into_iter().filter(|(_, count, _)| *count > 0);
    let mut found = unknown_projects(&index);
    found.extend(counted.map(|(word, count, text)| brake(word, "planes", "hub", format!("{count} {text}"))));
    found.extend(intruders(&index));
    found
}

/// The projects that the brake of the platform holds.
pub(super) fn unknown_projects(index: &GatewayIndex) -> Vec<Found> {
    let all = index.unknown_projects().into_iter();
    let found = all.map(|(label, uid)| {
        let message =
            format!("Namespaces of the hub name the Project of UID {uid}, which the platform does not have");
        brake(PLATFORM, "projects", label.as_ref().unwrap_or(&uid), message)
    });
    found.collect()
}

/// Policies of other clients that can take what the hub has of tenants.
fn intruders(index: &GatewayIndex) -> Vec<Found> {
    let one = |table, (namespace, name): (&Arc<str>, &Arc<str>)| {
        let message =
            "its selectors match objects of tenants, which Karmada then takes to the clusters of this policy";
        let mut found = brake(INTRUDER, index.plural(table), name, message.to_owned());
        found.item.namespace = namespace.to_string();
        found
    };
    let (sets, policies) = (index.hub.city_sets.iter(), index.hub.city_policies.iter());
    let sets = sets.filter(|(_, row)| row.digest.is_intruder);
    let policies = policies.filter(|(_, row)| row.digest.is_intruder);
    sets.map(|(name, _)| one(TableId::CitySets, name))
        .chain(policies.map(|(name, _)| one(TableId::CityPolicies, name)))
        .collect()
}

/// Objects whose own status reports a problem. A tenant may have any number of them, so they are read in slices; those that
/// are only unavailable are not even visited unless they are asked for.
fn problems(of: &Operations, with_unavailable: bool, now: Now) -> Vec<Found> {
    let mut found = Vec::new();
    for is_urgent in [true, false].into_iter().take(1 + usize::from(with_unavailable)) {
        let mut last: Option<ObjectKey> = None;
        loop {
            let index = of.index();
            let slice = index.summary.problems_after(is_urgent, last.as_ref()).take(SLICE);
            let slice: Vec<_> = slice.collect();
            let Some((end, _)) = slice.last() else { break };
            let shown = slice.iter().filter(|(_, problem)| is_shown(problem, now));
            found.extend(shown.map(|(object, problem)| of_problem(&index, object, problem)));
            last = Some((*end).clone());
        }
    }
    found
}

fn is_shown(problem: &Problem, now: Now) -> bool {
    let after = match problem.class {
        Class::Deleting => DELETING,
        Class::Unavailable => UNAVAILABLE,
        _ => Duration::ZERO,
    };
    is_older(Some(Time::from_second(problem.since)), after, now)
}

/// The cells to which Karmada's binding schedules a copy.
fn cells_of(index: &GatewayIndex, kind: KindId, hub: &str, name: &str) -> Option<String> {
    let binding = index.binding(kind, hub, name)?;
    Some(binding.digest.clusters.join(", "))
}

pub(super) fn of_problem(index: &GatewayIndex, object: &ObjectKey, problem: &Problem) -> Found {
    let (project, (kind, (namespace, name))) = object;
    let kind = *kind;
    let hub = index.owned_hub_namespace(project, namespace);
    let cells = hub.and_then(|hub| cells_of(index, kind, hub.as_str(), name));
    let of = index.projects.get(project);
    let source = of.and_then(|of| of.sources[kind].get(namespace, name));
    let type_ = if problem.is_urgent() {
        types::FEDERATED
    } else {
        types::AVAILABLE
    };
    let said = source.and_then(|row| row.digest.status.condition(type_)?.shown.clone());
    let item = StuckItem {
        project: project.as_str().to_owned(),
        namespace: namespace.to_string(),
        kind: index.plural(TableId::Federated(kind)).to_owned(),
        name: name.to_string(),
        cell: cells.unwrap_or_default(),
        since: Some(Time::from_second(problem.since)),
        message: said.as_deref().unwrap_or_default().to_owned(),
        ..StuckItem::default()
    };
    Found::new(problem.class, "project", &*problem.reason, item)
}

/// Objects that are not yet where they are to go. A standby does not know those of all stages.
fn undelivered(of: &Operations, stuck_for: Duration, now: Now) -> Vec<Found> {
    let leads = of.gateway.shared.planes.lease.may_write();
    let outage = of.hub_outage();
    let outage = outage.map(|since| format!("{HUB_UNREACHABLE}: {since}"));
    let mut found = Vec::new();
    let stages = Stage::ALL.iter().copied();
    for stage in stages.filter(|stage| leads || !is_of_leader(*stage)) {
        let after = match stage {
            Stage::HubToCell => stuck_for.max(UNDELIVERED_BY_KARMADA),
            _ => stuck_for,
        };
        let waiting = {
            let index = of.index();
            let all = index.undelivered.of(stage).iter();
            let old = all.filter(|(_, since)| is_older(Some(Time(since.at)), after, now));
            old.map(|(object, since)| (object.clone(), *since))
                .collect::<Vec<_>>()
        };
        let outage = outage.as_ref().filter(|_| stage == Stage::ProjectToHub);
        for slice in waiting.chunks(SLICE) {
            let index = of.index();
            let described = slice
                .iter()
                .filter_map(|(object, since)| self::waiting(&index, stage, object, *since, outage));
            found.extend(described);
        }
    }
    found
}

fn waiting(
    index: &GatewayIndex,
    stage: Stage,
    object: &ObjectRef,
    since: Since,
    outage: Option<&String>,
) -> Option<Found> {
    let ObjectRef { kind, hub, name } = object;
    let owner = index.owners.get(hub)?;
    let (table, plane, cell) = match stage {
        Stage::ProjectToHub => (TableId::Federated(*kind), "hub", None),
        Stage::HubToCell => (
            TableId::Federated(*kind),
            "hub",
            cells_of(index, *kind, hub, name),
        ),
        Stage::HubStatusToProject => (TableId::Federated(*kind), "project", None),
        Stage::WritebackToProjection => {
            let row = index.hub.write_backs[*kind].get(hub, name);
            let cell = row.and_then(|row| Some(row.digest.cell.as_ref()?.to_string()));
            (TableId::WrittenBack(*kind), "project", cell)
        }
    };
    // Why the hub or a cell does not have a deployment, as its tenant reads it.
    let row = index.owned_source(*kind, hub, name).filter(|_| plane == "hub");
    let federated = row.and_then(|row| row.digest.status.condition("Federated"));
    let told = federated.filter(|said| &*said.status != "True");
    let told = told.map(|said| format!("{}: {}", said.reason, said.shown.as_deref().unwrap_or_default()));
    let item = StuckItem {
        project: owner.project.as_str().to_owned(),
        namespace: owner.namespace.to_string(),
        kind: index.plural(table).to_owned(),
        name: name.to_string(),
        cell: cell.unwrap_or_default(),
        since: Some(Time(since.at)),
        since_at_least: since.at_least,
        message: outage.cloned().or(told).unwrap_or_default(),
        ..StuckItem::default()
    };
    Some(Found::new(Class::Undelivered, plane, stage.as_str(), item))
}

fn orphans(of: &Operations) -> Vec<Found> {
    let keys = of.gateway.role.garbage.orphaned_copies();
    let orphans = keys.iter().map(|key| {
        let item = name_of(&of.index(), key);
        Found::new(Class::Orphan, "hub", item.kind.clone(), item)
    });
    orphans.collect()
}
