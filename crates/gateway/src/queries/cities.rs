//! Cities and routes of a hub namespace: those of its copies and of announced deployments, up to a limit.

use crate::{
    index::{
        GatewayIndex,
        derived::secondary::places::NoCity,
        rows::{Place, Source},
    },
    route::{CityRoute, Route},
};
use fedgate_api::names::{CityCode, DEPLOYMENT_NAME_LIMIT};
use fedgate_engine::store::table::Row;
use fedgate_kinds::KindId;
use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Maximum number of cities of one project namespace. Each city set is a policy for the whole hub, and many
/// policies slow down every namespace: a tenant must not be able to create them without end.
pub const CITY_LIMIT: usize = 64;

impl GatewayIndex {
    /// The place of a source that counts as announced: the source has the finalizer, is not being deleted, and has a
    /// valid name.
    pub fn announced<'a>(name: &str, source: &'a Row<Source>) -> Option<&'a Place> {
        let place = Some(&source.digest.place).filter(|place| place.is_valid());
        place.filter(|_| Self::holds(source) && !source.deleting && name.len() <= DEPLOYMENT_NAME_LIMIT)
    }

    /// City and route of a deployment at a place, by the Clusters' labels.
    pub fn city_route(&self, place: &Place) -> Result<CityRoute, NoCity> {
        self.hub.secondary.places.destination(place)
    }

    /// The cities that the Namespace of a hub namespace is to reach now, as far as they are known.
    fn delivered_to(&self, hub_namespace: &str) -> BTreeSet<CityCode> {
        let row = self.hub.namespaces.get("", hub_namespace);
        let labelled = row.and_then(|row| row.digest.cities.as_ref());
        let set = self.intents.deliveries.at(hub_namespace, labelled).or(labelled);
        set.and_then(|set| self.cities_of_set(set)).unwrap_or_default()
    }

    /// The cities of a hub namespace's copies and of its Namespace. A cell that is down for a while removes none.
    fn in_place(&self, hub_namespace: &str) -> BTreeSet<CityCode> {
        let mut cities = self.delivered_to(hub_namespace);
        cities.extend(
            self.kinds
                .ids()
                .flat_map(|kind| self.cities_of_copies(kind, hub_namespace)),
        );
        cities
    }

    /// True if a city may be used in a hub namespace: it has a cell, or had one when the namespace began to use it.
    pub fn is_served(&self, hub_namespace: &str, city: &CityCode) -> bool {
        self.hub.secondary.places.serves(city) || self.in_place(hub_namespace).contains(city)
    }

    /// The city in which an object stays whose kind fixes the place: that of its copy, or, once it has its member, of the
    /// member while there is no copy.
    pub fn fixed_city(
        &self,
        kind: KindId,
        hub_namespace: &str,
        name: &str,
        uid: Option<&Arc<str>>,
    ) -> Option<CityCode> {
        if !self.kinds[kind].placement.immutable {
            return None;
        }
        let copy = self.hub.copies[kind].get(hub_namespace, name);
        let city = copy.and_then(|row| row.digest.city.clone());
        if self.kinds[kind].is_exactly_one() {
            let pin = self.pin(kind, hub_namespace, name)?;
            return city.or_else(|| self.hub.clusters.get("", &pin.member)?.digest.city.clone());
        }
        city.filter(|_| uid.is_some() && copy.and_then(|row| row.digest.source_uid.as_ref()) == uid)
    }

    /// The place that an object names although it stays in another one, so that nothing of this generation is carried.
    pub fn refused_place(
        &self,
        kind: KindId,
        hub_namespace: &str,
        name: &str,
        source: &Row<Source>,
    ) -> Option<String> {
        let city = self.fixed_city(kind, hub_namespace, name, Some(&source.uid))?;
        match self.city_route(&source.digest.place) {
            Ok(to) => (to.city != city).then(|| to.city.to_string()),
            Err(NoCity::InvalidCity(text)) => Some(format!("{text:?}")),
            Err(_) => None,
        }
    }

    /// City and route of an announced object: those of its place, or of the city in which it stays.
    pub fn announced_route(
        &self,
        kind: KindId,
        hub_namespace: &str,
        name: &str,
        source: &Row<Source>,
    ) -> Option<CityRoute> {
        let asked = self.city_route(Self::announced(name, source)?).ok();
        match self.fixed_city(kind, hub_namespace, name, Some(&source.uid)) {
            Some(city) => asked
                .filter(|to| to.city == city)
                .or_else(|| Some(CityRoute::to_city(city))),
            None => asked,
        }
    }

    /// The deliveries, except to cities without a cell, of the announced deployments of a kind in the project namespace
    /// that owns a hub namespace.
    fn announced_in<'a>(&'a self, kind: KindId, hub_namespace: &'a str) -> impl Iterator<Item = CityRoute> {
        let owning = self.owning(hub_namespace);
        let in_place = OnceCell::new();
        let is_fixed = self.kinds[kind].placement.immutable;
        let places = owning
            .into_iter()
            .filter(move |_| !is_fixed)
            .flat_map(move |(project, owner)| project.secondary.announced(&owner.namespace, kind));
        // An object whose place is fixed stays there, whatever place it names later.
        let sources = is_fixed.then(|| self.owned_sources(kind, hub_namespace));
        let sources = sources.into_iter().flatten();
        let fixed = sources
            .filter(|(_, row)| !self.is_foreign(row.digest.hub.as_ref()))
            .filter_map(move |(name, row)| self.announced_route(kind, hub_namespace, name, row));
        places
            .filter(|(_, hub)| !self.is_foreign(*hub))
            .filter_map(|(place, _)| self.city_route(place).ok())
            .chain(fixed)
            .filter(move |CityRoute { city, .. }| {
                let there = || in_place.get_or_init(|| self.in_place(hub_namespace));
                self.hub.secondary.places.serves(city) || there().contains(city)
            })
    }

    /// The deliveries of [`GatewayIndex::announced_in`] to cities within the limit.
    fn admitted_in<'a>(&'a self, kind: KindId, hub_namespace: &'a str) -> impl Iterator<Item = CityRoute> {
        let over_city_limit = self.over_city_limit(hub_namespace, None);
        let announced = self.announced_in(kind, hub_namespace);
        announced.filter(move |to| !over_city_limit.contains(&to.city))
    }

    /// The cities that announced deployments and copies of a kind use in a hub namespace.
    pub fn cities_of_kind(&self, kind: KindId, hub_namespace: &str) -> BTreeSet<CityCode> {
        let admitted = self.admitted_in(kind, hub_namespace).map(|to| to.city);
        admitted
            .chain(self.cities_of_copies(kind, hub_namespace))
            .collect()
    }

    /// The routes that announced deployments and copies of a kind use in a hub namespace.
    pub fn routes_of_kind(&self, kind: KindId, hub_namespace: &str) -> BTreeSet<Route> {
        let admitted = self.admitted_in(kind, hub_namespace).map(|to| to.route);
        admitted
            .chain(self.routes_of_copies(kind, hub_namespace))
            .collect()
    }

    /// The cities of the copies of a kind in a hub namespace, including copies in flight.
    pub fn cities_of_copies(&self, kind: KindId, hub_namespace: &str) -> impl Iterator<Item = CityCode> {
        let there = self.hub.secondary.copies(hub_namespace, kind);
        let arriving = self.intents.arriving_in(kind, hub_namespace);
        there
            .chain(arriving.map(|destination| &destination.city))
            .cloned()
    }

    /// The routes of the copies of a kind in a hub namespace, including copies in flight.
    pub fn routes_of_copies(&self, kind: KindId, hub_namespace: &str) -> impl Iterator<Item = Route> {
        let there = self.hub.secondary.routes(hub_namespace, kind);
        let arriving = self.intents.arriving_in(kind, hub_namespace);
        there.chain(arriving.map(|destination| destination.route.clone()))
    }

    /// The cities beyond the limit of a hub namespace, among those announced and `asked` for.
    ///
    /// Cities of copies and lingering cities stay within the limit; of the others those of the oldest deployments
    /// come first.
    pub fn over_city_limit(&self, hub_namespace: &str, asked: Option<&Row<Source>>) -> BTreeSet<CityCode> {
        let kinds = self.kinds.ids();
        let mut placed: BTreeSet<CityCode> = kinds
            .clone()
            .flat_map(|i| self.hub.secondary.copies(hub_namespace, i))
            .cloned()
            .collect();
        let lingering = self.intents.lingering.get(hub_namespace);
        placed.extend(lingering.into_iter().flat_map(BTreeMap::keys).cloned());
        let asked = asked.and_then(|row| Some((row, self.city_route(&row.digest.place).ok()?.city)));
        let new: BTreeSet<CityCode> = kinds
            .clone()
            .flat_map(|i| self.announced_in(i, hub_namespace))
            .map(|destination| destination.city)
            .chain(asked.iter().map(|(_, city)| city.clone()))
            .filter(|city| !placed.contains(city))
            .collect();
        if placed.len() + new.len() <= CITY_LIMIT {
            return BTreeSet::new();
        }
        // The order of creation is looked up only where it matters.
        let mut waiting: Vec<(i64, &str, CityCode)> = kinds
            .flat_map(|i| self.owned_sources(i, hub_namespace))
            .filter(|(_, row)| !self.is_foreign(row.digest.hub.as_ref()))
            .filter_map(|(name, row)| Some((row, self.city_route(Self::announced(name, row)?).ok()?.city)))
            .chain(asked)
            .filter(|(_, city)| !placed.contains(city) && new.contains(city))
            .map(|(row, city)| (row.digest.created(), &*row.uid, city))
            .collect();
        waiting.sort_unstable();
        let mut out = BTreeSet::new();
        for (.., city) in waiting {
            if placed.len() < CITY_LIMIT || placed.contains(&city) {
                placed.insert(city);
            } else {
                out.insert(city);
            }
        }
        out
    }

    /// True if the project of a hub namespace may have no more city sets.
    pub fn is_limited(&self, hub: &str) -> bool {
        self.owners.get(hub).is_some_and(|owner| {
            self.intents
                .limited
                .contains(&(owner.project.label().into(), hub.into()))
        })
    }

    /// The hub namespaces of a project, by its label, that may have no more city sets.
    pub fn limited_of(&self, label: &Arc<str>) -> impl Iterator<Item = &Arc<str>> {
        let from = (label.clone(), Arc::from(""));
        let label = label.clone();
        let all = self.intents.limited.range(from..);
        all.take_while(move |(of, _)| *of == label).map(|(_, hub)| hub)
    }
}

/// True if a route's policy must stay: the route is in use, or the policy claims a binding.
pub fn policy_needed(index: &GatewayIndex, hub: &str, kind: KindId, route: &Route) -> bool {
    index.routes_of_kind(kind, hub).contains(route) || policy_claims(index, hub, kind, route)
}

/// True if the policy of a route claims a binding.
pub fn policy_claims(index: &GatewayIndex, hub: &str, kind: KindId, route: &Route) -> bool {
    let policy = index.policy_of(kind, hub, route);
    policy.is_some_and(|(name, _)| index.hub.secondary.claims(hub, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        federator,
        index::{TableId, networking::WorkloadChecks},
    };
    use fedgate_api::{keys, names::ProjectKey};
    use fedgate_engine::plane::watch::WatchEvent;
    use fedgate_kinds::FederatedKind;
    use serde_json::{Value, json};
    use std::sync::Arc;

    const HUB: &str = "ns-a1";

    fn applied(object: &Value) -> WatchEvent {
        WatchEvent::Apply(serde_json::from_value(object.clone()).map(Box::new).unwrap())
    }

    fn deployment(n: usize, city: &str) -> Value {
        let created = jiff::Timestamp::from_second(1_000_000 + i64::try_from(n).unwrap()).unwrap();
        json!({"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
            "metadata": {"name": format!("d-{n}"), "namespace": "default", "uid": format!("u-{n}"),
                "resourceVersion": "5", "creationTimestamp": created.to_string(),
                "finalizers": [keys::FEDERATOR_FINALIZER]},
            "spec": {"cityCode": city}})
    }

    fn namespace(name: &str, uid: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": uid, "resourceVersion": "5"}})
    }

    #[test]
    fn the_newest_cities_beyond_the_limit_wait_and_say_so() {
        let kinds = Arc::new(FederatedKind::builtin().unwrap().into());
        let mut index = GatewayIndex::new(kinds, WorkloadChecks::default());
        let shop = ProjectKey::parse("shop").unwrap();
        index.engage(shop.clone());
        for table in index.hub_tables() {
            index.hub_event(table, WatchEvent::Init);
            index.hub_event(table, WatchEvent::InitDone);
        }
        for n in 0..CITY_LIMIT + 2 {
            let cell = crate::index::fixture::cluster(&format!("C{:03}", 900 - n));
            index.hub_event(TableId::Clusters, applied(&cell));
        }
        for own in [namespace("kube-system", "p1"), namespace("default", "a1")] {
            index.project_event(&shop, TableId::Namespaces, applied(&own));
        }
        // Among the newest, the name of the city decides.
        for n in 0..CITY_LIMIT + 2 {
            let one = deployment(n, &format!("C{:03}", 900 - n));
            index.project_event(&shop, TableId::DEPLOYMENTS, applied(&one));
        }
        // The oldest of all uses a city without a cell, which does not count.
        let mut oldest = deployment(1_000, "NONE");
        oldest["metadata"]["creationTimestamp"] = json!("1970-01-02T00:00:00Z");
        index.project_event(&shop, TableId::DEPLOYMENTS, applied(&oldest));
        for table in index.project_tables() {
            index.project_event(&shop, table, WatchEvent::InitDone);
        }
        let refused = |index: &GatewayIndex, n: usize| {
            let key = index.source_key(KindId::FIRST, &shop, "default", &format!("d-{n}"));
            federator::observe::observe(index, &key, &shop)
                .unwrap()
                .readiness
                .is_over_city_limit
        };
        let used = index.cities_of_kind(KindId::FIRST, HUB);
        assert_eq!(used.len(), CITY_LIMIT);
        assert!(!used.contains(&CityCode::parse("C835").unwrap()));
        assert!(!refused(&index, CITY_LIMIT - 1) && refused(&index, CITY_LIMIT));
        // A city that a copy uses stays within the limit, whatever the order of creation.
        let mut copy = deployment(CITY_LIMIT + 1, "C835");
        copy["metadata"]["namespace"] = json!(HUB);
        copy["metadata"]["labels"] = json!({keys::CITY_CODE: "C835"});
        index.hub_event(TableId::DEPLOYMENTS, applied(&copy));
        assert!(!refused(&index, CITY_LIMIT + 1) && refused(&index, CITY_LIMIT - 1));
    }
}
