//! What nobody should do and somebody does: deletes of what the gateway has made.

use super::Tenant;
use crate::{
    support::{
        hub_namespace,
        kinds::{DEPLOYMENT, INSTANCE, Kind, NAMESPACE},
        plane::Plane,
    },
    sure::sure,
};
use kube::api::{DynamicObject, ListParams};

impl Tenant {
    /// Deletes a copy, a projection, or a deployment that belongs to a Workload.
    pub(super) async fn meddle(&mut self) {
        match self.rng.between(0, 3) {
            0 => {
                let namespace = self.plane.api(&NAMESPACE, "").get(&self.ns).await;
                let Ok(namespace) = namespace.map(|ns| serde_json::to_value(ns).unwrap_or_default()) else {
                    return;
                };
                let (hub, ns) = (self.hub.clone(), hub_namespace(&namespace));
                self.delete_one("copy deleted by hand", &hub, &DEPLOYMENT, &ns, |_| true)
                    .await;
            }
            1 => {
                let (plane, ns) = (self.plane.clone(), self.ns.clone());
                self.delete_one("projection deleted by hand", &plane, &INSTANCE, &ns, |_| true)
                    .await;
            }
            _ => {
                let (plane, ns) = (self.plane.clone(), self.ns.clone());
                let owned = |object: &DynamicObject| object.metadata.owner_references.is_some();
                self.delete_one(
                    "Workload's deployment deleted by hand",
                    &plane,
                    &DEPLOYMENT,
                    &ns,
                    owned,
                )
                .await;
            }
        }
    }

    async fn delete_one(
        &mut self,
        what: &'static str,
        plane: &Plane,
        kind: &Kind,
        ns: &str,
        among: impl Fn(&DynamicObject) -> bool,
    ) {
        // A plane that is down is left alone: nothing here need be done.
        let Ok(list) = plane.api(kind, ns).list(&ListParams::default()).await else {
            return;
        };
        let some: Vec<(&String, &String)> = list
            .items
            .iter()
            .filter(|object| among(object) && object.metadata.deletion_timestamp.is_none())
            .filter_map(|object| Some((object.metadata.name.as_ref()?, object.metadata.uid.as_ref()?)))
            .collect();
        if some.is_empty() {
            return;
        }
        let (name, uid) = *self.rng.pick(&some);
        let asked = sure(what, || plane.try_delete(kind, ns, name, Some(uid))).await;
        if asked.is_ok() {
            self.count(what);
        }
    }
}
