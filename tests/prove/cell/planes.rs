//! The kinds that a cell meets, on the planes where it meets them.

use crate::rig::COMPUTE;
use fedgate_api::keys;
use fedgate_simulator::{Definition, Plane, Simulator};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

/// The plane of the cell.
pub(super) const CELL: &str = "cell";
/// The plane of the one project.
pub(super) const PROJECT: &str = "shop";
/// The cell's name.
pub(super) const NAME: &str = "dfw-1";
/// Its city.
pub(super) const CITY: &str = "DFW";
/// Its location.
pub(super) const LOCATION: &str = "us-south-1";
/// The tenant's namespace on hub and cell.
pub(super) const NS: &str = "ns-a1";
/// The tenant's namespace in the project.
pub(super) const HOME: &str = "default";
/// Where the cell records what it has still to release.
pub(super) const OWN: &str = "fedgate-system";

macro_rules! definition {
    ($kind:literal) => {
        parse(include_str!(concat!(
            "../../../dev/sandbox/src/backends/crds/",
            $kind,
            ".yaml"
        )))
    };
}

static PODS: LazyLock<Vec<Arc<Definition>>> = LazyLock::new(|| {
    vec![
        Arc::new(Definition::plain("", "v1", "Pod", "pods", true, true)),
        Arc::new(Definition::plain("", "v1", "Service", "services", true, true)),
        Arc::new(Definition::plain(
            "networking.k8s.io",
            "v1",
            "NetworkPolicy",
            "networkpolicies",
            true,
            false,
        )),
    ]
});

static NETWORKING: LazyLock<Vec<Arc<Definition>>> = LazyLock::new(|| {
    vec![
        definition!("servinglocations"),
        definition!("networkbindings"),
        definition!("networkcontexts"),
        definition!("subnetclaims"),
        definition!("subnets"),
    ]
});

static QUOTA: LazyLock<Vec<Arc<Definition>>> = LazyLock::new(|| vec![definition!("resourceclaims")]);

fn parse(text: &str) -> Arc<Definition> {
    let definition: Value = serde_saphyr::from_str(text).unwrap();
    Arc::new(Definition::parse(&definition))
}

/// The hub, with the tenant's namespace.
pub(super) fn of_hub(simulator: &Simulator) -> Plane {
    let plane = simulator.add(crate::rig::HUB);
    plane.define_all(&COMPUTE);
    plane.create(tenant()).unwrap();
    plane
}

/// The cell, with the tenant's namespace and its own. Without networking it has none of those kinds.
pub(super) fn of_cell(simulator: &Simulator, networking: bool) -> Plane {
    let cell = simulator.add(CELL);
    cell.define_all(&COMPUTE);
    cell.define_all(&PODS);
    for namespace in [tenant(), crate::objects::namespace(OWN)] {
        cell.create(namespace).unwrap();
    }
    if networking {
        cell.define_all(&NETWORKING);
        let location = json!({
            "apiVersion": "networking.datumapis.com/v1alpha", "kind": "ServingLocation",
            "metadata": {"name": LOCATION}, "spec": {"topology": {keys::CITY_CODE: CITY}},
        });
        cell.create(location).unwrap();
    }
    cell
}

/// The project, with claims of quota.
pub(super) fn of_project(simulator: &Simulator) -> Plane {
    project(simulator, PROJECT)
}

/// A plane like a project's under another name: where the project is served from another address.
pub(super) fn project(simulator: &Simulator, name: &str) -> Plane {
    let plane = simulator.add(name);
    plane.define_all(&COMPUTE);
    plane.define_all(&QUOTA);
    plane
}

fn tenant() -> Value {
    let mut namespace = crate::objects::namespace(NS);
    namespace["metadata"]["labels"] = json!({
        keys::UPSTREAM_CLUSTER: format!("cluster-{PROJECT}"),
        keys::UPSTREAM_NAMESPACE: HOME,
    });
    namespace
}
