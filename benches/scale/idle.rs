//! P8, P9, P11', P17: projects that do nothing.

use super::run::{REST, Run, float, from_env, scaled, share_of_core, start, whole};
use anyhow::Result;
use std::time::Duration;
use tokio::time::sleep;

/// How long CPU is counted.
const WATCHED: Duration = Duration::from_secs(30);

pub(crate) async fn measure(run: &mut Run) -> Result<()> {
    let mut planes = run.planes("idle").await?;
    let gateway = start(&planes).await?;
    sleep(REST).await;
    let none = gateway.memory()?.0;
    run.at_most("P8 memory without a project".to_owned(), (none, "MiB"), 25.0);
    let many = from_env("FEDGATE_SCALE_PROJECTS").map_or_else(|| scaled(1_000), whole);
    let few = (many / 10).max(1);
    planes.grow(few)?;
    planes.watched().await?;
    sleep(REST).await;
    let before = gateway.memory()?.0;
    planes.grow(many)?;
    planes.watched().await?;
    sleep(REST).await;
    let after = gateway.memory()?.0;
    let each = (after - before) * 1024.0 / float(many - few);
    run.at_most(
        format!("P9 memory of an idle project, {few} to {many} of them"),
        (each, "KiB"),
        64.0,
    );
    run.detail(format!("from {before:.1} to {after:.1} MiB"));
    run.at_most(
        format!("P11' memory, {many} idle projects (the bar is for 10,000)"),
        (after, "MiB"),
        700.0,
    );
    let sockets = float(gateway.sockets()?);
    run.at_most(
        format!("P11' sockets, {many} idle projects (the bar is for 10,000)"),
        (sockets, ""),
        500.0,
    );
    let share = share_of_core(&gateway, WATCHED).await?;
    run.at_most(
        format!("P17 CPU, {many} idle projects"),
        (share, "% of a core"),
        2.0,
    );
    gateway.stop().await
}
