//! kube-apiserver: one per plane.

use super::{
    SandboxError,
    certs::{FRONT_PROXY, Files},
    plane::PlaneRole,
    process::Spec,
};
use std::path::Path;

/// Every finished request, once, without bodies; health checks left out.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted, Panic]
omitManagedFields: true
rules:
- level: None
  nonResourceURLs: [/healthz*, /livez*, /readyz*, /metrics]
- level: Metadata
";

/// What a plane's API server needs to know.
pub(super) struct ApiServer<'a> {
    pub(super) program: &'a Path,
    pub(super) plane: &'a str,
    pub(super) role: PlaneRole,
    pub(super) port: u16,
    pub(super) etcd: &'a str,
    pub(super) files: &'a Files,
    pub(super) audit_policy: &'a Path,
    pub(super) audit_log: &'a Path,
}

/// Writes the audit policy that all planes share.
pub(super) fn write_audit_policy(path: &Path) -> Result<(), SandboxError> {
    super::certs::write(path, AUDIT_POLICY)
}

impl ApiServer<'_> {
    /// The command line.
    pub(super) fn spec(&self) -> Spec {
        let Self {
            plane,
            port,
            etcd,
            files,
            ..
        } = self;
        let mut args = vec![
            format!("--etcd-servers={etcd}"),
            format!("--etcd-prefix=/{plane}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", files.token_public.display()),
            format!(
                "--service-account-signing-key-file={}",
                files.token_private.display()
            ),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            format!("--client-ca-file={}", files.authority.display()),
            format!("--tls-cert-file={}", files.server.join("tls.crt").display()),
            format!(
                "--tls-private-key-file={}",
                files.server.join("tls.key").display()
            ),
            "--authorization-mode=RBAC".to_owned(),
            // No controller would take the taint from a new Node again, nor make service accounts.
            "--disable-admission-plugins=ServiceAccount,StorageObjectInUseProtection,TaintNodesByCondition"
                .to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--allow-privileged=true".to_owned(),
            format!("--audit-policy-file={}", self.audit_policy.display()),
            format!("--audit-log-path={}", self.audit_log.display()),
            // Tests and measurements read the log of the whole run: it must not be rotated. MiB.
            "--audit-log-maxsize=65536".to_owned(),
        ];
        if self.role == PlaneRole::Cell {
            // The Node's name is known to no name server.
            args.push("--kubelet-preferred-address-types=InternalIP".to_owned());
        }
        if self.role != PlaneRole::Cell {
            // The stand-in of Milo passes requests on for their users.
            args.extend([
                format!("--requestheader-client-ca-file={}", files.authority.display()),
                format!("--requestheader-allowed-names={FRONT_PROXY}"),
                "--requestheader-username-headers=X-Remote-User".to_owned(),
                "--requestheader-group-headers=X-Remote-Group".to_owned(),
                "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
            ]);
        }
        if self.role == PlaneRole::Hub {
            // An aggregated API server sits behind the hub's.
            args.extend([
                format!(
                    "--proxy-client-cert-file={}",
                    files.front_proxy.join("tls.crt").display()
                ),
                format!(
                    "--proxy-client-key-file={}",
                    files.front_proxy.join("tls.key").display()
                ),
            ]);
        }
        Spec {
            name: format!("{plane} kube-apiserver"),
            program: self.program.to_owned(),
            args,
        }
    }
}
