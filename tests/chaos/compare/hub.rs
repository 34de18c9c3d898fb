//! The hub: one copy for each deployment, and what copies need.

use super::{Findings, at, has_data, none, stays, text};
use crate::{
    snapshot::PROJECTS,
    support::{
        annotation, has_finalizer, hub_namespace,
        kinds::{BINDING, CLUSTER_POLICY, CONFIG_MAP, DEPLOYMENT, INSTANCE, Kind, NAMESPACE, POLICY, SECRET},
        label, uid,
    },
    wanted::SOURCES,
};
use fedgate_api::{keys, names};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The hub's plane.
pub(super) const HUB: &str = "hub";
/// Parts of the keys that tenants set and that must not reach the hub.
const OWN_KEYS: [&str; 2] = ["evil", "app.example.com"];

/// The label value that stands for a project: its key is the name of its kubeconfig's file.
fn project_label(project: &str) -> &'static str {
    if project == "alpha" {
        "cluster-single"
    } else {
        "cluster-beta"
    }
}

impl Findings<'_> {
    pub(super) fn copies(&mut self) {
        let all = self.all;
        let origins = all.origins();
        for project in PROJECTS {
            for (at, deployment) in all.all(project, &DEPLOYMENT) {
                let Some(namespace) = all.get(project, &NAMESPACE, "", &at.2) else {
                    continue;
                };
                let hub_ns = hub_namespace(namespace);
                self.finalizers(at, deployment, &hub_ns);
                if let Some(copy) = self.present(all, HUB, &DEPLOYMENT, &hub_ns, &at.3) {
                    self.copy(&at.2, deployment, &hub_ns, copy);
                }
            }
        }
        for (at, copy) in all.all(HUB, &DEPLOYMENT) {
            let origin = origins.get(&at.2);
            let source = origin.and_then(|(project, ns)| all.get(project, &DEPLOYMENT, ns, &at.3));
            if source.is_none() {
                self.surplus(at, "no project has its origin", copy);
            }
        }
    }

    fn finalizers(&mut self, at: &super::At, deployment: &Value, hub_ns: &str) {
        let federator = has_finalizer(deployment, keys::FEDERATOR_FINALIZER);
        self.holds(at, "has the federator's finalizer", federator, deployment);
        let (data, held) = (
            has_data(deployment),
            has_finalizer(deployment, keys::REFERENCED_DATA_FINALIZER),
        );
        let expected = format!("the finalizer for referenced data: {data}");
        self.holds(at, &expected, data == held, deployment);
        let namespace = annotation(deployment, keys::FEDERATION_NAMESPACE);
        self.same(at, "federation-namespace", &json!(hub_ns), &json!(namespace));
    }

    fn copy(&mut self, ns: &str, deployment: &Value, hub_ns: &str, copy: &Value) {
        let at = at(HUB, &DEPLOYMENT, hub_ns, text(deployment, "/metadata/name"));
        self.same(&at, "spec", &deployment["spec"], &copy["spec"]);
        let generation = deployment["metadata"]["generation"].as_i64().unwrap_or_default();
        for (what, expected, found) in [
            (
                "city label",
                text(deployment, "/spec/cityCode"),
                label(copy, keys::CITY_CODE),
            ),
            ("upstream namespace", ns, label(copy, keys::UPSTREAM_NAMESPACE)),
            ("source-uid", uid(deployment), annotation(copy, keys::SOURCE_UID)),
            (
                "source-generation",
                &generation.to_string(),
                annotation(copy, keys::SOURCE_GENERATION),
            ),
        ] {
            self.same(&at, what, &json!(expected), &json!(found));
        }
        for key in [keys::EXPECTED_REFERENCED_DATA, keys::REFERENCED_DATA_ERROR] {
            let (expected, found) = (annotation(deployment, key), annotation(copy, key));
            self.same(&at, key, &json!(expected), &json!(found));
        }
        let bare = none(copy, "finalizers") && none(copy, "ownerReferences");
        self.holds(&at, "has neither finalizer nor owner", bare, copy);
        let metadata = ["labels", "annotations"].map(|map| copy["metadata"][map].as_object());
        let tenants = metadata
            .into_iter()
            .flatten()
            .flat_map(serde_json::Map::keys)
            .any(|key| OWN_KEYS.iter().any(|own| key.contains(own)));
        self.holds(&at, "carries no key of the tenant's", !tenants, copy);
    }

    /// Cities of each hub namespace: those of its copies, and those of its write-backs as well.
    fn cities(&self, kinds: &[(&Kind, &str)]) -> BTreeMap<String, BTreeSet<String>> {
        let mut cities: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (kind, key) in kinds {
            for (at, object) in self.all.all(HUB, kind) {
                let city = label(object, key).map(str::to_owned);
                cities.entry(at.2.clone()).or_default().extend(city);
            }
        }
        cities
    }

    pub(super) fn namespaces(&mut self) {
        let all = self.all;
        let origins = all.origins();
        let cities = self.cities(&[
            (&DEPLOYMENT, keys::CITY_CODE),
            (&INSTANCE, keys::INSTANCE_CITY_CODE),
        ]);
        for (at, namespace) in all.all(HUB, &NAMESPACE) {
            if label(namespace, keys::PROJECT_UID).is_none() {
                continue;
            }
            let Some((project, ns)) = origins.get(&at.3) else {
                self.surplus(at, "its project namespace is gone", namespace);
                continue;
            };
            let of_project = label(namespace, keys::UPSTREAM_CLUSTER) == Some(project_label(project));
            let of_namespace = label(namespace, keys::UPSTREAM_NAMESPACE) == Some(ns.as_str());
            let identity = of_project && of_namespace && stays(namespace);
            self.holds(
                at,
                &format!("stays and is that of {project}/{ns}"),
                identity,
                namespace,
            );
            let codes = cities.get(&at.3).into_iter().flatten();
            let codes = codes
                .filter_map(|code| names::CityCode::parse(code).ok())
                .collect();
            if let Some(set) = names::city_set(&codes) {
                self.same(
                    at,
                    "city set",
                    &json!(set),
                    &json!(label(namespace, keys::CITIES)),
                );
            }
        }
        for hub_ns in cities.keys() {
            self.present(all, HUB, &NAMESPACE, "", hub_ns);
        }
    }

    pub(super) fn policies(&mut self) {
        let all = self.all;
        let cities = self.cities(&[(&DEPLOYMENT, keys::CITY_CODE)]);
        let wanted: BTreeSet<(String, String)> = cities
            .iter()
            .flat_map(|(ns, cities)| {
                cities
                    .iter()
                    .map(|city| (ns.clone(), format!("city-{}", city.to_lowercase())))
            })
            .collect();
        for (ns, name) in &wanted {
            self.present(all, HUB, &POLICY, ns, name);
        }
        for (at, policy) in all.all(HUB, &POLICY) {
            if !wanted.contains(&(at.2.clone(), at.3.clone())) {
                self.surplus(at, "no copy has its city", policy);
            }
        }
        let namespaces = all.all(HUB, &NAMESPACE);
        let sets: BTreeSet<String> = namespaces
            .filter_map(|(_, namespace)| label(namespace, keys::CITIES))
            .map(names::city_set_policy)
            .collect();
        for name in &sets {
            self.present(all, HUB, &CLUSTER_POLICY, "", name);
        }
        for (at, policy) in all.all(HUB, &CLUSTER_POLICY) {
            if at.3.starts_with("cities-") && !sets.contains(&at.3) {
                self.surplus(at, "no namespace has its city set", policy);
            }
        }
    }

    pub(super) fn companions(&mut self) {
        let all = self.all;
        let origins = all.origins();
        for (hub_ns, (project, ns)) in &origins {
            let users: BTreeSet<String> = all
                .within(project, &DEPLOYMENT, ns)
                .filter(|(_, deployment)| has_data(deployment))
                .map(|(at, _)| format!("{ns}/{}", at.3))
                .collect();
            for (kind, name) in SOURCES {
                let kind = if kind == "Secret" { &SECRET } else { &CONFIG_MAP };
                let Some(source) = all.get(project, kind, ns, name).filter(|_| !users.is_empty()) else {
                    continue;
                };
                let Some(companion) = self.present(all, HUB, kind, hub_ns, name) else {
                    continue;
                };
                let at = at(HUB, kind, hub_ns, name);
                self.same(&at, "data", &source["data"], &companion["data"]);
                let named = annotation(companion, keys::REFERENCED_BY).unwrap_or_default();
                let named: BTreeSet<String> = serde_json::from_str(named).unwrap_or_default();
                if named != users {
                    self.add(&at, format!("referenced by {users:?}"), format!("{named:?}"));
                }
            }
            for kind in [&CONFIG_MAP, &SECRET] {
                for (at, object) in all.within(HUB, kind, hub_ns) {
                    if users.is_empty() && label(object, keys::REFERENCED_DATA).is_some() {
                        self.surplus(at, "nobody references it", object);
                    }
                }
            }
        }
    }

    /// No binding outlives what it binds.
    pub(super) fn bindings(&mut self) {
        let all = self.all;
        for (at, binding) in all.all(HUB, &BINDING) {
            let owner = &binding["metadata"]["ownerReferences"][0]["uid"];
            let bound = [&DEPLOYMENT, &CONFIG_MAP, &SECRET].iter().any(|kind| {
                let mut here = all.within(HUB, kind, &at.2);
                here.any(|(_, object)| object["metadata"]["uid"] == *owner)
            });
            if !bound {
                self.surplus(at, "what it binds is gone", binding);
            }
        }
    }
}
