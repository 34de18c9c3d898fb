//! The hub's controllers and what the hub must have before they start.

use super::{
    CellSpec, HubControllers, Options, Sandbox, SandboxError, User,
    apply::Objects,
    certs::Files,
    clusters::{self, await_ready},
    karmada::Karmada,
    karmada_kinds,
    process::{Process, Spec},
    users,
};
use fedgate_api::keys::{CITY_CODE, STAND_IN};
use futures::future::try_join_all;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

/// Who plays Karmada, with what it needs.
pub(super) enum Hub {
    /// Karmada itself.
    Karmada(Box<Karmada>),
    /// The stand-in, or nobody.
    OwnKinds {
        stand_in: bool,
        /// The registered cells.
        cells: Vec<CellSpec>,
        /// All cells.
        members: Vec<CellSpec>,
    },
}

impl Hub {
    /// Reads what the choice needs, so that a wrong folder is reported before anything starts.
    pub(super) fn new(options: &Options) -> Result<Self, SandboxError> {
        let (cells, members) = (options.registered(), options.cells.clone());
        match &options.hub_controllers {
            HubControllers::StandIn => Ok(Self::OwnKinds {
                stand_in: true,
                cells,
                members,
            }),
            HubControllers::Nobody => Ok(Self::OwnKinds {
                stand_in: false,
                cells,
                members,
            }),
            HubControllers::Karmada {
                bin_dir,
                manifests_dir,
            } => Ok(Self::Karmada(Box::new(Karmada::new(
                bin_dir,
                manifests_dir,
                &cells,
            )?))),
        }
    }

    /// The members to which the sandbox has to make a proxy: Karmada's own leads to its.
    pub(super) fn proxied(&self) -> Option<&[CellSpec]> {
        match self {
            Self::OwnKinds {
                stand_in: true,
                members,
                ..
            } => Some(members),
            Self::OwnKinds { .. } | Self::Karmada(_) => None,
        }
    }

    /// CRDs and, where nobody else makes them, Cluster objects.
    pub(super) fn objects(&self, ca_base64: &str, objects: &mut Objects) -> Result<(), SandboxError> {
        match self {
            Self::Karmada(karmada) => karmada.objects(ca_base64, objects),
            Self::OwnKinds { cells, .. } => {
                for crd in karmada_kinds::crds() {
                    objects.add("stand-in", crd)?;
                }
                cells
                    .iter()
                    .try_for_each(|cell| objects.add("stand-in", cluster(cell)))
            }
        }
    }

    /// Starts the controllers once all planes are ready, and waits until they work.
    pub(super) async fn start(&self, sandbox: &Sandbox, files: &Files) -> Result<Vec<Process>, SandboxError> {
        match self {
            Self::Karmada(karmada) => karmada.start(sandbox, files).await,
            Self::OwnKinds {
                stand_in: false,
                cells,
                ..
            } => {
                clusters_ready(sandbox, cells).await?;
                Ok(Vec::new())
            }
            Self::OwnKinds {
                stand_in: true,
                cells,
                members,
            } => {
                let process = start_stand_in(sandbox, members)?;
                let ready = try_join_all(cells.iter().map(|cell| await_ready(sandbox, &cell.name)));
                tokio::select! {
                    ready = ready => ready.map(|_| vec![process]),
                    how = process.wait() => {
                        Err(process.failure(format!("ended while starting ({how})"), "read the whole log"))
                    }
                }
            }
        }
    }
}

/// The stand-in runs in a process of its own, as Karmada would, and ends with it.
fn start_stand_in(sandbox: &Sandbox, cells: &[CellSpec]) -> Result<Process, SandboxError> {
    let kubeconfig = |plane: &str| {
        users::own_path(&sandbox.layout, users::Own::HubControllers, plane)
            .display()
            .to_string()
    };
    let mut args = vec![
        "standin".to_owned(),
        format!("--hub-kubeconfig={}", kubeconfig("hub")),
    ];
    args.extend(
        cells
            .iter()
            .map(|cell| format!("--member={}={}", cell.name, kubeconfig(&cell.name))),
    );
    let program = sandbox.launcher.holder.clone();
    sandbox.launcher.start(&Spec {
        name: "hub stand-in".to_owned(),
        program,
        args,
    })
}

fn cluster(cell: &CellSpec) -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": cell.name, "labels": {CITY_CODE: cell.city}, "annotations": {STAND_IN: "true"}},
        "spec": {"syncMode": "Push"},
    })
}

/// Says what Karmada's cluster controller would say of reachable members.
async fn clusters_ready(sandbox: &Sandbox, cells: &[CellSpec]) -> Result<(), SandboxError> {
    let api: Api<DynamicObject> = Api::all_with(sandbox.client("hub", User::Admin)?, &clusters::resource());
    let status = json!({"status": {"conditions": [{
        "type": "Ready",
        "status": "True",
        "reason": "ClusterReady",
        "message": "set by the sandbox",
        "lastTransitionTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    }]}});
    for cell in cells {
        let action = format!("write the status of Cluster {}", cell.name);
        api.patch_status(&cell.name, &PatchParams::default(), &Patch::Merge(&status))
            .await
            .map_err(SandboxError::api("hub", action))?;
    }
    Ok(())
}
