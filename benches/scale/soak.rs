//! R11: deployments come, change, are reported on and go while one request of the gateway in a hundred fails. Judged are
//! the slope of its memory and what is left over in the end. `FEDGATE_SCALE_SOAK` (10) is how many minutes it lasts.

use super::{
    acts::{deploy, edit, text},
    gateway::Gateway,
    objects,
    planes::{DEPLOYMENTS, NAMESPACE, Planes, failed, until},
    run::{Run, float, from_env, start},
};
use anyhow::{Context, Result};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_simulator::{
    Fault, Rule, When,
    karmada::{Cluster, Karmada, KarmadaOptions},
};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};

const PROJECTS: u64 = 10;
/// Names of deployments in each project.
const NAMES: u64 = 40;
/// Pause between two acts of tenants and cells.
const PAUSE: Duration = Duration::from_millis(50);
/// Share of the gateway's requests that fail.
const ERRORS: f64 = 0.01;
/// How often memory is read.
const SAMPLE: Duration = Duration::from_secs(15);

/// How they fail, each as often as the others.
const FAULTS: [Fault; 8] = [
    Fault::DropBefore,
    Fault::LoseAnswer,
    Fault::Conflict,
    Fault::TooMany { retry_after: None },
    Fault::Internal,
    Fault::Unavailable,
    Fault::TimeoutAfterApply,
    Fault::Reset,
];

pub(crate) async fn measure(run: &mut Run) -> Result<()> {
    let minutes = from_env("FEDGATE_SCALE_SOAK").unwrap_or(10.0);
    let mut planes = run.planes("soak").await?;
    let clusters = vec![Cluster::new("dfw-1", keys::CITY_CODE, "DFW")];
    let _karmada = Karmada::attach(
        &planes.hub,
        KarmadaOptions {
            clusters,
            ..KarmadaOptions::default()
        },
    );
    planes.grow(usize::try_from(PROJECTS)?)?;
    let gateway = start(&planes).await?;
    planes.watched().await?;
    planes.simulator.log().disable();
    let faults = planes.simulator.faults();
    let rules = FAULTS.map(|fault| faults.add(Rule::new(When::Chance(ERRORS / float(FAULTS.len())), fault)));
    let lasts = Duration::from_secs_f64(minutes * 60.0);
    let soaked = soak(&planes, &gateway, lasts).await?;
    let failed: u64 = rules.iter().map(|rule| faults.hits(*rule)).sum();
    faults.clear();
    let name = format!("R11 slope of memory over {minutes:.0} min");
    run.at_most(name, (soaked.slope, "MiB/h"), 1.0);
    run.detail(format!(
        "{} acts and {failed} failed requests, from {:.1} to {:.1} MiB",
        soaked.acts, soaked.first, soaked.last
    ));
    let left = ended(&planes).await?;
    run.at_most(
        "R11 objects left after all is deleted".to_owned(),
        (float(left), ""),
        0.0,
    );
    gateway.stop().await
}

struct Soaked {
    acts: u64,
    /// Memory after a quarter of the time, and at the end, in MiB.
    first: f64,
    last: f64,
    /// In MiB an hour.
    slope: f64,
}

async fn soak(planes: &Planes, gateway: &Gateway, lasts: Duration) -> Result<Soaked> {
    let (began, mut sampled, mut acts) = (Instant::now(), Instant::now(), 0);
    let mut readings = Vec::new();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut ticks = interval(PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while began.elapsed() < lasts {
        ticks.tick().await;
        // Xorshift: the same acts in each run.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        act(planes, random)?;
        acts += 1;
        if sampled.elapsed() >= SAMPLE {
            sampled = Instant::now();
            // Buffers and tables have their size after the first quarter.
            if began.elapsed() >= lasts / 4 {
                readings.push((began.elapsed().as_secs_f64() / 3600.0, gateway.memory()?.0));
            }
        }
    }
    let (first, last) = (readings.first(), readings.last());
    Ok(Soaked {
        acts,
        first: first.context("too short for a sample")?.1,
        last: last.context("too short for a sample")?.1,
        slope: slope(&readings),
    })
}

/// Of the line of least squares.
fn slope(samples: &[(f64, f64)]) -> f64 {
    let count = float(samples.len());
    let mean = |of: fn(&(f64, f64)) -> f64| samples.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|s| s.0), mean(|s| s.1));
    let (above, below) = samples.iter().fold((0.0, 0.0), |(above, below), s| {
        (above + (s.0 - x) * (s.1 - y), below + (s.0 - x).powi(2))
    });
    above / below
}

/// One act: of a tenant on a deployment, or of the cell on its copy.
fn act(planes: &Planes, random: u64) -> Result<()> {
    let project = &planes.projects[usize::try_from(random % PROJECTS)?];
    let name = format!("web-{}", (random >> 8) % NAMES);
    let Some(deployment) = project.get(DEPLOYMENTS, NAMESPACE, &name) else {
        return deploy(project, &name).map(drop);
    };
    if !deployment["metadata"]["deletionTimestamp"].is_null() {
        return Ok(());
    }
    match (random >> 16) % 8 {
        0 => project.delete(DEPLOYMENTS, NAMESPACE, &name).map_err(failed),
        1..=3 => edit(project, &name, usize::try_from((random >> 24) % 3 + 1)?),
        _ => report(
            planes,
            project.name(),
            text(&deployment, "uid"),
            &name,
            (random >> 24) % 3,
        ),
    }
}

/// The cell reports on the copy of a deployment, if there is one, and writes an Instance back.
fn report(planes: &Planes, project: &str, uid: &str, name: &str, ready: u64) -> Result<()> {
    let copies = planes.hub.list(DEPLOYMENTS);
    let Some(copy) = copies
        .iter()
        .find(|copy| copy["metadata"]["annotations"][keys::SOURCE_UID] == uid)
    else {
        return Ok(());
    };
    let namespace = text(copy, "namespace");
    // A copy that has gone meanwhile is no error, here and below.
    let _ = planes.report(namespace, name, u32::try_from(ready)?);
    let instance = format!("{name}-0");
    if planes.hub.get("instances", namespace, &instance).is_none() {
        let key = ProjectKey::parse(project)?;
        let mut object = objects::write_back(&key, NAMESPACE, name, text(copy, "uid"), &instance);
        object["apiVersion"] = json!("compute.datumapis.com/v1alpha");
        object["kind"] = json!("Instance");
        object["metadata"]["namespace"] = json!(namespace);
        let _ = planes.hub.create(object);
    }
    let status = json!({"status": objects::instance_status(ready > 0)});
    let _ = planes.hub.merge_status("instances", namespace, &instance, status);
    Ok(())
}

/// Everything is deleted; how many objects are left.
async fn ended(planes: &Planes) -> Result<usize> {
    for project in &planes.projects {
        for object in project.list(DEPLOYMENTS) {
            project
                .delete(DEPLOYMENTS, NAMESPACE, text(&object, "name"))
                .map_err(failed)?;
        }
    }
    let left = || {
        let projects = planes.projects.iter();
        let on_the_hub = ["resourcebindings", "instances"].map(|kind| planes.hub.count(kind));
        planes.copies()
            + on_the_hub.iter().sum::<usize>()
            + projects.map(|p| p.count(DEPLOYMENTS)).sum::<usize>()
            + planes.projections()
    };
    // That it does not come about is the figure.
    let _ = until("nothing is left", || left() == 0).await;
    Ok(left())
}
