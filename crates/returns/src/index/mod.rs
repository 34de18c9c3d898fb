//! The index of a member's returns: its objects of the kinds with returns, the metadata of its Secrets, and the Namespaces of
//! the hub. No value of a Secret is in it.

pub mod digest;
#[cfg(test)]
mod tests;
mod watches;

use digest::{Home, Object, SecretMark};
use fedgate_api::names::HubNamespace;
use fedgate_engine::{
    interner::Interner,
    key::{Key, Kind, Plane},
    plane::watch::WatchEvent,
    store::{
        apply::apply_event,
        table::{Row, Table},
    },
};
use fedgate_kinds::{FederatedKind, KindId, PerKind};
use kube::core::{ApiResource, GroupVersionKind};
use std::sync::Arc;

/// One watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableId {
    /// Objects of a kind, at the member.
    Objects(KindId),
    /// Metadata of the member's Secrets.
    Secrets,
    /// Namespaces of the hub.
    HubNamespaces,
}

/// A change that decisions may depend on.
#[derive(Debug)]
pub enum Change {
    /// An object changed.
    Object(KindId, Arc<str>, Arc<str>),
    /// A Secret changed: its namespace and name.
    Secret(Arc<str>, Arc<str>),
    /// A Namespace of the hub changed.
    Home(Arc<str>),
}

/// The index; see the module.
#[derive(Debug)]
pub struct ReturnsIndex {
    /// The kinds with returns.
    pub kinds: Arc<PerKind<FederatedKind>>,
    /// Objects at the member, a table per kind.
    pub objects: PerKind<Table<Object>>,
    /// Secrets at the member, in namespaces that come from the hub.
    pub secrets: Table<SecretMark>,
    /// Namespaces of the hub.
    pub homes: Table<Home>,
    words: Interner<str>,
}

impl ReturnsIndex {
    /// An empty index over those of these kinds that have returns.
    pub fn new(kinds: Vec<FederatedKind>) -> Self {
        let with_returns = kinds.into_iter().filter(|kind| !kind.returns.is_empty());
        let kinds: PerKind<FederatedKind> = with_returns.collect();
        Self {
            objects: kinds.map(|_| Table::default()),
            kinds: Arc::new(kinds),
            secrets: Table::default(),
            homes: Table::default(),
            words: Interner::default(),
        }
    }

    /// The tables that are watched at the member.
    pub fn member_tables(&self) -> Vec<TableId> {
        let objects = self.kinds.ids().map(TableId::Objects);
        objects.chain([TableId::Secrets]).collect()
    }

    /// The kind of a table at the member whose list is not complete, if there is one.
    pub fn missing(&self) -> Option<Kind> {
        let mut tables = self.member_tables().into_iter();
        let missing = tables.find(|table| match table {
            TableId::Objects(kind) => !self.objects[*kind].synced(),
            TableId::Secrets => !self.secrets.synced(),
            TableId::HubNamespaces => false,
        })?;
        Some(Kind::of(&self.resource(missing)))
    }

    /// Number of rows of a table.
    pub fn len(&self, table: TableId) -> usize {
        match table {
            TableId::Objects(kind) => self.objects[kind].len(),
            TableId::Secrets => self.secrets.len(),
            TableId::HubNamespaces => self.homes.len(),
        }
    }

    /// The resource of a table.
    pub fn resource(&self, table: TableId) -> ApiResource {
        match table {
            TableId::Objects(kind) => self.kinds[kind].resource.clone(),
            TableId::Secrets => core("Secret", "secrets"),
            TableId::HubNamespaces => core("Namespace", "namespaces"),
        }
    }

    /// The kind of a key.
    pub fn kind_of_key(&self, key: &Key) -> Option<KindId> {
        self.kinds.position(|kind| Kind::of(&kind.resource) == key.kind)
    }

    /// The object of a key.
    pub fn object(&self, key: &Key) -> Option<&Row<Object>> {
        self.objects[self.kind_of_key(key)?].get(&key.namespace, &key.name)
    }

    /// The key of an object.
    pub fn key(&self, kind: KindId, namespace: &str, name: &str) -> Key {
        Key::new(Plane::Cell, Kind::of(&self.kinds[kind].resource), namespace, name)
    }

    /// Adds the keys of the objects that a change concerns.
    pub fn keys_of(&self, change: &Change, keys: &mut Vec<Key>) {
        match change {
            Change::Object(kind, namespace, name) => keys.push(self.key(*kind, namespace, name)),
            Change::Secret(namespace, secret) => {
                let names = |row: &Row<Object>| {
                    let mut names = row.digest.names.iter();
                    names.any(|(name, _)| name == secret)
                };
                self.keys_in(namespace, names, keys);
            }
            Change::Home(namespace) => self.keys_in(namespace, |_| true, keys),
        }
    }

    fn keys_in(&self, namespace: &str, concerns: impl Fn(&Row<Object>) -> bool, keys: &mut Vec<Key>) {
        for (kind, table) in self.objects.enumerate() {
            let concerned = table.in_namespace(namespace).filter(|(_, row)| concerns(row));
            keys.extend(concerned.map(|(name, _)| self.key(kind, namespace, name)));
        }
    }

    /// The keys of all objects; none before the lists of the member are complete.
    pub fn object_keys(&self) -> Vec<Key> {
        if self.missing().is_some() {
            return Vec::new();
        }
        let tables = self.objects.enumerate();
        let keys = tables.flat_map(|(kind, table)| {
            let names = table.iter().map(|(name, _)| name);
            names.map(move |(namespace, name)| self.key(kind, namespace, name))
        });
        keys.collect()
    }

    /// Applies an event; returns the changes, and true if it completed a first list.
    pub fn event(&mut self, table: TableId, event: WatchEvent) -> (Vec<Change>, bool) {
        let kinds = self.kinds.clone();
        match table {
            TableId::Objects(kind) => {
                let rules = &kinds[kind];
                let read = |object: &_, words: &mut Interner<str>| Object::read(object, rules, words);
                let (deltas, synced) = apply_event(&mut self.objects[kind], event, &mut self.words, read);
                let change = |(namespace, name)| Change::Object(kind, namespace, name);
                (deltas.into_iter().map(|d| change(d.name)).collect(), synced)
            }
            TableId::Secrets if is_of_the_members_own(&event) => (Vec::new(), false),
            TableId::Secrets => {
                let (deltas, synced) = apply_event(&mut self.secrets, event, &mut self.words, |o, _| {
                    SecretMark::read(o)
                });
                let change = |(namespace, name)| Change::Secret(namespace, name);
                (deltas.into_iter().map(|d| change(d.name)).collect(), synced)
            }
            TableId::HubNamespaces => {
                let (deltas, synced) = apply_event(&mut self.homes, event, &mut self.words, Home::read);
                (
                    deltas.into_iter().map(|d| Change::Home(d.name.1)).collect(),
                    synced,
                )
            }
        }
    }
}

/// True for an event of a Secret in a namespace that does not come from the hub: nothing of it is kept.
fn is_of_the_members_own(event: &WatchEvent) -> bool {
    let (WatchEvent::InitApply(object) | WatchEvent::Apply(object)) = event else {
        return false;
    };
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    HubNamespace::parse(namespace).is_none()
}

fn core(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", kind), plural)
}
