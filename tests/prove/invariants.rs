//! What must hold at every moment, checked against each change of any plane in the order in which they were made.

use crate::rig::{GATEWAY, HUB};
use fedgate::api::{keys, names};
use fedgate_simulator::{Change, DIRECT};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Plane, kind, namespace, name.
type Place = (Arc<str>, String, String, String);

/// All objects at one moment.
#[derive(Debug, Default)]
struct World {
    objects: BTreeMap<Place, Arc<Value>>,
    /// Policies that someone else has deleted, by hub namespace and name: nobody can know of that before it is told.
    by_hand: BTreeSet<(String, String)>,
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"][key].as_str().unwrap_or_default()
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

fn held(object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|f| f.iter().any(|f| f == keys::FEDERATOR_FINALIZER))
}

impl World {
    fn get(&self, plane: &str, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        let wanted = (
            Arc::from(plane),
            kind.to_owned(),
            namespace.to_owned(),
            name.to_owned(),
        );
        self.objects.get(&wanted).map(|object| &**object)
    }

    fn all<'a>(&'a self, plane: &'a str, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        let wanted = move |(place, _): &(&Place, &Arc<Value>)| &*place.0 == plane && place.1 == kind;
        self.objects.iter().filter(wanted).map(|(_, object)| &**object)
    }

    fn take(&mut self, change: &Change) {
        let Some(object) = change.after.as_ref().or(change.before.as_ref()) else {
            return;
        };
        let place = (
            change.plane.clone(),
            object["kind"].as_str().unwrap_or_default().to_owned(),
            text(object, "namespace").to_owned(),
            text(object, "name").to_owned(),
        );
        if place.1 == "PropagationPolicy" {
            let ends = change
                .after
                .as_ref()
                .is_none_or(|a| !a["metadata"]["deletionTimestamp"].is_null());
            if ends && &*change.user == DIRECT {
                self.by_hand.insert((place.2.clone(), place.3.clone()));
            } else if !ends && change.before.is_none() {
                self.by_hand.remove(&(place.2.clone(), place.3.clone()));
            }
        }
        match &change.after {
            Some(after) => self.objects.insert(place, after.clone()),
            None => self.objects.remove(&place),
        };
    }

    /// The hub namespace of a project's namespace.
    fn hub_namespace(&self, project: &str, namespace: &str) -> Option<String> {
        let namespace = self.get(project, "Namespace", "", namespace)?;
        Some(format!("ns-{}", text(namespace, "uid")))
    }

    /// Whether a city is delivered to a hub namespace: by a policy of its own there, and by the namespace's set.
    fn serves(&self, hub: &str, city: &str) -> Result<(), String> {
        let policy = self.all(HUB, "PropagationPolicy").any(|policy| {
            text(policy, "namespace") == hub
                && policy["spec"]["resourceSelectors"][0]["labelSelector"]["matchLabels"][keys::CITY_CODE]
                    == city
        });
        if !policy && self.by_hand.iter().any(|(namespace, _)| namespace == hub) {
            return Ok(());
        }
        if !policy {
            return Err(format!("no policy of city {city} in {hub}"));
        }
        let namespace = self.get(HUB, "Namespace", "", hub);
        let set = namespace
            .and_then(|ns| label(ns, keys::CITIES))
            .unwrap_or_default();
        let policy = self.get(HUB, "ClusterPropagationPolicy", "", &names::city_set_policy(set));
        let path = "/spec/placement/clusterAffinity/labelSelector/matchExpressions/0/values";
        let cities = policy.and_then(|policy| policy.pointer(path)?.as_array());
        if cities.is_some_and(|cities| cities.iter().any(|one| one == city)) {
            Ok(())
        } else {
            Err(format!("city {city} is missing from the set {set:?} of {hub}"))
        }
    }
}

/// Follows the changes of all planes.
#[derive(Debug, Default)]
pub(crate) struct Watchman {
    world: World,
    seen: usize,
}

impl Watchman {
    /// What the next changes violate, a line each.
    pub(crate) fn violations(&mut self, changes: &[Change]) -> Vec<String> {
        let mut lines = Vec::new();
        for change in changes {
            self.seen += 1;
            self.world.take(change);
            if let Err(line) = check(&self.world, change) {
                let object = change.after.as_ref().or(change.before.as_ref());
                let name =
                    object.map(|o| format!("{} {}/{}", o["kind"], text(o, "namespace"), text(o, "name")));
                lines.push(format!(
                    "change {} by {} at {}: {name:?}: {line}",
                    self.seen, change.user, change.plane
                ));
            }
        }
        lines
    }
}

fn check(world: &World, change: &Change) -> Result<(), String> {
    if !change.user.starts_with(GATEWAY) {
        return Ok(());
    }
    let (before, after) = (change.before.as_deref(), change.after.as_deref());
    let Some(kind) = after.or(before).and_then(|o| o["kind"].as_str()) else {
        return Ok(());
    };
    match (&*change.plane == HUB, kind) {
        (false, "Instance") => projection(world, &change.plane, after),
        (false, "WorkloadDeployment") => released(world, &change.plane, before, after),
        (true, "WorkloadDeployment") => copy(world, before, after),
        (true, "PropagationPolicy" | "Namespace") => still_served(world, before.or(after)),
        _ => Ok(()),
    }
}

/// I1 and I4: a projection has the live deployment as its only owner, which is no controller, and its namespace is joined
/// to a hub namespace.
fn projection(world: &World, project: &str, after: Option<&Value>) -> Result<(), String> {
    let Some(after) = after.filter(|a| a["metadata"]["deletionTimestamp"].is_null()) else {
        return Ok(());
    };
    let namespace = text(after, "namespace");
    let name = label(after, keys::WORKLOAD_DEPLOYMENT_NAME).unwrap_or_default();
    let owner = world
        .get(project, "WorkloadDeployment", namespace, name)
        .ok_or_else(|| format!("I1: it is written although its deployment {name} is gone"))?;
    let owners = after["metadata"]["ownerReferences"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    match owners {
        [one] if one["uid"] == text(owner, "uid") && one["controller"] != true => {}
        _ => {
            return Err(format!(
                "I1: owners are {owners:?}, the deployment is {}",
                text(owner, "uid")
            ));
        }
    }
    let hub = world
        .hub_namespace(project, namespace)
        .ok_or("I4: its namespace is gone")?;
    let tenant = world
        .get(HUB, "Namespace", "", &hub)
        .ok_or_else(|| format!("I4: there is no {hub}"))?;
    if label(tenant, keys::UPSTREAM_CLUSTER) == Some(&format!("cluster-{project}")) {
        Ok(())
    } else {
        Err(format!(
            "I4: {hub} belongs to {:?}",
            label(tenant, keys::UPSTREAM_CLUSTER)
        ))
    }
}

/// I3: the finalizer goes only after the copy and its binding.
fn released(
    world: &World,
    project: &str,
    before: Option<&Value>,
    after: Option<&Value>,
) -> Result<(), String> {
    let Some(before) = before.filter(|b| held(b) && !after.is_some_and(held)) else {
        return Ok(());
    };
    let Some(hub) = annotation(before, keys::FEDERATION_NAMESPACE) else {
        return Ok(());
    };
    let name = text(before, "name");
    let copy = world
        .get(HUB, "WorkloadDeployment", hub, name)
        .filter(|copy| annotation(copy, keys::SOURCE_UID) == Some(text(before, "uid")));
    if copy.is_some() {
        return Err(format!("I3: {project} lets {name} go while its copy is there"));
    }
    let binding = world.get(HUB, "ResourceBinding", hub, &format!("{name}-workloaddeployment"));
    if binding.is_some_and(|b| annotation(b, keys::SOURCE_UID) == Some(text(before, "uid"))) {
        return Err(format!("I3: {project} lets {name} go while its binding is there"));
    }
    Ok(())
}

/// I5 and I6: a copy never goes back to an older generation, and its city is delivered before it is there.
fn copy(world: &World, before: Option<&Value>, after: Option<&Value>) -> Result<(), String> {
    let Some(after) = after.filter(|a| a["metadata"]["deletionTimestamp"].is_null()) else {
        return Ok(());
    };
    let generation =
        |o: &Value| annotation(o, keys::SOURCE_GENERATION).and_then(|text| text.parse::<i64>().ok());
    if let Some(before) = before
        && annotation(before, keys::SOURCE_UID) == annotation(after, keys::SOURCE_UID)
        && generation(before) > generation(after)
    {
        return Err(format!(
            "I5: from generation {:?} to {:?}",
            generation(before),
            generation(after)
        ));
    }
    let city = label(after, keys::CITY_CODE).unwrap_or_default();
    world
        .serves(text(after, "namespace"), city)
        .map_err(|why| format!("I6: {why}"))
}

/// I6 from the other side: what is taken away is used by nobody.
fn still_served(world: &World, object: Option<&Value>) -> Result<(), String> {
    let Some(object) = object else { return Ok(()) };
    let hub = match text(object, "namespace") {
        "" => text(object, "name"),
        namespace => namespace,
    };
    for copy in world
        .all(HUB, "WorkloadDeployment")
        .filter(|c| text(c, "namespace") == hub)
    {
        if copy["metadata"]["deletionTimestamp"].is_null() {
            let city = label(copy, keys::CITY_CODE).unwrap_or_default();
            world
                .serves(hub, city)
                .map_err(|why| format!("I6: {} is left behind: {why}", text(copy, "name")))?;
        }
    }
    Ok(())
}
