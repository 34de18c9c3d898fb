//! The objects of a project, and its use. Pure.

use super::{
    kubeconfig::base64,
    token::Account,
    usage::{first, identity},
};
use fedgate_api::{
    keys::{
        FEDERATOR_FINALIZER, PROJECT_SECRET, REFERENCED_DATA_FINALIZER, UPSTREAM_CLUSTER, WORKLOAD_FINALIZER,
    },
    names::{ProjectKey, short_hash},
};
use fedgate_manifests::{GATEWAY, KindManifests, ManifestError, NAMESPACE, Plane};
use serde_json::{Value, json};
use std::fmt;

/// Label of a credential's anchor: the Secret with whose deletion the token ends.
pub(super) const ANCHOR: &str = "fedgate.dev/credential";

/// The gateway's account in a project.
pub(super) const ACCOUNT: Account<'static> = Account {
    namespace: NAMESPACE,
    name: GATEWAY,
};

/// Definitions, roles and the gateway's account, in the order in which they are applied.
pub(super) fn objects(kinds: &[KindManifests]) -> Result<Vec<Value>, ManifestError> {
    let mut objects = fedgate_manifests::objects(Plane::Project, kinds)?;
    objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}));
    objects.push(json!({"apiVersion": "v1", "kind": "ServiceAccount",
                        "metadata": {"name": GATEWAY, "namespace": NAMESPACE}}));
    Ok(objects)
}

/// The anchor of a credential. `seed` differs for each.
pub(super) fn anchor(seed: &str) -> Value {
    let name = format!("{GATEWAY}-{}", short_hash(seed, 8));
    json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
           "metadata": {"name": name, "namespace": NAMESPACE, "labels": {(ANCHOR): "gateway"}}})
}

/// The Secret on the hub that engages the project.
pub(super) fn secret(name: &str, namespace: &str, kubeconfig: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret",
           "metadata": {"name": name, "namespace": namespace, "labels": {(PROJECT_SECRET): "true"}},
           "data": {"kubeconfig": base64(kubeconfig.as_bytes())}})
}

/// The selector of a project's objects on the hub.
pub(super) fn selector(key: &str) -> Option<String> {
    let key = ProjectKey::parse(key).ok()?;
    Some(format!("{UPSTREAM_CLUSTER}={}", key.label()))
}

/// The uses of a project.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    copies: Vec<String>,
    held: Vec<String>,
}

impl Usage {
    /// The uses: copies in hub namespaces of the project, and objects in the project with our finalizers.
    pub(super) fn of(namespaces: &[Value], copies: &[Value], in_project: &[Value]) -> Self {
        let ours: Vec<&str> = namespaces
            .iter()
            .filter_map(|n| n["metadata"]["name"].as_str())
            .collect();
        let is_ours = |copy: &&Value| {
            let namespace = copy["metadata"]["namespace"].as_str();
            namespace.is_some_and(|namespace| ours.contains(&namespace))
        };
        let finalizers = [FEDERATOR_FINALIZER, REFERENCED_DATA_FINALIZER, WORKLOAD_FINALIZER];
        let is_held = |object: &&Value| {
            let has = object["metadata"]["finalizers"].as_array();
            has.into_iter()
                .flatten()
                .any(|f| finalizers.iter().any(|ours| f == ours))
        };
        Self {
            copies: copies.iter().filter(is_ours).map(identity).collect(),
            held: in_project.iter().filter(is_held).map(identity).collect(),
        }
    }

    /// True if nothing uses it.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for (names, noun) in [
            (&self.copies, "deployments on the hub"),
            (
                &self.held,
                "objects in the project whose finalizer only the gateway takes away",
            ),
        ] {
            if !names.is_empty() {
                parts.push(format!("{} {noun} ({})", names.len(), first(names)));
            }
        }
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_projects_use_is_its_copies_and_the_objects_that_it_holds() {
        let namespace = json!({"metadata": {"name": "ns-1"}});
        let copy = |namespace: &str| json!({"metadata": {"name": "web", "namespace": namespace}});
        let held =
            json!({"metadata": {"name": "web", "namespace": "default", "finalizers": [FEDERATOR_FINALIZER]}});
        let free = json!({"metadata": {"name": "x", "namespace": "default", "finalizers": ["other"]}});
        let usage = Usage::of(&[namespace], &[copy("ns-1"), copy("ns-2")], &[held, free]);
        assert_eq!(
            usage.to_string(),
            "1 deployments on the hub (ns-1/web), 1 objects in the project whose finalizer only the gateway takes away \
             (default/web)"
        );
        assert!(Usage::of(&[], &[copy("ns-2")], &[]).is_empty());
    }

    #[test]
    fn the_secret_engages_the_project() {
        let secret = secret("alpha", "fedgate-system", "k");
        assert_eq!(
            secret["metadata"]["labels"],
            json!({"fedgate.dev/project": "true"})
        );
        assert_eq!(secret["data"], json!({"kubeconfig": "aw=="}));
        assert_ne!(anchor("a")["metadata"]["name"], anchor("b")["metadata"]["name"]);
        assert_eq!(
            selector("alpha").unwrap(),
            "meta.datumapis.com/upstream-cluster-name=cluster-alpha"
        );
    }
}
