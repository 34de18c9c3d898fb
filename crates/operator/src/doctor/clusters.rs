//! Karmada's Clusters: each needs a city, has to be ready and to serve our kinds.

use super::{Check, Finding, PreflightError, Subject};
use fedgate_api::keys::{self, STAND_IN};
use fedgate_engine::plane::client::PlaneClient;
use fedgate_gateway::lane::NO_MEMBER;
use fedgate_kinds::FederatedKind;
use kube::{
    Api,
    api::ListParams,
    core::{ApiResource, DynamicObject},
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Most Clusters that are read.
const AT_MOST: u32 = 500;

pub(super) fn resource() -> ApiResource {
    fedgate_gateway::index::resource("cluster.karmada.io", "v1alpha1", "Cluster", "clusters")
}

/// The hub's Clusters.
pub(super) async fn list(hub: &PlaneClient) -> Result<Vec<DynamicObject>, PreflightError> {
    let api: Api<DynamicObject> = Api::all_with(hub.client(), &resource());
    let list = api.list(&ListParams::default().limit(AT_MOST)).await;
    let list = list.map_err(|e| PreflightError::of(&e, "list", "clusters.cluster.karmada.io"))?;
    Ok(list.items)
}

/// Checks the Clusters; each fault is a finding.
pub(super) fn check(subject: &Subject, clusters: &[DynamicObject], kinds: &[FederatedKind]) -> Vec<Finding> {
    if clusters.is_empty() {
        let next = "join the cells: fedgate cells join NAME --city CITY";
        return vec![subject.open(Check::Cells, "no Cluster is registered", next)];
    }
    let mut findings = Vec::new();
    let mut fault = |of: Vec<&str>, text: &str, next: &dyn Fn(&str) -> String| {
        if !of.is_empty() {
            let text = format!("{text}: {}", of.join(", "));
            findings.push(subject.fail(Check::Cells, text, next(&of.join(" "))));
        }
    };
    let names = |is: &dyn Fn(&DynamicObject) -> bool| -> Vec<&str> {
        let found = clusters.iter().filter(|cluster| is(cluster));
        found
            .filter_map(|cluster| cluster.metadata.name.as_deref())
            .collect()
    };
    // All kinds share one label.
    let label = kinds
        .first()
        .map_or(keys::CITY_CODE, |kind| &kind.placement.label);
    let city = |cluster: &DynamicObject| cluster.metadata.labels.as_ref()?.get(label).cloned();
    let is_no_member = |cluster: &DynamicObject| cluster.metadata.name.as_deref() == Some(NO_MEMBER);
    fault(
        names(&|cluster| is_no_member(cluster) && kinds.iter().any(FederatedKind::is_exactly_one)),
        "a Cluster has the name to which lanes give objects that no member is to have, so it may get them",
        &|name| {
            format!(
                "join it under another name, and take this one away: \
                 fedgate cells leave {name} --hub-kubeconfig FILE"
            )
        },
    );
    fault(
        names(&|cluster| city(cluster).is_none()),
        "Clusters without a city label get no deployments",
        &|names| format!("label them: kubectl label clusters.cluster.karmada.io {names} {label}=<CODE>"),
    );
    fault(
        names(&|cluster| !is_ready(cluster)),
        "Clusters that are not ready get no deployments",
        &|names| format!("look into their conditions: kubectl describe clusters.cluster.karmada.io {names}"),
    );
    fault(
        names(&|cluster| is_ready(cluster) && kinds.iter().any(|kind| !serves(cluster, &kind.resource))),
        "Clusters do not serve our kinds (status.apiEnablements), so Karmada schedules nothing there",
        &|_| "apply manifests/crds to these cells".to_owned(),
    );
    fault(
        names(&|cluster| {
            let is = location(cluster);
            is.is_some()
                && clusters
                    .iter()
                    .any(|other| location(other) == is && city(other) != city(cluster))
        }),
        "Clusters of one location differ in their city, so deployments of the location go nowhere",
        &|names| {
            format!(
                "give them one city, or locations of their own: kubectl get clusters.cluster.karmada.io {names} --show-labels"
            )
        },
    );
    fault(
        names(&|cluster| {
            let is = city(cluster);
            location(cluster).is_none()
                && is.is_some()
                && clusters
                    .iter()
                    .any(|other| city(other) == is && location(other).is_some())
        }),
        "Clusters lack the location that others of their city have, so deployments of that location do not go there",
        &|names| {
            format!(
                "label them as the others: kubectl label clusters.cluster.karmada.io {names} {}=<NAME>",
                keys::LOCATION
            )
        },
    );
    if findings.is_empty() {
        let text = format!(
            "all {} Clusters are ready, {}",
            clusters.len(),
            cities(clusters, &city)
        );
        findings.push(subject.ok(Check::Cells, text));
    }
    findings
}

fn location(cluster: &DynamicObject) -> Option<&String> {
    cluster.metadata.labels.as_ref()?.get(keys::LOCATION)
}

/// The cities, those with several cells by name.
fn cities(clusters: &[DynamicObject], city: &dyn Fn(&DynamicObject) -> Option<String>) -> String {
    let mut by_city: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for cluster in clusters {
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        by_city
            .entry(city(cluster).unwrap_or_default())
            .or_default()
            .push(name);
    }
    let shared = by_city.iter().filter(|(_, cells)| cells.len() > 1);
    let shared: Vec<String> = shared
        .map(|(city, cells)| format!("{city} has several cells: {}", cells.join(", ")))
        .collect();
    match &shared[..] {
        [] => format!(
            "each in a city of its own ({})",
            by_city.into_keys().collect::<Vec<_>>().join(", ")
        ),
        shared => shared.join("; "),
    }
}

pub(super) fn is_ready(cluster: &DynamicObject) -> bool {
    let conditions = cluster.data["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// True if the Cluster is of the sandbox's stand-in for Karmada.
pub(super) fn is_stand_in(cluster: &DynamicObject) -> bool {
    let annotations = cluster.metadata.annotations.as_ref();
    annotations.is_some_and(|annotations| annotations.contains_key(STAND_IN))
}

/// True if the Cluster says that it serves the kind. The sandbox's stand-in for Karmada says nothing of it.
fn serves(cluster: &DynamicObject, kind: &ApiResource) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let enabled = list(&cluster.data["status"]["apiEnablements"]);
    is_stand_in(cluster)
        || enabled.iter().any(|group| {
            let mut resources = list(&group["resources"]).into_iter();
            group["groupVersion"] == *kind.api_version && resources.any(|r| r["kind"] == *kind.kind)
        })
}

#[cfg(test)]
mod tests {
    use super::{super::Verdict, super::tests::subject, *};
    use serde_json::json;

    fn cluster(name: &str, city: Option<&str>, ready: &str, kind: &str) -> DynamicObject {
        let labels = city.map(|city| json!({"topology.datum.net/city-code": city}));
        serde_json::from_value(json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": name, "labels": labels},
            "status": {"conditions": [{"type": "Ready", "status": ready}], "apiEnablements": [
                {"groupVersion": "compute.datumapis.com/v1alpha", "resources": [{"kind": kind, "name": "x"}]}]}}))
        .unwrap()
    }

    fn findings(clusters: &[DynamicObject]) -> Vec<(Verdict, String)> {
        let kinds = FederatedKind::builtin().unwrap();
        let all = check(&subject(), clusters, &kinds).into_iter();
        all.map(|f| (f.verdict, format!("{}; {}", f.text, f.next)))
            .collect()
    }

    #[test]
    fn each_fault_of_a_cluster_is_named_with_its_next_step() {
        let kind = "WorkloadDeployment";
        let good = cluster("dfw-1", Some("DFW"), "True", kind);
        assert_eq!(findings(std::slice::from_ref(&good))[0].0, Verdict::Ok);
        assert_eq!(findings(&[])[0].0, Verdict::Open);
        for (bad, text, next) in [
            (
                cluster("lhr-1", None, "True", kind),
                "without a city label get no deployments: lhr-1",
                "kubectl label clusters.cluster.karmada.io lhr-1",
            ),
            (
                cluster("lhr-1", Some("LHR"), "False", kind),
                "not ready get no deployments: lhr-1",
                "kubectl describe clusters.cluster.karmada.io lhr-1",
            ),
            (
                cluster("lhr-1", Some("LHR"), "True", "Deployment"),
                "do not serve our kinds",
                "apply manifests/crds",
            ),
        ] {
            let found = findings(&[good.clone(), bad]);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].0, Verdict::Fail);
            assert!(
                found[0].1.contains(text) && found[0].1.contains(next),
                "{found:?}"
            );
            assert!(!found[0].1.contains("dfw-1"), "{found:?}");
        }
        let located = |name: &str, city: Option<&str>, location: &str| {
            let mut cluster = cluster(name, city, "True", kind);
            let labels = cluster.metadata.labels.get_or_insert_default();
            labels.insert(keys::LOCATION.to_owned(), location.to_owned());
            cluster
        };
        let differ =
            "Clusters of one location differ in their city, so deployments of the location go nowhere: ";
        let lack = "Clusters lack the location that others of their city have, so deployments of that location do not go there: ";
        for (clusters, text) in [
            (
                vec![located("a", Some("LHR"), "x"), located("b", Some("DFW"), "x")],
                format!("{differ}a, b; give"),
            ),
            (
                vec![located("a", Some("DFW"), "x"), good.clone()],
                format!("{lack}dfw-1; label"),
            ),
        ] {
            let found = findings(&clusters);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(
                found[0].0 == Verdict::Fail && found[0].1.starts_with(&text),
                "{found:?}"
            );
        }
        let fine = [
            located("a", Some("DFW"), "x"),
            located("b", Some("DFW"), "y"),
            located("c", Some("LHR"), "z"),
        ];
        assert_eq!(findings(&fine)[0].0, Verdict::Ok);
        let two = [good.clone(), cluster("dfw-2", Some("DFW"), "True", kind)];
        assert!(
            findings(&two)[0]
                .1
                .contains("DFW has several cells: dfw-1, dfw-2")
        );
    }
}
