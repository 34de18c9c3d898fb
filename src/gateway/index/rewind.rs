//! A plane that was restored to an older state: what is known of it is judged by its next lists alone.

use super::{GatewayIndex, Hub, Project};
use fedgate_engine::{key::Plane, plane::table::Table};

impl GatewayIndex {
    /// Whether this is still the engagement of the hub.
    pub fn is_engaged_hub(&self, engagement: u64) -> bool {
        self.hub_engagement == engagement
    }

    /// Begins a plane anew if this is still its engagement. Returns which engagement it is from now on.
    pub fn rewind(&mut self, plane: &Plane, engagement: u64) -> Option<u64> {
        match plane {
            Plane::Hub if self.is_engaged_hub(engagement) => {}
            Plane::Project(key) if self.is_engaged(key, engagement) => {}
            Plane::Hub | Plane::Project(_) | Plane::Cell => return None,
        }
        self.engagements += 1;
        if let Plane::Project(key) = plane {
            self.projects.get_mut(key)?.rewind(self.engagements);
        } else {
            self.hub_engagement = self.engagements;
            self.hub.rewind();
            // What is not as this replica left it is no edit.
            self.deliveries.clear();
            self.lingering.clear();
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
            config_maps,
            secrets,
            // These follow the rows, and are as before until the lists say otherwise.
            uid: _,
            secondary: _,
            workloads_by_uid: _,
            references: _,
            forbidden: _,
        } = self;
        *of = engagement;
        namespaces.rewind();
        workloads.rewind();
        locations.rewind();
        networks.rewind();
        sources.iter_mut().for_each(Table::rewind);
        projections.iter_mut().for_each(Table::rewind);
        config_maps.rewind();
        secrets.rewind();
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
            config_maps,
            secrets,
            copies,
            write_backs,
            ended,
            departed,
            // These follow the rows.
            secondary: _,
            outlived: _,
            by_deployment: _,
            // What was withheld before is so still.
            withheld: _,
        } = self;
        namespaces.rewind();
        clusters.rewind();
        city_sets.rewind();
        city_policies.rewind();
        bindings.rewind();
        interpreters.rewind();
        config_maps.rewind();
        secrets.rewind();
        copies.iter_mut().for_each(Table::rewind);
        write_backs.iter_mut().for_each(Table::rewind);
        ended.clear();
        departed.clear();
    }
}
