//! Memory that the index takes, part by part, and how long changes lock it, without any plane: `cargo bench --features jemalloc
//! --bench index`. `FEDGATE_BENCH_RUNS` (5) is the number of runs. All of it goes to target/bench/index.json.

mod clusters;
mod fill;
mod idle;
#[path = "../planes/objects.rs"]
#[expect(dead_code, reason = "the other bench uses the rest")]
mod objects;
#[path = "../planes/report.rs"]
#[expect(dead_code, reason = "the other benches use the rest")]
mod report;
#[path = "../planes/runs.rs"]
mod runs;
mod sets;
mod workloads;

use anyhow::Result;
use fedgate_engine::store::table::Row;
use fedgate_gateway::index::rows::{Binding, HubCopy, Projection, Source, WriteBackDigest};
use fill::{Filled, Part, Size};
use report::{Figure, round};
use runs::Run;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const SIZE: Size = Size {
    projects: 20,
    deployments: 100,
    instances: 3,
};

/// Projects among whose deployments a Cluster joins and leaves; each has a hundred.
const PROJECTS: [usize; 3] = [10, 100, 1_000];
/// The longest time in milliseconds for which a Cluster that no deployment names may lock the index.
const LOCKED: f64 = 5.0;

/// Projects that do nothing.
const IDLE: usize = 100;

/// Hub Namespaces and city sets of one project, as a tenant without bounds would have them.
const MANY: (usize, usize) = (10_000, 3_000);

/// A figure with a bar that holds or not.
fn judged(name: String, value: f64, unit: &'static str, bar: &str, holds: bool) -> Figure {
    Figure {
        name,
        detail: String::new(),
        value: round(value),
        unit,
        floor: None,
        ratio: None,
        bar: bar.to_owned(),
        holds,
    }
}

fn told(name: String, value: f64, unit: &'static str) -> Figure {
    judged(name, value, unit, "none", true)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[expect(clippy::cast_precision_loss, reason = "counts and sizes are small")]
fn float(count: usize) -> f64 {
    count as f64
}

/// The bytes of one object of a part.
#[expect(clippy::cast_precision_loss, reason = "sizes are small")]
fn each(part: &Part) -> Figure {
    told(
        format!("{} of {}, each", part.name, part.count),
        part.each() as f64,
        "bytes",
    )
}

fn rows() -> [Figure; 5] {
    [
        ("deployment", size_of::<Row<Source>>()),
        ("copy", size_of::<Row<HubCopy>>()),
        ("binding", size_of::<Row<Binding>>()),
        ("write-back", size_of::<Row<WriteBackDigest>>()),
        ("projection", size_of::<Row<Projection>>()),
    ]
    .map(|(name, size)| told(format!("row of a {name}"), float(size), "bytes"))
}

/// How long changes lock the index, and how many keys each enqueues.
fn locked(figures: &mut Vec<Figure>) -> Result<()> {
    let (namespaces, sets) = MANY;
    let cost = sets::measure(namespaces, sets)?;
    let what = format!("{namespaces} hub Namespaces with {sets} city sets");
    for (name, time) in [("a reconcile", cost.turn), ("the end of a policy", cost.end)] {
        figures.push(told(format!("{what}: {name} locks"), milliseconds(time), "ms"));
    }
    figures.push(told(
        format!("{what}: the end of a policy enqueues"),
        float(cost.woken),
        "keys",
    ));
    for projects in PROJECTS {
        let size = Size {
            projects,
            deployments: 100,
            instances: 0,
        };
        for (city, of) in [("DFW", "a third of them"), ("AMS", "none of them")] {
            let cost = clusters::measure(size, city)?;
            let what = format!(
                "{} deployments: a Cluster of a city that {of} names",
                projects * 100
            );
            let locks = milliseconds(cost.locked);
            let bar = (city == "AMS").then_some(LOCKED);
            figures.push(judged(
                format!("{what} locks"),
                locks,
                "ms",
                &bar.map_or_else(|| "none".to_owned(), |bar| format!("≤ {bar} ms")),
                bar.is_none_or(|bar| locks <= bar),
            ));
            figures.push(told(format!("{what} enqueues"), float(cost.keys), "keys"));
        }
    }
    Ok(())
}

fn one() -> Result<Run> {
    let mut run = Run::new("none".to_owned());
    let idle = idle::measure(IDLE)?;
    let usual = workloads::measure("Workloads", 1_000, 100)?;
    let large = workloads::measure("large Workloads", 400, 1_400 * 1024)?;
    let filled = Filled::new(SIZE)?;
    let parts = idle.iter().chain([&usual, &large]).chain(&filled.parts);
    run.figures.extend(parts.map(each));
    run.figures.extend(rows());
    drop(filled);
    locked(&mut run.figures)?;
    Ok(run)
}

fn main() -> Result<()> {
    // One part has a runtime of its own, so that none may run around it.
    futures::executor::block_on(runs::repeat("index", async |_| Ok((one()?, Ok(())))))
}
