//! Renders the Pod of an Instance.

use crate::{
    instance_types::{InstanceTypes, Unsized},
    rollout::labels::Labels,
    settings::{PodSettings, Security},
    writes::{MANAGED_BY, controlled_by},
};
use fedgate_api::keys;
use fedgate_engine::object::entries;
use serde_json::{Map, Value, json};

impl Security {
    /// Security context of a Pod.
    fn of_pod(self) -> Value {
        match self {
            Self::Restricted => json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}),
            Self::Baseline => json!({"seccompProfile": {"type": "RuntimeDefault"}}),
            Self::Privileged => Value::Null,
        }
    }

    /// Security context of each container.
    fn of_container(self) -> Value {
        match self {
            Self::Restricted => json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}),
            Self::Baseline => json!({"allowPrivilegeEscalation": false}),
            Self::Privileged => Value::Null,
        }
    }
}

/// The fields of an Instance that a provider reads.
#[derive(Debug, Clone, Copy)]
pub struct ProvidedInstance<'a> {
    /// Namespace of the Instance.
    pub namespace: &'a str,
    /// Name of the Instance.
    pub name: &'a str,
    /// UID of the Instance.
    pub uid: &'a str,
    /// Labels of the Instance.
    pub labels: &'a Labels,
    /// Spec of the Instance.
    pub spec: &'a Value,
}

impl ProvidedInstance<'_> {
    /// Metadata of the Instance's objects: its name, the labels of the provider, and the owner reference.
    pub(super) fn metadata(&self) -> Value {
        json!({
            "name": self.name,
            "namespace": self.namespace,
            "labels": self.owned_labels(),
            "ownerReferences": controlled_by("Instance", self.name, self.uid),
        })
    }

    /// Labels of the Instance's Pod, Service and `NetworkPolicy`.
    pub fn owned_labels(&self) -> Value {
        let linking = self
            .labels
            .iter()
            .filter(|(key, _)| keys::LINKING.contains(&&**key));
        let mut labels: Map<String, Value> = linking
            .map(|(key, value)| (key.to_string(), json!(**value)))
            .collect();
        labels.insert(MANAGED_BY.0.to_owned(), json!(MANAGED_BY.1));
        labels.insert(keys::INSTANCE_UID.to_owned(), json!(self.uid));
        Value::Object(labels)
    }

    fn containers(&self) -> &[Value] {
        entries(&self.spec["runtime"]["sandbox"]["containers"])
    }
}

/// Reason why an Instance cannot run as a Pod.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedSpec {
    /// The Instance is a virtual machine.
    #[error("this provider runs containers only")]
    VirtualMachine,
    /// Two containers serve the same port and protocol.
    #[error("port {0}/{1} is used twice; give each container a port of its own")]
    PortTwice(i64, String),
    /// A rule admits a peer that no `NetworkPolicy` can express; the peer's field path.
    #[error("spec.{0} has no ipBlock, and no policy can say whom it means")]
    PeerWithoutBlock(String),
    /// The template limits ingress, but the cell has no `NetworkPolicies`.
    #[error(
        "spec.networkInterfaces: networkPolicy.ingress cannot be enforced at this cell, which makes no NetworkPolicies"
    )]
    Unlimited,
    /// The resources of the template cannot be determined.
    #[error("spec.{0}")]
    Unsized(#[from] Unsized),
}

/// Protocol of a port.
pub(super) fn protocol(port: &Value) -> &str {
    let protocol = port["protocol"].as_str().filter(|p| !p.is_empty());
    protocol.unwrap_or("TCP")
}

/// Number, protocol and name of each port of an Instance, in order.
pub fn ports(instance: &ProvidedInstance<'_>) -> Result<Vec<(i64, String, String)>, UnsupportedSpec> {
    let mut ports: Vec<(i64, String, String)> = Vec::new();
    for port in instance.containers().iter().flat_map(|c| entries(&c["ports"])) {
        let number = port["port"].as_i64().unwrap_or_default();
        let protocol = protocol(port);
        if ports.iter().any(|(n, p, _)| *n == number && p == protocol) {
            return Err(UnsupportedSpec::PortTwice(number, protocol.to_owned()));
        }
        let name = port["name"].as_str().unwrap_or_default();
        ports.push((number, protocol.to_owned(), name.to_owned()));
    }
    Ok(ports)
}

/// Names of the volumes that a Pod does not get: disks.
pub fn skipped<'a>(instance: &ProvidedInstance<'a>) -> impl Iterator<Item = &'a str> {
    let volumes = entries(&instance.spec["volumes"]).iter();
    let disks = volumes.filter(|volume| !volume["disk"].is_null());
    disks.filter_map(|volume| volume["name"].as_str())
}

/// Renders the Pod, or returns the reason why the spec is unsupported.
pub fn render(
    instance: &ProvidedInstance<'_>,
    settings: &PodSettings,
    sizes: &InstanceTypes,
) -> Result<Value, UnsupportedSpec> {
    if !instance.spec["runtime"]["virtualMachine"].is_null() {
        return Err(UnsupportedSpec::VirtualMachine);
    }
    ports(instance)?;
    let footprint = sizes.footprint(instance.spec)?;
    let volumes = volumes(instance);
    let containers = instance.containers().iter().zip(&footprint.limits);
    let containers: Vec<Value> = containers
        .map(|(of, limits)| container(of, limits, &volumes, settings.pod_security))
        .collect();
    let mut spec = json!({
        "restartPolicy": "Always",
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "containers": containers,
    });
    let optional = [
        ("securityContext", settings.pod_security.of_pod()),
        ("volumes", Value::Array(volumes)),
        (
            "imagePullSecrets",
            instance.spec["runtime"]["sandbox"]["imagePullSecrets"].clone(),
        ),
        (
            "terminationGracePeriodSeconds",
            grace_period(&instance.spec["runtime"]["sandbox"]["terminationGracePeriodSeconds"]),
        ),
        ("nodeSelector", object(&settings.node_selector)),
        ("tolerations", json!(settings.tolerations)),
        ("runtimeClassName", json!(settings.runtime_class)),
    ];
    for (field, value) in optional {
        set(&mut spec, field, value);
    }
    let mut metadata = instance.metadata();
    set(&mut metadata, "annotations", object(&settings.annotations));
    Ok(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
}

/// The grace period within the bounds of the Workload's definition. With 0 the API server would delete a Pod without the word of its
/// node, so that another one could run beside it.
fn grace_period(seconds: &Value) -> Value {
    json!(seconds.as_i64().map(|seconds| seconds.clamp(1, 3600)))
}

fn volumes(instance: &ProvidedInstance<'_>) -> Vec<Value> {
    let volumes = entries(&instance.spec["volumes"]).iter();
    volumes
        .filter(|volume| volume["disk"].is_null())
        .cloned()
        .collect()
}

/// Pairs as an object.
fn object(pairs: &[(String, String)]) -> Value {
    let pairs = pairs.iter();
    pairs.map(|(key, value)| (key.clone(), json!(value))).collect()
}

/// Sets a field unless the value is empty.
fn set(into: &mut Value, field: &str, value: Value) {
    let empty = match &value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    if !empty {
        into[field] = value;
    }
}

fn container(of: &Value, limits: &Value, volumes: &[Value], security: Security) -> Value {
    let mut container = json!({"name": of["name"], "image": of["image"]});
    for field in [
        "command",
        "args",
        "env",
        "envFrom",
        "startupProbe",
        "readinessProbe",
        "livenessProbe",
        "lifecycle",
    ] {
        set(&mut container, field, of[field].clone());
    }
    let ports = entries(&of["ports"])
        .iter()
        .map(|port| json!({"name": port["name"], "containerPort": port["port"], "protocol": protocol(port)}));
    set(&mut container, "ports", ports.collect());
    let attached = |attachment: &&Value| volumes.iter().any(|v| v["name"] == attachment["name"]);
    let mounts = entries(&of["volumeAttachments"]).iter();
    let mounts = mounts
        .filter(attached)
        .filter(|attachment| attachment["mountPath"].is_string())
        .map(|attachment| json!({"name": attachment["name"], "mountPath": attachment["mountPath"]}));
    set(&mut container, "volumeMounts", mounts.collect());
    container["resources"] = json!({"requests": limits, "limits": limits});
    set(&mut container, "securityContext", security.of_container());
    container
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> Labels {
        [
            ("app", "storefront"),
            (keys::INSTANCE_INDEX, "0"),
            (keys::WORKLOAD_NAME, "storefront"),
        ]
        .into_iter()
        .collect()
    }

    fn instance<'a>(spec: &'a Value, labels: &'a Labels) -> ProvidedInstance<'a> {
        ProvidedInstance {
            namespace: "ns-1",
            name: "web-us-dfw-0",
            uid: "uid-0",
            labels,
            spec,
        }
    }

    fn one() -> Value {
        json!({
            "runtime": {
                "resources": {"instanceType": "datumcloud/d1-standard-2"},
                "sandbox": {
                    "containers": [{
                        "name": "web", "image": "shop/web:1.4.2", "command": ["/bin/web"], "args": ["--listen", ":8080"],
                        "env": [{"name": "DB", "valueFrom": {"secretKeyRef": {"name": "db", "key": "url"}}}],
                        "envFrom": [{"configMapRef": {"name": "web-env"}}],
                        "ports": [{"name": "http", "port": 8080}],
                        "volumeAttachments": [
                            {"name": "settings", "mountPath": "/etc/web"}, {"name": "raw"}, {"name": "data", "mountPath": "/data"}],
                        "startupProbe": {"tcpSocket": {"port": 8080}}, "livenessProbe": {"grpc": {"port": 9000}},
                        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 1},
                        "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
                    }],
                    "terminationGracePeriodSeconds": 10,
                    "imagePullSecrets": [{"name": "pull"}],
                },
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
            "volumes": [
                {"name": "settings", "configMap": {"name": "web-settings", "defaultMode": 420}},
                {"name": "raw", "secret": {"secretName": "keys"}},
                {"name": "data", "disk": {"template": {"spec": {"type": "pd-standard"}}}},
            ],
        })
    }

    #[test]
    fn a_pod_is_the_template_and_the_settings_and_nothing_else() {
        let (spec, labels) = (one(), labels());
        let settings = PodSettings {
            node_selector: [("type".to_owned(), "virtual".to_owned())].into(),
            tolerations: vec![json!({"key": "virtual", "operator": "Exists"})],
            runtime_class: Some("kraft".to_owned()),
            annotations: [("example.com/network".to_owned(), "default".to_owned())].into(),
            ..PodSettings::default()
        };
        let size = json!({"cpu": "1000m", "memory": "2048Mi"});
        assert_eq!(
            render(&instance(&spec, &labels), &settings, &InstanceTypes::default()).unwrap(),
            json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": "web-us-dfw-0",
                    "namespace": "ns-1",
                    "labels": {
                        "app.kubernetes.io/managed-by": "fedgate", "fedgate.dev/instance-uid": "uid-0",
                        "compute.datumapis.com/instance-index": "0", "compute.datumapis.com/workload-name": "storefront",
                    },
                    "annotations": {"example.com/network": "default"},
                    "ownerReferences": [{
                        "apiVersion": "compute.datumapis.com/v1alpha", "kind": "Instance", "name": "web-us-dfw-0",
                        "uid": "uid-0", "controller": true, "blockOwnerDeletion": true,
                    }],
                },
                "spec": {
                    "restartPolicy": "Always", "automountServiceAccountToken": false, "enableServiceLinks": false,
                    "containers": [{
                        "name": "web", "image": "shop/web:1.4.2", "command": ["/bin/web"], "args": ["--listen", ":8080"],
                        "env": spec["runtime"]["sandbox"]["containers"][0]["env"],
                        "envFrom": [{"configMapRef": {"name": "web-env"}}],
                        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                        "volumeMounts": [{"name": "settings", "mountPath": "/etc/web"}],
                        "startupProbe": {"tcpSocket": {"port": 8080}}, "livenessProbe": {"grpc": {"port": 9000}},
                        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 1},
                        "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
                        "resources": {"requests": size, "limits": size},
                        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                    }],
                    "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                    "volumes": [spec["volumes"][0], spec["volumes"][1]],
                    "imagePullSecrets": [{"name": "pull"}],
                    "terminationGracePeriodSeconds": 10,
                    "nodeSelector": {"type": "virtual"},
                    "tolerations": [{"key": "virtual", "operator": "Exists"}],
                    "runtimeClassName": "kraft",
                },
            })
        );
        assert_eq!(skipped(&instance(&spec, &labels)).collect::<Vec<_>>(), ["data"]);
    }

    #[test]
    fn a_runtime_that_needs_more_gets_it_by_a_setting() {
        let (spec, labels) = (one(), labels());
        let contexts = |security| {
            let settings = PodSettings {
                pod_security: security,
                ..PodSettings::default()
            };
            let pod = render(&instance(&spec, &labels), &settings, &InstanceTypes::default()).unwrap();
            let of = &pod["spec"];
            let own = &of["containers"][0]["securityContext"];
            (of["securityContext"].clone(), own.clone())
        };
        let seccomp = json!({"seccompProfile": {"type": "RuntimeDefault"}});
        assert_eq!(
            contexts(Security::Baseline),
            (seccomp, json!({"allowPrivilegeEscalation": false}))
        );
        assert_eq!(contexts(Security::Privileged), (Value::Null, Value::Null));
    }

    #[test]
    fn containers_share_the_instance_unless_they_have_limits_of_their_own() {
        let labels = labels();
        let mut spec = one();
        let limits = json!({"memory": "64Mi"});
        spec["runtime"]["sandbox"]["containers"] = json!([
            {"name": "a", "image": "a"}, {"name": "b", "image": "b", "resources": {"limits": limits}},
        ]);
        let pod = render(
            &instance(&spec, &labels),
            &PodSettings::default(),
            &InstanceTypes::default(),
        )
        .unwrap();
        let containers = &pod["spec"]["containers"];
        for (n, limits) in [
            json!({"cpu": "500m", "memory": "1984Mi"}),
            json!({"cpu": "500m", "memory": "64Mi"}),
        ]
        .into_iter()
        .enumerate()
        {
            let resources = json!({"requests": limits, "limits": limits});
            assert_eq!(containers[n]["resources"], resources);
        }
        spec["runtime"]["resources"]["instanceType"] = json!("unheard-of");
        let refused = render(
            &instance(&spec, &labels),
            &PodSettings::default(),
            &InstanceTypes::default(),
        );
        assert!(matches!(refused, Err(UnsupportedSpec::Unsized(_))), "{refused:?}");
    }

    #[test]
    fn what_cannot_run_as_a_pod_says_why() {
        let labels = labels();
        let machine = json!({"runtime": {"virtualMachine": {"volumeAttachments": [{"name": "boot"}]}}});
        assert_eq!(
            render(
                &instance(&machine, &labels),
                &PodSettings::default(),
                &InstanceTypes::default()
            ),
            Err(UnsupportedSpec::VirtualMachine)
        );
        let mut spec = one();
        let ports = |protocol: &str| json!([{"name": "p", "port": 53, "protocol": protocol}]);
        spec["runtime"]["sandbox"]["containers"] = json!([
            {"name": "a", "image": "a", "ports": ports("TCP")}, {"name": "b", "image": "b", "ports": ports("UDP")},
        ]);
        assert!(
            render(
                &instance(&spec, &labels),
                &PodSettings::default(),
                &InstanceTypes::default()
            )
            .is_ok()
        );
        spec["runtime"]["sandbox"]["containers"][1]["ports"] = ports("");
        assert_eq!(
            render(
                &instance(&spec, &labels),
                &PodSettings::default(),
                &InstanceTypes::default()
            ),
            Err(UnsupportedSpec::PortTwice(53, "TCP".to_owned()))
        );
    }
}
