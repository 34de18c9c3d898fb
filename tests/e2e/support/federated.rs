//! The kinds that the suite's gateway carries: the built-in one, those that the executable ships besides, and made-up ones.

use anyhow::{Context, Result};
use fedgate_kinds::Kinds;
use fedgate_manifests::{KindManifests, Plane};
use fedgate_sandbox::{Manifest, PlaneRole};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// Kinds of the executable that are turned on: with their companions two whose objects live at one member.
const TURNED_ON: [&str; 3] = [
    TEMPLATES,
    "clusters.azimuth.stackhpc.com",
    "clusters.postgresql.cnpg.io",
];

const TEMPLATES: &str = "clustertemplates.azimuth.stackhpc.com";
/// The folders of those two.
const SHIPPED: [&str; 2] = [
    "azimuth.stackhpc.com/v1alpha1/Cluster",
    "postgresql.cnpg.io/v1/Cluster",
];

/// The made-up kinds, of which the vault lives at one member, too.
const VAULT: &str = "example.fedgate.dev/v1/Vault";
const MADE_UP: [&str; 4] = [
    "example.fedgate.dev/v1/Beacon",
    "example.fedgate.dev/v1/Gadget",
    "example.fedgate.dev/v1/Flavor",
    VAULT,
];

/// The flags that give all of them to a role.
pub(crate) fn kinds_flags() -> [OsString; 4] {
    [
        "--interpreters".into(),
        kinds_folder().into(),
        "--builtin-kinds".into(),
        TURNED_ON.join(",").into(),
    ]
}

/// The same kinds in the form in which their deletion asks no member.
pub(crate) fn kinds_flags_without_members() -> [OsString; 4] {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let copy = made("e2e-kinds-without-members");
        for kind in SHIPPED {
            copy_kind("interpreters", &copy, kind);
        }
        for kind in SHIPPED.into_iter().chain([VAULT]) {
            ends_on_the_hub(&copy.join(kind));
        }
        copy
    });
    [
        "--interpreters".into(),
        FOLDER.clone().into(),
        "--builtin-kinds".into(),
        TEMPLATES.into(),
    ]
}

/// Folder of those that the executable does not have.
fn kinds_folder() -> PathBuf {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| made("e2e-kinds"));
    FOLDER.clone()
}

/// A new folder of them.
fn made(name: &str) -> PathBuf {
    let copy = super::dir(name);
    if copy.exists() {
        std::fs::remove_dir_all(&copy).expect("remove the folder of an earlier run");
    }
    for kind in MADE_UP {
        copy_kind("tests/kinds", &copy, kind);
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
        .replace("  byMember: ends\n", "")
        .replace(", abandon: true", "");
    assert_ne!(changed, text, "{} waits for its member", file.display());
    std::fs::write(&file, changed).expect("write kind.yaml");
}

/// The kinds of the gateway, the built-in one first.
pub(crate) fn federated() -> Result<Vec<KindManifests>> {
    let names = TURNED_ON.map(str::to_owned);
    let kinds = Kinds::load(&names, Some(&kinds_folder())).context("load the kinds")?;
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
