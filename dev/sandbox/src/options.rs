//! Settings of a sandbox.

use super::{PlaneRole, platform};
use anyhow::{anyhow, bail};
use fedgate_kinds::FederatedKind;
use fedgate_manifests::KindManifests;
use std::{
    collections::BTreeSet,
    env, fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A member of the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellSpec {
    /// Name of the plane and of the Karmada Cluster, e.g. `dfw-1`.
    pub name: String,
    /// The Cluster's label `topology.datum.net/city-code`, e.g. `DFW`.
    pub city: String,
}

/// Controllers of the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HubControllers {
    /// Real Karmada, as plain processes.
    Karmada {
        /// Folder with `controller-manager`, `scheduler`, `webhook`, `aggregated-apiserver` and `karmadactl`; a
        /// leading `karmada-` in the names is as good.
        bin_dir: PathBuf,
        /// Tree of a Karmada release with `charts/karmada/_crds` and `artifacts/deploy`.
        manifests_dir: PathBuf,
    },
    /// The stand-in of this crate: what the gateway touches of Karmada, and no more.
    StandIn,
    /// Nobody: the hub has the stand-in's CRDs and Cluster objects, and nothing acts on them.
    Nobody,
}

impl HubControllers {
    /// Real Karmada if `KARMADA_BIN_DIR` and `KARMADA_MANIFESTS_DIR` are set, the stand-in if neither is.
    pub fn from_env() -> anyhow::Result<Self> {
        let set = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        match (set("KARMADA_BIN_DIR"), set("KARMADA_MANIFESTS_DIR")) {
            (Some(bin_dir), Some(manifests_dir)) => Ok(Self::Karmada {
                bin_dir,
                manifests_dir,
            }),
            (None, None) => Ok(Self::StandIn),
            _ => Err(anyhow!(
                "only one of KARMADA_BIN_DIR and KARMADA_MANIFESTS_DIR is set; set both for real Karmada, or \
                 neither for the stand-in"
            )),
        }
    }
}

impl fmt::Display for HubControllers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Karmada { bin_dir, .. } => write!(f, "real Karmada from {}", bin_dir.display()),
            Self::StandIn => f.write_str("fedgate's STAND-IN for Karmada (not Karmada itself)"),
            Self::Nobody => f.write_str("nobody (CRDs only)"),
        }
    }
}

/// Objects that the administrator applies to every plane of a role before anything else runs.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// The planes that get it.
    pub plane: PlaneRole,
    /// A YAML stream.
    pub yaml: String,
}

impl Manifest {
    /// The objects of manifests/ for each role when the gateway carries `kinds`: CRDs, roles, admission policies.
    ///
    /// Interpreters are left out, because the gateway applies them itself.
    pub fn of(kinds: &[FederatedKind]) -> anyhow::Result<Vec<Self>> {
        let carried: Vec<KindManifests> = kinds.iter().map(|kind| KindManifests::of(kind, None)).collect();
        let files = fedgate_manifests::all(&carried)?;
        let roles = [
            (fedgate_manifests::Plane::Hub, PlaneRole::Hub),
            (fedgate_manifests::Plane::Project, PlaneRole::Project),
            (fedgate_manifests::Plane::Cell, PlaneRole::Cell),
        ];
        let mut all = Vec::new();
        for (of, plane) in roles {
            for file in files.iter().filter(|file| file.planes.contains(&of)) {
                let yaml = file.text()?;
                all.push(Self { plane, yaml });
            }
        }
        Ok(all)
    }

    /// [`Manifest::of`] the kinds that are built in.
    pub fn builtin() -> anyhow::Result<Vec<Self>> {
        Self::of(&FederatedKind::builtin()?)
    }
}

/// Takes lines for people about what the sandbox is doing.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(&str) + Send + Sync>);

impl Progress {
    /// Gives each line to `sink`.
    pub fn new(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// Drops all lines.
    pub fn silent() -> Self {
        Self::new(|_| ())
    }

    pub(super) fn say(&self, line: &str) {
        (self.0)(line);
    }
}

/// Settings of a sandbox.
#[allow(
    clippy::struct_excessive_bools,
    reason = "switches that have nothing to do with each other"
)]
#[derive(Clone)]
pub struct Options {
    /// Folder of its state and logs. What an earlier sandbox left there is removed.
    pub dir: PathBuf,
    /// The `fedgate` executable: each process is started through its hidden command `sandbox hold`, so that nothing
    /// outlives the owner. Tests give `env!("CARGO_BIN_EXE_fedgate-sandbox")`.
    pub holder: PathBuf,
    /// Names of the project planes, e.g. `alpha`.
    pub projects: Vec<String>,
    /// The cells.
    pub cells: Vec<CellSpec>,
    /// The hub's controllers.
    pub hub_controllers: HubControllers,
    /// Definitions and roles; none by default, see [`Manifest::of`].
    pub manifests: Vec<Manifest>,
    /// Whether cells run Pods: with KWOK that plays one Node and its Pods. No container runs.
    pub pods: bool,
    /// Pods of cells, of any namespace, whose ports can be forwarded, all to one port of this machine:
    /// [`super::Sandbox::forward_target`]. Needs `pods`.
    pub forwards: Vec<String>,
    /// Whether networking and quota have STAND-INS: their kinds on cells and projects, a network provider per cell, a
    /// granter of claims per project.
    pub backends: bool,
    /// Whether Milo has a STAND-IN: one address with the Projects, and with the API server of each of `projects` under its
    /// path. `projects` are API servers then; their Projects are made by whoever wants them.
    pub platform: bool,
    /// Milo's own API server, as the core and all projects of `platform`: the path of its executable. `None`: the
    /// stand-in, before an API server for each.
    pub milo: Option<PathBuf>,
    /// Names of cells without a Cluster and without manifests: `fedgate cells join` makes both.
    pub unregistered: Vec<String>,
    /// Planes with an etcd of their own, which [`super::Sandbox::save_plane`] and [`super::Sandbox::restore_plane`] need.
    pub own_etcd: Vec<String>,
    /// Whether etcd waits for the disk: `false` for tests, `true` for measurements.
    pub fsync: bool,
    /// Lines for people.
    pub progress: Progress,
}

impl Options {
    /// The usual sandbox: projects `alpha` and `beta`, cells `dfw-1` (DFW) and `lhr-1` (LHR), no manifests, the
    /// stand-in for Karmada and none for Milo, no Pods, no networking or quota, no waiting for the disk.
    pub fn new(dir: impl Into<PathBuf>, holder: impl Into<PathBuf>) -> Self {
        let cell = |name: &str, city: &str| CellSpec {
            name: name.to_owned(),
            city: city.to_owned(),
        };
        Self {
            dir: dir.into(),
            holder: holder.into(),
            projects: vec!["alpha".to_owned(), "beta".to_owned()],
            cells: vec![cell("dfw-1", "DFW"), cell("lhr-1", "LHR")],
            hub_controllers: HubControllers::StandIn,
            manifests: Vec::new(),
            pods: false,
            forwards: Vec::new(),
            backends: false,
            platform: false,
            milo: None,
            unregistered: Vec::new(),
            own_etcd: Vec::new(),
            fsync: false,
            progress: Progress::silent(),
        }
    }

    /// Milo's own API server, if `MILO_BIN` names it.
    pub fn milo_from_env() -> Option<PathBuf> {
        let path = env::var_os("MILO_BIN").filter(|v| !v.is_empty());
        path.map(PathBuf::from)
    }

    /// Milo's own API server, if it serves the projects.
    pub(super) fn milo(&self) -> Option<&Path> {
        self.milo.as_deref().filter(|_| self.platform)
    }

    /// The cells that are registered with the hub.
    pub(super) fn registered(&self) -> Vec<CellSpec> {
        let all = self.cells.iter();
        all.filter(|cell| !self.unregistered.contains(&cell.name))
            .cloned()
            .collect()
    }

    /// The hub's controllers and the stand-ins beside them, in lines for people.
    pub(super) fn played(&self) -> Vec<String> {
        let mut played = vec![format!("hub controllers: {}", self.hub_controllers)];
        if self.pods {
            played.push("Pods: played by KWOK, no container runs (sandbox only)".to_owned());
        }
        if self.backends {
            played.push("networking and quota: fedgate's STAND-INS (sandbox only)".to_owned());
        }
        if self.platform {
            let stand_in = "projects: served by fedgate's STAND-IN for Milo (sandbox only)".to_owned();
            played.push(self.milo().map_or(stand_in, platform::said));
        }
        played
    }

    /// All planes with their roles, the hub first. Names must be unique.
    pub(super) fn planes(&self) -> anyhow::Result<Vec<(String, PlaneRole)>> {
        let mut planes = vec![("hub".to_owned(), PlaneRole::Hub)];
        planes.extend(
            self.projects
                .iter()
                .map(|name| (name.clone(), PlaneRole::Project)),
        );
        planes.extend(self.cells.iter().map(|cell| (cell.name.clone(), PlaneRole::Cell)));
        if self.platform {
            planes.push((platform::CORE.to_owned(), PlaneRole::Platform));
            let (name, role) = match self.milo {
                Some(_) => (platform::ACTIVITY, PlaneRole::Activity),
                None => (platform::SPARE, PlaneRole::Project),
            };
            planes.push((name.to_owned(), role));
        }
        let mut seen = BTreeSet::new();
        for (name, _) in &planes {
            if !seen.insert(name.as_str()) {
                bail!("two planes are called {name:?}; rename one");
            }
        }
        Ok(planes)
    }
}
