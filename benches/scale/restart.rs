//! P12, P13: a restart with everything in place, beside the bare lists and watches, and edits meanwhile.

use super::{
    acts::{edit, filled},
    bare::{Target, read_all},
    gateway::Gateway,
    kinds,
    moments::edits,
    planes::Planes,
    report::percentile,
    run::{REST, Run, float, own_cpu, scaled, start},
};
use anyhow::Result;
use fedgate_simulator::Verb;
use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

/// How often a tenant edits a deployment during the restart.
const EDIT_EVERY: Duration = Duration::from_millis(50);
/// How long the last edits may take.
const LAST_EDITS: Duration = Duration::from_secs(5);

pub(crate) async fn measure(run: &mut Run) -> Result<()> {
    let (homes, count) = (scaled(100), scaled(10_000));
    let mut planes = run.planes("restart").await?;
    planes.grow(homes)?;
    let gateway = start(&planes).await?;
    planes.watched().await?;
    planes.deploy_all(homes, count).await?;
    planes.project_instances().await?;
    let targets = targets(&planes);
    gateway.stop().await?;

    let (own, began) = (own_cpu()?, Instant::now());
    let objects = read_all(&planes, &targets).await?;
    let bare = (began.elapsed().as_secs_f64(), own_cpu()? - own);
    eprintln!("bench: the bare client has read {objects} objects");
    let gateway = converged(run, &planes, bare).await?;
    gateway.stop().await?;
    fresh(run, &planes, (homes, count)).await
}

/// What the gateway watches; companions on the hub are selected.
fn targets(planes: &Planes) -> Vec<Target> {
    let watched: BTreeSet<(String, String, String)> = planes
        .requests(|verb| verb == Verb::Watch)
        .iter()
        .map(|entry| {
            (
                entry.plane.to_string(),
                entry.group.to_string(),
                entry.resource.to_string(),
            )
        })
        .collect();
    let target = |(plane, group, plural): (String, String, String)| {
        let selected = plane == "hub" && matches!(plural.as_str(), "configmaps" | "secrets");
        let labels = selected.then(|| format!("{}=true", fedgate_api::keys::REFERENCED_DATA));
        (plane, kinds::resource(&group, &plural), labels)
    };
    watched.into_iter().map(target).collect()
}

/// P12: until nothing is left to do. `bare` is the bare client's time, and the CPU that it and the planes took.
async fn converged(run: &mut Run, planes: &Planes, bare: (f64, f64)) -> Result<Gateway> {
    planes.forget_requests();
    let (own, began) = (own_cpu()?, Instant::now());
    let gateway = start(planes).await?;
    gateway.at_rest().await?;
    let rest = began.elapsed().as_secs_f64();
    let (cpu, own) = (gateway.cpu()?, own_cpu()? - own);
    let watches = planes.requests(|verb| verb == Verb::Watch);
    let synced = watches.iter().map(|entry| entry.at).max().unwrap_or(began) - began;
    let lists = planes.requests(|verb| verb == Verb::List).len();
    let what = format!(
        "{} projects, {} deployments, {} Instances",
        planes.projects.len(),
        planes.copies(),
        planes.projections()
    );
    let name = format!("P12 restart until all is read, {what}");
    run.beside(name, (synced.as_secs_f64(), "s"), Some(bare.0), 3.0);
    run.detail(format!("{lists} pages"));
    run.beside(
        format!("P12 restart until at rest, {what}"),
        (rest, "s"),
        Some(bare.0),
        3.0,
    );
    let name = "P12 CPU of the gateway".to_owned();
    run.figure(name, (cpu, "s"), None, "–".to_owned(), true);
    run.detail(format!("planes {own:.1} s, with the bare client {:.1} s", bare.1));
    sleep(REST).await;
    let writes = planes.requests(Verb::writes);
    for entry in writes.iter().take(5) {
        eprintln!("bench: after the restart, {entry}");
    }
    run.at_most(
        "P12 writes of a restart".to_owned(),
        (float(writes.len()), ""),
        0.0,
    );
    let (now, peak) = gateway.memory()?;
    run.at_most("P12 memory after a restart".to_owned(), (now, "MiB"), 200.0);
    run.at_most("P12 memory at its highest".to_owned(), (peak, "MiB"), 200.0);
    Ok(gateway)
}

/// P13: a tenant edits one deployment after the other from the moment on at which the process starts.
async fn fresh(run: &mut Run, planes: &Planes, (homes, count): (usize, usize)) -> Result<()> {
    planes.simulator.keep_changes();
    drop(planes.changes());
    let over = AtomicBool::new(false);
    let tenant = async {
        let mut ticks = interval(EDIT_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Far from each other: 37 and 10,000 have no common factor.
        for n in (0..count).map(|n| n * 37 % count) {
            ticks.tick().await;
            if over.load(Ordering::Relaxed) {
                break;
            }
            edit(&planes.projects[n % homes], &filled(n), 2)?;
        }
        Ok::<_, anyhow::Error>(())
    };
    let restart = async {
        let gateway = start(planes).await?;
        gateway.at_rest().await?;
        over.store(true, Ordering::Relaxed);
        Ok(gateway)
    };
    let (gateway, ()) = tokio::try_join!(restart, tenant)?;
    sleep(LAST_EDITS).await;
    let changes = planes.changes();
    let (made, took) = edits(&changes, "hub");
    let (median, last) = (percentile(&took, 0.5), percentile(&took, 0.99));
    let missing = made - took.len();
    run.figure(
        "P13 edit during a restart → copy, p99".to_owned(),
        (last, "ms"),
        None,
        "≤ 500 ms".to_owned(),
        missing == 0 && last <= 500.0,
    );
    run.detail(format!(
        "{made} samples, p50 {median:.0} ms, {missing} not carried"
    ));
    gateway.stop().await
}
