//! Objects in plain words.

use crate::PlaneRole;
use fedgate_api::keys;
use serde_json::Value;

/// What happened to an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    Arrival,
    Change,
    Gone,
}

/// Whether people are told: what a tenant looks at, and what becomes of Pods. The rest would hide it.
pub(super) fn is_told(role: PlaneRole, kind: &str, news: News, object: &Value) -> bool {
    match (role, kind) {
        (PlaneRole::Project, "Instance") => true,
        (PlaneRole::Project, _) => news != News::Change,
        (_, "Pod") => news == News::Gone || (!is_leaving(object) && pod(object) != "Pending"),
        _ => false,
    }
}

fn is_leaving(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

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
        (PlaneRole::Cell, "Instance" | "Pod") => "is made by the cell",
        (PlaneRole::Cell, _) => "is delivered by the hub's controllers",
        (PlaneRole::Project, "Instance") => "is projected by the gateway",
        (PlaneRole::Project, "WorkloadDeployment") if owned => "is made by the gateway",
        (PlaneRole::Project | PlaneRole::Platform | PlaneRole::Activity, _) => "is applied",
    };
    text.to_owned()
}

/// What matters of an object's present state; empty if its being there is all.
pub(super) fn facts(kind: &str, object: &Value) -> String {
    let mut facts = match kind {
        "Workload" => workload(object),
        "WorkloadDeployment" => deployment(object),
        "Instance" => instance(object),
        "Pod" => vec![pod(object)],
        "Namespace" => object["metadata"]["labels"][keys::CITIES]
            .as_str()
            .map(|set| format!("goes to the cities {set}"))
            .into_iter()
            .collect(),
        "PropagationPolicy" | "ClusterPropagationPolicy" => vec![placement(object)],
        "ResourceBinding" | "ClusterResourceBinding" => binding(object),
        _ => Vec::new(),
    };
    if is_leaving(object) {
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
    facts
}

fn instance(object: &Value) -> Vec<String> {
    let mut facts: Vec<String> = condition(object, "Ready").into_iter().collect();
    if is_true(object, "Ready") {
        let address = &object["status"]["networkInterfaces"][0]["assignments"]["networkIP"];
        facts.extend(address.as_str().map(str::to_owned));
    }
    facts
}

/// Whether a condition is True.
pub(super) fn is_true(object: &Value, kind: &str) -> bool {
    find(object, kind).is_some_and(|condition| condition["status"] == "True")
}

/// The reason of a condition that is not True.
pub(super) fn reason<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    find(object, kind)
        .filter(|condition| condition["status"] != "True")
        .and_then(|condition| condition["reason"].as_str())
}

fn find<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

fn pod(object: &Value) -> String {
    let statuses = object["status"]["containerStatuses"].as_array();
    let waiting = statuses
        .into_iter()
        .flatten()
        .find_map(|status| status["state"]["waiting"]["reason"].as_str());
    if is_true(object, "Ready") {
        "Ready".to_owned()
    } else if let Some(reason) = waiting {
        format!("waits, {reason}")
    } else {
        object["status"]["phase"].as_str().unwrap_or_default().to_owned()
    }
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
    let found = find(object, kind)?;
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
    use super::{News, arrival, facts, is_told, reason};
    use crate::PlaneRole;
    use fedgate_api::keys;
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
    fn pods_say_why_they_wait() {
        let mut object = json!({"status": {"phase": "Pending", "containerStatuses": [
            {"state": {"running": {}}}, {"state": {"waiting": {"reason": "ImagePullBackOff"}}},
        ]}});
        assert_eq!(facts("Pod", &object), "waits, ImagePullBackOff");
        object["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        assert_eq!(facts("Pod", &object), "Ready");
        assert_eq!(facts("Pod", &json!({"status": {"phase": "Pending"}})), "Pending");
    }

    #[test]
    fn people_are_told_of_instances_and_of_pods_that_run_or_cannot() {
        let mut pod = json!({"status": {"phase": "Pending"}});
        let told = |news, pod: &_| is_told(PlaneRole::Cell, "Pod", news, pod);
        assert!(!told(News::Arrival, &pod) && told(News::Gone, &pod));
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        assert!(told(News::Change, &pod));
        pod["metadata"] = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert!(!told(News::Change, &pod));
        let of = |role, kind, news| is_told(role, kind, news, &json!({}));
        assert!(of(PlaneRole::Project, "Instance", News::Change));
        assert!(of(PlaneRole::Project, "Workload", News::Arrival));
        assert!(!of(PlaneRole::Project, "Workload", News::Change));
        assert!(!of(PlaneRole::Cell, "Instance", News::Arrival));
    }

    #[test]
    fn instances_say_their_address_when_they_are_ready() {
        let address = json!([{"assignments": {"networkIP": "10.0.0.1"}}]);
        let mut object = json!({"status": {"networkInterfaces": address, "conditions": [
            {"type": "Ready", "status": "False", "reason": "ImageUnavailable"},
        ]}});
        assert_eq!(facts("Instance", &object), "Ready=False (ImageUnavailable)");
        assert_eq!(reason(&object, "Ready"), Some("ImageUnavailable"));
        object["status"]["conditions"][0] = json!({"type": "Ready", "status": "True", "reason": "Available"});
        assert_eq!(facts("Instance", &object), "Ready=True, 10.0.0.1");
        assert_eq!(reason(&object, "Ready"), None);
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
