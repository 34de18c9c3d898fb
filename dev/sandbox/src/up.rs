//! Bringing a sandbox up, in order.

use super::{
    CellSpec, HubControllers, Options, PlaneRole, Sandbox, User,
    apiserver::{self, ApiServer},
    apply::Objects,
    backends,
    binaries::Binaries,
    certs::{Authority, Files},
    child::StandInArgs,
    controllers,
    etcd::Etcd,
    hub,
    karmada::Karmada,
    layout::Layout,
    plane::Plane,
    platform, pods,
    ports::free_port,
    process::{Launcher, Process, Service},
    proxy::Front,
    users::{Own, Users, own_path},
};
use crate::error::cannot;
use anyhow::Context;
use futures::future::{try_join, try_join_all};
use std::{
    path::{Path, PathBuf},
    time::Instant,
};
use tokio::sync::Mutex;

impl Sandbox {
    /// Starts everything and answers when it is ready: about 15 s on two cores, minutes more if the executables have
    /// to be built first. On an error, or when the future is dropped, everything that has started ends.
    pub async fn up(options: Options) -> anyhow::Result<Self> {
        let started = Instant::now();
        let progress = &options.progress;
        let names = options.planes()?;
        let layout = Layout::at(&options.dir)?;
        let owner = layout.own()?;
        layout.processes_gone().await?;
        layout.wipe(true)?;
        let holder = std::path::absolute(&options.holder).with_context(cannot("resolve", &options.holder))?;
        let binaries = Binaries::get(progress).await?;
        // Read first, so that a wrong folder is reported before anything starts.
        let karmada = match &options.hub_controllers {
            HubControllers::Karmada {
                bin_dir,
                manifests_dir,
            } => Some(Karmada::new(bin_dir, manifests_dir)?),
            HubControllers::StandIn | HubControllers::Nobody => None,
        };
        let karmada = karmada.as_ref();
        let authority = Authority::new()?;
        let hosts: Vec<String> = options.projects.iter().map(|name| platform::host(name)).collect();
        let files = Files::write(&layout.pki(), &authority, &hosts)?;
        let users = Users::new(&authority, &options)?;
        let launcher = Launcher {
            holder,
            logs: layout.logs(),
            lock: layout.processes_lock(),
        };
        std::fs::create_dir_all(&launcher.logs).with_context(cannot("create folder", &launcher.logs))?;
        apiserver::write_audit_policy(&audit_policy(&layout))?;
        pods::write_stages(&layout)?;

        let etcd = |name: String, dir: &str| {
            let (launcher, program) = (launcher.clone(), binaries.etcd.clone());
            let dir = layout.etcd(dir);
            async move { Etcd::start(&launcher, &program, &name, dir, options.fsync).await }
        };
        let shared = etcd("etcd".to_owned(), "shared").await?;
        let maker = Maker {
            layout: &layout,
            binaries: &binaries,
            files: &files,
            etcd: &shared.url,
            milo: options.milo().map(Milo::new).transpose()?,
            launcher: &launcher,
            options: &options,
        };
        let mut planes = Vec::new();
        for (name, role) in names {
            let own = if options.own_etcd.contains(&name) {
                Some(etcd(format!("{name} etcd"), &name).await?)
            } else {
                None
            };
            planes.push(maker.plane(name, role, own)?);
        }
        let port = free_port()?;
        let platform = options.platform.then(|| format!("https://127.0.0.1:{port}"));
        users.write_kubeconfigs(&layout, &planes, platform.as_deref())?;
        let servers = planes.iter().filter(|plane| plane.server.is_some());
        progress.say(&format!(
            "etcd is ready; starting {} API servers",
            servers.count()
        ));
        start(&planes, &users, &launcher, karmada, &options).await?;

        let mut sandbox = Self {
            layout,
            launcher,
            users,
            planes,
            etcd: shared,
            platform,
            others: Vec::new(),
            played: options.played(),
            _owner: owner,
        };
        for line in &sandbox.played {
            progress.say(line);
        }
        sandbox.start_the_rest(&options, karmada, &files, port).await?;
        sandbox.all_alive().await?;
        sandbox.write_state().await?;
        progress.say(&format!(
            "the sandbox is ready after {} s",
            started.elapsed().as_secs()
        ));
        Ok(sandbox)
    }

    /// Starts the processes that need the planes: stand-ins and the hub's controllers. Waits for each cell's Node.
    async fn start_the_rest(
        &mut self,
        options: &Options,
        karmada: Option<&Karmada>,
        files: &Files,
        platform_port: u16,
    ) -> anyhow::Result<()> {
        if let Some(url) = &self.platform {
            let process = platform::start(self, options, url, platform_port).await?;
            self.others.push(process);
        }
        if options.backends {
            let line = StandInArgs::line("backends", &self.layout, options, 0);
            // Nobody waits for it, because it reconciles the objects that exist already.
            let spec = self.launcher.own("networking-and-quota stand-in", line);
            self.others.push(self.launcher.start(&spec)?);
        }
        let nodes: &[CellSpec] = if options.pods { &options.cells } else { &[] };
        let (hub_processes, ()) = try_join(
            hub::start(self, options, karmada, files),
            pods::ready(self, nodes),
        )
        .await?;
        self.others.extend(hub_processes);
        Ok(())
    }

    /// An error if any process has ended by itself.
    pub(super) async fn all_alive(&self) -> anyhow::Result<()> {
        let mut result = Ok(());
        self.visit(|process| {
            if let Some(how) = process.ended() {
                result = Err(process.failure(format!("ended by itself ({how})"), "read the whole log"));
            }
        })
        .await;
        result
    }

    /// Calls `visit` with each process that runs, or has ended by itself.
    pub(super) async fn visit(&self, mut visit: impl FnMut(&Process)) {
        self.etcd.process.visit(&mut visit).await;
        for plane in &self.planes {
            plane.visit(&mut visit).await;
        }
        self.others.iter().for_each(visit);
    }
}

/// Milo's own API server, which serves the projects.
#[derive(Clone, Copy)]
struct Milo<'a> {
    program: &'a Path,
    port: u16,
    /// Port of the plane that keeps its Events.
    events: u16,
}

impl<'a> Milo<'a> {
    fn new(program: &'a Path) -> anyhow::Result<Self> {
        Ok(Self {
            program,
            port: free_port()?,
            events: free_port()?,
        })
    }
}

/// The parts that planes are made of.
struct Maker<'a> {
    layout: &'a Layout,
    binaries: &'a Binaries,
    files: &'a Files,
    /// Address of the shared etcd.
    etcd: &'a str,
    milo: Option<Milo<'a>>,
    launcher: &'a Launcher,
    options: &'a Options,
}

impl Maker<'_> {
    /// A plane that has not been started: its address and how its processes are run.
    fn plane(&self, name: String, role: PlaneRole, own: Option<Etcd>) -> anyhow::Result<Plane> {
        let is_milo = matches!(role, PlaneRole::Platform | PlaneRole::Project);
        let milo = self.milo.filter(|_| is_milo);
        let port = match (self.milo, role) {
            (Some(milo), PlaneRole::Activity) => milo.events,
            (Some(milo), _) if is_milo => milo.port,
            _ => free_port()?,
        };
        let server = ApiServer {
            program: milo.map_or(&self.binaries.kube_apiserver, |milo| milo.program),
            plane: &name,
            role,
            port,
            etcd: own.as_ref().map_or(self.etcd, |own| &own.url),
            files: self.files,
            audit_policy: &audit_policy(self.layout),
            audit_log: &self.layout.audit_log(&name),
        };
        let (path, spec) = match (milo, role) {
            (Some(_), PlaneRole::Project) => (platform::path(&name), None),
            (Some(milo), _) => {
                let spec = server.milo(&self.layout.token_review(), milo.events);
                (String::new(), Some(spec))
            }
            (None, _) => (String::new(), Some(server.spec())),
        };
        let address = format!("https://127.0.0.1:{port}{path}");
        // Karmada has a proxy of Clusters itself.
        let has_front = role == PlaneRole::Hub && self.options.hub_controllers == HubControllers::StandIn;
        let front = has_front
            .then(|| Front::new(self.layout, self.launcher, address.clone(), self.options))
            .transpose()?;
        let mut forwards = None;
        let controllers = controllers::spec(
            &self.binaries.controllers,
            &name,
            role,
            milo.is_some(),
            &own_path(self.layout, Own::ControllerManager, &name),
            self.files,
        );
        let mut controllers_specs = match role {
            // It has nothing but Events.
            PlaneRole::Activity => Vec::new(),
            _ => vec![controllers],
        };
        if self.options.pods && role == PlaneRole::Cell {
            forwards = pods::Forwards::new(&self.options.forwards)?;
            let specs = pods::specs(self.binaries, &name, self.layout, forwards.as_ref())?;
            controllers_specs.extend(specs);
        }
        Ok(Plane {
            url: front.as_ref().map_or(address, Front::url),
            front,
            name,
            role,
            etcd: own,
            forwards,
            server: spec.map(Service::new),
            controllers_specs,
            controllers: Mutex::default(),
        })
    }
}

/// Starts all planes at once; those that are paths of another's API server after it.
async fn start(
    planes: &[Plane],
    users: &Users,
    launcher: &Launcher,
    karmada: Option<&Karmada>,
    options: &Options,
) -> anyhow::Result<()> {
    let starting = |plane| async move {
        let plane: &Plane = plane;
        let admin = users.client(plane, User::Admin)?;
        plane.start_server(launcher, &admin).await?;
        let objects = objects(options, karmada, plane, &users.authority_base64())?;
        plane.start_controllers(launcher, &admin, &objects).await?;
        options.progress.say(&format!(
            "{} {} is ready at {}",
            plane.role.as_str(),
            plane.name,
            plane.url
        ));
        Ok::<(), anyhow::Error>(())
    };
    let (servers, paths): (Vec<_>, Vec<_>) = planes.iter().partition(|plane| plane.server.is_some());
    for planes in [servers, paths] {
        try_join_all(planes.into_iter().map(starting)).await?;
    }
    Ok(())
}

fn audit_policy(layout: &Layout) -> PathBuf {
    layout.pki().join("audit-policy.yaml")
}

/// The objects that a plane has before its controllers start.
fn objects(
    options: &Options,
    karmada: Option<&Karmada>,
    plane: &Plane,
    ca_base64: &str,
) -> anyhow::Result<Objects> {
    let mut objects = Objects::default();
    let milo = options.milo().is_some();
    // Milo has one set of definitions, and asks the roles and policies of its core alone.
    let role_of = |of: PlaneRole| match of {
        PlaneRole::Project if milo => PlaneRole::Platform,
        other => other,
    };
    let manifests = options.manifests.iter();
    for manifest in manifests.filter(|manifest| {
        role_of(manifest.plane) == plane.role && !options.unregistered.contains(&plane.name)
    }) {
        objects.add_yaml(&plane.name, &manifest.yaml)?;
    }
    if options.pods && plane.role == PlaneRole::Cell {
        pods::objects(&plane.name, &mut objects)?;
    }
    if options.backends {
        backends::objects(&plane.name, plane.role, milo, &options.cells, &mut objects)?;
    }
    if plane.role == PlaneRole::Platform {
        platform::objects(milo, &mut objects)?;
    }
    if plane.role == PlaneRole::Hub {
        hub::objects(options, karmada, ca_base64, &mut objects)?;
    }
    Ok(objects)
}
