//! The objects of a hub, a project and members, as their API servers would store them.

use fedgate_engine::{diff::is_payload, plane::watch::WatchEvent};
use jiff::Timestamp;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::{collections::BTreeMap, mem::take};

/// An API server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Server {
    /// The hub's.
    Hub,
    /// The project's.
    Project,
    /// That of a member.
    Member(String),
}

/// Where an object is; a list of objects has no name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Address {
    pub(super) server: Server,
    pub(super) group: String,
    pub(super) plural: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Address {
    /// An object of the hub.
    pub(super) fn hub(group: &str, plural: &str, namespace: &str, name: &str) -> Self {
        Self {
            server: Server::Hub,
            group: group.to_owned(),
            plural: plural.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The same at another server.
    pub(super) fn at(&self, server: Server) -> Self {
        Self {
            server,
            ..self.clone()
        }
    }
}

/// The objects, and what has changed.
#[derive(Debug, Default)]
pub(super) struct Store {
    objects: BTreeMap<Address, Value>,
    changes: Vec<(Address, WatchEvent)>,
    /// The kinds of the objects so far, by group and plural.
    kinds: BTreeMap<(String, String), String>,
    /// Number of changes so far.
    pub(super) version: u64,
    uids: u64,
    /// The time at which objects are created and deleted.
    pub(super) now: Timestamp,
}

impl Store {
    pub(super) fn get(&self, address: &Address) -> Option<&Value> {
        self.objects.get(address)
    }

    /// All objects, in the order of their addresses.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Address, &Value)> {
        self.objects.iter()
    }

    /// The objects of a kind on the hub.
    pub(super) fn on_hub(&self, group: &str, plural: &str) -> Vec<(Address, Value)> {
        let of_kind = |at: &&Address| at.server == Server::Hub && at.group == group && at.plural == plural;
        let all = self.objects.iter().filter(|(at, _)| of_kind(at));
        all.map(|(at, object)| (at.clone(), object.clone())).collect()
    }

    /// The kind of an object, or of a list's; the plural if there never was one.
    pub(super) fn kind<'a>(&'a self, at: &'a Address) -> &'a str {
        let key = (at.group.clone(), at.plural.clone());
        self.kinds.get(&key).map_or(&at.plural, String::as_str)
    }

    /// The changes since the last call.
    pub(super) fn changes(&mut self) -> Vec<(Address, WatchEvent)> {
        take(&mut self.changes)
    }

    /// Creates or replaces an object. The server's own metadata stay.
    pub(super) fn put(&mut self, at: &Address, mut object: Value) -> Value {
        let old = self.objects.get(at);
        let mut generation = 1;
        if let Some(old) = old {
            let payload = |object: &Value| {
                let mut bare = object.clone();
                if let Some(fields) = bare.as_object_mut() {
                    fields.retain(|field, _| is_payload(field));
                }
                bare
            };
            let had = old["metadata"]["generation"].as_i64().unwrap_or_default();
            generation = had + i64::from(payload(old) != payload(&object));
            for field in ["uid", "creationTimestamp"] {
                object["metadata"][field] = old["metadata"][field].clone();
            }
        } else {
            if object["metadata"]["uid"].is_null() {
                self.uids += 1;
                object["metadata"]["uid"] = json!(format!("u-{}", self.uids));
            }
            object["metadata"]["creationTimestamp"] = json!(self.now.to_string());
        }
        object["metadata"]["name"] = json!(at.name);
        if !at.namespace.is_empty() {
            object["metadata"]["namespace"] = json!(at.namespace);
        }
        object["metadata"]["generation"] = json!(generation);
        let held = object["metadata"]["finalizers"].as_array();
        let is_held = held.is_some_and(|list| !list.is_empty());
        if !object["metadata"]["deletionTimestamp"].is_null() && !is_held {
            return self.remove(at).unwrap_or(object);
        }
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if let Some(kind) = object["kind"].as_str() {
            let key = (at.group.clone(), at.plural.clone());
            self.kinds.insert(key, kind.to_owned());
        }
        self.objects.insert(at.clone(), object.clone());
        self.changed(at, &object, WatchEvent::Apply);
        object
    }

    /// Applies a JSON merge patch; `None` if there is no such object.
    pub(super) fn merge(&mut self, at: &Address, patch: &Value) -> Option<Value> {
        let mut object = self.objects.get(at)?.clone();
        merge(&mut object, patch);
        if self.objects.get(at) == Some(&object) {
            return Some(object);
        }
        Some(self.put(at, object))
    }

    /// Applies fields of the gateway's as a server would that knows no other writer of them: maps of the metadata are
    /// joined, every other field is replaced.
    pub(super) fn apply(&mut self, at: &Address, fields: &Value) -> Value {
        let Some(had) = self.objects.get(at) else {
            return self.put(at, fields.clone());
        };
        let mut object = had.clone();
        for (field, value) in fields.as_object().into_iter().flatten() {
            if field == "metadata" {
                merge(&mut object["metadata"], value);
            } else {
                object[field] = value.clone();
            }
        }
        if *had == object {
            return object;
        }
        self.put(at, object)
    }

    /// Deletes an object, at once unless a finalizer holds it; `None` if there is none.
    pub(super) fn delete(&mut self, at: &Address) -> Option<Value> {
        let object = self.objects.get(at)?;
        let held = object["metadata"]["finalizers"].as_array();
        if held.is_none_or(Vec::is_empty) {
            return self.remove(at);
        }
        if !object["metadata"]["deletionTimestamp"].is_null() {
            return Some(object.clone());
        }
        let ending = json!({"metadata": {"deletionTimestamp": self.now.to_string()}});
        self.merge(at, &ending)
    }

    fn remove(&mut self, at: &Address) -> Option<Value> {
        let object = self.objects.remove(at)?;
        self.version += 1;
        self.changed(at, &object, WatchEvent::Delete);
        Some(object)
    }

    fn changed(&mut self, at: &Address, object: &Value, event: fn(Box<DynamicObject>) -> WatchEvent) {
        if let Ok(object) = serde_json::from_value(object.clone()) {
            self.changes.push((at.clone(), event(Box::new(object))));
        }
    }
}

/// JSON merge patch (RFC 7386).
pub(super) fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in fields {
        if !value.is_null() {
            merge(&mut into[key], value);
        } else if let Some(map) = into.as_object_mut() {
            map.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Address {
        Address::hub("example.dev", "things", "ns-a1", "one")
    }

    #[test]
    fn a_generation_counts_changes_of_the_payload_alone() {
        let mut store = Store::default();
        let generation = |object: &Value| object["metadata"]["generation"].as_i64().unwrap();
        let made = store.put(&at(), json!({"spec": {"size": 1}}));
        assert_eq!(generation(&made), 1);
        let labelled = store
            .merge(
                &at(),
                &json!({"metadata": {"labels": {"a": "b"}}, "status": {"x": 1}}),
            )
            .unwrap();
        assert_eq!(generation(&labelled), 1);
        let edited = store.apply(&at(), &json!({"spec": {"size": 2}}));
        assert_eq!(
            (generation(&edited), &edited["metadata"]["labels"]["a"]),
            (2, &json!("b"))
        );
        assert_eq!(edited["metadata"]["uid"], made["metadata"]["uid"]);
        store.changes();
        store.apply(&at(), &json!({"spec": {"size": 2}}));
        assert!(store.changes().is_empty(), "nothing changed");
    }

    #[test]
    fn a_finalizer_holds_what_is_deleted_until_it_is_taken_off() {
        let mut store = Store::default();
        store.put(&at(), json!({"metadata": {"finalizers": ["keep"]}}));
        let ending = store.delete(&at()).unwrap();
        assert!(ending["metadata"]["deletionTimestamp"].is_string());
        assert!(store.get(&at()).is_some());
        store.merge(&at(), &json!({"metadata": {"finalizers": null}}));
        assert!(store.get(&at()).is_none());
        assert!(store.delete(&at()).is_none());
    }
}
