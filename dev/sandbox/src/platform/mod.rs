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
mod controller;
mod handle;
mod purge;
mod refusal;
mod route;
mod switches;
mod upstreams;

pub(super) use command::play;
pub(super) use route::host;

use super::{
    Options, Sandbox, User,
    apply::{Objects, await_true},
    child::StandInArgs,
    process::Process,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
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
pub(super) fn objects(milo: bool, objects: &mut Objects) -> anyhow::Result<()> {
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
) -> anyhow::Result<Process> {
    if options.milo().is_some() {
        // Milo makes its definitions by itself, and is ready before they are served.
        let (core, kind) = (
            sandbox.client(CORE, User::Admin)?,
            ApiResource::erase::<CustomResourceDefinition>(&()),
        );
        let name = format!("projects.{GROUP}");
        await_true(CORE, &core, &kind, &name, "Established").await?;
    }
    let line = StandInArgs::line("platform", &sandbox.layout, options, port);
    let process = sandbox
        .launcher
        .start(&sandbox.launcher.own("platform stand-in", line))?;
    let admin = sandbox.users.client_at(ADDRESS, url, User::Admin)?;
    process.ready(&admin, "/readyz").await?;
    Ok(process)
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
