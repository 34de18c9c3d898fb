//! What the gateway costs on real planes, always beside a bare kube client that sends the same requests in the same
//! run: latencies (P1–P4), a burst (P5), requests per action (P6), memory (P8, P10). docs/performance.md says how.
//!
//! `FEDGATE_BENCH_SAMPLES` (500) scales everything: so many samples of each latency, four times as many deployments
//! in a burst, twice as many Instances. `FEDGATE_BENCH_ONLY` names the parts to measure. Figures go to
//! target/bench/planes.json, samples to planes-samples.json.

mod audit;
mod budget;
mod burst;
#[expect(dead_code, reason = "the other bench uses the rest")]
mod gateway;
mod latency;
mod objects;
mod plane;
mod report;
mod rig;
mod sight;

use anyhow::{Context, Result, bail};
use budget::Budget;
use burst::{Bursts, at_rest, instances, per_thousand};
use gateway::Gateway;
use report::Figure;
use rig::Rig;
use serde_json::{Value, json};
use std::{path::Path, process::ExitCode, time::Duration};
use tokio::time::sleep;

/// A run that takes longer is stuck.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// Rounds of the burst, each once by the gateway and once by the bare client.
const ROUNDS: usize = 2;
const SAMPLES: usize = 500;

fn samples() -> Result<usize> {
    match std::env::var("FEDGATE_BENCH_SAMPLES") {
        Ok(text) => match text.parse() {
            Ok(count) if count > 0 => Ok(count),
            _ => bail!("FEDGATE_BENCH_SAMPLES is {text:?}; it must be a positive number"),
        },
        Err(_) => Ok(SAMPLES),
    }
}

/// A figure of memory alone.
fn memory(name: String, value: f64, bar: &str, holds: bool) -> Figure {
    Figure {
        name,
        value: report::round(value),
        unit: "MiB",
        floor: None,
        ratio: None,
        bar: bar.to_owned(),
        holds,
    }
}

/// What is measured, by the names that `FEDGATE_BENCH_ONLY` takes.
const PARTS: [&str; 4] = ["idle", "latency", "budget", "burst"];

fn parts() -> Result<Vec<String>> {
    let Ok(text) = std::env::var("FEDGATE_BENCH_ONLY") else {
        return Ok(PARTS.map(str::to_owned).into());
    };
    let parts: Vec<String> = text.split(',').map(str::to_owned).collect();
    if let Some(unknown) = parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
        bail!(
            "FEDGATE_BENCH_ONLY names {unknown:?}; it takes {}",
            PARTS.join(", ")
        );
    }
    Ok(parts)
}

async fn measure(rig: &Rig, samples: usize, figures: &mut Vec<Figure>, raw: &mut Value) -> Result<()> {
    let parts = parts()?;
    let wanted = |part: &str| parts.iter().any(|p| p == part);
    if wanted("idle") {
        idle(rig, figures).await?;
    }
    let mut gateway = rig.gateway(true).await?;
    if wanted("latency") {
        eprintln!("bench: P1, P3, P4, {samples} samples each");
        let lives = latency::lives(rig, samples).await?;
        figures.extend(lives.figures);
        raw["latencies"] = lives.raw;
        eprintln!("bench: P2, {samples} samples");
        let first = latency::first_of_namespace(rig, samples).await?;
        figures.extend(first.figures);
        raw["first of a namespace"] = first.raw;
    }
    if wanted("budget") {
        eprintln!("bench: P6");
        let mut budget = Budget::new(rig);
        let counted = async {
            budget.deployments().await?;
            budget.companions().await?;
            budget.rest(gateway).await
        }
        .await;
        figures.append(&mut budget.figures);
        gateway = counted?;
    }
    if wanted("burst") {
        burst_and_memory(rig, gateway, samples, figures, raw).await
    } else {
        gateway.stop().await
    }
}

async fn idle(rig: &Rig, figures: &mut Vec<Figure>) -> Result<()> {
    eprintln!("bench: P8, a gateway without projects");
    let idle = rig.gateway(false).await?;
    let resident = at_rest(&idle).await?;
    figures.push(memory(
        "P8 memory without a project".to_owned(),
        resident,
        "≤ 25 MiB",
        resident <= 25.0,
    ));
    idle.stop().await
}

async fn burst_and_memory(
    rig: &Rig,
    gateway: Gateway,
    samples: usize,
    figures: &mut Vec<Figure>,
    raw: &mut Value,
) -> Result<()> {
    let (deployments, write_backs) = (samples * 4, samples * 2);
    eprintln!("bench: P5 and P10, {deployments} deployments a burst, {write_backs} Instances");
    let before = at_rest(&gateway).await?;
    let mut bursts = Bursts::new();
    let homes = bursts.gateway(rig, deployments).await?;
    let with_deployments = at_rest(&gateway).await?;
    instances(&homes, write_backs).await?;
    let with_instances = at_rest(&gateway).await?;
    let highest = gateway.memory()?.1;
    figures.push(per_thousand(
        "deployments",
        before,
        with_deployments,
        deployments,
        3.0,
    ));
    figures.push(per_thousand(
        "Instances",
        with_deployments,
        with_instances,
        write_backs,
        4.0,
    ));
    let told = |name: &str, value| memory(name.to_owned(), value, "none", true);
    figures.push(told("P10 memory at its highest so far", highest));
    gateway.stop().await?;
    let gateway = rig.gateway(true).await?;
    let again = at_rest(&gateway).await?;
    figures.push(told("P10 memory with all of it after a restart", again));
    bursts.bare(rig, deployments).await?;
    for _ in 1..ROUNDS {
        bursts.bare(rig, deployments).await?;
        bursts.gateway(rig, deployments).await?;
    }
    figures.push(bursts.figure(deployments));
    raw["bursts"] = json!({"gateway": bursts.gateway, "bare": bursts.bare});
    gateway.stop().await
}

async fn run() -> Result<()> {
    let samples = samples()?;
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .context("find target/")?
        .join("bench");
    std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let rig = Rig::up(&dir).await?;
    println!(
        "hub controllers: {}; the bench plays Karmada and the cell where a figure needs them",
        rig.controllers
    );
    let (mut figures, mut raw) = (Vec::new(), json!({}));
    let outcome = tokio::select! {
        outcome = tokio::time::timeout(LIMIT, measure(&rig, samples, &mut figures, &mut raw)) => {
            outcome.unwrap_or_else(|_| Err(anyhow::anyhow!("not finished after {LIMIT:?}")))
        }
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    // Dropped gateways have closed their holders' pipes; a moment later they are gone.
    sleep(Duration::from_millis(200)).await;
    let down = rig.down().await;
    report::write(&dir.join("planes.json"), &figures)?;
    report::write(&dir.join("planes-samples.json"), &raw)?;
    print!("{}", report::table(&figures));
    println!("{}", dir.join("planes.json").display());
    outcome.and(down)
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
