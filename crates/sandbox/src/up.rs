//! Bringing a sandbox up, in order.

use super::{
    CellSpec, Options, PlaneRole, Sandbox, SandboxError, User,
    apiserver::{self, ApiServer},
    apply::Objects,
    backends,
    binaries::Binaries,
    certs::{Authority, Files},
    controllers,
    etcd::Etcd,
    hub::Hub,
    layout::Layout,
    plane::Plane,
    platform, pods,
    ports::free_port,
    process::{Launcher, Process},
    proxy::Front,
    users::{Own, Users, own_path},
};
use futures::future::{try_join, try_join_all};
use std::{
    path::{Path, PathBuf},
    time::Instant,
};
use tokio::sync::Mutex;

impl Sandbox {
    /// Starts everything and answers when it is ready: about 15 s on two cores, minutes more if the executables have
    /// to be built first. On an error, or when the future is dropped, everything that has started ends.
    pub async fn up(options: Options) -> Result<Self, SandboxError> {
        let started = Instant::now();
        let progress = &options.progress;
        let names = options.planes()?;
        let layout = Layout {
            dir: options.absolute_dir()?,
        };
        let owner = layout.own()?;
        layout.processes_gone().await?;
        layout.wipe(true)?;
        let holder =
            std::path::absolute(&options.holder).map_err(SandboxError::io("resolve", &options.holder))?;
        let binaries = Binaries::get(options.pods, progress).await?;
        let hub = Hub::new(&options)?;
        let authority = Authority::new()?;
        let hosts: Vec<String> = options.projects.iter().map(|name| platform::host(name)).collect();
        let files = Files::write(&layout.pki(), &authority, &hosts)?;
        let users = Users::new(&authority, &options)?;
        let launcher = Launcher {
            holder,
            logs: layout.logs(),
            lock: layout.processes_lock(),
        };
        std::fs::create_dir_all(&launcher.logs).map_err(SandboxError::io("create folder", &launcher.logs))?;
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
            forwards: &options.forwards,
            holder: &launcher.holder,
            members: hub.proxied(),
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
        let platform = options
            .platform
            .then(|| (format!("https://127.0.0.1:{port}"), port));
        let address = platform.as_ref().map(|(url, _)| url.as_str());
        users.write_kubeconfigs(&layout, &planes, address)?;
        let servers = planes.iter().filter(|plane| plane.server_spec.is_some());
        progress.say(&format!(
            "etcd is ready; starting {} API servers",
            servers.count()
        ));
        start(&planes, &users, &launcher, &hub, &options).await?;

        let mut sandbox = Self {
            layout,
            launcher,
            users,
            planes,
            etcd: shared,
            hub_processes: Vec::new(),
            hub_controllers: options.hub_controllers.to_string(),
            backends: None,
            platform: None,
            played: options.played(),
            _owner: owner,
        };
        progress.say(&format!("hub controllers: {}", options.hub_controllers));
        for line in &sandbox.played {
            progress.say(line);
        }
        sandbox.start_the_rest(&options, &hub, &files, platform).await?;
        sandbox.all_alive().await?;
        sandbox.write_state().await?;
        progress.say(&format!(
            "the sandbox is ready after {} s",
            started.elapsed().as_secs()
        ));
        Ok(sandbox)
    }

    /// What needs the planes: the stand-ins, the hub's controllers, and each cell's Node.
    async fn start_the_rest(
        &mut self,
        options: &Options,
        hub: &Hub,
        files: &Files,
        platform: Option<(String, u16)>,
    ) -> Result<(), SandboxError> {
        if let Some((url, port)) = platform {
            self.platform = Some(platform::start(self, options, &url, port).await?);
        }
        if options.backends {
            self.backends = Some(backends::start(self, options)?);
        }
        let nodes: &[CellSpec] = if options.pods { &options.cells } else { &[] };
        let (hub_processes, ()) = try_join(hub.start(self, files), pods::ready(self, nodes)).await?;
        self.hub_processes = hub_processes;
        Ok(())
    }

    /// An error about something that did not come.
    pub(super) fn timeout(&self, plane: &str, what: String, seconds: u64) -> SandboxError {
        SandboxError::Timeout {
            plane: plane.to_owned(),
            what,
            seconds,
            logs: self.layout.logs(),
        }
    }

    /// An error if any process has ended by itself.
    pub(super) async fn all_alive(&self) -> Result<(), SandboxError> {
        let alive = |process: &Process| match process.ended() {
            Some(how) => Err(process.failure(format!("ended by itself ({how})"), "read the whole log")),
            None => Ok(()),
        };
        for plane in &self.planes {
            plane.server.lock().await.as_ref().map_or(Ok(()), alive)?;
            plane.controllers.lock().await.iter().try_for_each(alive)?;
            if let Some(front) = &plane.front {
                front.process.lock().await.as_ref().map_or(Ok(()), alive)?;
            }
            if let Some(etcd) = &plane.etcd {
                etcd.process.lock().await.iter().try_for_each(alive)?;
            }
        }
        let platform = self.platform.as_ref().map(|platform| &platform.process);
        let mut others = self.hub_processes.iter().chain(&self.backends).chain(platform);
        others.try_for_each(alive)?;
        self.etcd.process.lock().await.iter().try_for_each(alive)
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
    fn new(program: &'a Path) -> Result<Self, SandboxError> {
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
    forwards: &'a [String],
    /// The `fedgate-sandbox` executable.
    holder: &'a Path,
    /// The cells to which the hub has a proxy of the sandbox's own; `None`: it has Karmada's, or none.
    members: Option<&'a [CellSpec]>,
}

impl Maker<'_> {
    /// A plane that has not been started: its address and how its processes are run.
    fn plane(&self, name: String, role: PlaneRole, own: Option<Etcd>) -> Result<Plane, SandboxError> {
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
        let (path, server_spec) = match (milo, role) {
            (Some(_), PlaneRole::Project) => (platform::path(&name), None),
            (Some(milo), _) => {
                let spec = server.milo(&self.layout.token_review(), milo.events);
                (String::new(), Some(spec))
            }
            (None, _) => (String::new(), Some(server.spec())),
        };
        let server = format!("https://127.0.0.1:{port}{path}");
        let front = match self.members.filter(|_| role == PlaneRole::Hub) {
            Some(cells) => Some(Front::new(
                self.layout,
                self.holder,
                &name,
                server.clone(),
                cells,
            )?),
            None => None,
        };
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
        if let Some(binaries) = &self.binaries.pods
            && role == PlaneRole::Cell
        {
            forwards = pods::Forwards::new(self.forwards)?;
            controllers_specs.extend(pods::specs(binaries, &name, self.layout, forwards.as_ref())?);
        }
        Ok(Plane {
            url: front.as_ref().map_or(server, Front::url),
            front,
            name,
            role,
            etcd: own,
            forwards,
            server_spec,
            controllers_specs,
            server: Mutex::default(),
            controllers: Mutex::default(),
        })
    }
}

/// Starts all planes at once; those that are paths of another's API server after it.
async fn start(
    planes: &[Plane],
    users: &Users,
    launcher: &Launcher,
    hub: &Hub,
    options: &Options,
) -> Result<(), SandboxError> {
    let starting = |plane| async move {
        let plane: &Plane = plane;
        let admin = users.client(plane, User::Admin)?;
        plane.start_server(launcher, &admin).await?;
        let objects = objects(options, hub, plane, &users.authority_base64())?;
        plane.start_controllers(launcher, &admin, &objects).await?;
        options.progress.say(&format!(
            "{} {} is ready at {}",
            plane.role, plane.name, plane.url
        ));
        Ok::<(), SandboxError>(())
    };
    let (servers, paths): (Vec<_>, Vec<_>) = planes.iter().partition(|plane| plane.server_spec.is_some());
    for planes in [servers, paths] {
        try_join_all(planes.into_iter().map(starting)).await?;
    }
    Ok(())
}

fn audit_policy(layout: &Layout) -> PathBuf {
    layout.pki().join("audit-policy.yaml")
}

/// What a plane has before its controllers start.
fn objects(options: &Options, hub: &Hub, plane: &Plane, ca_base64: &str) -> Result<Objects, SandboxError> {
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
        hub.objects(ca_base64, &mut objects)?;
    }
    Ok(objects)
}
