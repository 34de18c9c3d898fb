//! A row for each cell, and a cell with its projects and what is stuck there.

use super::{Operations, overview::cell_state};
use crate::index::{GatewayIndex, rows::Cell};
use fedgate_engine::metrics::Holder;
use fedgate_engine::{runtime::inspect::SLICE, store::table::Row};
use fedgate_operations::views::{page, stuck::Found};
use fedgate_operations::{
    CellDetail, CellInstances, CellRow, NoAnswer, Rows, Time,
    query::{CellsQuery, STUCK_FOR, Sort},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Maximum number of rows in the lists of a detail.
const DETAILS: usize = 200;

/// Instances of each project in a cell.
type Projects = BTreeMap<String, u64>;

pub(super) fn rows(of: &Operations, query: &CellsQuery) -> Rows<CellRow> {
    let mut rows = rows_of(of, |_| true);
    rows.retain(|row| {
        query.state.is_none_or(|state| row.state == state)
            && query
                .city
                .as_ref()
                .is_none_or(|city| row.city.as_ref() == Some(city))
    });
    match query.sort {
        Sort::Name => return page::by_name(rows, &query.page, |row| &row.cell),
        Sort::Worst => rows.sort_by_key(|row| (row.state, row.cell.clone())),
        Sort::Since => rows.sort_by_key(|row| (row.since.is_none(), row.since, row.cell.clone())),
        Sort::Instances => rows.sort_by_key(|row| (Reverse(row.instances.existing), row.cell.clone())),
    }
    page::by_rank(rows, &query.page)
}

/// The rows of the cells that `wanted` selects, by name.
pub(super) fn rows_of(of: &Operations, wanted: impl Fn(&str) -> bool) -> Vec<CellRow> {
    let projects = projects_by_cell(of);
    let index = of.gateway.shared.read_index(Holder::Operations);
    let cells = index.hub.clusters.iter().filter(|((_, name), _)| wanted(name));
    let none = Projects::new();
    let mut rows: Vec<CellRow> = cells
        .map(|((_, name), cell)| row(&index, name, cell, projects.get(&**name).unwrap_or(&none)))
        .collect();
    rows.sort_by(|a, b| a.cell.cmp(&b.cell));
    rows
}

/// The Instances of each project in each cell.
fn projects_by_cell(of: &Operations) -> HashMap<String, Projects> {
    let hubs: Vec<Arc<str>> = of
        .gateway
        .shared
        .read_index(Holder::Operations)
        .owners
        .keys()
        .cloned()
        .collect();
    let mut cells: HashMap<String, Projects> = HashMap::new();
    for slice in hubs.chunks(SLICE) {
        let index = of.gateway.shared.read_index(Holder::Operations);
        for hub in slice {
            let Some(owner) = index.owners.get(hub) else {
                continue;
            };
            for ((_, cell), part) in index.summary.places(hub) {
                let projects = cells
                    .entry(cell.as_deref().unwrap_or_default().to_owned())
                    .or_default();
                *projects.entry(owner.project.as_str().to_owned()).or_default() += part.existing;
            }
        }
    }
    cells
}

fn row(index: &GatewayIndex, name: &str, cell: &Row<Cell>, projects: &Projects) -> CellRow {
    let sums = index.summary.cell(name);
    let Cell {
        city,
        location: _,
        ready,
        same_as: _,
        is_surveyed: _,
        id: _,
        kubernetes,
        serves,
    } = &cell.digest;
    CellRow {
        cell: name.to_owned(),
        city: city.as_ref().map(|city| city.as_str().to_owned()),
        state: cell_state(cell),
        reason: ready.as_ref().map(|ready| ready.reason.to_string()),
        since: ready.as_ref().map(|ready| Time::from_second(ready.since)),
        kubernetes: kubernetes.as_deref().map(str::to_owned),
        serves: serves
            .iter()
            .map(|kind| {
                kind.split_once('.')
                    .map_or(&**kind, |(plural, _)| plural)
                    .to_owned()
            })
            .collect(),
        projects: projects.len(),
        deployments: sums.deployments,
        instances: CellInstances {
            existing: sums.instances.existing,
            ready: sums.instances.ready,
        },
        not_applied: sums.not_applied,
        last_report: sums.last_report.map(Time),
    }
}

pub(super) fn detail(of: &Operations, name: &str) -> Result<CellDetail, NoAnswer> {
    let row = rows_of(of, |cell| cell == name).pop();
    let row = row.ok_or_else(|| NoAnswer::Unknown {
        message: format!("the hub has no Cluster {name:?}"),
        next: "list the cells: fedgate cells list".to_owned(),
    })?;
    let mut projects: Vec<_> = projects_by_cell(of)
        .remove(name)
        .unwrap_or_default()
        .into_iter()
        .collect();
    projects.sort_by_key(|(_, instances)| Reverse(*instances));
    let found = of.found(STUCK_FOR, false);
    let mut stuck: Vec<&Found> = found
        .iter()
        .filter(|one| one.item.cell.split(", ").any(|cell| cell == name))
        .collect();
    stuck.sort_by_key(|one| (one.item.since.is_none(), one.item.since));
    Ok(CellDetail {
        row,
        project_names: projects
            .into_iter()
            .take(DETAILS)
            .map(|(project, _)| project)
            .collect(),
        stuck_objects: stuck
            .into_iter()
            .take(DETAILS)
            .map(|one| one.item.clone())
            .collect(),
    })
}
