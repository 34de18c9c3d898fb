//! The state of a runtime for probes, metrics and `/debug/planes`.

use super::{
    Runtime, STALL_TIMEOUT,
    index::Index,
    inspect::{any_fails, state_of},
    role::Role,
};
use crate::{
    executor::suspension::Suspension,
    metrics::{Family, Gauges, Holder},
    plane::kubeconfig::{Expiry, TimeLeft},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

impl<R: Role> Runtime<R> {
    /// An error if the main loop stands still.
    pub fn live(&self) -> Result<(), String> {
        let elapsed = self.last_tick.lock().elapsed();
        if elapsed > STALL_TIMEOUT {
            return Err(format!(
                "the main loop has stood still for {} s",
                elapsed.as_secs()
            ));
        }
        Ok(())
    }

    /// An error while the role is not ready.
    pub fn ready(&self) -> Result<(), String> {
        self.role.ready(&self.shared)
    }

    /// Collects the gauges. The index is locked for a slice of planes at a time.
    pub fn gauges(&self) -> Gauges {
        let depth = self.shared.queue.depth();
        let backoffs = self.shared.queue.backoffs();
        let failures = self.shared.workers.failures();
        let mut gauges = failures.gauges(&backoffs, self.shared.now());
        gauges.queue_ready = depth.ready;
        gauges.queue_added = self.shared.queue.added();
        let verdicts = self.shared.quarantine.counts();
        let index = self.shared.read_index(Holder::Metrics);
        for ((kind, verdict), count) in verdicts {
            quarantined(&mut gauges, &index.kind_label(&kind), verdict, count);
        }
        drop(index);
        self.plane_gauges(&mut gauges);
        self.role.gauges(&self.shared, &mut gauges);
        gauges
    }

    /// Adds what the engaged planes and their watches say.
    fn plane_gauges(&self, gauges: &mut Gauges) {
        let now = self.shared.now();
        let mut ends: BTreeMap<_, i64> = BTreeMap::new();
        self.each_plane(
            Holder::Metrics,
            &self.engaged(),
            |index, plane, engaged, missing| {
                let state = state_of::<R>(index, plane, &engaged.watches, missing).as_str();
                let labels = [plane.kind(), state];
                gauges.add(Family::Planes, &labels, 1_usize);
                let expiry = engaged.connection.current().expiry();
                let left = TimeLeft::of(expiry, now.wall.as_second());
                gauges.add(Family::Credentials, &[plane.kind(), left.as_str()], 1_usize);
                if let Some(Expiry { at, .. }) = expiry {
                    let earliest = ends.entry(plane.kind()).or_insert(at);
                    *earliest = at.min(*earliest);
                }
                let idle = engaged.watches.iter().map(|(_, status)| status.idle_time()).min();
                gauges.raise(Family::LastEventAge, &labels, idle.unwrap_or_default());
                for (table, status) in &engaged.watches {
                    let malformed = status.malformed();
                    if malformed > 0 {
                        let kind = index.kind_label(&index.kind_of(*table));
                        quarantined(gauges, &kind, "undecodable", malformed);
                    }
                }
            },
        );
        for (plane, end) in ends {
            // Seconds since the epoch are exact in a f64 for 285 million years.
            #[allow(clippy::cast_precision_loss)]
            gauges.set(Family::CredentialExpiry, &[plane], end as f64);
        }
    }

    /// The state of every plane and watch, for `/debug/planes`.
    pub fn describe(&self) -> Value {
        let depth = self.shared.queue.depth();
        let backoffs = self.shared.queue.backoffs();
        let planes: Vec<Value> =
            self.each_plane(Holder::Operations, &self.engaged(), |index, plane, engaged, missing| {
                let watches = engaged.watches.iter().map(|(table, status)| {
                    json!({
                        "kind": index.kind_of(*table).as_str(),
                        "synced": status.synced(), "forbidden": status.forbidden(),
                        "restarts": status.restarts(), "error": status.error(),
                    })
                });
                json!({
                    "plane": plane.to_string(),
                    "ready": index.is_connected(plane, &engaged.watches) && !any_fails(&engaged.watches),
                    "suspended": self.shared.executor.suspension(plane).map(Suspension::as_str),
                    "missingRights": missing.iter().map(ToString::to_string).collect::<Vec<_>>(),
                    "defect": index.defect(plane).map(|defect| format!("{}: {}; {}", defect.word, defect.text, defect.next)),
                    "seconds": engaged.since.elapsed().as_secs(),
                    "watches": watches.collect::<Vec<_>>(),
                })
            });
        let quarantined: Vec<Value> = self
            .shared
            .quarantine
            .counts()
            .into_iter()
            .map(
                |((kind, verdict), count)| json!({"kind": kind.as_str(), "verdict": verdict, "count": count}),
            )
            .collect();
        let mut document = self
            .role
            .describe(&self.shared, &self.shared.read_index(Holder::Operations));
        let common = [
            ("planes", json!(planes)),
            (
                "queue",
                json!({"ready": depth.ready, "running": depth.running, "delayed": depth.delayed,
                    "inBackoff": depth.in_backoff}),
            ),
            ("quarantined", json!(quarantined)),
            (
                "failures",
                self.shared.workers.failures().describe(&backoffs.behind()),
            ),
            ("refusedProjects", json!(*self.shared.refused.lock())),
            ("leading", json!(self.shared.planes.lease.may_write())),
        ];
        document.extend(common.map(|(key, value)| (key.to_owned(), value)));
        Value::Object(document)
    }
}

/// Counts quarantined objects, under the name that datum-cloud/compute gives the metric too.
fn quarantined(gauges: &mut Gauges, kind: &str, verdict: &'static str, count: usize) {
    gauges.add(Family::Quarantined, &[kind, verdict], count);
    gauges.add(Family::QuarantinedAlias, &[verdict], count);
}
