//! Handles a plane that was restored to an older state: the next lists alone decide which rows remain. All else follows the
//! rows, and stays unchanged until the lists change them.

use super::{GatewayIndex, Hub, Project};
use fedgate_engine::{key::Plane, store::table::Table};
use fedgate_kinds::CompanionSet;

impl GatewayIndex {
    /// True if this is the current engagement of the hub.
    pub fn is_engaged_hub(&self, engagement: u64) -> bool {
        self.hub.engagement == engagement
    }

    /// Restarts the lists of a plane if this is its current engagement. Returns the new engagement.
    pub(super) fn restart_lists(&mut self, plane: &Plane, engagement: u64) -> Option<u64> {
        match plane {
            Plane::Hub if self.is_engaged_hub(engagement) => {}
            Plane::Project(key) if self.is_engaged(key, engagement) => {}
            Plane::Hub | Plane::Project(_) | Plane::Cell | Plane::Home => return None,
        }
        self.engagements += 1;
        if let Plane::Project(key) = plane {
            self.projects.get_mut(key)?.rewind(self.engagements);
        } else {
            self.hub.engagement = self.engagements;
            self.hub.rewind();
            self.intents.forget_hub();
        }
        Some(self.engagements)
    }
}

impl Project {
    fn rewind(&mut self, engagement: u64) {
        self.engagement = engagement;
        // The command of the earlier engagement may come too late.
        self.references_watched = CompanionSet::default();
        self.namespaces.rewind();
        self.workloads.rewind();
        self.locations.rewind();
        self.networks.rewind();
        self.sources.iter_mut().for_each(Table::rewind);
        self.projections.iter_mut().for_each(Table::rewind);
        self.platform.iter_mut().for_each(|of| of.rows.rewind());
        self.referable.iter_mut().for_each(Table::rewind);
        self.returned.rewind();
    }
}

impl Hub {
    fn rewind(&mut self) {
        self.namespaces.rewind();
        self.clusters.rewind();
        self.city_sets.rewind();
        self.city_policies.rewind();
        self.bindings.rewind();
        self.interpreters.rewind();
        self.companions.iter_mut().for_each(Table::rewind);
        self.pins.rewind();
        self.returned.rewind();
        self.copies.iter_mut().for_each(Table::rewind);
        self.write_backs.iter_mut().for_each(Table::rewind);
        self.platform.iter_mut().for_each(Table::rewind);
    }
}
