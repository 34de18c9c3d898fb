//! The objects of one plane that a backend uses, from its watches and its own writes.

use kube::{
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use kube_runtime::watcher::Event;
use std::collections::{BTreeMap, BTreeSet};

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
    /// Group, version and kind.
    pub(super) fn gvk(self) -> GroupVersionKind {
        let networking = |kind| GroupVersionKind::gvk("networking.datumapis.com", "v1alpha", kind);
        match self {
            Self::ServingLocation => networking("ServingLocation"),
            Self::NetworkBinding => networking("NetworkBinding"),
            Self::NetworkContext => networking("NetworkContext"),
            Self::SubnetClaim => networking("SubnetClaim"),
            Self::Subnet => networking("Subnet"),
            Self::ResourceClaim => GroupVersionKind::gvk("quota.miloapis.com", "v1alpha1", "ResourceClaim"),
            Self::Budgets => GroupVersionKind::gvk("", "v1", "ConfigMap"),
        }
    }

    /// The API resource, for calls.
    pub(super) fn resource(self) -> ApiResource {
        ApiResource::from_gvk(&self.gvk())
    }
}

/// Namespace and name.
type Name = (String, String);

/// The known objects of a plane.
#[derive(Debug, Default)]
pub(super) struct Objects {
    kinds: BTreeMap<Kind, OfKind>,
}

#[derive(Debug, Default)]
struct OfKind {
    objects: BTreeMap<Name, DynamicObject>,
    /// Names seen since the list in progress began.
    listed: BTreeSet<Name>,
    synced: bool,
}

impl Objects {
    /// All objects of a kind, sorted by namespace and name.
    pub(super) fn all(&self, kind: Kind) -> impl Iterator<Item = &DynamicObject> {
        self.kinds
            .get(&kind)
            .into_iter()
            .flat_map(|of| of.objects.values())
    }

    /// Returns an object.
    pub(super) fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<&DynamicObject> {
        let at = (namespace.to_owned(), name.to_owned());
        self.kinds.get(&kind)?.objects.get(&at)
    }

    /// True if the first lists of these kinds are complete.
    pub(super) fn synced(&self, kinds: &[Kind]) -> bool {
        kinds
            .iter()
            .all(|kind| self.kinds.get(kind).is_some_and(|of| of.synced))
    }

    /// Applies a watch event. Objects missing from a list are removed once the list is complete.
    pub(super) fn take(&mut self, kind: Kind, event: Event<DynamicObject>) {
        match event {
            Event::Init => self.kinds.entry(kind).or_default().listed.clear(),
            Event::InitApply(object) | Event::Apply(object) => self.put(kind, object),
            Event::InitDone => {
                let of = self.kinds.entry(kind).or_default();
                let listed = std::mem::take(&mut of.listed);
                of.objects.retain(|name, _| listed.contains(name));
                of.synced = true;
            }
            Event::Delete(object) => {
                let of = self.kinds.entry(kind).or_default();
                let at = name(&object);
                if of
                    .objects
                    .get(&at)
                    .is_some_and(|have| version(have) <= version(&object))
                {
                    of.objects.remove(&at);
                }
            }
        }
    }

    /// Replaces the objects of a kind with a list that was read outside the watch.
    pub(super) fn replace(&mut self, kind: Kind, list: Vec<DynamicObject>) {
        let names: BTreeSet<Name> = list.iter().map(name).collect();
        let of = self.kinds.entry(kind).or_default();
        of.objects.retain(|name, _| names.contains(name));
        for object in list {
            self.put(kind, object);
        }
    }

    /// Stores an object from a watch or from the response to a write. A watch may still deliver an older version, which
    /// is skipped.
    pub(super) fn put(&mut self, kind: Kind, object: DynamicObject) {
        let of = self.kinds.entry(kind).or_default();
        let at = name(&object);
        of.listed.insert(at.clone());
        if of
            .objects
            .get(&at)
            .is_none_or(|have| version(have) <= version(&object))
        {
            of.objects.insert(at, object);
        }
    }
}

fn name(object: &DynamicObject) -> Name {
    let meta = &object.metadata;
    (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

fn version(object: &DynamicObject) -> u64 {
    let text = object.metadata.resource_version.as_deref();
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}
