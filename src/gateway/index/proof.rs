//! Whether that which is not seen is not there. Absence counts only in complete lists whose watches tell what changes: a
//! plane whose watches fail keeps everything that came from it.

use super::GatewayIndex;
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    key::{Key, Plane},
    plane::table::Table,
};

impl GatewayIndex {
    /// Whether absence on the hub proves something.
    pub fn hub_proves(&self) -> bool {
        let hub = &self.hub;
        self.hub_ready()
            && hub.namespaces.proves()
            && hub.clusters.proves()
            && hub.city_sets.proves()
            && hub.city_policies.proves()
            && hub.bindings.proves()
            && hub.config_maps.proves()
            && hub.secrets.proves()
            && hub.copies.iter().all(Table::proves)
            && self.written_back_proves(&hub.write_backs)
    }

    /// Whether absence in a project proves something.
    pub fn project_proves(&self, key: &ProjectKey) -> bool {
        self.project_ready(key)
            && self.projects.get(key).is_some_and(|p| {
                p.namespaces.proves()
                    && p.sources.iter().all(Table::proves)
                    && (self.workload_kind().is_none() || p.workloads.proves())
                    && self.written_back_proves(&p.projections)
            })
    }

    fn written_back_proves<D: PartialEq>(&self, tables: &[Table<D>]) -> bool {
        let mut tables = tables.iter().zip(self.kinds.iter());
        tables.all(|(table, kind)| kind.write_back.is_none() || table.proves())
    }

    /// The project that a hub namespace is tied to, or that its labels name: the one that has their UID.
    pub fn project_of(&self, hub: &str) -> Option<&ProjectKey> {
        if let Some(owner) = self.owners.get(hub) {
            return Some(&owner.project);
        }
        let of = &self.hub.namespaces.get("", hub)?.digest;
        let uid = of.project_uid.as_ref()?;
        let mut same = self.projects.iter().filter(|(_, p)| p.uid.as_ref() == Some(uid));
        let (Some((key, _)), None) = (same.next(), same.next()) else {
            return None;
        };
        (of.cluster.as_deref() == Some(&*key.label())).then_some(key)
    }

    /// The plane that shows too little for absence to count in a hub namespace; `None` if it does.
    pub fn lacks_proof(&self, hub: &str) -> Option<Plane> {
        if !self.hub_proves() {
            return Some(Plane::Hub);
        }
        let project = self.project_of(hub)?;
        (!self.project_proves(project)).then(|| Plane::Project(project.clone()))
    }

    /// Wakes a key once absence on this plane counts again.
    pub fn await_proof(&mut self, plane: Plane, key: &Key) {
        self.unproven.entry(plane).or_default().insert(key.clone());
    }

    /// The keys that have waited for this plane, if absence counts there now.
    pub fn take_unproven(&mut self, plane: &Plane) -> Vec<Key> {
        let proves = match plane {
            Plane::Hub => self.hub_proves(),
            Plane::Project(key) => self.project_proves(key),
            Plane::Cell => false,
        };
        if !proves {
            return Vec::new();
        }
        self.unproven.remove(plane).into_iter().flatten().collect()
    }
}
