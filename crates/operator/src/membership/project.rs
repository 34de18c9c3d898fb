//! The objects of a project, and its use. Pure.

use super::{
    change::title,
    cluster::Cluster,
    internal,
    kubeconfig::{self, base64},
    token::Account,
    usage::{has_finalizer, is_of, is_own, listed, object_of},
};
use fedgate_api::{
    keys::{
        FEDERATOR_FINALIZER, PROJECT_SECRET, REFERENCED_DATA_FINALIZER, UPSTREAM_CLUSTER, WORKLOAD_FINALIZER,
    },
    names::{ProjectKey, short_hash},
};
use fedgate_engine::plane::kubeconfig::{Credential, Rules};
use fedgate_kinds::CompanionKinds;
use fedgate_manifests::{GATEWAY, KindManifests, NAMESPACE, Plane};
use fedgate_terminal::error::Error;
use kube::api::ApiResource;
use serde_json::{Value, json};

/// Label of a credential's anchor: the Secret with whose deletion the token ends.
pub(super) const ANCHOR: &str = "fedgate.dev/credential";

/// The gateway's account in a project.
pub(super) const ACCOUNT: Account<'static> = Account {
    namespace: NAMESPACE,
    name: GATEWAY,
};

/// Definitions, roles and the gateway's account, in the order in which they are applied.
pub(super) fn objects(kinds: &[KindManifests]) -> Result<Vec<Value>, Error> {
    let mut objects = fedgate_manifests::objects(Plane::Project, kinds).map_err(internal)?;
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

/// The credential of a project's Secret, if its kubeconfig can be used.
pub(super) fn credential(secret: &Value) -> Option<Credential> {
    let text = kubeconfig::from_base64(&secret["data"]["kubeconfig"]).unwrap_or_default();
    Credential::from_secret("", "", &text, Rules::default()).ok()
}

/// The selector of a project's objects on the hub.
pub(super) fn selector(key: &str) -> Option<String> {
    let key = ProjectKey::parse(key).ok()?;
    Some(format!("{UPSTREAM_CLUSTER}={}", key.label()))
}

/// The hub, cell or other project, in words, that has the API server of the project of this name, UID and address. Another project is one with a
/// Secret that has this address, or whose name Namespaces of this UID have.
pub(super) fn known_as(
    (name, uid, server): (&str, &str, &str),
    hub: Option<&str>,
    clusters: &[Value],
    namespaces: &[Value],
    secrets: &[Value],
) -> Option<String> {
    if hub == Some(uid) {
        return Some("the hub".to_owned());
    }
    let mut clusters = clusters.iter().map(Cluster);
    if let Some(cell) = clusters.find(|cluster| cluster.is_open() && cluster.id() == uid) {
        return Some(format!("cell {}", cell.name()));
    }
    let other = secrets.iter().find(|secret| {
        let other = secret["metadata"]["name"].as_str().unwrap_or_default();
        let label = format!("cluster-{other}");
        let is_labelled = |namespace: &Value| namespace["metadata"]["labels"][UPSTREAM_CLUSTER] == *label;
        let is_addressed = |of: Credential| of.server().to_string().trim_end_matches('/') == server;
        other != name && (namespaces.iter().any(is_labelled) || credential(secret).is_some_and(is_addressed))
    })?;
    Some(format!("project {}", other["metadata"]["name"].as_str()?))
}

/// The objects in which the use of a project shows.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Hub namespaces of the project.
    pub(super) namespaces: Vec<Value>,
    /// Objects of the federated kinds on the hub.
    pub(super) copies: Vec<Value>,
    /// Bindings of the hub, which show objects of kinds that were not loaded.
    pub(super) bindings: Vec<Value>,
    /// Objects of the federated kinds, and Workloads, in the project.
    pub(super) in_project: Vec<Value>,
}

/// The uses of a project, in words: objects in hub namespaces of the project, and objects in the project with our finalizers.
/// `kinds` are those that were loaded.
pub(super) fn used(found: &Found, kinds: &[ApiResource], companions: &CompanionKinds) -> Vec<String> {
    let names = found.namespaces.iter().map(|of| &of["metadata"]["name"]);
    let is_ours = |copy: &&Value| names.clone().any(|name| copy["metadata"]["namespace"] == *name);
    let bindings = found.bindings.iter().filter(is_ours);
    let further = bindings.filter(|binding| is_own(binding, companions) && !is_of(binding, kinds));
    let copies = found.copies.iter().filter(is_ours).map(title);
    let finalizers = [FEDERATOR_FINALIZER, REFERENCED_DATA_FINALIZER, WORKLOAD_FINALIZER];
    let held = found
        .in_project
        .iter()
        .filter(|object| has_finalizer(object, &finalizers));
    listed(&[
        (
            copies.chain(further.map(object_of)).collect(),
            "objects on the hub",
        ),
        (
            held.map(title).collect(),
            "objects in the project whose finalizer only the gateway takes away",
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::{
        super::{cluster::tests::kinds, usage::tests::binding},
        *,
    };

    #[test]
    fn a_projects_use_is_its_copies_and_the_objects_that_it_holds() {
        let object = |namespace: &str, finalizer: &str| {
            json!({"kind": "Vault",
            "metadata": {"name": "web", "namespace": namespace, "finalizers": [finalizer]}})
        };
        // Bindings are in the Namespace of their object.
        let mut binding = binding(&["dfw-1"], &[]);
        binding["metadata"]["namespace"] = json!("ns-1");
        let found = Found {
            namespaces: vec![json!({"metadata": {"name": "ns-1"}})],
            copies: vec![object("ns-1", "x"), object("ns-2", "x")],
            bindings: vec![binding],
            in_project: vec![object("default", FEDERATOR_FINALIZER), object("other", "x")],
        };
        let companions = CompanionKinds::default();
        let usage = |kinds: &[ApiResource]| used(&found, kinds, &companions).join(", ");
        let held = "1 objects in the project whose finalizer only the gateway takes away (Vault default/web)";
        assert_eq!(
            usage(&kinds()),
            format!("1 objects on the hub (Vault ns-1/web), {held}")
        );
        // The kind of the binding's object was not loaded.
        assert_eq!(
            usage(&[]),
            format!("2 objects on the hub (Vault ns-1/web, WorkloadDeployment ns-1/web), {held}")
        );
        let elsewhere = Found {
            namespaces: Vec::new(),
            in_project: Vec::new(),
            ..found
        };
        assert!(used(&elsewhere, &[], &companions).is_empty());
    }

    #[test]
    fn an_api_server_that_the_hub_has_is_known_by_its_uid_or_its_address() {
        let cluster =
            |labels: Value| json!({"metadata": {"name": "dfw-1", "labels": labels}, "spec": {"id": "u"}});
        let ca = rcgen::generate_simple_self_signed(vec!["one.example".to_owned()]).unwrap();
        let kubeconfig = json!({
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://one.example:6443", "certificate-authority-data": base64(ca.cert.pem().as_bytes())}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        });
        let secret = secret("beta", "fedgate-system", &kubeconfig.to_string());
        let namespace = |label: &str| json!({"metadata": {"labels": {(UPSTREAM_CLUSTER): label}}});
        let known = |hub, cluster: Value, namespace: Value, server| {
            known_as(
                ("alpha", "u", server),
                hub,
                &[cluster],
                &[namespace],
                std::slice::from_ref(&secret),
            )
        };
        let (none, far) = (json!({}), "https://far.example:6443");
        let cell = cluster(json!({"topology.datum.net/city-code": "DFW"}));
        assert_eq!(known(Some("h"), none.clone(), none.clone(), far), None);
        assert_eq!(
            known(Some("u"), none.clone(), none.clone(), far).as_deref(),
            Some("the hub")
        );
        assert_eq!(
            known(None, cell, none.clone(), far).as_deref(),
            Some("cell dfw-1")
        );
        assert_eq!(
            known(None, cluster(json!({})), none.clone(), far),
            None,
            "it is no cell"
        );
        let other = known(None, none.clone(), namespace("cluster-beta"), far);
        assert_eq!(other.as_deref(), Some("project beta"));
        assert_eq!(known(None, none.clone(), namespace("cluster-alpha"), far), None);
        let gone = namespace("cluster-gone");
        assert_eq!(
            known(None, none.clone(), gone, far),
            None,
            "it has no Secret: this is its new name"
        );
        let other = known(None, none.clone(), none, "https://one.example:6443");
        assert_eq!(other.as_deref(), Some("project beta"));
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
