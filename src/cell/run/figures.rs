//! What a cell can count of itself, for the metrics.

use super::{Cell, Role};
use crate::metrics::Figures;

impl Cell {
    /// Counts; takes the index's lock for a moment.
    pub fn figures(&self) -> Figures {
        let depth = self.ctx.queue.depth();
        let mut figures = Figures {
            queue_ready: depth.ready,
            queue_added: self.ctx.queue.added(),
            keys_in_backoff: depth.in_backoff,
            ..Figures::default()
        };
        for ((kind, verdict), count) in self.ctx.quarantine.counts() {
            figures
                .quarantined
                .insert((kind.as_str().to_owned(), verdict), count);
        }
        let missing = self.ctx.executor.missing_rights();
        let world = self.ctx.world.lock();
        for (plane, engaged) in self.links.planes.lock().iter() {
            let healths = engaged.watches.iter().map(|(_, health)| health);
            let unauthorized = missing.iter().any(|right| right.plane == *plane)
                || healths.clone().any(|health| health.forbidden());
            let state = if unauthorized {
                "unauthorized"
            } else if healths.clone().any(|health| health.error().is_some()) {
                "backoff"
            } else if healths.clone().all(|health| health.synced()) {
                "connected"
            } else {
                "syncing"
            };
            *figures.planes.entry(state).or_default() += 1;
            let silence = healths.clone().map(|health| health.silence()).min();
            let oldest = figures.last_event_age.entry(state).or_default();
            *oldest = silence.unwrap_or_default().max(*oldest);
            for (role, health) in &engaged.watches {
                let plural = role.resource().plural;
                for (cause, count) in health.restarts_by_cause() {
                    let key = (plane.kind(), plural.clone(), cause);
                    *figures.watch_restarts.entry(key).or_default() += count;
                }
                if *role != Role::Claims {
                    figures.cached.insert((plane.kind(), plural), world.len(*role));
                }
            }
        }
        let claims = Role::Claims;
        figures
            .cached
            .insert(("project", claims.resource().plural), world.len(claims));
        let deleting = world.instances.iter().filter(|(_, row)| row.deleting);
        figures.deleting.extend(deleting.map(|(_, row)| row.uid.clone()));
        figures
    }
}
