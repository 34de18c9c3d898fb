//! What the gateway can count of itself, for the metrics.

use super::{Gateway, Role, World};
use crate::{
    engine::key::Plane,
    metrics::Figures,
    plane::{table::Table, watch::Health},
};

impl Gateway {
    /// Counts; takes the index's lock for a moment.
    pub fn figures(&self) -> Figures {
        let depth = self.ctx.queue.depth();
        let mut figures = Figures {
            queue_ready: depth.ready,
            queue_added: self.ctx.queue.added(),
            keys_in_backoff: depth.in_backoff,
            garbage_brake: self.garbage.brake(),
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
        figures.orphans = self.garbage.orphans(&world);
        tables(&world, &mut figures);
        for (plane, engaged) in self.links.planes.lock().iter() {
            let ready = match plane {
                Plane::Hub => world.hub_ready(),
                Plane::Project(key) => world.project_ready(key),
            };
            let any = |test: fn(&Health) -> bool| engaged.watches.iter().any(|(_, health)| test(health));
            // ConfigMaps and Secrets may be hidden from the gateway without harm to the rest.
            let unauthorized = engaged.watches.iter().any(|(role, health)| {
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
                for (cause, count) in health.restarts_by_cause() {
                    let key = (plane.kind(), world.resource(*role).plural, cause);
                    *figures.watch_restarts.entry(key).or_default() += count;
                }
            }
        }
        figures
    }
}

/// The size of the index, and the deletions that it shows.
fn tables(world: &World, figures: &mut Figures) {
    let mut add = |plane: &'static str, role: Role, count: usize| {
        *figures
            .cached
            .entry((plane, world.resource(role).plural))
            .or_default() += count;
    };
    let hub = &world.hub;
    add("hub", Role::Namespaces, hub.namespaces.len());
    add("hub", Role::CitySets, hub.city_sets.len());
    add("hub", Role::CityPolicies, hub.city_policies.len());
    add("hub", Role::Bindings, hub.bindings.len());
    add("hub", Role::Interpreters, hub.interpreters.len());
    add("hub", Role::ConfigMaps, hub.config_maps.len());
    add("hub", Role::Secrets, hub.secrets.len());
    for (kind, table) in hub.copies.iter().enumerate() {
        add("hub", Role::Federated(kind), table.len());
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
    }
    for (kind, federated) in world.kinds.iter().enumerate() {
        let Some(back) = &federated.write_back else {
            continue;
        };
        let count = hub.write_backs.get(kind).map_or(0, Table::len);
        *figures
            .cached
            .entry(("hub", back.resource.plural.clone()))
            .or_default() += count;
        let count = world
            .projects
            .values()
            .filter_map(|p| p.projections.get(kind))
            .map(Table::len)
            .sum::<usize>();
        *figures
            .cached
            .entry(("project", back.resource.plural.clone()))
            .or_default() += count;
    }
    let sources = world
        .projects
        .values()
        .flat_map(|p| &p.sources)
        .flat_map(crate::plane::table::Table::iter);
    figures.deleting.extend(
        sources
            .filter(|(_, row)| row.deleting)
            .map(|(_, row)| row.uid.clone()),
    );
}
