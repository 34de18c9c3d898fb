//! The cell's program as Pods of the member (contract: provisioning.md §6.1). Pure.

use super::{internal, kubeconfig::base64};
use fedgate_manifests::{CELL, KindManifests, NAMESPACE, Plane};
use fedgate_terminal::error::Error;
use serde_json::{Value, json};

/// Definitions and roles of a cell, from the manifests.
pub fn definitions(kinds: &[KindManifests]) -> Result<Vec<Value>, Error> {
    fedgate_manifests::objects(Plane::Cell, kinds).map_err(internal)
}

/// The objects of these files of the manifests.
pub(super) fn files(kinds: &[KindManifests], paths: &[&str]) -> Result<Vec<Value>, Error> {
    let files = fedgate_manifests::all(kinds).map_err(internal)?.into_iter();
    let files = files.filter(|file| paths.contains(&file.path.as_str()));
    Ok(files.flat_map(|file| file.objects).collect())
}

/// The objects of the program, without its Secrets: its image, the name of the cell's Location, its city and its name.
pub fn objects(
    image: &str,
    location: &str,
    city: &str,
    cell: &str,
    kinds: &[KindManifests],
) -> Result<Vec<Value>, Error> {
    let mut objects = files(kinds, &["deploy/cell.yaml"])?;
    objects.push(json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": CELL, "namespace": NAMESPACE}, "data": {"name": cell}}));
    for deployment in objects.iter_mut().filter(|object| object["kind"] == "Deployment") {
        let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
        container["image"] = json!(image);
        if let Some(args) = container["args"].as_array_mut() {
            args.push(json!(format!("--location={location}")));
            args.push(json!(format!("--city={city}")));
        }
    }
    Ok(objects)
}

/// Kind and name of the Lease that the program renews.
pub fn lease_identity() -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": CELL, "namespace": NAMESPACE}})
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
        let image = "registry.example.com/fedgate:1";
        let objects = objects(image, "dfw-2", "DFW", "dfw-2", &[]).unwrap();
        let deployment = objects
            .iter()
            .find(|object| object["kind"] == "Deployment")
            .unwrap();
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], image);
        let args = container["args"].to_string();
        assert!(
            args.contains("--location=dfw-2") && args.contains("--city=DFW"),
            "{args}"
        );
        assert_eq!(objects.last().unwrap()["data"]["name"], "dfw-2");
    }
}
