//! How cost grows with projects, deployments and Instances: memory, and time and CPU of a restart with everything in place.

use super::run::{REST, Run, float, scaled, start};
use anyhow::Result;
use tokio::time::{Instant, sleep};

/// Projects of each step, with ten deployments and thirty Instances each.
const PROJECTS: [usize; 4] = [10, 100, 1_000, 10_000];

pub(crate) async fn measure(run: &mut Run) -> Result<()> {
    for projects in PROJECTS.map(scaled) {
        step(run, projects).await?;
    }
    Ok(())
}

async fn step(run: &mut Run, projects: usize) -> Result<()> {
    let mut planes = run.planes(&format!("growth-{projects}")).await?;
    planes.grow(projects)?;
    let gateway = start(&planes).await?;
    planes.watched().await?;
    planes.deploy_all(projects, projects * 10).await?;
    planes.project_instances().await?;
    gateway.stop().await?;

    let began = Instant::now();
    let gateway = start(&planes).await?;
    gateway.at_rest().await?;
    let (took, cpu) = (began.elapsed().as_secs_f64(), gateway.cpu()?);
    sleep(REST).await;
    let (now, peak) = gateway.memory()?;
    let what = format!(
        "{projects} projects, {} deployments, {} Instances",
        planes.copies(),
        planes.projections()
    );
    for (name, value) in [
        ("restart until at rest", (took, "s")),
        ("CPU of a restart", (cpu, "s")),
        ("memory", (now, "MiB")),
        ("memory at its highest", (peak, "MiB")),
        ("sockets", (float(gateway.sockets()?), "")),
    ] {
        run.figure(
            format!("growth: {name}, {what}"),
            value,
            None,
            "none".to_owned(),
            true,
        );
    }
    gateway.stop().await
}
