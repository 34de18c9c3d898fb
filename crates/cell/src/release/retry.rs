//! The controller of release records: it tries each recorded release until its plane answers (contract: cell.md §6).

use super::{Released, Releaser};
use crate::{
    context::Context,
    index::{
        release_records::{self, Records},
        tables::TableId,
    },
    reason::WriteReason,
    writes::delete,
};
use fedgate_engine::{
    error::Failure,
    key::{Key, Plane},
    metrics::Family,
    plan::{Effect, Plan, Requeue, Target, Write},
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// Reconciles a `ConfigMap` of records: each record is tried unless its plane is in a pause.
pub async fn reconcile(ctx: &Context<'_>, key: &Key, releaser: &Releaser) -> Result<Requeue, Failure> {
    let known: Option<(Arc<str>, String, Records)> = {
        let index = ctx.index.lock();
        let row = index
            .releases
            .get(&key.namespace, &key.name)
            .filter(|row| !row.deleting);
        row.map(|row| (row.uid.clone(), row.resource_version(), row.digest.clone()))
    };
    let Some((uid, version, records)) = known else {
        return Ok(Requeue::AwaitChange);
    };
    let (mut done, mut next) = (Map::new(), Requeue::AwaitChange);
    let claimants = claimants(ctx);
    for (instance, text) in &records {
        let mut left = Vec::new();
        for record in release_records::read(text) {
            // Quota is on again, and the Instance keeps its grant.
            if record.plane != release_records::HUB && claimants.contains(instance.as_str()) {
                continue;
            }
            let (Released::PlaneDown(after) | Released::Connecting(after)) =
                releaser.attempt(ctx, instance, &record).await
            else {
                continue;
            };
            let now = ctx.now().wall;
            let record = record.seen(now);
            if record.is_given_up(now) {
                tracing::warn!(
                    plane = record.plane,
                    kind = record.kind,
                    namespace = record.namespace,
                    name = record.name,
                    "the plane did not answer for a week; its object is not released"
                );
                ctx.metrics.count(Family::ReleasesDropped, &["expired"]);
                continue;
            }
            next = next.earlier(Requeue::After(after));
            left.push(record);
        }
        let now = (!left.is_empty()).then(|| release_records::write(&left));
        if now.as_deref() != Some(text) {
            done.insert(instance.clone(), json!(now));
        }
    }
    let target = Target::namespaced(
        Plane::Cell,
        &TableId::Releases.resource(),
        &key.namespace,
        &key.name,
    );
    if records
        .keys()
        .all(|instance| done.get(instance) == Some(&Value::Null))
    {
        let mut effect = delete(target, &uid, WriteReason::ReleasesDone);
        if let Write::Delete { resource_version, .. } = &mut effect.write {
            // Another record may have been added meanwhile.
            *resource_version = Some(version);
        }
        ctx.execute(Plan::one(effect)).await?;
    } else if !done.is_empty() {
        let write = Write::Merge {
            patch: json!({"metadata": {"uid": *uid, "resourceVersion": version}, "data": done}),
        };
        ctx.execute(Plan::one(Effect::main(target, write, WriteReason::ReleaseDone)))
            .await?;
    }
    Ok(next)
}

/// The Instances that claim quota.
fn claimants(ctx: &Context<'_>) -> BTreeSet<Arc<str>> {
    if !ctx.settings.quota {
        return BTreeSet::new();
    }
    let index = ctx.index.lock();
    let live = index.instances.iter().filter(|(_, row)| !row.deleting);
    live.map(|(_, row)| row.uid.clone()).collect()
}
