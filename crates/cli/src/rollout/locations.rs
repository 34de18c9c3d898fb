//! The cities of a Workload that no Location serves.

use super::row::workload_refusal;
use crate::{
    plane::{Plane, Resource, Scope},
    view::{Joined, Object},
};
use fedgate_api::{conditions::types::READY, keys};
use std::collections::BTreeSet;

/// The cities that Locations serve, looked up again when the spec or the cities without a deployment have changed.
#[derive(Debug, Default)]
pub(crate) struct Locations {
    /// Generation of the Workload at the last lookup, and the cities that had no deployment.
    of: (i64, BTreeSet<String>),
    /// `None` if Locations cannot be listed, or there are none: then cities may not be checked at all.
    served: Option<BTreeSet<String>>,
}

impl Locations {
    /// Notes the cities that no Location serves. Nothing is read as long as every city has its deployment, or may still get
    /// one because the Workload's controller has not acted.
    pub(crate) async fn look_up(&mut self, plane: &Plane, joined: &mut Joined) {
        let workload = &joined.workload;
        let acted = workload.number("/status/observedGeneration") == workload.generation();
        let lacking = joined.cities.iter().filter(|(city, deployment)| {
            deployment.is_none() && (acted || workload_refusal(workload, city).is_some())
        });
        let mut lacking: BTreeSet<String> = lacking.map(|(city, _)| city.city.clone()).collect();
        if lacking.is_empty() {
            return;
        }
        let of = (workload.generation(), lacking.clone());
        if self.of != of {
            self.of = of;
            let listed = plane.list_in(Resource::Locations, Scope::All, "").await;
            self.served = listed.ok().and_then(|locations| served(&locations));
        }
        if let Some(served) = &self.served {
            lacking.retain(|city| !served.contains(city));
            joined.unserved = lacking;
        }
    }
}

/// The cities of Locations, without those that are not ready; `None` without Locations.
fn served(locations: &[Object]) -> Option<BTreeSet<String>> {
    let ready = locations
        .iter()
        .filter(|location| !location.condition(READY).is_some_and(|ready| ready.refuses()));
    let codes = ready.filter_map(|location| location.0["spec"]["topology"][keys::CITY_CODE].as_str());
    let served = codes.map(str::to_owned).collect();
    (!locations.is_empty()).then_some(served)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_location_that_is_not_ready_serves_no_city_and_without_locations_nothing_is_known() {
        let location = |code: &str, ready: &str| {
            Object(json!({"spec": {"topology": {keys::CITY_CODE: code}},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}}))
        };
        let all = [
            location("DFW", "True"),
            location("LHR", "False"),
            location("IAD", "Unknown"),
        ];
        let served = served(&all).unwrap();
        assert_eq!(served.iter().collect::<Vec<_>>(), ["DFW", "IAD"]);
        assert_eq!(super::served(&[]), None);
    }
}
