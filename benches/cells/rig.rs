//! The planes and the roles of one run: a project, a hub, cells of one city.

use super::{role::Gateway, sight::Sight};
use anyhow::{Context, Result};
use fedgate_sandbox::{CellSpec, HubControllers, Manifest, Options, Progress, Sandbox, User};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
    core::{ApiResource, DynamicObject},
};
use serde_json::{Value, json};
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

pub(crate) const PROJECT: &str = "shop";
pub(crate) const CELL: &str = "dfw-1";
const CITY: &str = "DFW";

/// Everything one run works with.
pub(crate) struct Rig {
    sandbox: Sandbox,
    dir: PathBuf,
    /// Who plays Karmada on the hub, in words.
    pub(crate) controllers: String,
    gateway: Option<Gateway>,
    pub(crate) cell: Option<Gateway>,
    /// Cells beside the first one.
    others: Vec<Gateway>,
    project: Client,
    pub(crate) hub: Client,
    pub(crate) sights: Sights,
}

/// What the bench sees of each plane.
pub(crate) struct Sights {
    pub(crate) project_instances: Sight,
    pub(crate) hub_deployments: Sight,
    pub(crate) hub_instances: Sight,
    pub(crate) cell_deployments: Sight,
    pub(crate) cell_instances: Sight,
}

fn resource(kind: &str) -> ApiResource {
    ApiResource {
        group: "compute.datumapis.com".to_owned(),
        version: "v1alpha".to_owned(),
        api_version: "compute.datumapis.com/v1alpha".to_owned(),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
    }
}

impl Rig {
    /// Brings all of it up in `dir`, fsync on, with these cells beside [`CELL`].
    pub(crate) async fn up(dir: &Path, others: &[&str]) -> Result<Self> {
        let controllers = HubControllers::from_env()?;
        let cell = |name: &str| CellSpec {
            name: name.to_owned(),
            city: CITY.to_owned(),
        };
        let sandbox = Sandbox::up(Options {
            projects: vec![PROJECT.to_owned()],
            cells: [&[CELL], others].concat().into_iter().map(cell).collect(),
            hub_controllers: controllers.clone(),
            manifests: Manifest::builtin()?,
            pods: true,
            backends: true,
            fsync: true,
            progress: Progress::new(|line| eprintln!("sandbox: {line}")),
            ..Options::new(dir.join("cells"), env!("CARGO_BIN_EXE_fedgate-sandbox"))
        })
        .await
        .context("bring the sandbox up")?;
        let admin = |plane: &str| sandbox.client(plane, User::Admin);
        let sight = async |plane: &str, kind: &str| Sight::new(plane, admin(plane)?, &resource(kind)).await;
        let sights = Sights {
            project_instances: sight(PROJECT, "Instance").await?,
            hub_deployments: sight("hub", "WorkloadDeployment").await?,
            hub_instances: sight("hub", "Instance").await?,
            cell_deployments: sight(CELL, "WorkloadDeployment").await?,
            cell_instances: sight(CELL, "Instance").await?,
        };
        let mut rig = Self {
            dir: dir.to_owned(),
            controllers: controllers.to_string(),
            gateway: None,
            cell: None,
            others: Vec::new(),
            project: admin(PROJECT)?,
            hub: admin("hub")?,
            sights,
            sandbox,
        };
        let hub = rig.sandbox.kubeconfig("hub", User::Gateway);
        let projects = rig.sandbox.project_kubeconfigs();
        let flags: [&OsStr; 6] = [
            "--hub-kubeconfig".as_ref(),
            hub.as_ref(),
            "--project-mode".as_ref(),
            "directory".as_ref(),
            "--project-directory".as_ref(),
            projects.as_ref(),
        ];
        rig.gateway = Some(Gateway::role("gateway", "cells-gateway", &flags, &rig.dir).await?);
        rig.start_cell().await?;
        for name in others {
            let role = rig.role_of(name).await?;
            rig.others.push(role);
        }
        Ok(rig)
    }

    /// The server of the hub, with its version.
    pub(crate) async fn version(&self) -> Result<String> {
        let info = self
            .hub
            .apiserver_version()
            .await
            .context("get the version of the hub")?;
        Ok(format!("kube-apiserver {}", info.git_version))
    }

    /// Starts the first cell.
    pub(crate) async fn start_cell(&mut self) -> Result<()> {
        self.cell = Some(self.role_of(CELL).await?);
        Ok(())
    }

    async fn role_of(&self, cell: &str) -> Result<Gateway> {
        let own = self.sandbox.kubeconfig(cell, User::Cell(cell));
        let hub = self.sandbox.kubeconfig("hub", User::Cell(cell));
        let quota = self.sandbox.quota_kubeconfigs(cell);
        let flags: [&OsStr; 9] = [
            "--cell-kubeconfig".as_ref(),
            own.as_ref(),
            "--hub-kubeconfig".as_ref(),
            hub.as_ref(),
            "--name".as_ref(),
            cell.as_ref(),
            "--networking".as_ref(),
            "--quota-directory".as_ref(),
            quota.as_ref(),
        ];
        Gateway::role("cell", &format!("cells-{cell}"), &flags, &self.dir).await
    }

    /// The running cell.
    pub(crate) fn cell(&self) -> Result<&Gateway> {
        self.cell.as_ref().context("the cell does not run")
    }

    /// The audit logs of cell, hub and project.
    pub(crate) fn audit_logs(&self) -> [PathBuf; 3] {
        [CELL, "hub", PROJECT].map(|plane| self.sandbox.audit_log(plane))
    }

    /// A new namespace in the project, and its namespace on hub and cell.
    pub(crate) async fn namespace(&self, name: &str) -> Result<String> {
        let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.project.clone());
        let object = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        let made = api.create(&PostParams::default(), &object).await?;
        Ok(format!("ns-{}", made.metadata.uid.unwrap_or_default()))
    }

    /// Instances of the project.
    pub(crate) fn instances(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.project.clone(), namespace, &resource("Instance"))
    }

    fn workloads(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.project.clone(), namespace, &resource("Workload"))
    }

    /// A Workload with so many Instances in the one city.
    pub(crate) async fn create(&self, namespace: &str, name: &str, policy: &str, count: usize) -> Result<()> {
        let container =
            json!({"name": "web", "image": "shop/web:1.4.2", "ports": [{"name": "http", "port": 8080}]});
        let object: Value = json!({
            "apiVersion": "compute.datumapis.com/v1alpha", "kind": "Workload", "metadata": {"name": name},
            "spec": {
                "template": {"spec": {
                    "runtime": {"resources": {"instanceType": "datumcloud/d1-standard-2"}, "sandbox": {"containers": [container]}},
                    "networkInterfaces": [{"network": {"name": "default"}}],
                }},
                "placements": [{"name": "us", "cityCodes": [CITY],
                    "scaleSettings": {"minReplicas": count, "instanceManagementPolicy": policy}}],
            },
        });
        let object: DynamicObject = serde_json::from_value(object)?;
        let created = self
            .workloads(namespace)
            .create(&PostParams::default(), &object)
            .await;
        created.with_context(|| format!("create Workload {namespace}/{name}"))?;
        Ok(())
    }

    /// Asks for its end.
    pub(crate) async fn delete(&self, namespace: &str, name: &str) -> Result<()> {
        let deleted = self
            .workloads(namespace)
            .delete(name, &DeleteParams::default())
            .await;
        deleted.with_context(|| format!("delete Workload {namespace}/{name}"))?;
        Ok(())
    }

    /// Ends everything.
    pub(crate) async fn down(self) -> Result<()> {
        self.sandbox.down().await.context("take the sandbox down")
    }
}
