//! The chart `charts/fedgate` (contract: operations.md §5). It is edited there, but for its version, the flags in the schema of
//! its values, and the folder `files`, which has the manifests that depend on kinds, types and alerts.

use crate::{File, ManifestError};
use include_dir::{Dir, include_dir};
use serde_json::Value;
use std::path::Path;

static TEMPLATES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../charts/fedgate/templates");
const CHART: &str = include_str!("../../../charts/fedgate/Chart.yaml");
const VALUES: &str = include_str!("../../../charts/fedgate/values.yaml");
const SCHEMA: &str = include_str!("../../../charts/fedgate/values.schema.json");

/// The manifests that templates of the chart read.
const READ: [&str; 9] = [
    "crds/",
    "hub/",
    "project/",
    "cell/",
    "provisioner/hub/",
    "provisioner/hub-pull/",
    "provisioner/home/access-of-provisioner.yaml",
    "monitoring/alerts.yaml",
    "monitoring/dashboard.json",
];

/// Every file of the chart. `manifests` are the files of `manifests/`; `flags` are roles with the schemas of their flags by name.
pub fn chart(manifests: &[File], flags: &[(&str, Value)]) -> Result<Vec<File>, ManifestError> {
    let mut files = vec![
        file("Chart.yaml", at_this_version(CHART)),
        file("values.yaml", VALUES.to_owned()),
        file("values.schema.json", with_flags(flags)?),
    ];
    for template in TEMPLATES.files() {
        let name = template.path().display();
        let text = template.contents_utf8().unwrap_or_default();
        files.push(file(&format!("templates/{name}"), text.to_owned()));
    }
    let is_read = |file: &&File| {
        let path = &file.path;
        READ.iter().any(|prefix| path.starts_with(prefix)) && !path.ends_with("Kustomization")
    };
    let read = manifests.iter().filter(is_read);
    files.extend(read.map(|manifest| file(&format!("files/{}", manifest.path), manifest.text.clone())));
    Ok(files)
}

fn file(path: &str, text: String) -> File {
    File {
        path: path.to_owned(),
        text,
    }
}

/// The versions of chart and executable are the same.
fn at_this_version(chart: &str) -> String {
    let line = |line: &str| match line.split_once(':') {
        Some((key @ ("version" | "appVersion"), _)) => {
            format!("{key}: \"{}\"\n", env!("CARGO_PKG_VERSION"))
        }
        _ => format!("{line}\n"),
    };
    chart.lines().map(line).collect()
}

fn with_flags(flags: &[(&str, Value)]) -> Result<String, ManifestError> {
    let schema = serde_json::from_str(SCHEMA);
    let mut schema: Value = schema.map_err(ManifestError::at(Path::new("values.schema.json")))?;
    for (role, properties) in flags {
        schema["properties"][role]["properties"]["flags"]["properties"] = properties.clone();
    }
    Ok(format!("{schema:#}\n"))
}
