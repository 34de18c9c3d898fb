//! A watch that restarts after a credential change and after a panic of its own code.

use super::{WatchEvent, WatchSpec, WatchStatus, run};
use crate::{
    key::Plane,
    plane::{client::Connection, health::PROBE_INTERVAL},
};
use futures::FutureExt;
use std::panic::AssertUnwindSafe;

/// Watches until the future is dropped. Each new credential restarts the watch and calls `on_renewed`. `sink` and
/// `on_rights` as in [`run`].
pub async fn run_supervised(
    plane: &Plane,
    connection: &Connection,
    selection: &WatchSpec,
    health: &WatchStatus,
    sink: impl Fn(WatchEvent),
    on_rights: impl Fn(bool),
    on_renewed: impl Fn(),
) {
    let mut generation = connection.generation();
    loop {
        generation.borrow_and_update();
        let client = connection.current();
        tokio::select! {
            biased;
            // Only a panic ends `run`.
            _ = AssertUnwindSafe(run(plane, client, selection, health, connection.health(), &sink, &on_rights)).catch_unwind() => {
                tracing::error!(%plane, kind = selection.resource.kind, "a watch panicked; it is restarted");
                tokio::time::sleep(PROBE_INTERVAL).await;
            }
            _ = generation.changed() => on_renewed(),
        }
    }
}
