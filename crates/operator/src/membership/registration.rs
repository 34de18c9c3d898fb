//! The objects of a cell's registration at the member and on the hub (contract: provisioning.md §5). Pure.

use super::{
    cluster::{API_VERSION, Cluster},
    kubeconfig::base64,
    mode::SyncMode,
};
use clap::ValueEnum;
use fedgate_manifests::KindManifests;
use fedgate_terminal::error::{Error, Kind};
use serde_json::{Value, json};

/// Karmada's namespace of credentials, at the member and on the hub.
pub const NAMESPACE: &str = "karmada-cluster";

/// The rights of Karmada's account at the member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AccountRights {
    /// Rights that Karmada needs for the federated kinds.
    Narrow,
    /// Everything, as `karmadactl join` gives.
    Full,
}

/// The facts of a cell that its objects are made of.
#[derive(Debug, Clone, Copy)]
pub struct Cell<'a> {
    /// Name of the Cluster.
    pub name: &'a str,
    /// City code.
    pub city: &'a str,
    /// UID of the member's namespace kube-system.
    pub id: &'a str,
    /// The member's address as the hub reaches it.
    pub endpoint: &'a str,
    /// Rights of Karmada's account.
    pub rights: AccountRights,
    /// True if Karmada's API server may forward users' requests to the member, as them.
    pub proxy: bool,
    /// The side that opens the connection.
    pub mode: SyncMode,
}

impl Cell<'_> {
    /// Name of Karmada's account, and of its token Secret.
    pub fn account(&self) -> String {
        account(self.name)
    }
}

/// The mark of a member's objects.
pub fn member_mark(id: &str) -> String {
    format!("member-{id}")
}

/// Name of Karmada's account for a cell.
pub fn account(cell: &str) -> String {
    format!("karmada-{cell}")
}

/// Name of the account by which Karmada's API server acts as its users at the member, and of its token Secret.
pub const IMPERSONATOR: &str = "karmada-impersonator";

/// The Cluster that a name and a member's id find on the hub.
#[derive(Debug, Clone, Copy)]
pub enum Found<'a> {
    /// Neither.
    Nothing,
    /// Our Cluster of this member.
    Ours(Cluster<'a>),
    /// A Cluster of this member that another program made, and that may be used.
    Adopted(Cluster<'a>),
}

impl<'a> Found<'a> {
    /// Our Cluster.
    pub fn ours(self) -> Option<Cluster<'a>> {
        match self {
            Self::Ours(cluster) => Some(cluster),
            Self::Nothing | Self::Adopted(_) => None,
        }
    }
}

/// Looks for the cell among the hub's Clusters (contract: provisioning.md §5.6).
pub fn find<'a>(name: &str, id: &str, adopt: bool, clusters: &'a [Value]) -> Result<Found<'a>, Error> {
    let all = || clusters.iter().map(Cluster);
    if let Some(other) = all().find(|cluster| cluster.id() == id && cluster.name() != name) {
        let what = format!("this member is Cluster {} of the hub already", other.name());
        return Err(Error::new(Kind::Refused, what)
            .because("DuplicateMember: two Clusters of one member would both deliver to it")
            .next(format!(
                "give the kubeconfig of another cluster, or: fedgate cells leave {}",
                other.name()
            )));
    }
    let Some(cluster) = all().find(|cluster| cluster.name() == name) else {
        return Ok(Found::Nothing);
    };
    let is_ours = super::change::mark(cluster.0).is_some();
    if cluster.is_going() {
        let what = format!("Cluster {name} is being deleted");
        let next = if is_ours {
            format!("fedgate cells leave {name}, then join again")
        } else {
            format!(
                "let the program that made it take it away, until kubectl get clusters.cluster.karmada.io {name} finds none; then join again"
            )
        };
        return Err(Error::new(Kind::Refused, what).next(next));
    }
    if is_ours && cluster.id() != id {
        let what = format!("Cluster {name} is of another member, with id {}", cluster.id());
        return Err(Error::new(Kind::Refused, what)
            .because("MemberReplaced")
            .next(format!(
                "check --cell-kubeconfig, choose another name, or: fedgate cells leave {name}"
            )));
    }
    if is_ours {
        return Ok(Found::Ours(cluster));
    }
    if (adopt || cluster.is_adopted()) && cluster.id() == id {
        return Ok(Found::Adopted(cluster));
    }
    Err(Error::new(
        Kind::Refused,
        format!("Cluster {name} was made by another program"),
    )
    .because("NameTaken")
    .next(
        "choose another name; or, if it is the same member, --adopt without --mode to use it with the credential or agent \
         that it has",
    ))
}

/// The objects of Karmada's account at a member of mode push, in the order in which they are applied.
pub fn member_objects(cell: &Cell<'_>, kinds: &[KindManifests]) -> Vec<Value> {
    let name = cell.account();
    let mut objects = vec![
        namespace(NAMESPACE),
        service_account(NAMESPACE, &name),
        token_secret(&name, &name),
    ];
    if cell.proxy {
        objects.push(service_account(NAMESPACE, IMPERSONATOR));
        objects.push(token_secret(IMPERSONATOR, IMPERSONATOR));
    }
    let role = format!("karmada-controller-manager:{name}");
    let limits = limits_of(cell.name, kinds);
    objects.extend(granted(cell.rights, kinds, (NAMESPACE, &name), &role, limits));
    objects
}

/// An account of Karmada or its agent at a member.
pub fn service_account(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace, "labels": {"karmada.io/system": "true"}}})
}

/// The rights of an account at a member, after its limits: it may write nothing that their policy would not have seen.
pub fn granted(
    rights: AccountRights,
    kinds: &[KindManifests],
    (namespace, account): (&str, &str),
    role: &str,
    limits: Vec<Value>,
) -> Vec<Value> {
    let (rbac, version) = ("rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1");
    let metadata = json!({"name": role, "labels": {"karmada.io/system": "true"}});
    let mut objects = match rights {
        AccountRights::Narrow => limits,
        AccountRights::Full => Vec::new(),
    };
    objects.extend([
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": metadata, "rules": rules(rights, kinds)}),
        json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]}),
    ]);
    objects
}

/// A Secret that the member's controller fills with a token of the account.
pub fn token_secret(account: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"karmada.io/system": "true"},
            "annotations": {"kubernetes.io/service-account.name": account}}})
}

/// The rules of Karmada's account at a member.
fn rules(rights: AccountRights, kinds: &[KindManifests]) -> Value {
    const ALL: [&str; 6] = ["get", "list", "watch", "create", "update", "delete"];
    if rights == AccountRights::Full {
        return json!([
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["get"]},
        ]);
    }
    let mut rules =
        vec![json!({"apiGroups": [""], "resources": ["namespaces", "configmaps", "secrets"], "verbs": ALL})];
    rules.extend(
        delivered(kinds)
            .into_iter()
            .map(|(group, plural)| json!({"apiGroups": [group], "resources": [plural], "verbs": ALL})),
    );
    rules.extend([
        // Without them Karmada never reports Ready.
        json!({"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]}),
        json!({"nonResourceURLs": ["/readyz", "/healthz", "/version", "/api", "/api/*", "/apis", "/apis/*"],
               "verbs": ["get"]}),
    ]);
    json!(rules)
}

/// Group and plural of what Karmada delivers of these kinds, in their order, each once.
fn delivered(kinds: &[KindManifests]) -> Vec<(&str, &str)> {
    let mut all = Vec::new();
    for resource in kinds.iter().flat_map(KindManifests::delivered) {
        if !all.contains(&resource) {
            all.push(resource);
        }
    }
    all
}

/// The policy that limits Karmada's account for a cell, and its binding. Each account has a policy of its own: another hub may
/// have another account at the member.
pub fn limits_of(cell: &str, kinds: &[KindManifests]) -> Vec<Value> {
    let user = format!("system:serviceaccount:{NAMESPACE}:{}", account(cell));
    limits(&format!("fedgate-karmada-writes-{cell}"), &user, kinds, None)
}

/// The policy of this name that limits Karmada's user at the member to Namespaces `ns-*`, and keeps it from making tokens of
/// other accounts, and its binding. `own` is the namespace and the name of a Secret that the user may change besides.
pub fn limits(name: &str, user: &str, kinds: &[KindManifests], own: Option<(&str, &str)>) -> Vec<Value> {
    let own = own.map(|(namespace, name)| {
        format!(
            " || (request.operation == 'UPDATE' && request.resource.resource == 'secrets' && \
             request.namespace == '{namespace}' && request.name == '{name}')"
        )
    });
    let allowed = format!("variables.target.startsWith('ns-'){}", own.unwrap_or_default());
    let operations = ["CREATE", "UPDATE", "DELETE"];
    let mut written = vec![
        json!({"apiGroups": [""], "apiVersions": ["*"], "operations": operations,
        "resources": ["namespaces", "configmaps", "secrets"]}),
    ];
    written.extend(delivered(kinds).into_iter().map(
        |(group, plural)| json!({"apiGroups": [group], "apiVersions": ["*"], "operations": operations, "resources": [plural]}),
    ));
    let object = |kind: &str, spec: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": written},
        "matchConditions": [{"name": "by-karmada", "expression": format!("request.userInfo.username == '{user}'")}],
        "variables": [{"name": "target", "expression":
            "request.resource.group == '' && request.resource.resource == 'namespaces' ? \
             (object == null ? oldObject.metadata.name : object.metadata.name) : request.namespace"}],
        "validations": [
            {"expression": allowed,
             "message": "Karmada writes only to Namespaces ns-* of this cell; for others join it with --rights full"},
            {"expression": "request.resource.resource != 'secrets' || object == null || !has(object.type) || \
                            object.type != 'kubernetes.io/service-account-token'",
             "message": "Karmada may make no token Secret at this cell"},
        ],
    });
    vec![
        object("ValidatingAdmissionPolicy", spec),
        object(
            "ValidatingAdmissionPolicyBinding",
            json!({"policyName": name, "validationActions": ["Deny"]}),
        ),
    ]
}

/// A Namespace of Karmada's own, which it propagates to no member.
pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace",
           "metadata": {"name": name, "labels": {"karmada.io/system": "true"}}})
}

/// The Secret on the hub with the member's token.
pub fn hub_secret(cell: &str, token: &[u8], authority: &[u8]) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": cell, "namespace": NAMESPACE, "labels": {"karmada.io/system": "true"}},
        "data": {"token": base64(token), "caBundle": base64(authority)}})
}

/// The Secret on the hub with the impersonator's token.
pub fn hub_impersonator(cell: &str, token: &[u8]) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": impersonator(cell), "namespace": NAMESPACE, "labels": {"karmada.io/system": "true"}},
        "data": {"token": base64(token)}})
}

fn impersonator(cell: &str) -> String {
    format!("{cell}-impersonator")
}

/// The Secret with its Cluster as owner.
pub fn owned(mut secret: Value, cluster: &Value) -> Value {
    secret["metadata"]["ownerReferences"] = json!([{
        "apiVersion": API_VERSION, "kind": "Cluster", "controller": true, "blockOwnerDeletion": true,
        "name": cluster["metadata"]["name"], "uid": cluster["metadata"]["uid"],
    }]);
    secret
}

/// The Cluster, without its city: that is the last write (contract: provisioning.md §5.1 step 8).
pub fn cluster(cell: &Cell<'_>) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "Cluster",
        "metadata": {"name": cell.name},
        "spec": cluster_spec(cell),
    })
}

/// The fields of a Cluster's spec that are ours.
pub fn cluster_spec(cell: &Cell<'_>) -> Value {
    let reference = |name: &str| json!({"namespace": NAMESPACE, "name": name});
    let mut spec = json!({"id": cell.id, "syncMode": cell.mode.as_str(), "apiEndpoint": cell.endpoint});
    if cell.mode == SyncMode::Push {
        spec["secretRef"] = reference(cell.name);
    }
    if cell.proxy {
        spec["impersonatorSecretRef"] = reference(&impersonator(cell.name));
    }
    spec
}

/// Among Clusters of one member all but the oldest have to go; true if that is this one (contract: provisioning.md §5.1
/// step 5).
pub fn is_younger_duplicate(name: &str, id: &str, clusters: &[Value]) -> bool {
    let age = |cluster: &Value| {
        let text = |key: &str| cluster["metadata"][key].as_str().unwrap_or_default().to_owned();
        (text("creationTimestamp"), text("name"))
    };
    let same = || clusters.iter().filter(|cluster| Cluster(cluster).id() == id);
    let own = same().find(|cluster| Cluster(cluster).name() == name).map(age);
    own.is_some_and(|own| same().any(|other| age(other) < own))
}

#[cfg(test)]
mod tests {
    use super::{super::cluster::tests::cluster as live, *};

    const CELL: Cell<'_> = Cell {
        name: "dfw-2",
        city: "DFW",
        id: "id-2",
        endpoint: "https://10.0.0.5:6443",
        rights: AccountRights::Narrow,
        proxy: false,
        mode: SyncMode::Push,
    };

    fn kinds() -> Vec<KindManifests> {
        let builtin = fedgate_kinds::FederatedKind::builtin().unwrap();
        KindManifests::all(&builtin.into(), false)
    }

    fn titles(objects: &[Value]) -> Vec<String> {
        objects.iter().map(super::super::change::title).collect()
    }

    #[test]
    fn narrow_rights_are_policy_first_and_no_more_than_karmada_uses() {
        let objects = member_objects(&CELL, &kinds());
        assert_eq!(
            titles(&objects),
            [
                "Namespace karmada-cluster",
                "ServiceAccount karmada-cluster/karmada-dfw-2",
                "Secret karmada-cluster/karmada-dfw-2",
                "ValidatingAdmissionPolicy fedgate-karmada-writes-dfw-2",
                "ValidatingAdmissionPolicyBinding fedgate-karmada-writes-dfw-2",
                "ClusterRole karmada-controller-manager:karmada-dfw-2",
                "ClusterRoleBinding karmada-controller-manager:karmada-dfw-2",
            ]
        );
        let rules = objects[5]["rules"].to_string();
        assert!(
            rules.contains("workloaddeployments") && !rules.contains("\"*\""),
            "{rules}"
        );
        let full = member_objects(
            &Cell {
                rights: AccountRights::Full,
                ..CELL
            },
            &kinds(),
        );
        assert_eq!(full.len(), 5);
        assert_eq!(full[3]["rules"][0]["verbs"], json!(["*"]));
    }

    #[test]
    fn accounts_of_several_hubs_have_limits_of_their_own() {
        let [one, other] = ["dfw-2", "dfw-9"].map(|cell| limits_of(cell, &kinds()));
        for (own, another) in one.iter().zip(&other) {
            assert_ne!(
                titles(std::slice::from_ref(own)),
                titles(std::slice::from_ref(another))
            );
        }
        let only = &one[0]["spec"]["matchConditions"][0]["expression"];
        assert_eq!(
            *only,
            "request.userInfo.username == 'system:serviceaccount:karmada-cluster:karmada-dfw-2'"
        );
        assert_eq!(one[1]["spec"]["policyName"], one[0]["metadata"]["name"]);
    }

    #[test]
    fn a_cell_with_a_proxy_has_an_impersonator_on_both_planes() {
        let cell = Cell {
            rights: AccountRights::Full,
            proxy: true,
            ..CELL
        };
        let objects = titles(&member_objects(&cell, &kinds()));
        assert_eq!(
            objects[3..5],
            [
                "ServiceAccount karmada-cluster/karmada-impersonator",
                "Secret karmada-cluster/karmada-impersonator",
            ]
        );
        let reference = json!({"namespace": "karmada-cluster", "name": "dfw-2-impersonator"});
        assert_eq!(cluster_spec(&cell)["impersonatorSecretRef"], reference);
        assert_eq!(
            hub_impersonator("dfw-2", b"t")["metadata"]["name"],
            "dfw-2-impersonator"
        );
        assert!(cluster_spec(&CELL)["impersonatorSecretRef"].is_null());
    }

    #[test]
    fn a_name_or_a_member_that_is_taken_is_refused_with_the_next_step() {
        let refused = |name: &str, id: &str, adopt, clusters: &[Value]| {
            let error = find(name, id, adopt, clusters).unwrap_err();
            assert_eq!(error.kind, Kind::Refused);
            error.to_string()
        };
        assert!(matches!(find("dfw-2", "id-2", false, &[]), Ok(Found::Nothing)));
        let ours = [live("dfw-2", "id-2", Some("DFW"))];
        assert!(matches!(find("dfw-2", "id-2", false, &ours), Ok(Found::Ours(_))));
        assert!(refused("dfw-3", "id-2", false, &ours).contains("fedgate cells leave dfw-2"));
        assert!(refused("dfw-2", "id-9", false, &ours).contains("MemberReplaced"));
        let mut foreign = live("dfw-2", "id-2", None);
        foreign["metadata"]["annotations"] = json!({});
        let foreign = [foreign];
        assert!(refused("dfw-2", "id-2", false, &foreign).contains("NameTaken"));
        assert!(refused("dfw-2", "id-9", true, &foreign).contains("NameTaken"));
        assert!(matches!(
            find("dfw-2", "id-2", true, &foreign),
            Ok(Found::Adopted(_))
        ));
        let mut going = live("dfw-2", "id-2", None);
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(refused("dfw-2", "id-2", false, &[going.clone()]).contains("fedgate cells leave dfw-2"));
        going["metadata"]["annotations"] = json!({});
        assert!(refused("dfw-2", "id-2", false, &[going]).contains("the program that made it"));
    }

    #[test]
    fn of_two_clusters_of_one_member_the_younger_goes() {
        let older = live("dfw-9", "id-2", None);
        let mut younger = live("dfw-2", "id-2", None);
        younger["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:01Z");
        let all = [older.clone(), younger, live("lhr-1", "id-1", None)];
        assert!(is_younger_duplicate("dfw-2", "id-2", &all));
        assert!(!is_younger_duplicate("dfw-9", "id-2", &all));
        assert!(!is_younger_duplicate("lhr-1", "id-1", &all));
        let same_second = [older, live("dfw-2", "id-2", None)];
        assert!(
            is_younger_duplicate("dfw-9", "id-2", &same_second),
            "then the greater name"
        );
    }

    #[test]
    fn the_cluster_has_no_city_before_it_is_opened() {
        let cluster = cluster(&CELL);
        assert!(cluster["metadata"]["labels"].is_null());
        assert_eq!(
            cluster["spec"]["secretRef"],
            json!({"namespace": "karmada-cluster", "name": "dfw-2"})
        );
        let secret = owned(hub_secret("dfw-2", b"t", b"ca"), &live("dfw-2", "id-2", None));
        assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], "uid-dfw-2");
        assert_eq!(secret["data"], json!({"token": "dA==", "caBundle": "Y2E="}));
    }
}
