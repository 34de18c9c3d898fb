//! What tenants wish, as it comes to the hub, and what is done to the planes.

use super::{
    planes::{CITY, NS},
    rig::Rig,
};
use crate::objects::{config_map, deployment};
use fedgate_api::keys;
use fedgate_simulator::Down;
use serde_json::{Value, json};

const KIND: &str = "WorkloadDeployment";
/// An image that no registry has.
pub(super) const BAD: &str = "shop/web:bad";
/// Other images.
pub(super) const SECOND: &str = "shop/web:2";
pub(super) const THIRD: &str = "shop/web:3";
/// The companion that [`Op::CreateWith`] asks for.
const SETTINGS: &str = "settings";

/// One act. What cannot be done (a deployment that is not there) is left undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Op {
    /// A deployment is made, with so many Instances.
    Create(&'static str, u32),
    /// A deployment with a `ConfigMap` volume is created.
    CreateWith(&'static str, u32),
    /// The `ConfigMap` is brought to the cell.
    Companion,
    /// The number of Instances is set.
    Scale(&'static str, u32),
    /// The template gets another image.
    Image(&'static str, &'static str),
    /// Instances are replaced with this surge and so many unavailable ones, or as without settings.
    Rollout(&'static str, Option<(u32, u32)>),
    /// The deployment is suspended, or its suspension ends.
    Suspend(&'static str, bool),
    /// The deployment is deleted.
    Delete(&'static str),
    /// The quota admits this number of Instances.
    Budget(usize),
    /// Hub and project refuse connections, or accept them.
    Away(bool),
}

impl Op {
    /// Carries out the operation on the simulated planes.
    pub(super) fn apply(&self, rig: &Rig) {
        match *self {
            Self::Create(name, n) => create(rig, wished(name, n, None)),
            Self::CreateWith(name, n) => {
                let mut wish = wished(name, n, Some(SETTINGS));
                let expected = json!([format!("ConfigMap/{SETTINGS}")]).to_string();
                wish["metadata"]["annotations"] = json!({keys::EXPECTED_REFERENCED_DATA: expected});
                create(rig, wish);
            }
            Self::Companion => {
                let mut companion = config_map(NS, SETTINGS, "hello");
                companion["metadata"]["labels"] = json!({keys::REFERENCED_DATA: "true"});
                let _ = rig.cell.create(companion);
            }
            Self::Scale(name, n) => {
                change(rig, name, json!({"spec": {"scaleSettings": {"minReplicas": n}}}));
            }
            Self::Image(name, image) => {
                let Some(wish) = rig.hub.get(KIND, NS, name) else {
                    return;
                };
                let mut template = wish["spec"]["template"].clone();
                template["spec"]["runtime"]["sandbox"]["containers"][0]["image"] = json!(image);
                change(rig, name, json!({"spec": {"template": template}}));
            }
            Self::Rollout(name, limits) => {
                let settings = limits
                    .map(|(surge, unavailable)| json!({"maxSurge": surge, "maxUnavailable": unavailable}));
                change(
                    rig,
                    name,
                    json!({"spec": {"scaleSettings": {"rollout": settings}}}),
                );
            }
            Self::Suspend(name, on) => {
                let value = if on { json!("true") } else { Value::Null };
                change(
                    rig,
                    name,
                    json!({"metadata": {"annotations": {keys::SUSPENDED: value}}}),
                );
            }
            Self::Delete(name) => {
                let _ = rig.hub.delete(KIND, NS, name);
            }
            Self::Budget(n) => drop(rig.script.budget.send_replace(n)),
            Self::Away(away) => {
                for plane in [&rig.hub, &rig.project] {
                    plane.set_down(away.then_some(Down::Refused));
                }
            }
        }
    }
}

/// A deployment as the gateway brings it to the hub.
fn wished(name: &str, replicas: u32, config_map: Option<&str>) -> Value {
    let mut wish = deployment(NS, name, CITY, replicas, config_map);
    wish["metadata"]["labels"] = json!({keys::CITY_CODE: CITY});
    let container = &mut wish["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0];
    container["ports"] = json!([{"name": "http", "port": 8080}]);
    wish
}

fn create(rig: &Rig, wish: Value) {
    // It may be there already.
    let _ = rig.hub.create(wish);
}

fn change(rig: &Rig, name: &str, patch: Value) {
    // It may be gone already.
    let _ = rig.hub.merge(KIND, NS, name, patch);
}
