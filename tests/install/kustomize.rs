//! Bases and overlays as kubectl builds them, without a server.

use crate::{
    chart::{of_plane, rendered},
    manifests,
    objects::{self, Objects, compare, merged, plain},
    tools::kubectl,
};

/// The overlays, each with the values of the chart that give the same.
pub(crate) const OVERLAYS: [(&str, &str); 5] = [
    ("hub", "planes={hub}"),
    ("project", "planes={project}"),
    ("cell", "planes={cell,cell-host}"),
    ("host", "planes={host}"),
    ("single-plane", "planes={cell,cell-host},hub.existingSecret="),
];

/// The objects that kubectl builds of a folder of `manifests/`.
pub(crate) fn built(folder: &str) -> Objects {
    objects::read(&kubectl(&["kustomize", &format!("manifests/{folder}")]))
}

#[test]
#[ignore = "verify: kubectl builds"]
fn each_base_is_what_manifests_has() {
    for base in [
        "crds",
        "hub",
        "project",
        "cell",
        "deploy/gateway",
        "deploy/cell",
        "deploy/returns",
        "provisioner/hub",
        "provisioner/hub-pull",
        "provisioner/home",
        "monitoring",
    ] {
        let part_of = |path: &str| match base {
            "deploy/gateway" | "deploy/cell" | "deploy/returns" => path == format!("{base}.yaml"),
            "monitoring" => ["monitoring/podmonitor.yaml", "monitoring/prometheusrule.yaml"].contains(&path),
            _ => path.rsplit_once('/').is_some_and(|(folder, _)| folder == base),
        };
        let files = manifests().into_iter().filter(|file| part_of(&file.path));
        let wanted = objects::of(files.flat_map(|file| file.objects));
        assert!(!wanted.is_empty(), "{base}");
        compare(base, &built(base), &wanted);
    }
}

#[test]
#[ignore = "verify: kubectl builds"]
fn each_overlay_is_what_the_chart_has() {
    for (overlay, values) in OVERLAYS {
        let chart = plain(rendered(&["--set", values]));
        compare(overlay, &plain(built(&format!("overlays/{overlay}"))), &chart);
    }
}

#[test]
#[ignore = "verify: kubectl builds"]
fn an_overlay_is_the_bases_of_its_planes() {
    for (overlay, planes) in [
        ("hub", &["hub"][..]),
        ("project", &["project"]),
        ("host", &["host"]),
        ("cell", &["cell", "cell-host"]),
    ] {
        let wanted = merged(planes.iter().map(|plane| of_plane(plane)));
        compare(overlay, &built(&format!("overlays/{overlay}")), &wanted);
    }
}
