//! The kinds that the suite's gateway carries: the built-in one, those that the executable ships besides, and made-up ones.

use super::suite::is_real;
use anyhow::{Context, Result};
use fedgate_kinds::Kinds;
use fedgate_manifests::{KindManifests, Plane};
use fedgate_sandbox::{Manifest, PlaneRole};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// Kinds of the executable whose deletion waits for their member. The stand-in has no proxy to ask one by, so there they are
/// read from the folder, where their deletion is over when the hub has let go.
const AT_ONE_MEMBER: [(&str, &str); 2] = [
    (
        "clusters.azimuth.stackhpc.com",
        "azimuth.stackhpc.com/v1alpha1/Cluster",
    ),
    ("clusters.postgresql.cnpg.io", "postgresql.cnpg.io/v1/Cluster"),
];
const TEMPLATES: &str = "clustertemplates.azimuth.stackhpc.com";

/// The made-up kinds, of which the vault lives at one member, too.
const VAULT: &str = "example.fedgate.dev/v1/Vault";
const MADE_UP: [&str; 4] = [
    "example.fedgate.dev/v1/Beacon",
    "example.fedgate.dev/v1/Gadget",
    "example.fedgate.dev/v1/Flavor",
    VAULT,
];

/// Names of the kinds in the executable that are turned on.
fn turned_on() -> Vec<String> {
    let mut names = vec![TEMPLATES.to_owned()];
    if is_real() {
        names.extend(AT_ONE_MEMBER.map(|(name, _)| name.to_owned()));
    }
    names
}

/// The flags that give all of them to a role.
pub(crate) fn kinds_flags() -> [OsString; 4] {
    [
        "--interpreters".into(),
        kinds_folder().into(),
        "--builtin-kinds".into(),
        turned_on().join(",").into(),
    ]
}

/// The same kinds in the form in which their deletion asks no member.
pub(crate) fn kinds_flags_without_members() -> [OsString; 4] {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| made("e2e-kinds-without-members", true));
    [
        "--interpreters".into(),
        FOLDER.clone().into(),
        "--builtin-kinds".into(),
        TEMPLATES.into(),
    ]
}

/// Folder of those that the executable does not have, or not in the form that the suite needs.
fn kinds_folder() -> PathBuf {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| made("e2e-kinds", !is_real()));
    FOLDER.clone()
}

/// A folder of kinds; where their deletion ends on the hub, with those of the executable that else ask a member.
fn made(name: &str, ends: bool) -> PathBuf {
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if copy.exists() {
        std::fs::remove_dir_all(&copy).expect("remove the folder of an earlier run");
    }
    for kind in MADE_UP {
        copy_kind("tests/kinds", &copy, kind);
    }
    if ends {
        for (_, kind) in AT_ONE_MEMBER {
            copy_kind("interpreters", &copy, kind);
            ends_on_the_hub(&copy.join(kind));
        }
        ends_on_the_hub(&copy.join(VAULT));
    }
    copy
}

fn copy_kind(from: &str, to: &Path, kind: &str) {
    let (from, to) = (
        Path::new(env!("CARGO_MANIFEST_DIR")).join(from).join(kind),
        to.join(kind),
    );
    std::fs::create_dir_all(&to).expect("make the folder of a kind");
    for file in std::fs::read_dir(from)
        .expect("read the folder of a kind")
        .flatten()
    {
        if file.path().is_file() {
            std::fs::copy(file.path(), to.join(file.file_name())).expect("copy a file of a kind");
        }
    }
}

/// A deletion of the kind asks no member.
fn ends_on_the_hub(folder: &Path) {
    let file = folder.join("kind.yaml");
    let text = std::fs::read_to_string(&file).expect("read kind.yaml");
    let changed = text
        .replace("finishedWhen: memberAbsent", "finishedWhen: released")
        .replace("  abandon: true\n", "")
        .replace(", abandon: true", "");
    assert_ne!(changed, text, "{} waits for its member", file.display());
    std::fs::write(&file, changed).expect("write kind.yaml");
}

/// The kinds of the gateway, the built-in one first.
pub(crate) fn federated() -> Result<Vec<KindManifests>> {
    let kinds = Kinds::load(&turned_on(), Some(&kinds_folder())).context("load the kinds")?;
    Ok(KindManifests::all(&kinds, false))
}

/// What an administrator applies to each plane: everything under manifests/, and the other kinds' CRDs and roles.
pub(super) fn manifests() -> Result<Vec<Manifest>> {
    let kinds = federated()?;
    let roles = [
        (Plane::Project, PlaneRole::Project),
        (Plane::Hub, PlaneRole::Hub),
        (Plane::Cell, PlaneRole::Cell),
    ];
    let mut all = Vec::new();
    for (plane, role) in roles {
        for yaml in [
            include_str!("../../kinds/beacon-crd.yaml"),
            include_str!("../../kinds/gadget-crd.yaml"),
            include_str!("../../kinds/vault-crd.yaml"),
            include_str!("../../kinds/seal-crd.yaml"),
            include_str!("../../kinds/charter-crd.yaml"),
            include_str!("../../kinds/flavor-crd.yaml"),
            include_str!("../../kinds/azimuth-crds.yaml"),
            include_str!("../../kinds/cnpg-crds.yaml"),
        ] {
            all.push(Manifest {
                plane: role,
                yaml: yaml.to_owned(),
            });
        }
        for object in fedgate_manifests::objects(plane, &kinds).context("make the manifests")? {
            all.push(Manifest {
                plane: role,
                yaml: serde_saphyr::to_string(&object).context("print a manifest")?,
            });
        }
    }
    Ok(all)
}
