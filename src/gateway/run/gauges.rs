//! Gauges of the gateway for the metrics.

use super::{Gateway, GatewayIndex, TableId};
use fedgate_engine::{key::Plane, metrics::Gauges, plane::watch::WatchStatus};
use std::collections::BTreeMap;

impl Gateway {
    /// Collects the gauges; holds the index's lock briefly.
    pub fn figures(&self) -> Gauges {
        let depth = self.ctx.queue.depth();
        let mut figures = Gauges {
            queue_ready: depth.ready,
            queue_added: self.ctx.queue.added(),
            keys_in_backoff: depth.in_backoff,
            garbage_brake: self.garbage.brake(),
            delayed_hub_writes: self.ctx.rate_limiter.lock().waiting(),
            interpreter_drift: self.interpreters.drift(),
            ..Gauges::default()
        };
        let index = self.ctx.index.lock();
        for ((kind, verdict), count) in self.ctx.quarantine.counts() {
            let kind = index.role_of(&kind).map(|role| index.resource(role).kind);
            figures
                .quarantined
                .insert((kind.unwrap_or_default(), verdict), count);
        }
        figures.rejected_claims = index.refused_claims().count();
        figures.garbage_brake |= index.withholds();
        figures.orphans = self.garbage.orphans(&index);
        tables(&index, &mut figures);
        let missing = self.ctx.executor.missing_rights();
        let mut restarts: BTreeMap<(&'static str, TableId, &'static str), u64> = BTreeMap::new();
        for (plane, engaged) in self.links.planes.lock().iter() {
            let ready = match plane {
                Plane::Hub => index.hub_ready(),
                Plane::Project(key) => index.project_ready(key),
                Plane::Cell => false,
            };
            let any = |test: fn(&WatchStatus) -> bool| engaged.watches.iter().any(|(_, health)| test(health));
            // A project may deny the gateway its ConfigMaps and Secrets without harm to the rest.
            let unauthorized = missing.iter().any(|right| right.plane == *plane)
                || engaged.watches.iter().any(|(role, health)| {
                    health.forbidden() && !matches!(role, TableId::ConfigMaps | TableId::Secrets)
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
            let silence = engaged.watches.iter().map(|(_, health)| health.idle_time()).min();
            let oldest = figures.last_event_age.entry(state).or_default();
            *oldest = silence.unwrap_or_default().max(*oldest);
            for (role, health) in &engaged.watches {
                let malformed = health.malformed();
                if malformed > 0 {
                    let kind = index.resource(*role).kind;
                    *figures.quarantined.entry((kind, "undecodable")).or_default() += malformed;
                }
                for (cause, count) in health.restarts_by_cause() {
                    *restarts.entry((plane.kind(), *role, cause)).or_default() += count;
                }
            }
        }
        for ((plane, role, cause), count) in restarts {
            let key = (plane, index.plural(role).to_owned(), cause);
            *figures.watch_restarts.entry(key).or_default() += count;
        }
        figures
    }
}

/// The size of the index, and the objects being deleted: visits each project, and no object that is not being deleted.
fn tables(index: &GatewayIndex, figures: &mut Gauges) {
    let mut counts: BTreeMap<(&'static str, TableId), usize> = BTreeMap::new();
    let mut add = |plane, role, count| *counts.entry((plane, role)).or_default() += count;
    let hub = &index.hub;
    add("hub", TableId::Namespaces, hub.namespaces.len());
    add("hub", TableId::Clusters, hub.clusters.len());
    add("hub", TableId::CitySets, hub.city_sets.len());
    add("hub", TableId::CityPolicies, hub.city_policies.len());
    add("hub", TableId::Bindings, hub.bindings.len());
    add("hub", TableId::Interpreters, hub.interpreters.len());
    add("hub", TableId::ConfigMaps, hub.config_maps.len());
    add("hub", TableId::Secrets, hub.secrets.len());
    for (kind, table) in hub.copies.iter().enumerate() {
        add("hub", TableId::Federated(kind), table.len());
    }
    let written_back = |kind: &usize| index.kinds.get(*kind).is_some_and(|k| k.write_back.is_some());
    for (kind, table) in hub
        .write_backs
        .iter()
        .enumerate()
        .filter(|(kind, _)| written_back(kind))
    {
        add("hub", TableId::WrittenBack(kind), table.len());
    }
    for project in index.projects.values() {
        add("project", TableId::Namespaces, project.namespaces.len());
        add("project", TableId::Workloads, project.workloads.len());
        if index.checks.locations {
            add("project", TableId::Locations, project.locations.len());
        }
        if index.checks.networks {
            add("project", TableId::Networks, project.networks.len());
        }
        add("project", TableId::ConfigMaps, project.config_maps.len());
        add("project", TableId::Secrets, project.secrets.len());
        for (kind, table) in project.sources.iter().enumerate() {
            add("project", TableId::Federated(kind), table.len());
        }
        for (kind, table) in project
            .projections
            .iter()
            .enumerate()
            .filter(|(kind, _)| written_back(kind))
        {
            add("project", TableId::WrittenBack(kind), table.len());
        }
        figures.deleting.extend(project.secondary.deleting().cloned());
    }
    for ((plane, role), count) in counts {
        *figures
            .cached
            .entry((plane, index.plural(role).to_owned()))
            .or_default() += count;
    }
}
