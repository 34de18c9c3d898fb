//! A plane that was restored to an older state: what is known of it is judged by its next lists alone.

use super::World;
use crate::{engine::key::Plane, plane::table::Table};

impl World {
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
            let project = self.projects.get_mut(key)?;
            project.engagement = self.engagements;
            project.namespaces.rewind();
            project.workloads.rewind();
            project.locations.rewind();
            project.networks.rewind();
            project.sources.iter_mut().for_each(Table::rewind);
            project.projections.iter_mut().for_each(Table::rewind);
            project.config_maps.rewind();
            project.secrets.rewind();
        } else {
            self.hub_engagement = self.engagements;
            let hub = &mut self.hub;
            hub.namespaces.rewind();
            hub.city_sets.rewind();
            hub.city_policies.rewind();
            hub.bindings.rewind();
            hub.interpreters.rewind();
            hub.config_maps.rewind();
            hub.secrets.rewind();
            hub.copies.iter_mut().for_each(Table::rewind);
            hub.write_backs.iter_mut().for_each(Table::rewind);
            hub.ended.clear();
            hub.departed.clear();
            // What is not as this replica left it is no edit.
            self.left_at.clear();
            self.left.clear();
        }
        Some(self.engagements)
    }
}
