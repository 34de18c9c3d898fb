//! Every object of every value file and of every overlay, by a strict dry run (number 54).

use super::Planes;
use crate::{
    chart::{CHART, RELEASE},
    files,
    kustomize::OVERLAYS,
    tools::helm,
};

const NAMESPACES: [&str; 5] = [
    "fedgate-system",
    "fedgate-cells",
    "fedgate-provisioner",
    "karmada-cluster",
    "karmada-system",
];
/// A server-side apply that stores nothing and refuses unknown fields.
const DRY_RUN: [&str; 4] = ["apply", "--server-side", "--dry-run=server", "--validate=strict"];

pub(crate) fn every_object_is_accepted(planes: &Planes) {
    // The hub has Karmada's kinds too. A dry run makes no Namespace that its other objects could be in.
    for namespace in NAMESPACES {
        planes.kubectl("hub", &["create", "namespace", namespace], "");
    }
    for file in files("values") {
        let yaml = helm(&["template", RELEASE, CHART, "--values", file.to_str().unwrap()]);
        let said = planes.kubectl("hub", &[&DRY_RUN[..], &["-f", "-"]].concat(), &yaml);
        assert_eq!(
            said.matches("serverside-applied (server dry run)").count(),
            yaml.matches("\nkind: ").count(),
            "{}: {said}",
            file.display()
        );
    }
    for (overlay, _) in OVERLAYS {
        let folder = format!("manifests/overlays/{overlay}");
        planes.kubectl("hub", &[&DRY_RUN[..], &["-k", &folder]].concat(), "");
    }
    planes.kubectl(
        "hub",
        &[&DRY_RUN[..], &["-k", "manifests/monitoring"]].concat(),
        "",
    );
    a_field_that_no_kind_has_is_refused(planes);
    for namespace in NAMESPACES {
        planes.kubectl("hub", &["delete", "namespace", namespace], "");
    }
}

/// The check itself: it would notice.
fn a_field_that_no_kind_has_is_refused(planes: &Planes) {
    let yaml = helm(&["template", RELEASE, CHART, "--set", "planes={host}"]);
    let wrong = yaml.replace("terminationGracePeriodSeconds:", "terminationGraceSeconds:");
    let said = planes
        .try_kubectl("hub", &[&DRY_RUN[..], &["-f", "-"]].concat(), &wrong)
        .unwrap_err();
    assert!(
        said.contains(".spec.template.spec.terminationGraceSeconds: field not declared in schema"),
        "{said}"
    );
}
