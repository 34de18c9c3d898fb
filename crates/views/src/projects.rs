//! A row for each project, and a project with its stuck objects.

use super::{DETAILS, Operations, by_project, items};
use fedgate_api::names::{CityCode, ProjectKey};
use fedgate_engine::{key::Plane, runtime::inspect::PlaneState as State, store::table::Table};
use fedgate_gateway::index::{GatewayIndex, Project, derived::summary::Problem};
use fedgate_operations::views::{page, planes, stuck::Found};
use fedgate_operations::{
    NamespaceRow, NoAnswer, PlaneState, ProjectDetail, ProjectRow, Rows, Stage, Time, Worst,
    query::{self, Query, STUCK_FOR, Sort},
};
use std::collections::{BTreeSet, HashMap};

pub(super) fn rows(of: &Operations, query: &Query) -> Rows<ProjectRow> {
    let mut projects = of.project_keys();
    projects.retain(|key| query.q.as_deref().is_none_or(|q| key.as_str().contains(q)));
    let found = of.found(STUCK_FOR, true);
    let is_plain = query.state.is_none() && query.reason.is_none() && query.city.is_none();
    if is_plain && query.sort == Sort::Name {
        let names = page::by_name(projects, &query.page, ProjectKey::as_str);
        return Rows {
            items: rows_of(of, &names.items, &found),
            next: names.next,
            remaining: names.remaining,
        };
    }
    let mut rows = rows_of(of, &projects, &found);
    rows.retain(|row| {
        let reason = row.worst.as_ref().map(|worst| &worst.reason);
        query::selects(query.state.as_deref(), row.state.as_str())
            && query.city.as_ref().is_none_or(|city| row.cities.contains(city))
            && (query.reason.is_none() || query.reason.as_ref() == reason)
    });
    let worst = |row: &ProjectRow| row.worst.as_ref().map(|worst| (worst.class, worst.since));
    match query.sort {
        Sort::Name => return page::by_name(rows, &query.page, |row| &row.project),
        Sort::Worst => rows.sort_by_key(|row| (worst(row).is_none(), worst(row), row.project.clone())),
        Sort::Since => rows.sort_by_key(|row| {
            let since = worst(row).and_then(|(_, since)| since);
            (since.is_none(), since, row.project.clone())
        }),
        Sort::Instances => {
            rows.sort_by_key(|row| (std::cmp::Reverse(row.instances.existing), row.project.clone()));
        }
    }
    page::by_rank(rows, &query.page)
}

/// Rows of these projects, as far as they are engaged; `found` are the stuck objects of all.
pub(super) fn rows_of(of: &Operations, projects: &[ProjectKey], found: &[Found]) -> Vec<ProjectRow> {
    let planes: Vec<Plane> = projects.iter().cloned().map(Plane::Project).collect();
    let states: HashMap<Plane, State> = of.gateway.plane_states(&planes).into_iter().collect();
    let undelivered = undelivered(of);
    let stuck = by_project(found);
    of.each_project(projects, |index, project| {
        let state = states.get(&Plane::Project(project.clone()));
        let state = state.map_or(PlaneState::Syncing, |state| planes::state(*state));
        let stuck = stuck.get(project.as_str()).map_or(&[][..], Vec::as_slice);
        let undelivered = undelivered.get(project).copied().unwrap_or(0);
        row(index, project, state, undelivered, stuck)
    })
}

/// Number of objects that are not yet where they are to go, by project.
fn undelivered(of: &Operations) -> HashMap<ProjectKey, usize> {
    let index = of.index();
    let mut counts: HashMap<ProjectKey, usize> = HashMap::new();
    for &stage in Stage::ALL {
        for object in index.undelivered.of(stage).keys() {
            if let Some(owner) = index.owners.get(&object.hub) {
                *counts.entry(owner.project.clone()).or_default() += 1;
            }
        }
    }
    counts
}

fn row(
    index: &GatewayIndex,
    key: &ProjectKey,
    state: PlaneState,
    undelivered: usize,
    stuck: &[&Found],
) -> Option<ProjectRow> {
    let project = index.projects.get(key)?;
    let is_counted = |one: &&&Found| one.class != fedgate_operations::Class::Unavailable;
    Some(ProjectRow {
        project: key.as_str().to_owned(),
        state,
        deployments: project.sources.iter().map(Table::len).sum(),
        instances: project.instances,
        cities: cities(project).into_iter().map(str::to_owned).collect(),
        worst: worst(index, key, stuck),
        undelivered,
        stuck: stuck.iter().filter(is_counted).count(),
    })
}

/// The cities of a project's deployments; of one that names a location alone, the location.
fn cities(project: &Project) -> BTreeSet<&str> {
    let mut cities = BTreeSet::new();
    for ((_, namespace), _) in project.namespaces.iter() {
        for (kind, _) in project.sources.enumerate() {
            let places = project.secondary.announced(namespace, kind);
            cities.extend(places.map(|(place, _)| place.city().map_or(place.as_str(), CityCode::as_str)));
        }
    }
    cities
}

/// The worst of a project's stuck objects and of the problems that are too young to be stuck.
fn worst(index: &GatewayIndex, key: &ProjectKey, stuck: &[&Found]) -> Option<Worst> {
    let problems = index.summary.problems_of(key).map(|(_, problem)| problem);
    let problems = problems.min_by_key(|problem| problem.rank()).map(of_problem);
    let stuck = stuck.iter().map(|one| Worst {
        class: one.class,
        reason: one.word.clone(),
        since: one.item.since,
    });
    problems
        .into_iter()
        .chain(stuck)
        .min_by_key(|worst| (worst.class, worst.since.is_none(), worst.since))
}

/// A problem as the worst state.
pub(super) fn of_problem(problem: &Problem) -> Worst {
    Worst {
        class: problem.class,
        reason: problem.reason.to_string(),
        since: Some(Time::from_second(problem.since)),
    }
}

pub(super) fn detail(of: &Operations, name: &str) -> Result<ProjectDetail, NoAnswer> {
    let unknown = || unknown_project(name);
    let key = ProjectKey::parse(name).map_err(|_| unknown())?;
    let found = of.found(STUCK_FOR, true);
    let row = rows_of(of, std::slice::from_ref(&key), &found)
        .pop()
        .ok_or_else(unknown)?;
    let mut stuck: Vec<&Found> = found.iter().filter(|one| one.item.project == name).collect();
    stuck.sort_by_key(|one| (one.class, one.item.since.is_none(), one.item.since));
    let index = of.index();
    Ok(ProjectDetail {
        row,
        namespaces: namespaces(&index, &key),
        stuck_objects: items(&stuck),
    })
}

pub(super) fn namespaces(index: &GatewayIndex, key: &ProjectKey) -> Vec<NamespaceRow> {
    let rows = index
        .projects
        .get(key)
        .into_iter()
        .flat_map(|project| project.namespaces.iter());
    let mut rows: Vec<NamespaceRow> = rows
        .filter_map(|((_, name), _)| {
            let hub = index.owned_hub_namespace(key, name)?;
            Some(NamespaceRow {
                namespace: name.to_string(),
                hub_namespace: hub.as_str().to_owned(),
            })
        })
        .take(DETAILS)
        .collect();
    rows.sort_by(|a, b| a.namespace.cmp(&b.namespace));
    rows
}

/// The answer for a project that is not engaged.
pub(super) fn unknown_project(name: &str) -> NoAnswer {
    NoAnswer::Unknown {
        message: format!("project {name:?} is not engaged"),
        next: "list the projects: fedgate projects list; a refused one is in fedgate stuck --class plane"
            .to_owned(),
    }
}
