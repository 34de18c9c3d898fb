//! Copies whose write to the hub has no known result: until it is known, the objects that they need there stay.

use crate::route::CityRoute;
use fedgate_kinds::KindId;
use std::{collections::BTreeMap, sync::Arc};

/// Copies in flight, by kind, hub namespace and name.
#[derive(Debug, Default)]
pub struct Arriving(BTreeMap<(Arc<str>, KindId, Arc<str>), CityRoute>);

impl Arriving {
    /// Records that the copy of this name and kind is about to be sent with this destination.
    pub fn send(&mut self, hub: &str, kind: KindId, name: &Arc<str>, destination: &CityRoute) {
        self.0
            .insert((hub.into(), kind, name.clone()), destination.clone());
    }

    /// Records that the result is known; returns true if the copy was in flight.
    pub fn settle(&mut self, hub: &str, kind: KindId, name: &Arc<str>) -> bool {
        !self.0.is_empty() && self.0.remove(&(hub.into(), kind, name.clone())).is_some()
    }

    /// Deliveries of the copies of a kind that are in flight to a hub namespace.
    pub fn destinations(&self, hub: &str, kind: KindId) -> impl Iterator<Item = &CityRoute> {
        let of: Arc<str> = hub.into();
        let here = self.0.range((of.clone(), kind, Arc::from(""))..);
        here.take_while(move |((hub, k, _), _)| *hub == of && *k == kind)
            .map(|(_, destination)| destination)
    }

    /// Drops all but the copies in flight to these hub namespaces.
    pub fn retain(&mut self, wanted: impl Fn(&Arc<str>) -> bool) {
        self.0.retain(|(hub, ..), _| wanted(hub));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedgate_api::names::CityCode;

    #[test]
    fn what_is_on_its_way_has_its_delivery_until_it_is_known_where_it_is() {
        let mut arriving = Arriving::default();
        let [dfw, lhr] = ["DFW", "LHR"].map(|code| CityRoute::to_city(CityCode::parse(code).unwrap()));
        let [web, api]: [Arc<str>; 2] = ["web", "api"].map(Into::into);
        arriving.send("ns-a", KindId::FIRST, &web, &dfw);
        arriving.send("ns-a", KindId::FIRST, &api, &lhr);
        arriving.send("ns-a", KindId::nth(1), &web, &lhr);
        arriving.send("ns-b", KindId::FIRST, &web, &lhr);
        let all = |of: &Arriving| {
            of.destinations("ns-a", KindId::FIRST)
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(all(&arriving), [lhr.clone(), dfw]);
        assert!(
            arriving.settle("ns-a", KindId::FIRST, &web) && !arriving.settle("ns-a", KindId::FIRST, &web)
        );
        assert_eq!(all(&arriving), [lhr]);
        arriving.retain(|hub| **hub == *"ns-b");
        assert_eq!(all(&arriving), []);
        assert_eq!(arriving.destinations("ns-b", KindId::FIRST).count(), 1);
    }
}
