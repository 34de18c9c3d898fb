//! The values of the chart, each with default, meaning and schema: `values.yaml`, `values.schema.json` and the page of the
//! reference are made of them.

use super::{Flags, PLANES, schema::of_type};
use crate::{
    ADMIN_SECRET, NAMESPACE,
    deployment::{
        ADMIN_PORT_NUMBER, API_SERVER_PORTS, CELL_ROLE, FS_GROUP, GATEWAY_ROLE, HUB_SECRET,
        PROBE_PORT_NUMBER, RETURNS_ROLE, Role, operators, resources, scrapers,
    },
};
use k8s_openapi::api::{
    core::v1::{
        Affinity, CSIVolumeSource, ConfigMapVolumeSource, ProjectedVolumeSource, ResourceRequirements,
        SecretVolumeSource, Toleration,
    },
    networking::v1::{NetworkPolicyEgressRule, NetworkPolicyPeer},
    rbac::v1::Subject,
};
use serde_json::{Value, json};

/// A flag of a role, as a value of the chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Flag {
    /// The flag without its dashes.
    pub name: String,
    /// Its meaning.
    pub meaning: String,
    /// The schema of its values.
    pub schema: Value,
    /// The value that the program takes without the flag.
    pub default: Option<Value>,
}

/// A value, or a section of values.
pub(super) struct Entry {
    pub(super) path: String,
    /// `None` is a section, or a value that must be given.
    pub(super) default: Option<Value>,
    pub(super) meaning: String,
    /// `None` is a section.
    pub(super) schema: Option<Value>,
}

fn value(path: &str, default: Value, meaning: &str, schema: Value) -> Entry {
    Entry {
        path: path.to_owned(),
        default: Some(default),
        meaning: meaning.to_owned(),
        schema: Some(schema),
    }
}

fn section(path: &str, meaning: &str) -> Entry {
    Entry {
        path: path.to_owned(),
        default: None,
        meaning: meaning.to_owned(),
        schema: None,
    }
}

fn flag() -> Value {
    json!({"type": "boolean"})
}

/// The name of an object, or none.
fn name() -> Value {
    json!({"type": "string", "pattern": "^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?$"})
}

/// A part of a value, with its meaning.
fn described(mut schema: Value, meaning: &str) -> Value {
    schema["description"] = json!(meaning);
    schema
}

fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

fn map() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}

fn port() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": 65535})
}

/// All values, each behind its section.
pub(super) fn all(flags: &Flags) -> Vec<Entry> {
    let mut all = vec![Entry {
        path: "planes".to_owned(),
        default: None,
        meaning: "What this release is for; it must be given. Definitions, roles and policies of a plane: hub, project, \
                  cell. The gateway's Pods: host. The Pods of a cell's program: cell-host. Those that return a member's \
                  Secrets: returns-host. A release belongs to one \
                  cluster and may have several; a hub is neither project nor cell, whose roles have other rights under \
                  the same names."
            .to_owned(),
        schema: Some(json!({
            "type": "array",
            "items": {"enum": PLANES},
            "minItems": 1,
            "uniqueItems": true,
            "not": {"allOf": [
                {"contains": {"const": "hub"}},
                {"contains": {"enum": ["project", "cell"]}},
            ]},
        })),
    }];
    all.extend(common());
    all.extend(role(&GATEWAY_ROLE, &flags.gateway));
    all.extend(role(&CELL_ROLE, &flags.cell));
    all.extend(role(&RETURNS_ROLE, &flags.returns));
    all.push(value(
        "cell.name",
        json!(""),
        "Name of the Karmada Cluster of a cell or member. Empty: key name of ConfigMap fedgate-cell; a cell without a hub \
         needs none.",
        name(),
    ));
    all.push(topology_spread());
    all.push(value(
        "fsGroup",
        json!(FS_GROUP),
        "Group that owns mounted Secrets. 0: none, where the cluster gives each Pod user and group, as OpenShift does.",
        json!({"type": "integer", "minimum": 0}),
    ));
    all.extend(credentials());
    all.extend(network());
    all.extend(monitoring());
    all
}

fn common() -> Vec<Entry> {
    let pull = json!({"enum": ["", "Always", "IfNotPresent", "Never"]});
    vec![
        section(
            "crds",
            "Definitions of Workload, WorkloadDeployment and Instance.",
        ),
        value(
            "crds.install",
            json!(true),
            "Install and upgrade them on hub, project and cell. They stay when the release is uninstalled.",
            flag(),
        ),
        section("image", "Image of gateway and cell."),
        value(
            "image.repository",
            json!("fedgate"),
            "Registry and repository.",
            json!({"type": "string", "pattern": "^[a-z0-9][a-zA-Z0-9._:/-]*$"}),
        ),
        value(
            "image.tag",
            json!(""),
            "Tag. Empty: the chart's appVersion.",
            json!({"type": "string", "pattern": "^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$"}),
        ),
        value(
            "image.digest",
            json!(""),
            "Digest, which wins over the tag: sha256:…",
            json!({"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}),
        ),
        value(
            "image.pullPolicy",
            json!(""),
            "Always, IfNotPresent or Never. Empty: as Kubernetes decides by the tag.",
            pull,
        ),
        value(
            "image.pullSecrets",
            json!([]),
            "Names of Secrets in fedgate-system with credentials of the registry.",
            list(&json!({"type": "string", "minLength": 1})),
        ),
    ]
}

/// The values that gateway and cell both have.
fn role(role: &Role, flags: &[Flag]) -> Vec<Entry> {
    let of = |field: &str| format!("{}.{field}", role.command);
    let command = role.command;
    let volume = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["name", "mountPath", "source"],
        "properties": {
            "name": {
                "type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
                "description": "Name of the volume.",
            },
            "mountPath": {"type": "string", "pattern": "^/", "description": "Where it is in the container."},
            "source": {
                "description": "What is in it: one of these.",
                "type": "object", "additionalProperties": false, "minProperties": 1, "maxProperties": 1,
                "properties": {
                    "configMap": described(of_type::<ConfigMapVolumeSource>(), "A ConfigMap of fedgate-system."),
                    "secret": described(of_type::<SecretVolumeSource>(), "A Secret of fedgate-system."),
                    "projected": described(of_type::<ProjectedVolumeSource>(), "Several sources in one folder."),
                    "csi": described(of_type::<CSIVolumeSource>(), "A volume of a CSI driver."),
                },
            },
        },
    });
    let mut properties = json!({});
    for flag in flags {
        let mut schema = described(flag.schema.clone(), &format!("{}.", flag.meaning));
        if let Some(default) = &flag.default {
            schema["default"] = default.clone();
        }
        properties[&flag.name] = schema;
    }
    let flags = json!({"type": "object", "additionalProperties": false, "properties": properties});
    vec![
        section(command, &format!("The Pods of fedgate {command}.")),
        value(
            &of("replicas"),
            json!(2),
            "Number of Pods. One writes, the others stand by.",
            json!({"type": "integer", "minimum": 0}),
        ),
        value(
            &of("flags"),
            json!({}),
            &format!(
                "Flags of fedgate {command} without their dashes, such as log-level: debug. All of them: \
                 docs/reference/{command}.md. Those that other values set are not among them."
            ),
            flags,
        ),
        value(
            &of("resources"),
            resources(role),
            "Requests and limits.",
            of_type::<ResourceRequirements>(),
        ),
        value(
            &of("nodeSelector"),
            json!({}),
            "Labels of nodes that may run the Pods.",
            map(),
        ),
        value(
            &of("tolerations"),
            json!([]),
            "Taints of nodes that the Pods tolerate.",
            list(&of_type::<Toleration>()),
        ),
        value(
            &of("affinity"),
            json!({}),
            "Affinity of the Pods.",
            of_type::<Affinity>(),
        ),
        value(
            &of("priorityClassName"),
            json!(""),
            "Priority class of the Pods.",
            name(),
        ),
        value(
            &of("extraVolumes"),
            json!([]),
            "Further volumes, read-only: name, mountPath, and as source one of configMap, secret, projected, csi.",
            list(&volume),
        ),
    ]
}

fn topology_spread() -> Entry {
    let spread = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["topologyKey", "whenUnsatisfiable"],
        "properties": {
            "topologyKey": {"type": "string", "minLength": 1, "description": "Label of nodes whose values are the places."},
            "whenUnsatisfiable": {
                "enum": ["ScheduleAnyway", "DoNotSchedule"],
                "description": "Whether a Pod that cannot be spread runs nevertheless.",
            },
            "maxSkew": {
                "type": "integer", "minimum": 1, "default": 1,
                "description": "By how many Pods two places may differ.",
            },
        },
    });
    let over = |key: &str| json!({"topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway"});
    value(
        "topologySpread",
        json!([
            over("kubernetes.io/hostname"),
            over("topology.kubernetes.io/zone")
        ]),
        "Over which nodes the Pods of a role are spread; each version by itself.",
        list(&spread),
    )
}

fn credentials() -> Vec<Entry> {
    vec![
        section(
            "admin",
            "The address of metrics and the operations API, and that of the probes.",
        ),
        value(
            "admin.port",
            json!(ADMIN_PORT_NUMBER),
            "Its port, also of Service fedgate-gateway.",
            port(),
        ),
        value(
            "admin.probePort",
            json!(PROBE_PORT_NUMBER),
            "Other port, of /livez and /readyz for the kubelet, without TLS. No NetworkPolicy admits anybody else to it.",
            port(),
        ),
        value(
            "admin.auth",
            json!("token"),
            "Tokens that it accepts: token, that of the Secret alone; hub, those of the hub's users too. The releases of \
             hub and host need the same.",
            json!({"enum": ["token", "hub"]}),
        ),
        value(
            "admin.existingSecret",
            json!(ADMIN_SECRET),
            "Secret in fedgate-system with the token as key token. The chart never makes one. fedgate status looks for \
             fedgate-admin.",
            json!({"type": "string", "minLength": 1, "pattern": name()["pattern"]}),
        ),
        section("admin.tls", "TLS of metrics and the operations API."),
        value(
            "admin.tls.secretName",
            json!(""),
            "Secret with tls.crt and tls.key, and with ca.crt for monitors. Empty: no TLS.",
            name(),
        ),
        section("hub", "The Karmada hub, for the Pods."),
        value(
            "hub.existingSecret",
            json!(HUB_SECRET),
            "Secret in fedgate-system with the kubeconfig of gateway or cell for the hub as key kubeconfig. Empty: a cell \
             without a hub.",
            name(),
        ),
        section("projects", "Where the gateway finds the projects."),
        value(
            "projects.mode",
            json!("secrets"),
            "secrets: each labelled Secret of a namespace of the hub. directory: each key of existingSecret. single: one. milo: \
             each Project of Milo that is ready.",
            json!({"enum": ["secrets", "directory", "single", "milo"]}),
        ),
        value(
            "projects.secretsNamespace",
            json!(NAMESPACE),
            "Mode secrets: the namespace.",
            json!({"type": "string", "minLength": 1, "pattern": name()["pattern"]}),
        ),
        value(
            "projects.existingSecret",
            json!(""),
            "Secret in fedgate-system. Mode directory: a kubeconfig for each project, as key PROJECT.yaml. Mode single: \
             the project's, as key kubeconfig. Mode milo: the kubeconfig for all projects, as key kubeconfig; without it, the \
             Pod's service account. Mode secrets: key kubeconfig for the plane that holds the Secrets, if it is not the hub.",
            name(),
        ),
        value(
            "projects.tokenAudience",
            json!(""),
            "Audience of a token of the gateway's service account, which the kubelet renews in \
             /etc/fedgate/project-token/token: tokenFile of a kubeconfig in existingSecret, for API servers that accept the \
             tokens of this cluster. Empty: no such token.",
            json!({"type": "string"}),
        ),
    ]
}

fn network() -> Vec<Entry> {
    let peers = list(&of_type::<NetworkPolicyPeer>());
    vec![
        section(
            "networkPolicy",
            "Who may reach the Pods, and what they may reach.",
        ),
        value(
            "networkPolicy.enabled",
            json!(true),
            "Make NetworkPolicies.",
            flag(),
        ),
        value(
            "networkPolicy.apiServerPorts",
            json!(API_SERVER_PORTS),
            "Ports of the API servers of hub, projects and cell.",
            json!({"type": "array", "items": port(), "minItems": 1}),
        ),
        value(
            "networkPolicy.apiServerCIDRs",
            json!([]),
            "Addresses of these API servers. Empty: any.",
            list(&json!({"type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]{1,3}$"})),
        ),
        value(
            "networkPolicy.extraEgress",
            json!([]),
            "Further rules for egress, as in a NetworkPolicy, e.g. to a proxy or to name servers not at 53 or 5353.",
            list(&of_type::<NetworkPolicyEgressRule>()),
        ),
        value(
            "networkPolicy.scrapeFrom",
            json!(scrapers()),
            "Peers that scrape metrics, as in a NetworkPolicy. The peers of this list and of consoleFrom may reach admin.port; \
             nobody else may, but anybody if both lists are empty.",
            peers.clone(),
        ),
        value(
            "networkPolicy.consoleFrom",
            json!(operators()),
            "Peers that ask the operations API, as in a NetworkPolicy. What comes by kubectl port-forward, as fedgate status \
             does, needs none.",
            peers,
        ),
    ]
}

fn monitoring() -> Vec<Entry> {
    let subjects = list(&of_type::<Subject>());
    vec![
        section(
            "monitoring",
            "Objects of prometheus-operator and Grafana, where the Pods run.",
        ),
        value(
            "monitoring.kind",
            json!("none"),
            "none, ServiceMonitor or PodMonitor. A cell's program has no Service, so it gets a PodMonitor in either case.",
            json!({"enum": ["none", "ServiceMonitor", "PodMonitor"]}),
        ),
        value(
            "monitoring.labels",
            json!({}),
            "Labels by which Prometheus selects monitors and rules.",
            map(),
        ),
        value(
            "monitoring.interval",
            json!("30s"),
            "How often is scraped.",
            json!({"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"}),
        ),
        section("monitoring.rules", "Alerts."),
        value(
            "monitoring.rules.enabled",
            json!(false),
            "Make a PrometheusRule.",
            flag(),
        ),
        value(
            "monitoring.rules.runbookBase",
            json!("docs/runbooks"),
            "Address below which the runbooks are, without a slash at its end.",
            json!({"type": "string", "pattern": "^[^\\s\"{}]*[^/\\s\"{}]$"}),
        ),
        section("monitoring.dashboard", "The dashboard."),
        value(
            "monitoring.dashboard.enabled",
            json!(false),
            "Make a ConfigMap with label grafana_dashboard, which Grafana's sidecar reads.",
            flag(),
        ),
        section("operator", "Users of fedgate status, stuck, trace and journal."),
        value(
            "operator.subjects",
            json!([]),
            "They get Role fedgate-operator where the Pods run.",
            subjects.clone(),
        ),
        section(
            "viewer",
            "Users of the operations API with tokens of the hub (admin.auth: hub).",
        ),
        value(
            "viewer.subjects",
            json!([]),
            "They get ClusterRole fedgate-operations-viewer on the hub.",
            subjects,
        ),
    ]
}
