//! Objects as a tenant writes them.

use serde_json::{Value, json};

/// UID of the Workload that the suite's directly written deployments name.
pub(crate) const WORKLOAD_UID: &str = "5f1c2d9e-0000-4000-8000-000000000001";

/// A template with one container.
pub(crate) fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "storefront"}},
        "spec": {
            "runtime": {
                "resources": {"instanceType": "datumcloud/d1-standard-2"},
                "sandbox": {"containers": [{"name": "web", "image": "shop/web:1.4.2"}]},
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
        },
    })
}

/// A deployment of one instance in the city.
pub(crate) fn deployment(name: &str, city: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "workloadRef": {"name": "storefront", "uid": WORKLOAD_UID},
            "placementName": "main",
            "cityCode": city,
            "scaleSettings": {"minReplicas": 1, "instanceManagementPolicy": "OrderedReady"},
            "template": template(),
        },
    })
}

/// The same with a `ConfigMap` volume, a Secret volume and pull secrets in its template.
pub(crate) fn deployment_with_data(
    name: &str,
    city: &str,
    config_map: Option<&str>,
    secret: Option<&str>,
    pull_secrets: &[&str],
) -> Value {
    let mut object = deployment(name, city);
    let spec = &mut object["spec"]["template"]["spec"];
    let mut volumes = Vec::new();
    if let Some(name) = config_map {
        volumes.push(json!({"name": "settings", "configMap": {"name": name}}));
    }
    if let Some(name) = secret {
        volumes.push(json!({"name": "keys", "secret": {"secretName": name}}));
    }
    if !volumes.is_empty() {
        spec["runtime"]["sandbox"]["containers"][0]["volumeAttachments"] =
            volumes.iter().map(|v| json!({"name": v["name"], "mountPath": format!("/etc/{}", v["name"].as_str().unwrap_or("x"))})).collect();
        spec["volumes"] = json!(volumes);
    }
    if !pull_secrets.is_empty() {
        spec["runtime"]["sandbox"]["imagePullSecrets"] =
            pull_secrets.iter().map(|name| json!({"name": name})).collect();
    }
    object
}

/// A Workload with one placement over the cities.
pub(crate) fn workload(name: &str, cities: &[&str]) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "template": template(),
            "placements": [{
                "name": "main",
                "cityCodes": cities,
                "scaleSettings": {"minReplicas": 1, "instanceManagementPolicy": "OrderedReady"},
            }],
        },
    })
}
