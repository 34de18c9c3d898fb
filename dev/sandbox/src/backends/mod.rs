//! STAND-INS for the backends of networking and quota, for the sandbox only. They implement neither: they program
//! nothing, and nothing outside the sandbox may depend on them.
//!
//! The network provider of a cell answers `NetworkBindings` with a `NetworkContext` and `SubnetClaims` with a Subnet.
//! The annotation `sandbox.fedgate.dev/network` on the cell's `ServingLocation` changes its behaviour: with `fail` it
//! rejects bindings, with `stall` it does nothing. A network called `missing`, or `missing-` and more, does not exist.
//!
//! The claim granter of a project answers `ResourceClaims` by the budgets in the `ConfigMap` `default/sandbox-budgets`:
//! keys `instances`, `vcpus` and `memory` with a number; a missing key is no limit, `none` leaves claims undecided, and
//! `stall: "true"` leaves all claims undecided.
//!
//! Both run in one process, which ends with the sandbox's owner. [`decide`] computes the writes, [`serve`] executes
//! them.

mod decide;
mod serve;
mod store;

use super::{
    CellSpec, PlaneRole,
    apply::Objects,
    child::{StandInArgs, client},
    users::Own,
};
use anyhow::Context;
use decide::{network, quota};
use fedgate_api::keys::CITY_CODE;
use serde_json::json;
use serve::Backend;
use store::Kind;
use tokio::task::JoinSet;

const NETWORKS: &str = include_str!("crds/networks.yaml");
const LOCATIONS: &str = include_str!("crds/locations.yaml");
const RESOURCE_CLAIMS: &str = include_str!("crds/resourceclaims.yaml");
const SERVING_LOCATIONS: &str = include_str!("crds/servinglocations.yaml");
const NETWORK_BINDINGS: &str = include_str!("crds/networkbindings.yaml");
const NETWORK_CONTEXTS: &str = include_str!("crds/networkcontexts.yaml");
const SUBNET_CLAIMS: &str = include_str!("crds/subnetclaims.yaml");
const SUBNETS: &str = include_str!("crds/subnets.yaml");

/// Adds the CRDs of a plane, and the single `ServingLocation` of a cell; `milo` if Milo's own API server has the projects.
pub(super) fn objects(
    plane: &str,
    role: PlaneRole,
    milo: bool,
    cells: &[CellSpec],
    objects: &mut Objects,
) -> anyhow::Result<()> {
    let definitions: &[&str] = match role {
        // Its definitions serve all projects, and it has those of quota.
        PlaneRole::Platform if milo => &[NETWORKS, LOCATIONS],
        PlaneRole::Project if milo => &[],
        PlaneRole::Hub | PlaneRole::Platform | PlaneRole::Activity => &[],
        PlaneRole::Project => &[NETWORKS, LOCATIONS, RESOURCE_CLAIMS],
        PlaneRole::Cell => &[
            SERVING_LOCATIONS,
            NETWORK_BINDINGS,
            NETWORK_CONTEXTS,
            SUBNET_CLAIMS,
            SUBNETS,
        ],
    };
    for yaml in definitions {
        objects.add_yaml(plane, yaml)?;
    }
    for cell in cells
        .iter()
        .filter(|cell| role == PlaneRole::Cell && cell.name == plane)
    {
        let location = json!({
            "apiVersion": "networking.datumapis.com/v1alpha",
            "kind": "ServingLocation",
            "metadata": {"name": format!("{}-1", cell.city.to_lowercase())},
            "spec": {"topology": {CITY_CODE: cell.city}},
        });
        objects.add(plane, location)?;
    }
    Ok(())
}

const NETWORK: Backend = Backend {
    kinds: network::KINDS,
    settings: Kind::ServingLocation,
    decide: network::decide,
};
const QUOTA: Backend = Backend {
    kinds: quota::KINDS,
    settings: Kind::Budgets,
    decide: quota::decide,
};

/// `fedgate-sandbox backends`: runs the stand-ins as a separate process.
pub(super) async fn play(args: &StandInArgs) -> anyhow::Result<()> {
    args.begin("these are fedgate's STAND-INS for networking and quota");
    let mut tasks = JoinSet::new();
    let cells = args.cells.iter().map(|plane| (plane, NETWORK));
    let projects = args.projects.iter().map(|plane| (plane, QUOTA));
    for (plane, backend) in cells.chain(projects) {
        let client = client(&args.kubeconfig(Own::Backends, plane), None).await?;
        tasks.spawn(serve::serve(plane.clone(), client, backend));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a task of the stand-ins for networking and quota broke off")?;
    }
    Ok(())
}
