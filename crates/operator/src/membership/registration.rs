//! The objects of a cell's registration at the member and on the hub (contract: provisioning.md §5). Pure.

use super::{
    agent_hub::naming,
    cluster::{API_VERSION, Cluster},
    error::foreign,
    internal,
    kubeconfig::base64,
    mode::SyncMode,
    pull,
};
use clap::ValueEnum;
use fedgate_manifests::KindManifests;
use fedgate_terminal::error::Error;
use serde_json::{Value, json};

/// Karmada's namespace of credentials, at the member and on the hub.
pub const NAMESPACE: &str = "karmada-cluster";

/// The rights of Karmada's account at the member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum AccountRights {
    /// Rights that Karmada needs for the federated kinds.
    #[default]
    Narrow,
    /// Everything, as `karmadactl join` gives.
    Full,
}

/// The facts of a cell that its objects are made of.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cell<'a> {
    /// Name of the Cluster.
    pub name: &'a str,
    /// City code.
    pub city: &'a str,
    /// UID of the member's namespace kube-system.
    pub id: &'a str,
    /// UID of the hub's.
    pub hub: &'a str,
    /// The member's address as the hub reaches it.
    pub endpoint: &'a str,
    /// Rights of Karmada's account.
    pub rights: AccountRights,
    /// True if Karmada's API server may forward users' requests to the member, as them.
    pub proxy: bool,
    /// The side that opens the connection.
    pub mode: SyncMode,
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
    /// The Cluster that was found.
    pub fn cluster(self) -> Option<Cluster<'a>> {
        match self {
            Self::Nothing => None,
            Self::Ours(cluster) | Self::Adopted(cluster) => Some(cluster),
        }
    }
}

/// Looks for the cell among the hub's Clusters (contract: provisioning.md §5.6).
pub fn find<'a>(name: &str, id: &str, adopt: bool, clusters: &'a [Value]) -> Result<Found<'a>, Error> {
    let all = || clusters.iter().map(Cluster);
    if let Some(other) = all().find(|cluster| cluster.id() == id && cluster.name() != name) {
        let other = other.name();
        return Err(
            Error::refused(format!("this member is Cluster {other} of the hub already"))
                .reason("DuplicateMember")
                .because("two Clusters of one member would both deliver to it")
                .next(format!(
                    "give the kubeconfig of another cluster, or: fedgate cells leave {other}"
                )),
        );
    }
    let Some(cluster) = all().find(|cluster| cluster.name() == name) else {
        return Ok(Found::Nothing);
    };
    let is_ours = super::change::mark(cluster.0).is_some();
    if cluster.is_going() {
        let next = if is_ours {
            format!("fedgate cells leave {name}, then join again")
        } else {
            format!(
                "let the program that made it take it away, until kubectl get clusters.cluster.karmada.io {name} finds none; then join again"
            )
        };
        return Err(Error::refused(format!("Cluster {name} is being deleted")).next(next));
    }
    match (is_ours, cluster.id() == id) {
        (true, true) => Ok(Found::Ours(cluster)),
        (true, false) => {
            let what = format!("Cluster {name} is of another member, with id {}", cluster.id());
            let next = format!("check --cell-kubeconfig, choose another name, or: fedgate cells leave {name}");
            Err(Error::refused(what).reason("MemberReplaced").next(next))
        }
        (false, true) if adopt || cluster.is_adopted() => Ok(Found::Adopted(cluster)),
        (false, _) => Err(foreign(&format!("Cluster {name}")).reason("NameTaken").next(
            "choose another name; or, if it is the same member, --adopt without --mode to use it with the credential or agent \
             that it has",
        )),
    }
}

/// The objects of a template, each `{key}` filled in.
pub(super) fn filled(template: &str, values: &[(&str, &str)]) -> Result<Vec<Value>, Error> {
    let fill = |text: String, (key, value): &(&str, &str)| text.replace(&format!("{{{key}}}"), value);
    let text = values.iter().fold(template.to_owned(), fill);
    fedgate_api::yaml::read(&text).map_err(internal)
}

/// The account of Karmada or its agent at a member, with its rights, in the order in which they are applied. Each account has a
/// policy of its own, because another hub may have another account at the member.
pub fn member_objects(cell: &Cell<'_>, kinds: &[KindManifests]) -> Result<Vec<Value>, Error> {
    let own = account(cell.name);
    let (namespace, account, role, policy, secret) = match cell.mode {
        SyncMode::Push => (
            NAMESPACE,
            own.as_str(),
            &*format!("karmada-controller-manager:{own}"),
            &*format!("fedgate-karmada-writes-{}", cell.name),
            String::new(),
        ),
        SyncMode::Pull => (
            pull::NAMESPACE,
            pull::ACCOUNT,
            pull::AGENT,
            "fedgate-karmada-agent-writes",
            pull::may_renew(),
        ),
    };
    let values = [
        ("namespace", namespace),
        ("account", account),
        ("role", role),
        ("policy", policy),
        ("own", &secret),
    ];
    let mut objects = filled(include_str!("objects/account.yaml"), &values)?;
    objects.dedup();
    for object in &mut objects {
        let is_role = object["kind"] == "ClusterRole";
        if is_role && cell.rights == AccountRights::Full {
            object["rules"] = json!([
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                {"nonResourceURLs": ["*"], "verbs": ["get"]},
            ]);
        } else if is_role {
            add_kinds(&mut object["rules"], kinds);
        } else if object["kind"] == "ValidatingAdmissionPolicy" {
            add_kinds(&mut object["spec"]["matchConstraints"]["resourceRules"], kinds);
        }
    }
    if cell.rights == AccountRights::Full {
        objects.retain(|object| !is_limit(object));
    }
    if cell.mode == SyncMode::Push {
        let mut tokens = vec![token_secret(&own, &own)];
        if cell.proxy {
            let mut impersonator = objects[1].clone();
            impersonator["metadata"]["name"] = json!(IMPERSONATOR);
            tokens.extend([impersonator, token_secret(IMPERSONATOR, IMPERSONATOR)]);
        }
        objects[1] = naming(objects[1].take(), cell.hub);
        objects.splice(2..2, tokens);
    }
    Ok(objects)
}

/// True for the policy that limits an account at a member, and its binding.
pub fn is_limit(object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    kind.starts_with("ValidatingAdmissionPolicy")
}

/// Repeats the first of the rules for each resource that Karmada delivers of these kinds.
fn add_kinds(rules: &mut Value, kinds: &[KindManifests]) {
    let Some(rules) = rules.as_array_mut() else { return };
    let rest = rules.split_off(1);
    for (group, plural) in kinds.iter().flat_map(KindManifests::delivered) {
        let mut rule = rules[0].clone();
        rule["apiGroups"] = json!([group]);
        rule["resources"] = json!([plural]);
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    rules.extend(rest);
}

/// A Secret that the member's controller fills with a token of the account.
pub fn token_secret(account: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"karmada.io/system": "true"},
            "annotations": {"kubernetes.io/service-account.name": account}}})
}

/// A Namespace of Karmada's own, which it propagates to no member.
pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace",
           "metadata": {"name": name, "labels": {"karmada.io/system": "true"}}})
}

/// The Secret on the hub with the member's token.
pub fn hub_secret(cell: &str, token: &[u8], authority: &[u8]) -> Value {
    let mut secret = hub_impersonator(cell, token);
    secret["metadata"]["name"] = json!(cell);
    secret["data"]["caBundle"] = json!(base64(authority));
    secret
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

/// The Cluster with the fields that are ours, without its city: that is the last write (contract: provisioning.md §5.1 step 8).
pub fn cluster(cell: &Cell<'_>) -> Value {
    let reference = |name: &str| json!({"namespace": NAMESPACE, "name": name});
    let mut spec = json!({"id": cell.id, "syncMode": cell.mode.as_str(), "apiEndpoint": cell.endpoint});
    if cell.mode == SyncMode::Push {
        spec["secretRef"] = reference(cell.name);
    }
    if cell.proxy {
        spec["impersonatorSecretRef"] = reference(&impersonator(cell.name));
    }
    json!({"apiVersion": API_VERSION, "kind": "Cluster", "metadata": {"name": cell.name}, "spec": spec})
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
    use fedgate_terminal::error::Kind;

    const CELL: Cell<'_> = Cell {
        name: "dfw-2",
        city: "DFW",
        id: "id-2",
        hub: "hub",
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
        let objects = member_objects(&CELL, &kinds()).unwrap();
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
        let full = Cell {
            rights: AccountRights::Full,
            ..CELL
        };
        let full = member_objects(&full, &kinds()).unwrap();
        assert_eq!(full.len(), 5);
        assert_eq!(full[3]["rules"][0]["verbs"], json!(["*"]));
    }

    #[test]
    fn accounts_of_several_hubs_have_limits_of_their_own() {
        let [one, other] = ["dfw-2", "dfw-9"].map(|name| {
            let mut objects = member_objects(&Cell { name, ..CELL }, &kinds()).unwrap();
            objects.retain(is_limit);
            objects
        });
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
        let objects = titles(&member_objects(&cell, &kinds()).unwrap());
        assert_eq!(
            objects[3..5],
            [
                "ServiceAccount karmada-cluster/karmada-impersonator",
                "Secret karmada-cluster/karmada-impersonator",
            ]
        );
        let reference = json!({"namespace": "karmada-cluster", "name": "dfw-2-impersonator"});
        assert_eq!(super::cluster(&cell)["spec"]["impersonatorSecretRef"], reference);
        assert_eq!(
            hub_impersonator("dfw-2", b"t")["metadata"]["name"],
            "dfw-2-impersonator"
        );
        assert!(super::cluster(&CELL)["spec"]["impersonatorSecretRef"].is_null());
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
