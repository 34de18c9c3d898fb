//! The part of all others: Karmada, its agent, the signer of certificates and the member's controller of tokens. Each does
//! what is to be done after any change of either plane, and writes nothing else.

use crate::{
    server::Authority,
    world::{NAME, base64, decoded},
};
use fedgate_simulator::Plane;
use serde_json::{Value, json};
use std::sync::Arc;

const SYSTEM: &str = "karmada-system";
const AGENT: &str = "karmada-agent";

/// The two planes, and who signs.
pub(crate) struct Players {
    pub(crate) hub: Plane,
    pub(crate) member: Plane,
    pub(crate) authority: Arc<Authority>,
}

fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

impl Players {
    /// Plays until it is aborted.
    pub(crate) async fn play(self) {
        let (mut hub, mut member) = (self.hub.changed(), self.member.changed());
        loop {
            for cluster in self.hub.list("Cluster") {
                if is_going(&cluster) {
                    self.release(&cluster);
                } else {
                    self.serve(&cluster);
                }
            }
            self.sign();
            self.fill_tokens();
            self.take_works_back();
            tokio::select! {
                changed = hub.changed() => changed.unwrap(),
                changed = member.changed() => changed.unwrap(),
            }
        }
    }

    /// Karmada lets a Cluster go once its execution namespace is gone.
    fn release(&self, cluster: &Value) {
        let within = format!("karmada-es-{}", name(cluster));
        match self.hub.get("Namespace", "", &within) {
            Some(namespace) if is_going(&namespace) => {}
            Some(_) => self.hub.delete("Namespace", "", &within).unwrap(),
            None => {
                let free = json!({"metadata": {"finalizers": null}});
                self.hub.merge("Cluster", "", name(cluster), free).unwrap();
            }
        }
    }

    /// Karmada makes the execution namespace and reports the cell, if it can be reached.
    fn serve(&self, cluster: &Value) {
        let (own, within) = (name(cluster), format!("karmada-es-{}", name(cluster)));
        if cluster["metadata"]["finalizers"].is_null() {
            let held = json!({"metadata": {"finalizers": ["karmada.io/cluster-controller"]}});
            self.hub.merge("Cluster", "", own, held).unwrap();
        }
        if self.hub.get("Namespace", "", &within).is_none() {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": within}});
            self.hub.create(namespace).unwrap();
        }
        let pull = cluster["spec"]["syncMode"] == "Pull";
        let reached = if pull {
            self.runs()
        } else {
            self.hub.get("Secret", "karmada-cluster", own).is_some()
        };
        if reached && cluster["status"].is_null() {
            let status = json!({"status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "apiEnablements": [{"groupVersion": "compute.datumapis.com/v1alpha",
                    "resources": [{"kind": "WorkloadDeployment"}]}],
            }});
            self.hub.merge_status("Cluster", "", own, status).unwrap();
        }
        if pull && reached {
            self.renew();
        }
    }

    /// True if the agent's Pod runs: it needs the kubeconfig as a file.
    fn runs(&self) -> bool {
        let secret = self.member.get("Secret", SYSTEM, "karmada-kubeconfig");
        let has_file = secret.is_some_and(|secret| secret["data"]["karmada-kubeconfig"].is_string());
        has_file && self.member.get("Deployment", SYSTEM, AGENT).is_some()
    }

    /// The agent leads by a Lease, which it makes while it has the right to.
    fn renew(&self) {
        let role = format!("system:karmada:{NAME}:agent-lease");
        let lease = format!("{AGENT}-{NAME}");
        let namespace = self.hub.get("Namespace", "", SYSTEM);
        let may = self.hub.get("RoleBinding", SYSTEM, &role).is_some();
        if may && namespace.is_some_and(|n| !is_going(&n)) && self.hub.get("Lease", SYSTEM, &lease).is_none()
        {
            let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": lease, "namespace": SYSTEM}, "spec": {"holderIdentity": "the agent"}});
            self.hub.create(lease).unwrap();
        }
    }

    /// Approves and signs each request for the agent's certificate.
    fn sign(&self) {
        for request in self.hub.list("CertificateSigningRequest") {
            let secret = self.member.get("Secret", SYSTEM, "karmada-kubeconfig");
            let key = secret.and_then(|secret| decoded(&secret["data"]["pending-key"]));
            let (true, Some(key)) = (request["status"]["certificate"].is_null(), key) else {
                continue;
            };
            let status = json!({"status": {
                "conditions": [{"type": "Approved", "status": "True"}],
                "certificate": base64(&self.authority.signed(&key)),
            }});
            let request = name(&request);
            self.hub
                .merge_status("CertificateSigningRequest", "", request, status)
                .unwrap();
        }
    }

    /// The member's controller puts tokens into Secrets for them.
    fn fill_tokens(&self) {
        for secret in self.member.list("Secret") {
            let metadata = &secret["metadata"];
            let is_for_token = secret["type"] == "kubernetes.io/service-account-token";
            if !is_for_token || !secret["data"]["token"].is_null() || is_going(&secret) {
                continue;
            }
            let namespace = metadata["namespace"].as_str().unwrap();
            let account = metadata["annotations"]["kubernetes.io/service-account.name"]
                .as_str()
                .unwrap();
            let token = base64(&format!("system:serviceaccount:{namespace}:{account}"));
            let token = json!({"data": {"token": token}});
            self.member
                .merge("Secret", namespace, name(&secret), token)
                .unwrap();
        }
    }

    /// The agent takes a Work's objects away, and lets it go; without an agent nobody does.
    fn take_works_back(&self) {
        if !self.runs() {
            return;
        }
        for work in self.hub.list("Work").iter().filter(|work| is_going(work)) {
            let namespace = work["metadata"]["namespace"].as_str().unwrap();
            let free = json!({"metadata": {"finalizers": null}});
            self.hub.merge("Work", namespace, name(work), free).unwrap();
        }
    }
}
