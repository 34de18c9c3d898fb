//! The tables of a plane by their ids, whatever their rows are.

use super::{Hub, Project, TableId};
use fedgate_engine::store::table::Table;
use std::sync::Arc;

/// A table, whatever its rows are.
pub trait AnyTable {
    /// True if a complete list has been read.
    fn synced(&self) -> bool;
    /// True if the absence of an object proves its deletion.
    fn proves(&self) -> bool;
    /// Number of rows.
    fn count(&self) -> usize;
    /// Names of the rows of a namespace, in order.
    fn names<'a>(&'a self, namespace: &'a str) -> Box<dyn Iterator<Item = &'a Arc<str>> + 'a>;
}

impl<D: PartialEq> AnyTable for Table<D> {
    fn synced(&self) -> bool {
        Table::synced(self)
    }

    fn proves(&self) -> bool {
        Table::proves(self)
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn names<'a>(&'a self, namespace: &'a str) -> Box<dyn Iterator<Item = &'a Arc<str>> + 'a> {
        Box::new(self.in_namespace(namespace).map(|(name, _)| name))
    }
}

impl Hub {
    /// The table of this id; `None` for one that only projects have.
    pub fn table(&self, id: TableId) -> Option<&dyn AnyTable> {
        let table: &dyn AnyTable = match id {
            TableId::Namespaces => &self.namespaces,
            TableId::Clusters => &self.clusters,
            TableId::CitySets => &self.city_sets,
            TableId::CityPolicies => &self.city_policies,
            TableId::Bindings => &self.bindings,
            TableId::Interpreters => &self.interpreters,
            TableId::Companions(kind) => &self.companions[kind],
            TableId::Pins => &self.pins,
            TableId::Returned => &self.returned,
            TableId::Federated(kind) => &self.copies[kind],
            TableId::WrittenBack(kind) => &self.write_backs[kind],
            TableId::Platform(kind) => &self.platform[kind],
            TableId::Workloads | TableId::Locations(_) | TableId::Availabilities | TableId::Networks => {
                return None;
            }
        };
        Some(table)
    }
}

impl Project {
    /// The table of this id; `None` for one that only the hub has, or whose kind the project does not serve.
    pub fn table(&self, id: TableId) -> Option<&dyn AnyTable> {
        let table: &dyn AnyTable = match id {
            TableId::Namespaces => &self.namespaces,
            TableId::Workloads => &self.workloads,
            TableId::Networks => &self.networks,
            TableId::Companions(kind) => &self.referable[kind],
            TableId::Returned => &self.returned,
            TableId::Federated(kind) => &self.sources[kind],
            TableId::WrittenBack(kind) => &self.projections[kind],
            TableId::Platform(kind) => &self.platform[kind].rows,
            TableId::Locations(_) | TableId::Availabilities => return self.locations.table(id),
            TableId::Clusters
            | TableId::CitySets
            | TableId::CityPolicies
            | TableId::Bindings
            | TableId::Pins
            | TableId::Interpreters => return None,
        };
        Some(table)
    }
}
