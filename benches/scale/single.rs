//! P1': deployments one at a time through an idle gateway, beside a bare client.

use super::{
    acts::deploy,
    bare::Bare,
    moments::creations,
    planes::shown,
    report::{Pairs, percentile},
    run::{Run, from_env, start, whole},
};
use anyhow::Result;
use std::time::Duration;

/// Samples that only warm connections and caches.
const WARM_UP: usize = 20;

pub(crate) async fn measure(run: &mut Run) -> Result<()> {
    let mut planes = run.planes("single").await?;
    planes.grow(1)?;
    let gateway = start(&planes).await?;
    planes.watched().await?;
    let bare = Bare::up(&planes, 1).await?;
    planes.simulator.keep_changes();
    let samples = from_env("FEDGATE_BENCH_SAMPLES").map_or(500, whole);
    let mut names = [Vec::new(), Vec::new()];
    for n in 0..samples + WARM_UP {
        let pair = [format!("web-{n}"), format!("bare-{n}")];
        for turn in [n % 2, 1 - n % 2] {
            if turn == 0 {
                deploy(&planes.projects[0], &pair[0])?;
                shown(&planes.hub, "the copy is there", || planes.copies() > n).await?;
            } else {
                let source = deploy(&bare.projects[0], &pair[1])?;
                bare.carry(0, &source).await?;
            }
        }
        if n >= WARM_UP {
            let [of_gateway, of_bare] = pair;
            names[0].push(of_gateway);
            names[1].push(of_bare);
        }
    }
    let changes = planes.changes();
    let of = |names: &[String], hub: &str| -> Vec<Duration> {
        let took = creations(&changes, hub);
        names
            .iter()
            .filter_map(|name| took.get(name.as_str()).copied())
            .collect()
    };
    let pairs = Pairs {
        gateway: of(&names[0], "hub"),
        bare: of(&names[1], "bare-hub"),
    };
    for (label, share, bar) in [("p50", 0.5, 2.0), ("p99", 0.99, 10.0)] {
        let name = format!("P1' create → copy, one at a time, {label}");
        let floor = percentile(&pairs.bare, share);
        run.beside(name, (percentile(&pairs.gateway, share), "ms"), Some(floor), bar);
        run.detail(format!("{} samples", pairs.gateway.len()));
    }
    gateway.stop().await
}
