//! Memory that the index takes, part by part, without any plane: `cargo bench --features jemalloc --bench index`.

mod fill;
mod idle;
#[path = "../planes/objects.rs"]
#[expect(dead_code, reason = "the other bench uses the rest")]
mod objects;
mod sets;
mod workloads;

use anyhow::Result;
use fedgate_engine::store::table::Row;
use fedgate_gateway::index::rows::{Binding, HubCopy, Projection, Source, WriteBackDigest};
use fill::{Filled, Size};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const SIZE: Size = Size {
    projects: 20,
    deployments: 100,
    instances: 3,
};

/// Projects that do nothing.
const IDLE: usize = 100;

/// Hub Namespaces and city sets of one project, as a tenant without bounds would have them.
const MANY: (usize, usize) = (10_000, 3_000);

/// Resident memory in KiB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next())
        .and_then(|kib| kib.parse().ok())
        .unwrap_or(f64::NAN)
}

fn main() -> Result<()> {
    let idle = idle::measure(IDLE)?;
    let usual = workloads::measure("Workloads", 1_000, 100)?;
    let large = workloads::measure("large Workloads", 400, 1_400 * 1024)?;
    let (rss, live) = (resident(), fill::live()?);
    let filled = Filled::new(SIZE)?;
    println!(
        "{:<16} {:>8} {:>10} {:>12}",
        "part", "count", "bytes", "bytes each"
    );
    for part in idle.iter().chain([&usual, &large]).chain(&filled.parts) {
        println!(
            "{:<16} {:>8} {:>10} {:>12}",
            part.name,
            part.count,
            part.bytes,
            part.each()
        );
    }
    println!("index: {} KiB allocated", (fill::live()? - live) / 1024);
    println!("index: {:.0} KiB resident", resident() - rss);
    println!(
        "rows: deployment {} copy {} binding {} write-back {} projection {}",
        size_of::<Row<Source>>(),
        size_of::<Row<HubCopy>>(),
        size_of::<Row<Binding>>(),
        size_of::<Row<WriteBackDigest>>(),
        size_of::<Row<Projection>>(),
    );
    drop(filled);
    let (namespaces, sets) = MANY;
    let cost = sets::measure(namespaces, sets)?;
    println!(
        "{namespaces} hub Namespaces with {sets} city sets: a turn {:?}, the end of a policy {:?}, which wakes {} keys",
        cost.turn, cost.end, cost.woken
    );
    Ok(())
}
