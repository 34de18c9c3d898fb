//! `fedgate-sandbox …`.

use super::{
    CellSpec, HubControllers, Manifest, Options, Progress, backends,
    binaries::Binaries,
    child::StandInArgs,
    down::down,
    hold::hold,
    layout::Layout,
    platform, proxy, standin,
    state::State,
    status::{environment, table},
    supervise::{supervise, up},
    watch::watch,
};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use std::{ffi::OsString, io::Write, path::PathBuf, process::ExitCode};

/// Local planes for trials and tests of fedgate: a hub, projects and cells.
#[derive(Debug, Subcommand)]
pub enum SandboxCommand {
    /// Start hub, projects and cells in the background and wait until they are ready.
    ///
    /// Executables come from `KUBEBUILDER_ASSETS`, or are built once. The hub's controllers are real Karmada if
    /// `KARMADA_BIN_DIR` and `KARMADA_MANIFESTS_DIR` are set, else the stand-in.
    Up(UpArgs),
    /// Show planes and processes.
    Status(DirArgs),
    /// Print shell commands that point kubectl and `fedgate gateway` at the sandbox: `eval "$(fedgate-sandbox env)"`.
    Env(DirArgs),
    /// End everything and remove data and credentials; the logs stay. Works after crashes too, and twice.
    Down(DirArgs),
    /// Print each change of objects in namespaces of several planes, with the time at which it was seen.
    Watch(WatchArgs),
    /// Get the executables of a plane, building those that are missing, and start nothing.
    Prepare,
    /// Own a sandbox until told to end; `up` starts this in the background.
    #[command(hide = true)]
    Supervise(UpArgs),
    /// Play Karmada on a hub: the STAND-IN, not Karmada itself.
    #[command(hide = true)]
    Standin(StandInArgs),
    /// Play Karmada's proxy of Clusters before a hub: the STAND-IN, for the sandbox only.
    #[command(hide = true)]
    HubProxy(StandInArgs),
    /// Play network provider and claim granter: the STAND-INS, for the sandbox only.
    #[command(hide = true)]
    Backends(StandInArgs),
    /// Play Milo in front of projects: the STAND-IN, for the sandbox only.
    #[command(hide = true)]
    Platform(StandInArgs),
    /// Hold one process: run it until it ends or standard input does.
    #[command(hide = true)]
    Hold {
        /// File to share a lock on while the process lives.
        #[arg(long, value_name = "FILE")]
        lock: PathBuf,
        /// The command with its arguments.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

/// Which sandbox.
#[derive(Debug, Clone, Args)]
pub struct DirArgs {
    /// Folder of the sandbox's state and logs.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "target/sandbox",
        env = "FEDGATE_SANDBOX_DIR"
    )]
    pub dir: PathBuf,
}

/// Arguments of `up`.
#[allow(
    clippy::struct_excessive_bools,
    reason = "switches that have nothing to do with each other"
)]
#[derive(Debug, Clone, Args)]
pub struct UpArgs {
    #[command(flatten)]
    dir: DirArgs,
    /// A project plane; may be repeated.
    #[arg(long = "project", value_name = "NAME", default_values = ["alpha", "beta"])]
    projects: Vec<String>,
    /// A cell and its city; may be repeated.
    #[arg(long = "cell", value_name = "NAME=CITY", value_parser = cell, default_values = ["dfw-1=DFW", "lhr-1=LHR"])]
    cells: Vec<CellSpec>,
    /// Start nothing that acts on the hub: only CRDs and Cluster objects.
    #[arg(long)]
    no_hub_controllers: bool,
    /// Serve the projects under one address as Milo does, with Project objects, by a stand-in, or by the API server of
    /// `MILO_BIN`; a Project is Ready if its name is one of --project.
    #[arg(long)]
    platform: bool,
    /// Let etcd wait for the disk, as it does in production; slower.
    #[arg(long)]
    fsync: bool,
}

/// Arguments of `watch`.
#[derive(Debug, Clone, Args)]
pub struct WatchArgs {
    #[command(flatten)]
    dir: DirArgs,
    /// A plane and a namespace of it, which need not exist yet.
    #[arg(required = true, value_name = "PLANE/NAMESPACE", value_parser = place)]
    places: Vec<(String, String)>,
}

fn place(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('/');
    let (plane, namespace) = parts.ok_or("expected PLANE/NAMESPACE, e.g. alpha/default")?;
    Ok((plane.to_owned(), namespace.to_owned()))
}

/// The path of the running executable.
pub(super) fn executable() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot tell where the running executable is")
}

fn cell(text: &str) -> Result<CellSpec, String> {
    match text.split_once('=') {
        Some((name, city)) if !name.is_empty() && !city.is_empty() => Ok(CellSpec {
            name: name.to_owned(),
            city: city.to_owned(),
        }),
        _ => Err("expected NAME=CITY, e.g. dfw-1=DFW".to_owned()),
    }
}

impl UpArgs {
    fn options(&self, progress: Progress) -> anyhow::Result<Options> {
        let holder = executable()?;
        Ok(Options {
            projects: self.projects.clone(),
            cells: self.cells.clone(),
            hub_controllers: if self.no_hub_controllers {
                HubControllers::Nobody
            } else {
                HubControllers::from_env()?
            },
            manifests: Manifest::builtin()?,
            pods: true,
            backends: true,
            platform: self.platform,
            milo: Options::milo_from_env(),
            fsync: self.fsync,
            progress,
            ..Options::new(&self.dir.dir, holder)
        })
    }
}

impl DirArgs {
    fn layout(&self) -> anyhow::Result<Layout> {
        Layout::at(&self.dir)
    }

    async fn running(&self) -> anyhow::Result<State> {
        let layout = self.layout()?;
        let dir = layout.dir.display();
        if layout.owner().await?.is_none() {
            let given = self.dir.display();
            bail!("no sandbox is up in {dir}; run `fedgate-sandbox up --dir {given}`");
        }
        State::read(&layout)?.with_context(|| format!("the sandbox in {dir} is still starting; wait for it"))
    }
}

impl SandboxCommand {
    /// Does what the command says; answers the exit code.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Up(args) => {
                let layout = args.dir.layout()?;
                let progress = Progress::new(|line| {
                    let _ = writeln!(std::io::stderr(), "{line}");
                });
                up(&layout, &progress).await?;
                print(&table(&args.dir.running().await?).await);
            }
            Self::Status(dir) => print(&table(&dir.running().await?).await),
            Self::Env(dir) => print(&environment(&dir.running().await?)),
            Self::Down(dir) => {
                let layout = dir.layout()?;
                let dir = layout.dir.display();
                if down(&layout).await? {
                    print(&format!("the sandbox in {dir} has ended; its logs stay there\n"));
                } else {
                    print(&format!("nothing runs in {dir}\n"));
                }
            }
            Self::Watch(args) => watch(&args.dir.running().await?.kubeconfig, &args.places).await?,
            Self::Prepare => {
                let progress = Progress::new(|line| print(&format!("{line}\n")));
                Binaries::get(&progress).await?;
            }
            Self::Supervise(args) => supervise(|progress| args.options(progress)).await?,
            Self::Standin(args) => standin::play(&args).await?,
            Self::HubProxy(args) => proxy::play(&args).await?,
            Self::Backends(args) => backends::play(&args).await?,
            Self::Platform(args) => platform::play(&args).await?,
            Self::Hold { lock, command } => {
                let code = hold(&lock, &command)?;
                return Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A reader that went away is no failure of the command.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
