//! The objects of one kind on one plane, as a watch shows them.

use crate::child::FixedBackoff;
use fedgate_karmada::Object;
use futures::{Stream, StreamExt, future::ready};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    core::TypeMeta,
};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event, watcher},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Namespace and name.
type Name = (String, String);

/// A change of one object.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// The object before the change.
    pub(crate) old: Option<Arc<Value>>,
    /// The object after the change.
    pub(crate) new: Option<Arc<Value>>,
}

impl Change {
    /// The existing states: new, then old.
    pub(crate) fn both(&self) -> impl Iterator<Item = &Arc<Value>> {
        self.new.iter().chain(self.old.iter())
    }
}

/// The known objects of a kind.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    objects: BTreeMap<Name, Arc<Value>>,
    /// Names in the list that is in progress.
    listed: BTreeSet<Name>,
    synced: bool,
}

impl Cache {
    /// True if a first list is complete.
    pub(crate) fn synced(&self) -> bool {
        self.synced
    }

    /// Returns an object.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.objects.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// All objects, or those of one namespace, sorted by namespace and name.
    pub(crate) fn list(&self, namespace: Option<&str>) -> impl Iterator<Item = &Arc<Value>> {
        let from: Name = (namespace.unwrap_or_default().to_owned(), String::new());
        let inside = move |at: &str| namespace.is_none_or(|namespace| at == namespace);
        let objects = self.objects.range(from..);
        objects
            .take_while(move |((at, _), _)| inside(at))
            .map(|(_, object)| object)
    }

    /// Applies a watch event and returns the changes. Objects missing from a list are removed once the list is complete.
    pub(crate) fn take(&mut self, event: Event<Value>) -> Vec<Change> {
        match event {
            Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            // A plane that was put back to an older state lists older versions.
            Event::InitApply(object) => {
                self.listed.insert(name(&object));
                self.set(object).into_iter().collect()
            }
            Event::InitDone => {
                self.synced = true;
                let listed = std::mem::take(&mut self.listed);
                let gone: Vec<Name> = self
                    .objects
                    .keys()
                    .filter(|name| !listed.contains(*name))
                    .cloned()
                    .collect();
                gone.iter().filter_map(|name| self.remove(name)).collect()
            }
            Event::Apply(object) => self.put(object).into_iter().collect(),
            Event::Delete(object) if self.is_later(&object) => Vec::new(),
            Event::Delete(object) => self.remove(&name(&object)).into_iter().collect(),
        }
    }

    /// Stores an object from a watch or from the answer to a write, unless a later version is known.
    pub(crate) fn put(&mut self, object: Value) -> Option<Change> {
        if self.is_later(&object) {
            return None;
        }
        self.listed.insert(name(&object));
        self.set(object)
    }

    fn set(&mut self, object: Value) -> Option<Change> {
        let new = Arc::new(object);
        let old = self.objects.insert(name(&new), Arc::clone(&new));
        let is_same = old.as_ref().is_some_and(|old| version(old) == version(&new));
        (!is_same).then_some(Change { old, new: Some(new) })
    }

    fn remove(&mut self, name: &Name) -> Option<Change> {
        let old = self.objects.remove(name);
        old.is_some().then_some(Change { old, new: None })
    }

    /// True if the known version of an object is later than this one.
    fn is_later(&self, object: &Value) -> bool {
        let known = self.objects.get(&name(object));
        known.is_some_and(|known| version(known) > version(object))
    }
}

fn name(object: &Value) -> Name {
    (object.namespace().to_owned(), object.name().to_owned())
}

/// The resourceVersion of an object as a number; 0 if it has none.
pub(crate) fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Watches the objects of a kind for ever, all or those that a field selector admits.
pub(crate) fn watch(
    client: &Client,
    resource: &ApiResource,
    field_selector: Option<String>,
) -> impl Stream<Item = Event<Value>> + use<> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let types = TypeMeta {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
    };
    // Items of a list have no `apiVersion` and `kind`; `managedFields` are not needed.
    let value = move |mut object: DynamicObject| {
        object.types = Some(types.clone());
        object.metadata.managed_fields = None;
        serde_json::to_value(object).unwrap_or_default()
    };
    let config = watcher::Config {
        field_selector,
        ..watcher::Config::default()
    };
    watcher(api, config)
        .backoff(FixedBackoff)
        .filter_map(move |event| {
            let event =
                event.inspect_err(|error| tracing::debug!(%error, "a watch broke and is opened again"));
            ready(event.ok().map(|event| match event {
                Event::Init => Event::Init,
                Event::InitApply(object) => Event::InitApply(value(object)),
                Event::InitDone => Event::InitDone,
                Event::Apply(object) => Event::Apply(value(object)),
                Event::Delete(object) => Event::Delete(value(object)),
            }))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(name: &str, version: &str) -> Value {
        json!({"metadata": {"name": name, "namespace": "n", "resourceVersion": version}})
    }

    #[test]
    fn absence_counts_when_the_list_is_complete() {
        let mut cache = Cache::default();
        cache.take(Event::Apply(object("a", "1")));
        cache.take(Event::Init);
        assert!(cache.take(Event::InitApply(object("b", "2"))).len() == 1);
        assert!(cache.get("n", "a").is_some() && !cache.synced());
        let gone = cache.take(Event::InitDone);
        assert_eq!(gone.len(), 1);
        assert!(gone[0].new.is_none() && cache.synced() && cache.get("n", "a").is_none());
    }

    #[test]
    fn what_is_listed_again_unchanged_is_no_change() {
        let mut cache = Cache::default();
        cache.take(Event::Apply(object("a", "1")));
        assert!(cache.take(Event::InitApply(object("a", "1"))).is_empty());
        assert_eq!(cache.take(Event::Apply(object("a", "2"))).len(), 1);
        assert_eq!(cache.list(Some("n")).count(), 1);
        assert_eq!(cache.list(Some("m")).count(), 0);
        assert_eq!(cache.take(Event::Delete(object("a", "3"))).len(), 1);
    }

    #[test]
    fn a_watch_behind_a_write_changes_nothing_and_a_list_does() {
        let mut cache = Cache::default();
        cache.put(object("a", "3"));
        assert!(cache.take(Event::Apply(object("a", "2"))).is_empty());
        assert!(cache.take(Event::Delete(object("a", "2"))).is_empty());
        assert_eq!(cache.take(Event::InitApply(object("a", "2"))).len(), 1);
    }
}
