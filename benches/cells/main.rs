//! What an Instance costs from its Workload to its end, on real planes with Pods that run at once (KWOK): the time of
//! every hop, many Instances at a time, requests of a life, memory, and nothing at rest; and a drain of one of two cells.
//! docs/performance.md says how.
//!
//! `FEDGATE_BENCH_SAMPLES` (100) scales everything: so many lives one at a time, ten times as many Instances at once,
//! and twice as many deployments before the drain.
//! `FEDGATE_BENCH_RUNS` (5) is the number of runs. All of it goes to target/bench/cells.json.

#[path = "../planes/report.rs"]
#[expect(dead_code, reason = "the other bench uses the rest")]
mod report;
#[path = "../planes/gateway.rs"]
#[expect(dead_code, reason = "the other benches use the rest")]
mod role;
#[path = "../planes/runs.rs"]
mod runs;
#[path = "../planes/sight.rs"]
mod sight;

mod asked;
mod hops;
mod many;
mod moves;
mod rig;

use anyhow::{Result, bail};
use report::Figure;
use rig::Rig;
use runs::Run;
use std::{path::Path, process::ExitCode, time::Duration};
use tokio::time::sleep;

/// A run that takes longer is stuck.
const LIMIT: Duration = Duration::from_secs(40 * 60);
const SAMPLES: usize = 100;

/// A figure for which no bar is set.
fn told(name: String, value: f64, unit: &'static str) -> Figure {
    judged(name, value, unit, "none", true)
}

/// A figure that may be this much.
fn limited(name: String, value: f64, unit: &'static str, limit: f64) -> Figure {
    judged(name, value, unit, &format!("≤ {limit} {unit}"), value <= limit)
}

fn judged(name: String, value: f64, unit: &'static str, bar: &str, holds: bool) -> Figure {
    Figure {
        name,
        detail: String::new(),
        value: report::round(value),
        unit,
        floor: None,
        ratio: None,
        bar: bar.trim_end().to_owned(),
        holds,
    }
}

/// Ends work that takes longer than [`LIMIT`], or is interrupted.
async fn bounded<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        outcome = tokio::time::timeout(LIMIT, work) => outcome.unwrap_or_else(|_| bail!("not finished after {LIMIT:?}")),
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
    }
}

/// One run, on planes of its own.
async fn one(dir: &Path, samples: usize) -> Result<(Run, Result<()>)> {
    let mut rig = Rig::up(dir, &[]).await?;
    eprintln!(
        "bench: hub controllers: {}; Pods are played by KWOK",
        rig.controllers
    );
    let mut run = Run::new(rig.version().await?);
    let work = async {
        eprintln!("bench: {samples} lives, one at a time");
        let hops = hops::measure(&rig, samples).await?;
        run.figures.extend(hops.figures());
        run.samples["hops"] = hops.raw();
        for (policy, count) in [("Parallel", samples * 10), ("OrderedReady", samples * 2)] {
            eprintln!("bench: {count} Instances, {policy}");
            run.figures.extend(many::measure(&mut rig, policy, count).await?);
        }
        Ok(())
    };
    let outcome = bounded(work).await;
    let down = rig.down().await;
    let outcome = match outcome {
        Ok(()) => bounded(Box::pin(moves::measure(dir, samples * 2)))
            .await
            .map(|moved| run.figures.extend(moved)),
        failed => failed,
    };
    // Dropped roles have closed their holders' pipes; a moment later they are gone.
    sleep(Duration::from_millis(200)).await;
    Ok((run, outcome.and(down)))
}

async fn run() -> Result<()> {
    let samples = runs::from_env("FEDGATE_BENCH_SAMPLES")?.unwrap_or(SAMPLES);
    runs::repeat("cells", async |dir| Box::pin(one(dir, samples)).await).await
}

#[tokio::main]
async fn main() -> ExitCode {
    match Box::pin(run()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
