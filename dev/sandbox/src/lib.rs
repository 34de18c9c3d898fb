//! The sandbox: a hub, project planes and cells as real etcd and kube-apiserver processes on loopback.
//!
//! [`Sandbox::up`] starts everything in order and answers when it is ready; dropping the [`Sandbox`], or the end of
//! the process that owns it, ends everything ([`hold`]). Each plane is a kube-apiserver with RBAC, an audit log and a
//! controller manager; one etcd serves them all, but for planes of [`Options::own_etcd`]. Users are client certificates of one authority, so that the gateway
//! runs under its own role. The hub's controllers are real Karmada or the stand-in, see [`HubControllers`]. Cells may run
//! Pods ([`Options::pods`]), networking and quota may have stand-ins of their own ([`Options::backends`]), and so may Milo,
//! which has the projects under one address ([`Options::platform`]).

#![forbid(unsafe_code)]

mod apiserver;
mod apply;
mod backends;
mod binaries;
mod cache;
mod certs;
mod child;
mod commands;
mod conditions;
mod controllers;
mod down;
mod dump;
mod error;
mod etcd;
mod front;
mod hold;
mod hub;
mod karmada;
mod karmada_manifests;
mod kubeconfig;
mod layout;
mod options;
mod plane;
mod platform;
mod pods;
mod ports;
mod process;
mod proxy;
mod standin;
mod state;
mod status;
mod supervise;
mod up;
mod users;
mod watch;

pub use binaries::program;
pub use commands::SandboxCommand;
pub use kubeconfig::User;
pub use options::{CellSpec, HubControllers, Manifest, Options, Progress};
pub use plane::PlaneRole;

use anyhow::{anyhow, bail};
use etcd::Etcd;
use layout::Layout;
use plane::Plane;
use process::{Launcher, Process};
use std::{fs::File, path::PathBuf};
use users::Users;

/// A running sandbox. Dropping it ends every process; [`Sandbox::down`] also waits until they are gone.
pub struct Sandbox {
    layout: Layout,
    launcher: Launcher,
    users: Users,
    planes: Vec<Plane>,
    etcd: Etcd,
    /// Address of the stand-in of Milo.
    platform: Option<String>,
    /// The hub's controllers and the stand-ins.
    others: Vec<Process>,
    played: Vec<String>,
    _owner: File,
}

impl Sandbox {
    /// A new client of `user` for `plane`: `hub`, a project or a cell. It lives in the calling runtime.
    pub fn client(&self, plane: &str, user: User<'_>) -> anyhow::Result<kube::Client> {
        self.users.client(self.plane(plane)?, user)
    }

    /// The kubeconfig file of `user` for `plane`, with everything inline; the context has the plane's name.
    ///
    /// There are files for: the administrator everywhere, the gateway on hub and projects, each cell on the hub and
    /// on itself, each cell's claims on projects. Other combinations name a file that is not there.
    pub fn kubeconfig(&self, plane: &str, user: User<'_>) -> PathBuf {
        let project = self
            .plane(plane)
            .is_ok_and(|plane| plane.role == PlaneRole::Project);
        users::path(&self.layout, plane, project, user)
    }

    /// The port of this machine to which the ports of a Pod lead; `None` if [`Options::forwards`] does not have it.
    pub fn forward_target(&self, cell: &str, pod: &str) -> Option<u16> {
        let forwards = self.plane(cell).ok()?.forwards.as_ref()?;
        forwards.targets.get(pod).copied()
    }

    /// The file that the API server shows as the log of a Pod that has forwards, and of its start before. The program that
    /// plays the Pod writes it, in the format of container runtimes: a time, `stdout F`, and the line.
    pub fn container_log(&self, cell: &str, pod: &str) -> PathBuf {
        pods::log(cell, pod, &self.layout)
    }

    /// A folder with the gateway's kubeconfig of each project, `<project>.yaml`, and nothing else.
    pub fn project_kubeconfigs(&self) -> PathBuf {
        self.layout.kubeconfigs().join("projects")
    }

    /// A folder with the kubeconfig of a cell's claims for each project, `<project>.yaml`, and nothing else.
    pub fn quota_kubeconfigs(&self, cell: &str) -> PathBuf {
        self.layout.kubeconfigs().join(User::Quota(cell).label())
    }

    /// Address of the stand-in of Milo; `None` without [`Options::platform`].
    pub fn platform_address(&self) -> Option<&str> {
        self.platform.as_deref()
    }

    /// A new client of `user` for a path of the stand-in of Milo, e.g. `/projects/alpha/control-plane`; empty for its core.
    pub fn platform_client(&self, path: &str, user: User<'_>) -> anyhow::Result<kube::Client> {
        let address = self
            .platform_address()
            .ok_or_else(|| anyhow!("this sandbox has no stand-in of Milo"))?;
        self.users
            .client_at(platform::ADDRESS, &format!("{address}{path}"), user)
    }

    /// The kubeconfig file of `user`, administrator or gateway, for the address of the stand-in of Milo.
    pub fn platform_kubeconfig(&self, user: User<'_>) -> PathBuf {
        users::path(&self.layout, platform::ADDRESS, false, user)
    }

    /// The administrator's kubeconfig with one context per plane, the hub's first.
    pub fn merged_kubeconfig(&self) -> PathBuf {
        self.layout.merged_kubeconfig()
    }

    /// The audit log of a plane: JSON lines of `audit.k8s.io/v1` Events, level Metadata, stage `ResponseComplete`.
    /// A watch is logged when it ends. Projects of Milo's own API server share its log, where the annotation
    /// `platform.miloapis.com/scope.name` names the project.
    pub fn audit_log(&self, plane: &str) -> PathBuf {
        let is_path = self.plane(plane).is_ok_and(|plane| plane.server.is_none());
        self.layout
            .audit_log(if is_path { platform::CORE } else { plane })
    }

    /// Folder of all processes' logs.
    pub fn logs(&self) -> PathBuf {
        self.layout.logs()
    }

    /// Ends the plane's API server; its data and address stay. Nothing happens if it is stopped already.
    pub async fn stop_plane(&self, plane: &str) -> anyhow::Result<()> {
        let plane = self.plane(plane)?;
        if plane.server.is_none() {
            let core = platform::CORE;
            bail!(
                "project {:?} has no API server of its own: it is a path of plane {core:?}",
                plane.name
            );
        }
        plane.stop_server().await;
        self.write_state().await
    }

    /// Starts the plane's API server again and waits until it is ready. Nothing happens if it runs.
    pub async fn start_plane(&self, plane: &str) -> anyhow::Result<()> {
        let plane = self.plane(plane)?;
        let admin = self.users.client(plane, User::Admin)?;
        plane.start_server(&self.launcher, &admin).await?;
        self.write_state().await
    }

    /// Keeps a copy of all that the plane's own etcd holds, under a name. Its API server is stopped meanwhile.
    pub async fn save_plane(&self, plane: &str, name: &str) -> anyhow::Result<()> {
        let etcd = self.own_etcd(plane)?;
        self.stop_plane(plane).await?;
        etcd.save(&self.launcher, name).await?;
        self.start_plane(plane).await
    }

    /// Puts back what was kept of the plane last under this name, as a restore from a snapshot does: versions are given anew from there.
    /// Its API server must be stopped and is started; its controllers begin anew, whose caches are from after the copy.
    /// The hub's controllers are not among them.
    pub async fn restore_plane(&self, plane: &str, name: &str) -> anyhow::Result<()> {
        self.own_etcd(plane)?.put_back(&self.launcher, name).await?;
        self.start_plane(plane).await?;
        self.plane(plane)?.begin_controllers(&self.launcher).await?;
        self.write_state().await
    }

    fn own_etcd(&self, plane: &str) -> anyhow::Result<&Etcd> {
        let own = self.plane(plane)?.etcd.as_ref();
        own.ok_or_else(|| anyhow!("plane {plane:?} has no etcd of its own"))
    }

    /// Ends every process, waits until all are gone and removes data and credentials. The logs stay.
    pub async fn down(self) -> anyhow::Result<()> {
        let Self {
            layout,
            others,
            planes,
            etcd,
            _owner: owner,
            ..
        } = self;
        // All at once, and at once: nothing of a sandbox is worth an orderly end.
        drop((others, planes, etcd));
        layout.processes_gone().await?;
        layout.wipe(false)?;
        drop(owner);
        Ok(())
    }

    fn plane(&self, name: &str) -> anyhow::Result<&Plane> {
        self.planes
            .iter()
            .find(|plane| plane.name == name)
            .ok_or_else(|| {
                let names: Vec<&str> = self.planes.iter().map(|plane| plane.name.as_str()).collect();
                anyhow!("there is no plane {name:?}; there are {}", names.join(", "))
            })
    }
}
