//! State of a cell for the metrics and for operators.

use super::{Cell, TableId};
use fedgate_engine::metrics::Gauges;

impl Cell {
    /// Collects the gauges; briefly holds the index's lock.
    pub fn figures(&self) -> Gauges {
        let depth = self.ctx.queue.depth();
        let mut figures = Gauges {
            queue_ready: depth.ready,
            queue_added: self.ctx.queue.added(),
            keys_in_backoff: depth.in_backoff,
            ..Gauges::default()
        };
        for ((kind, verdict), count) in self.ctx.quarantine.counts() {
            figures
                .quarantined
                .insert((kind.as_str().to_owned(), verdict), count);
        }
        let missing = self.ctx.executor.missing_rights();
        let index = self.ctx.index.lock();
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
            let silence = healths.clone().map(|health| health.idle_time()).min();
            let oldest = figures.last_event_age.entry(state).or_default();
            *oldest = silence.unwrap_or_default().max(*oldest);
            for (role, health) in &engaged.watches {
                let (kind, malformed) = (role.kind().as_str().to_owned(), health.malformed());
                if malformed > 0 {
                    *figures.quarantined.entry((kind, "undecodable")).or_default() += malformed;
                }
                let plural = role.resource().plural;
                for (cause, count) in health.restarts_by_cause() {
                    let key = (plane.kind(), plural.clone(), cause);
                    *figures.watch_restarts.entry(key).or_default() += count;
                }
                if *role != TableId::Claims {
                    figures.cached.insert((plane.kind(), plural), index.len(*role));
                }
            }
        }
        let claims = TableId::Claims;
        figures
            .cached
            .insert(("project", claims.resource().plural), index.len(claims));
        let deleting = index.instances.iter().filter(|(_, row)| row.deleting);
        figures.deleting.extend(deleting.map(|(_, row)| row.uid.clone()));
        if self.ctx.settings.quota {
            figures.quota_unverified = index.unverified();
        }
        figures.release_records = index.releases.iter().map(|(_, row)| row.digest.len()).sum();
        figures
    }

    /// The state of every plane and watch, for `/debug/planes`.
    pub fn describe(&self) -> serde_json::Value {
        let index = self.ctx.index.lock();
        let depth = self.ctx.queue.depth();
        let missing = self.ctx.executor.missing_rights();
        let planes: Vec<serde_json::Value> = self
            .links
            .planes
            .lock()
            .iter()
            .map(|(plane, engaged)| {
                let watches = engaged.watches.iter().map(|(role, health)| {
                    serde_json::json!({
                        "kind": role.kind().as_str(),
                        "synced": health.synced(), "forbidden": health.forbidden(),
                        "restarts": health.restarts(), "error": health.error(),
                    })
                });
                let missing = missing.iter().filter(|right| right.plane == *plane);
                serde_json::json!({"plane": plane.to_string(), "missingRights": missing.map(ToString::to_string).collect::<Vec<_>>(),
                    "seconds": engaged.since.elapsed().as_secs(), "watches": watches.collect::<Vec<_>>()})
            })
            .collect();
        serde_json::json!({
            "planes": planes,
            "located": format!("{:?}", index.located()),
            "queue": {"ready": depth.ready, "running": depth.running, "delayed": depth.delayed, "inBackoff": depth.in_backoff},
            "quarantined": self.ctx.quarantine.counts().into_iter()
                .map(|((kind, verdict), count)| serde_json::json!({"kind": kind.as_str(), "verdict": verdict, "count": count}))
                .collect::<Vec<_>>(),
            "failures": self.workers.failures().describe(),
            "leading": self.links.lease.may_write(),
        })
    }
}
