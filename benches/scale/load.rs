//! P7, P10, P11: everything that tenants, Karmada and cells bring, what it takes, and rest.

use super::{
    gateway::Gateway,
    planes::Planes,
    run::{REST, Run, float, from_env, scaled, start},
};
use anyhow::Result;
use fedgate_simulator::Verb;
use std::time::Duration;
use tokio::time::{Instant, sleep};

pub(crate) async fn measure(run: &mut Run) -> Result<()> {
    let mut planes = run.planes("load").await?;
    let gateway = start(&planes).await?;
    planes.grow(scaled(1_000))?;
    planes.watched().await?;
    sleep(REST).await;
    carried(run, &planes, &gateway).await?;
    at_rest(run, &planes, &gateway).await?;
    gateway.stop().await
}

/// P10: what deployments and Instances take.
async fn carried(run: &mut Run, planes: &Planes, gateway: &Gateway) -> Result<()> {
    let (homes, count) = (scaled(100), scaled(10_000));
    let before = gateway.memory()?.0;
    planes.deploy_all(homes, count).await?;
    sleep(REST).await;
    let deployed = gateway.memory()?.0;
    let name = "P10 memory per 1,000 deployments".to_owned();
    run.at_most(name, ((deployed - before) * 1e3 / float(count), "MiB"), 3.0);
    run.detail(format!("from {before:.1} to {deployed:.1} MiB"));
    let instances = planes.project_instances().await?;
    sleep(REST).await;
    let full = gateway.memory()?.0;
    let name = "P10 memory per 1,000 Instances".to_owned();
    run.at_most(name, ((full - deployed) * 1e3 / float(instances), "MiB"), 4.0);
    run.detail(format!("from {deployed:.1} to {full:.1} MiB"));
    Ok(())
}

/// P7, P11: at rest, with every list read anew.
async fn at_rest(run: &mut Run, planes: &Planes, gateway: &Gateway) -> Result<()> {
    let resting = gateway.memory()?.0;
    let what = format!(
        "{} projects, {} copies, {} Instances",
        planes.projects.len(),
        planes.copies(),
        planes.projections()
    );
    run.at_most(format!("P11 memory with {what}"), (resting, "MiB"), 200.0);
    gateway.forget_peak()?;
    planes.forget_requests();
    let began = Instant::now();
    planes.force_lists();
    let rest = from_env("FEDGATE_SCALE_REST").unwrap_or(120.0);
    sleep(Duration::from_secs_f64(rest)).await;
    let peak = gateway.memory()?.1 / resting;
    run.at_most("P11 peak of a re-list of everything".to_owned(), (peak, "×"), 1.5);
    let asked = planes.requests(|verb| verb.writes() || verb == Verb::Get);
    for entry in asked.iter().take(5) {
        eprintln!("bench: at rest, {entry}");
    }
    let lists = planes.requests(|verb| verb == Verb::List).len();
    run.at_most(
        "P7 writes and gets at rest, beside lists".to_owned(),
        (float(asked.len()), ""),
        0.0,
    );
    run.detail(format!("{lists} lists in {} s", began.elapsed().as_secs()));
    Ok(())
}
