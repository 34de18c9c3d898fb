//! Digests of Cells, Clusters and Secrets.

use fedgate_api::{
    cell::{Cell, CellPhase, CellSpec, CellStatus},
    keys,
};
use fedgate_operator::membership::{change, cluster::Cluster};
use kube::{
    ResourceExt,
    core::{ApiResource, DynamicObject},
};

/// Values of the annotations by which operators ask for more than the spec says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct OperatorAnnotations {
    /// `fedgate.dev/retry`: any change lets the steps run.
    pub retry: Option<String>,
    /// `fedgate.dev/allow-outage`.
    pub allow_outage: Option<String>,
    /// `fedgate.dev/abandon`.
    pub abandon: Option<String>,
}

/// A Cell.
#[derive(Debug, Clone, PartialEq)]
pub struct CellDigest {
    /// Generation of its spec.
    pub generation: i64,
    /// The finalizers of the Cell.
    pub finalizers: Vec<String>,
    /// True if it has a status.
    pub has_status: bool,
    /// Annotations of operators.
    pub annotations: OperatorAnnotations,
    /// Spec and status; `None` if they cannot be read, which the definition prevents.
    pub cell: Option<(CellSpec, CellStatus)>,
}

impl CellDigest {
    pub(super) fn read(object: &DynamicObject) -> Self {
        let annotation = |key| object.annotations().get(key).cloned();
        let whole: Option<Cell> = serde_json::to_value(object)
            .ok()
            .and_then(|value| serde_json::from_value(value).ok());
        Self {
            generation: object.metadata.generation.unwrap_or_default(),
            finalizers: object.finalizers().to_vec(),
            has_status: whole.as_ref().is_some_and(|cell| cell.status.is_some()),
            annotations: OperatorAnnotations {
                retry: annotation(keys::RETRY),
                allow_outage: annotation(keys::ALLOW_OUTAGE),
                abandon: annotation(keys::ABANDON),
            },
            cell: whole.map(|cell| (cell.spec, cell.status.unwrap_or_default())),
        }
    }

    /// True if it has our finalizer.
    pub fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|name| name == keys::CELL_FINALIZER)
    }

    /// Name of the Secret of its provider.
    pub fn secret(&self) -> &str {
        self.cell.as_ref().map_or("", |(spec, _)| spec.provider.secret())
    }

    /// The phase that it shows.
    pub fn phase(&self) -> CellPhase {
        self.cell
            .as_ref()
            .map_or(CellPhase::default(), |(_, status)| status.phase)
    }
}

/// A Cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools, reason = "they are facts of a Cluster")]
pub struct ClusterDigest {
    /// True if `fedgate cells` or the role made it.
    pub is_ours: bool,
    /// True if an operator lets us use it.
    pub is_adopted: bool,
    /// Id of its member.
    pub id: String,
    /// The label of its city.
    pub city: Option<String>,
    /// True if a taint of ours keeps deployments away.
    pub is_cordoned: bool,
    /// True if a drain has noted its place.
    pub is_withdrawn: bool,
    /// The reason why Karmada cannot use it yet; `None` if it can.
    pub pending: Option<String>,
    /// `spec` and the label of the maker, because the provisioner restores both after a change.
    pub restored: String,
}

impl ClusterDigest {
    pub(super) fn read(object: &DynamicObject, kinds: &[ApiResource]) -> Self {
        let whole = serde_json::to_value(object).unwrap_or_default();
        let cluster = Cluster(&whole);
        let is_ours = change::mark(&whole).is_some();
        Self {
            is_ours,
            is_adopted: !is_ours && cluster.is_adopted(),
            id: cluster.id().to_owned(),
            city: cluster.city().map(str::to_owned),
            is_cordoned: cluster.is_cordoned(),
            is_withdrawn: cluster.is_withdrawn(),
            pending: cluster.pending(kinds),
            restored: format!(
                "{}{}",
                whole["spec"],
                whole["metadata"]["labels"][change::MADE_BY]
            ),
        }
    }

    /// True if the role may use it.
    pub fn is_usable(&self) -> bool {
        self.is_ours || self.is_adopted
    }
}

/// The metadata of a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretDigest {
    /// resourceVersion of the Secret: the data may be other ones with another.
    pub version: Box<str>,
    /// Names of Cells, as its annotation has them.
    cells: Box<str>,
}

impl SecretDigest {
    pub(super) fn read(object: &DynamicObject) -> Self {
        let cells = object.annotations().get(keys::CELLS);
        Self {
            version: object
                .metadata
                .resource_version
                .as_deref()
                .unwrap_or_default()
                .into(),
            cells: cells.map_or("", String::as_str).into(),
        }
    }

    /// True if its annotation lists the Cell of this name.
    pub fn lists_cell(&self, cell: &str) -> bool {
        lists_cell(&self.cells, cell)
    }
}

/// True if a value of annotation `fedgate.dev/cells` lists the Cell of this name.
pub fn lists_cell(names: &str, cell: &str) -> bool {
    let mut names = names.split(',').map(str::trim);
    names.any(|name| name == cell || name == "*")
}
