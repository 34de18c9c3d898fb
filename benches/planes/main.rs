//! What the gateway costs on real planes, always beside a bare kube client that sends the same requests in the same
//! run: latencies (P1–P4), a burst (P5), requests per action (P6), memory (P8, P10). docs/performance.md says how.
//!
//! `FEDGATE_BENCH_SAMPLES` (500) scales everything: so many samples of each latency, four times as many deployments
//! in a burst, twice as many Instances. `FEDGATE_BENCH_ONLY` names the parts to measure, `FEDGATE_BENCH_RUNS` (5) the
//! number of runs. All of it goes to target/bench/planes.json.

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
mod runs;
mod sight;

use anyhow::{Result, anyhow, bail};
use budget::Budget;
use burst::{Bursts, at_rest, instances, per_thousand};
use gateway::Gateway;
use report::Figure;
use rig::{Program, Rig};
use runs::Run;
use serde_json::json;
use std::{path::Path, process::ExitCode, time::Duration};
use tokio::time::sleep;

/// A run that takes longer is stuck.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// Rounds of the burst, each once by the gateway and once by the bare client.
const ROUNDS: usize = 2;
const SAMPLES: usize = 500;

/// A figure of memory alone.
fn memory(name: String, value: f64, bar: &str, holds: bool) -> Figure {
    Figure {
        name,
        detail: String::new(),
        value: report::round(value),
        unit: "MiB",
        floor: None,
        ratio: None,
        bar: bar.to_owned(),
        holds,
    }
}

/// What is measured, by the names that `FEDGATE_BENCH_ONLY` takes.
const PARTS: [&str; 5] = ["idle", "latency", "budget", "burst", "peer"];

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

async fn measure(rig: &Rig, samples: usize, run: &mut Run) -> Result<()> {
    let parts = parts()?;
    let wanted = |part: &str| parts.iter().any(|p| p == part);
    if wanted("idle") {
        idle(rig, &mut run.figures).await?;
    }
    let mut gateway = rig.gateway(true).await?;
    if wanted("latency") {
        eprintln!("bench: P1, P3, P4, {samples} samples each");
        lives(rig, Program::Gateway, &gateway, samples, run).await?;
        eprintln!("bench: P2, {samples} samples");
        let first = latency::first_of_namespace(rig, samples).await?;
        run.figures.extend(first.figures);
        run.samples["first of a namespace"] = first.raw;
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
        run.figures.append(&mut budget.figures);
        gateway = counted?;
    }
    if wanted("burst") {
        burst_and_memory(rig, gateway, samples, run).await?;
    } else {
        gateway.stop().await?;
    }
    if wanted("peer") {
        peer(rig, samples, run).await?;
    }
    Ok(())
}

/// P1, P3 and P4 of a program, and the CPU that it uses meanwhile.
async fn lives(rig: &Rig, program: Program, process: &Gateway, samples: usize, run: &mut Run) -> Result<()> {
    let before = process.cpu()?;
    let lives = latency::lives(rig, program, samples).await?;
    run.figures.extend(lives.figures);
    run.samples[program.namespace("latencies")] = lives.raw;
    let cpu = process.cpu()? - before;
    run.figures.push(Figure {
        unit: "s",
        ..memory(
            format!("{}CPU of {samples} lives", program.prefix()),
            cpu,
            "none",
            true,
        )
    });
    Ok(())
}

/// P1, P3, P4, CPU, P5 and memory of the comparison program, while no gateway runs.
async fn peer(rig: &Rig, samples: usize, run: &mut Run) -> Result<()> {
    eprintln!("bench: the peer");
    let process = rig.peer().await?;
    lives(rig, Program::Peer, &process, samples, run).await?;
    let deployments = samples * 4;
    let mut bursts = Bursts::new(Program::Peer);
    for _ in 0..ROUNDS {
        bursts.carried(rig, deployments).await?;
        bursts.bare(rig, deployments).await?;
    }
    run.figures.push(bursts.figure(deployments));
    let resident = at_rest(&process).await?;
    run.figures.push(memory(
        "peer memory with all of it".to_owned(),
        resident,
        "none",
        true,
    ));
    beside_the_peer(run);
    process.stop().await
}

/// The medians of the gateway beside those of the peer, each as a ratio to the bare client of its own turns.
fn beside_the_peer(run: &mut Run) {
    let ratio = |name: &str| run.figures.iter().find(|of| of.name == name)?.ratio;
    let peer = |name: &str| ratio(&format!("{}{name}", Program::Peer.prefix()));
    let medians = run.figures.iter().filter(|of| of.name.ends_with(", p50"));
    let compared = medians.filter_map(|of| {
        let value = of.ratio? / peer(&of.name)?;
        Some(Figure {
            unit: "",
            ..memory(
                format!("{}, gateway over peer", of.name),
                value,
                "≤ 1",
                value <= 1.0,
            )
        })
    });
    let compared: Vec<Figure> = compared.collect();
    run.figures.extend(compared);
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

async fn burst_and_memory(rig: &Rig, gateway: Gateway, samples: usize, run: &mut Run) -> Result<()> {
    let figures = &mut run.figures;
    let (deployments, write_backs) = (samples * 4, samples * 2);
    eprintln!("bench: P5 and P10, {deployments} deployments a burst, {write_backs} Instances");
    let before = at_rest(&gateway).await?;
    let mut bursts = Bursts::new(Program::Gateway);
    let homes = bursts.carried(rig, deployments).await?;
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
        bursts.carried(rig, deployments).await?;
    }
    figures.push(bursts.figure(deployments));
    run.samples["bursts"] = json!({"gateway": bursts.carried, "bare": bursts.bare});
    gateway.stop().await
}

/// One run, on planes of its own.
async fn one(dir: &Path, samples: usize) -> Result<(Run, Result<()>)> {
    let rig = Rig::up(dir).await?;
    eprintln!(
        "bench: hub controllers: {}; the bench plays Karmada and the cell where a figure needs them",
        rig.controllers
    );
    let mut run = Run::new(rig.hub.version().await?);
    let outcome = tokio::select! {
        outcome = tokio::time::timeout(LIMIT, measure(&rig, samples, &mut run)) => {
            outcome.unwrap_or_else(|_| Err(anyhow!("not finished after {LIMIT:?}")))
        }
        _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
    };
    // Dropped gateways have closed their holders' pipes; a moment later they are gone.
    sleep(Duration::from_millis(200)).await;
    let down = rig.down().await;
    Ok((run, outcome.and(down)))
}

async fn run() -> Result<()> {
    let samples = runs::from_env("FEDGATE_BENCH_SAMPLES")?.unwrap_or(SAMPLES);
    runs::repeat("planes", async |dir| Box::pin(one(dir, samples)).await).await
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
