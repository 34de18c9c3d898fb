//! The `fedgate` executable: reads arguments and calls the library.

use clap::Parser;
#[cfg(feature = "checks")]
use fedgate::commands::{KindsCommand, KindsDir};
use fedgate::{
    commands::{Command, DoctorArgs, ManifestsArgs, ReportFormat, chart_flags},
    config::{self, AdminAuth, ProcessArgs},
    process, telemetry,
};
use fedgate_engine::{
    metrics::Metrics,
    plane::kubeconfig::{Credential, Rules},
};
use fedgate_kinds::Kinds;
#[cfg(feature = "checks")]
use fedgate_kinds::lua::checks;
use fedgate_manifests::{File, KindManifests, Manifest};
use fedgate_operator::{
    client::{self, args::WayArgs},
    doctor::{self, Role},
    membership,
};
use std::{path::Path, process::ExitCode};

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Maximum number of threads, on machines with more processors. Each may hold one large object of a tenant while it reads it, and
/// the memory limit of the process does not grow with the machine.
const THREADS: usize = 4;

fn main() -> ExitCode {
    let command = Command::parse();
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(THREADS));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build();
    match runtime
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(run(command)))
    {
        Ok(code) => code,
        Err(error) => {
            eprintln!("fedgate: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Gateway(args) => {
            args.check()?;
            let shutdown = begin(&args.process)?;
            Ok(ended("the gateway", process::run(*args, shutdown).await))
        }
        Command::Cell(args) => {
            args.check()?;
            let shutdown = begin(&args.process)?;
            Ok(ended("the cell", process::run_cell(*args, shutdown).await))
        }
        Command::Returns(args) => {
            args.process.check()?;
            let shutdown = begin(&args.process)?;
            let result = process::run_returns(*args, shutdown).await;
            Ok(ended("the returns of the member", result))
        }
        Command::Provisioner(args) => {
            args.process.check()?;
            let shutdown = begin(&args.process)?;
            let result = process::run_provisioner(*args, shutdown).await;
            Ok(ended("the provisioner", result))
        }
        Command::Doctor(args) => doctor_report(args).await,
        Command::Status(args) => Ok(client::status(&args).await),
        Command::Stuck(args) => Ok(client::stuck(&args).await),
        Command::Trace(args) => Ok(client::trace(&args).await),
        Command::Journal(args) => Ok(client::journal(&args).await),
        Command::Console(args) => Ok(client::console(&args).await),
        Command::Manifests(args) => print_manifests(&args),
        Command::Cells(command) => Ok(membership::cells(&command).await),
        Command::Projects(command) => Ok(membership::projects(&command).await),
        #[cfg(feature = "checks")]
        Command::Kinds(command) => Ok(kinds(&command)),
    }
}

/// Begins the logs; completes when the process is to end.
fn begin(process: &ProcessArgs) -> anyhow::Result<impl Future<Output = ()> + Send + use<>> {
    telemetry::begin(process.log_format, &process.log_level)?;
    process::shutdown()
}

fn ended(role: &str, result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "{role} did not start");
            ExitCode::FAILURE
        }
    }
}

async fn doctor_report(args: DoctorArgs) -> anyhow::Result<ExitCode> {
    const USAGE: u8 = 2;
    let loaded = Kinds::load(&args.kinds.builtin_kinds, args.kinds.interpreters.as_deref());
    let loaded = loaded.map_err(|error| format!("{}: {error}", error.flag()));
    let kinds = match loaded {
        Ok(kinds) => kinds,
        Err(error) => {
            eprintln!("fedgate: {error}");
            return Ok(ExitCode::from(USAGE));
        }
    };
    let metrics = Metrics::new()?;
    let clients = config::clients(&metrics);
    let mut planes = doctor::Planes::default();
    let mut add = |role, name: &str, path: &Path| {
        planes.add(
            role,
            name,
            Credential::from_file(path, Rules::default()),
            &clients,
        );
    };
    add(Role::Hub, "", &args.hub_kubeconfig);
    for path in &args.project_kubeconfigs {
        let name = path.file_stem().unwrap_or(path.as_os_str());
        add(Role::Project, &name.to_string_lossy(), path);
    }
    for cell in &args.cell_kubeconfigs {
        add(Role::Cell, &cell.name, &cell.path);
    }
    for cell in &args.cell_hub_kubeconfigs {
        add(Role::CellHub, &cell.name, &cell.path);
    }
    let others = [
        (Role::Admin, &args.admin_kubeconfig),
        (Role::KarmadaHost, &args.karmada_host_kubeconfig),
    ];
    for (role, path) in others {
        if let Some(path) = path {
            add(role, "", path);
        }
    }
    let gateway = async {
        let path = args.host_kubeconfig.clone()?;
        let replicas = client::overviews(&WayArgs::of_host(path)).await;
        Some(doctor::gateway(&replicas))
    };
    let reviewing = async {
        match &args.host_kubeconfig {
            _ if args.admin_auth == AdminAuth::Hub => true,
            Some(path) => client::reviews_tokens(&WayArgs::of_host(path.clone())).await,
            None => false,
        }
    };
    let (report, of_gateway) = tokio::join!(doctor::examine(planes, &kinds, reviewing), gateway);
    let mut report = report?;
    report.findings.extend(of_gateway.into_iter().flatten());
    match args.output {
        ReportFormat::Text => print!("{report}"),
        ReportFormat::Json => println!("{:#}", report.json()),
    }
    Ok(ExitCode::from(report.exit_code(args.strict)))
}

fn print_manifests(args: &ManifestsArgs) -> anyhow::Result<ExitCode> {
    if let Some(dir) = &args.interpreters {
        let own = Kinds::load_dir(dir)?;
        if own.federated.is_empty() && own.platform.is_empty() {
            let dir = dir.display();
            anyhow::bail!(
                "--interpreters: {dir} holds no kind; give the folder that holds <group>/<version>/<Kind>/kind.yaml, or that of one kind"
            );
        }
    }
    let kinds = Kinds::load(&args.builtin_kinds, args.interpreters.as_deref())?;
    let kinds = KindManifests::all(&kinds, true);
    let monitoring = fedgate_manifests::monitoring(&args.runbooks)?;
    let folder = || fedgate_manifests::folder(&kinds, &monitoring);
    let chart = || fedgate_manifests::chart(&folder()?, &chart_flags());
    let mut is_same = true;
    if let Some(dir) = &args.write {
        fedgate_manifests::write(dir, &folder()?)?;
    }
    if let Some(dir) = &args.write_chart {
        fedgate_manifests::write(dir, &chart()?)?;
    }
    if let Some(dir) = &args.check {
        is_same &= compare("--write", dir, &folder()?)?;
    }
    if let Some(dir) = &args.check_chart {
        is_same &= compare("--write-chart", dir, &chart()?)?;
    }
    let folders = [&args.write, &args.write_chart, &args.check, &args.check_chart];
    if folders.iter().all(|dir| dir.is_none()) {
        print_objects(&kinds, monitoring)?;
    }
    Ok(if is_same {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn print_objects(kinds: &[KindManifests], monitoring: Vec<Manifest>) -> anyhow::Result<()> {
    let mut files = fedgate_manifests::all(kinds)?;
    files.extend(monitoring);
    // A rule file and a dashboard are no objects of an API server.
    let objects = files
        .into_iter()
        .filter(|file| file.objects.iter().all(|object| object["kind"].is_string()));
    for manifest in objects {
        println!("---\n# {}\n{}", manifest.path, manifest.text()?);
    }
    Ok(())
}

/// Names the files that differ; true if none does.
fn compare(write: &str, dir: &Path, files: &[File]) -> anyhow::Result<bool> {
    let differing = fedgate_manifests::compare(dir, files)?;
    for path in &differing {
        eprintln!(
            "{} differs from what `fedgate manifests` generates",
            dir.join(path).display()
        );
    }
    if !differing.is_empty() {
        eprintln!("write them anew: fedgate manifests {write} {}", dir.display());
    }
    Ok(differing.is_empty())
}

#[cfg(feature = "checks")]
fn kinds(command: &KindsCommand) -> ExitCode {
    match command {
        KindsCommand::Test(KindsDir { dir }) => check(dir, "case", checks::cases::run),
        KindsCommand::Lint(KindsDir { dir }) => check(dir, "file", checks::lint),
    }
}

#[cfg(feature = "checks")]
fn check(dir: &Path, what: &str, run: fn(&Path) -> checks::Report) -> ExitCode {
    let began = std::time::Instant::now();
    let report = run(dir);
    for finding in &report.findings {
        println!("{finding}");
    }
    let took = began.elapsed().as_millis();
    let (checked, dir) = (counted(report.checked, what), dir.display());
    if report.is_ok() {
        println!("{checked} in {dir}: all well ({took} ms)");
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "{} in {checked} of {dir}",
        counted(report.findings.len(), "fault")
    );
    ExitCode::FAILURE
}

/// A number of words: `1 file`, `2 files`.
#[cfg(feature = "checks")]
fn counted(count: usize, word: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {word}{plural}")
}
