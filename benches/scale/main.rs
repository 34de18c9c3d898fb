//! What the gateway costs with thousands of projects, whose planes a simulator plays over TCP, TLS and HTTP/2. The
//! gateway is a process of its own; planes and bare client are in this one. docs/performance.md says how.
//!
//! `FEDGATE_SCALE_ONLY` names the figures to measure, `FEDGATE_SCALE_FACTOR` (1) scales all counts,
//! `FEDGATE_SCALE_PROJECTS` (1,000) is the number of idle projects, `FEDGATE_SCALE_REST` (120) the time of rest in
//! seconds, `FEDGATE_SCALE_STREAMS` (0) the number of streams of the operations API that are open on each gateway,
//! `FEDGATE_BENCH_RUNS` (5) the number of runs. All of it goes to target/bench/scale.json.

mod acts;
mod address;
mod bare;
mod burst;
mod churn;
#[path = "../planes/gateway.rs"]
mod gateway;
mod growth;
mod idle;
mod kinds;
mod large;
mod load;
mod milo;
mod moments;
mod neighbours;
#[path = "../planes/objects.rs"]
#[expect(dead_code, reason = "the other bench uses the rest")]
mod objects;
mod operations;
mod planes;
#[path = "../planes/report.rs"]
#[expect(dead_code, reason = "the other bench uses the rest")]
mod report;
mod restart;
mod run;
#[path = "../planes/runs.rs"]
mod runs;
mod single;
mod soak;
mod storm;

use anyhow::{Result, anyhow, ensure};
use run::Run;
use std::path::Path;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The figures, each with the part that gives it; a part has planes of its own.
const FIGURES: [(&str, Part); 19] = [
    ("p1", Part::Single),
    ("p5", Part::Burst),
    ("p14", Part::Storm),
    ("p15", Part::Silent),
    ("p16", Part::Noisy),
    ("p12", Part::Restart),
    ("p13", Part::Restart),
    ("p8", Part::Idle),
    ("p9", Part::Idle),
    ("p17", Part::Idle),
    ("milo", Part::Milo),
    ("p7", Part::Load),
    ("p10", Part::Load),
    ("p11", Part::Load),
    ("p18", Part::Churn),
    ("large", Part::Large),
    ("operations", Part::Operations),
    ("growth", Part::Growth),
    ("soak", Part::Soak),
];

/// What is measured together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Single,
    Burst,
    Storm,
    Silent,
    Noisy,
    Restart,
    Idle,
    Milo,
    Load,
    Churn,
    Large,
    Operations,
    Growth,
    Soak,
}

impl Part {
    async fn measure(self, run: &mut Run) -> Result<()> {
        match self {
            Self::Single => single::measure(run).await,
            Self::Burst => burst::measure(run).await,
            Self::Storm => storm::measure(run).await,
            Self::Silent => neighbours::silent(run).await,
            Self::Noisy => neighbours::noisy(run).await,
            Self::Restart => restart::measure(run).await,
            Self::Idle => idle::measure(run).await,
            Self::Milo => milo::measure(run).await,
            Self::Load => load::measure(run).await,
            Self::Churn => churn::measure(run).await,
            Self::Large => large::measure(run).await,
            Self::Operations => operations::measure(run).await,
            Self::Growth => growth::measure(run).await,
            Self::Soak => soak::measure(run).await,
        }
    }
}

/// The parts that give these figures; all of them if none is named.
fn parts(only: &str) -> Result<Vec<Part>> {
    let names: Vec<&str> = only
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect();
    for name in &names {
        let known: Vec<&str> = FIGURES.iter().map(|(figure, _)| *figure).collect();
        ensure!(
            known.contains(name),
            "FEDGATE_SCALE_ONLY: there is no figure {name:?}; there are {}",
            known.join(", ")
        );
    }
    let chosen = FIGURES
        .iter()
        .filter(|(figure, _)| names.is_empty() || names.contains(figure));
    let mut parts: Vec<Part> = chosen.map(|(_, part)| *part).collect();
    parts.dedup();
    Ok(parts)
}

/// One run of these parts.
async fn one(parts: &[Part], dir: &Path) -> Result<(runs::Run, Result<()>)> {
    let mut all = runs::Run::new("simulator".to_owned());
    let mut run = Run::new(dir.to_owned());
    let mut failed = Vec::new();
    for part in parts {
        // The other parts can measure what one part cannot.
        if let Err(error) = part.measure(&mut run).await {
            eprintln!("bench: {part:?}: {error:?}");
            failed.push(format!("{part:?}"));
        }
    }
    all.figures = run.figures;
    let outcome = if failed.is_empty() {
        Ok(())
    } else {
        Err(anyhow!("parts that failed, see above: {}", failed.join(", ")))
    };
    Ok((all, outcome))
}

#[tokio::main]
async fn main() -> Result<()> {
    let only = std::env::var("FEDGATE_SCALE_ONLY").unwrap_or_default();
    let parts = parts(&only)?;
    runs::repeat("scale", async |dir| {
        Box::pin(one(&parts, &dir.with_file_name("bench-scale"))).await
    })
    .await
}
