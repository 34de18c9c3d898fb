//! The use of a cell: bindings, write-backs, and objects of tenants at the member. Pure, but for the lists.

use super::{
    cluster::Cluster,
    error::Error,
    plane::{Plane, kind},
};
use fedgate_api::keys::{CELL, CITY_CODE, CLAIM_FINALIZER, LOCATION};
use kube::api::ApiResource;
use serde_json::Value;
use std::fmt;

/// Bindings of Karmada.
pub fn bindings() -> [ApiResource; 2] {
    ["ResourceBinding", "ClusterResourceBinding"].map(|name| kind("work.karmada.io/v1alpha2", name))
}

/// Instances, on any plane.
pub fn instances() -> ApiResource {
    kind("compute.datumapis.com/v1alpha", "Instance")
}

/// True if the binding delivers to the cell.
pub fn names_cell(binding: &Value, cell: &str) -> bool {
    let clusters = binding["spec"]["clusters"].as_array();
    clusters
        .into_iter()
        .flatten()
        .any(|cluster| cluster["name"] == cell)
}

/// True if the binding is of a city or location: its affinity names the label.
pub fn is_placed(binding: &Value) -> bool {
    let affinity = binding["spec"]["placement"]["clusterAffinity"].to_string();
    affinity.contains(CITY_CODE) || affinity.contains(LOCATION)
}

/// True if the binding is of a location.
pub fn is_located(binding: &Value) -> bool {
    let affinity = &binding["spec"]["placement"]["clusterAffinity"];
    affinity.to_string().contains(LOCATION)
}

/// True if another cell reports the binding's object as applied and healthy, or none has to.
pub fn is_safe_without(binding: &Value, cell: &str) -> bool {
    let items = binding["status"]["aggregatedStatus"].as_array();
    items
        .into_iter()
        .flatten()
        .any(|item| item["clusterName"] != cell && item["applied"] == true && item["health"] == "Healthy")
}

/// `namespace/name` of a binding's object.
pub fn object_of(binding: &Value) -> String {
    let text = |key: &str| binding["spec"]["resource"][key].as_str().unwrap_or_default();
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    }
}

/// The uses of a cell.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Deployments that are delivered to it.
    pub deployments: Vec<String>,
    /// Other bindings that name it.
    pub other_bindings: usize,
    /// Its write-backs on the hub.
    pub write_backs: Vec<String>,
    /// Instances at the member.
    pub instances: Vec<String>,
    /// Instances of these that hold a claim of quota.
    pub claims: usize,
}

impl Usage {
    /// The uses that the lists show.
    pub fn of(cell: &str, bindings: &[Value], write_backs: &[Value], instances: &[Value]) -> Self {
        let mut usage = Self::default();
        for binding in bindings.iter().filter(|binding| names_cell(binding, cell)) {
            if binding["spec"]["resource"]["kind"] == "WorkloadDeployment" {
                usage.deployments.push(object_of(binding));
            } else {
                usage.other_bindings += 1;
            }
        }
        let written = write_backs
            .iter()
            .filter(|w| w["metadata"]["labels"][CELL] == cell);
        usage.write_backs = written.map(identity).collect();
        usage.instances = instances.iter().map(identity).collect();
        let claims = |instance: &&Value| {
            let finalizers = instance["metadata"]["finalizers"].as_array();
            finalizers.into_iter().flatten().any(|f| f == CLAIM_FINALIZER)
        };
        usage.claims = instances.iter().filter(claims).count();
        usage
    }

    /// True if nothing uses it.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for (names, noun) in [
            (&self.deployments, "deployments"),
            (&self.write_backs, "write-backs on the hub"),
            (&self.instances, "Instances at the cell"),
        ] {
            if !names.is_empty() {
                parts.push(format!("{} {noun} ({})", names.len(), first(names)));
            }
        }
        if self.claims > 0 {
            parts.push(format!("{} quota claims", self.claims));
        }
        if self.other_bindings > 0 {
            parts.push(format!("{} other bindings", self.other_bindings));
        }
        f.write_str(&parts.join(", "))
    }
}

/// The first five names.
pub fn first(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names
        .iter()
        .take(SHOWN)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > SHOWN {
        return format!("{shown}, ...");
    }
    shown
}

/// `namespace/name` of an object.
pub fn identity(object: &Value) -> String {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

/// Reads the bindings of the hub.
pub async fn list_bindings(hub: &Plane) -> Result<Vec<Value>, Error> {
    let mut all = Vec::new();
    for kind in bindings() {
        all.extend(hub.list(&kind, "").await?);
    }
    Ok(all)
}

/// Reads the uses of a cell; those at the member only if it is given.
pub async fn read(cell: &str, hub: &Plane, member: Option<&Plane>) -> Result<Usage, Error> {
    let bindings = list_bindings(hub).await?;
    let write_backs = hub
        .list_if_served(&instances(), &format!("{CELL}={cell}"))
        .await?;
    let instances = match member {
        Some(member) => member.list_if_served(&instances(), "").await?,
        None => Vec::new(),
    };
    Ok(Usage::of(cell, &bindings, &write_backs, &instances))
}

/// Other cells that take new deployments of the city.
pub fn others_of_city<'a>(
    cell: Cluster<'_>,
    clusters: &'a [Value],
    kinds: &[ApiResource],
) -> Vec<Cluster<'a>> {
    clusters
        .iter()
        .map(Cluster)
        .filter(|other| other.name() != cell.name() && other.city().is_some() && other.city() == cell.city())
        .filter(|other| other.is_available(kinds))
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::{
        super::cluster::tests::{cluster, kinds},
        *,
    };
    use serde_json::json;

    /// A binding of a deployment.
    pub(crate) fn binding(cells: &[&str], healthy: &[&str]) -> Value {
        let clusters: Vec<Value> = cells.iter().map(|name| json!({"name": name})).collect();
        let status: Vec<Value> = healthy
            .iter()
            .map(|name| json!({"clusterName": name, "applied": true, "health": "Healthy"}))
            .collect();
        json!({
            "metadata": {"name": "web-workloaddeployment", "namespace": "ns-1"},
            "spec": {
                "resource": {"kind": "WorkloadDeployment", "namespace": "ns-1", "name": "web"},
                "clusters": clusters,
                "placement": {"clusterAffinity": {"labelSelector": {"matchLabels": {CITY_CODE: "DFW"}}}},
            },
            "status": {"aggregatedStatus": status},
        })
    }

    #[test]
    fn everything_that_uses_a_cell_is_named() {
        let write_back =
            json!({"metadata": {"name": "web-0", "namespace": "ns-1", "labels": {CELL: "dfw-1"}}});
        let instance =
            json!({"metadata": {"name": "web-0", "namespace": "ns-1", "finalizers": [CLAIM_FINALIZER]}});
        let other = json!({"spec": {"resource": {"kind": "Namespace", "name": "ns-1"}, "clusters": [{"name": "dfw-1"}]}});
        let all = [binding(&["dfw-1", "dfw-2"], &[]), binding(&["lhr-1"], &[]), other];
        let usage = Usage::of("dfw-1", &all, std::slice::from_ref(&write_back), &[instance]);
        assert_eq!(
            usage.to_string(),
            "1 deployments (ns-1/web), 1 write-backs on the hub (ns-1/web-0), 1 Instances at the cell (ns-1/web-0), \
             1 quota claims, 1 other bindings"
        );
        assert!(Usage::of("iad-1", &all, &[write_back], &[]).is_empty());
    }

    #[test]
    fn a_deployment_is_safe_only_with_another_healthy_cell() {
        assert!(is_safe_without(
            &binding(&["dfw-1", "dfw-2"], &["dfw-1", "dfw-2"]),
            "dfw-1"
        ));
        assert!(!is_safe_without(
            &binding(&["dfw-1", "dfw-2"], &["dfw-1"]),
            "dfw-1"
        ));
        assert!(!is_safe_without(&binding(&["dfw-1"], &[]), "dfw-1"));
        assert!(is_placed(&binding(&[], &[])) && !is_placed(&json!({})));
    }

    #[test]
    fn only_open_ready_cells_of_the_same_city_count_as_others() {
        let mut dead = cluster("dfw-4", "4", Some("DFW"));
        dead["status"]["conditions"][0]["status"] = json!("Unknown");
        let all = [
            cluster("dfw-1", "1", Some("DFW")),
            cluster("dfw-2", "2", Some("DFW")),
            cluster("lhr-1", "3", Some("LHR")),
            dead,
        ];
        let others = others_of_city(Cluster(&all[0]), &all, &kinds());
        assert_eq!(
            others.into_iter().map(Cluster::name).collect::<Vec<_>>(),
            ["dfw-2"]
        );
    }
}
