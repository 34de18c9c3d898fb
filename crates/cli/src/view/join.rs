//! Which deployment and which Workload an Instance belongs to (contract: cli.md §1). UIDs of deployments differ between
//! planes and are never compared.

use super::{Condition, Object};
use fedgate_api::{conditions::types::READY, keys};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A city or location of a placement of a Workload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct City {
    /// Name of the placement.
    pub(crate) placement: String,
    /// The city code, or the name of the location.
    pub(crate) city: String,
}

/// A Workload with its deployments.
#[derive(Debug)]
pub(crate) struct Joined {
    /// The Workload.
    pub(crate) workload: Object,
    /// The cities of its spec, in their order, each with its deployment if that exists.
    pub(crate) cities: Vec<(City, Option<Object>)>,
    /// Deployments of cities that the spec no longer names.
    pub(crate) leaving: Vec<Object>,
    /// Codes of cities that no Location serves, as far as that was looked up.
    pub(crate) unserved: BTreeSet<String>,
}

impl Joined {
    /// All deployments.
    pub(crate) fn deployments(&self) -> impl Iterator<Item = &Object> {
        let present = self
            .cities
            .iter()
            .filter_map(|(_, deployment)| deployment.as_ref());
        present.chain(&self.leaving)
    }
}

/// The place of a deployment: its location, else its city.
pub(crate) fn place_of(deployment: &Object) -> &str {
    match deployment.text("/spec/locationRef/name") {
        "" => deployment.text("/spec/cityCode"),
        location => location,
    }
}

/// The cities and the locations that a placement names.
pub(crate) fn places(placement: &Value) -> impl Iterator<Item = &str> {
    let cities = placement["cityCodes"].as_array().into_iter().flatten();
    let locations = placement["locations"].as_array().into_iter().flatten();
    let locations = locations.map(|location| &location["name"]);
    let all = cities.chain(locations);
    all.map(|place| place.as_str().unwrap_or_default())
}

/// Joins Workloads and deployments of a namespace. Workloads come in the order of their names.
pub(crate) fn join(mut workloads: Vec<Object>, deployments: Vec<Object>) -> Vec<Joined> {
    workloads.sort_by(|a, b| a.name().cmp(b.name()));
    let mut of: BTreeMap<(String, City), Object> = BTreeMap::new();
    for deployment in deployments {
        let city = City {
            placement: deployment.text("/spec/placementName").to_owned(),
            city: place_of(&deployment).to_owned(),
        };
        of.insert(
            (deployment.text("/spec/workloadRef/uid").to_owned(), city),
            deployment,
        );
    }
    let joined = workloads.into_iter().map(|workload| {
        let uid = workload.uid().to_owned();
        let mut cities = Vec::new();
        for placement in workload.list("/spec/placements") {
            let name = placement["name"].as_str().unwrap_or_default();
            for place in places(placement) {
                let city = City {
                    placement: name.to_owned(),
                    city: place.to_owned(),
                };
                let deployment = of.remove(&(uid.clone(), city.clone()));
                cities.push((city, deployment));
            }
            // The gateway alone knows which locations a selector means: those of the deployments that it keeps.
            if placement["locationSelector"].is_object() {
                let all = of
                    .keys()
                    .filter(|(of, city)| *of == uid && city.placement == name);
                let all: Vec<_> = all.cloned().collect();
                cities.extend(all.into_iter().map(|key| (key.1.clone(), of.remove(&key))));
            }
        }
        let left: Vec<_> = of.keys().filter(|(of, _)| *of == uid).cloned().collect();
        let leaving = left.iter().filter_map(|key| of.remove(key)).collect();
        Joined {
            workload,
            cities,
            leaving,
            unserved: BTreeSet::new(),
        }
    });
    joined.collect()
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

impl FromIterator<Object> for Instances {
    fn from_iter<I: IntoIterator<Item = Object>>(all: I) -> Self {
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

impl From<Vec<Object>> for Instances {
    fn from(all: Vec<Object>) -> Self {
        all.into_iter().collect()
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
        Self {
            deployments: deployments.iter().map(|d| (d.name(), d)).collect(),
            positions: positions.collect(),
        }
    }
}

/// The place that an Instance belongs to; the order is that of rows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Home {
    /// Name of its Workload, or `orphaned`.
    pub(crate) workload: String,
    /// Position of its placement in the Workload's spec; the last one if that is not known.
    pub(crate) position: usize,
    /// Name of its placement, or `-`.
    pub(crate) placement: String,
    /// Its city, or `unknown`.
    pub(crate) city: String,
    /// Its ordinal.
    pub(crate) ordinal: Option<u32>,
}

impl Home {
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
        let position = index.positions.get(&(&*workload, &*placement));
        Self {
            position: position.copied().unwrap_or(usize::MAX),
            workload,
            placement,
            city: match (text(keys::INSTANCE_CITY_CODE, "/spec/cityCode", ""), deployment) {
                (city, _) if !city.is_empty() => city,
                _ => text(keys::INSTANCE_LOCATION, "/spec/locationRef/name", "unknown"),
            },
            ordinal,
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
            .map(|(city, d)| (&*city.city, d.is_some()))
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
        let found = joined.cities.iter().map(|(city, d)| (&*city.city, d.is_some()));
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
