//! The gateway's access to the servers of the play, which applies every change to the index.

use super::{
    server::Servers,
    store::{Address, Server},
};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    executor::PlaneAccess,
    key::Plane,
    plan::{ReasonLabel, Target, WriteResult},
    plane::{
        health::PlaneHealth,
        watch::{WatchEvent, WatchSpec},
    },
    runtime::{Runtime, index::Index},
};
use fedgate_gateway::Gateway;
use futures::future::BoxFuture;
use kube::{Client, core::ApiResource};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::{
    Arc, OnceLock, Weak,
    atomic::{AtomicU64, Ordering},
};

/// The gateway's access to the servers.
pub(super) struct Planes {
    pub(super) servers: Arc<Mutex<Servers>>,
    pub(super) hub: Client,
    pub(super) project: Client,
    pub(super) key: ProjectKey,
    pub(super) engagement: AtomicU64,
    pub(super) runtime: OnceLock<Weak<Runtime<Gateway>>>,
}

impl Planes {
    /// A server as the gateway knows it, and the number of its engagement.
    pub(super) fn plane(&self, server: &Server) -> Option<(Plane, u64)> {
        match server {
            Server::Hub => Some((Plane::Hub, 0)),
            Server::Project => Some((
                Plane::Project(self.key.clone()),
                self.engagement.load(Ordering::Relaxed),
            )),
            Server::Member(_) => None,
        }
    }

    /// Applies the changes to the index.
    pub(super) fn feed(&self) {
        let Some(runtime) = self.runtime.get().and_then(Weak::upgrade) else {
            return;
        };
        let changes = self.servers.lock().store.changes();
        for (at, event) in changes {
            let Some((plane, engagement)) = self.plane(&at.server) else {
                continue;
            };
            let table = runtime.shared.index.lock().table_of(&target(&plane, &at));
            let Some(table) = table else { continue };
            let spec = runtime.shared.index.lock().watch_spec(&plane, table);
            let object = match &event {
                WatchEvent::Apply(object) | WatchEvent::Delete(object) => json!(object),
                _ => continue,
            };
            if is_watched(&spec, &at, &object) {
                runtime.shared.planes.event(&plane, engagement, table, event);
            }
        }
    }
}

/// An object as its table in the index needs it.
pub(super) fn target(plane: &Plane, at: &Address) -> Target {
    let resource = ApiResource {
        group: at.group.clone(),
        version: String::new(),
        api_version: String::new(),
        kind: String::new(),
        plural: at.plural.clone(),
    };
    if at.namespace.is_empty() {
        Target::cluster(plane.clone(), &resource, &at.name)
    } else {
        Target::namespaced(plane.clone(), &resource, &at.namespace, &at.name)
    }
}

/// True if a watch shows the object.
pub(super) fn is_watched(spec: &WatchSpec, at: &Address, object: &Value) -> bool {
    let label = spec.labels.as_ref().and_then(|text| text.split_once('='));
    spec.namespace
        .as_ref()
        .is_none_or(|namespace| *namespace == at.namespace)
        && label.is_none_or(|(key, value)| object["metadata"]["labels"][key] == *value)
}

impl PlaneAccess for Planes {
    fn client(&self, plane: &Plane) -> Option<Client> {
        match plane {
            Plane::Hub => Some(self.hub.clone()),
            Plane::Project(_) => Some(self.project.clone()),
            Plane::Cell => None,
        }
    }

    fn may_write(&self) -> bool {
        true
    }

    fn permit_expired(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn write_unresolved(&self, _: &Target) {}

    fn health(&self, _: &Plane) -> Option<Arc<PlaneHealth>> {
        None
    }

    fn object_observed(&self, _: &Target, _: u64, _: WriteResult) {
        self.feed();
    }

    fn wrote(&self, target: &Target, reason: ReasonLabel) {
        let namespace = target.namespace.as_deref().unwrap_or_default();
        let mut servers = self.servers.lock();
        servers.give_reason(target.plane.kind(), namespace, &target.name, reason.label());
    }

    fn fight_detected(&self, _: &Target, _: &'static str) {}
}
