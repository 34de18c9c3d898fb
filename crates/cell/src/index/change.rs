//! Changes of the index that decisions may depend on. Each controller's `triggers.rs` returns the keys that a change
//! concerns.

use super::{
    CellIndex,
    digest::{Deployment, InstanceDigest},
};
use fedgate_api::names::ProjectKey;
use fedgate_engine::store::{
    apply::RowChange,
    table::{Name, Row},
};
use std::{collections::BTreeSet, sync::Arc};

/// A change of the index.
#[derive(Debug)]
pub enum Change {
    /// A Namespace at the cell or on the hub changed; its name.
    Namespace(Arc<str>),
    /// A deployment changed.
    Deployment {
        /// Namespace and name of the object.
        name: Name,
        /// True if it expects other companions, or their error changed.
        data: bool,
    },
    /// An Instance changed.
    Instance {
        /// Namespace and name of the object.
        name: Name,
        /// Deployments that own it, that owned it before, or whose slot its name occupies.
        deployments: BTreeSet<Arc<str>>,
    },
    /// A companion `ConfigMap` changed.
    ConfigMap(Name),
    /// A companion Secret changed.
    Secret(Name),
    /// An object of the provider changed: the Instance of the same name runs by it.
    Pod(Name),
    /// A release record changed.
    Release(Name),
    /// The location of the cell may have changed.
    Location,
    /// The network of these deployments changed.
    Network(BTreeSet<Name>),
    /// A deployment on the hub changed.
    HubDeployment(Name),
    /// The write-back of an Instance changed.
    HubInstance(Name),
    /// The quota claim of this Instance changed.
    Claim(Name),
    /// The first list of a project's claims is complete.
    ClaimsListed(ProjectKey),
}

impl Change {
    /// The change of the Namespace with this name, which is cluster-scoped.
    pub(super) fn of_namespace((_, name): Name) -> Self {
        Self::Namespace(name)
    }
}

impl CellIndex {
    pub(super) fn deployment_change(&self, delta: &RowChange<Deployment>) -> Change {
        let (namespace, name) = &delta.name;
        let said = |row: &Row<Deployment>| (row.digest.expected.clone(), row.digest.data_error.clone());
        let now = self.deployments.get(namespace, name).map(said);
        Change::Deployment {
            name: delta.name.clone(),
            data: now != delta.old.as_ref().map(said),
        }
    }

    pub(super) fn instance_change(&self, delta: &RowChange<InstanceDigest>) -> Change {
        let (namespace, name) = &delta.name;
        let rows = [self.instances.get(namespace, name), delta.old.as_ref()];
        let owners = rows.into_iter().flatten();
        let mut deployments: BTreeSet<Arc<str>> = owners
            .filter_map(|row| Some(Arc::from(&*row.digest.owner.as_ref()?.name)))
            .collect();
        // An Instance with a name of a deployment's form occupies a slot of that deployment.
        deployments.extend(name.rsplit_once('-').map(|(deployment, _)| deployment.into()));
        Change::Instance {
            name: delta.name.clone(),
            deployments,
        }
    }
}
