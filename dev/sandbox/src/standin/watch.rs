//! Watches one kind on one plane.

use super::{
    refs::{Kind, Plane},
    wake, wire,
    world::World,
};
use crate::child::FixedBackoff;
use futures::StreamExt;
use kube::{Api, api::DynamicObject, discovery};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event, watcher},
};
use std::{sync::Arc, time::Duration};

const UNTIL_SERVED: Duration = Duration::from_millis(250);
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Waits until the plane serves the kind, then keeps its mirror current forever.
pub(super) async fn run(world: Arc<World>, plane: Plane, kind: Kind) {
    let Ok(client) = world.client(&plane).cloned() else {
        return;
    };
    let (mirror, _) = world.mirrors.ensure(&plane, &kind);
    let gvk = kind.gvk();
    let (resource, scope) = loop {
        let asked = tokio::time::timeout(ANSWER_LIMIT, discovery::pinned_kind(&client, &gvk)).await;
        if let Ok(Ok((resource, capabilities))) = asked {
            break (resource, capabilities.scope);
        }
        tokio::time::sleep(UNTIL_SERVED).await;
    };
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    // Only this task sets it.
    let _ = mirror.served.set((resource, scope));
    let types = wire::types(&kind);
    // Items of a list have no `apiVersion` and `kind`; `managedFields` are not needed.
    let events = watcher(api, watcher::Config::default())
        .backoff(FixedBackoff)
        .modify(move |object| {
            object.types = Some(types.clone());
            object.metadata.managed_fields = None;
        });
    tokio::pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                let listed = matches!(event, Event::InitDone);
                for change in mirror.take(event) {
                    wake::changed(&world, &plane, &kind, &change);
                }
                if listed {
                    wake::synced(&world, &plane, &kind);
                }
            }
            Err(error) => {
                tracing::debug!(?plane, kind = %kind.kind, %error, "a watch broke and is opened again");
            }
        }
    }
}
