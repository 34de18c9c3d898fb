//! The watches of a member's returns: their selections, and how the runtime applies their events.

use super::{Change, ReturnsIndex, TableId};
use fedgate_engine::{
    key::{Key, Kind, Plane},
    metrics::PlaneKind,
    plan::Target,
    plane::watch::{self, WatchEvent, WatchSpec},
    runtime::index::{Index, Keys, Update},
};
use std::convert::Infallible;

impl Index for ReturnsIndex {
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
            None if synced => self.object_keys(),
            None => keys,
        };
        Keys {
            keys,
            fresh: Vec::new(),
        }
    }

    fn all_keys(&self) -> Keys {
        Keys {
            keys: self.object_keys(),
            fresh: Vec::new(),
        }
    }

    fn tables(&self) -> Vec<(PlaneKind, TableId)> {
        let at_member = self.member_tables().into_iter();
        let at_member = at_member.map(|table| (PlaneKind::Cell, table));
        at_member
            .chain([(PlaneKind::Hub, TableId::HubNamespaces)])
            .collect()
    }

    fn watch_spec(&self, _: &Plane, table: TableId) -> WatchSpec {
        WatchSpec {
            resource: self.resource(table),
            namespace: None,
            labels: None,
            fields: None,
            page: match table {
                TableId::Objects(_) => watch::LARGE_OBJECTS,
                TableId::Secrets | TableId::HubNamespaces => watch::HUB_OBJECTS,
            },
            metadata_only: table != TableId::HubNamespaces && !matches!(table, TableId::Objects(_)),
            may_be_absent: false,
            unread: &[],
        }
    }

    /// Only objects that are watched where they are written: what is sent to the hub is not read there.
    fn table_of(&self, _: &Target) -> Option<TableId> {
        None
    }

    fn kind_of(&self, table: TableId) -> Kind {
        Kind::of(&self.resource(table))
    }

    fn plural(&self, table: TableId) -> String {
        self.resource(table).plural
    }

    fn kind_label(&self, kind: &Kind) -> String {
        kind.as_str().to_owned()
    }
}
