//! Handles a plane that was restored to an older state: the next lists alone decide which rows remain.

use super::{GatewayIndex, Hub, Project, platform::OfPlatform};
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
            Plane::Hub | Plane::Project(_) | Plane::Cell => return None,
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
        let Self {
            engagement: of,
            namespaces,
            workloads,
            locations,
            networks,
            sources,
            projections,
            platform,
            referable,
            returned,
            // These follow the rows and stay unchanged until the lists change the rows.
            uid: _,
            is_identified: _,
            suspended: _,
            secondary: _,
            workloads_by_uid: _,
            workload_texts: _,
            references: _,
            forbidden: _,
            summary: _,
            hubs: _,
            other_hub: _,
            known_plane: _,
            references_watched,
        } = self;
        *of = engagement;
        // The command of the earlier engagement may come too late.
        *references_watched = CompanionSet::default();
        namespaces.rewind();
        workloads.rewind();
        locations.rewind();
        networks.rewind();
        sources.iter_mut().for_each(Table::rewind);
        projections.iter_mut().for_each(Table::rewind);
        platform.iter_mut().for_each(OfPlatform::rewind);
        referable.iter_mut().for_each(Table::rewind);
        returned.rewind();
    }
}

impl Hub {
    fn rewind(&mut self) {
        let Self {
            namespaces,
            clusters,
            city_sets,
            city_policies,
            bindings,
            interpreters,
            companions,
            pins,
            returned,
            copies,
            write_backs,
            platform,
            // These follow the rows.
            secondary: _,
            outlived: _,
            by_deployment: _,
            identity: _,
            sets: _,
            user: _,
            engagement: _,
        } = self;
        namespaces.rewind();
        clusters.rewind();
        city_sets.rewind();
        city_policies.rewind();
        bindings.rewind();
        interpreters.rewind();
        companions.iter_mut().for_each(Table::rewind);
        pins.rewind();
        returned.rewind();
        copies.iter_mut().for_each(Table::rewind);
        write_backs.iter_mut().for_each(Table::rewind);
        platform.iter_mut().for_each(Table::rewind);
    }
}
