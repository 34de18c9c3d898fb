//! Which deployment and which Workload an Instance belongs to (contract: cli.md §1). UIDs of deployments differ between
//! planes and are never compared.

use super::{
    Condition, Object,
    place::{City, CityMap, is_at, is_selecting, location_of, place_of, places},
};
use fedgate_api::{
    Place,
    conditions::types::{AVAILABLE, READY},
    keys,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A Workload with its deployments.
#[derive(Debug)]
pub(crate) struct Joined {
    /// The Workload.
    pub(crate) workload: Object,
    /// The places of its spec, in their order, each with its deployment if that exists.
    pub(crate) cities: Vec<(City, Option<Object>)>,
    /// Deployments of places that the spec does not name.
    pub(crate) leaving: Vec<Object>,
    /// Places that no Location serves, as far as that was looked up.
    pub(crate) unserved: BTreeSet<City>,
}

impl Joined {
    /// Joins a Workload with those of the namespace's deployments that are its own.
    pub(crate) fn of(workload: Object, deployments: Vec<Object>) -> Self {
        let (map, mut of) = grouped(deployments);
        Self::new(workload, &mut of, &map)
    }

    fn new(workload: Object, of: &mut Grouped, map: &CityMap) -> Self {
        let mut of = of.remove(workload.uid()).unwrap_or_default();
        let mut cities = Vec::new();
        for placement in workload.list("/spec/placements") {
            let name = placement["name"].as_str().unwrap_or_default();
            let mut none = Own::new();
            let own = of.get_mut(name).unwrap_or(&mut none);
            cities.extend(places(placement).map(|place| at(name, place, own)));
            if is_selecting(placement) {
                cities.extend(selected(&workload, name, own));
            }
        }
        let left = of.into_values().flat_map(BTreeMap::into_values);
        let mut joined = Self {
            cities,
            leaving: left.collect(),
            unserved: BTreeSet::new(),
            workload,
        };
        joined.map(map);
        joined
    }

    /// All deployments.
    pub(crate) fn deployments(&self) -> impl Iterator<Item = &Object> {
        let present = self
            .cities
            .iter()
            .filter_map(|(_, deployment)| deployment.as_ref());
        present.chain(&self.leaving)
    }

    /// The places of its spec, then those of deployments that match no place of the spec and are not being deleted.
    pub(crate) fn places(&self) -> Vec<(City, Option<Object>)> {
        let former = self.leaving.iter().filter(|deployment| !deployment.is_deleting());
        let former = former.map(|deployment| {
            let city = City::new(
                deployment.text("/spec/placementName"),
                deployment.text("/spec/cityCode"),
                location_of(deployment),
            );
            (city, Some(deployment.clone()))
        });
        self.cities.iter().cloned().chain(former).collect()
    }

    /// True if the spec does not name the place.
    pub(crate) fn is_former(&self, place: &City) -> bool {
        !self.cities.iter().any(|(city, _)| city == place)
    }

    /// Names of locations whose city is not known.
    pub(crate) fn unmapped(&self) -> impl Iterator<Item = &str> {
        let cities = self.cities.iter().map(|(city, _)| city);
        let unmapped = cities.filter(|city| city.code.is_empty() && city.is_known());
        unmapped.map(|city| &*city.location)
    }

    /// Gives the locations their cities. Two places of a placement that are in one city are shown as locations.
    pub(crate) fn map(&mut self, map: &CityMap) {
        for (city, _) in &mut self.cities {
            if let (true, Some(code)) = (city.code.is_empty(), map.city(&city.location)) {
                code.clone_into(&mut city.code);
            }
        }
        let mut number: BTreeMap<(String, String), usize> = BTreeMap::new();
        for (city, _) in &self.cities {
            let key = (city.placement.clone(), city.code.clone());
            *number.entry(key).or_default() += 1;
        }
        for (city, _) in &mut self.cities {
            let key = (city.placement.clone(), city.code.clone());
            city.show(number.get(&key).is_some_and(|number| *number > 1));
        }
    }
}

/// Deployments of a placement, by their places.
type Own = BTreeMap<(String, String), Object>;

/// Deployments by the UID of their Workload and by their placement.
type Grouped = BTreeMap<String, BTreeMap<String, Own>>;

/// Joins Workloads and deployments of a namespace. Workloads come in the order of their names.
pub(crate) fn join(mut workloads: Vec<Object>, deployments: Vec<Object>) -> Vec<Joined> {
    workloads.sort_by(|a, b| a.name().cmp(b.name()));
    let (map, mut of) = grouped(deployments);
    let joined = workloads.into_iter();
    joined
        .map(|workload| Joined::new(workload, &mut of, &map))
        .collect()
}

/// Groups the deployments of a namespace, and maps the locations that they tell to cities.
fn grouped(deployments: Vec<Object>) -> (CityMap, Grouped) {
    let mut map = CityMap::default();
    map.add_deployments(deployments.iter());
    let mut of = Grouped::new();
    for deployment in deployments {
        let text = |pointer: &str| deployment.text(pointer).to_owned();
        let place = (place_of(&deployment).to_owned(), text("/spec/cityCode"));
        let own = of.entry(text("/spec/workloadRef/uid")).or_default();
        let own = own.entry(text("/spec/placementName")).or_default();
        own.insert(place, deployment);
    }
    (map, of)
}

/// A place of a placement, with the deployment that is taken out of the placement's own.
fn at(placement: &str, place: Place<&str>, own: &mut Own) -> (City, Option<Object>) {
    // A deployment that names the city alone comes before a deployment that names a location as well.
    let exact = |city: &str| (city.to_owned(), city.to_owned());
    let key = match place {
        Place::City(city) if own.contains_key(&exact(city)) => Some(exact(city)),
        _ => {
            let found = own.iter().find(|(_, deployment)| is_at(place, deployment));
            found.map(|(key, _)| key.clone())
        }
    };
    let deployment = key.and_then(|key| own.remove(&key));
    let text = |of: fn(&Object) -> &str| deployment.as_ref().map(of).unwrap_or_default();
    let city = match place {
        Place::City(city) => City::new(placement, city, text(location_of)),
        Place::Location(location) | Place::Both { location, .. } => {
            City::new(placement, text(|d| d.text("/spec/cityCode")), location)
        }
    };
    (city, deployment)
}

/// The places of a selector, which the gateway alone resolves: those of the deployments that it keeps and of the locations
/// that the status tells. A place without a name stands for those that are still to come.
fn selected(workload: &Object, placement: &str, own: &mut Own) -> Vec<(City, Option<Object>)> {
    let kept = own.extract_if(.., |_, deployment| !deployment.is_deleting());
    let mut all: Vec<(City, Option<Object>)> = kept
        .map(|(_, deployment)| {
            let code = deployment.text("/spec/cityCode");
            let city = City::new(placement, code, location_of(&deployment));
            (city, Some(deployment))
        })
        .collect();
    let is_resolved = workload.acted_on().is_none_or(|on| on == workload.generation());
    if is_resolved {
        let mut placements = workload.list("/status/placements").iter();
        let status = placements.find(|status| status["name"] == placement);
        let names = status.and_then(|status| status["locations"].as_array());
        for name in names.into_iter().flatten().filter_map(|l| l["name"].as_str()) {
            if !all.iter().any(|(city, _)| city.location == name) {
                all.push((City::new(placement, "", name), None));
            }
        }
    }
    if all.is_empty() || !is_resolved {
        all.push((City::new(placement, "", ""), None));
    }
    all
}

impl Object {
    /// The generation of a Workload that its controller has acted on, as far as it tells.
    pub(crate) fn acted_on(&self) -> Option<i64> {
        let observed = self.0.pointer("/status/observedGeneration");
        let observed = observed.and_then(Value::as_i64);
        observed.or_else(|| self.observed_generation(AVAILABLE))
    }
}

/// The name of the deployment that an Instance belongs to, and its ordinal: by its label, else by its own name less
/// `-<ordinal>`. The name is empty if neither tells.
fn deployment_of(instance: &Object) -> (&str, Option<u32>) {
    let (stem, ordinal) = match instance.name().rsplit_once('-') {
        Some((stem, ordinal)) => (stem, ordinal.parse().ok()),
        None => ("", None),
    };
    match instance.label(keys::WORKLOAD_DEPLOYMENT_NAME) {
        "" if ordinal.is_none() => ("", None),
        "" => (stem, ordinal),
        labelled => (labelled, ordinal),
    }
}

/// Instances by the name of their deployment, each deployment's in the order of their ordinals.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Instances(BTreeMap<String, Vec<Object>>);

impl From<Vec<Object>> for Instances {
    fn from(all: Vec<Object>) -> Self {
        let mut of: BTreeMap<String, Vec<Object>> = BTreeMap::new();
        for instance in all {
            let name = deployment_of(&instance).0.to_owned();
            of.entry(name).or_default().push(instance);
        }
        for own in of.values_mut() {
            own.sort_by_cached_key(|instance| deployment_of(instance).1);
        }
        Self(of)
    }
}

impl Instances {
    /// The Instances of a deployment.
    pub(crate) fn of(&self, deployment: &str) -> &[Object] {
        self.0.get(deployment).map(Vec::as_slice).unwrap_or_default()
    }

    /// The first Instance of a deployment that is not ready, with its condition.
    pub(crate) fn first_unready(&self, deployment: &str) -> Option<(&Object, Condition<'_>)> {
        let mut unready = self.of(deployment).iter().filter_map(|instance| {
            let ready = instance.condition(READY).filter(|ready| !ready.holds())?;
            Some((instance, ready))
        });
        unready.next()
    }
}

/// Deployments by name, and the positions of placements in the specs of Workloads.
#[derive(Debug)]
pub(crate) struct Index<'a> {
    deployments: BTreeMap<&'a str, &'a Object>,
    cities: CityMap,
    positions: BTreeMap<(&'a str, &'a str), usize>,
}

impl<'a> Index<'a> {
    /// An index of these objects. Without the Workloads, placements are in the order of their names.
    pub(crate) fn new(workloads: &'a [Object], deployments: &'a [Object]) -> Self {
        let positions = workloads.iter().flat_map(|workload| {
            let placements = workload.list("/spec/placements").iter().enumerate();
            placements.map(|(position, placement)| {
                let name = placement["name"].as_str().unwrap_or_default();
                ((workload.name(), name), position)
            })
        });
        let mut cities = CityMap::default();
        cities.add_deployments(deployments.iter());
        Self {
            deployments: deployments.iter().map(|d| (d.name(), d)).collect(),
            cities,
            positions: positions.collect(),
        }
    }

    /// Adds the cities of locations that labels of Instances tell.
    pub(crate) fn with_instances(mut self, instances: &[Object]) -> Self {
        self.cities.add_instances(instances);
        self
    }

    /// Adds the cities of a map.
    pub(crate) fn with_cities(mut self, cities: &CityMap) -> Self {
        self.cities.merge(cities);
        self
    }
}

/// The place that an Instance belongs to; the order is that of rows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Home {
    /// Name of the Workload, or `orphaned`.
    pub(crate) workload: String,
    /// Position of the placement in the Workload's spec; the last one if that is not known.
    pub(crate) position: usize,
    /// Name of the placement, or `-`.
    pub(crate) placement: String,
    /// Name of the city, else of the location, or `unknown`.
    pub(crate) city: String,
    /// The ordinal.
    pub(crate) ordinal: Option<u32>,
    /// Name of the location; empty if none is known.
    pub(crate) location: String,
}

impl Home {
    /// True if a user who names a city or a location means this one.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.city == name || self.location == name
    }

    /// True if its city is not known, and its location is.
    pub(crate) fn is_unmapped(&self) -> bool {
        !self.location.is_empty() && self.city == self.location
    }

    /// The home of an Instance: by its labels, else by the deployment that it belongs to.
    pub(crate) fn of(instance: &Object, index: &Index<'_>) -> Self {
        let (name, ordinal) = deployment_of(instance);
        let deployment = index.deployments.get(name);
        let text = |label: &str, pointer: &str, absent: &str| {
            let value = match instance.label(label) {
                "" => deployment.map(|d| d.text(pointer)).unwrap_or_default(),
                value => value,
            };
            if value.is_empty() { absent } else { value }.to_owned()
        };
        let workload = text(keys::WORKLOAD_NAME, "/spec/workloadRef/name", "orphaned");
        let placement = text(keys::PLACEMENT_NAME, "/spec/placementName", "-");
        let location = text(keys::INSTANCE_LOCATION, "/spec/locationRef/name", "");
        let position = index.positions.get(&(&*workload, &*placement));
        Self {
            position: position.copied().unwrap_or(usize::MAX),
            workload,
            placement,
            city: match (&*text(keys::INSTANCE_CITY_CODE, "/spec/cityCode", ""), &*location) {
                ("", "") => "unknown",
                ("", location) => index.cities.city(location).unwrap_or(location),
                (city, _) => city,
            }
            .to_owned(),
            ordinal,
            location,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment(name: &str, uid: &str, placement: &str, city: &str) -> Object {
        Object(json!({"metadata": {"name": name}, "spec": {
            "workloadRef": {"name": "web", "uid": uid}, "placementName": placement, "cityCode": city}}))
    }

    fn workload(placements: &Value) -> Object {
        Object(json!({"metadata": {"name": "web", "uid": "u1"}, "spec": {"placements": placements}}))
    }

    #[test]
    fn cities_come_in_the_order_of_the_spec_and_others_leave() {
        let placements =
            json!([{"name": "us", "cityCodes": ["IAD", "DFW"]}, {"name": "eu", "cityCodes": ["LHR"]}]);
        let all = vec![
            deployment("web-us-dfw", "u1", "us", "DFW"),
            deployment("web-us-ams", "u1", "us", "AMS"),
            deployment("web-us-iad", "another", "us", "IAD"),
        ];
        let joined = join(vec![workload(&placements)], all).remove(0);
        let cities: Vec<_> = joined
            .cities
            .iter()
            .map(|(city, d)| (&*city.shown, d.is_some()))
            .collect();
        assert_eq!(cities, [("IAD", false), ("DFW", true), ("LHR", false)]);
        assert_eq!(joined.leaving[0].name(), "web-us-ams");
        assert_eq!(joined.deployments().count(), 2);
    }

    #[test]
    fn deployments_at_locations_are_joined_by_their_names_or_by_a_selector() {
        let placements = json!([{"name": "us", "locations": [{"name": "us-2"}, {"name": "us-1"}]},
            {"name": "eu", "locationSelector": {"matchLabels": {"region": "eu"}}}]);
        let at = |placement: &str, spec: Value| {
            let mut deployment = deployment(placement, "u1", placement, "");
            let fields = deployment.0["spec"].as_object_mut().unwrap();
            fields.remove("cityCode");
            fields.extend(spec.as_object().unwrap().clone());
            deployment
        };
        let all = vec![
            at("us", json!({"locationRef": {"name": "us-1"}})),
            at("us", json!({"cityCode": "DFW", "locationRef": {"name": "us-3"}})),
            at("eu", json!({"locationRef": {"name": "eu-1"}})),
        ];
        let joined = join(vec![workload(&placements)], all).remove(0);
        let found = joined.cities.iter().map(|(city, d)| (&*city.shown, d.is_some()));
        assert_eq!(
            found.collect::<Vec<_>>(),
            [("us-2", false), ("us-1", true), ("eu-1", true)]
        );
        let leaving: Vec<_> = joined.leaving.iter().map(place_of).collect();
        assert_eq!(leaving, ["us-3"]);
        let instance = Object(json!({"metadata": {"name": "eu-0"}}));
        let deployments = [at("eu", json!({"locationRef": {"name": "eu-1"}}))];
        assert_eq!(Home::of(&instance, &Index::new(&[], &deployments)).city, "eu-1");
    }

    #[test]
    fn an_instance_without_labels_belongs_by_the_name_of_its_deployment() {
        let deployments = [deployment("web-us-dfw", "u1", "us", "DFW")];
        let home = |name: &str, labels: Value| {
            let instance = Object(json!({"metadata": {"name": name, "labels": labels}}));
            let home = Home::of(&instance, &Index::new(&[], &deployments));
            (home.workload, home.placement, home.city, home.ordinal)
        };
        let texts = |a: &str, b: &str, c: &str, n| (a.to_owned(), b.to_owned(), c.to_owned(), n);
        assert_eq!(
            home("web-us-dfw-3", json!({})),
            texts("web", "us", "DFW", Some(3))
        );
        assert_eq!(
            home("api-0", json!({})),
            texts("orphaned", "-", "unknown", Some(0))
        );
        let labelled = json!({keys::WORKLOAD_DEPLOYMENT_NAME: "web-us-dfw"});
        assert_eq!(home("other", labelled), texts("web", "us", "DFW", None));
        assert_eq!(home("x", json!({})), texts("orphaned", "-", "unknown", None));
        let labels = json!({keys::WORKLOAD_NAME: "api", keys::INSTANCE_CITY_CODE: "LHR",
            keys::WORKLOAD_DEPLOYMENT_UID: "differs"});
        assert_eq!(home("other-1", labels), texts("api", "-", "LHR", Some(1)));
    }

    #[test]
    fn homes_are_in_the_order_of_the_spec() {
        let workloads = [workload(&json!([{"name": "us"}, {"name": "eu"}]))];
        let deployments = [
            deployment("web-eu-lhr", "u1", "eu", "LHR"),
            deployment("web-us-dfw", "u1", "us", "DFW"),
        ];
        let index = Index::new(&workloads, &deployments);
        let mut homes: Vec<_> = ["web-eu-lhr-0", "web-us-dfw-10", "web-us-dfw-9", "stray-0"]
            .map(|name| Home::of(&Object(json!({"metadata": {"name": name}})), &index))
            .into();
        homes.sort();
        let homes: Vec<_> = homes
            .iter()
            .map(|home| (&*home.placement, home.ordinal))
            .collect();
        assert_eq!(
            homes,
            [("-", Some(0)), ("us", Some(9)), ("us", Some(10)), ("eu", Some(0))]
        );
    }

    #[test]
    fn instances_are_grouped_by_deployment_in_the_order_of_ordinals() {
        let all = ["web-us-dfw-10", "web-us-dfw-9", "api-0", "x"];
        let all = all.map(|name| Object(json!({"metadata": {"name": name}})));
        let instances = Instances::from(Vec::from(all));
        let own: Vec<_> = instances.of("web-us-dfw").iter().map(Object::name).collect();
        assert_eq!(own, ["web-us-dfw-9", "web-us-dfw-10"]);
        assert!(instances.of("web").is_empty());
    }
}
