//! A drain of one of two cells: how many deployments move in a second, and how many Instances the project has ready meanwhile.

use super::{
    hops, judged,
    report::Figure,
    rig::{CELL, Rig},
    told,
};
use anyhow::{Context, Result, ensure};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::json;
use std::{
    path::Path,
    time::{Duration, Instant},
};
use tokio::time::sleep;

const OTHER: &str = "dfw-2";
const NAMESPACE: &str = "drained";
/// Pause between two looks at the planes.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest time until all Instances are ready, and longest drain.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Ready Instances of the project.
async fn ready(rig: &Rig) -> Result<usize> {
    let all = rig.instances(NAMESPACE).list(&ListParams::default()).await?;
    Ok(all
        .items
        .iter()
        .filter(|instance| hops::ready(Some(instance)))
        .count())
}

/// Deployments that Karmada schedules to this cell, or keeps there during a move.
async fn at(bindings: &Api<DynamicObject>, cell: &str) -> Result<usize> {
    let all = bindings.list(&ListParams::default()).await?;
    let is_there = |binding: &&DynamicObject| {
        let spec = &binding.data["spec"];
        let names = |list: &str, field: &str| {
            let mut items = spec[list].as_array().into_iter().flatten();
            items.any(|item| item[field] == cell)
        };
        spec["resource"]["kind"] == "WorkloadDeployment"
            && (names("clusters", "name") || names("gracefulEvictionTasks", "fromCluster"))
    };
    Ok(all.items.iter().filter(is_there).count())
}

/// Creates `count` deployments with one Instance each, and drains the cell that has more of them.
pub(crate) async fn measure(dir: &Path, count: usize) -> Result<Vec<Figure>> {
    eprintln!("bench: a drain of one of two cells with {count} deployments");
    let rig = Rig::up(dir, &[OTHER]).await?;
    let figures = drain(&rig, count).await;
    let down = rig.down().await;
    let figures = figures?;
    down.map(|()| figures)
}

async fn drain(rig: &Rig, count: usize) -> Result<Vec<Figure>> {
    let of = |group: &str, version: &str, kind: &str| {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::<DynamicObject>::all_with(rig.hub.clone(), &kind)
    };
    let bindings = of("work.karmada.io", "v1alpha2", "ResourceBinding");
    let clusters = of("cluster.karmada.io", "v1alpha1", "Cluster");
    rig.namespace(NAMESPACE).await?;
    for number in 0..count {
        rig.create(NAMESPACE, &format!("web{number}"), "OrderedReady", 1)
            .await?;
    }
    let begun = Instant::now();
    while ready(rig).await? < count {
        ensure!(
            begun.elapsed() < LIMIT,
            "not all Instances are ready after {LIMIT:?}"
        );
        sleep(PAUSE).await;
    }
    let there = [at(&bindings, CELL).await?, at(&bindings, OTHER).await?];
    let (drained, moves) = if there[0] >= there[1] {
        (CELL, there[0])
    } else {
        (OTHER, there[1])
    };
    let taint = json!({"spec": {"taints": [{"key": "fedgate.dev/draining", "effect": "NoSchedule"}]}});
    let begun = Instant::now();
    clusters
        .patch(drained, &PatchParams::default(), &Patch::Merge(taint))
        .await
        .with_context(|| format!("drain {drained}"))?;
    let (mut fewest, mut looks) = (count, 0);
    while at(&bindings, drained).await? > 0 {
        ensure!(begun.elapsed() < LIMIT, "{drained} is not empty after {LIMIT:?}");
        fewest = fewest.min(ready(rig).await?);
        looks += 1;
        sleep(PAUSE).await;
    }
    let took = begun.elapsed().as_secs_f64();
    #[allow(clippy::cast_precision_loss, reason = "counts are small")]
    let [moves, fewest, looks, all] = [moves, fewest, looks, count].map(|number| number as f64);
    let name = |what: &str| format!("drain with {count} deployments: {what}");
    Ok(vec![
        told(name("moves"), moves, ""),
        told(name("until the cell is empty"), took, "s"),
        told(name("moves a second"), moves / took, ""),
        told(name("looks at the project"), looks, ""),
        judged(
            name("fewest ready Instances"),
            fewest,
            "",
            &format!("= {count}"),
            fewest >= all,
        ),
    ])
}
