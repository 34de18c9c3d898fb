//! A watch that outlives credentials, and defects of its own.

use super::{Event, Health, Selection, reach, run};
use crate::{engine::key::Plane, plane::client::Connection};
use futures::FutureExt;
use std::panic::AssertUnwindSafe;

/// Watches until the future is dropped, and begins anew with each new credential, which `on_renewed` is told of.
/// `sink` and `on_rights` as in [`run`].
pub async fn keep(
    plane: &Plane,
    connection: &Connection,
    selection: &Selection,
    health: &Health,
    sink: impl Fn(Event),
    on_rights: impl Fn(bool),
    on_renewed: impl Fn(),
) {
    let mut generation = connection.generation();
    loop {
        generation.hear();
        let client = connection.current();
        tokio::select! {
            biased;
            // It ends by a defect alone.
            _ = AssertUnwindSafe(run(plane, client, selection, health, connection.reach(), &sink, &on_rights)).catch_unwind() => {
                tracing::error!(%plane, kind = selection.resource.kind, "a watch failed by a defect of its own; it is begun again");
                tokio::time::sleep(reach::ASK_EVERY).await;
            }
            _ = generation.news() => on_renewed(),
        }
    }
}
