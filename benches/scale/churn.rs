//! P18: credentials that change and projects that come and go, and what the gateway keeps of them.

use super::{
    gateway::Gateway,
    planes::{GATEWAY, Planes, until},
    run::{REST, Run, float, scaled, start},
};
use anyhow::{Result, ensure};
use fedgate_simulator::{Plane, Verb};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::{Instant, sleep};

/// Projects whose credentials change, and as many that come and go, in each round.
const PROJECTS: usize = 50;
/// Rounds before the gateway is measured first.
const WARM_UP: usize = 2;
/// How long a project that is gone may be known.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn measure(run: &mut Run) -> Result<()> {
    let rounds = scaled(20);
    let mut planes = run.planes("churn").await?;
    planes.grow(PROJECTS)?;
    let guests: Vec<Plane> = (0..PROJECTS)
        .map(|n| planes.project(&format!("guest-{n}")))
        .collect::<Result<_>>()?;
    let gateway = start(&planes).await?;
    planes.watched().await?;
    for round in 0..WARM_UP {
        turn(&planes, &guests, &gateway, round).await?;
    }
    sleep(REST).await;
    let before = Held::of(&gateway)?;
    for round in WARM_UP..WARM_UP + rounds {
        turn(&planes, &guests, &gateway, round).await?;
    }
    sleep(REST).await;
    let after = Held::of(&gateway)?;
    let what = format!(
        "after {0} credentials and {0} joins and leaves",
        rounds * PROJECTS
    );
    run.at_most(
        format!("P18 memory {what}"),
        (after.memory - before.memory, "MiB"),
        2.0,
    );
    run.detail(format!("from {:.1} to {:.1} MiB", before.memory, after.memory));
    for (word, before, after) in [
        ("sockets", before.sockets, after.sockets),
        ("threads", before.threads, after.threads),
    ] {
        let name = format!("P18 {word} {what}");
        run.figure(
            name,
            (float(after), ""),
            None,
            "≤ before".to_owned(),
            after <= before,
        );
        run.detail(format!("{before} before"));
    }
    gateway.stop().await
}

/// What a gateway holds.
struct Held {
    memory: f64,
    sockets: usize,
    threads: usize,
}

impl Held {
    fn of(gateway: &Gateway) -> Result<Self> {
        Ok(Self {
            memory: gateway.memory()?.0,
            sockets: gateway.sockets()?,
            threads: gateway.threads()?,
        })
    }
}

/// Every project gets a new credential and every guest joins; then the guests leave.
async fn turn(planes: &Planes, guests: &[Plane], gateway: &Gateway, round: usize) -> Result<()> {
    planes.forget_requests();
    let user = format!("{GATEWAY}-{round}");
    for plane in planes.projects.iter().chain(guests) {
        planes.join(plane.name(), &user)?;
    }
    until("every plane is watched by the new credential", || {
        let watches = planes.requests(|verb| verb == Verb::Watch);
        let by: BTreeSet<(&str, &str)> = watches
            .iter()
            .filter(|entry| *entry.user == *user)
            .map(|entry| (&*entry.plane, &*entry.resource))
            .collect();
        by.len() >= 4 * (PROJECTS + guests.len())
    })
    .await?;
    for plane in guests {
        planes.leave(plane.name())?;
    }
    let end = Instant::now() + PATIENCE;
    // The hub is one of them.
    while gateway.planes().await? > PROJECTS + 1 {
        ensure!(Instant::now() < end, "projects that left are known for ever");
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
