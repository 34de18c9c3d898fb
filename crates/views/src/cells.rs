//! A row for each cell, and a cell with its projects and what is stuck there.

use super::{DETAILS, Operations, items};
use fedgate_engine::store::table::Row;
use fedgate_gateway::index::{GatewayIndex, rows::Cell};
use fedgate_operations::views::{page, stuck::Found};
use fedgate_operations::{
    CellDetail, CellRow, CellState, NoAnswer, Rows, Time,
    query::{self, Query, STUCK_FOR, Sort},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

/// Instances of each project in a cell.
type Projects = BTreeMap<String, u64>;

pub(super) fn rows(of: &Operations, query: &Query) -> Rows<CellRow> {
    let mut rows = rows_of(of, |_| true);
    rows.retain(|row| {
        query::selects(query.state.as_deref(), row.state.as_str())
            && (query.city.is_none() || query.city == row.city)
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
    let index = of.index();
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
    let mut cells: HashMap<String, Projects> = HashMap::new();
    of.each_owner(|index, hub, owner| {
        for ((_, cell), part) in index.summary.places(hub) {
            let cell = cell.as_deref().unwrap_or_default().to_owned();
            let projects = cells.entry(cell).or_default();
            *projects.entry(owner.project.as_str().to_owned()).or_default() += part.existing;
        }
    });
    cells
}

fn row(index: &GatewayIndex, name: &str, cell: &Row<Cell>, projects: &Projects) -> CellRow {
    let sums = index.summary.cell(name);
    let Cell {
        city,
        ready,
        kubernetes,
        serves,
        ..
    } = &cell.digest;
    let state = Cell::state(cell);
    // Condition Ready says nothing of a drain.
    let ready = ready.as_ref().filter(|_| state != CellState::Draining);
    CellRow {
        cell: name.to_owned(),
        city: city.as_ref().map(|city| city.as_str().to_owned()),
        state,
        reason: ready.map(|ready| ready.reason.to_string()),
        since: ready.map(|ready| Time::from_second(ready.since)),
        kubernetes: kubernetes.as_deref().map(str::to_owned),
        serves: serves
            .iter()
            .filter_map(|kind| Some(kind.split('.').next()?.to_owned()))
            .collect(),
        projects: projects.len(),
        deployments: sums.deployments,
        instances: sums.instances,
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
    let projects = projects_by_cell(of).remove(name).unwrap_or_default();
    let mut projects: Vec<_> = projects.into_iter().collect();
    projects.sort_by_key(|(_, instances)| Reverse(*instances));
    let found = of.found(STUCK_FOR, false);
    let mut stuck: Vec<&Found> = found
        .iter()
        .filter(|one| one.item.cell.split(", ").any(|cell| cell == name))
        .collect();
    stuck.sort_by_key(|one| (one.item.since.is_none(), one.item.since));
    Ok(CellDetail {
        row,
        project_names: projects.into_iter().take(DETAILS).map(|(name, _)| name).collect(),
        stuck_objects: items(&stuck),
    })
}
