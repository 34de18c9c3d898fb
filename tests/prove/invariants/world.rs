//! All objects at one moment, and what must be known of those before.

use super::{DIRECT, GATEWAY, HUB};
use fedgate_api::{keys, names};
use fedgate_simulator::{CONTROLLERS, Change};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Plane, kind.
type Table = (Arc<str>, String);
/// Namespace, name.
type Name = (String, String);

/// The means by which a city is delivered to a hub namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Means {
    /// A policy of its own in the namespace: a copy needs it.
    Policy,
    /// The namespace's set of cities: a copy needs it, and so does a write-back.
    Set,
}

/// A hub namespace, a city (of a policy: a route), and a means by which that is delivered there.
pub(super) type Delivery = (String, String, Means);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct World {
    objects: BTreeMap<Table, BTreeMap<Name, Arc<Value>>>,
    /// The names that there ever were.
    names: BTreeMap<Table, BTreeSet<Name>>,
    /// The hub namespace that each deployment of a project belongs to, by UID.
    origins: BTreeMap<String, String>,
    /// The deployment that each copy was made from, by UIDs: its binding may outlive a copy.
    copies: BTreeMap<String, String>,
    /// The project and the namespace behind each hub namespace.
    tenants: BTreeMap<String, (Arc<str>, String)>,
    /// Who asked for the end of what is ending.
    ended_by: BTreeMap<(Table, Name), Arc<str>>,
    /// What someone else has taken away, and what is not there again: nobody can know of that before it is told.
    by_hand: BTreeSet<Delivery>,
}

pub(super) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"][key].as_str().unwrap_or_default()
}

pub(super) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

pub(super) fn held(object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|f| f.iter().any(|f| f == keys::FEDERATOR_FINALIZER))
}

pub(super) fn is_ending(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn place(change: &Change, object: &Value) -> (Table, Name) {
    let kind = object["kind"].as_str().unwrap_or_default();
    (
        (change.plane.clone(), kind.to_owned()),
        (
            text(object, "namespace").to_owned(),
            text(object, "name").to_owned(),
        ),
    )
}

/// The one label of a place, by which a policy selects a copy; of two that would match two policies none counts.
pub(super) fn route(labels: &Value) -> Option<String> {
    match [keys::CITY_CODE, keys::LOCATION].map(|key| labels[key].as_str()) {
        [Some(city), None] => Some(city.to_owned()),
        [None, Some(location)] => Some(format!("{}={location}", keys::LOCATION)),
        [None, None] | [Some(_), Some(_)] => None,
    }
}

/// The city of a copy: its label, or of one that goes by a location what its spec says.
pub(super) fn city(copy: &Value) -> Option<&str> {
    label(copy, keys::CITY_CODE).or_else(|| copy["spec"]["cityCode"].as_str())
}

/// The delivery that a policy of a city or location makes.
fn policy_of(object: &Value) -> Option<Delivery> {
    let labels = &object["spec"]["resourceSelectors"][0]["labelSelector"]["matchLabels"];
    Some((
        text(object, "namespace").to_owned(),
        route(labels)?,
        Means::Policy,
    ))
}

impl World {
    pub(super) fn get(&self, plane: &str, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        let table = self.objects.get(&(Arc::from(plane), kind.to_owned()))?;
        let object = table.get(&(namespace.to_owned(), name.to_owned()))?;
        Some(object)
    }

    fn all(&self, plane: &str, kind: &str) -> impl Iterator<Item = &Value> {
        let table = self.objects.get(&(Arc::from(plane), kind.to_owned()));
        table.into_iter().flat_map(BTreeMap::values).map(|o| &**o)
    }

    /// What stays in a hub namespace.
    fn within(&self, kind: &str, hub: &str) -> impl Iterator<Item = &Value> {
        self.all(HUB, kind)
            .filter(move |o| text(o, "namespace") == hub && !is_ending(o))
    }

    /// Takes a change in. Answers who asked for it: what controllers remove was marked by someone before.
    pub(super) fn take(&mut self, change: &Change) -> Arc<str> {
        let Some(object) = change.after.as_ref().or(change.before.as_ref()) else {
            return change.user.clone();
        };
        let (table, name) = place(change, object);
        self.learn(&table, &name, object);
        let author = self.author(change, &table, &name);
        let ends = change.after.as_deref().is_none_or(is_ending);
        if change.after.is_none() {
            self.ended_by.remove(&(table.clone(), name.clone()));
        } else if ends && !change.before.as_deref().is_some_and(is_ending) {
            self.ended_by
                .insert((table.clone(), name.clone()), author.clone());
        }
        let objects = self.objects.entry(table).or_default();
        match &change.after {
            Some(after) => objects.insert(name, after.clone()),
            None => objects.remove(&name),
        };
        author
    }

    fn author(&self, change: &Change, table: &Table, name: &Name) -> Arc<str> {
        if &*change.user != CONTROLLERS {
            return change.user.clone();
        }
        let namespaces = (change.plane.clone(), "Namespace".to_owned());
        let around = (namespaces, (String::new(), name.0.clone()));
        let asked = self.ended_by.get(&(table.clone(), name.clone()));
        let asked = asked.or_else(|| self.ended_by.get(&around));
        asked.unwrap_or(&change.user).clone()
    }

    fn learn(&mut self, table: &Table, name: &Name, object: &Value) {
        let names = self.names.entry(table.clone()).or_default();
        names.insert(name.clone());
        let (hub, kind) = (&*table.0 == HUB, &*table.1);
        match kind {
            "Namespace" if !hub => {
                let tenant = (table.0.clone(), name.1.clone());
                self.tenants.insert(format!("ns-{}", text(object, "uid")), tenant);
            }
            "WorkloadDeployment" if !hub => {
                if let Some(of) = self.hub_namespace(&table.0, &name.0) {
                    self.origins.insert(text(object, "uid").to_owned(), of);
                }
            }
            "WorkloadDeployment" => {
                if let Some(source) = annotation(object, keys::SOURCE_UID) {
                    self.copies
                        .insert(text(object, "uid").to_owned(), source.to_owned());
                }
            }
            _ => {}
        }
    }

    /// The hub namespace of a project's namespace.
    pub(super) fn hub_namespace(&self, project: &str, namespace: &str) -> Option<String> {
        let namespace = self.get(project, "Namespace", "", namespace)?;
        Some(format!("ns-{}", text(namespace, "uid")))
    }

    /// Whether there ever was such an object.
    pub(super) fn had(&self, plane: &str, kind: &str, namespace: &str, name: &str) -> bool {
        let names = self.names.get(&(Arc::from(plane), kind.to_owned()));
        names.is_some_and(|names| names.contains(&(namespace.to_owned(), name.to_owned())))
    }

    /// Whether the namespace behind a hub namespace ever had such an object.
    pub(super) fn had_source(&self, hub: &str, kind: &str, name: &str) -> bool {
        let tenant = self.tenants.get(hub);
        tenant.is_some_and(|(project, namespace)| self.had(project, kind, namespace, name))
    }

    /// The hub namespace of the deployment with this UID, which may be gone.
    pub(super) fn origin(&self, uid: &str) -> Option<&str> {
        self.origins.get(uid).map(String::as_str)
    }

    /// Whether a project, or one of the hub namespaces that were its own, ever had an object of this name.
    pub(super) fn knows(&self, project: &str, namespace: &str, name: &str) -> bool {
        let own = (namespace.to_owned(), name.to_owned());
        let mut own_hubs = self
            .tenants
            .iter()
            .filter(|(_, (of, within))| &**of == project && within == namespace)
            .map(|(hub, _)| (hub.clone(), name.to_owned()));
        let has = |hub: bool, wanted: &Name| {
            let plane = if hub { HUB } else { project };
            let mut tables = self.names.iter().filter(|((of, _), _)| &**of == plane);
            tables.any(|(_, names)| names.contains(wanted))
        };
        has(false, &own) || own_hubs.any(|wanted| has(true, &wanted))
    }

    /// The copies of the deployment with this UID.
    pub(super) fn copies_of(&self, uid: &str) -> impl Iterator<Item = &Value> {
        self.all(HUB, "WorkloadDeployment")
            .filter(move |copy| annotation(copy, keys::SOURCE_UID) == Some(uid))
    }

    /// The bindings of the copies that there ever were of the deployment with this UID.
    pub(super) fn bindings_of(&self, uid: &str) -> impl Iterator<Item = &Value> {
        self.all(HUB, "ResourceBinding").filter(move |binding| {
            let owners = binding["metadata"]["ownerReferences"].as_array();
            owners.into_iter().flatten().any(|owner| {
                let copy = owner["uid"].as_str().unwrap_or_default();
                self.copies.get(copy).is_some_and(|source| source == uid)
            })
        })
    }

    fn delivers(&self, (hub, city, means): &Delivery) -> bool {
        match means {
            Means::Policy => self
                .within("PropagationPolicy", hub)
                .filter_map(policy_of)
                .any(|(_, of, _)| of == *city),
            Means::Set => {
                let namespace = self
                    .get(HUB, "Namespace", "", hub)
                    .filter(|namespace| !is_ending(namespace));
                let set = namespace.and_then(|namespace| label(namespace, keys::CITIES));
                let name = names::city_set_policy(set.unwrap_or_default());
                let policy = self
                    .get(HUB, "ClusterPropagationPolicy", "", &name)
                    .filter(|policy| !is_ending(policy));
                let path = "/spec/placement/clusterAffinity/labelSelector/matchExpressions/0/values";
                let cities = policy.and_then(|policy| policy.pointer(path)?.as_array());
                cities.is_some_and(|cities| cities.iter().any(|one| one == city.as_str()))
            }
        }
    }

    /// The means by which a copy should be delivered and is not, but for what someone else has taken away.
    pub(super) fn missing(&self, hub: &str, route: &str, city: &str) -> Vec<Means> {
        [(route, Means::Policy), (city, Means::Set)]
            .map(|(place, means)| (hub.to_owned(), place.to_owned(), means))
            .into_iter()
            .filter(|of| !self.delivers(of) && !self.by_hand.contains(of))
            .map(|(.., means)| means)
            .collect()
    }

    /// What is in use in a hub namespace: of copies, and of write-backs.
    fn in_use(&self, hub: &str) -> BTreeSet<Delivery> {
        let copies = self
            .within("WorkloadDeployment", hub)
            .filter_map(|copy| Some((route(&copy["metadata"]["labels"])?, city(copy)?)));
        let written_back = self
            .within("Instance", hub)
            .filter_map(|instance| label(instance, keys::INSTANCE_CITY_CODE));
        let of = |city: &str, means| (hub.to_owned(), city.to_owned(), means);
        copies
            .flat_map(|(route, city)| [of(&route, Means::Policy), of(city, Means::Set)])
            .chain(written_back.map(|city| of(city, Means::Set)))
            .collect()
    }

    /// What is delivered, where a change that comes may withdraw it.
    pub(super) fn delivered(&self, change: &Change) -> Vec<Delivery> {
        let Some(object) = change.before.as_deref().filter(|_| &*change.plane == HUB) else {
            return Vec::new();
        };
        let hubs: Vec<&str> = match object["kind"].as_str().unwrap_or_default() {
            "PropagationPolicy" => vec![text(object, "namespace")],
            "Namespace" => vec![text(object, "name")],
            "ClusterPropagationPolicy" => self.all(HUB, "Namespace").map(|ns| text(ns, "name")).collect(),
            _ => return Vec::new(),
        };
        let mut deliveries: BTreeSet<Delivery> = hubs.into_iter().flat_map(|hub| self.in_use(hub)).collect();
        deliveries.extend(policy_of(object));
        deliveries
            .into_iter()
            .filter(|delivery| self.delivers(delivery))
            .collect()
    }

    /// I6 from the other side: what is taken away is used by nobody. Asked once the change is taken in.
    pub(super) fn withdrawn(&mut self, delivered: &[Delivery], author: &str) -> Vec<String> {
        let lost: Vec<&Delivery> = delivered.iter().filter(|d| !self.delivers(d)).collect();
        let mut lines = Vec::new();
        for delivery in lost {
            let (hub, city, means) = delivery;
            if author.starts_with(GATEWAY) && self.in_use(hub).contains(delivery) {
                lines.push(format!(
                    "I6: {means:?} of city {city} is taken from {hub}, which uses it"
                ));
            } else if author == DIRECT {
                self.by_hand.insert(delivery.clone());
            }
        }
        let returned: Vec<Delivery> = self
            .by_hand
            .iter()
            .filter(|delivery| self.delivers(delivery))
            .cloned()
            .collect();
        for delivery in &returned {
            self.by_hand.remove(delivery);
        }
        lines
    }
}
