//! The index of the role: Cells and Clusters of the hub, and the metadata of the Secrets beside the role. No value of a Secret is in
//! it.

pub mod digest;
mod watches;

use digest::{CellDigest, ClusterDigest, SecretDigest};
use fedgate_api::cell::Cell;
use fedgate_engine::{
    interner::Interner,
    key::{Key, Kind, Plane},
    plane::watch::WatchEvent,
    store::{apply::apply_event, table::Table},
};
use fedgate_kinds::FederatedKind;
use fedgate_operator::membership::{cluster, plane::kind};
use kube::core::ApiResource;
use std::sync::Arc;

/// One watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableId {
    /// Cells of the hub.
    Cells,
    /// Clusters of the hub.
    Clusters,
    /// Metadata of the Secrets beside the role.
    Secrets,
}

const TABLES: [TableId; 3] = [TableId::Cells, TableId::Clusters, TableId::Secrets];

/// A change that decisions may depend on; each has the name of its object.
#[derive(Debug)]
pub enum Change {
    /// A Cell changed.
    Cell(Arc<str>),
    /// A Cluster changed.
    Cluster(Arc<str>),
    /// A Secret changed.
    Secret(Arc<str>),
}

/// The index; see the module.
#[derive(Debug)]
pub struct CellsIndex {
    /// Cells of the hub.
    pub cells: Table<CellDigest>,
    /// Clusters of the hub.
    pub clusters: Table<ClusterDigest>,
    /// Secrets beside the role.
    pub secrets: Table<SecretDigest>,
    /// Namespace of the Secrets.
    namespace: Arc<str>,
    /// The kinds that a cell has to serve.
    kinds: Vec<ApiResource>,
    words: Interner<str>,
}

/// The resource of Cells.
pub fn cells() -> ApiResource {
    ApiResource::erase::<Cell>(&())
}

impl CellsIndex {
    /// An empty index; the Secrets are those of the namespace.
    pub fn new(namespace: Arc<str>, kinds: Vec<FederatedKind>) -> Self {
        Self {
            cells: Table::default(),
            clusters: Table::default(),
            secrets: Table::default(),
            namespace,
            kinds: kinds.into_iter().map(|kind| kind.resource).collect(),
            words: Interner::default(),
        }
    }

    /// The kind of a table whose list is not complete, if there is one.
    pub fn missing(&self) -> Option<Kind> {
        let is_synced = |table: &TableId| match table {
            TableId::Cells => self.cells.synced(),
            TableId::Clusters => self.clusters.synced(),
            TableId::Secrets => self.secrets.synced(),
        };
        let missing = TABLES.into_iter().find(|table| !is_synced(table))?;
        Some(Kind::of(&Self::resource(missing)))
    }

    /// Number of rows of a table.
    pub fn len(&self, table: TableId) -> usize {
        match table {
            TableId::Cells => self.cells.len(),
            TableId::Clusters => self.clusters.len(),
            TableId::Secrets => self.secrets.len(),
        }
    }

    /// The Secret of this name.
    pub fn secret(&self, name: &str) -> Option<SecretDigest> {
        self.secrets
            .get(&self.namespace, name)
            .map(|row| row.digest.clone())
    }

    /// The resource of a table.
    pub fn resource(table: TableId) -> ApiResource {
        match table {
            TableId::Cells => cells(),
            TableId::Clusters => kind(cluster::API_VERSION, "Cluster"),
            TableId::Secrets => kind("v1", "Secret"),
        }
    }

    /// The key of a Cell.
    pub fn key(name: &str) -> Key {
        Key::new(Plane::Hub, Kind::of(&cells()), "", name)
    }

    /// Adds the keys of the Cells that a change concerns.
    pub fn keys_of(&self, change: &Change, keys: &mut Vec<Key>) {
        match change {
            Change::Cell(name) | Change::Cluster(name) => keys.push(Self::key(name)),
            Change::Secret(secret) => {
                let named = self
                    .cells
                    .iter()
                    .filter(|(_, row)| row.digest.secret() == &**secret);
                keys.extend(named.map(|((_, name), _)| Self::key(name)));
            }
        }
    }

    /// The keys of all Cells; none before the lists are complete.
    pub fn cell_keys(&self) -> Vec<Key> {
        if self.missing().is_some() {
            return Vec::new();
        }
        self.cells.iter().map(|((_, name), _)| Self::key(name)).collect()
    }

    /// Applies an event; returns the changes, and true if it completed a first list.
    pub fn event(&mut self, table: TableId, event: WatchEvent) -> (Vec<Change>, bool) {
        let words = &mut self.words;
        let of: fn(Arc<str>) -> Change;
        let (names, synced): (Vec<Arc<str>>, bool) = match table {
            TableId::Cells => {
                of = Change::Cell;
                let (deltas, synced) = apply_event(&mut self.cells, event, words, |o, _| CellDigest::read(o));
                (deltas.into_iter().map(|d| d.name.1).collect(), synced)
            }
            TableId::Clusters => {
                of = Change::Cluster;
                let kinds = &self.kinds;
                let read = |object: &_, _: &mut Interner<str>| ClusterDigest::read(object, kinds);
                let (deltas, synced) = apply_event(&mut self.clusters, event, words, read);
                (deltas.into_iter().map(|d| d.name.1).collect(), synced)
            }
            TableId::Secrets => {
                of = Change::Secret;
                let (deltas, synced) =
                    apply_event(&mut self.secrets, event, words, |o, _| SecretDigest::read(o));
                (deltas.into_iter().map(|d| d.name.1).collect(), synced)
            }
        };
        (names.into_iter().map(of).collect(), synced)
    }
}
