//! Watch caches: one mirror per plane and kind.

use super::refs::{Kind, ObjectRef, Plane};
use kube::{
    api::{ApiResource, DynamicObject},
    discovery::Scope,
};
use kube_runtime::watcher::Event;
use parking_lot::RwLock;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, OnceLock},
};

type Name = (Arc<str>, Arc<str>);

/// A change of one object.
#[derive(Debug, Clone)]
pub(super) struct Change {
    /// The object before the change.
    pub(super) old: Option<Arc<DynamicObject>>,
    /// The object after the change.
    pub(super) new: Option<Arc<DynamicObject>>,
}

impl Change {
    /// The last known state of the object.
    pub(super) fn latest(&self) -> Option<&Arc<DynamicObject>> {
        self.new.as_ref().or(self.old.as_ref())
    }

    /// The existing states: old, then new.
    pub(super) fn both(&self) -> impl Iterator<Item = &Arc<DynamicObject>> {
        self.old.iter().chain(self.new.iter())
    }
}

/// The objects of one kind on one plane.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    /// Plural and scope, once the plane serves the kind.
    pub(super) served: OnceLock<(ApiResource, Scope)>,
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    objects: BTreeMap<Name, Arc<DynamicObject>>,
    /// Names in the list that is in progress.
    listed: BTreeSet<Name>,
    synced: bool,
}

impl Mirror {
    /// True if a first list is complete.
    pub(super) fn synced(&self) -> bool {
        self.inner.read().synced
    }

    /// Returns an object.
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<Arc<DynamicObject>> {
        self.inner
            .read()
            .objects
            .get(&(namespace.into(), name.into()))
            .cloned()
    }

    /// All objects, or those of one namespace.
    pub(super) fn list(&self, namespace: Option<&str>) -> Vec<Arc<DynamicObject>> {
        let inner = self.inner.read();
        match namespace {
            None => inner.objects.values().cloned().collect(),
            Some(namespace) => {
                let from: Name = (namespace.into(), "".into());
                inner
                    .objects
                    .range(from..)
                    .take_while(|((at, _), _)| &**at == namespace)
                    .map(|(_, o)| o.clone())
                    .collect()
            }
        }
    }

    /// Applies a watch event and returns its changes. Objects missing from a list are removed once the list is
    /// complete.
    pub(super) fn take(&self, event: Event<DynamicObject>) -> Vec<Change> {
        let mut inner = self.inner.write();
        match event {
            Event::Init => {
                inner.listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                inner.listed.insert(name_of(&object));
                inner.put(object).into_iter().collect()
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut inner.listed);
                let gone: Vec<Name> = inner
                    .objects
                    .keys()
                    .filter(|name| !listed.contains(*name))
                    .cloned()
                    .collect();
                inner.synced = true;
                gone.into_iter().filter_map(|name| inner.remove(&name)).collect()
            }
            Event::Apply(object) => inner.put(object).into_iter().collect(),
            Event::Delete(object) => inner.remove(&name_of(&object)).into_iter().collect(),
        }
    }
}

impl Inner {
    fn put(&mut self, object: DynamicObject) -> Option<Change> {
        let new = Arc::new(object);
        let old = self.objects.insert(name_of(&new), Arc::clone(&new));
        let same = old
            .as_ref()
            .is_some_and(|old| old.metadata.resource_version == new.metadata.resource_version);
        (!same).then_some(Change { old, new: Some(new) })
    }

    fn remove(&mut self, name: &Name) -> Option<Change> {
        self.objects.remove(name).map(|old| Change {
            old: Some(old),
            new: None,
        })
    }
}

fn name_of(object: &DynamicObject) -> Name {
    let text = |value: &Option<String>| value.as_deref().unwrap_or_default().into();
    (text(&object.metadata.namespace), text(&object.metadata.name))
}

/// All mirrors.
#[derive(Debug, Default)]
pub(super) struct Mirrors {
    map: RwLock<HashMap<(Plane, Kind), Arc<Mirror>>>,
}

impl Mirrors {
    /// The mirror of a kind, and true if it is new: the caller must then start a watch for it.
    pub(super) fn ensure(&self, plane: &Plane, kind: &Kind) -> (Arc<Mirror>, bool) {
        let at = (plane.clone(), kind.clone());
        if let Some(mirror) = self.map.read().get(&at) {
            return (Arc::clone(mirror), false);
        }
        let mut map = self.map.write();
        let new = !map.contains_key(&at);
        (Arc::clone(map.entry(at).or_default()), new)
    }

    /// The mirror of a kind, if it is watched.
    pub(super) fn get(&self, plane: &Plane, kind: &Kind) -> Option<Arc<Mirror>> {
        self.map.read().get(&(plane.clone(), kind.clone())).cloned()
    }

    /// Returns an object, if its kind is watched and it exists.
    pub(super) fn object(&self, plane: &Plane, at: &ObjectRef) -> Option<Arc<DynamicObject>> {
        self.get(plane, &at.kind)?.get(&at.namespace, &at.name)
    }

    /// All objects of a kind, or those of one namespace.
    pub(super) fn list(
        &self,
        plane: &Plane,
        kind: &Kind,
        namespace: Option<&str>,
    ) -> Vec<Arc<DynamicObject>> {
        self.get(plane, kind)
            .map(|mirror| mirror.list(namespace))
            .unwrap_or_default()
    }

    /// True if a kind's first list is complete.
    pub(super) fn synced(&self, plane: &Plane, kind: &Kind) -> bool {
        self.get(plane, kind).is_some_and(|mirror| mirror.synced())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn object(name: &str, version: &str) -> DynamicObject {
        from_value(json!({"metadata": {"name": name, "namespace": "n", "resourceVersion": version}})).unwrap()
    }

    #[test]
    fn absence_counts_when_the_list_is_complete() {
        let mirror = Mirror::default();
        mirror.take(Event::Apply(object("a", "1")));
        mirror.take(Event::Init);
        assert!(mirror.take(Event::InitApply(object("b", "2"))).len() == 1);
        assert!(mirror.get("n", "a").is_some() && !mirror.synced());
        let gone = mirror.take(Event::InitDone);
        assert_eq!(gone.len(), 1);
        assert!(gone[0].new.is_none() && mirror.synced() && mirror.get("n", "a").is_none());
    }

    #[test]
    fn what_is_listed_again_unchanged_is_no_change() {
        let mirror = Mirror::default();
        mirror.take(Event::Apply(object("a", "1")));
        assert!(mirror.take(Event::InitApply(object("a", "1"))).is_empty());
        assert_eq!(mirror.take(Event::Apply(object("a", "2"))).len(), 1);
        assert_eq!(mirror.list(Some("n")).len(), 1);
        assert!(mirror.list(Some("m")).is_empty());
        assert_eq!(mirror.take(Event::Delete(object("a", "3"))).len(), 1);
    }
}
