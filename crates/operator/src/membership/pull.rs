//! The objects of a cell whose karmada-agent reads from the hub (contract: provisioning.md §5.4). Pure.

use super::{
    kubeconfig::base64,
    registration::{Cell, filled, namespace},
};
use fedgate_api::karmada::work_namespace;
use fedgate_terminal::error::Error;
use serde_json::{Value, json};

/// Namespace of karmada-agent at the member, and of its lease on the hub.
pub const NAMESPACE: &str = "karmada-system";
/// Secret of the agent with its kubeconfig of the hub, and the key in it: the agent looks for both.
pub const KUBECONFIG: &str = "karmada-kubeconfig";
/// Key in the same Secret: a private key whose certificate the hub has not signed yet.
pub const PENDING_KEY: &str = "pending-key";
/// Name of the agent's objects at the member.
pub const AGENT: &str = "karmada-agent";
/// Name of its account.
pub const ACCOUNT: &str = "karmada-agent-sa";
const RBAC: &str = "rbac.authorization.k8s.io";

/// The user of a cell's agent on the hub.
pub fn user(cell: &str) -> String {
    format!("system:karmada:agent:{cell}")
}

/// The agent's lease on the hub, by which one of its Pods leads.
pub fn lease(cell: &str) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
           "metadata": {"name": format!("{AGENT}-{cell}"), "namespace": NAMESPACE}})
}

/// The objects on the hub, in the order in which they are applied: Karmada's Namespace of the cell's Works, and roles of the
/// agent, each with its binding.
pub fn hub_objects(cell: &str) -> Result<Vec<Value>, Error> {
    let mut objects = vec![namespace(&work_namespace(cell))];
    for role in filled(include_str!("objects/agent-hub.yaml"), &[("cell", cell)])? {
        let (kind, metadata) = (role["kind"].as_str().unwrap_or_default(), &role["metadata"]);
        let binding = json!({"apiVersion": role["apiVersion"], "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": metadata["name"]},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user(cell)}]});
        objects.extend([role, binding]);
    }
    Ok(objects)
}

/// The part of the policy at the member by which the agent writes its own renewed certificate there.
pub(super) fn may_renew() -> String {
    format!(
        " || (request.operation == 'UPDATE' && request.resource.resource == 'secrets' && \
         request.namespace == '{NAMESPACE}' && request.name == '{KUBECONFIG}')"
    )
}

/// The agent's Secret with one value.
pub fn secret(key: &str, value: &[u8]) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": KUBECONFIG, "namespace": NAMESPACE, "labels": {"karmada.io/system": "true"}},
        "data": {key: base64(value)}})
}

/// The Deployment, by its name alone.
pub fn deployment_identity() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": AGENT, "namespace": NAMESPACE}})
}

/// The objects by which another program's agent shows, by their names alone: its Pods, and the rights of its account, which a
/// join would limit or replace.
pub fn agent_identities() -> [Value; 3] {
    let cluster_wide =
        |kind: &str| json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": {"name": AGENT}});
    [
        deployment_identity(),
        cluster_wide("ClusterRoleBinding"),
        cluster_wide("ClusterRole"),
    ]
}

/// The role on the hub that names the agent's lease. A leave takes it last: until then it says that there was an agent of
/// ours, and whose its lease is.
pub fn lease_role(cell: &str) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role",
           "metadata": {"name": format!("system:karmada:{cell}:agent-lease"), "namespace": NAMESPACE}})
}

/// The agent's Pod.
pub fn deployment(cell: &Cell<'_>, image: &str) -> Result<Value, Error> {
    let values = [("cell", cell.name), ("image", image), ("endpoint", cell.endpoint)];
    let mut objects = filled(include_str!("objects/agent-deployment.yaml"), &values)?;
    Ok(objects.pop().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            mode::SyncMode,
            registration::{self, AccountRights, member_objects},
        },
        *,
    };
    use crate::membership::change::title;

    const CELL: Cell<'_> = Cell {
        name: "dfw-2",
        city: "DFW",
        id: "id-2",
        hub: "hub",
        endpoint: "https://10.0.0.5:6443",
        rights: AccountRights::Narrow,
        proxy: false,
        mode: SyncMode::Pull,
    };

    fn titles(objects: &[Value]) -> Vec<String> {
        objects.iter().map(title).collect()
    }

    #[test]
    fn the_agents_rights_on_the_hub_end_at_its_own_cell() {
        let objects = hub_objects("dfw-2").unwrap();
        let (role, lease) = ("system:karmada:dfw-2:agent", "system:karmada:dfw-2:agent-lease");
        assert_eq!(
            titles(&objects),
            [
                "Namespace karmada-es-dfw-2".to_owned(),
                format!("ClusterRole {role}"),
                format!("ClusterRoleBinding {role}"),
                format!("Role karmada-es-dfw-2/{role}-work"),
                format!("RoleBinding karmada-es-dfw-2/{role}-work"),
                format!("Role karmada-cluster/{lease}"),
                format!("RoleBinding karmada-cluster/{lease}"),
                format!("Role karmada-system/{lease}"),
                format!("RoleBinding karmada-system/{lease}"),
            ]
        );
        for pair in objects[1..].chunks(2) {
            let (role, binding) = (&pair[0], &pair[1]);
            let subject = json!([{"apiGroup": RBAC, "kind": "User", "name": "system:karmada:agent:dfw-2"}]);
            assert_eq!(binding["subjects"], subject);
            let reference = json!({"apiGroup": RBAC, "kind": role["kind"], "name": role["metadata"]["name"]});
            assert_eq!(binding["roleRef"], reference);
        }
        let everywhere = objects[1]["rules"].as_array().unwrap();
        for rule in everywhere {
            let text = rule.to_string();
            let is_wide = ["secrets", "works", "leases", "*"]
                .iter()
                .any(|word| text.contains(word));
            assert!(!is_wide, "{text}");
        }
        let verbs = |resource: &str, name: Value| -> Value {
            let mut found = everywhere.iter().filter(|rule| rule["resources"][0] == resource);
            let found = found.find(|rule| rule["resourceNames"] == name);
            found.map(|rule| rule["verbs"].clone()).unwrap_or_default()
        };
        assert_eq!(verbs("clusters", Value::Null), json!(["list", "watch"]));
        assert_eq!(verbs("clusters", json!(["dfw-2"])), json!(["get"]));
        assert_eq!(verbs("clusters/status", json!(["dfw-2"])), json!(["update"]));
        assert_eq!(verbs("clusters/status", Value::Null), Value::Null);
        assert_eq!(objects[5]["rules"][0]["resourceNames"], json!(["dfw-2"]));
        assert_eq!(
            objects[7]["rules"][0]["resourceNames"],
            json!(["karmada-agent-dfw-2"])
        );
    }

    #[test]
    fn at_the_member_the_policy_comes_before_the_role() {
        let objects = member_objects(&CELL, &[]).unwrap();
        assert_eq!(
            titles(&objects),
            [
                "Namespace karmada-cluster",
                "Namespace karmada-system",
                "ServiceAccount karmada-system/karmada-agent-sa",
                "ValidatingAdmissionPolicy fedgate-karmada-agent-writes",
                "ValidatingAdmissionPolicyBinding fedgate-karmada-agent-writes",
                "ClusterRole karmada-agent",
                "ClusterRoleBinding karmada-agent",
            ]
        );
        assert!(!objects[5]["rules"].to_string().contains("\"*\""));
        let full = Cell {
            rights: AccountRights::Full,
            ..CELL
        };
        assert_eq!(member_objects(&full, &[]).unwrap().len(), 5);
    }

    #[test]
    fn the_policy_lets_the_agent_renew_its_own_secret_and_nothing_else_of_its_namespace() {
        let policy = &member_objects(&CELL, &[]).unwrap()[3]["spec"];
        let user = "system:serviceaccount:karmada-system:karmada-agent-sa";
        assert_eq!(
            policy["matchConditions"][0]["expression"],
            format!("request.userInfo.username == '{user}'")
        );
        assert_eq!(
            policy["validations"][0]["expression"],
            "variables.target.startsWith('ns-') || (request.operation == 'UPDATE' && request.resource.resource == 'secrets' \
             && request.namespace == 'karmada-system' && request.name == 'karmada-kubeconfig')"
        );
    }

    #[test]
    fn the_agent_computes_the_cluster_that_join_has_made() {
        let spec = registration::cluster(&CELL)["spec"].take();
        let made = json!({"id": "id-2", "syncMode": "Pull", "apiEndpoint": "https://10.0.0.5:6443"});
        assert_eq!(spec, made);
        let deployment = deployment(&CELL, "registry.example.com/agent:1").unwrap();
        assert_eq!(title(&deployment), title(&deployment_identity()));
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        assert_eq!(container["image"], "registry.example.com/agent:1");
        let args = [
            "--karmada-kubeconfig=/etc/karmada/karmada-kubeconfig",
            "--cluster-name=dfw-2",
            "--cluster-api-endpoint=https://10.0.0.5:6443",
            "--report-secrets=None",
            "--controllers=*,certRotation",
            "--rate-limiter-max-delay=30s",
        ];
        assert_eq!(container["args"], json!(args));
        // A key whose certificate is not there yet is none of the agent's.
        let items = json!([{"key": KUBECONFIG, "path": KUBECONFIG}]);
        assert_eq!(pod["volumes"][0]["secret"]["items"], items);
    }

    /// The flags that the Deployment gives or whose defaults it counts on, as `karmada-agent --help` says them;
    /// `tests/cells/pull/program.rs` compares them with the program.
    const FLAGS: &str = include_str!("../../../../tests/cells/pull/flags.txt");

    /// The help on a flag: the text after its name.
    fn help(flag: &str) -> &'static str {
        let said = |line: &'static str| line.strip_prefix("--")?.strip_prefix(flag)?.strip_prefix(' ');
        let found = FLAGS.lines().find_map(said);
        found.unwrap_or_else(|| panic!("karmada-agent has no flag --{flag}"))
    }

    #[test]
    fn the_agent_has_each_flag_that_it_is_given() {
        let deployment = deployment(&CELL, "registry.example.com/agent:1").unwrap();
        let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
        for argument in arguments.as_array().unwrap() {
            let argument = argument.as_str().unwrap();
            let given = argument
                .strip_prefix("--")
                .and_then(|argument| argument.split_once('='));
            let (flag, value) = given.unwrap();
            let said = help(flag);
            assert!(!value.is_empty() && !said.is_empty(), "{argument}");
            let known: &[&str] = match flag {
                "controllers" => &["certRotation", "'*'"],
                "report-secrets" => &["'None'"],
                _ => &[],
            };
            assert!(known.iter().all(|word| said.contains(word)), "{argument}: {said}");
        }
        // These are not given: roles, lease and Secret count on the defaults.
        for (flag, default) in [
            ("cluster-namespace", registration::NAMESPACE),
            ("leader-elect-resource-namespace", NAMESPACE),
            ("karmada-kubeconfig-namespace", NAMESPACE),
        ] {
            assert!(
                help(flag).ends_with(&format!("(default \"{default}\")")),
                "{flag}"
            );
        }
    }

    #[test]
    fn the_agents_pod_has_the_files_the_account_and_the_ports_that_the_agent_uses() {
        let deployment = deployment(&CELL, "registry.example.com/agent:1").unwrap();
        let template = &deployment["spec"]["template"];
        let (pod, container) = (&template["spec"], &template["spec"]["containers"][0]);
        // The path of the flag is that of the Secret's key in the folder of the mount.
        let (mount, volume) = (&container["volumeMounts"][0], &pod["volumes"][0]);
        assert_eq!(mount["name"], volume["name"]);
        let item = &volume["secret"]["items"][0];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let path = format!("{}/{}", text(&mount["mountPath"]), text(&item["path"]));
        assert_eq!(container["args"][0], format!("--karmada-kubeconfig={path}"));
        let made = secret(KUBECONFIG, b"x");
        assert_eq!(volume["secret"]["secretName"], made["metadata"]["name"]);
        assert!(made["data"][text(&item["key"])].is_string());
        assert_eq!(made["metadata"]["namespace"], deployment["metadata"]["namespace"]);
        assert_eq!(container["volumeMounts"].as_array().map(Vec::len), Some(1));
        // Its account is the one that the role is bound to.
        let objects = member_objects(&CELL, &[]).unwrap();
        let find = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
        let (account, binding) = (find("ServiceAccount"), find("ClusterRoleBinding"));
        assert_eq!(pod["serviceAccountName"], account["metadata"]["name"]);
        assert_eq!(binding["subjects"][0]["name"], account["metadata"]["name"]);
        assert_eq!(
            account["metadata"]["namespace"],
            deployment["metadata"]["namespace"]
        );
        assert_eq!(
            deployment["spec"]["selector"]["matchLabels"],
            template["metadata"]["labels"]
        );
        // The ports are the defaults of its flags; the probe goes to one of them.
        let ports = container["ports"].as_array().unwrap();
        for (port, flag) in ports
            .iter()
            .zip(["metrics-bind-address", "health-probe-bind-address"])
        {
            let default = format!("(default \":{}\")", port["containerPort"]);
            assert!(help(flag).ends_with(&default), "{flag}: {default}");
        }
        assert_eq!(container["livenessProbe"]["httpGet"]["port"], ports[1]["name"]);
    }
}
