//! Objects of a project that Workloads are checked against: its locations (see [`super::locations`]), and the Networks of
//! group `networking.datumapis.com` for their interfaces (K1).
//!
//! The gateway watches each kind only if its check is on. A project may lack their CRDs, so neither list counts towards
//! the readiness of a project: while a list is missing, only the project's Workloads wait.

use super::{GatewayIndex, TableId, apply::Applied, catalog::Catalog};
use crate::settings::LocationSource;
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    key::Key,
    plane::watch::WatchEvent,
    store::{apply::apply_event, table::Row},
};
use std::{collections::BTreeSet, sync::Arc};

/// Workload checks that read other objects of the project, as the settings enable them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkloadChecks {
    /// K3: each city and location needs a location object of this source; selectors select among them.
    pub locations: LocationSource,
    /// K1: each interface needs its Network.
    pub networks: bool,
    /// K2: true if interfaces may name Networks of other namespaces.
    pub foreign_networks: bool,
    /// K4: instance types and images that Workloads may name.
    pub catalog: Catalog,
}

impl WorkloadChecks {
    /// The tables to watch for the enabled checks in every project, whatever it serves.
    pub fn tables(&self) -> impl Iterator<Item = TableId> {
        self.networks.then_some(TableId::Networks).into_iter()
    }
}

impl GatewayIndex {
    /// Applies an event of a project's Networks. Their list is not among the lists that a project needs: `synced` stays
    /// unset.
    pub(super) fn network_event(&mut self, key: &ProjectKey, event: WatchEvent) -> Applied {
        let Some(project) = self.projects.get_mut(key) else {
            return Applied::default();
        };
        let (deltas, first) = apply_event(&mut project.networks, event, &mut self.words, |_, _| ());
        let live = |row: Option<&Row<()>>| row.is_some_and(|row| !row.deleting);
        let names = deltas
            .into_iter()
            .filter(|d| live(d.old.as_ref()) != live(project.networks.get(&d.name.0, &d.name.1)))
            .map(|d| d.name.1)
            .collect();
        let synced = project.networks.synced();
        self.checks_changed(key, first, &if synced { names } else { BTreeSet::new() })
    }

    /// The Workloads of a project may pass or fail their checks: with the first complete list all of them, later those that
    /// name one of `names`.
    pub(super) fn checks_changed(
        &self,
        key: &ProjectKey,
        first: bool,
        names: &BTreeSet<Arc<str>>,
    ) -> Applied {
        let mut applied = Applied::default();
        if first || !names.is_empty() {
            applied.enqueue(self.workloads_naming(key, Some(names).filter(|_| !first)));
        }
        applied
    }

    /// Keys of the Workloads of a project that name one of these cities or Networks; of all without `names`.
    pub fn workloads_naming(&self, key: &ProjectKey, names: Option<&BTreeSet<Arc<str>>>) -> Vec<Key> {
        // A Workload's text holds each city and Network that it names as a JSON string. The same string elsewhere in the
        // text costs one reconcile without effect, and so does a Workload whose text is not kept.
        let quoted: Option<Vec<String>> = names.map(|names| {
            let quoted = names.iter().filter_map(|name| serde_json::to_string(name).ok());
            quoted.collect()
        });
        let concerned = |text: Option<&str>| match (&quoted, text) {
            (Some(names), Some(text)) => names.iter().any(|name| text.contains(name)),
            (None, _) | (_, None) => true,
        };
        let of = self.projects.get(key).into_iter();
        let workloads = of.flat_map(|of| of.workloads.iter());
        let concerned = workloads.filter(|(_, row)| concerned(row.digest.text()));
        let keys = concerned.map(|((namespace, name), _)| self.workload_key(key, namespace, name));
        keys.collect()
    }
}
