//! The YAML files that manifests are made of: `src/yaml` has them under the paths of `manifests/`.

use crate::{
    CELL_ACCOUNT_PREFIX, CELL_ACCOUNTS_GROUP, CELL_USER_PREFIX, CELLS, GATEWAY, Manifest, ManifestError,
    NAMESPACE, PROVISIONER,
};
use include_dir::{Dir, include_dir};
use serde_json::Value;
use std::path::Path;

static SOURCES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/src/yaml");

/// The manifest whose source has the same path.
pub(crate) fn manifest(path: &str) -> Result<Manifest, ManifestError> {
    Ok(Manifest::generated(path, objects(path, &[])?))
}

/// The objects of a source. Each `${name}` in it is replaced by the text of that name in `places`, or by one that all
/// sources share.
pub(crate) fn objects(path: &str, places: &[(&str, &str)]) -> Result<Vec<Value>, ManifestError> {
    let source = SOURCES.get_file(path).and_then(include_dir::File::contents_utf8);
    let source = source.ok_or("there is no source of this manifest");
    let mut text = source.map_err(ManifestError::at(Path::new(path)))?.to_owned();
    let shared = [
        ("fedgate_version", env!("CARGO_PKG_VERSION")),
        ("is_cell", &is_cell()),
        ("is_gateway", &is_gateway()),
        ("is_provisioner", &is_provisioner()),
        ("writer", &writer()),
    ];
    for (name, value) in places.iter().copied().chain(shared) {
        text = text.replace(&format!("${{{name}}}"), value);
    }
    parse(path, &text)
}

/// The objects of a YAML stream; `path` names it in an error.
pub(crate) fn parse(path: &str, text: &str) -> Result<Vec<Value>, ManifestError> {
    serde_saphyr::from_multiple(text).map_err(ManifestError::at(Path::new(path)))
}

/// CEL expression: true for requests of a cell, with either identity.
fn is_cell() -> String {
    format!("('{CELLS}' in request.userInfo.groups || '{CELL_ACCOUNTS_GROUP}' in request.userInfo.groups)")
}

/// CEL expression: true for requests of the gateway, authenticated by certificate or by token.
fn is_gateway() -> String {
    format!("request.userInfo.username in ['{GATEWAY}', 'system:serviceaccount:{NAMESPACE}:{GATEWAY}']")
}

/// CEL expression: true for requests of the provisioner, authenticated by certificate or by token.
fn is_provisioner() -> String {
    format!(
        "request.userInfo.username in ['{PROVISIONER}', 'system:serviceaccount:{NAMESPACE}:{PROVISIONER}']"
    )
}

/// CEL expression: the name of the writer's Karmada Cluster, or empty for a user without the prefix of its group.
fn writer() -> String {
    let after = |prefix: &str, group: &str| {
        format!(
            "'{group}' in request.userInfo.groups && request.userInfo.username.startsWith('{prefix}') ? \
             request.userInfo.username.substring({})",
            prefix.len()
        )
    };
    format!(
        "{} : ({} : '')",
        after(CELL_USER_PREFIX, CELLS),
        after(CELL_ACCOUNT_PREFIX, CELL_ACCOUNTS_GROUP),
    )
}
