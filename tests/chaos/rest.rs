//! After the load: convergence, and then nothing more.

use crate::{
    compare::{Asked, Difference, differences},
    snapshot::Snapshot,
    support::{
        audit::{AuditLog, GATEWAY},
        gateway::LINGER,
        seconds,
        suite::Suite,
    },
};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long convergence may take before the differences that are left count. Real Karmada backs off for minutes after an
/// outage of its hub, and what the gateway waits for there is late as well.
const CONVERGED_WITHIN: Duration = seconds(240);

/// How convergence went.
pub(crate) struct Convergence {
    /// Since the load and the faults ended; nothing if it was not reached.
    pub(crate) after: Option<Duration>,
    pub(crate) differences: Vec<Difference>,
    /// The last state seen.
    pub(crate) state: Snapshot,
}

/// Waits until there is no difference.
pub(crate) async fn converge(suite: &Suite, asked: &[Asked<'_>]) -> Convergence {
    let began = Instant::now();
    let mut told = Instant::now();
    loop {
        let state = Snapshot::take(suite).await.unwrap_or_default();
        let differences = differences(&state, asked);
        let after = began.elapsed();
        if differences.is_empty() {
            return Convergence {
                after: Some(after),
                differences,
                state,
            };
        }
        if after > CONVERGED_WITHIN {
            return Convergence {
                after: None,
                differences,
                state,
            };
        }
        if told.elapsed() > seconds(15) {
            told = Instant::now();
            let one = &differences[0];
            eprintln!(
                "    {} differences after {} s, one of them: {} {} {}/{}: {}",
                differences.len(),
                after.as_secs(),
                one.plane,
                one.kind,
                one.namespace,
                one.name,
                one.expected
            );
        }
        sleep(seconds(1)).await;
    }
}

/// The logs of the planes to which gateways write.
fn logs(suite: &Suite) -> [(&'static str, &AuditLog); 3] {
    [
        ("hub", &suite.hub_log),
        ("alpha", &suite.alpha_log),
        ("beta", &suite.beta_log),
    ]
}

/// The ends of the logs.
fn marks(suite: &Suite) -> [u64; 3] {
    logs(suite).map(|(_, log)| log.mark())
}

/// What the gateways have written since the marks, Events and Leases left out.
fn written(suite: &Suite, marks: [u64; 3], second_user: &str) -> Vec<String> {
    let logs = logs(suite).into_iter().zip(marks);
    let entries = logs
        .flat_map(|((plane, log), mark)| log.since(mark, "").into_iter().map(move |entry| (plane, entry)));
    entries
        .filter(|(_, e)| e.is_write() && (e.user.username == GATEWAY || e.user.username == second_user))
        .map(|(plane, e)| {
            let object = &e.object_ref;
            format!(
                "{plane}: {} {}/{} {} {}",
                e.action(),
                object.namespace,
                object.name,
                e.response_status.code,
                e.response_status.message
            )
        })
        .collect()
}

/// What is written for so long while nothing happens.
pub(crate) async fn quiet(suite: &Suite, second_user: &str, time: Duration) -> Vec<String> {
    // What lingers by the clock, a city that was left above all, may be due yet.
    sleep(seconds(LINGER + 2)).await;
    let start = marks(suite);
    sleep(time).await;
    written(suite, start, second_user)
}

/// What a restart writes.
pub(crate) async fn restart(suite: &Suite, second_user: &str) -> Vec<String> {
    suite.gateway.stop().await;
    let start = marks(suite);
    suite.gateway.start().await;
    suite.gateway.leads().await;
    sleep(seconds(2 * LINGER + 2)).await;
    written(suite, start, second_user)
}

/// The last requests about an object of that name, on all planes.
pub(crate) fn history(suite: &Suite, name: &str) -> Vec<String> {
    let mut entries: Vec<_> = logs(suite)
        .into_iter()
        .flat_map(|(plane, log)| log.since(0, name).into_iter().map(move |e| (plane, e)))
        .filter(|(_, e)| e.object_ref.name == name && !matches!(e.verb.as_str(), "get" | "list" | "watch"))
        .collect();
    entries.sort_by(|(_, a), (_, b)| a.request_received_timestamp.cmp(&b.request_received_timestamp));
    let last = entries.len().saturating_sub(12);
    entries[last..]
        .iter()
        .map(|(plane, e)| {
            format!(
                "{} {plane}: {} {}/{} by {}: {} {}",
                e.request_received_timestamp,
                e.action(),
                e.object_ref.namespace,
                e.object_ref.name,
                e.user.username,
                e.response_status.code,
                e.response_status.message
            )
        })
        .collect()
}
