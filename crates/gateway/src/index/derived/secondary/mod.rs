//! Secondary indexes over the tables, updated row by row, so that no reconcile scans neighbouring rows: the cities of a
//! namespace, the deployments that name a companion, the policy that claims a binding.
//!
//! Entries depend on the rows alone: each row change removes the entries of the old row and adds those of the new row,
//! so the order of changes does not matter.

pub mod by_place;
mod counts;
pub mod places;

use crate::index::{
    GatewayIndex,
    rows::{Binding, Companion, HubCopy, HubNamespaceDigest, Place, Source, Template},
};
use crate::{
    references,
    route::{CityRoute, Route},
};
pub use counts::RefCounts;
use fedgate_api::names::{CityCode, LocationName};
use fedgate_engine::{
    random::HashMap,
    store::table::{Name, Row},
};
use fedgate_kinds::{CompanionKind, CompanionKinds, FederatedKind, KindId, PerKind};
use places::ClusterPlaces;
use std::{collections::BTreeSet, sync::Arc};

/// Entries of one project namespace.
#[derive(Debug, Default, PartialEq, Eq)]
struct OfSources {
    /// Places of announced deployments, by kind index, each with the hub that they name.
    announced: RefCounts<(KindId, Place, Option<Arc<str>>)>,
    /// Companions, each with a deployment (kind index, name) that references or expects it.
    named: BTreeSet<(CompanionKind, Arc<str>, KindId, Arc<str>)>,
    /// Controller UIDs, each with a deployment of the workload controller's kind.
    controlled: BTreeSet<(Arc<str>, Arc<str>)>,
}

/// Secondary index of a project's deployments, by namespace.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SourceIndex(HashMap<Arc<str>, OfSources>);

/// The companions that a deployment references or expects.
fn named<'a>(
    source: &'a Source,
    kinds: &CompanionKinds,
) -> impl Iterator<Item = (CompanionKind, Arc<str>)> + use<'a> {
    let tokens: Vec<String> = source
        .expected()
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let expected: Vec<_> = tokens
        .iter()
        .filter_map(|token| references::parse_token(kinds, token))
        .collect();
    source
        .references
        .iter()
        .map(|r| (r.kind, r.name.clone()))
        .chain(expected)
}

/// The rows before and after a change, each with whether it is there now.
fn both<'a, D>(
    old: Option<&'a Row<D>>,
    new: Option<&'a Row<D>>,
) -> impl Iterator<Item = (&'a Row<D>, bool)> + use<'a, D> {
    let old = old.map(|row| (row, false));
    old.into_iter().chain(new.map(|row| (row, true)))
}

fn record<T: Ord>(entries: &mut BTreeSet<T>, entry: T, is_there: bool) {
    if is_there {
        entries.insert(entry);
    } else {
        entries.remove(&entry);
    }
}

impl SourceIndex {
    /// Applies the change of a row from `old` to `new`; `kind` is the kind index.
    pub(crate) fn change(
        &mut self,
        (kind, kinds): (KindId, &CompanionKinds),
        name: &Name,
        old: Option<&Row<Source>>,
        new: Option<&Row<Source>>,
    ) {
        let (namespace, name) = name;
        let of = self.0.entry(namespace.clone()).or_default();
        for (row, is) in both(old, new) {
            if let Some(place) = GatewayIndex::announced(name, row) {
                of.announced
                    .count((kind, place.clone(), row.digest.hub.clone()), is);
            }
            for (companion, of_name) in named(&row.digest, kinds) {
                record(&mut of.named, (companion, of_name, kind, name.clone()), is);
            }
            if let Some(uid) = controller(row) {
                record(&mut of.controlled, (uid.clone(), name.clone()), is);
            }
        }
        if *of == OfSources::default() {
            self.0.remove(namespace);
        }
    }

    /// The places of the announced deployments of a kind, each with the hub that they name.
    pub fn announced(
        &self,
        namespace: &str,
        kind: KindId,
    ) -> impl Iterator<Item = (&Place, Option<&Arc<str>>)> {
        let of = self.0.get(namespace);
        let all = of.into_iter().flat_map(|of| of.announced.keys());
        all.filter(move |(of, ..)| *of == kind)
            .map(|(_, place, hub)| (place, hub.as_ref()))
    }

    /// The deployments that reference or expect a companion: kind and name.
    pub fn naming<'a>(
        &'a self,
        namespace: &str,
        kind: CompanionKind,
        name: &str,
    ) -> impl Iterator<Item = (KindId, &'a Arc<str>)> {
        let name: Arc<str> = name.into();
        let from = (kind, name.clone(), KindId::FIRST, Arc::from(""));
        let of = self.0.get(namespace);
        let all = of.into_iter().flat_map(move |of| of.named.range(from.clone()..));
        all.take_while(move |(k, n, ..)| *k == kind && *n == name)
            .map(|(.., i, deployment)| (*i, deployment))
    }

    /// The deployments that a Workload with this UID controls.
    pub fn controlled<'a>(&'a self, namespace: &str, uid: &Arc<str>) -> impl Iterator<Item = &'a Arc<str>> {
        let uid = uid.clone();
        let of = self.0.get(namespace);
        let from = (uid.clone(), Arc::from(""));
        let all = of
            .into_iter()
            .flat_map(move |of| of.controlled.range(from.clone()..));
        all.take_while(move |(of, _)| *of == uid).map(|(_, name)| name)
    }
}

/// Controller UID of a deployment that the workload controller reads.
fn controller(row: &Row<Source>) -> Option<&Arc<str>> {
    row.digest
        .controller
        .as_ref()
        .filter(|_| row.digest.rollup.is_some())
}

/// Entries of one hub namespace.
#[derive(Debug, Default, PartialEq, Eq)]
struct OfHub {
    /// Cities of copies by kind; of those with the route of a location that, too.
    copies: RefCounts<(KindId, CityCode, Option<LocationName>)>,
    /// Policies that claim a binding.
    claims: RefCounts<Arc<str>>,
    /// `<project namespace>/<deployment>`, each with a companion that names it.
    entries: BTreeSet<(Arc<str>, CompanionKind, Arc<str>)>,
}

/// Secondary index of the hub's rows, by namespace, and the city sets that its Namespaces are labelled with.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HubIndex {
    namespaces: HashMap<Arc<str>, OfHub>,
    carried: BTreeSet<(Arc<str>, Arc<str>)>,
    /// City sets of a project's Namespaces, by the label value that names the project.
    sets: HashMap<Arc<str>, RefCounts<Arc<str>>>,
    /// Cities and locations of the Clusters.
    pub places: ClusterPlaces,
    /// Where objects are that live at one cell at a time, by this cell.
    cells: HashMap<Arc<str>, AtCell>,
    /// Number of copies that lack a field of their place.
    without_place: WithoutPlace,
}

/// The objects at one cell.
#[derive(Debug, Default, PartialEq, Eq)]
struct AtCell {
    replicas: u64,
    namespaces: RefCounts<Arc<str>>,
}

/// Numbers of copies by the field of their place that they lack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WithoutPlace {
    /// `spec.cityCode`.
    pub city: usize,
    /// `spec.locationRef`.
    pub location: usize,
}

/// Change that a Namespace makes to the city sets that projects use. Label values name the projects.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SetsChanged {
    /// Project that uses one city set less.
    pub fewer: Option<Arc<str>>,
    /// Project that uses one city set more, and that set.
    pub new: Option<(Arc<str>, Arc<str>)>,
}

/// The kind of an object that lives at one cell at a time, and the cell at which it is.
pub fn only_cell<'a>(kinds: &PerKind<FederatedKind>, binding: &'a Binding) -> Option<(KindId, &'a Arc<str>)> {
    let Template::Copy(kind) = binding.template else {
        return None;
    };
    let [cell] = &*binding.clusters else { return None };
    kinds[kind].is_movable().then_some((kind, cell))
}

/// Deployments that a companion lists as its users; empty if the list cannot be parsed.
pub fn entries(companion: &Companion) -> Vec<String> {
    let text = companion.referenced_by.as_deref().unwrap_or("[]");
    serde_json::from_str(text).unwrap_or_default()
}

/// True if an object of this name is among them; all are of one project namespace.
pub fn lists(companion: &Companion, object: &str) -> bool {
    let mut entries = entries(companion).into_iter();
    entries.any(|entry| entry.split_once('/').is_some_and(|(_, name)| name == object))
}

impl HubIndex {
    fn of(&self, hub: &str) -> Option<&OfHub> {
        self.namespaces.get(hub)
    }

    /// Numbers of copies that lack a field of their place.
    pub fn without_place(&self) -> WithoutPlace {
        self.without_place
    }

    fn change(&mut self, hub: &Arc<str>, how: impl FnOnce(&mut OfHub)) {
        let of = self.namespaces.entry(hub.clone()).or_default();
        how(of);
        if *of == OfHub::default() {
            self.namespaces.remove(hub);
        }
    }

    pub(crate) fn copy(
        &mut self,
        kind: KindId,
        name: &Name,
        old: Option<&Row<HubCopy>>,
        new: Option<&Row<HubCopy>>,
    ) {
        let lacks = |row: Option<&Row<HubCopy>>| row.map(|row| row.digest.lacks).unwrap_or_default();
        let (before, after) = (lacks(old), lacks(new));
        let without = &mut self.without_place;
        without.city = without.city + usize::from(after.city) - usize::from(before.city);
        without.location = without.location + usize::from(after.location) - usize::from(before.location);
        self.change(&name.0, |of| {
            for (row, is) in both(old, new) {
                let location = match row.digest.route() {
                    Some(Route::Location(location)) => Some(location),
                    Some(Route::City(_)) | None => None,
                };
                if let Some(city) = row.digest.city.clone() {
                    of.copies.count((kind, city, location), is);
                }
            }
        });
    }

    pub(crate) fn binding(
        &mut self,
        kinds: &PerKind<FederatedKind>,
        name: &Name,
        old: Option<&Row<Binding>>,
        new: Option<&Row<Binding>>,
    ) {
        self.change(&name.0, |of| {
            for (row, is) in both(old, new) {
                if let Some(policy) = row.digest.policy.clone() {
                    of.claims.count(policy, is);
                }
            }
        });
        let at = |row: Option<&Row<Binding>>| {
            let binding = &row?.digest;
            let (_, cell) = only_cell(kinds, binding)?;
            Some((cell.clone(), u64::from(binding.replicas.max(1))))
        };
        let (old, new) = (at(old), at(new));
        if old == new {
            return;
        }
        if let Some((cell, replicas)) = old
            && let Some(of) = self.cells.get_mut(&cell)
        {
            of.namespaces.take(&name.0);
            of.replicas -= replicas;
            if of.namespaces.is_empty() {
                self.cells.remove(&cell);
            }
        }
        if let Some((cell, replicas)) = new {
            let of = self.cells.entry(cell).or_default();
            of.namespaces.add(name.0.clone());
            of.replicas += replicas;
        }
    }

    /// The hub namespaces with objects that live at this cell, and at one cell at a time.
    pub fn namespaces_at(&self, cell: &str) -> impl Iterator<Item = &Arc<str>> {
        self.cells
            .get(cell)
            .into_iter()
            .flat_map(|of| of.namespaces.keys())
    }

    /// The sum of the replicas of these objects, each of which counts for at least one.
    pub fn replicas_at(&self, cell: &str) -> u64 {
        self.cells.get(cell).map_or(0, |of| of.replicas)
    }

    pub(crate) fn companion(
        &mut self,
        kind: CompanionKind,
        name: &Name,
        old: Option<&Row<Companion>>,
        new: Option<&Row<Companion>>,
    ) {
        self.change(&name.0, |of| {
            for (row, is) in both(old, new) {
                for entry in entries(&row.digest) {
                    record(&mut of.entries, (entry.into(), kind, name.1.clone()), is);
                }
            }
        });
    }

    /// Applies a change of a Namespace. Returns the resulting change in the city sets of projects.
    pub(crate) fn namespace(
        &mut self,
        name: &Arc<str>,
        old: Option<&Row<HubNamespaceDigest>>,
        new: Option<&Row<HubNamespaceDigest>>,
    ) -> SetsChanged {
        let project = |row: Option<&Row<HubNamespaceDigest>>| {
            row.and_then(|row| Some((row.digest.cluster.clone()?, row.digest.cities.clone()?)))
        };
        for (row, is) in both(old, new) {
            if let Some(set) = row.digest.cities.clone() {
                record(&mut self.carried, (set, name.clone()), is);
            }
        }
        let mut changed = SetsChanged::default();
        if project(old) == project(new) {
            return changed;
        }
        if let Some((label, set)) = project(new) {
            let sets = self.sets.entry(label.clone()).or_default();
            if !sets.contains(&set) {
                changed.new = Some((label, set.clone()));
            }
            sets.add(set);
        }
        if let Some((label, set)) = project(old)
            && let Some(sets) = self.sets.get_mut(&label)
        {
            sets.take(&set);
            if sets.is_empty() {
                self.sets.remove(&label);
            }
            let left = self.sets.get(&label);
            if left.is_none_or(|sets| !sets.contains(&set)) {
                changed.fewer = Some(label);
            }
        }
        changed
    }

    /// True if a project, named by its label value, may have `set` on the Namespace that has the set `own`, without
    /// using more than `limit` sets. Sets that its other Namespaces are `moving` to count.
    pub fn may_sync(
        &self,
        label: &str,
        own: Option<&Arc<str>>,
        moving: &BTreeSet<&Arc<str>>,
        set: &str,
        limit: usize,
    ) -> bool {
        let sets = self.sets.get(label);
        let carried = |set: &str| sets.and_then(|sets| sets.0.get(set)).copied().unwrap_or(0);
        if carried(set) > 0 || moving.iter().any(|of| ***of == *set) {
            return true;
        }
        // The new set replaces a set that no other Namespace of the project uses.
        let given_up = own.is_some_and(|own| carried(own) == 1 && !moving.contains(own));
        let coming = moving.iter().filter(|of| carried(of) == 0).count();
        sets.map_or(0, |sets| sets.0.len()) + coming < limit + usize::from(given_up)
    }

    /// City and route of the copies of a kind in a hub namespace.
    pub fn destinations(&self, hub: &str, kind: KindId) -> impl Iterator<Item = CityRoute> {
        let all = self.of(hub).into_iter().flat_map(|of| of.copies.keys());
        all.filter(move |(of, ..)| *of == kind)
            .map(|(_, city, location)| CityRoute {
                city: city.clone(),
                route: match location {
                    Some(location) => Route::Location(location.clone()),
                    None => Route::City(city.clone()),
                },
            })
    }

    /// True if a policy claims a binding.
    pub fn claims(&self, hub: &str, policy: &Arc<str>) -> bool {
        self.of(hub).is_some_and(|of| of.claims.contains(policy))
    }

    /// The companions that name a deployment.
    pub fn naming(
        &self,
        hub: &str,
        namespace: &str,
        name: &str,
    ) -> impl Iterator<Item = (CompanionKind, &Arc<str>)> {
        let entry: Arc<str> = format!("{namespace}/{name}").into();
        let from = (entry.clone(), CompanionKind::CONFIG_MAP, Arc::from(""));
        let all = self.of(hub).into_iter();
        let all = all.flat_map(move |of| of.entries.range(from.clone()..));
        all.take_while(move |(of, ..)| *of == entry)
            .map(|(_, kind, companion)| (*kind, companion))
    }

    /// The Namespaces that are labelled with a city set.
    pub fn carrying<'a>(&'a self, set: &str) -> impl Iterator<Item = &'a Arc<str>> {
        let set: Arc<str> = set.into();
        let from = (set.clone(), Arc::from(""));
        let all = self.carried.range(from..);
        all.take_while(move |(of, _)| *of == set).map(|(_, name)| name)
    }
}

#[cfg(test)]
mod tests;
