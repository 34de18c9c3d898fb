//! kube-apiserver, one per plane; or Milo's own API server, one for the core and all projects.

use super::{
    certs::{FRONT_PROXY, Files},
    plane::PlaneRole,
    process::{Spec, flag, pair_flags},
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

/// The settings of a plane's API server.
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
pub(super) fn write_audit_policy(path: &Path) -> anyhow::Result<()> {
    super::certs::write(path, AUDIT_POLICY)
}

impl ApiServer<'_> {
    /// The command line of a kube-apiserver.
    pub(super) fn spec(&self) -> Spec {
        let mut args = self.common();
        args.extend([
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            format!("--disable-admission-plugins={}", self.disabled()),
            "--endpoint-reconciler-type=none".to_owned(),
            "--allow-privileged=true".to_owned(),
        ]);
        if self.role == PlaneRole::Cell {
            // The Node's name is known to no name server.
            args.push("--kubelet-preferred-address-types=InternalIP".to_owned());
        } else {
            // The stand-in of Milo passes requests on for their users.
            args.extend(self.front_proxy());
        }
        if self.role == PlaneRole::Hub {
            // An aggregated API server sits behind the hub's.
            let front_proxy = &self.files.front_proxy;
            args.extend(pair_flags(
                "--proxy-client-cert-file",
                "--proxy-client-key-file",
                front_proxy,
            ));
        }
        self.named("kube-apiserver", args)
    }

    /// The command line of Milo's own API server, which serves the core and every project. `token_review` says who judges
    /// tokens, for it has no service accounts; it serves `events.k8s.io` from another API server alone.
    pub(super) fn milo(&self, token_review: &Path, events: u16) -> Spec {
        let Files {
            authority,
            front_proxy,
            ..
        } = self.files;
        let mut args = vec!["apiserver".to_owned()];
        args.extend(self.common());
        args.extend(self.front_proxy());
        args.extend([
            // Not the issuer of the hub's tokens: of its own tokens it would look up accounts that it does not serve.
            "--service-account-issuer=https://milo.sandbox.invalid".to_owned(),
            "--api-audiences=https://kubernetes.default.svc".to_owned(),
            flag("--authentication-token-webhook-config-file", token_review),
            "--authentication-token-webhook-version=v1".to_owned(),
            // As long as a kube-apiserver remembers that a token was good.
            "--authentication-token-webhook-cache-ttl=10s".to_owned(),
            "--feature-gates=EventsProxy=true".to_owned(),
            format!("--events-provider-url=https://127.0.0.1:{events}"),
            flag("--events-provider-ca-file", authority),
            // All watches of all projects come on the front's one connection.
            "--http2-max-streams-per-connection=2000".to_owned(),
        ]);
        args.extend(pair_flags(
            "--events-provider-client-cert",
            "--events-provider-client-key",
            front_proxy,
        ));
        self.named("apiserver", args)
    }

    /// The admission plugins that no plane has, for no controller would take the taint from a new Node again, nor make service accounts; and the
    /// store of Events, which lacks the Namespaces that are in projects.
    fn disabled(&self) -> String {
        let mut all = vec![
            "ServiceAccount",
            "StorageObjectInUseProtection",
            "TaintNodesByCondition",
        ];
        all.extend((self.role == PlaneRole::Activity).then_some("NamespaceLifecycle"));
        all.join(",")
    }

    fn named(&self, name: &str, args: Vec<String>) -> Spec {
        Spec::new(format!("{} {name}", self.plane), self.program, args)
    }

    /// The flags that both take.
    fn common(&self) -> Vec<String> {
        let Self {
            plane,
            port,
            etcd,
            files,
            ..
        } = self;
        // Who may write an Event is asked in the project.
        let mode = match self.role {
            PlaneRole::Activity => "AlwaysAllow",
            _ => "RBAC",
        };
        let mut args = vec![
            format!("--etcd-servers={etcd}"),
            format!("--etcd-prefix=/{plane}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            flag("--service-account-key-file", &files.token_public),
            flag("--service-account-signing-key-file", &files.token_private),
            flag("--client-ca-file", &files.authority),
            format!("--authorization-mode={mode}"),
            flag("--audit-policy-file", self.audit_policy),
            flag("--audit-log-path", self.audit_log),
            // Tests and measurements read the log of the whole run: it must not be rotated. MiB.
            "--audit-log-maxsize=65536".to_owned(),
        ];
        args.extend(pair_flags(
            "--tls-cert-file",
            "--tls-private-key-file",
            &files.server,
        ));
        args
    }

    /// By which headers a proxy says for whom it asks.
    fn front_proxy(&self) -> [String; 5] {
        [
            flag("--requestheader-client-ca-file", &self.files.authority),
            format!("--requestheader-allowed-names={FRONT_PROXY}"),
            "--requestheader-username-headers=X-Remote-User".to_owned(),
            "--requestheader-group-headers=X-Remote-Group".to_owned(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        ]
    }
}
