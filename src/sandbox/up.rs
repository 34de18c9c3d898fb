//! Bringing a sandbox up, in order.

use super::{
    Options, PlaneRole, Sandbox, SandboxError, User,
    apiserver::{self, ApiServer},
    apply::Objects,
    binaries::Binaries,
    certs::{Authority, Files},
    controller_manager,
    etcd::Etcd,
    hub::Hub,
    layout::Layout,
    plane::Plane,
    ports::free_port,
    process::Launcher,
    users::{self, Users},
};
use futures::future::try_join_all;
use std::{path::PathBuf, time::Instant};
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
        let binaries = Binaries::get(&holder, progress).await?;
        let hub = Hub::new(&options)?;
        let authority = Authority::new()?;
        let files = Files::write(&layout.pki(), &authority)?;
        let users = Users::new(&authority, &options)?;
        let launcher = Launcher {
            holder,
            logs: layout.logs(),
            lock: layout.processes_lock(),
        };
        std::fs::create_dir_all(&launcher.logs).map_err(SandboxError::io("create folder", &launcher.logs))?;
        apiserver::write_audit_policy(&audit_policy(&layout))?;

        let etcd = Etcd::start(&launcher, &binaries.etcd, &layout.etcd(), options.fsync).await?;
        let planes = names
            .into_iter()
            .map(|(name, role)| plane(name, role, &layout, &binaries, &files, &etcd))
            .collect::<Result<Vec<_>, _>>()?;
        users.write_kubeconfigs(&layout, &planes)?;
        progress.say(&format!("etcd is ready; starting {} API servers", planes.len()));
        start(&planes, &users, &launcher, &hub, &options).await?;

        let hub_processes = Vec::new();
        let hub_controllers = options.hub_controllers.to_string();
        let mut sandbox = Self {
            layout,
            launcher,
            users,
            planes,
            etcd,
            hub_processes,
            hub_controllers,
            _owner: owner,
        };
        progress.say(&format!("hub controllers: {}", options.hub_controllers));
        sandbox.hub_processes = hub.start(&sandbox, &files).await?;
        sandbox.all_alive().await?;
        sandbox.write_state().await?;
        progress.say(&format!(
            "the sandbox is ready after {} s",
            started.elapsed().as_secs()
        ));
        Ok(sandbox)
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
        let next = "read the whole log";
        for plane in &self.planes {
            for process in [&plane.server, &plane.controllers] {
                if let Some(process) = process.lock().await.as_ref()
                    && let Some(how) = process.ended()
                {
                    return Err(process.failure(format!("ended by itself ({how})"), next));
                }
            }
        }
        for process in self.hub_processes.iter().chain([&self.etcd.process]) {
            if let Some(how) = process.ended() {
                return Err(process.failure(format!("ended by itself ({how})"), next));
            }
        }
        Ok(())
    }
}

/// A plane that has not been started: its address and how its processes are run.
fn plane(
    name: String,
    role: PlaneRole,
    layout: &Layout,
    binaries: &Binaries,
    files: &Files,
    etcd: &Etcd,
) -> Result<Plane, SandboxError> {
    let port = free_port()?;
    let server_spec = ApiServer {
        program: &binaries.kube_apiserver,
        plane: &name,
        role,
        port,
        etcd: &etcd.url,
        files,
        audit_policy: &audit_policy(layout),
        audit_log: &layout.audit_log(&name),
    }
    .spec();
    let controllers_spec = controller_manager::spec(
        &binaries.kube_controller_manager,
        &name,
        &users::controller_manager_path(layout, &name),
        files,
    );
    Ok(Plane {
        url: format!("https://127.0.0.1:{port}"),
        name,
        role,
        server_spec,
        controllers_spec,
        server: Mutex::default(),
        controllers: Mutex::default(),
    })
}

/// Starts all planes at once.
async fn start(
    planes: &[Plane],
    users: &Users,
    launcher: &Launcher,
    hub: &Hub,
    options: &Options,
) -> Result<(), SandboxError> {
    let starting = planes.iter().map(|plane| async {
        let admin = users.client(plane, User::Admin)?;
        plane.start_server(launcher, &admin).await?;
        let objects = objects(options, hub, plane, &users.authority_base64())?;
        plane.start_controllers(launcher, &admin, &objects).await?;
        options.progress.say(&format!(
            "{} {} is ready at {}",
            plane.role, plane.name, plane.url
        ));
        Ok::<(), SandboxError>(())
    });
    try_join_all(starting).await.map(drop)
}

fn audit_policy(layout: &Layout) -> PathBuf {
    layout.pki().join("audit-policy.yaml")
}

/// What a plane has before its controllers start.
fn objects(options: &Options, hub: &Hub, plane: &Plane, ca_base64: &str) -> Result<Objects, SandboxError> {
    let mut objects = Objects::default();
    for manifest in options
        .manifests
        .iter()
        .filter(|manifest| manifest.plane == plane.role)
    {
        objects.add_yaml(&plane.name, &manifest.yaml)?;
    }
    if plane.role == PlaneRole::Hub {
        hub.objects(ca_base64, &mut objects)?;
    }
    Ok(objects)
}
