//! The watches of the gateway: their tables, their selections, and how the runtime applies their events.

use super::{
    GatewayIndex, NO_PROJECT_UID, OTHER_HUB, TableId, apply::Applied, change::Change,
    derived::known_plane::KnownPlane, derived::ownership::RejectedClaim, derived::project_hub::OtherHub,
    locations,
};
use crate::index::single_member::pin;
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::{
    key::{Key, Kind, Plane},
    metrics::PlaneKind,
    object::Unread,
    plan::Target,
    plane::watch::{self, WatchEvent, WatchSpec},
    runtime::index::{Defect, Discovered, Index, Keys, Phase, Update, Watches},
};
use fedgate_kinds::CompanionKind;
use kube::core::ApiResource;

/// Each cell's status in a binding, of which two texts alone are decoded ([`keys::UID_AT_MEMBER`] and
/// [`keys::DELETED_AT_MEMBER`]): a cell may write any value there, and the gateway reads the returned status from the copy.
const STATUS_OF_CELLS: Unread = &[
    "status",
    "aggregatedStatus",
    "*",
    "status",
    "!fedgate.dev/uid-at-member",
    "!fedgate.dev/deleted-at-member",
];

/// A command of the index to the gateway's main loop.
#[derive(Debug)]
pub enum Command {
    /// An object of the project references data, in this engagement of the project.
    WatchReferences(ProjectKey, u64, Vec<TableId>),
    /// Deployments of this project name another hub than before, or none does.
    ReportOtherHub(ProjectKey, Option<OtherHub>),
    /// The gateway has the plane of this project as another one than before, or does not.
    ReportKnownPlane(ProjectKey, Option<KnownPlane>),
    /// A claim on a hub namespace is rejected from now on.
    ReportRejected(RejectedClaim),
}

impl Index for GatewayIndex {
    type TableId = TableId;
    type Change = Change;
    type Command = Command;

    fn apply(&mut self, plane: &Plane, engagement: u64, table: TableId, event: WatchEvent) -> Update<Self> {
        let may_prove = matches!(event, WatchEvent::InitDone | WatchEvent::Resumed);
        let applied = match plane {
            Plane::Hub if self.is_engaged_hub(engagement) => self.hub_event(table, event),
            Plane::Project(key) if self.is_engaged(key, engagement) => self.project_event(key, table, event),
            Plane::Hub | Plane::Project(_) | Plane::Cell | Plane::Home => return Update::default(),
        };
        let Applied {
            changes,
            synced,
            mut commands,
        } = applied;
        self.track(&changes);
        self.touch(&changes);
        if synced {
            self.track_plane(plane);
        }
        let keys = match (may_prove, table) {
            (true, TableId::Clusters) => self.take_waiting_for_clusters(),
            (true, _) => self.take_unproven(plane),
            (false, _) => Vec::new(),
        };
        if let Plane::Project(key) = plane
            && let Some(project) = self.projects.get_mut(key)
            && let kinds = project.references.without(project.references_watched)
            && !kinds.is_empty()
        {
            project.references_watched = project.references;
            let tables = kinds.iter().map(TableId::Companions).collect();
            commands.push(Command::WatchReferences(key.clone(), engagement, tables));
        }
        Update {
            changes,
            keys,
            synced,
            first_phase_synced: synced && self.first_phase_synced(plane),
            commands,
        }
    }

    fn rewind(&mut self, plane: &Plane, engagement: u64) -> Option<u64> {
        self.restart_lists(plane, engagement)
    }

    /// A project grants or denies access to a kind of companions, or begins or ceases to serve it.
    fn access_changed(
        &mut self,
        plane: &Plane,
        engagement: u64,
        table: TableId,
        forbidden: bool,
    ) -> Vec<Key> {
        let (Plane::Project(key), Some(kind)) = (plane, table.companion()) else {
            return Vec::new();
        };
        let project = self.projects.get_mut(key);
        let Some(project) = project.filter(|p| p.engagement == engagement) else {
            return Vec::new();
        };
        let changed = if forbidden {
            project.forbidden.insert(kind)
        } else {
            project.forbidden.remove(kind)
        };
        if changed {
            self.project_keys(key)
        } else {
            Vec::new()
        }
    }

    /// A deployment whose spec waits to be synced is fresh: it may have been edited meanwhile, so it does not belong in
    /// the backlog.
    fn admit(&self, plane: &Plane, table: TableId, synced: bool, mut keys: Vec<Key>) -> Keys {
        let ready = match plane {
            Plane::Hub => self.hub_ready(),
            Plane::Project(key) => self.is_complete(key),
            Plane::Cell | Plane::Home => false,
        };
        if !ready {
            keys.retain(|key| table.is_first_phase() && self.may_sync_spec(key));
        }
        let mut fresh = Vec::new();
        if synced {
            match plane {
                Plane::Hub => keys.extend(self.ready_keys()),
                Plane::Project(key) if ready => {
                    keys.extend(self.hub_keys_of(key));
                    keys.extend(self.project_keys(key));
                }
                Plane::Project(_) | Plane::Cell | Plane::Home => {}
            }
            if table.is_first_phase() {
                fresh = self.unsynced_spec_keys(plane);
            }
        }
        Keys { keys, fresh }
    }

    fn all_keys(&self) -> Keys {
        Keys {
            keys: self.ready_keys(),
            fresh: self.unsynced_spec_keys(&Plane::Hub),
        }
    }

    fn tables(&self) -> Vec<(PlaneKind, TableId)> {
        let hub = self.on_hub().map(|table| (PlaneKind::Hub, table));
        let referenced = self.companions.ids().map(TableId::Companions);
        let locations = self
            .workload_kind()
            .map(|_| locations::tables(self.checks.locations));
        let project = self.in_project().chain(referenced);
        let project = project.chain(locations.into_iter().flatten());
        let project = project.chain(self.platform.ids().map(TableId::Platform));
        hub.chain(project.map(|table| (PlaneKind::Project, table)))
            .collect()
    }

    fn watch_spec(&self, plane: &Plane, table: TableId) -> WatchSpec {
        let is_data = table.companion().is_some() || table == TableId::Returned;
        let labels = match table {
            TableId::Pins => Some(pin::selector()),
            TableId::Platform(kind) if *plane == Plane::Hub => self.platform_selector(kind),
            TableId::Returned if *plane == Plane::Hub => Some(keys::RETURNED.to_owned()),
            TableId::Returned => Some(format!("{}=true", keys::RETURNED)),
            _ => (*plane == Plane::Hub && is_data).then(|| format!("{}=true", keys::REFERENCED_DATA)),
        };
        WatchSpec {
            resource: self.resource(table).clone(),
            namespace: (table == TableId::Pins).then(|| keys::SYSTEM_NAMESPACE.to_owned()),
            labels,
            fields: None,
            page: match plane {
                _ if is_data => watch::LARGE_OBJECTS,
                Plane::Hub => watch::HUB_OBJECTS,
                Plane::Project(_) | Plane::Cell | Plane::Home => watch::SMALL_OBJECTS,
            },
            metadata_only: false,
            unread: if table == TableId::Bindings {
                STATUS_OF_CELLS
            } else {
                &[]
            },
            may_be_absent: *plane != Plane::Hub && table.companion().is_some_and(|kind| !kind.is_core()),
        }
    }

    fn phase(table: TableId) -> Phase {
        if table.is_first_phase() {
            Phase::First
        } else {
            Phase::Second
        }
    }

    fn optional_kinds(&self, plane: &Plane) -> Vec<ApiResource> {
        match plane {
            Plane::Project(key) => {
                let mut kinds = self.wanted_location_kinds(key);
                kinds.extend(self.unserved_platform_kinds(key));
                kinds
            }
            Plane::Hub | Plane::Cell | Plane::Home => Vec::new(),
        }
    }

    fn kinds_discovered(
        &mut self,
        plane: &Plane,
        engagement: u64,
        served: &[ApiResource],
    ) -> Discovered<Self> {
        let Plane::Project(key) = plane else {
            return Discovered::default();
        };
        if !self.is_engaged(key, engagement) {
            return Discovered::default();
        }
        let mut discovered = self.location_kinds_discovered(key, served);
        discovered
            .watch
            .extend(self.platform_kinds_discovered(key, served));
        self.track(&discovered.changes);
        self.touch(&discovered.changes);
        discovered
    }

    fn is_optional(table: TableId) -> bool {
        table.companion().is_some() || table == TableId::Returned
    }

    fn table_of(&self, target: &Target) -> Option<TableId> {
        let table = self.table_of_kind(&target.kind());
        let is_own =
            target.plane == Plane::Hub && target.namespace.as_deref() == Some(keys::SYSTEM_NAMESPACE);
        table.map(|table| match table {
            TableId::Companions(CompanionKind::CONFIG_MAP) if is_own => TableId::Pins,
            table => table,
        })
    }

    fn kind_of(&self, table: TableId) -> Kind {
        self.kind_of(table)
    }

    fn plural(&self, table: TableId) -> String {
        self.plural(table).to_owned()
    }

    fn kind_label(&self, kind: &Kind) -> String {
        let table = self.table_of_kind(kind);
        table
            .map(|table| self.resource(table).kind.clone())
            .unwrap_or_default()
    }

    fn tells_state(table: TableId) -> bool {
        // The UID of a project is that of one of its Namespaces.
        table == TableId::Namespaces
    }

    fn defect(&self, plane: &Plane) -> Option<Defect> {
        let Plane::Project(key) = plane else { return None };
        let project = self.projects.get(key)?;
        let is_unknown = project.namespaces.synced() && project.uid.is_none();
        let known = || project.known_plane.as_ref().map(KnownPlane::defect);
        let of_other = || project.other_hub.as_ref().map(|_| OTHER_HUB);
        is_unknown
            .then_some(NO_PROJECT_UID)
            .or_else(known)
            .or_else(of_other)
    }

    fn is_connected(&self, plane: &Plane, _: &Watches<TableId>) -> bool {
        match plane {
            Plane::Hub => self.hub_ready(),
            Plane::Project(key) => self.project_ready(key),
            Plane::Cell | Plane::Home => false,
        }
    }
}
