//! Overlays as `kubectl apply` takes them (numbers 56 and 58).

use super::Planes;
use crate::kustomize::built;

const CONTEXT: &str = "dfw-1";
const OVERLAY: &str = "overlays/cell";
const APPLY: [&str; 4] = ["apply", "--server-side", "-k", "manifests/overlays/cell"];
const DEPLOYMENT: &str = "deployment/fedgate-cell";

pub(crate) fn an_overlay_gives_a_field_back_that_another_command_took(planes: &Planes) {
    planes.kubectl(CONTEXT, &APPLY, "");
    let before = planes.versions(CONTEXT, &built(OVERLAY));
    planes.kubectl(CONTEXT, &APPLY, "");
    assert_eq!(
        planes.versions(CONTEXT, &built(OVERLAY)),
        before,
        "the same files applied twice"
    );

    // The folders themselves go on to be applied as they were.
    planes.kubectl(
        CONTEXT,
        &[
            "apply",
            "--server-side",
            "-f",
            "manifests/crds",
            "-f",
            "manifests/cell",
        ],
        "",
    );

    planes.set_image(CONTEXT, DEPLOYMENT, "cell=fedgate:by-hand");
    let said = planes.try_kubectl(CONTEXT, &APPLY, "").unwrap_err();
    assert!(said.contains("conflict with \"kubectl-set\""), "{said}");
    planes.kubectl(CONTEXT, &[&APPLY[..], &["--force-conflicts"]].concat(), "");
    planes.kubectl(CONTEXT, &APPLY, "");
    let path = "jsonpath={.spec.template.spec.containers[0].image}";
    let image = planes.kubectl(
        CONTEXT,
        &["-n", "fedgate-system", "get", DEPLOYMENT, "-o", path],
        "",
    );
    assert_eq!(image, concat!("fedgate:", env!("CARGO_PKG_VERSION")));
}
