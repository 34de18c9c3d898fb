//! Instances of each project in each cell, as bands of a picture.

use super::{Operations, projects::of_problem};
use fedgate_api::names::ProjectKey;
use fedgate_gateway::index::{GatewayIndex, NamespaceOwner, derived::summary::Problem};
use fedgate_operations::{
    CellInstances, FlowRow, Flows, REST, Worst,
    query::{Query, TOP, selects},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// Project, city and cell.
type Band = (ProjectKey, String, String);

/// The bands of a city and cell that are summed: their projects, Instances and worst state.
type Sum = (BTreeSet<ProjectKey>, CellInstances, Option<Worst>);

pub(super) fn flows(of: &Operations, query: &Query) -> Flows {
    let mut bands: Vec<(Band, CellInstances, Option<Worst>)> = bands(of, query)
        .into_iter()
        .map(|(band, (instances, worst))| (band, instances, worst))
        .collect();
    // The largest come first, then those that hurt.
    let rank = |worst: &Option<Worst>| {
        worst
            .as_ref()
            .map_or((true, None), |worst| (false, Some(worst.class)))
    };
    bands.sort_by_cached_key(|(band, instances, worst)| {
        (Reverse(instances.existing), rank(worst), band.clone())
    });
    let rest = bands.split_off(query.top.unwrap_or(TOP).min(bands.len()));
    let mut items: Vec<FlowRow> = bands
        .into_iter()
        .map(|((project, city, cell), instances, worst)| FlowRow {
            project: project.as_str().to_owned(),
            projects: None,
            city,
            cell,
            instances: instances.existing,
            ready: instances.ready,
            worst,
        })
        .collect();
    items.extend(sums(rest));
    Flows { items }
}

fn sums(rest: Vec<(Band, CellInstances, Option<Worst>)>) -> Vec<FlowRow> {
    let mut sums: BTreeMap<(String, String), Sum> = BTreeMap::new();
    for ((project, city, cell), instances, worst) in rest {
        let (projects, sum, worst_of) = sums.entry((city, cell)).or_default();
        projects.insert(project);
        *sum += instances;
        *worst_of = worse(worst_of.take(), worst);
    }
    let rows = sums
        .into_iter()
        .map(|((city, cell), (projects, sum, worst))| FlowRow {
            project: REST.to_owned(),
            projects: Some(projects.len()),
            city,
            cell,
            instances: sum.existing,
            ready: sum.ready,
            worst,
        });
    rows.collect()
}

fn worse(a: Option<Worst>, b: Option<Worst>) -> Option<Worst> {
    a.into_iter()
        .chain(b)
        .min_by_key(|worst| (worst.class, worst.since))
}

fn bands(of: &Operations, query: &Query) -> BTreeMap<Band, (CellInstances, Option<Worst>)> {
    let mut bands: BTreeMap<Band, (CellInstances, Option<Worst>)> = BTreeMap::new();
    of.each_owner(|index, hub, owner| {
        if !selects(query.project.as_deref(), owner.project.as_str()) {
            return;
        }
        let worst_of = worst_by_city(index, owner);
        for ((city, cell), part) in index.summary.places(hub) {
            let city = city.as_ref().map_or("", |city| city.as_str());
            let cell = cell.as_deref().unwrap_or_default();
            if selects(query.city.as_deref(), city) && selects(query.cell.as_deref(), cell) {
                let band = (owner.project.clone(), city.to_owned(), cell.to_owned());
                let (sum, worst) = bands.entry(band).or_default();
                *sum += *part;
                *worst = worse(worst.take(), worst_of.get(city).cloned());
            }
        }
    });
    bands
}

/// The worst problem of a namespace's deployments by city.
fn worst_by_city(index: &GatewayIndex, owner: &NamespaceOwner) -> BTreeMap<String, Worst> {
    let mut worst: BTreeMap<String, &Problem> = BTreeMap::new();
    let Some(project) = index.projects.get(&owner.project) else {
        return BTreeMap::new();
    };
    let problems = index.summary.problems_in(index.kinds.ids(), owner);
    for ((_, (kind, (namespace, name))), problem) in problems {
        let row = project.sources[*kind].get(namespace, name);
        let Some(city) = row.and_then(|row| index.city_route(&row.digest.place).map(|to| to.city).ok())
        else {
            continue;
        };
        let known = worst.entry(city.as_str().to_owned()).or_insert(problem);
        if problem.rank() < known.rank() {
            *known = problem;
        }
    }
    worst
        .into_iter()
        .map(|(city, problem)| (city, of_problem(problem)))
        .collect()
}
