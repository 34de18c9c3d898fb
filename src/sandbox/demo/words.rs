//! Objects in plain words.

use crate::{api::keys, sandbox::PlaneRole};
use serde_json::Value;

/// How an object came to the plane.
pub(super) fn arrival(role: PlaneRole, kind: &str, object: &Value) -> String {
    let owned = object["metadata"]["ownerReferences"].is_array();
    let text = match (role, kind) {
        (PlaneRole::Hub, "Instance") => {
            let cell = object["metadata"]["labels"][keys::CELL].as_str().unwrap_or("?");
            return format!("is written back by cell {cell}");
        }
        (PlaneRole::Hub, "ConfigMap" | "Secret") => "is copied by the gateway, beside its users",
        (PlaneRole::Hub, "WorkloadDeployment") => "is copied by the gateway",
        (PlaneRole::Hub, "ResourceBinding" | "ClusterResourceBinding") => "is made by the hub's controllers",
        (PlaneRole::Hub, _) => "is made by the gateway",
        (PlaneRole::Cell, "Instance") => "is made by the cell",
        (PlaneRole::Cell, _) => "is delivered by the hub's controllers",
        (PlaneRole::Project, "Instance") => "is projected by the gateway",
        (PlaneRole::Project, "WorkloadDeployment") if owned => "is made by the gateway",
        (PlaneRole::Project, _) => "is applied",
    };
    text.to_owned()
}

/// What matters of an object's present state; empty if its being there is all.
pub(super) fn facts(kind: &str, object: &Value) -> String {
    let mut facts = match kind {
        "Workload" => workload(object),
        "WorkloadDeployment" => deployment(object),
        "Instance" => condition(object, "Ready").into_iter().collect(),
        "Namespace" => object["metadata"]["labels"][keys::CITIES]
            .as_str()
            .map(|set| format!("goes to the cities {set}"))
            .into_iter()
            .collect(),
        "PropagationPolicy" | "ClusterPropagationPolicy" => vec![placement(object)],
        "ResourceBinding" | "ClusterResourceBinding" => binding(object),
        _ => Vec::new(),
    };
    if !object["metadata"]["deletionTimestamp"].is_null() {
        facts.push("being deleted".to_owned());
    }
    facts.retain(|fact| !fact.is_empty());
    facts.join(", ")
}

fn workload(object: &Value) -> Vec<String> {
    let placements = object["spec"]["placements"].as_array().into_iter().flatten();
    let mut facts: Vec<String> = placements
        .map(|placement| {
            let cities: Vec<&str> = placement["cityCodes"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let name = placement["name"].as_str().unwrap_or_default();
            let count = &placement["scaleSettings"]["minReplicas"];
            format!("{name} = {count} in {}", cities.join(", "))
        })
        .collect();
    facts.extend(ready(object));
    facts
}

fn deployment(object: &Value) -> Vec<String> {
    let spec = &object["spec"];
    let city = spec["cityCode"].as_str().unwrap_or_default();
    let mut facts = vec![format!("{} in {city}", spec["scaleSettings"]["minReplicas"])];
    facts.extend(ready(object));
    if let Some(data) = condition(object, "ReferencedDataReady") {
        facts.push(data);
    }
    facts
}

fn ready(object: &Value) -> Vec<String> {
    let status = &object["status"];
    let mut facts = Vec::new();
    if let (Some(ready), Some(desired)) = (
        status["readyReplicas"].as_i64(),
        status["desiredReplicas"].as_i64(),
    ) && desired > 0
    {
        facts.push(format!("{ready} of {desired} ready"));
    }
    facts.extend(condition(object, "Available"));
    facts
}

fn condition(object: &Value, kind: &str) -> Option<String> {
    let conditions = object["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == kind)?;
    let (status, reason) = (found["status"].as_str()?, found["reason"].as_str()?);
    Some(if status == reason || status == "True" {
        format!("{kind}={status}")
    } else {
        format!("{kind}={status} ({reason})")
    })
}

fn placement(object: &Value) -> String {
    let affinity = &object["spec"]["placement"]["clusterAffinity"]["labelSelector"];
    let one = affinity["matchLabels"][keys::CITY_CODE].as_str();
    let several = affinity["matchExpressions"][0]["values"].as_array();
    let cities: Vec<&str> = one
        .into_iter()
        .chain(several.into_iter().flatten().filter_map(Value::as_str))
        .collect();
    format!("to cells in {}", cities.join(", "))
}

fn binding(object: &Value) -> Vec<String> {
    let clusters: Vec<&str> = object["spec"]["clusters"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|cluster| cluster["name"].as_str())
        .collect();
    if clusters.is_empty() {
        Vec::new()
    } else {
        vec![format!("scheduled to {}", clusters.join(", "))]
    }
}

#[cfg(test)]
mod tests {
    use super::{arrival, facts};
    use crate::{api::keys, sandbox::PlaneRole};
    use serde_json::json;

    #[test]
    fn a_deployment_says_count_city_and_state() {
        let mut object = json!({"spec": {"cityCode": "DFW", "scaleSettings": {"minReplicas": 2}}});
        assert_eq!(facts("WorkloadDeployment", &object), "2 in DFW");
        object["status"] = json!({
            "readyReplicas": 0, "desiredReplicas": 0,
            "conditions": [{"type": "Available", "status": "False", "reason": "NoCellReporting"}],
        });
        assert_eq!(
            facts("WorkloadDeployment", &object),
            "2 in DFW, Available=False (NoCellReporting)"
        );
        object["status"] = json!({"readyReplicas": 1, "desiredReplicas": 2, "conditions": []});
        object["metadata"] = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(
            facts("WorkloadDeployment", &object),
            "2 in DFW, 1 of 2 ready, being deleted"
        );
    }

    #[test]
    fn policies_say_their_cities() {
        let one = json!({"spec": {"placement": {"clusterAffinity": {"labelSelector":
            {"matchLabels": {keys::CITY_CODE: "DFW"}}}}}});
        let two = json!({"spec": {"placement": {"clusterAffinity": {"labelSelector":
            {"matchExpressions": [{"key": keys::CITY_CODE, "operator": "In", "values": ["DFW", "LHR"]}]}}}}});
        assert_eq!(facts("PropagationPolicy", &one), "to cells in DFW");
        assert_eq!(facts("ClusterPropagationPolicy", &two), "to cells in DFW, LHR");
    }

    #[test]
    fn a_write_back_names_its_cell() {
        let object = json!({"metadata": {"labels": {keys::CELL: "dfw-1"}}});
        assert_eq!(
            arrival(PlaneRole::Hub, "Instance", &object),
            "is written back by cell dfw-1"
        );
    }
}
