//! The controllers of kube-controller-manager that a plane needs: namespaces, garbage collection and service account tokens; on
//! the hub certificates of approved requests, too.

use super::{
    certs::Files,
    plane::PlaneRole,
    process::{Spec, flag},
};
use std::path::Path;

/// Controllers of each plane, and no others: a cell's Node never fails, and its Pods are KWOK's.
const CONTROLLERS: &str = "namespace-controller,garbage-collector-controller,serviceaccount-token-controller,\
                           clusterrole-aggregation-controller";
/// The hub's besides: it signs the certificate of a member's karmada-agent, as Karmada's own installation lets it.
const SIGNER: &str = "certificatesigningrequest-signing-controller";

/// The controllers of a plane that is Milo's: it serves no service accounts, and roles only at its core.
const MILO: &str = "namespace-controller,garbage-collector-controller";

/// The command line; `milo` for a plane that Milo's own API server serves.
///
/// Start it after the CRDs: the garbage collector looks for new kinds only every 30 s.
pub(super) fn spec(
    program: &Path,
    plane: &str,
    role: PlaneRole,
    milo: bool,
    kubeconfig: &Path,
    files: &Files,
) -> Spec {
    let mut args = vec![
        flag("--kubeconfig", kubeconfig),
        flag("--service-account-private-key-file", &files.token_private),
        flag("--root-ca-file", &files.authority),
    ];
    if milo {
        args.push(format!("--controllers={MILO}"));
    } else if role == PlaneRole::Hub {
        args.extend([
            format!("--controllers={CONTROLLERS},{SIGNER}"),
            flag("--cluster-signing-cert-file", &files.authority),
            flag("--cluster-signing-key-file", &files.authority_key),
        ]);
    } else {
        args.push(format!("--controllers={CONTROLLERS}"));
    }
    Spec::new(format!("{plane} plane-controllers"), program, args)
}
