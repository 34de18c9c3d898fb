//! The locations of a project, against which the places of Workloads are checked (K3) and selected; contract:
//! locations.md §2.1 number 3.
//!
//! Several kinds of object tell them. Which of these a project serves is discovered; the first that it serves counts. A
//! kind that was served once counts until the project is engaged again, even if a later one is served in its place:
//! while an API server starts, it may deny kinds that it has.

use super::{
    GatewayIndex, TableId,
    apply::Applied,
    resources::Resources,
    rows::{Strings, has_condition},
    tables::AnyTable,
};
use crate::settings::LocationSource;
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::{
    plane::watch::WatchEvent,
    runtime::index::Discovered,
    store::{
        apply::{RowChange, apply_event},
        table::{Row, Table},
    },
};
use kube::core::{ApiResource, DynamicObject};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The field of a Workload that depends on every location; as a name it concerns the Workloads with a selector.
const SELECTOR: &str = "locationSelector";
/// The service whose availability counts.
const SERVICE: &str = "compute";

/// Most keys of a topology that are kept: more than a selector can name.
const MOST_KEYS: usize = 64;
/// Longest key of a label, with its prefix.
const LONGEST_KEY: usize = 317;
/// Longest value of a label, and of a city code.
const LONGEST_VALUE: usize = 63;
/// Longest name of an object.
const LONGEST_NAME: usize = 253;

/// A kind of object that tells locations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LocationKind {
    /// Location of `locations.miloapis.com`.
    Location,
    /// `LocationBinding` of `networking.datumapis.com`: a Location that the project may use, under its name.
    Binding,
    /// Location of `networking.datumapis.com`; it may be served namespaced or cluster-scoped.
    NetworkLocation,
}

impl LocationKind {
    /// All kinds, the first first.
    pub const ALL: [Self; 3] = [Self::Location, Self::Binding, Self::NetworkLocation];

    /// The kinds of a source, in their order: the first that is served counts.
    fn of(source: LocationSource) -> &'static [Self] {
        match source {
            LocationSource::None => &[],
            LocationSource::Auto => &Self::ALL,
            LocationSource::Locations => &[Self::Location],
            LocationSource::NetworkServices => &[Self::Binding, Self::NetworkLocation],
        }
    }
}

/// The tables that may be watched for a source.
pub fn tables(source: LocationSource) -> impl Iterator<Item = TableId> {
    let kinds = LocationKind::of(source).iter().copied().map(TableId::Locations);
    kinds.chain((source != LocationSource::None).then_some(TableId::Availabilities))
}

/// A location of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// Topology of the location, as far as a selector of labels can match it.
    pub topology: Arc<BTreeMap<String, String>>,
    /// City of the location.
    pub city: Option<Arc<str>>,
    /// True if the condition Ready is False. A location without this condition counts as ready.
    pub refused: bool,
}

impl Location {
    /// Reads an object of any [`LocationKind`].
    pub fn read(object: &DynamicObject) -> Self {
        let topology = object.data.pointer("/spec/topology").and_then(Value::as_object);
        let topology: BTreeMap<String, String> = topology
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .filter(|(key, value)| key.len() <= LONGEST_KEY && value.len() <= LONGEST_VALUE)
            .take(MOST_KEYS)
            .collect();
        let city = topology.get(keys::CITY_CODE).filter(|city| !city.is_empty());
        Self {
            city: city.map(|city| city.as_str().into()),
            topology: topology.into(),
            refused: has_condition(object, "Ready", "False"),
        }
    }
}

/// A location at which [`SERVICE`] is available; `None` says that of no location.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Availability(Option<Arc<str>>);

impl Availability {
    fn read(object: &DynamicObject, words: &mut Strings) -> Self {
        let text = |pointer| object.data.pointer(pointer).and_then(Value::as_str);
        let location = text("/spec/locationRef/name").filter(|name| name.len() <= LONGEST_NAME);
        let available =
            text("/spec/serviceRef/name") == Some(SERVICE) && has_condition(object, "Available", "True");
        Self(
            location
                .filter(|_| available)
                .map(|location| words.intern(location)),
        )
    }
}

/// The locations at which the service is available.
fn available(rows: &Table<Availability>) -> BTreeSet<Arc<str>> {
    let live = rows.iter().filter(|(_, row)| !row.deleting);
    live.filter_map(|(_, row)| row.digest.0.clone()).collect()
}

/// Whether the locations of a project are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knowledge {
    /// The gateway reads no locations: every place may be used.
    Unread,
    /// A list is missing.
    Pending,
    /// All lists are complete.
    Complete,
}

/// The locations of a project; see the module.
#[derive(Debug, Default)]
pub struct ProjectLocations {
    /// True once the project has said which kinds it serves.
    discovered: bool,
    /// The kind that counts.
    kind: Option<LocationKind>,
    rows: Table<Location>,
    /// `None` if the project does not serve them: then each location counts as available.
    availabilities: Option<Box<Table<Availability>>>,
}

impl ProjectLocations {
    /// Whether they are known, if this is their source.
    pub fn knowledge(&self, source: LocationSource) -> Knowledge {
        let complete = || {
            let availabilities = self.availabilities.as_ref();
            self.rows.synced() && availabilities.is_none_or(|all| all.synced())
        };
        match (source, self.kind) {
            (LocationSource::None, _) => Knowledge::Unread,
            (LocationSource::Auto, None) if self.discovered => Knowledge::Unread,
            (_, Some(_)) if complete() => Knowledge::Complete,
            _ => Knowledge::Pending,
        }
    }

    /// The table of this id, if the project serves its kind and that counts.
    pub(super) fn table(&self, id: TableId) -> Option<&dyn AnyTable> {
        match id {
            TableId::Locations(kind) if self.kind == Some(kind) => Some(&self.rows),
            TableId::Availabilities => Some(self.availabilities.as_deref()?),
            _ => None,
        }
    }

    /// All locations with their names, those of several namespaces in the order of these, each with whether it is
    /// placeable: new deployments may be placed there.
    pub fn listed(&self) -> impl Iterator<Item = (&Arc<str>, &Location, bool)> {
        let available = self.availabilities.as_ref().map(|all| available(all));
        self.rows.iter().map(move |((_, name), row)| {
            let is_available = available.as_ref().is_none_or(|all| all.contains(name));
            (name, &row.digest, is_open(row) && is_available)
        })
    }

    /// The cities with a placeable location.
    pub fn served_cities(&self) -> impl Iterator<Item = &Arc<str>> {
        let placeable = self.listed().filter(|(.., placeable)| *placeable);
        placeable.filter_map(|(_, location, _)| location.city.as_ref())
    }

    /// The tables whose kinds are still looked for: those before the one that counts.
    fn wanted(&self, source: LocationSource) -> impl Iterator<Item = TableId> {
        let better = |kind: &LocationKind| Some(*kind) != self.kind;
        let kinds = LocationKind::of(source).iter().copied().take_while(better);
        let availabilities = source != LocationSource::None && self.availabilities.is_none();
        kinds
            .map(TableId::Locations)
            .chain(availabilities.then_some(TableId::Availabilities))
    }

    /// The first kind of the source that is served, if it comes before the one that counts, counts from now on. Returns
    /// the tables to watch and those that are replaced.
    fn discover(
        &mut self,
        source: LocationSource,
        resources: &Resources,
        served: &[ApiResource],
    ) -> (Vec<TableId>, Vec<TableId>) {
        self.discovered = true;
        let is_served = |table: &TableId| served.contains(&resources[*table]);
        let found: Vec<TableId> = self.wanted(source).filter(is_served).collect();
        let (mut watch, mut unwatch) = (Vec::new(), Vec::new());
        for table in found {
            match table {
                TableId::Locations(kind) if watch.is_empty() => {
                    unwatch.extend(self.kind.replace(kind).map(TableId::Locations));
                    self.rows = Table::default();
                }
                TableId::Availabilities => self.availabilities = Some(Box::default()),
                _ => continue,
            }
            watch.push(table);
        }
        (watch, unwatch)
    }

    /// Lists all again from an older state of the project; the rows stay until then.
    pub(super) fn rewind(&mut self) {
        self.rows.rewind();
        if let Some(all) = &mut self.availabilities {
            all.rewind();
        }
    }
}

/// True if a location is neither terminating nor Ready=False.
fn is_open(row: &Row<Location>) -> bool {
    !row.deleting && !row.digest.refused
}

impl GatewayIndex {
    /// The kinds of locations that are still looked for in a project.
    pub(super) fn wanted_location_kinds(&self, key: &ProjectKey) -> Vec<ApiResource> {
        let project = self.projects.get(key).filter(|_| self.workload_kind().is_some());
        let wanted = project
            .into_iter()
            .flat_map(|of| of.locations.wanted(self.checks.locations));
        wanted.map(|table| self.resource(table).clone()).collect()
    }

    /// Records which kinds of locations a project serves.
    pub(super) fn location_kinds_discovered(
        &mut self,
        key: &ProjectKey,
        served: &[ApiResource],
    ) -> Discovered<Self> {
        let source = self.checks.locations;
        let Some(project) = self.projects.get_mut(key) else {
            return Discovered::default();
        };
        let of = &mut project.locations;
        let before = (of.discovered, of.knowledge(source));
        let (watch, unwatch) = of.discover(source, &self.resources, served);
        let after = of.knowledge(source);
        if !before.0 && of.kind.is_none() && after == Knowledge::Pending {
            tracing::warn!(
                project = %key,
                next = "install the kind in the project, or choose another --location-source",
                "the project serves no kind of the location source: its Workloads wait"
            );
        }
        let changed = before.1 != after && after != Knowledge::Pending;
        Discovered {
            changes: self.checks_changed(key, changed, &BTreeSet::new()).changes,
            watch,
            unwatch,
        }
    }

    /// Applies an event of a project's locations. Their list is not among the lists that a project needs: `synced` stays
    /// unset.
    pub(super) fn location_event(
        &mut self,
        key: &ProjectKey,
        kind: LocationKind,
        event: WatchEvent,
    ) -> Applied {
        let source = self.checks.locations;
        let project = self.projects.get_mut(key);
        let Some(of) = project.map(|project| &mut project.locations) else {
            return Applied::default();
        };
        // A late event of a kind that another one has replaced.
        if of.kind != Some(kind) {
            return Applied::default();
        }
        let pending = of.knowledge(source) == Knowledge::Pending;
        let (deltas, _) = apply_event(&mut of.rows, event, &mut self.words, |o, _| Location::read(o));
        let mut names = BTreeSet::new();
        for RowChange { name, old } in &deltas {
            let seen = |row: &Row<Location>| (is_open(row), row.digest.clone());
            let (old, new) = (old.as_ref().map(seen), of.rows.get(&name.0, &name.1).map(seen));
            let served = |seen: &Option<(bool, Location)>| {
                let open = seen.as_ref().filter(|(open, _)| *open);
                open.and_then(|(_, location)| location.city.clone())
            };
            if served(&old) != served(&new) {
                names.extend(served(&old).into_iter().chain(served(&new)));
            }
            if old != new {
                names.extend([name.1.clone(), SELECTOR.into()]);
            }
        }
        self.locations_changed(key, pending, names)
    }

    /// Applies an event of a project's `ServiceAvailabilities`, as [`GatewayIndex::location_event`] does.
    pub(super) fn availability_event(&mut self, key: &ProjectKey, event: WatchEvent) -> Applied {
        let source = self.checks.locations;
        let project = self.projects.get_mut(key);
        let Some(of) = project.map(|project| &mut project.locations) else {
            return Applied::default();
        };
        let pending = of.knowledge(source) == Knowledge::Pending;
        let Some(all) = &mut of.availabilities else {
            return Applied::default();
        };
        let before = available(all);
        apply_event(all, event, &mut self.words, Availability::read);
        let mut names: BTreeSet<Arc<str>> = before.symmetric_difference(&available(all)).cloned().collect();
        let cities: Vec<Arc<str>> = of
            .rows
            .iter()
            .filter(|((_, name), _)| names.contains(*name))
            .filter_map(|(_, row)| row.digest.city.clone())
            .collect();
        if !names.is_empty() {
            names.insert(SELECTOR.into());
        }
        names.extend(cities);
        self.locations_changed(key, pending, names)
    }

    /// With the last list that was missing all Workloads may pass or fail their checks, later those that name one of
    /// `names`.
    fn locations_changed(&self, key: &ProjectKey, was_pending: bool, names: BTreeSet<Arc<str>>) -> Applied {
        let project = self.projects.get(key);
        let knowledge = project.map(|project| project.locations.knowledge(self.checks.locations));
        let is_known = knowledge == Some(Knowledge::Complete);
        self.checks_changed(
            key,
            is_known && was_pending,
            &if is_known { names } else { BTreeSet::new() },
        )
    }
}
