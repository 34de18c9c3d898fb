//! A Karmada Cluster as the commands see it. Pure.

use super::change::{MADE_BY, Maker, is_going, mark};
use fedgate_api::keys::{CITY_CODE, CORDONED, DRAINING, LOCATION, STAND_IN};
use kube::api::ApiResource;
use serde_json::{Value, json};

/// API version of Clusters.
pub const API_VERSION: &str = "cluster.karmada.io/v1alpha1";
/// Annotation on a Cluster that a command did not make: the name of the cell that may use it, by an operator.
pub const ADOPT: &str = "fedgate.dev/adopt";

/// First words of [`Cluster::pending`] for kinds that the member does not serve.
pub const NOT_SERVED: &str = "it does not serve";
/// Annotation on a Cluster that was withdrawn: its city and location, as JSON.
pub(super) const BEFORE: &str = "fedgate.dev/before";

/// A Cluster of the hub.
#[derive(Debug, Clone, Copy)]
pub struct Cluster<'a>(pub &'a Value);

impl<'a> Cluster<'a> {
    /// Name of the Cluster.
    pub fn name(self) -> &'a str {
        self.0["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The id of its member: UID of the member's namespace kube-system.
    pub fn id(self) -> &'a str {
        self.0["spec"]["id"].as_str().unwrap_or_default()
    }

    /// City of the Cluster; `None` while it is not open.
    pub fn city(self) -> Option<&'a str> {
        self.0["metadata"]["labels"][CITY_CODE].as_str()
    }

    /// City of the Cluster, or the one that a drain has noted.
    pub fn own_city(self) -> Option<String> {
        let noted = self.0["metadata"]["annotations"][BEFORE].as_str();
        let noted = noted.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let noted = noted.and_then(|before| before["city"].as_str().map(str::to_owned));
        self.city().map(str::to_owned).or(noted)
    }

    /// Location of the Cluster, if it has one.
    pub fn location(self) -> Option<&'a str> {
        self.0["metadata"]["labels"][LOCATION].as_str()
    }

    /// True if policies select it.
    pub fn is_open(self) -> bool {
        self.city().is_some() || self.location().is_some()
    }

    /// A merge patch that takes off the labels by which policies select it.
    pub fn withdrawn(self, annotations: &Value) -> Value {
        let mut labels = json!({CITY_CODE: null});
        if self.location().is_some() {
            labels[LOCATION] = Value::Null;
        }
        let mut patch = json!({"metadata": {"labels": labels}});
        if !annotations.is_null() {
            patch["metadata"]["annotations"] = annotations.clone();
        }
        self.patch(patch)
    }

    /// True if an operator lets the commands use it.
    pub fn is_adopted(self) -> bool {
        self.0["metadata"]["annotations"][ADOPT] == self.name()
    }

    /// True if a deletion has begun.
    pub fn is_going(self) -> bool {
        is_going(self.0)
    }

    /// Maker of the Cluster, in the words of `cells list`: these commands, the role `fedgate provisioner`, or another program.
    pub fn maker(self) -> &'static str {
        let makers = [Maker::Command, Maker::Provisioner].map(Maker::as_str);
        let made_by = self.0["metadata"]["labels"][MADE_BY].as_str();
        let maker = makers.into_iter().find(|maker| made_by == Some(maker));
        match mark(self.0) {
            Some(_) => maker.unwrap_or(Maker::Command.as_str()),
            None => "other",
        }
    }

    /// The status of a condition.
    pub fn condition(self, kind: &str) -> Option<&'a str> {
        let conditions = self.0["status"]["conditions"].as_array()?;
        conditions.iter().find(|c| c["type"] == kind)?["status"].as_str()
    }

    /// True if Karmada reports the member as reachable.
    pub fn is_ready(self) -> bool {
        self.condition("Ready") == Some("True")
    }

    /// True if it is of the sandbox's stand-in for Karmada.
    pub fn is_stand_in(self) -> bool {
        !self.0["metadata"]["annotations"][STAND_IN].is_null()
    }

    /// True if the member serves the kind, by Karmada's complete list of its APIs.
    pub fn serves(self, kind: &ApiResource) -> bool {
        let groups = self.0["status"]["apiEnablements"].as_array();
        let mut groups = groups.into_iter().flatten();
        self.is_stand_in()
            || groups.any(|group| {
                let resources = group["resources"].as_array();
                group["groupVersion"] == *kind.api_version
                    && resources.into_iter().flatten().any(|r| r["kind"] == *kind.kind)
            })
    }

    /// True if a drain has taken its labels off and noted them.
    pub fn is_withdrawn(self) -> bool {
        !self.0["metadata"]["annotations"][BEFORE].is_null()
    }

    /// True if new bindings are kept away by a taint of ours.
    pub fn is_cordoned(self) -> bool {
        self.taints().iter().any(is_ours)
    }

    fn taints(self) -> Vec<Value> {
        self.0["spec"]["taints"].as_array().cloned().unwrap_or_default()
    }

    /// True if it takes new deployments of its city.
    pub fn is_available(self, kinds: &[ApiResource]) -> bool {
        let repels = |taint: &Value| matches!(taint["effect"].as_str(), Some("NoSchedule" | "NoExecute"));
        self.city().is_some()
            && self.is_ready()
            && !self.is_going()
            && !self.taints().iter().any(repels)
            && kinds.iter().all(|kind| self.serves(kind))
    }

    /// The missing step before it can be opened; `None` if there is none.
    pub fn pending(self, kinds: &[ApiResource]) -> Option<String> {
        if !self.is_ready() {
            return Some("Karmada does not call it Ready".to_owned());
        }
        if self.condition("CompleteAPIEnablements") == Some("False") {
            return Some("Karmada has not read all of its APIs".to_owned());
        }
        let missing: Vec<&str> = kinds
            .iter()
            .filter(|kind| !self.serves(kind))
            .map(|kind| kind.kind.as_str())
            .collect();
        (!missing.is_empty()).then(|| format!("{NOT_SERVED} {}", missing.join(", ")))
    }

    /// The taints with this one of ours, or with none of them; `None` if they are that already.
    pub fn taints_with(self, own: Option<&str>) -> Option<Vec<Value>> {
        let had = self.taints();
        let ours: Vec<&str> = had
            .iter()
            .filter(|taint| is_ours(taint))
            .filter_map(|taint| taint["key"].as_str())
            .collect();
        if ours == own.as_slice() {
            return None;
        }
        let mut taints = had.clone();
        taints.retain(|taint| !is_ours(taint));
        taints.extend(own.map(|key| json!({"key": key, "effect": "NoSchedule"})));
        Some(taints)
    }

    /// A merge patch of this very version of the Cluster.
    pub fn patch(self, mut patch: Value) -> Value {
        patch["apiVersion"] = json!(API_VERSION);
        patch["kind"] = json!("Cluster");
        for key in ["name", "uid", "resourceVersion"] {
            patch["metadata"][key] = self.0["metadata"][key].clone();
        }
        patch
    }
}

/// True if a taint is one by which these commands keep new bindings away.
fn is_ours(taint: &Value) -> bool {
    taint["key"] == DRAINING || taint["key"] == CORDONED
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A Cluster that is ready and serves our kind.
    pub(crate) fn cluster(name: &str, id: &str, city: Option<&str>) -> Value {
        let labels = city.map(|city| json!({CITY_CODE: city, MADE_BY: "command"}));
        json!({
            "apiVersion": API_VERSION, "kind": "Cluster",
            "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "7",
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels,
                "annotations": {"fedgate.dev/cell-uid": format!("member-{id}")}},
            "spec": {"id": id, "syncMode": "Push"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "apiEnablements": [
                {"groupVersion": "compute.datumapis.com/v1alpha", "resources": [{"kind": "WorkloadDeployment"}]}]},
        })
    }

    /// Our kind.
    pub(crate) fn kinds() -> Vec<ApiResource> {
        vec![super::super::plane::kind(
            "compute.datumapis.com/v1alpha",
            "WorkloadDeployment",
        )]
    }

    #[test]
    fn a_cluster_is_opened_only_when_ready_and_serving_the_kinds() {
        let good = cluster("dfw-2", "id", None);
        assert_eq!(Cluster(&good).pending(&kinds()), None);
        let with = |path: &str, value: Value| {
            let mut bad = good.clone();
            *bad.pointer_mut(path).unwrap() = value;
            Cluster(&bad).pending(&kinds()).unwrap()
        };
        assert!(with("/status/conditions/0/status", json!("False")).contains("Ready"));
        assert!(with("/status/apiEnablements", json!([])).contains("WorkloadDeployment"));
        let partial = json!([{"type": "Ready", "status": "True"}, {"type": "CompleteAPIEnablements", "status": "False"}]);
        assert!(with("/status/conditions", partial).contains("APIs"));
    }

    #[test]
    fn only_an_open_untainted_cell_takes_new_deployments() {
        let mut open = cluster("dfw-2", "id", Some("DFW"));
        assert!(Cluster(&open).is_available(&kinds()));
        assert!(!Cluster(&cluster("dfw-2", "id", None)).is_available(&kinds()));
        let other = json!({"key": "x", "effect": "PreferNoSchedule"});
        open["spec"]["taints"] = json!([other.clone()]);
        assert!(Cluster(&open).is_available(&kinds()));
        let taints = Cluster(&open).taints_with(Some(DRAINING)).unwrap();
        assert_eq!(
            taints,
            [other.clone(), json!({"key": DRAINING, "effect": "NoSchedule"})]
        );
        open["spec"]["taints"] = json!(taints);
        assert!(!Cluster(&open).is_available(&kinds()));
        assert_eq!(Cluster(&open).taints_with(Some(DRAINING)), None);
        let cordoned = json!({"key": CORDONED, "effect": "NoSchedule"});
        assert_eq!(
            Cluster(&open).taints_with(Some(CORDONED)),
            Some(vec![other.clone(), cordoned])
        );
        assert_eq!(Cluster(&open).taints_with(None), Some(vec![other]));
    }
}
