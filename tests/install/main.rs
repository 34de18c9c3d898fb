//! The objects that an administrator installs: the chart, the bases and overlays of Kustomize, and the commands of the documents, run
//! with real Helm and kubectl against a real API server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test says where")]

mod chart;
mod kustomize;
mod objects;
mod server;
mod tools;

use fedgate_kinds::FederatedKind;
use fedgate_manifests::{KindManifests, Manifest};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files of `manifests/` with objects, as they are generated.
fn manifests() -> Vec<Manifest> {
    let kinds: Vec<KindManifests> = FederatedKind::builtin()
        .unwrap()
        .iter()
        .map(|kind| KindManifests::of(kind, Some(kind.interpreter_object())))
        .collect();
    let mut files = fedgate_manifests::all(&kinds).unwrap();
    files.extend(fedgate_manifests::monitoring(fedgate_manifests::RUNBOOKS).unwrap());
    files
}

/// The files of a folder of this suite.
fn files(folder: &str) -> Vec<PathBuf> {
    let folder = root().join("tests/install").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() > 5, "{} is read", folder.display());
    files
}
