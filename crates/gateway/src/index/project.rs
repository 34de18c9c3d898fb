//! The state of a project, its beginning (`engage`) and its end (`disengage`).

use super::{
    GatewayIndex, NamespaceOwner,
    apply::Applied,
    change::{Change, NamespaceNews},
    derived::known_plane::KnownPlane,
    derived::project_hub::OtherHub,
    derived::secondary::{RefCounts, SourceIndex},
    locations::ProjectLocations,
    platform::OfPlatform,
    rows::{OwnReturn, Payload, Projection, Source, WorkloadDigest},
};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    random::HashMap,
    store::table::{Name, Row, Table},
};
use fedgate_kinds::{CompanionSet, KindId, PerCompanionKind, PerKind};
use fedgate_operations::Instances;
use std::sync::Arc;

/// State of a project.
#[derive(Debug, Default)]
pub struct Project {
    /// The engagement that all of it belongs to.
    pub engagement: u64,
    /// UID of the project; that of its `kube-system` namespace where no platform gives another.
    pub uid: Option<Arc<str>>,
    /// True if the platform gave the UID.
    pub is_identified: bool,
    /// True while the platform suspends the project.
    pub suspended: bool,
    /// Namespaces.
    pub namespaces: Table<()>,
    /// Secondary indexes over the objects of the federated kinds.
    pub secondary: SourceIndex,
    /// Names of Workloads by UID.
    pub workloads_by_uid: HashMap<Arc<str>, Name>,
    /// Workloads.
    pub workloads: Table<WorkloadDigest>,
    /// Bytes of the texts that are kept of them, at most [`TEXTS_OF_PROJECT`](super::rows::TEXTS_OF_PROJECT).
    pub workload_texts: usize,
    /// Locations of the project, if places are checked against them.
    pub locations: ProjectLocations,
    /// Networks, if interfaces are checked against them.
    pub networks: Table<()>,
    /// Objects of the federated kinds.
    pub sources: PerKind<Table<Source>>,
    /// Projections.
    pub projections: PerKind<Table<Projection>>,
    /// Objects of the platform's kinds.
    pub platform: PerKind<OfPlatform>,
    /// Secrets that have come back from members.
    pub returned: Table<OwnReturn>,
    /// Objects that may be referenced, a table per kind of companions.
    pub referable: PerCompanionKind<Table<Payload>>,
    /// Kinds of which objects reference some, so that their tables must be watched.
    pub references: CompanionSet,
    /// Kinds of companions whose watches were requested.
    pub references_watched: CompanionSet,
    /// Kinds of companions that the project forbids to list, or does not serve.
    pub forbidden: CompanionSet,
    /// Instances that the objects of the federated kinds report.
    pub instances: Instances,
    /// The hubs that its deployments name.
    pub hubs: RefCounts<Arc<str>>,
    /// The other hub that deployments of the project name.
    pub other_hub: Option<OtherHub>,
    /// The other role in which the gateway has its plane already.
    pub known_plane: Option<KnownPlane>,
}

impl GatewayIndex {
    /// Engages a project with empty tables. Returns the engagement.
    pub fn engage(&mut self, key: ProjectKey) -> u64 {
        self.engage_identified(key, None)
    }

    /// Engages a project to which the platform may give a UID.
    pub fn engage_identified(&mut self, key: ProjectKey, uid: Option<Arc<str>>) -> u64 {
        self.engagements += 1;
        let project = Project {
            engagement: self.engagements,
            is_identified: uid.is_some(),
            uid,
            sources: self.kinds.map(|_| Table::with_bodies()),
            projections: self.kinds.map(|_| Table::default()),
            platform: self.platform.map(|_| OfPlatform::default()),
            referable: self.companions.map(|_| Table::default()),
            ..Project::default()
        };
        if let Some(earlier) = self.projects.remove(&key) {
            self.summary.forget(&key, &earlier);
            self.by_place.forget(&key, &earlier);
            self.forget_plane(&key, earlier.uid.as_ref(), &mut Applied::default());
        }
        self.projects.insert(key, project);
        self.engagements
    }

    /// Removes a project from the index; the hub stays unchanged.
    pub fn disengage(&mut self, key: &ProjectKey) -> Applied {
        let mut applied = Applied::default();
        let project = self.projects.remove(key);
        if let Some(project) = &project {
            self.summary.forget(key, project);
            self.by_place.forget(key, project);
        }
        let uid = project.and_then(|project| project.uid);
        self.forget_plane(key, uid.as_ref(), &mut applied);
        let left: Vec<Arc<str>> = self
            .owners
            .extract_if(|_, owner| owner.project == *key)
            .map(|(hub, _)| hub)
            .collect();
        for hub in &left {
            self.drop_bodies(hub);
            self.undelivered.forget(hub);
        }
        for claims in self.claims.values_mut() {
            claims.retain(|r| r.owner.project != *key);
        }
        self.resolve_all_owners(&mut applied);
        self.prune_unowned();
        // Two projects with the same UID prove no absence; the remaining project may prove it alone.
        let twins: Vec<_> = self
            .projects
            .iter()
            .filter(|(_, p)| uid.is_some() && p.uid == uid)
            .collect();
        for (twin, _) in twins {
            let hubs = self.hub_namespaces_of(twin).cloned();
            let proven = hubs.map(|hub| Change::of_namespace(&hub, NamespaceNews::Proof));
            applied.changes.extend(proven);
        }
        // It was engaged while it was being deleted.
        applied
            .changes
            .extend(uid.into_iter().flat_map(|uid| self.torn_down_with(&uid)));
        applied
    }

    /// The Instances that all deployments report.
    pub fn reported_instances(&self) -> Instances {
        let mut all = Instances::default();
        self.projects
            .values()
            .for_each(|project| all += project.instances);
        all
    }

    /// The project namespace that owns a hub namespace, and its project.
    pub fn owning(&self, hub: &str) -> Option<(&Project, &NamespaceOwner)> {
        let owner = self.owners.get(hub)?;
        Some((self.projects.get(&owner.project)?, owner))
    }

    /// The sources of the project namespace that owns a hub namespace.
    pub fn owned_sources(
        &self,
        kind: KindId,
        hub_namespace: &str,
    ) -> impl Iterator<Item = (&Arc<str>, &Row<Source>)> {
        let owning = self.owning(hub_namespace).into_iter();
        owning.flat_map(move |(project, owner)| project.sources[kind].in_namespace(&owner.namespace))
    }

    /// The source of this name there.
    pub fn owned_source(&self, kind: KindId, hub_namespace: &str, name: &str) -> Option<&Row<Source>> {
        let (project, owner) = self.owning(hub_namespace)?;
        project.sources[kind].get(&owner.namespace, name)
    }

    /// Records whether the platform suspends a project.
    pub fn suspend(&mut self, key: &ProjectKey, suspended: bool) -> Vec<Change> {
        let Some(project) = self.projects.get_mut(key).filter(|of| of.suspended != suspended) else {
            return Vec::new();
        };
        project.suspended = suspended;
        let mut platform = Vec::new();
        self.platform_keys_of(key, &mut platform);
        let changes = vec![
            Change::Suspension { project: key.clone() },
            Change::Keys(platform),
        ];
        self.track(&changes);
        self.touch(&changes);
        changes
    }
}
