//! P14: a deployment whose status never rests.

use super::{
    acts::{deploy, text},
    planes::{DEPLOYMENTS, NAMESPACE, shown},
    run::{Run, float, start},
};
use anyhow::{Context, Result};
use fedgate_simulator::{Change, DIRECT};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

/// Status updates, and how often one comes.
const UPDATES: u32 = 10_000;
const EVERY: Duration = Duration::from_millis(1);
/// Writes of progress that go at once: a bucket has four tokens, and keeps one for a change of `Available`.
const BURST: usize = 3;
/// Lets the status before the storm be written long before.
const BEFORE: Duration = Duration::from_secs(5);

pub(crate) async fn measure(run: &mut Run) -> Result<()> {
    let mut planes = run.planes("storm").await?;
    planes.grow(1)?;
    let gateway = start(&planes).await?;
    planes.watched().await?;
    deploy(&planes.projects[0], "web")?;
    shown(&planes.hub, "the copy is there", || planes.copies() == 1).await?;
    planes.bind()?;
    planes.quiet().await?;
    sleep(BEFORE).await;
    let copy = planes.hub.list(DEPLOYMENTS).pop().context("there is a copy")?;
    planes.simulator.keep_changes();
    drop(planes.changes());
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let began = Instant::now();
    for n in 1..=UPDATES {
        ticks.tick().await;
        planes.report(text(&copy, "namespace"), "web", n + 1)?;
    }
    let (lasted, ended) = (began.elapsed(), Instant::now());
    let project = &planes.projects[0];
    shown(project, "the last value is there", || {
        let source = project.get(DEPLOYMENTS, NAMESPACE, "web");
        source.is_some_and(|source| source["status"]["readyReplicas"] == UPDATES + 1)
    })
    .await?;
    sleep(Duration::from_secs(1)).await;
    let changes = planes.changes();
    let written: Vec<&Change> = changes
        .iter()
        .filter(|change| &*change.plane == project.name() && &*change.user != DIRECT)
        .collect();
    let first = written.first().context("a write")?.at;
    let last = written.last().context("a write")?.at;
    // The bucket's tokens of progress go at once; what counts is the rate after them.
    let burst_end = written.get(BURST - 1).context("a burst")?.at;
    let rate = float(written.len() - BURST) / (last - burst_end).as_secs_f64();
    run.at_most("P14 project writes in a storm".to_owned(), (rate, "1/s"), 4.0);
    run.detail(format!(
        "{:.0} updates/s for {:.1} s, {} writes",
        f64::from(UPDATES) / lasted.as_secs_f64(),
        lasted.as_secs_f64(),
        written.len()
    ));
    let first = (first - began).as_secs_f64() * 1e3;
    run.at_most("P14 first write".to_owned(), (first, "ms"), 30.0);
    let last = last.saturating_duration_since(ended).as_secs_f64() * 1e3;
    run.at_most("P14 last value after the storm".to_owned(), (last, "ms"), 1_000.0);
    gateway.stop().await
}
