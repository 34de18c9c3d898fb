//! P5: many deployments at once, beside a bare client.

use super::{
    acts::deploy,
    bare::Bare,
    planes::{Planes, shown},
    run::{Run, float, own_cpu, scaled, start},
};
use anyhow::Result;
use tokio::time::Instant;

/// Deployments that the bare client carries at once: as many as the gateway sends requests to a plane.
const AT_ONCE: usize = 64;

pub(crate) async fn measure(run: &mut Run) -> Result<()> {
    let (homes, count) = (scaled(50), scaled(5_000));
    let mut planes = run.planes("burst").await?;
    planes.grow(homes)?;
    let gateway = start(&planes).await?;
    planes.watched().await?;
    let bare = Bare::up(&planes, homes).await?;
    planes.fill(0..homes, 0..homes).await?;
    planes.quiet().await?;

    planes.forget_requests();
    let (cpu, own, began) = (gateway.cpu()?, own_cpu()?, Instant::now());
    create(&planes, homes, count).await?;
    shown(&planes.hub, "every deployment has its copy", || {
        planes.copies() >= homes + count
    })
    .await?;
    let rate = float(count) / began.elapsed().as_secs_f64();
    let (cpu, own) = (gateway.cpu()? - cpu, own_cpu()? - own);
    let asked = planes.requests(|_| true).len();
    planes.quiet().await?;

    let (bare_own, began) = (own_cpu()?, Instant::now());
    let mut sources = Vec::with_capacity(count);
    for n in 0..count {
        sources.push((
            n % homes,
            deploy(&bare.projects[n % homes], &format!("burst-{n}"))?,
        ));
    }
    bare.carry_all(sources, AT_ONCE).await?;
    let floor = float(count) / began.elapsed().as_secs_f64();
    let bare_own = own_cpu()? - bare_own;
    let name = format!("P5 burst of {count} deployments over {homes} projects");
    run.figure(
        name,
        (rate, "1/s"),
        Some(floor),
        "≥ 2000/s".to_owned(),
        rate >= 2_000.0,
    );
    run.detail(format!("{asked} requests"));
    run.figure(
        "P5 CPU of the gateway".to_owned(),
        (cpu, "s"),
        None,
        "–".to_owned(),
        true,
    );
    run.detail(format!("planes {own:.1} s, with the bare client {bare_own:.1} s"));
    gateway.stop().await
}

/// Tenants create deployments in all projects.
async fn create(planes: &Planes, homes: usize, count: usize) -> Result<()> {
    for n in 0..count {
        deploy(&planes.projects[n % homes], &format!("burst-{n}"))?;
        if n % 50 == 0 {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}
