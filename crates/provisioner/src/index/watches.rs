//! The watches of the role: their selections, and how the runtime applies their events.

use super::{CellsIndex, Change, TABLES, TableId};
use fedgate_engine::{
    key::{Key, Kind, Plane},
    metrics::PlaneKind,
    plan::Target,
    plane::watch::{self, WatchEvent, WatchSpec},
    runtime::index::{Index, Keys, Update},
};
use std::convert::Infallible;

impl Index for CellsIndex {
    type TableId = TableId;
    type Change = Change;
    type Command = Infallible;

    fn apply(&mut self, _: &Plane, _: u64, table: TableId, event: WatchEvent) -> Update<Self> {
        let (changes, synced) = self.event(table, event);
        Update {
            changes,
            synced,
            ..Update::default()
        }
    }

    fn admit(&self, _: &Plane, _: TableId, synced: bool, keys: Vec<Key>) -> Keys {
        let keys = match self.missing() {
            // Before the lists are complete, absence is no proof.
            Some(_) => Vec::new(),
            None if synced => self.cell_keys(),
            None => keys,
        };
        Keys {
            keys,
            fresh: Vec::new(),
        }
    }

    fn all_keys(&self) -> Keys {
        Keys {
            keys: self.cell_keys(),
            fresh: Vec::new(),
        }
    }

    fn tables(&self) -> Vec<(PlaneKind, TableId)> {
        let plane = |table| match table {
            TableId::Cells | TableId::Clusters => PlaneKind::Hub,
            TableId::Secrets => PlaneKind::Home,
        };
        TABLES.into_iter().map(|table| (plane(table), table)).collect()
    }

    fn watch_spec(&self, _: &Plane, table: TableId) -> WatchSpec {
        let is_secrets = table == TableId::Secrets;
        WatchSpec {
            resource: Self::resource(table),
            namespace: is_secrets.then(|| self.namespace.to_string()),
            labels: None,
            fields: None,
            page: watch::HUB_OBJECTS,
            metadata_only: is_secrets,
            may_be_absent: false,
            unread: &[],
        }
    }

    fn table_of(&self, target: &Target) -> Option<TableId> {
        (target.plane == Plane::Hub && target.resource == super::cells()).then_some(TableId::Cells)
    }

    fn kind_of(&self, table: TableId) -> Kind {
        Kind::of(&Self::resource(table))
    }

    fn plural(&self, table: TableId) -> String {
        Self::resource(table).plural
    }

    fn kind_label(&self, kind: &Kind) -> String {
        kind.as_str().to_owned()
    }
}
