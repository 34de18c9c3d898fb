//! A release of the chart: install, upgrade, roll back, uninstall (numbers 55, 56 and 58).

use super::Planes;
use crate::{
    chart::{CHART, RELEASE},
    objects::{self, Objects},
    root,
};
use serde_json::{Value, json};
use std::fs;

const CONTEXT: &str = "host";
const DEPLOYMENT: &str = "deployment/fedgate-gateway";
/// Definitions, Pods of both programs, monitors and rules: every kind of object that a release may have, but those of a
/// hub.
const VALUES: &str =
    "planes={cell,host,cell-host},monitoring.kind=ServiceMonitor,monitoring.rules.enabled=true";

/// A tenant's object of one of the chart's kinds.
fn tenant() -> Value {
    json!({
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "WorkloadDeployment",
        "metadata": {"name": "web", "namespace": "default"},
    })
}

/// There is no earlier release yet: the chart as it is, under a lower version and so with another image.
fn former(planes: &Planes) -> String {
    let copied = |from: &str, to: &str| {
        let text = fs::read_to_string(root().join(CHART).join(from)).unwrap();
        planes.file(&format!("former/{to}"), &text);
    };
    let mut folders = vec![root().join(CHART)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path
                    .strip_prefix(root().join(CHART))
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                copied(&name, &name);
            }
        }
    }
    let chart = fs::read_to_string(root().join(CHART).join("Chart.yaml")).unwrap();
    let lower = chart.replace(env!("CARGO_PKG_VERSION"), "0.0.9");
    assert_ne!(lower, chart);
    let path = planes.file("former/Chart.yaml", &lower);
    path.parent().unwrap().to_str().unwrap().to_owned()
}

fn image(planes: &Planes) -> String {
    let path = "jsonpath={.spec.template.spec.containers[0].image}";
    planes.kubectl(
        CONTEXT,
        &["-n", "fedgate-system", "get", DEPLOYMENT, "-o", path],
        "",
    )
}

/// The objects of the release as Helm recorded them.
fn released(planes: &Planes) -> Objects {
    objects::read(&planes.helm(CONTEXT, &["get", "manifest", RELEASE]))
}

fn upgrade(planes: &Planes, chart: &str, more: &[&str]) -> Result<String, String> {
    planes.try_helm(
        CONTEXT,
        &[&["upgrade", RELEASE, chart, "--set", VALUES], more].concat(),
    )
}

/// The other objects of the release are gone or there; those that are kept are there with the Secret and the tenant's.
fn is_kept(object: &Value) -> bool {
    object["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
}

pub(crate) fn comes_changes_goes_back_and_leaves(planes: &Planes) {
    let former = former(planes);
    planes.helm(CONTEXT, &["install", RELEASE, &former, "--set", VALUES]);
    assert_eq!(image(planes), "fedgate:0.0.9");
    let token = [
        "-n",
        "fedgate-system",
        "create",
        "secret",
        "generic",
        "fedgate-admin",
        "--from-literal=token=t",
    ];
    planes.kubectl(CONTEXT, &token, "");
    planes.kubectl(
        CONTEXT,
        &[
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            "crd/workloaddeployments.compute.datumapis.com",
        ],
        "",
    );
    planes.kubectl(CONTEXT, &["create", "-f", "-"], &tenant().to_string());

    let before = planes.versions(CONTEXT, &released(planes));
    upgrade(planes, &former, &[]).unwrap();
    assert_eq!(
        planes.versions(CONTEXT, &released(planes)),
        before,
        "the same release applied twice"
    );

    upgrade(
        planes,
        CHART,
        &[
            "--set",
            "admin.port=9090,monitoring.kind=none,networkPolicy.enabled=false",
        ],
    )
    .unwrap();
    assert_eq!(image(planes), concat!("fedgate:", env!("CARGO_PKG_VERSION")));
    let port = "jsonpath={.spec.ports[*].port}";
    let service = [
        "-n",
        "fedgate-system",
        "get",
        "service/fedgate-gateway",
        "-o",
        port,
    ];
    assert_eq!(
        planes.kubectl(CONTEXT, &service, ""),
        "9090",
        "the former port is not left behind"
    );
    for kind in ["servicemonitors,podmonitors", "networkpolicies"] {
        let left = planes.kubectl(CONTEXT, &["-n", "fedgate-system", "get", kind, "-o", "name"], "");
        assert_eq!(left, "", "{kind}");
    }
    one_manager_owns_it(planes);

    planes.helm(CONTEXT, &["rollback", RELEASE, "1"]);
    assert_eq!(image(planes), "fedgate:0.0.9");
    assert_eq!(planes.kubectl(CONTEXT, &service, ""), "8080");
    assert_ne!(
        planes.kubectl(
            CONTEXT,
            &["-n", "fedgate-system", "get", "networkpolicies", "-o", "name"],
            ""
        ),
        ""
    );

    upgrade(planes, &former, &["--set", "crds.install=false"]).unwrap();
    let tenants = ["get", "workloaddeployments", "web", "-o", "name"];
    assert!(
        planes.kubectl(CONTEXT, &tenants, "").contains("/web"),
        "definitions are kept"
    );
    upgrade(planes, CHART, &[]).unwrap();

    leaves(planes);
    // What stayed is taken over by a new release of the same name.
    planes.helm(CONTEXT, &["install", RELEASE, CHART, "--set", VALUES]);
}

/// Fields of the Deployment's spec have one owner.
fn one_manager_owns_it(planes: &Planes) {
    let shown = [
        "-n",
        "fedgate-system",
        "get",
        DEPLOYMENT,
        "-o",
        "json",
        "--show-managed-fields",
    ];
    let found: Value = serde_json::from_str(&planes.kubectl(CONTEXT, &shown, "")).unwrap();
    let managers = found["metadata"]["managedFields"].as_array().unwrap().iter();
    let managers: Vec<&str> = managers.map(|entry| entry["manager"].as_str().unwrap()).collect();
    assert_eq!(managers, ["helm"]);
}

fn leaves(planes: &Planes) {
    let all = released(planes);
    let kept: Objects = all
        .clone()
        .into_iter()
        .filter(|(_, object)| is_kept(object))
        .collect();
    assert_eq!(kept.len(), 4, "three definitions and the Namespace");
    planes.helm(CONTEXT, &["uninstall", RELEASE]);
    planes.get(CONTEXT, &kept);
    let secret = [
        "-n",
        "fedgate-system",
        "get",
        "secret",
        "fedgate-admin",
        "-o",
        "name",
    ];
    assert_eq!(planes.kubectl(CONTEXT, &secret, ""), "secret/fedgate-admin\n");
    let tenants = ["get", "workloaddeployments", "web", "-o", "name"];
    assert!(planes.kubectl(CONTEXT, &tenants, "").contains("/web"));
    let gone: Vec<Value> = all.into_values().filter(|object| !is_kept(object)).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": gone});
    let left = planes.kubectl(
        CONTEXT,
        &["get", "-f", "-", "--ignore-not-found", "-o", "name"],
        &list.to_string(),
    );
    assert_eq!(left, "", "left behind by the uninstall");
}

/// Number 58: `kubectl set image` first, then the documented command. Helm 3 merges by itself and knows no conflict.
pub(crate) fn gives_a_field_back_that_another_command_took(planes: &Planes) {
    let version = planes.helm(CONTEXT, &["version", "--template", "{{.Version}}"]);
    planes.set_image(CONTEXT, DEPLOYMENT, "gateway=fedgate:by-hand");
    if version.starts_with("v3.") {
        upgrade(planes, CHART, &[]).unwrap();
    } else {
        let said = upgrade(planes, CHART, &[]).unwrap_err();
        assert!(said.contains("conflict with \"kubectl-set\""), "{said}");
        upgrade(planes, CHART, &["--force-conflicts"]).unwrap();
    }
    assert_eq!(image(planes), concat!("fedgate:", env!("CARGO_PKG_VERSION")));
    upgrade(planes, CHART, &["--set", "image.tag=next"]).unwrap();
    assert_eq!(image(planes), "fedgate:next");
}
