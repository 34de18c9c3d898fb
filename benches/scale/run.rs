//! What a run has found, and how each part begins.

use super::{
    gateway::{Gateway, Place, cpu_seconds},
    operations::listen,
    planes::Planes,
    report::{Figure, round},
};
use anyhow::Result;
use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// Until unused connections are closed (30 s) and freed memory is back with the system.
pub(crate) const REST: Duration = Duration::from_secs(45);

/// A number that the environment has.
pub(crate) fn from_env(name: &str) -> Option<f64> {
    std::env::var(name).ok()?.parse().ok()
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are small and positive"
)]
pub(crate) fn whole(value: f64) -> usize {
    value as usize
}

#[allow(clippy::cast_precision_loss, reason = "counts are small")]
pub(crate) fn float(count: usize) -> f64 {
    count as f64
}

/// A count, as the run is to be large or small.
pub(crate) fn scaled(count: usize) -> usize {
    whole(float(count) * from_env("FEDGATE_SCALE_FACTOR").unwrap_or(1.0)).max(2)
}

/// One run.
pub(crate) struct Run {
    dir: PathBuf,
    pub(crate) figures: Vec<Figure>,
}

impl Run {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            figures: Vec::new(),
        }
    }

    /// Planes of their own for a part.
    pub(crate) async fn planes(&self, part: &str) -> Result<Planes> {
        Planes::up(self.dir.join(part)).await
    }

    /// The same, with projects of Milo.
    pub(crate) async fn planes_of_milo(&self, part: &str) -> Result<Planes> {
        let mut planes = self.planes(part).await?;
        planes.as_milo()?;
        Ok(planes)
    }

    /// A figure, with its bar in words.
    pub(crate) fn figure(
        &mut self,
        name: String,
        (value, unit): (f64, &'static str),
        floor: Option<f64>,
        bar: String,
        holds: bool,
    ) {
        eprintln!("bench: {name} {value:.2} {unit}, {bar}");
        self.figures.push(Figure {
            name,
            detail: String::new(),
            value: round(value),
            unit,
            floor: floor.map(round),
            ratio: floor.map(|floor| round(value / floor)),
            bar,
            holds,
        });
    }

    /// Numbers beside the last figure that differ from run to run.
    pub(crate) fn detail(&mut self, detail: String) {
        if let Some(last) = self.figures.last_mut() {
            eprintln!("bench: {}: {detail}", last.name);
            last.detail = detail;
        }
    }

    /// A figure that must not be more.
    pub(crate) fn at_most(&mut self, name: String, value: (f64, &'static str), bar: f64) {
        self.beside(name, value, None, bar);
    }

    /// The same beside a bare client's.
    pub(crate) fn beside(&mut self, name: String, value: (f64, &'static str), floor: Option<f64>, bar: f64) {
        let words = format!("≤ {bar} {}", value.1);
        self.figure(name, value, floor, words.trim_end().to_owned(), value.0 <= bar);
    }
}

/// Starts the gateway on these planes.
pub(crate) async fn start(planes: &Planes) -> Result<Gateway> {
    start_with(planes, &[]).await
}

/// The same with more flags.
pub(crate) async fn start_with(planes: &Planes, flags: &[&str]) -> Result<Gateway> {
    let projects = planes.project_flags();
    let projects: Vec<&OsStr> = projects.iter().map(OsString::as_os_str).collect();
    let place = Place {
        hub: planes.hub_kubeconfig(),
        projects: &projects,
        dir: &planes.process(),
        flags,
    };
    let gateway = Gateway::start(&place).await?;
    let streams = from_env("FEDGATE_SCALE_STREAMS").map_or(0, whole);
    // They end with the gateway.
    listen(&gateway.address, streams).await?.detach_all();
    Ok(gateway)
}

/// CPU that the gateway uses for so long, in percent of a core.
pub(crate) async fn share_of_core(gateway: &Gateway, watched: Duration) -> Result<f64> {
    let (began, cpu) = (Instant::now(), gateway.cpu()?);
    sleep(watched).await;
    Ok((gateway.cpu()? - cpu) / began.elapsed().as_secs_f64() * 100.0)
}

/// CPU seconds of the bench's own process, which is that of the planes and of the bare client.
pub(crate) fn own_cpu() -> Result<f64> {
    cpu_seconds("self")
}
