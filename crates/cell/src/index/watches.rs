//! The watches of a cell: their selections, and how the runtime applies their events.

use super::{CellIndex, CellLocation, change::Change, tables::TableId};
use crate::writes::MANAGED_BY;
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::{
    key::{Key, Kind, Plane},
    metrics::PlaneKind,
    plan::Target,
    plane::watch::{self, WatchEvent, WatchSpec},
    runtime::index::{Discovered, Index, Keys, Update},
};
use kube::core::ApiResource;

/// A command to the cell's main loop.
#[derive(Debug)]
pub enum Command {
    /// The location of the cell may have changed.
    LocationChanged,
    /// Pods of a provider that is switched off are left, and are watched until they end.
    WatchPods,
    /// The claims of a project are wanted.
    ConnectProject(ProjectKey),
}

impl Index for CellIndex {
    type TableId = TableId;
    type Change = Change;
    type Command = Command;

    fn apply(&mut self, plane: &Plane, _: u64, table: TableId, event: WatchEvent) -> Update<Self> {
        self.event(plane, table, event)
    }

    fn admit(&self, plane: &Plane, _: TableId, synced: bool, keys: Vec<Key>) -> Keys {
        let keys = match plane {
            // Before the cell's lists are complete, no key may be enqueued: no decision is possible yet.
            _ if !self.cell_ready() => Vec::new(),
            Plane::Cell if synced => self.reconcilable_keys(),
            Plane::Hub if synced && self.hub_ready() => self.instance_keys(),
            Plane::Cell | Plane::Hub | Plane::Project(_) | Plane::Home => keys,
        };
        Keys {
            keys,
            ..Keys::default()
        }
    }

    fn all_keys(&self) -> Keys {
        Keys {
            keys: self.reconcilable_keys(),
            ..Keys::default()
        }
    }

    fn tables(&self) -> Vec<(PlaneKind, TableId)> {
        let own = self
            .cell_tables()
            .into_iter()
            .map(|table| (PlaneKind::Cell, table));
        let hub = TableId::HUB.map(|table| (PlaneKind::Hub, table));
        own.chain(hub)
            .chain([(PlaneKind::Project, TableId::Claims)])
            .collect()
    }

    fn watch_spec(&self, _: &Plane, table: TableId) -> WatchSpec {
        let labels = match table {
            TableId::ConfigMaps | TableId::Secrets => Some(format!("{}=true", keys::REFERENCED_DATA)),
            TableId::Pods | TableId::Services | TableId::NetworkPolicies | TableId::Releases => {
                Some(format!("{}={}", MANAGED_BY.0, MANAGED_BY.1))
            }
            TableId::HubInstances => Some(format!("{}={}", keys::CELL, self.settings.cell)),
            TableId::Claims => Some(format!("{}={}", keys::SOURCE_CLUSTER, self.settings.cell)),
            TableId::HubDeployments => match self.located() {
                CellLocation::At { city, .. } => Some(format!("{}={city}", keys::CITY_CODE)),
                CellLocation::Untold | CellLocation::Nowhere | CellLocation::Ambiguous(_) => None,
            },
            TableId::HubDeploymentsHere => {
                let location = self.label_of_location().unwrap_or_default();
                Some(format!("{}={location}", keys::LOCATION))
            }
            _ => None,
        };
        WatchSpec {
            resource: table.resource(),
            namespace: (table == TableId::Releases).then(|| self.settings.namespace.to_string()),
            labels,
            fields: None,
            page: match table {
                TableId::ConfigMaps | TableId::Secrets | TableId::Releases => watch::LARGE_OBJECTS,
                _ => watch::HUB_OBJECTS,
            },
            metadata_only: false,
            unread: &[],
            may_be_absent: false,
        }
    }

    fn optional_kinds(&self, plane: &Plane) -> Vec<ApiResource> {
        let ours = *plane == Plane::Cell;
        let unserved = self.unserved_places().filter(|_| ours);
        unserved.map(TableId::resource).collect()
    }

    fn kinds_discovered(&mut self, _: &Plane, _: u64, served: &[ApiResource]) -> Discovered<Self> {
        let unserved = self.unserved_places();
        let found: Vec<TableId> = unserved
            .filter(|table| served.contains(&table.resource()))
            .collect();
        self.serving.extend(&found);
        Discovered {
            watch: found,
            ..Discovered::default()
        }
    }

    fn table_of(&self, target: &Target) -> Option<TableId> {
        let namespace = target.namespace.as_deref().unwrap_or_default();
        self.table_of_object(&target.plane, &target.kind(), namespace, &target.name)
    }

    fn kind_of(&self, table: TableId) -> Kind {
        table.kind()
    }

    fn plural(&self, table: TableId) -> String {
        table.resource().plural
    }

    fn kind_label(&self, kind: &Kind) -> String {
        kind.as_str().to_owned()
    }
}
