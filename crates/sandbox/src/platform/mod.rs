//! STAND-IN for Milo, for the sandbox only: it implements none of Milo, and nothing outside the sandbox may depend on it.
//! docs/sandbox.md has the fact behind each thing that it plays.
//!
//! One address leads to all: the path `…/projects/<name>/control-plane/…` to the API server of that project, everything
//! else to the core's, which has the Projects. [`handle`] says who asks and passes the request on, [`controller`] makes Projects Ready and purges them.
//!
//! Where `MILO_BIN` names Milo's own API server, that one is the core and all projects, and requests are passed on with the
//! path that they have: of Milo itself only the controllers are played then.
//!
//! Annotations of a Project change its behaviour, see [`switches`].

mod command;
mod conditions;
mod controller;
mod handle;
mod purge;
mod refusal;
mod route;
mod switches;
mod upstreams;

pub(super) use command::PlatformArgs;
pub(super) use route::host;

use super::{
    Options, Sandbox, SandboxError, User,
    apply::{self, Objects},
    process::{Process, Spec},
    users::{Own, own_path},
};
use kube::core::{ApiResource, GroupVersionKind};
use std::path::Path;

/// Plane of the core API server.
pub(super) const CORE: &str = "milo";
/// Plane behind the paths of all names that have no API server of their own.
pub(super) const SPARE: &str = "spare";
/// Plane of the Events of Milo's own API server.
pub(super) const ACTIVITY: &str = "activity";
/// The context of the stand-in's own address in the administrator's kubeconfig.
pub(super) const ADDRESS: &str = "platform";

const GROUP: &str = "resourcemanager.miloapis.com";
const PROJECTS: &str = include_str!("crds/projects.yaml");
const CONTROL_PLANES: &str = include_str!("crds/projectcontrolplanes.yaml");
const GATEWAY: &str = include_str!("crds/gateway.yaml");

/// The stand-in that runs.
pub(super) struct Platform {
    /// Its address.
    pub(super) url: String,
    /// Its process.
    pub(super) process: Process,
}

/// The path of a project, in the short form.
pub(super) fn path(project: &str) -> String {
    format!("/projects/{project}/control-plane")
}

/// The line that says which parts are real where Milo's own API server has the projects.
pub(super) fn said(program: &Path) -> String {
    format!(
        "projects: core and all projects are Milo's own API server from {}; PLAYED around it: client \
         certificates, the switches of Projects, Milo's controllers, the store of Events (sandbox only)",
        program.display()
    )
}

/// Adds what the core API server has: the kinds, and the gateway's right to read them. `milo`, Milo's own API server, has its
/// Project already.
pub(super) fn objects(milo: bool, objects: &mut Objects) -> Result<(), SandboxError> {
    let project = (!milo).then_some(PROJECTS);
    for yaml in project.into_iter().chain([CONTROL_PLANES, GATEWAY]) {
        objects.add_yaml(CORE, yaml)?;
    }
    Ok(())
}

/// Starts the process at `url`, a port of loopback, and waits until it answers.
pub(super) async fn start(
    sandbox: &Sandbox,
    options: &Options,
    url: &str,
    port: u16,
) -> Result<Platform, SandboxError> {
    let file = |plane: &str| {
        own_path(&sandbox.layout, Own::Platform, plane)
            .display()
            .to_string()
    };
    let mut args = vec![
        "platform".to_owned(),
        format!("--port={port}"),
        format!("--pki={}", sandbox.layout.pki().display()),
        format!("--core={}", file(CORE)),
    ];
    if options.milo().is_some() {
        established(sandbox).await?;
    } else {
        args.push(format!("--spare={}", file(SPARE)));
    }
    args.extend(
        options
            .projects
            .iter()
            .map(|name| format!("--project={name}={}", file(name))),
    );
    let process = sandbox.launcher.start(&Spec {
        name: "platform stand-in".to_owned(),
        program: sandbox.launcher.holder.clone(),
        args,
    })?;
    let admin = sandbox.users.client_at(ADDRESS, url, User::Admin)?;
    process.ready(&admin, "/readyz").await?;
    Ok(Platform {
        url: url.to_owned(),
        process,
    })
}

/// Waits until Milo serves Projects: it makes its definitions by itself, and is ready before they are served.
async fn established(sandbox: &Sandbox) -> Result<(), SandboxError> {
    let core = sandbox.client(CORE, User::Admin)?;
    let name = format!("projects.{GROUP}");
    apply::established(CORE, &core, name, &sandbox.layout.logs()).await
}

/// Projects.
fn projects() -> ApiResource {
    let kind = GroupVersionKind::gvk(GROUP, "v1alpha1", "Project");
    ApiResource::from_gvk_with_plural(&kind, "projects")
}

/// `ProjectControlPlanes`.
fn control_planes() -> ApiResource {
    let kind = GroupVersionKind::gvk("infrastructure.miloapis.com", "v1alpha1", "ProjectControlPlane");
    ApiResource::from_gvk_with_plural(&kind, "projectcontrolplanes")
}
