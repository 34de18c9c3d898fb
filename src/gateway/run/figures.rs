//! What the gateway can count of itself, for the metrics.

use super::{Gateway, Role};
use crate::{engine::key::Plane, metrics::Figures};

impl Gateway {
    /// Counts; takes the index's lock for a moment.
    pub fn figures(&self) -> Figures {
        let depth = self.ctx.queue.depth();
        let mut figures = Figures {
            queue_ready: depth.ready,
            keys_in_backoff: depth.in_backoff,
            garbage_brake: self.garbage.brake(),
            interpreter_drift: self.interpreters.drift(),
            ..Figures::default()
        };
        let world = self.ctx.world.lock();
        // Write-backs are the only objects that a verdict is kept of.
        let kind = world
            .kinds
            .iter()
            .find_map(|k| Some(k.write_back.as_ref()?.resource.kind.clone()));
        let kind = kind.unwrap_or_default();
        for (reason, count) in self.projector.quarantined() {
            figures.quarantined.insert((kind.clone(), reason), count);
        }
        for (plane, engaged) in self.links.planes.lock().iter() {
            let ready = match plane {
                Plane::Hub => world.hub_ready(),
                Plane::Project(key) => world.project_ready(key),
            };
            let any =
                |test: fn(&super::Health) -> bool| engaged.watches.iter().any(|(_, health)| test(health));
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
        }
        figures
    }
}
