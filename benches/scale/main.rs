//! What the gateway costs with thousands of projects, whose planes a simulator plays over TCP, TLS and HTTP/2. The
//! gateway is a process of its own. docs/performance.md says how.
//!
//! `FEDGATE_SCALE_FACTOR` (1) scales all counts, `FEDGATE_SCALE_REST` (120) is the time of rest in seconds, and
//! `FEDGATE_SCALE_ONLY` names the parts to measure: `idle`, `load`. Figures go to target/bench/scale.json.

#[path = "../planes/gateway.rs"]
mod gateway;
#[path = "../planes/objects.rs"]
#[expect(dead_code, reason = "the other bench uses the rest")]
mod objects;
mod planes;
#[path = "../planes/report.rs"]
#[expect(dead_code, reason = "the other bench uses the rest")]
mod report;
mod serve;

use anyhow::{Context, Result};
use fedgate_simulator::Verb;
use gateway::{Gateway, Place};
use planes::{Planes, until};
use report::{Figure, round};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// Until unused connections are closed (30 s) and freed memory is back with the system.
const REST: Duration = Duration::from_secs(45);

fn number(name: &str, default: f64) -> f64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss
)]
fn scaled(count: usize) -> usize {
    ((count as f64 * number("FEDGATE_SCALE_FACTOR", 1.0)) as usize).max(2)
}

/// One run.
struct Run {
    dir: PathBuf,
    planes: Planes,
    figures: Vec<Figure>,
}

#[allow(clippy::cast_precision_loss)]
fn float(count: usize) -> f64 {
    count as f64
}

impl Run {
    fn figure(&mut self, name: String, value: f64, unit: &'static str, bar: f64, floor: Option<f64>) {
        self.figures.push(Figure {
            name,
            value: round(value),
            unit,
            floor: floor.map(round),
            ratio: floor.map(|floor| round(value / floor)),
            bar: format!("≤ {bar} {unit}"),
            holds: value <= bar,
        });
        if let Some(figure) = self.figures.last() {
            eprintln!(
                "bench: {} {} {}, {}",
                figure.name, figure.value, figure.unit, figure.bar
            );
        }
    }

    async fn start(&self) -> Result<Gateway> {
        Gateway::start(&Place {
            hub: self.planes.hub_kubeconfig(),
            projects: &self.planes.directory(),
            dir: &self.dir,
        })
        .await
    }

    /// P8, P9, P11', P17: projects that do nothing.
    async fn idle(&mut self, gateway: &Gateway) -> Result<()> {
        sleep(REST).await;
        let none = gateway.memory()?.0;
        self.figure("P8 memory without a project".to_owned(), none, "MiB", 25.0, None);
        let (few, many) = (scaled(100), scaled(1_000));
        self.planes.grow(few)?;
        self.planes.watched().await?;
        sleep(REST).await;
        let before = gateway.memory()?.0;
        self.planes.grow(many)?;
        self.planes.watched().await?;
        sleep(REST).await;
        let after = gateway.memory()?.0;
        let each = (after - before) * 1024.0 / float(many - few);
        let name = format!(
            "P9 memory of an idle project, from {before:.1} MiB with {few} to {after:.1} with {many}"
        );
        self.figure(name, each, "KiB", 64.0, None);
        let sockets = float(gateway.sockets()?);
        self.figure(
            format!("P11' sockets, {many} idle projects"),
            sockets,
            "",
            500.0,
            None,
        );
        let (began, cpu) = (Instant::now(), gateway.cpu()?);
        sleep(Duration::from_secs(30)).await;
        let share = (gateway.cpu()? - cpu) / began.elapsed().as_secs_f64() * 100.0;
        self.figure(
            format!("P17 CPU, {many} idle projects"),
            share,
            "% of a core",
            2.0,
            None,
        );
        Ok(())
    }

    /// P5, P10: everything that tenants, Karmada and cells bring.
    async fn load(&mut self, gateway: &Gateway) -> Result<()> {
        let (homes, all) = (scaled(50), scaled(5_000));
        self.planes.grow(2 * homes)?;
        self.planes.watched().await?;
        sleep(REST).await;
        let before = gateway.memory()?.0;
        let rate = self.burst(0..homes, all).await?;
        self.figures.push(Figure {
            name: format!("P5 burst of {all} deployments over {homes} projects"),
            value: round(rate),
            unit: "1/s",
            floor: None,
            ratio: None,
            bar: "≥ 2000/s".to_owned(),
            holds: rate >= 2_000.0,
        });
        eprintln!("bench: P5 {rate:.0}/s");
        self.burst(homes..2 * homes, all).await?;
        self.planes.bind()?;
        self.planes.quiet().await?;
        sleep(REST).await;
        let deployed = gateway.memory()?.0;
        let name = format!("P10 memory per 1,000 deployments, from {before:.1} to {deployed:.1} MiB");
        self.figure(name, (deployed - before) * 1e3 / float(2 * all), "MiB", 3.0, None);
        let count = self.planes.write_back(3)?;
        let planes = &self.planes;
        until("every Instance is projected", || planes.projections() >= count).await?;
        self.planes.quiet().await?;
        sleep(REST).await;
        let full = gateway.memory()?.0;
        let name = format!("P10 memory per 1,000 Instances, from {deployed:.1} to {full:.1} MiB");
        self.figure(name, (full - deployed) * 1e3 / float(count), "MiB", 4.0, None);
        Ok(())
    }

    /// Deployments in these projects, all at once; the rate at which copies came.
    async fn burst(&self, homes: std::ops::Range<usize>, count: usize) -> Result<f64> {
        let there = self.planes.copies();
        let began = Instant::now();
        for n in 0..count {
            self.planes
                .deploy(homes.start + n % homes.len(), &format!("web-{n}"))?;
            if n % 50 == 0 {
                tokio::task::yield_now().await;
            }
        }
        let planes = &self.planes;
        until("every deployment has its copy", || {
            planes.copies() >= there + count
        })
        .await?;
        Ok(float(count) / began.elapsed().as_secs_f64())
    }

    /// P7, P11: at rest, with every list read anew.
    async fn rest(&mut self, gateway: &Gateway) -> Result<()> {
        let resting = gateway.memory()?.0;
        let what = format!(
            "{} projects, {} copies",
            self.planes.projects.len(),
            self.planes.copies()
        );
        self.figure(format!("P11 memory with {what}"), resting, "MiB", 200.0, None);
        gateway.forget_peak()?;
        self.planes.forget_requests();
        let began = Instant::now();
        self.planes.force_lists();
        sleep(Duration::from_secs_f64(number("FEDGATE_SCALE_REST", 120.0))).await;
        let peak = gateway.memory()?.1 / resting;
        self.figure(
            "P11 peak of a re-list of everything".to_owned(),
            peak,
            "×",
            1.5,
            None,
        );
        let asked = self.planes.requests(|verb| verb.writes() || verb == Verb::Get);
        for entry in asked.iter().take(5) {
            eprintln!("bench: at rest, {} {} {}", entry.verb, entry.resource, entry.name);
        }
        let lists = self.planes.requests(|verb| verb == Verb::List).len();
        let name = format!(
            "P7 writes and gets in {} s at rest, beside {lists} lists",
            began.elapsed().as_secs()
        );
        self.figure(name, float(asked.len()), "", 0.0, None);
        Ok(())
    }

    /// P12: a restart, until nothing is left to do.
    async fn restart(&mut self, gateway: Gateway) -> Result<()> {
        gateway.stop().await?;
        self.planes.forget_requests();
        let began = Instant::now();
        let gateway = self.start().await?;
        gateway.at_rest().await?;
        let took = began.elapsed().as_secs_f64();
        self.figure("P12 restart until converged".to_owned(), took, "s", 3.0, None);
        sleep(REST).await;
        let writes = self.planes.requests(Verb::writes).len();
        self.figure("P12 writes of a restart".to_owned(), float(writes), "", 0.0, None);
        let (now, peak) = gateway.memory()?;
        self.figure(
            format!("P11 memory after a restart, {peak:.1} MiB at its highest"),
            now,
            "MiB",
            200.0,
            None,
        );
        gateway.stop().await
    }

    async fn measure(&mut self) -> Result<()> {
        let only = std::env::var("FEDGATE_SCALE_ONLY").unwrap_or_else(|_| "idle,load".to_owned());
        let gateway = self.start().await?;
        if only.contains("idle") {
            self.idle(&gateway).await?;
        }
        if !only.contains("load") {
            return gateway.stop().await;
        }
        self.load(&gateway).await?;
        self.rest(&gateway).await?;
        self.restart(gateway).await
    }
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    let dir = target.join("bench-scale");
    let planes = Planes::up(&dir).await.context("bring the planes up")?;
    let mut run = Run {
        dir,
        planes,
        figures: Vec::new(),
    };
    let measured = run.measure().await;
    report::write(&target.join("bench/scale.json"), &run.figures)?;
    println!("{}", report::table(&run.figures));
    measured?;
    Ok(ExitCode::SUCCESS)
}
