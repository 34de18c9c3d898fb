//! What the gateway can count of itself, for the metrics.

use super::{Gateway, Role, World};
use crate::{engine::key::Plane, metrics::Figures, plane::watch::Health};
use std::collections::BTreeMap;

impl Gateway {
    /// Counts; takes the index's lock for a moment.
    pub fn figures(&self) -> Figures {
        let depth = self.ctx.queue.depth();
        let mut figures = Figures {
            queue_ready: depth.ready,
            queue_added: self.ctx.queue.added(),
            keys_in_backoff: depth.in_backoff,
            garbage_brake: self.garbage.brake(),
            delayed_hub_writes: self.ctx.rate_limiter.lock().waiting(),
            interpreter_drift: self.interpreters.drift(),
            ..Figures::default()
        };
        let world = self.ctx.world.lock();
        for ((kind, verdict), count) in self.ctx.quarantine.counts() {
            let kind = world.role_of(&kind).map(|role| world.resource(role).kind);
            figures
                .quarantined
                .insert((kind.unwrap_or_default(), verdict), count);
        }
        figures.rejected_claims = world.refused_claims().count();
        figures.garbage_brake |= world.withholds();
        figures.orphans = self.garbage.orphans(&world);
        tables(&world, &mut figures);
        let missing = self.ctx.executor.missing_rights();
        let mut restarts: BTreeMap<(&'static str, Role, &'static str), u64> = BTreeMap::new();
        for (plane, engaged) in self.links.planes.lock().iter() {
            let ready = match plane {
                Plane::Hub => world.hub_ready(),
                Plane::Project(key) => world.project_ready(key),
                Plane::Cell => false,
            };
            let any = |test: fn(&Health) -> bool| engaged.watches.iter().any(|(_, health)| test(health));
            // ConfigMaps and Secrets may be hidden from the gateway without harm to the rest.
            let unauthorized = missing.iter().any(|right| right.plane == *plane)
                || engaged.watches.iter().any(|(role, health)| {
                    health.forbidden() && !matches!(role, Role::ConfigMaps | Role::Secrets)
                });
            let state = if unauthorized {
                "unauthorized"
            } else if any(|health| health.error().is_some() && !health.forbidden()) {
                "backoff"
            } else if ready {
                "connected"
            } else {
                "syncing"
            };
            *figures.planes.entry(state).or_default() += 1;
            let silence = engaged.watches.iter().map(|(_, health)| health.silence()).min();
            let oldest = figures.last_event_age.entry(state).or_default();
            *oldest = silence.unwrap_or_default().max(*oldest);
            for (role, health) in &engaged.watches {
                let malformed = health.malformed();
                if malformed > 0 {
                    let kind = world.resource(*role).kind;
                    *figures.quarantined.entry((kind, "undecodable")).or_default() += malformed;
                }
                for (cause, count) in health.restarts_by_cause() {
                    *restarts.entry((plane.kind(), *role, cause)).or_default() += count;
                }
            }
        }
        for ((plane, role, cause), count) in restarts {
            let key = (plane, world.plural(role).to_owned(), cause);
            *figures.watch_restarts.entry(key).or_default() += count;
        }
        figures
    }
}

/// The size of the index, and the deletions that it shows: a look at each project, and at no object that is not deleted.
fn tables(world: &World, figures: &mut Figures) {
    let mut counts: BTreeMap<(&'static str, Role), usize> = BTreeMap::new();
    let mut add = |plane, role, count| *counts.entry((plane, role)).or_default() += count;
    let hub = &world.hub;
    add("hub", Role::Namespaces, hub.namespaces.len());
    add("hub", Role::Clusters, hub.clusters.len());
    add("hub", Role::CitySets, hub.city_sets.len());
    add("hub", Role::CityPolicies, hub.city_policies.len());
    add("hub", Role::Bindings, hub.bindings.len());
    add("hub", Role::Interpreters, hub.interpreters.len());
    add("hub", Role::ConfigMaps, hub.config_maps.len());
    add("hub", Role::Secrets, hub.secrets.len());
    for (kind, table) in hub.copies.iter().enumerate() {
        add("hub", Role::Federated(kind), table.len());
    }
    let written_back = |kind: &usize| world.kinds.get(*kind).is_some_and(|k| k.write_back.is_some());
    for (kind, table) in hub
        .write_backs
        .iter()
        .enumerate()
        .filter(|(kind, _)| written_back(kind))
    {
        add("hub", Role::WrittenBack(kind), table.len());
    }
    for project in world.projects.values() {
        add("project", Role::Namespaces, project.namespaces.len());
        add("project", Role::Workloads, project.workloads.len());
        if world.checks.locations {
            add("project", Role::Locations, project.locations.len());
        }
        if world.checks.networks {
            add("project", Role::Networks, project.networks.len());
        }
        add("project", Role::ConfigMaps, project.config_maps.len());
        add("project", Role::Secrets, project.secrets.len());
        for (kind, table) in project.sources.iter().enumerate() {
            add("project", Role::Federated(kind), table.len());
        }
        for (kind, table) in project
            .projections
            .iter()
            .enumerate()
            .filter(|(kind, _)| written_back(kind))
        {
            add("project", Role::WrittenBack(kind), table.len());
        }
        figures.deleting.extend(project.index.deleting().cloned());
    }
    for ((plane, role), count) in counts {
        *figures
            .cached
            .entry((plane, world.plural(role).to_owned()))
            .or_default() += count;
    }
}
