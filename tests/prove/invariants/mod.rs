//! What must hold at every moment, checked against each change of any plane in the order in which they were made.
//! `planted.rs` plants a violation of each rule and sees it caught.

mod world;

use crate::rig::{GATEWAY, HUB};
use fedgate_api::keys;
use fedgate_simulator::{Change, DIRECT, Entry, Verb};
use serde_json::Value;
use world::{World, annotation, city, is_ending, label, route, text};

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
            let delivered = self.world.delivered(change);
            let author = self.world.take(change);
            let mut found: Vec<String> = check(&self.world, change).err().into_iter().collect();
            found.extend(self.world.withdrawn(&delivered, &author));
            let object = change.after.as_ref().or(change.before.as_ref());
            let name = object.map(|o| format!("{} {}/{}", o["kind"], text(o, "namespace"), text(o, "name")));
            lines.extend(found.into_iter().map(|line| {
                format!(
                    "change {} by {author} at {}: {name:?}: {line}",
                    self.seen, change.plane
                )
            }));
        }
        lines
    }

    /// I7, of requests: the gateway asks a project for what was there, or in its own hub namespaces, at some time.
    pub(crate) fn crossings(&self, entries: &[Entry]) -> Vec<String> {
        let named = |e: &&Entry| {
            e.user.starts_with(GATEWAY)
                && &*e.plane != HUB
                && !e.name.is_empty()
                && !e.namespace.is_empty()
                // Names of what is created show in the change, and Events have names of their own.
                && e.verb != Verb::Create
                && &*e.resource != "events"
        };
        let strange = entries
            .iter()
            .filter(named)
            .filter(|e| !self.world.knows(&e.plane, &e.namespace, &e.name));
        strange
            .map(|e| format!("I7: {} never had what it is asked for: {e}", e.plane))
            .collect()
    }
}

/// I8: what the gateway has written although all is at rest; Leases and Events are no part of that.
pub(crate) fn restless(entries: &[Entry]) -> Vec<String> {
    let written = entries.iter().filter(|e| {
        e.user.starts_with(GATEWAY) && e.verb.writes() && !["leases", "events"].contains(&&*e.resource)
    });
    written.map(|e| format!("I8: written at rest: {e}")).collect()
}

fn check(world: &World, change: &Change) -> Result<(), String> {
    if !change.user.starts_with(GATEWAY) {
        return Ok(());
    }
    let (before, after) = (change.before.as_deref(), change.after.as_deref());
    let Some(kind) = after.or(before).and_then(|o| o["kind"].as_str()) else {
        return Ok(());
    };
    let stays = after.filter(|after| !is_ending(after));
    match (&*change.plane == HUB, kind, stays) {
        (false, "Instance", Some(after)) => {
            projection(world, &change.plane, after)?;
            own_write_back(world, &change.plane, after)
        }
        (false, "WorkloadDeployment", _) => released(world, &change.plane, before, after),
        (true, "WorkloadDeployment", Some(after)) => {
            own_source(world, after)?;
            copy(world, before, after)
        }
        (true, "ConfigMap" | "Secret", Some(after)) => own_companion(world, kind, after),
        _ => Ok(()),
    }
}

/// I1 and I4: a projection has the live deployment as its only owner, which is no controller, and its namespace is joined
/// to a hub namespace.
fn projection(world: &World, project: &str, after: &Value) -> Result<(), String> {
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

/// I7: a project gets what a cell wrote into one of its own hub namespaces.
fn own_write_back(world: &World, project: &str, after: &Value) -> Result<(), String> {
    let (namespace, name) = (text(after, "namespace"), text(after, "name"));
    let hub = world.hub_namespace(project, namespace).unwrap_or_default();
    if world.had(HUB, "Instance", &hub, name) {
        Ok(())
    } else {
        Err(format!("I7: no cell ever wrote {name} into {hub:?}"))
    }
}

/// I7: a hub namespace gets what was in the project namespace that it is named after.
fn own_source(world: &World, after: &Value) -> Result<(), String> {
    let hub = text(after, "namespace");
    let source = annotation(after, keys::SOURCE_UID).unwrap_or_default();
    match world.origin(source) {
        Some(of) if of == hub => Ok(()),
        of => Err(format!(
            "I7: it was made from {source:?}, which belongs to {of:?}"
        )),
    }
}

/// I7, of a companion; of one that its own project has lost the last state stays.
fn own_companion(world: &World, kind: &str, after: &Value) -> Result<(), String> {
    let (hub, name) = (text(after, "namespace"), text(after, "name"));
    if label(after, keys::REFERENCED_DATA).is_none() || world.had_source(hub, kind, name) {
        Ok(())
    } else {
        Err(format!("I7: the project of {hub} never had {kind} {name}"))
    }
}

/// I3: the finalizer goes only after the copy and its binding, whatever their names are.
fn released(
    world: &World,
    project: &str,
    before: Option<&Value>,
    after: Option<&Value>,
) -> Result<(), String> {
    let Some(before) = before.filter(|b| world::held(b) && !after.is_some_and(world::held)) else {
        return Ok(());
    };
    let (name, uid) = (text(before, "name"), text(before, "uid"));
    if let Some(copy) = world.copies_of(uid).next() {
        let place = text(copy, "namespace");
        return Err(format!(
            "I3: {project} lets {name} go while its copy is in {place}"
        ));
    }
    match world.bindings_of(uid).next() {
        None => Ok(()),
        Some(binding) => Err(format!(
            "I3: {project} lets {name} go while its binding {} is there",
            text(binding, "name")
        )),
    }
}

/// I5 and I6: a copy never goes back to an older generation, and its city is delivered before it is there.
fn copy(world: &World, before: Option<&Value>, after: &Value) -> Result<(), String> {
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
    let route = route(&after["metadata"]["labels"]).unwrap_or_default();
    let city = city(after).unwrap_or_default();
    match world.missing(text(after, "namespace"), &route, city).first() {
        None => Ok(()),
        Some(missing) => Err(format!(
            "I6: {route:?} in city {city} is not delivered: there is no {missing:?}"
        )),
    }
}
