//! The objects of one plane that a backend uses, from its watches and its own writes.

use crate::cache::Cache;
use kube::{api::ApiResource, core::GroupVersionKind};
use kube_runtime::watcher::Event;
use serde_json::Value;
use std::collections::BTreeMap;

/// A kind that the backends read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    ServingLocation,
    NetworkBinding,
    NetworkContext,
    SubnetClaim,
    Subnet,
    ResourceClaim,
    /// `ConfigMap`: only the budgets.
    Budgets,
}

impl Kind {
    /// The API resource, for calls.
    pub(super) fn resource(self) -> ApiResource {
        let (group, version, kind) = match self {
            Self::ResourceClaim => ("quota.miloapis.com", "v1alpha1", "ResourceClaim".to_owned()),
            Self::Budgets => ("", "v1", "ConfigMap".to_owned()),
            networking => ("networking.datumapis.com", "v1alpha", format!("{networking:?}")),
        };
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind))
    }
}

/// The known objects of a plane.
#[derive(Debug, Default)]
pub(super) struct Objects(BTreeMap<Kind, Cache>);

impl Objects {
    /// All objects of a kind, sorted by namespace and name.
    pub(super) fn all(&self, kind: Kind) -> impl Iterator<Item = &Value> {
        let objects = self.0.get(&kind).into_iter().flat_map(|cache| cache.list(None));
        objects.map(|object| &**object)
    }

    /// Returns an object.
    pub(super) fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Value> {
        self.0.get(&kind)?.get(namespace, name).map(|object| &**object)
    }

    /// True if the first lists of these kinds are complete.
    pub(super) fn synced(&self, kinds: &[Kind]) -> bool {
        kinds
            .iter()
            .all(|kind| self.0.get(kind).is_some_and(Cache::synced))
    }

    /// Applies a watch event.
    pub(super) fn take(&mut self, kind: Kind, event: Event<Value>) {
        self.0.entry(kind).or_default().take(event);
    }

    /// Replaces the objects of a kind with a list that was read outside the watch.
    pub(super) fn replace(&mut self, kind: Kind, list: Vec<Value>) {
        let objects = list.into_iter().map(Event::InitApply);
        for event in [Event::Init].into_iter().chain(objects).chain([Event::InitDone]) {
            self.take(kind, event);
        }
    }

    /// Stores an object from the response to a write.
    pub(super) fn put(&mut self, kind: Kind, object: Value) {
        self.0.entry(kind).or_default().put(object);
    }
}
