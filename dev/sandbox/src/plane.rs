//! One plane: a kube-apiserver with its controller manager and, at a cell, what runs Pods.

use super::{
    apply::Objects,
    etcd::Etcd,
    pods::Forwards,
    process::{Launcher, Process, Service, Spec},
    proxy::Front,
};
use futures::future::try_join;
use tokio::sync::Mutex;

fedgate_api::words! {
    /// The purpose of a plane.
    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum PlaneRole {
        /// The Karmada hub; there is one.
        Hub = "hub",
        /// A tenant's project control plane.
        Project = "project",
        /// A member of the hub, in one city.
        Cell = "cell",
        /// The core API server of Milo; there is one at most.
        Platform = "platform",
        /// Where Milo's own API server keeps Events, as it does in Milo's API server for activity; there is one at most.
        Activity = "activity",
    }
}

/// A plane of a running sandbox.
pub(super) struct Plane {
    pub(super) name: String,
    pub(super) role: PlaneRole,
    /// The address for clients.
    pub(super) url: String,
    /// The front at that address, unless the API server itself is there.
    pub(super) front: Option<Front>,
    /// Its own etcd, if it does not share the sandbox's.
    pub(super) etcd: Option<Etcd>,
    /// Ports of Pods that lead to this machine.
    pub(super) forwards: Option<Forwards>,
    /// `None`: the plane is a path of another's API server.
    pub(super) server: Option<Service>,
    pub(super) controllers_specs: Vec<Spec>,
    pub(super) controllers: Mutex<Vec<Process>>,
}

impl Plane {
    /// The address of the API server for the sandbox's own processes.
    pub(super) fn server_url(&self) -> &str {
        self.front.as_ref().map_or(&self.url, |front| &front.server)
    }

    /// Starts the API server and waits until it is ready; `admin` is the administrator's client for it.
    pub(super) async fn start_server(&self, launcher: &Launcher, admin: &kube::Client) -> anyhow::Result<()> {
        let server = async {
            match &self.server {
                Some(server) => server.start(launcher, admin, "/readyz").await,
                None => Ok(()),
            }
        };
        // `admin` asks at the address of the front.
        let front = async {
            match &self.front {
                Some(front) => front.process.start(launcher, admin, "/readyz").await,
                None => Ok(()),
            }
        };
        Box::pin(try_join(server, front)).await.map(drop)
    }

    /// Ends the API server; what it stored stays. Nothing answers at its address then.
    pub(super) async fn stop_server(&self) {
        if let Some(front) = &self.front {
            front.process.stop().await;
        }
        if let Some(server) = &self.server {
            server.stop().await;
        }
    }

    /// Starts everything beside the API server. `objects` come first, so that it knows their kinds from the start.
    pub(super) async fn start_controllers(
        &self,
        launcher: &Launcher,
        admin: &kube::Client,
        objects: &Objects,
    ) -> anyhow::Result<()> {
        objects.apply(&self.name, admin).await?;
        self.begin_controllers(launcher).await
    }

    /// Starts everything beside the API server; what runs of it ends first.
    pub(super) async fn begin_controllers(&self, launcher: &Launcher) -> anyhow::Result<()> {
        let mut controllers = self.controllers.lock().await;
        for running in controllers.drain(..) {
            running.stop().await;
        }
        for spec in &self.controllers_specs {
            controllers.push(launcher.start(spec)?);
        }
        Ok(())
    }

    /// Calls `visit` with each process that runs, or has ended by itself.
    pub(super) async fn visit(&self, visit: &mut impl FnMut(&Process)) {
        let etcd = self.etcd.as_ref().map(|etcd| &etcd.process);
        let front = self.front.as_ref().map(|front| &front.process);
        for service in [etcd, self.server.as_ref(), front].into_iter().flatten() {
            service.visit(visit).await;
        }
        self.controllers.lock().await.iter().for_each(visit);
    }
}
