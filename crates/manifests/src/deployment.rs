//! Objects of the roles' Pods: namespace, service account, two replicas under the restricted profile, network policy.
//! Each is one function, whose open places have the defaults here (`manifests/`) or values of the chart
//! ([`crate::helm`]).

use super::{
    ADMIN_PORT, ADMIN_SECRET, ADMIN_TOKEN, CELL, GATEWAY, Manifest, NAMESPACE, Plane, RETURNS, rbac,
};
use serde_json::{Map, Value, json};

/// The port of the administrative address.
pub(crate) const ADMIN_PORT_NUMBER: u16 = 8080;
/// The port of the probes' address.
pub(crate) const PROBE_PORT_NUMBER: u16 = 8081;
/// Its name in the container.
const PROBE_PORT: &str = "probe";
/// Label of Namespaces whose Pods may reach the administrative address.
const ADMITTED: &str = "fedgate.dev/admin-access";
/// The Secret with the kubeconfig of the role's user on the hub.
pub(crate) const HUB_SECRET: &str = "fedgate-hub";
/// Where the Secret with the token is mounted.
const ADMIN_FOLDER: &str = "/etc/fedgate/admin";
/// Name of the volume with the folder of federated kinds.
const KINDS: &str = "interpreters";
/// The group that owns mounted Secrets: that of user `nonroot` in distroless images.
pub(crate) const FS_GROUP: u32 = 65532;
/// Ports of API servers to which egress is open.
pub(crate) const API_SERVER_PORTS: [u16; 3] = [443, 5443, 6443];
/// Ports of name servers to which egress is open. A policy concerns the port of the Pod behind a Service, which is 5353 on
/// `OpenShift`.
const DNS_PORTS: [u16; 2] = [53, 5353];

/// A role that runs as Pods.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Role {
    /// Name of all its objects.
    pub(crate) name: &'static str,
    /// Name of its container, and its subcommand; also the key of its values in the chart.
    pub(crate) command: &'static str,
    /// True if it authenticates to the cluster that runs it with its own service account.
    account: bool,
    /// Its memory limit.
    memory: &'static str,
}

/// The gateway.
pub(crate) const GATEWAY_ROLE: Role = Role {
    name: GATEWAY,
    command: "gateway",
    account: false,
    memory: "512Mi",
};
/// The program of a cell.
pub(crate) const CELL_ROLE: Role = Role {
    name: CELL,
    command: "cell",
    account: true,
    memory: "256Mi",
};

/// The program that returns Secrets at a member.
pub(crate) const RETURNS_ROLE: Role = Role {
    name: RETURNS,
    command: "returns",
    account: true,
    memory: "256Mi",
};

impl Role {
    /// True if it runs at a member, under the name of whose Karmada Cluster it logs in to the hub.
    pub(crate) fn is_at_member(&self) -> bool {
        self.command != GATEWAY_ROLE.command
    }
}

/// The open places of a role's objects. A field that is a map is merged into its object.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    pub(crate) replicas: Value,
    pub(crate) image: Value,
    /// Further fields of the container.
    pub(crate) container: Map<String, Value>,
    pub(crate) resources: Value,
    /// Arguments behind the subcommand.
    pub(crate) args: Vec<Value>,
    /// The port of the administrative address.
    pub(crate) port: Value,
    /// The port of the probes' address.
    pub(crate) probe_port: Value,
    /// Further fields of the Pod, and of its security context.
    pub(crate) pod: Map<String, Value>,
    pub(crate) security: Map<String, Value>,
    pub(crate) spread: Value,
    pub(crate) volumes: Vec<Value>,
    pub(crate) mounts: Vec<Value>,
    /// Further fields of the rule for ingress, such as its peers, and of that for egress to API servers.
    pub(crate) from: Map<String, Value>,
    pub(crate) to: Map<String, Value>,
    /// Ports of API servers.
    pub(crate) api_server_ports: Value,
    /// Further rules for egress.
    pub(crate) egress: Vec<Value>,
}

impl Places {
    /// The defaults: those of `manifests/`.
    pub(crate) fn defaults(role: &Role) -> Self {
        let mut container = Map::new();
        let mut args = vec![hub_flag()];
        if role.is_at_member() {
            container.insert("env".to_owned(), cell_name());
            args.push(cell_name_flag());
        } else {
            args.extend([json!("--project-mode=secrets"), project_secrets(NAMESPACE)]);
        }
        let mut volumes = vec![volume("hub", HUB_SECRET), volume("admin", ADMIN_SECRET)];
        let mut mounts = vec![mount("hub"), mount("admin")];
        args.extend(own_namespace(role));
        args.extend(default_admin_flags());
        if role.command == RETURNS_ROLE.command {
            args.push(json!("--interpreters=/etc/fedgate/interpreters"));
            volumes.push(kinds_volume());
            mounts.push(mount(KINDS));
        }
        Self {
            replicas: json!(2),
            image: json!(concat!("fedgate:", env!("CARGO_PKG_VERSION"))),
            container,
            resources: resources(role),
            args,
            port: json!(ADMIN_PORT_NUMBER),
            probe_port: json!(PROBE_PORT_NUMBER),
            pod: Map::new(),
            security: Map::from_iter([("fsGroup".to_owned(), json!(FS_GROUP))]),
            spread: spread(role),
            volumes,
            mounts,
            from: Map::from_iter([(
                "from".to_owned(),
                [scrapers(), operators()].into_iter().flatten().collect(),
            )]),
            to: Map::new(),
            api_server_ports: API_SERVER_PORTS.iter().map(|port| tcp(&json!(port))).collect(),
            egress: Vec::new(),
        }
    }
}

/// The manifests for the clusters that run the roles.
pub(super) fn files() -> Vec<Manifest> {
    let file = |role: &Role| {
        let mut objects = vec![namespace(), rbac::operator(ADMIN_SECRET)];
        objects.extend(self::objects(role, &Places::defaults(role)));
        Manifest {
            path: format!("deploy/{}.yaml", role.command),
            planes: &[Plane::Host],
            objects,
        }
    };
    [GATEWAY_ROLE, CELL_ROLE, RETURNS_ROLE].iter().map(file).collect()
}

/// The same as the files of bases of Kustomize, which reads no file outside of a base's folder.
pub(super) fn bases() -> Vec<Manifest> {
    let file = |role: Manifest| {
        let name = role.path.trim_start_matches("deploy/");
        let folder = name.trim_end_matches(".yaml");
        Manifest {
            path: format!("deploy/{folder}/{name}"),
            planes: &[],
            objects: role.objects,
        }
    };
    files().into_iter().map(file).collect()
}

/// The objects that belong to the role alone.
pub(crate) fn objects(role: &Role, places: &Places) -> Vec<Value> {
    let mut objects = vec![service_account(role)];
    if role.command == GATEWAY_ROLE.command {
        objects.push(service(role, places));
    }
    objects.extend([
        network_policy(role, places),
        disruption_budget(role),
        deployment(role, places),
    ]);
    objects
}

/// Flags and values that both kinds of places share.
pub(crate) fn hub_flag() -> Value {
    json!("--hub-kubeconfig=/etc/fedgate/hub/kubeconfig")
}

pub(crate) fn project_secrets(namespace: &str) -> Value {
    json!(format!("--project-secrets-namespace={namespace}"))
}

/// The name of the cell's Karmada Cluster, from a `ConfigMap` that the administrator creates.
pub(crate) fn cell_name() -> Value {
    let source = json!({"configMapKeyRef": {"name": CELL, "key": "name"}});
    json!([{"name": "FEDGATE_CELL_NAME", "valueFrom": source}])
}

pub(crate) fn cell_name_flag() -> Value {
    json!("--name=$(FEDGATE_CELL_NAME)")
}

/// The folder of the federated kinds, from a `ConfigMap` that the administrator creates: each file is a key, and the
/// administrator's `items` say where it goes.
fn kinds_volume() -> Value {
    json!({"name": KINDS, "configMap": {"name": "fedgate-interpreters"}})
}

/// The flag of a program at a member for its own namespace.
pub(crate) fn own_namespace(role: &Role) -> Option<Value> {
    role.is_at_member()
        .then(|| json!(format!("--namespace={NAMESPACE}")))
}

/// The flags of the administrative address and of the probes' address at these ports, by IPv6 and IPv4.
pub(crate) fn admin_flags(port: &str, probes: &str) -> [Value; 3] {
    [
        json!(format!("--probe-address=[::]:{probes}")),
        json!(format!("--admin-address=[::]:{port}")),
        json!(format!("--admin-token-file={ADMIN_FOLDER}/{ADMIN_TOKEN}")),
    ]
}

/// Flags of the administrative address and of the probes, at the default ports.
pub(crate) fn default_admin_flags() -> [Value; 3] {
    admin_flags(&ADMIN_PORT_NUMBER.to_string(), &PROBE_PORT_NUMBER.to_string())
}

/// Requests and limits for a small platform.
pub(crate) fn resources(role: &Role) -> Value {
    json!({"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": role.memory}})
}

/// Replicas go to different nodes and zones where there are some.
pub(crate) fn spread(role: &Role) -> Value {
    let keys = ["kubernetes.io/hostname", "topology.kubernetes.io/zone"];
    let over = |key: &&str| spread_over(role, &json!(key), &json!("ScheduleAnyway"), &json!(1));
    keys.iter().map(over).collect()
}

/// A constraint counts the Pods of its own version alone, so that an update ends as evenly spread as it began.
pub(crate) fn spread_over(role: &Role, key: &Value, unsatisfiable: &Value, skew: &Value) -> Value {
    json!({
        "topologyKey": key,
        "whenUnsatisfiable": unsatisfiable,
        "maxSkew": skew,
        "labelSelector": {"matchLabels": labels(role)},
        "matchLabelKeys": ["pod-template-hash"],
    })
}

/// A Secret as a volume. The administrator creates it: key `kubeconfig` or `token`.
pub(crate) fn volume(name: &str, secret: &str) -> Value {
    json!({"name": name, "secret": {"secretName": secret, "defaultMode": 0o440}})
}

pub(crate) fn mount(name: &str) -> Value {
    json!({"name": name, "mountPath": format!("/etc/fedgate/{name}"), "readOnly": true})
}

pub(crate) fn tcp(port: &Value) -> Value {
    json!({"protocol": "TCP", "port": port})
}

fn labels(role: &Role) -> Value {
    json!({"app.kubernetes.io/name": role.name})
}

/// The profile of the Pod Security Standards that the namespace enforces.
pub(crate) fn pod_security() -> Value {
    json!({
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
    })
}

fn namespace() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": pod_security()},
    })
}

fn service_account(role: &Role) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": role.name, "namespace": NAMESPACE},
        "automountServiceAccountToken": false,
    })
}

/// Every replica is reached, a standby or one that is not ready as well.
fn service(role: &Role, places: &Places) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": role.name, "namespace": NAMESPACE, "labels": labels(role)},
        "spec": {
            "publishNotReadyAddresses": true,
            "selector": labels(role),
            "ports": [{"name": ADMIN_PORT, "port": places.port, "targetPort": ADMIN_PORT}],
        },
    })
}

/// Peers that scrape metrics: Prometheus by the label that its charts and its operator give it, in a Namespace where a tenant
/// has no Pods.
pub(crate) fn scrapers() -> Vec<Value> {
    let namespaces = json!({"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["monitoring", "prometheus"]},
    ]});
    vec![json!({
        "namespaceSelector": namespaces,
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}},
    })]
}

/// Peers that ask the operations API without `kubectl port-forward`, such as a proxy before the console, and further scrapers.
pub(crate) fn operators() -> Vec<Value> {
    vec![json!({"namespaceSelector": {"matchLabels": {ADMITTED: "true"}}})]
}

/// Egress: DNS and API servers. Ingress: metrics and the operations API. The kubelet needs no rule for its probes: a policy
/// does not concern what a Pod's own node sends.
fn network_policy(role: &Role, places: &Places) -> Value {
    let dns = DNS_PORTS.map(|port| [json!({"protocol": "UDP", "port": port}), tcp(&json!(port))]);
    let mut ingress = Map::from_iter([("ports".to_owned(), json!([tcp(&places.port)]))]);
    ingress.extend(places.from.clone());
    let mut egress = Map::from_iter([("ports".to_owned(), places.api_server_ports.clone())]);
    egress.extend(places.to.clone());
    let mut rules = vec![json!({"ports": dns.concat()}), json!(egress)];
    rules.extend(places.egress.iter().cloned());
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": role.name, "namespace": NAMESPACE},
        "spec": {
            "podSelector": {"matchLabels": labels(role)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [ingress],
            "egress": rules,
        },
    })
}

fn disruption_budget(role: &Role) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": role.name, "namespace": NAMESPACE},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels(role)}},
    })
}

fn deployment(role: &Role, places: &Places) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": role.name, "namespace": NAMESPACE, "labels": labels(role)},
        "spec": {
            "replicas": places.replicas,
            // The standby takes over while the leader's successor starts.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}},
            "selector": {"matchLabels": labels(role)},
            "template": {"metadata": {"labels": labels(role)}, "spec": pod(role, places)},
        },
    })
}

/// The user is that of the image, or the one that `OpenShift` gives to the Namespace.
fn pod(role: &Role, places: &Places) -> Value {
    let mut pod = json!({
        "serviceAccountName": role.name,
        "automountServiceAccountToken": role.account,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": true,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": places.spread,
        "containers": [container(role, places)],
        "volumes": places.volumes,
    });
    merge(&mut pod, &places.pod);
    merge(&mut pod["securityContext"], &places.security);
    pod
}

fn container(role: &Role, places: &Places) -> Value {
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": PROBE_PORT}});
    let mut args = vec![json!(role.command)];
    args.extend(places.args.iter().cloned());
    let mut container = json!({
        "name": role.command,
        "image": places.image,
        "args": args,
        "ports": [
            {"name": ADMIN_PORT, "containerPort": places.port},
            {"name": PROBE_PORT, "containerPort": places.probe_port},
        ],
        "livenessProbe": probe("/livez"),
        "readinessProbe": probe("/readyz"),
        "resources": places.resources,
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": places.mounts,
    });
    merge(&mut container, &places.container);
    container
}

fn merge(object: &mut Value, fields: &Map<String, Value>) {
    if let Some(object) = object.as_object_mut() {
        object.extend(fields.clone());
    }
}
