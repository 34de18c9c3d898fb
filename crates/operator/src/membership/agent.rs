//! The cell's program as Pods of the member (contract: provisioning.md §6.1). Pure.

use super::kubeconfig::base64;
use fedgate_manifests::{CELL, KindManifests, ManifestError, NAMESPACE, Plane};
use serde_json::{Value, json};

/// The settings of the Pods.
#[derive(Debug, Clone, Copy)]
pub struct Agent<'a> {
    /// Image of fedgate.
    pub image: &'a str,
    /// Name of the cell's Location.
    pub location: &'a str,
    /// City code.
    pub city: &'a str,
}

/// Definitions and roles of a cell, from the manifests.
pub fn definitions(kinds: &[KindManifests]) -> Result<Vec<Value>, ManifestError> {
    fedgate_manifests::objects(Plane::Cell, kinds)
}

/// The objects of the program, without its Secrets.
pub fn objects(agent: &Agent<'_>, cell: &str, kinds: &[KindManifests]) -> Result<Vec<Value>, ManifestError> {
    let files = fedgate_manifests::all(kinds)?.into_iter();
    let mut objects: Vec<Value> = files
        .filter(|file| file.path == "deploy/cell.yaml")
        .flat_map(|file| file.objects)
        .collect();
    objects.push(json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": CELL, "namespace": NAMESPACE}, "data": {"name": cell}}));
    for deployment in objects.iter_mut().filter(|object| object["kind"] == "Deployment") {
        let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
        container["image"] = json!(agent.image);
        if let Some(args) = container["args"].as_array_mut() {
            args.push(json!(format!("--location={}", agent.location)));
            args.push(json!(format!("--city={}", agent.city)));
        }
    }
    Ok(objects)
}

/// A Secret of the program.
pub fn secret(name: &str, key: &str, value: &[u8]) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE},
           "data": {key: base64(value)}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_pods_have_image_location_and_city() {
        let agent = Agent {
            image: "registry.example.com/fedgate:1",
            location: "dfw-2",
            city: "DFW",
        };
        let objects = objects(&agent, "dfw-2", &[]).unwrap();
        let deployment = objects
            .iter()
            .find(|object| object["kind"] == "Deployment")
            .unwrap();
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], "registry.example.com/fedgate:1");
        let args = container["args"].to_string();
        assert!(
            args.contains("--location=dfw-2") && args.contains("--city=DFW"),
            "{args}"
        );
        assert_eq!(objects.last().unwrap()["data"]["name"], "dfw-2");
    }
}
