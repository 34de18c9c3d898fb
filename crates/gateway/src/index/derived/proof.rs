//! Decides whether absence from the index proves that an object does not exist. Absence counts only in complete lists
//! whose watches work: while the watches of a plane fail, the gateway keeps everything that came from that plane.

use crate::index::{GatewayIndex, TableId};
use fedgate_api::names::ProjectKey;
use fedgate_engine::key::{Key, Plane};

impl GatewayIndex {
    /// True if absence on the hub is proof.
    pub fn hub_proves(&self) -> bool {
        let hub = &self.hub;
        self.hub_ready()
            && hub.clusters.proves()
            && self.hub_lists_are(|table| table.proves(), |table| table != TableId::Pins)
    }

    /// True if absence in a project is proof.
    pub fn project_proves(&self, key: &ProjectKey) -> bool {
        self.project_ready(key) && self.project_lists_are(key, |table| table.proves())
    }

    /// Project that owns a hub namespace; without an owner, the project that the labels name, if it alone has their
    /// UID.
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

    /// Plane whose lists or watches keep absence in a hub namespace from being proof; `None` if absence is proof.
    pub fn lacks_proof(&self, hub: &str) -> Option<Plane> {
        if !self.hub_proves() {
            return Some(Plane::Hub);
        }
        let project = self.project_of(hub).or_else(|| self.replacement(hub))?;
        (!self.project_proves(project)).then(|| Plane::Project(project.clone()))
    }

    /// Registers a key to be enqueued once absence on this plane is proof again.
    pub fn await_proof(&mut self, plane: Plane, key: &Key) {
        self.intents
            .unproven
            .entry(plane)
            .or_default()
            .insert(key.clone());
    }

    /// Takes the keys that wait for the hub once its Clusters are seen: some of them need no other list. The others wait again.
    pub fn take_waiting_for_clusters(&mut self) -> Vec<Key> {
        let clusters = &self.hub.clusters;
        let proves = clusters.proves();
        self.take_waiting(&Plane::Hub, proves)
    }

    /// Takes the keys that wait for this plane; empty while absence on the plane is no proof.
    pub fn take_unproven(&mut self, plane: &Plane) -> Vec<Key> {
        let proves = match plane {
            Plane::Hub => self.hub_proves(),
            Plane::Project(key) => self.project_proves(key),
            Plane::Cell | Plane::Home => false,
        };
        self.take_waiting(plane, proves)
    }

    fn take_waiting(&mut self, plane: &Plane, proves: bool) -> Vec<Key> {
        let unproven = &mut self.intents.unproven;
        let keys = proves.then(|| unproven.remove(plane)).flatten();
        keys.into_iter().flatten().collect()
    }
}
