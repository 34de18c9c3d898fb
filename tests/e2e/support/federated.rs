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
    "clustertemplates.azimuth.stackhpc.com",
    "clusters.azimuth.stackhpc.com",
    "clusters.postgresql.cnpg.io",
];

/// The made-up kinds, of which the vault lives at one member, too.
const MADE_UP: [&str; 3] = [
    "example.fedgate.dev/v1/Gadget",
    "example.fedgate.dev/v1/Flavor",
    "example.fedgate.dev/v1/Vault",
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

/// Folder of those that the executable does not have.
fn kinds_folder() -> PathBuf {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("e2e-kinds");
        if copy.exists() {
            std::fs::remove_dir_all(&copy).expect("remove the folder of an earlier run");
        }
        for kind in MADE_UP {
            copy_kind(&copy, kind);
        }
        copy
    });
    FOLDER.clone()
}

fn copy_kind(to: &Path, kind: &str) {
    let (from, to) = (
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/kinds")
            .join(kind),
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
