//! P15, P16: projects that do not answer, and one that floods; what their neighbours notice.

use super::{
    acts::{deploy, filled, text},
    moments::creations,
    planes::{DEPLOYMENTS, Planes, shown},
    report::percentile,
    run::{Run, scaled, start, start_with},
};
use anyhow::{Context, Result};
use fedgate_simulator::{Down, Plane};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use tokio::time::{MissedTickBehavior, interval, sleep};

/// Deployments whose time is taken, and how often a tenant creates one.
const SAMPLES: usize = 1_000;
const CREATE_EVERY: Duration = Duration::from_millis(20);
/// Deployments of each project that will not answer, and how often one of their cells reports.
const HELD: usize = 5;
const REPORT_EVERY: Duration = Duration::from_millis(5);
/// How long they report before times are taken.
const BEFORE: Duration = Duration::from_secs(3);

/// P15: one project in ten accepts requests and never answers, while there is status for its deployments. There is as
/// much of it in the run without.
pub(crate) async fn silent(run: &mut Run) -> Result<()> {
    let count = scaled(200);
    let mut planes = run.planes("silent").await?;
    planes.grow(count)?;
    let gateway = start(&planes).await?;
    planes.watched().await?;
    let (down, up) = planes.projects.split_at((count / 10).max(1));
    // Every namespace is known, and whoever will be silent has deployments with status.
    planes.fill(0..count, 0..count).await?;
    planes
        .fill(0..down.len(), count..count + down.len() * HELD)
        .await?;
    planes.bind()?;
    planes.quiet().await?;
    planes.simulator.keep_changes();
    let without = answered(&planes, (down, up), "without").await?;
    for plane in down {
        plane.set_down(Some(Down::BlackHole));
    }
    let beside = answered(&planes, (down, up), "beside").await?;
    let (floor, value) = (percentile(&without, 0.99), percentile(&beside, 0.99));
    let name = format!(
        "P15 create → copy beside {} silent projects of {count}, p99",
        down.len()
    );
    let holds = beside.len() == SAMPLES && value / floor <= 1.2;
    run.figure(
        name,
        (value, "ms"),
        Some(floor),
        "≤ 1.2× without".to_owned(),
        holds,
    );
    let medians = (percentile(&beside, 0.5), percentile(&without, 0.5));
    run.detail(format!(
        "{} samples, p50 {:.1} ms, without {:.1}",
        beside.len(),
        medians.0,
        medians.1
    ));
    gateway.stop().await
}

/// [`paced`] in the projects that answer, while cells report for the others.
async fn answered(
    planes: &Planes,
    (others, projects): (&[Plane], &[Plane]),
    prefix: &str,
) -> Result<Vec<Duration>> {
    let over = AtomicBool::new(false);
    let tenants = async {
        // Until requests to silent projects hang.
        sleep(BEFORE).await;
        let took = paced(planes, projects, prefix).await;
        over.store(true, Ordering::Relaxed);
        took
    };
    let (took, ()) = tokio::try_join!(tenants, report(planes, others, &over))?;
    Ok(took)
}

/// Deployments one after the other at a steady pace; how long each took to its copy.
async fn paced(planes: &Planes, projects: &[Plane], prefix: &str) -> Result<Vec<Duration>> {
    drop(planes.changes());
    let wanted = planes.copies() + SAMPLES;
    let mut ticks = interval(CREATE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for n in 0..SAMPLES {
        ticks.tick().await;
        deploy(&projects[n % projects.len()], &format!("{prefix}-{n}"))?;
    }
    shown(&planes.hub, "every deployment has its copy", || {
        planes.copies() >= wanted
    })
    .await?;
    let changes = planes.changes();
    let took = creations(&changes, "hub");
    Ok(took
        .into_iter()
        .filter(|(name, _)| name.starts_with(prefix))
        .map(|(_, took)| took)
        .collect())
}

/// Cells report anew for the deployments of these projects in turn, until it is over.
async fn report(planes: &Planes, projects: &[Plane], over: &AtomicBool) -> Result<()> {
    let theirs: Vec<String> = projects
        .iter()
        .flat_map(|plane| plane.list(DEPLOYMENTS))
        .map(|source| text(&source, "name").to_owned())
        .collect();
    let copies: Vec<_> = planes
        .hub
        .list(DEPLOYMENTS)
        .into_iter()
        .filter(|copy| theirs.iter().any(|name| name == text(copy, "name")))
        .collect();
    let mut ticks = interval(REPORT_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for ready in 2.. {
        for copy in &copies {
            ticks.tick().await;
            if over.load(Ordering::Relaxed) {
                return Ok(());
            }
            planes.report(text(copy, "namespace"), text(copy, "name"), ready)?;
        }
    }
    Ok(())
}

/// P16: one tenant creates thousands at once; another one after the other, as long as that backlog lasts.
pub(crate) async fn noisy(run: &mut Run) -> Result<()> {
    let flood = scaled(5_000);
    let mut planes = run.planes("noisy").await?;
    planes.grow(2)?;
    // The queue is judged, not the limit that would keep most of the flood from the hub.
    let gateway = start_with(&planes, &["--hub-write-rate", "0"]).await?;
    planes.watched().await?;
    planes.fill(0..2, 0..2).await?;
    planes.quiet().await?;
    planes.simulator.keep_changes();
    let namespace = planes
        .hub
        .list(DEPLOYMENTS)
        .into_iter()
        .find(|copy| text(copy, "name") == filled(1))
        .map(|copy| text(&copy, "namespace").to_owned())
        .context("the other tenant has a copy")?;
    let (noisy, modest) = (planes.projects[0].clone(), planes.projects[1].clone());
    let tenant = tokio::task::spawn_blocking(move || -> Result<()> {
        (0..flood).try_for_each(|n| deploy(&noisy, &format!("noisy-{n}")).map(drop))
    });
    let mut samples = 0;
    while samples == 0 || planes.copies() < 2 + flood + samples {
        let name = format!("modest-{samples}");
        deploy(&modest, &name)?;
        shown(&planes.hub, "the other tenant's copy is there", || {
            planes.hub.get(DEPLOYMENTS, &namespace, &name).is_some()
        })
        .await?;
        samples += 1;
    }
    tenant.await??;
    shown(&planes.hub, "every deployment has its copy", || {
        planes.copies() >= 2 + flood + samples
    })
    .await?;
    let changes = planes.changes();
    let took: Vec<Duration> = creations(&changes, "hub")
        .into_iter()
        .filter(|(name, _)| name.starts_with("modest-"))
        .map(|(_, took)| took)
        .collect();
    let name = format!("P16 create → copy beside {flood} of another tenant, p99");
    run.at_most(name, (percentile(&took, 0.99), "ms"), 300.0);
    run.detail(format!(
        "{} samples, p50 {:.1} ms",
        took.len(),
        percentile(&took, 0.5)
    ));
    gateway.stop().await
}
