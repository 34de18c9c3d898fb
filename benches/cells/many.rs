//! Many Instances of one deployment: how long they take, what they ask of the planes, the memory they need, and nothing
//! at rest.

use super::{
    asked::{Asked, Requests},
    judged, limited,
    report::Figure,
    rig::Rig,
    told,
};
use anyhow::Result;
use kube::core::DynamicObject;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// So long nothing may be asked.
const REST: Duration = Duration::from_secs(30);
/// The cell has come to rest when it has asked for nothing for this time.
const QUIET: Duration = Duration::from_secs(3);
/// Requests of the cell for an Instance until it is Ready.
const START: f64 = 11.0;
/// Requests of the cell for an Instance until it is gone (docs/performance.md names each).
const LIFE: f64 = 18.0;
/// Seconds until 1,000 Instances are Ready.
const READY: f64 = 140.0;
/// Seconds until 1,000 Instances are gone.
const GONE: f64 = 50.0;

fn per_instance(requests: Requests, count: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "counts are small")]
    let share = requests.all() as f64 / count as f64;
    share
}

/// Measures so many Instances of one deployment, from its Workload's creation to the last one's end.
pub(crate) async fn measure(rig: &mut Rig, policy: &str, count: usize) -> Result<Vec<Figure>> {
    let namespace = policy.to_lowercase();
    let there = rig.namespace(&namespace).await?;
    let deployment = "big-us-dfw";
    let asked = Asked::new(rig);
    asked.quiet(QUIET).await?;
    let (before, _) = rig.cell()?.memory()?;
    let mut figures = Vec::new();
    let mark = asked.mark();
    let all = move |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.data["status"]["readyReplicas"] == count)
    };
    let ready = rig.sights.cell_deployments.expect(&there, deployment, all);
    let begun = Instant::now();
    rig.create(&namespace, "big", policy, count).await?;
    let took = ready.after(begun).await?;
    let name = |what: &str| format!("{count} Instances, {policy}: {what}");
    #[allow(clippy::cast_precision_loss, reason = "counts are small")]
    let number = count as f64;
    figures.push(limited(
        name("all Ready at the cell"),
        took.as_secs_f64(),
        "s",
        READY * number / 1000.0,
    ));
    asked.quiet(QUIET).await?;
    let made = asked.since(&mark)?;
    let asked_for = per_instance(made, count);
    figures.push(limited(name("requests each, until Ready"), asked_for, "", START));
    let (after, highest) = rig.cell()?.memory()?;
    let growth = (after - before) * 1000.0 / number;
    figures.push(told(name("memory per 1,000"), growth, "MiB"));
    figures.push(told(name("memory at its highest"), highest, "MiB"));
    figures.extend(rest(rig, &asked, &name).await?);
    let mark = asked.mark();
    let gone = rig
        .sights
        .cell_deployments
        .expect(&there, deployment, |object| object.is_none());
    let last = rig
        .sights
        .cell_instances
        .expect(&there, &format!("{deployment}-0"), |object| object.is_none());
    let begun = Instant::now();
    rig.delete(&namespace, "big").await?;
    gone.seen().await?;
    last.seen().await?;
    asked.quiet(QUIET).await?;
    let ended = begun.elapsed().saturating_sub(QUIET);
    figures.push(limited(
        name("all gone"),
        ended.as_secs_f64(),
        "s",
        GONE * number / 1000.0,
    ));
    let life = per_instance(made, count) + per_instance(asked.since(&mark)?, count);
    figures.push(limited(name("requests of a life"), life, "", LIFE));
    Ok(figures)
}

/// Nothing is asked at rest, and nothing written by a restart.
async fn rest(rig: &mut Rig, asked: &Asked, name: &impl Fn(&str) -> String) -> Result<Vec<Figure>> {
    let exact = |what: &str, count: usize| {
        #[allow(clippy::cast_precision_loss, reason = "counts are small")]
        let value = count as f64;
        judged(name(what), value, "", "0", count == 0)
    };
    let mark = asked.mark();
    sleep(REST).await;
    let at_rest = exact("requests in 30 s of rest", asked.since(&mark)?.all());
    if let Some(cell) = rig.cell.take() {
        cell.stop().await?;
    }
    let mark = asked.mark();
    rig.start_cell().await?;
    asked.quiet(QUIET).await?;
    let written = asked.since(&mark)?.writes.iter().sum();
    Ok(vec![at_rest, exact("writes of a restart", written)])
}
