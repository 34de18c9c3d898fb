//! Which deployment and which Workload an Instance belongs to (contract: cli.md §1). UIDs of deployments differ between
//! planes and are never compared.

use super::Object;
use fedgate_api::keys;
use std::collections::BTreeMap;

/// A city of a placement of a Workload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct City {
    /// Name of the placement.
    pub(crate) placement: String,
    /// The city code.
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

/// Joins Workloads and deployments of a namespace. Workloads come in the order of their names.
pub(crate) fn join(mut workloads: Vec<Object>, deployments: Vec<Object>) -> Vec<Joined> {
    workloads.sort_by(|a, b| a.name().cmp(b.name()));
    let mut of: BTreeMap<(String, City), Object> = BTreeMap::new();
    for deployment in deployments {
        let city = City {
            placement: deployment.text("/spec/placementName").to_owned(),
            city: deployment.text("/spec/cityCode").to_owned(),
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
            let codes = placement["cityCodes"].as_array().into_iter().flatten();
            for code in codes {
                let city = City {
                    placement: placement["name"].as_str().unwrap_or_default().to_owned(),
                    city: code.as_str().unwrap_or_default().to_owned(),
                };
                let deployment = of.remove(&(uid.clone(), city.clone()));
                cities.push((city, deployment));
            }
        }
        let left: Vec<_> = of.keys().filter(|(of, _)| *of == uid).cloned().collect();
        let leaving = left.iter().filter_map(|key| of.remove(key)).collect();
        Joined {
            workload,
            cities,
            leaving,
        }
    });
    joined.collect()
}

/// Where an Instance belongs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Home {
    /// Name of its Workload, or `orphaned`.
    pub(crate) workload: String,
    /// Name of its placement, or `-`.
    pub(crate) placement: String,
    /// Its city, or `unknown`.
    pub(crate) city: String,
    /// Its ordinal.
    pub(crate) ordinal: Option<u32>,
}

impl Home {
    /// The home of an Instance: by its labels, else by the deployment that its name names.
    pub(crate) fn of(instance: &Object, deployments: &[Object]) -> Self {
        let (deployment, ordinal) = match instance.name().rsplit_once('-') {
            Some((deployment, ordinal)) => (deployment, ordinal.parse().ok()),
            None => ("", None),
        };
        let labelled = instance.label(keys::WORKLOAD_DEPLOYMENT_NAME);
        let name = if labelled.is_empty() { deployment } else { labelled };
        let deployment = deployments.iter().find(|d| ordinal.is_some() && d.name() == name);
        let text = |label: &str, pointer: &str, absent: &str| {
            let value = match instance.label(label) {
                "" => deployment.map(|d| d.text(pointer)).unwrap_or_default(),
                value => value,
            };
            if value.is_empty() { absent } else { value }.to_owned()
        };
        Self {
            workload: text(keys::WORKLOAD_NAME, "/spec/workloadRef/name", "orphaned"),
            placement: text(keys::PLACEMENT_NAME, "/spec/placementName", "-"),
            city: text(keys::INSTANCE_CITY_CODE, "/spec/cityCode", "unknown"),
            ordinal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

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
    fn an_instance_without_labels_belongs_by_the_name_of_its_deployment() {
        let deployments = [deployment("web-us-dfw", "u1", "us", "DFW")];
        let home = |name: &str, labels: Value| {
            let instance = Object(json!({"metadata": {"name": name, "labels": labels}}));
            let home = Home::of(&instance, &deployments);
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
        assert_eq!(home("x", json!({})), texts("orphaned", "-", "unknown", None));
        let labels = json!({keys::WORKLOAD_NAME: "api", keys::INSTANCE_CITY_CODE: "LHR",
            keys::WORKLOAD_DEPLOYMENT_UID: "differs"});
        assert_eq!(home("other-1", labels), texts("api", "-", "LHR", Some(1)));
    }
}
