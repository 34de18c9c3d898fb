//! A restart with deployments that are as large as they may be carried: time, pages and memory.

use super::{
    acts::{deploy_large, filled},
    planes::{Planes, until},
    run::{REST, Run, float, scaled, start},
};
use anyhow::Result;
use fedgate_simulator::Verb;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Bytes of each deployment; 256 KiB are carried at most.
const BYTES: usize = 200 * 1024;
/// Changes that a plane keeps: each holds an object.
const HISTORY: usize = 100;
/// Deployments that are made at a time: what is made faster than it is carried waits in memory.
const AT_A_TIME: usize = 20;

pub(crate) async fn measure(run: &mut Run) -> Result<()> {
    let (homes, count) = (scaled(20), scaled(2_000));
    let mut planes = run.planes("large").await?;
    planes.grow(homes)?;
    for plane in planes.projects.iter().chain([&planes.hub]) {
        plane.keep_history(HISTORY);
    }
    let gateway = start(&planes).await?;
    planes.watched().await?;
    for n in 0..count {
        deploy_large(&planes.projects[n % homes], &filled(n), BYTES)?;
        if n % AT_A_TIME == 0 {
            until("the deployments so far have copies", || planes.copies() >= n).await?;
        }
    }
    until("every deployment has its copy", || planes.copies() >= count).await?;
    planes.quiet().await?;
    gateway.stop().await?;
    restarted(run, &planes).await
}

async fn restarted(run: &mut Run, planes: &Planes) -> Result<()> {
    planes.forget_requests();
    let began = Instant::now();
    let gateway = start(planes).await?;
    gateway.at_rest().await?;
    let took = began.elapsed().as_secs_f64();
    let lists = planes.requests(|verb| verb == Verb::List).len();
    let name = format!(
        "large: restart until at rest, {} deployments of {} KiB in {} projects and on the hub",
        planes.copies(),
        BYTES / 1024,
        planes.projects.len()
    );
    run.figure(name, (took, "s"), None, "–".to_owned(), true);
    run.detail(format!("{lists} pages"));
    let peak = gateway.memory()?.1;
    run.at_most("large: memory at its highest".to_owned(), (peak, "MiB"), 200.0);
    sleep(REST).await;
    let now = gateway.memory()?.0;
    run.at_most(
        format!("large: memory {} s after", Duration::as_secs(&REST)),
        (now, "MiB"),
        200.0,
    );
    let asked = planes.requests(|verb| verb.writes() || verb == Verb::Get);
    run.at_most("large: writes and gets".to_owned(), (float(asked.len()), ""), 0.0);
    gateway.stop().await
}
