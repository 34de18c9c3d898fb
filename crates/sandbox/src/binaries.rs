//! The executables of a plane: taken from `KUBEBUILDER_ASSETS`, or built once from pinned Go modules and kept.

use super::{Progress, SandboxError, certs::write};
use fedgate_api::names::short_hash;
use std::{
    env,
    fs::File,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{ChildStderr, Command},
};

/// How often a build says that it is still at work.
const REPORT_EVERY: Duration = Duration::from_secs(10);
/// The end of a failed build's output that goes into the error.
const KEPT_LINES: usize = 12;

/// A Go module of ours: pinned dependencies, and where no program of theirs fits, one of ours.
struct Module {
    go_mod: &'static str,
    go_sum: &'static str,
    main: Option<&'static str>,
    /// Build tags, with commas.
    tags: &'static str,
}

impl Module {
    /// The version that is pinned of a module.
    fn pinned(&self, module: &str) -> Option<&'static str> {
        let mut lines = self.go_mod.lines().map(str::split_whitespace);
        lines.find_map(|mut words| (words.next() == Some(module)).then(|| words.next())?)
    }

    /// Variables of packages that the linker sets. Kubernetes has its version from its release scripts alone; a program
    /// without it calls itself v0.0.0, which no bound of a chart admits.
    fn stamps(&self) -> String {
        let Some(version) = self.pinned("k8s.io/kubernetes") else {
            return String::new();
        };
        let mut numbers = version.trim_start_matches('v').split('.');
        let mut number = || numbers.next().unwrap_or_default();
        let variables = [
            ("gitVersion", version),
            ("gitMajor", number()),
            ("gitMinor", number()),
        ];
        let stamp = |(name, value)| format!(" -X k8s.io/component-base/version.{name}={value}");
        variables.map(stamp).concat()
    }

    /// Name of its folder in the cache: what is linked otherwise is another program.
    fn folder(&self) -> String {
        let own = self.main.unwrap_or_default();
        short_hash(&[self.go_mod, &self.stamps(), own].concat(), 16)
    }
}

macro_rules! module {
    ($folder:literal, $tags:literal) => {
        module!($folder, $tags, None)
    };
    ($folder:literal, $tags:literal, $main:expr) => {
        Module {
            go_mod: include_str!(concat!("modules/", $folder, "/go.mod")),
            go_sum: include_str!(concat!("modules/", $folder, "/go.sum")),
            main: $main,
            tags: $tags,
        }
    };
}

const ETCD: Module = module!("etcd", "");
const KUBERNETES: Module = module!("kubernetes", "");
const KWOK: Module = module!("kwok", "");
/// Without the tag, promtool needs the clients of all clouds in which Prometheus finds its targets.
const PROMTOOL: Module = module!("promtool", "remove_all_sd");
const HELM: Module = module!("helm", "");
/// The oldest Kubernetes that the definitions are for.
const DEFINITIONS: Module = module!(
    "definitions",
    "",
    Some(include_str!("modules/definitions/main.go"))
);
/// Built from nothing: its definitions are read.
const PROMETHEUS_OPERATOR: Module = module!("prometheus-operator", "");

/// Helm, which judges the chart and installs it; built once. No plane needs it. `holder` is as for [`promtool`].
pub async fn helm(holder: &Path, progress: &Progress) -> Result<PathBuf, SandboxError> {
    get("helm", "helm.sh/helm/v4/cmd/helm", &HELM, holder, progress).await
}

/// kubectl of the planes' version; built once. No plane needs it. `holder` is as for [`promtool`].
pub async fn kubectl(holder: &Path, progress: &Progress) -> Result<PathBuf, SandboxError> {
    get(
        "kubectl",
        "k8s.io/kubernetes/cmd/kubectl",
        &KUBERNETES,
        holder,
        progress,
    )
    .await
}

/// The folder with the definitions of prometheus-operator, one a file; downloaded once into Go's module cache.
pub async fn prometheus_operator_definitions() -> Result<PathBuf, SandboxError> {
    let failed = |reason: String| SandboxError::Binary {
        program: "prometheus-operator's definitions".to_owned(),
        reason,
        next: "install Go so that `go` is on PATH, and check the network and GOPROXY".to_owned(),
    };
    let module = &PROMETHEUS_OPERATOR;
    let source = cache_dir("prometheus-operator")?
        .join(module.folder())
        .join("module");
    write(&source.join("go.mod"), module.go_mod)?;
    write(&source.join("go.sum"), module.go_sum)?;
    let output = Command::new("go")
        .args([
            "mod",
            "download",
            "-json",
            "github.com/prometheus-operator/prometheus-operator",
        ])
        .current_dir(&source)
        .env("GOWORK", "off")
        .env("GOFLAGS", "")
        .stdin(Stdio::null())
        .output()
        .await
        .map_err(SandboxError::io("start go in", &source))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let downloaded: serde_json::Value = serde_json::from_str(&said).unwrap_or_default();
    match downloaded["Dir"].as_str().filter(|_| output.status.success()) {
        Some(dir) => Ok(Path::new(dir).join("example/prometheus-operator-crd")),
        None => Err(failed(format!(
            "go mod download failed ({}): {said}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
}

/// Prometheus's promtool, which judges alerts and metrics; built once. No plane needs it.
///
/// `holder` is the `fedgate-sandbox` executable, under which the build runs.
pub async fn promtool(holder: &Path, progress: &Progress) -> Result<PathBuf, SandboxError> {
    let package = "github.com/prometheus/prometheus/cmd/promtool";
    get("promtool", package, &PROMTOOL, holder, progress).await
}

/// Judges files of `CustomResourceDefinition`s by the validation of the oldest Kubernetes that they are for; built once.
/// `holder` is as for [`promtool`].
pub async fn definitions_check(holder: &Path, progress: &Progress) -> Result<PathBuf, SandboxError> {
    get("definitions-check", ".", &DEFINITIONS, holder, progress).await
}

/// Where the executables of a plane are.
#[derive(Debug, Clone)]
pub(super) struct Binaries {
    pub(super) etcd: PathBuf,
    pub(super) kube_apiserver: PathBuf,
    pub(super) kube_controller_manager: PathBuf,
    /// If cells run Pods.
    pub(super) pods: Option<PodBinaries>,
}

/// Where the executables are that a cell needs to run Pods.
#[derive(Debug, Clone)]
pub(super) struct PodBinaries {
    pub(super) kube_scheduler: PathBuf,
    pub(super) kwok: PathBuf,
}

impl Binaries {
    /// Finds each executable, or builds it: minutes the first time, nothing later.
    ///
    /// `holder` is the `fedgate` executable, under which builds run; `pods` says whether cells run Pods.
    pub(super) async fn get(holder: &Path, pods: bool, progress: &Progress) -> Result<Self, SandboxError> {
        let kubernetes = async |program: &str| {
            get(
                program,
                &format!("k8s.io/kubernetes/cmd/{program}"),
                &KUBERNETES,
                holder,
                progress,
            )
            .await
        };
        Ok(Self {
            etcd: get("etcd", "go.etcd.io/etcd/server/v3", &ETCD, holder, progress).await?,
            kube_apiserver: kubernetes("kube-apiserver").await?,
            kube_controller_manager: kubernetes("kube-controller-manager").await?,
            pods: if pods {
                Some(PodBinaries {
                    kube_scheduler: kubernetes("kube-scheduler").await?,
                    kwok: get("kwok", "sigs.k8s.io/kwok/cmd/kwok", &KWOK, holder, progress).await?,
                })
            } else {
                None
            },
        })
    }
}

async fn get(
    program: &str,
    package: &str,
    module: &Module,
    holder: &Path,
    progress: &Progress,
) -> Result<PathBuf, SandboxError> {
    if let Some(assets) = env::var_os("KUBEBUILDER_ASSETS") {
        let found = Path::new(&assets).join(program);
        if found.is_file() {
            return Ok(found);
        }
        progress.say(&format!(
            "{program} is not in KUBEBUILDER_ASSETS ({})",
            Path::new(&assets).display()
        ));
    }
    let dir = cache_dir(program)?.join(module.folder());
    let bin = dir.join("bin");
    let built = bin.join(program);
    if built.is_file() {
        return Ok(built);
    }
    std::fs::create_dir_all(&bin).map_err(SandboxError::io("create", &bin))?;
    let source = dir.join("module");
    write(&source.join("go.mod"), module.go_mod)?;
    write(&source.join("go.sum"), module.go_sum)?;
    if let Some(main) = module.main {
        write(&source.join("main.go"), main)?;
    }
    // Two processes that need the same build: one builds, the other waits and finds it.
    let lock = lock(&bin.join(format!("{program}.lock")), program, progress).await?;
    if !built.is_file() {
        let source = Source {
            package,
            folder: &source,
            module,
        };
        build(program, &source, &built, holder, progress).await?;
    }
    drop(lock);
    Ok(built)
}

/// `${XDG_CACHE_HOME:-$HOME/.cache}/fedgate`: outside the build directory, which `cargo clean` empties.
fn cache_dir(program: &str) -> Result<PathBuf, SandboxError> {
    let set = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("fedgate"))
        .ok_or_else(|| SandboxError::Binary {
            program: program.to_owned(),
            reason: "neither XDG_CACHE_HOME nor HOME is set, so there is no place to keep a build".to_owned(),
            next: "set HOME, or KUBEBUILDER_ASSETS to a folder with the executables".to_owned(),
        })
}

async fn lock(path: &Path, program: &str, progress: &Progress) -> Result<File, SandboxError> {
    let file = File::create(path).map_err(SandboxError::io("create", path))?;
    if file.try_lock().is_ok() {
        return Ok(file);
    }
    progress.say(&format!("{program}: another process builds it; waiting"));
    let waiting = tokio::task::spawn_blocking(move || file.lock().map(|()| file));
    match waiting.await {
        Ok(locked) => locked.map_err(SandboxError::io("lock", path)),
        Err(error) => Err(SandboxError::io("lock", path)(error.into())),
    }
}

/// The program to build.
struct Source<'a> {
    package: &'a str,
    /// The folder of the module.
    folder: &'a Path,
    module: &'a Module,
}

async fn build(
    program: &str,
    source: &Source<'_>,
    built: &Path,
    holder: &Path,
    progress: &Progress,
) -> Result<(), SandboxError> {
    let failed = |reason: String, next: &str| SandboxError::Binary {
        program: program.to_owned(),
        reason,
        next: next.to_owned(),
    };
    let Source { package, folder, .. } = *source;
    progress.say(&format!(
        "{program}: building from {package} (once; minutes on a small machine)"
    ));
    let unfinished = built.with_extension("unfinished");
    let started = Instant::now();
    let alive = built.with_extension("building");
    File::create(&alive).map_err(SandboxError::io("create", &alive))?;
    let mut child = go_build(source, &unfinished, &alive, holder)
        .spawn()
        .map_err(SandboxError::io("start", holder))?;
    // `wait` would close it, and the holder would end the build.
    let _pipe = child.stdin.take();
    let kept = match child.stderr.take() {
        Some(stderr) => watch_build(program, stderr, progress).await,
        None => Vec::new(),
    };
    let status = child
        .wait()
        .await
        .map_err(SandboxError::io("wait for go in", folder))?;
    if kept.iter().any(|line| line.contains("cannot start go:")) {
        let next = "install Go (https://go.dev/dl) so that `go` is on PATH, or set KUBEBUILDER_ASSETS";
        return Err(failed("go does not start".to_owned(), next));
    }
    if !status.success() {
        return Err(failed(
            format!(
                "go build {package} in {} failed ({status}):\n{}",
                folder.display(),
                kept.join("\n")
            ),
            "check the network, GOPROXY and the space in the cache folder, then try again",
        ));
    }
    std::fs::rename(&unfinished, built).map_err(SandboxError::io("rename to", built))?;
    progress.say(&format!(
        "{program}: built in {} s, kept in {}",
        started.elapsed().as_secs(),
        built.display()
    ));
    Ok(())
}

/// `go build`, held by a process that ends it with us.
fn go_build(source: &Source<'_>, output: &Path, alive: &Path, holder: &Path) -> Command {
    let mut command = Command::new(holder);
    command
        .args(["hold", "--lock"])
        .arg(alive)
        .args(["--", "go", "build", "-v", "-trimpath"])
        .arg(format!("-ldflags=-s -w{}", source.module.stamps()))
        .args(["-tags", source.module.tags, "-o"])
        .arg(output)
        .arg(source.package)
        .current_dir(source.folder)
        .env("CGO_ENABLED", "0")
        // The module stands alone, whatever the caller's settings say.
        .env("GOWORK", "off")
        .env("GOFLAGS", "-mod=readonly")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0);
    command
}

/// Reports how far the build is; its last lines.
async fn watch_build(program: &str, stderr: ChildStderr, progress: &Progress) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let mut lines = BufReader::new(stderr).lines();
    let started = Instant::now();
    let (mut compiled, mut downloaded, mut reported) = (0_u32, 0_u32, started);
    // With -v, go names each module that it downloads and each package that it compiles.
    while let Ok(Some(line)) = lines.next_line().await {
        if line.starts_with("go: downloading ") {
            downloaded += 1;
        } else {
            compiled += 1;
        }
        if kept.len() == KEPT_LINES {
            kept.remove(0);
        }
        kept.push(line);
        if reported.elapsed() >= REPORT_EVERY {
            reported = Instant::now();
            progress.say(&format!(
                "{program}: {downloaded} modules downloaded, {compiled} packages compiled, {} s",
                started.elapsed().as_secs()
            ));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_kubernetes_is_linked_with_the_version_of_its_module() {
        let module = Module {
            go_mod: "require (\n\tk8s.io/kubernetes-x v9.9.9 // indirect\n\tk8s.io/kubernetes v1.30.2 // indirect\n)\n",
            ..KUBERNETES
        };
        let package = "k8s.io/component-base/version";
        assert_eq!(
            module.stamps(),
            format!(" -X {package}.gitVersion=v1.30.2 -X {package}.gitMajor=1 -X {package}.gitMinor=30")
        );
        assert_ne!(module.folder(), short_hash(module.go_mod, 16));
        assert_eq!(KUBERNETES.stamps().matches(" -X ").count(), 3);
    }

    #[test]
    fn other_programs_have_their_version_from_go() {
        for module in [ETCD, KWOK, PROMTOOL, HELM] {
            assert_eq!(module.stamps(), "");
            assert_eq!(module.folder(), short_hash(module.go_mod, 16));
        }
    }
}
