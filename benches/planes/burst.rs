//! P5 and P10: many deployments at once, and what the gateway's memory has to say about them.

use super::{
    gateway::Gateway,
    latency::{bare_carry, deploy, settle},
    objects::{Kind, deployment, instance_status, propagating, write_back},
    plane::{exists, text},
    report::{Figure, round},
    rig::{Home, Program, Rig},
};
use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use kube::core::DynamicObject;
use std::{
    future::Future,
    time::{Duration, Instant},
};
use tokio::{sync::Semaphore, time::sleep};

/// Deployments that a tenant has under way at once, over all projects.
const TENANTS: usize = 32;
/// Deployments of one project that are carried at once: the gateway's default, and the bare client's.
const CARRIERS: usize = 16;
/// The gateway says `Propagating` this long after a copy was written that is not delivered; so does the bare client.
const UNDELIVERED: Duration = Duration::from_secs(5);
/// Until what a burst leaves behind is written.
const DRAIN: Duration = Duration::from_secs(12);
/// Until unused connections are closed (30 s) and freed memory is back with the system.
const REST: Duration = Duration::from_secs(45);
const INSTANCES_AT_ONCE: usize = 16;

/// Rate in deployments per second, from the first request to the last copy seen.
#[allow(clippy::cast_precision_loss)]
fn rate(count: usize, start: Instant, end: Instant) -> f64 {
    count as f64 / end.saturating_duration_since(start).as_secs_f64()
}

/// Creates the deployments, hands each confirmed one to `carry`, and answers the rate at which copies came.
async fn burst<'a, F>(
    homes: &'a [Home<'a>; 2],
    prefix: &str,
    count: usize,
    carry: impl Fn(&'a Home<'a>, serde_json::Value) -> F,
) -> Result<f64>
where
    F: Future<Output = Result<()>>,
{
    let names: Vec<(&'a Home<'a>, String)> = (0..count)
        .map(|n| (&homes[n % homes.len()], format!("{prefix}-{n}")))
        .collect();
    let copied: Vec<_> = names
        .iter()
        .map(|(home, name)| home.hub.deployment(&home.hub_namespace, name, exists))
        .collect();
    let start = Instant::now();
    let (carried, carriers) = tokio::sync::mpsc::unbounded_channel();
    let tenants = async {
        stream::iter(names.into_iter().map(Ok))
            .try_for_each_concurrent(TENANTS, |(home, name)| {
                let carried = &carried;
                async move {
                    let object = deployment(&name, "DFW", None);
                    let source = home
                        .project
                        .create(Kind::Deployment, &home.namespace, object)
                        .await?;
                    carried
                        .send((home, source))
                        .ok()
                        .context("the carriers have ended")
                }
            })
            .await?;
        drop(carried);
        Ok::<_, anyhow::Error>(())
    };
    let carry = &carry;
    let carriers = stream::unfold(carriers, async |mut queue| {
        queue.recv().await.map(|item| (item, queue))
    })
    .map(Ok::<_, anyhow::Error>)
    // Bounded by `carry` itself, which has a limit per project.
    .try_for_each_concurrent(None, |(home, source)| carry(home, source));
    let seen = async {
        let mut last = start;
        for copy in copied {
            last = last.max(copy.seen().await?);
        }
        Ok(last)
    };
    let ((), (), end) = tokio::try_join!(tenants, carriers, seen)?;
    Ok(rate(count, start, end))
}

/// The bursts' rates and the memory beside them.
pub(crate) struct Bursts {
    program: Program,
    pub(crate) carried: Vec<f64>,
    pub(crate) bare: Vec<f64>,
    pub(crate) homes: usize,
}

async fn warm_homes<'a>(rig: &'a Rig, program: Program, name: &str) -> Result<[Home<'a>; 2]> {
    let homes = [
        rig.home(program, 0, name).await?,
        rig.home(program, 1, name).await?,
    ];
    for home in &homes {
        deploy(home, "warm").await?;
        settle(home, "warm").await?;
    }
    Ok(homes)
}

impl Bursts {
    pub(crate) fn new(program: Program) -> Self {
        Self {
            program,
            carried: Vec::new(),
            bare: Vec::new(),
            homes: 0,
        }
    }

    fn name(&mut self) -> String {
        self.homes += 1;
        self.program.namespace(&format!("burst-{}", self.homes))
    }

    /// One burst through the program.
    pub(crate) async fn carried<'a>(&mut self, rig: &'a Rig, count: usize) -> Result<[Home<'a>; 2]> {
        let homes = warm_homes(rig, self.program, &self.name()).await?;
        let rate = burst(&homes, "web", count, async |_, _| Ok(())).await?;
        eprintln!(
            "bench: {:?} carried {count} deployments at {rate:.1}/s",
            self.program
        );
        self.carried.push(rate);
        sleep(DRAIN).await;
        Ok(homes)
    }

    /// The same by a bare client: `PATCH` and `POST` for each, and 5 s later the `PATCH` of status that the gateway
    /// writes for a copy that nobody delivers.
    pub(crate) async fn bare(&mut self, rig: &Rig, count: usize) -> Result<()> {
        let name = self.name();
        let homes = [rig.bare_home(0, &name).await?, rig.bare_home(1, &name).await?];
        for home in &homes {
            home.furnish().await?;
        }
        let limits = [Semaphore::new(CARRIERS), Semaphore::new(CARRIERS)];
        let limit =
            |home: &Home<'_>| &limits[usize::from(std::ptr::eq(home.project, &raw const rig.bare[1]))];
        let rate = burst(&homes, "web", count, |home, source| {
            let limit = limit(home);
            async move {
                let permit = limit.acquire().await?;
                bare_carry(home, &source, false).await?;
                drop(permit);
                sleep(UNDELIVERED).await;
                let _permit = limit.acquire().await?;
                let name = text(&source, "/metadata/name");
                home.project
                    .status(Kind::Deployment, &home.namespace, name, propagating())
                    .await
            }
        })
        .await?;
        eprintln!("bench: a bare client carried {count} deployments at {rate:.1}/s");
        self.bare.push(rate);
        sleep(DRAIN).await;
        Ok(())
    }

    /// The verdict over all bursts.
    pub(crate) fn figure(&self, count: usize) -> Figure {
        let (value, floor) = (mean(&self.carried), mean(&self.bare));
        let is_judged = self.program == Program::Gateway;
        Figure {
            name: format!(
                "{}P5 burst of {count} deployments over 2 projects, mean of {}",
                self.program.prefix(),
                self.carried.len()
            ),
            detail: String::new(),
            value: round(value),
            unit: "1/s",
            floor: Some(round(floor)),
            ratio: Some(round(value / floor)),
            bar: if is_judged { "≥ 90 % of bare" } else { "none" }.to_owned(),
            holds: !is_judged || value / floor >= 0.9,
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Write-backs for the first `count` deployments of a burst, with their projections awaited.
pub(crate) async fn instances(homes: &[Home<'_>; 2], count: usize) -> Result<()> {
    let complete = |state: Option<&DynamicObject>| {
        state.is_some_and(|o| o.data.pointer("/status/conditions/0").is_some())
    };
    stream::iter((0..count).map(Ok))
        .try_for_each_concurrent(INSTANCES_AT_ONCE, |number| async move {
            let home = &homes[number % homes.len()];
            let (owner, ns, hub_ns) = (format!("web-{number}"), &home.namespace, &home.hub_namespace);
            let name = format!("{owner}-0");
            let copy = home.hub.get(Kind::Deployment, hub_ns, &owner).await?;
            let object = write_back(&home.key, ns, &owner, text(&copy, "/metadata/uid"), &name);
            let projected = home.project.instance(ns, &name, complete);
            home.hub.create(Kind::Instance, hub_ns, object).await?;
            home.hub
                .status(Kind::Instance, hub_ns, &name, instance_status(false))
                .await?;
            projected.seen().await?;
            Ok::<_, anyhow::Error>(())
        })
        .await
}

/// Resident memory once the gateway is at rest, in MiB.
pub(crate) async fn at_rest(gateway: &Gateway) -> Result<f64> {
    sleep(REST).await;
    Ok(gateway.memory()?.0)
}

/// Memory that `count` objects took, per 1,000.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn per_thousand(name: &str, before: f64, after: f64, count: usize, bar: f64) -> Figure {
    let value = (after - before) * 1e3 / count as f64;
    Figure {
        name: format!("P10 memory per 1,000 {name}"),
        detail: format!("from {before:.1} to {after:.1} MiB"),
        value: round(value),
        unit: "MiB",
        floor: None,
        ratio: None,
        bar: format!("≤ {bar} MiB"),
        holds: value <= bar,
    }
}
