//! Sums over the rows, updated row by row, so that no answer about the fleet scans objects: federated objects by reason,
//! Instances by project, city and cell, and the objects with problems.
//!
//! Sums depend on the rows alone: each row change takes away the old row's part and adds that of the new row.

mod problem;

pub use problem::{Problem, REFUSED, is_refused};

use super::secondary::RefCounts;
use crate::index::{
    NamespaceOwner, Project,
    rows::{Binding, Source, WriteBackDigest},
};
use fedgate_api::{
    ReplicaCounts,
    conditions::{self, Reason},
    names::{CityCode, ProjectKey},
};
use fedgate_engine::{
    random::HashMap,
    store::table::{Name, Row},
};
use fedgate_kinds::KindId;
use fedgate_operations::{CellInstances, Class, Instances};
use jiff::Timestamp;
use std::{collections::BTreeMap, ops::Bound, sync::Arc};

/// Status and reason of a condition `Federated`; `None` without the condition.
pub type FederatedState = Option<(Arc<str>, Arc<str>)>;

/// The Instances that a deployment reports.
fn reported(row: &Row<Source>) -> Instances {
    let rollup = row.digest.rolled_up();
    let counts = rollup.map_or_else(ReplicaCounts::default, |rollup| rollup.counts);
    let number = |count: i32| u64::try_from(count).unwrap_or(0);
    Instances {
        desired: number(counts.desired_replicas),
        existing: number(counts.replicas),
        ready: number(counts.ready_replicas),
        updated: number(counts.updated_replicas),
    }
}

fn written_back(row: &Row<WriteBackDigest>) -> CellInstances {
    CellInstances {
        existing: 1,
        ready: u64::from(row.digest.serving.is_ready()),
    }
}

/// City and cell of a write-back.
pub type Place = (Option<CityCode>, Option<Arc<str>>);

/// The part of a cell in the fleet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OfCell {
    /// Copies that Karmada schedules there.
    pub deployments: usize,
    /// Copies that Karmada schedules there and has not applied.
    pub not_applied: usize,
    /// Write-backs of the cell.
    pub instances: CellInstances,
    /// Time of the last change that one of its write-backs brought.
    pub last_report: Option<Timestamp>,
}

impl OfCell {
    fn is_empty(&self) -> bool {
        self.deployments == 0 && self.instances.existing == 0
    }
}

/// Project, kind, namespace and name of a project's object.
pub type ObjectKey = (ProjectKey, (KindId, Name));

/// Sums over all planes.
#[derive(Debug, Default)]
pub struct Summary {
    federated: RefCounts<(KindId, FederatedState)>,
    /// Write-backs of each hub namespace, by place; nearly always there are few places.
    places: HashMap<Arc<str>, Vec<(Place, CellInstances)>>,
    cells: BTreeMap<Arc<str>, OfCell>,
    /// Write-backs whose label does not name their deployment.
    unlabelled: usize,
    /// Objects that are refused or being deleted.
    urgent: BTreeMap<ObjectKey, Problem>,
    /// Objects that are only unavailable: where tenants' programs fail, these are many.
    unavailable: BTreeMap<ObjectKey, Problem>,
}

fn federated_state(row: &Row<Source>) -> FederatedState {
    let condition = row.digest.status.condition("Federated")?;
    Some((condition.status.clone(), condition.reason.clone()))
}

/// Status and reason of a condition `Federated` as metrics and answers show it: a closed set. Other reasons, and those that only
/// further kinds have, count as `Other`, and an object without the condition as `None`.
pub fn labels(state: &FederatedState) -> (&'static str, &'static str) {
    let Some((status, reason)) = state else {
        return ("None", "None");
    };
    let status = match &**status {
        "True" => "True",
        "False" => "False",
        _ => "Unknown",
    };
    let shown = Reason::parse(reason).filter(|reason| !reason.is_of_further_kinds());
    (status, shown.map_or("Other", Reason::as_str))
}

/// The states that an object of a federated kind may have, by [`labels`].
pub fn federated_states() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_condition = conditions::CONDITIONS
        .iter()
        .find(|[kind, ..]| kind == "Federated");
    let (good, bad) = of_condition.map_or(("", ""), |[_, good, bad]| (&**good, &**bad));
    let good = good.split_whitespace().map(|reason| ("True", reason));
    let bad = bad
        .split_whitespace()
        .chain(["Other"])
        .map(|reason| ("False", reason));
    [("None", "None")].into_iter().chain(good).chain(bad)
}

impl Summary {
    /// Number of federated objects by kind and condition `Federated`.
    pub fn federated(&self) -> impl Iterator<Item = (&(KindId, FederatedState), usize)> {
        self.federated.counts()
    }

    /// The write-backs of a hub namespace, by place.
    pub fn places(&self, hub: &str) -> &[(Place, CellInstances)] {
        self.places.get(hub).map_or(&[], Vec::as_slice)
    }

    /// The part of a cell.
    pub fn cell(&self, cell: &str) -> OfCell {
        self.cells.get(cell).copied().unwrap_or_default()
    }

    /// Applies the change of a project's object from `old` to `new`; `instances` are those of the project.
    pub(crate) fn source(
        &mut self,
        key: &ProjectKey,
        instances: &mut Instances,
        (kind, name): (KindId, &Name),
        old: Option<&Row<Source>>,
        new: Option<&Row<Source>>,
    ) {
        if let Some(old) = old {
            self.federated.count((kind, federated_state(old)), false);
            *instances -= reported(old);
        }
        if let Some(new) = new {
            self.federated.count((kind, federated_state(new)), true);
            *instances += reported(new);
        }
        let problem = new.and_then(Problem::of);
        let is_urgent = problem.as_ref().is_some_and(Problem::is_urgent);
        for (all, is_here) in [(&mut self.urgent, is_urgent), (&mut self.unavailable, !is_urgent)] {
            let object = || (key.clone(), (kind, name.clone()));
            match problem.clone().filter(|_| is_here) {
                Some(problem) => drop(all.insert(object(), problem)),
                None if !all.is_empty() => drop(all.remove(&object())),
                None => {}
            }
        }
    }

    /// The objects with problems after one of them, or from the first: those that are refused or being deleted, or those
    /// that are only unavailable.
    pub fn problems_after(
        &self,
        is_urgent: bool,
        after: Option<&ObjectKey>,
    ) -> impl Iterator<Item = (&ObjectKey, &Problem)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let all = if is_urgent {
            &self.urgent
        } else {
            &self.unavailable
        };
        all.range((from, Bound::Unbounded))
    }

    /// The problems from an object on, as long as they are in the same scope.
    fn problems<'a>(
        &'a self,
        first: ObjectKey,
        is_in: impl Fn(&ObjectKey) -> bool + Copy + 'a,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Problem)> {
        let all = [&self.urgent, &self.unavailable].into_iter();
        all.flat_map(move |all| {
            all.range(first.clone()..)
                .take_while(move |(object, _)| is_in(object))
        })
    }

    /// The problems of a project.
    pub fn problems_of<'a>(
        &'a self,
        project: &'a ProjectKey,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Problem)> {
        let first = (KindId::FIRST, (Arc::from(""), Arc::from("")));
        self.problems((project.clone(), first), move |(of, _)| of == project)
    }

    /// The problems of a project's namespace.
    pub fn problems_in<'a>(
        &'a self,
        kinds: impl Iterator<Item = KindId> + 'a,
        owner: &'a NamespaceOwner,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Problem)> {
        let NamespaceOwner { project, namespace } = owner;
        kinds.flat_map(move |kind| {
            let first = (kind, (namespace.clone(), Arc::from("")));
            self.problems((project.clone(), first), move |(of, (of_kind, (name, _)))| {
                of == project && *of_kind == kind && name == namespace
            })
        })
    }

    /// The objects that are being deleted, of one project or of all; each with its `deletionTimestamp`, in seconds since the
    /// epoch.
    pub fn deletions<'a>(
        &'a self,
        project: Option<&'a ProjectKey>,
    ) -> impl Iterator<Item = (&'a ObjectKey, i64)> {
        let of_project = project.into_iter().flat_map(|project| self.problems_of(project));
        let all = self.problems_after(true, None).filter(move |_| project.is_none());
        let deleting = of_project
            .chain(all)
            .filter(|(_, problem)| problem.class == Class::Deleting);
        deleting.map(|(object, problem)| (object, problem.since))
    }

    /// Takes away the parts of a project that is disengaged.
    pub(crate) fn forget(&mut self, key: &ProjectKey, project: &Project) {
        let objects: Vec<ObjectKey> = self.problems_of(key).map(|(object, _)| object.clone()).collect();
        for object in objects {
            self.urgent.remove(&object);
            self.unavailable.remove(&object);
        }
        for (kind, table) in project.sources.enumerate() {
            for (_, row) in table.iter() {
                self.federated.count((kind, federated_state(row)), false);
            }
        }
    }

    /// Number of write-backs whose label does not name their deployment.
    pub fn unlabelled(&self) -> usize {
        self.unlabelled
    }

    /// Applies the change of a write-back in a hub namespace. `at` is the time of an event that brought it, `None` for
    /// a list.
    pub(crate) fn write_back(
        &mut self,
        hub: &Arc<str>,
        old: Option<&Row<WriteBackDigest>>,
        new: Option<&Row<WriteBackDigest>>,
        at: Option<Timestamp>,
    ) {
        let place = |row: &Row<WriteBackDigest>| (row.digest.city.clone(), row.digest.cell.clone());
        let unlabelled =
            |row: Option<&Row<WriteBackDigest>>| usize::from(row.is_some_and(|row| !row.digest.is_labelled));
        self.unlabelled -= unlabelled(old);
        self.unlabelled += unlabelled(new);
        let places = self.places.entry(hub.clone()).or_default();
        if let Some(old) = old {
            let (place, part) = (place(old), written_back(old));
            if let Some((_, sum)) = places.iter_mut().find(|(of, _)| *of == place) {
                *sum -= part;
            }
            if let Some(cell) = place.1.and_then(|cell| self.cells.get_mut(&cell)) {
                cell.instances -= part;
            }
        }
        if let Some(new) = new {
            let (place, part) = (place(new), written_back(new));
            if let Some(cell) = place.1.clone() {
                let cell = self.cells.entry(cell).or_default();
                cell.instances += part;
                cell.last_report = at.or(cell.last_report);
            }
            if let Some((_, sum)) = places.iter_mut().find(|(of, _)| *of == place) {
                *sum += part;
            } else {
                places.reserve_exact(1);
                places.push((place, part));
            }
        }
        places.retain(|(_, sum)| sum.existing > 0);
        if places.is_empty() {
            self.places.remove(hub);
        }
        self.drop_empty(old.and_then(|row| row.digest.cell.as_ref()));
    }

    /// Applies the change of a binding of a federated kind.
    pub(crate) fn binding(&mut self, old: Option<&Row<Binding>>, new: Option<&Row<Binding>>) {
        for cell in old.into_iter().flat_map(|row| &row.digest.clusters) {
            if let (Some(of), Some(old)) = (self.cells.get_mut(cell), old) {
                of.deployments -= 1;
                of.not_applied -= usize::from(!old.digest.is_applied_at(cell));
            }
        }
        for cell in new.into_iter().flat_map(|row| &row.digest.clusters) {
            if let Some(new) = new {
                let of = self.cells.entry(cell.clone()).or_default();
                of.deployments += 1;
                of.not_applied += usize::from(!new.digest.is_applied_at(cell));
            }
        }
        for cell in old.into_iter().flat_map(|row| &row.digest.clusters) {
            self.drop_empty(Some(cell));
        }
    }

    fn drop_empty(&mut self, cell: Option<&Arc<str>>) {
        if let Some(cell) = cell
            && self.cells.get(cell).is_some_and(OfCell::is_empty)
        {
            self.cells.remove(cell);
        }
    }
}
