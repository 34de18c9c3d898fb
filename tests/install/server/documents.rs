//! The commands of docs/operations/install.md, run as they are typed there: first those of one way, then of the next.

use super::Planes;
use crate::{
    root,
    tools::{HELM, KUBECTL, run_with},
};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// The blocks that begin with this fence, as one script.
fn script(fences: &[&str]) -> String {
    let text = fs::read_to_string(root().join("docs/operations/install.md")).unwrap();
    let mut script = String::new();
    let mut blocks = 0;
    let mut is_wanted = false;
    for line in text.lines() {
        if let Some(fence) = line.strip_prefix("```") {
            is_wanted = fences.contains(&fence);
            blocks += usize::from(is_wanted);
        } else if is_wanted {
            script.push_str(line);
            script.push('\n');
        }
    }
    assert!(blocks > 3, "blocks of {fences:?} are found");
    script
}

/// A checkout, as the page expects it, in which files may be made.
fn checkout(planes: &Planes) -> PathBuf {
    let checkout = planes.file("checkout/.keep", "").parent().unwrap().to_owned();
    let links = [
        ("charts", root().join("charts")),
        ("manifests", root().join("manifests")),
        ("examples", root().join("examples")),
        ("bin/helm", HELM.clone()),
        ("bin/kubectl", KUBECTL.clone()),
    ];
    fs::create_dir_all(checkout.join("bin")).unwrap();
    for (name, target) in links {
        let link = checkout.join(name);
        if fs::symlink_metadata(&link).is_ok() {
            fs::remove_file(&link).unwrap();
        }
        symlink(target, link).unwrap();
    }
    checkout
}

pub(crate) fn each_way_is_as_install_md_says(planes: &Planes) {
    let checkout = checkout(planes);
    let variables = [
        ("KUBECONFIG", planes.kubeconfig.as_path()),
        ("HELM_CACHE_HOME", &planes.folder),
        ("HELM_CONFIG_HOME", &planes.folder),
        ("HELM_DATA_HOME", &planes.folder),
    ];
    for fences in [&["sh", "sh helm"][..], &["sh kustomize"], &["sh hand"]] {
        let script = format!(
            "set -euxo pipefail\ncd '{}'\nexport PATH=$PWD/bin:$PATH\n{}",
            checkout.display(),
            script(fences)
        );
        run_with(Path::new("/bin/bash"), &["-c", &script], &variables, "")
            .unwrap_or_else(|said| panic!("{fences:?}: {said}"));
    }
}
