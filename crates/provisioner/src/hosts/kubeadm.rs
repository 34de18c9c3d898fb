//! Configuration files of kubeadm (`kubeadm.k8s.io/v1beta4`). JSON is YAML.

use fedgate_api::cell::{EndpointType, Kubernetes, Machine, MachineRole};
use fedgate_operator::membership::kubeconfig::base64;
use serde_json::{Value, json};
use std::{fmt::Write, net::IpAddr};

const API_VERSION: &str = "kubeadm.k8s.io/v1beta4";
/// Port of an API server.
const PORT: u16 = 6443;
/// Port of HAProxy, which forwards to the API servers.
const BALANCER_PORT: u16 = 9998;
/// Socket of containerd, given because kubeadm does not choose if a machine has several container runtimes.
const CRI_SOCKET: &str = "unix:///var/run/containerd/containerd.sock";
/// Lifetime of the token in the configuration of `kubeadm init`. Nobody uses the token. It is given because kubeadm would make one for a
/// day.
const UNUSED_TOKEN_TTL: &str = "1m0s";

/// The cluster of a Cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Configuration<'a> {
    /// The settings of the Cell.
    pub(super) kubernetes: &'a Kubernetes,
    /// All machines.
    pub(super) machines: &'a [Machine],
    /// Address at which the hub reaches the cluster; empty if it is that of the first control plane or of the endpoint.
    pub(super) api_endpoint: &'a str,
}

impl<'a> Configuration<'a> {
    /// The first control plane.
    pub(super) fn leader(&self) -> Option<&'a Machine> {
        self.control_planes().next()
    }

    fn control_planes(&self) -> impl Iterator<Item = &'a Machine> {
        let all = self.machines.iter();
        all.filter(|machine| machine.role == MachineRole::ControlPlane)
    }

    /// Host and port at which machines reach the cluster.
    pub(super) fn endpoint(&self) -> String {
        let endpoint = &self.kubernetes.endpoint;
        match endpoint.type_ {
            EndpointType::External => endpoint.address.clone(),
            EndpointType::Leader | EndpointType::HaProxy => {
                let leader = self
                    .leader()
                    .map(|leader| host_port(node_address(leader), self.port()));
                leader.unwrap_or_default()
            }
        }
    }

    /// Address at which hub and provisioner reach the cluster.
    pub(super) fn server(&self) -> String {
        let endpoint = &self.kubernetes.endpoint;
        match endpoint.type_ {
            _ if !self.api_endpoint.is_empty() => self.api_endpoint.to_owned(),
            EndpointType::External => format!("https://{}", endpoint.address),
            EndpointType::Leader | EndpointType::HaProxy => {
                let leader = self
                    .leader()
                    .map(|leader| host_port(&leader.address, self.port()));
                format!("https://{}", leader.unwrap_or_default())
            }
        }
    }

    fn port(&self) -> u16 {
        match self.kubernetes.endpoint.type_ {
            EndpointType::HaProxy => BALANCER_PORT,
            EndpointType::Leader | EndpointType::External => PORT,
        }
    }

    /// The configuration of HAProxy on the first control plane; `None` unless the endpoint is HAProxy.
    pub(super) fn haproxy_config(&self) -> Option<String> {
        if self.kubernetes.endpoint.type_ != EndpointType::HaProxy {
            return None;
        }
        let is_v6 = self
            .control_planes()
            .any(|machine| node_address(machine).contains(':'));
        let (bind, families) = if is_v6 { ("::", " v4v6") } else { ("*", "") };
        let mut text = format!(
            "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n\
             listen api\n  bind {bind}:{BALANCER_PORT}{families}\n  default-server check inter 5s\n"
        );
        for machine in self.control_planes() {
            // Writing to a String does not fail.
            let _ = writeln!(
                text,
                "  server {} {}",
                machine.name,
                host_port(node_address(machine), PORT)
            );
        }
        Some(text)
    }

    /// The configuration of `kubeadm init`.
    pub(super) fn init_config(&self, leader: &Machine, token: &Token) -> String {
        let mut init = Self::init_configuration(leader);
        init["bootstrapTokens"] = json!([{"token": token.whole(), "ttl": UNUSED_TOKEN_TTL}]);
        documents(&[init, self.cluster_configuration()])
    }

    /// The configuration of `kubeadm init phase upload-certs`, which encrypts the certificates with `key`.
    pub(super) fn upload_certs_config(&self, leader: &Machine, key: &str) -> String {
        let mut init = Self::init_configuration(leader);
        init["certificateKey"] = json!(key);
        documents(&[init, self.cluster_configuration()])
    }

    /// The configuration of `kubeadm join`. With `key` the machine becomes a control plane. `discovery` is the path of a kubeconfig with
    /// the authority of the cluster and no credential.
    pub(super) fn join_config(
        machine: &Machine,
        discovery: &str,
        token: &Token,
        key: Option<&str>,
    ) -> String {
        let mut join = json!({
            "apiVersion": API_VERSION, "kind": "JoinConfiguration",
            "discovery": {"file": {"kubeConfigPath": discovery}, "tlsBootstrapToken": token.whole()},
            "nodeRegistration": registration(machine),
        });
        if let Some(key) = key {
            join["controlPlane"] = json!({"certificateKey": key,
                "localAPIEndpoint": {"advertiseAddress": node_address(machine), "bindPort": PORT}});
        }
        documents(&[join])
    }

    fn init_configuration(leader: &Machine) -> Value {
        json!({
            "apiVersion": API_VERSION, "kind": "InitConfiguration",
            "localAPIEndpoint": {"advertiseAddress": node_address(leader), "bindPort": PORT},
            "nodeRegistration": registration(leader),
        })
    }

    fn cluster_configuration(&self) -> Value {
        let Kubernetes {
            version,
            cni_manifest: _,
            pod_cidr,
            service_cidr,
            dns_domain,
            endpoint: _,
        } = self.kubernetes;
        json!({
            "apiVersion": API_VERSION, "kind": "ClusterConfiguration",
            "kubernetesVersion": version,
            "controlPlaneEndpoint": self.endpoint(),
            "networking": {"podSubnet": pod_cidr, "serviceSubnet": service_cidr, "dnsDomain": dns_domain},
            "apiServer": {"certSANs": self.cert_sans()},
        })
    }

    /// All names by which somebody reaches an API server of the cluster.
    fn cert_sans(&self) -> Vec<String> {
        let mut names = vec![host(&self.endpoint()).to_owned(), host(&self.server()).to_owned()];
        for machine in self.control_planes() {
            names.extend([machine.address.clone(), node_address(machine).to_owned()]);
        }
        // kubeadm accepts only lower case in certSANs.
        for name in &mut names {
            name.make_ascii_lowercase();
        }
        names.sort();
        names.dedup();
        names
    }
}

/// A bootstrap token, by which a machine joins.
#[derive(Debug, Clone)]
pub(super) struct Token {
    id: String,
    secret: String,
}

impl Token {
    /// A token of random hexadecimal digits: the first 6 are its name, and 16 are secret.
    pub(super) fn of(digits: &str) -> Option<Self> {
        let (id, secret) = (digits.get(..6)?, digits.get(6..22)?);
        Some(Self {
            id: id.to_owned(),
            secret: secret.to_owned(),
        })
    }

    fn whole(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }

    /// The Secret by which the cluster knows it until this time.
    pub(super) fn secret(&self, expiration: jiff::Timestamp) -> Value {
        let data = [
            ("token-id", self.id.as_str()),
            ("token-secret", &self.secret),
            ("expiration", &format!("{expiration:.0}")),
            ("usage-bootstrap-authentication", "true"),
            ("usage-bootstrap-signing", "true"),
            (
                "auth-extra-groups",
                "system:bootstrappers:kubeadm:default-node-token",
            ),
        ];
        let data: serde_json::Map<String, Value> = data
            .into_iter()
            .map(|(key, value)| (key.to_owned(), json!(base64(value.as_bytes()))))
            .collect();
        json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"namespace": "kube-system", "name": format!("bootstrap-token-{}", self.id)}, "data": data})
    }
}

/// The address of a machine for other machines.
pub(super) fn node_address(machine: &Machine) -> &str {
    if machine.node_address.is_empty() {
        &machine.address
    } else {
        &machine.node_address
    }
}

fn registration(machine: &Machine) -> Value {
    json!({"name": machine.name, "criSocket": CRI_SOCKET, "kubeletExtraArgs": [{"name": "node-ip", "value": node_address(machine)}]})
}

fn documents(all: &[Value]) -> String {
    let all: Vec<String> = all.iter().map(Value::to_string).collect();
    all.join("\n---\n")
}

fn host_port(address: &str, port: u16) -> String {
    match address.parse() {
        Ok(IpAddr::V6(address)) => format!("[{address}]:{port}"),
        _ => format!("{address}:{port}"),
    }
}

/// The host of an address `[https://]host[:port]`.
fn host(address: &str) -> &str {
    let rest = address.strip_prefix("https://").unwrap_or(address);
    let rest = rest.split('/').next().unwrap_or(rest);
    if let Some((host, _)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return host;
    }
    rest.split_once(':').map_or(rest, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedgate_api::cell::{Cell, Hosts, Provider};

    /// A Cell of three control planes and a worker, the first of which has another address for machines.
    fn cell(endpoint: &Value) -> (Kubernetes, Hosts) {
        let machine = |name: &str, role: &str, address: &str| json!({"name": name, "role": role, "address": address, "hostKey": "x"});
        let mut machines = vec![
            machine("cp1", "controlPlane", "CP1.example.com"),
            machine("cp2", "controlPlane", "192.0.2.2"),
            machine("cp3", "controlPlane", "2001:db8::3"),
            machine("w1", "worker", "192.0.2.4"),
        ];
        machines[0]["nodeAddress"] = json!("10.0.0.1");
        let cell: Cell =
            serde_json::from_value(json!({"metadata": {"name": "dfw-2"}, "spec": {"city": "DFW",
            "kubernetes": {"version": "v1.36.3", "endpoint": endpoint},
            "provider": {"hosts": {"sshKeySecret": "x", "machines": machines}}}}))
            .unwrap();
        match (cell.spec.kubernetes, cell.spec.provider) {
            (Some(kubernetes), Provider::Hosts(hosts)) => (kubernetes, hosts),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_endpoint_is_for_machines_and_the_server_for_hub_and_provisioner() {
        let table = [
            (json!({}), "", "10.0.0.1:6443", "https://CP1.example.com:6443"),
            (
                json!({"type": "HAProxy"}),
                "",
                "10.0.0.1:9998",
                "https://CP1.example.com:9998",
            ),
            (
                json!({"type": "External", "address": "lb:6443"}),
                "",
                "lb:6443",
                "https://lb:6443",
            ),
            (
                json!({}),
                "https://[2001:db8::9]:1",
                "10.0.0.1:6443",
                "https://[2001:db8::9]:1",
            ),
        ];
        for (endpoint, api_endpoint, of_machines, server) in table {
            let (kubernetes, hosts) = cell(&endpoint);
            let configuration = Configuration {
                kubernetes: &kubernetes,
                machines: &hosts.machines,
                api_endpoint,
            };
            assert_eq!(
                (&*configuration.endpoint(), &*configuration.server()),
                (of_machines, server)
            );
            assert_eq!(
                configuration.haproxy_config().is_some(),
                endpoint["type"] == "HAProxy"
            );
        }
    }

    #[test]
    fn certificates_are_for_every_address_of_a_control_plane() {
        let (kubernetes, hosts) = cell(&json!({"type": "HAProxy"}));
        let configuration = Configuration {
            kubernetes: &kubernetes,
            machines: &hosts.machines,
            api_endpoint: "https://api.example.com:443/x",
        };
        let names = [
            "10.0.0.1",
            "192.0.2.2",
            "2001:db8::3",
            "api.example.com",
            "cp1.example.com",
        ];
        assert_eq!(configuration.cert_sans(), names);
        let balancer = configuration.haproxy_config().unwrap();
        // cp3 has an IPv6 address, so that HAProxy listens on both families.
        assert!(balancer.contains("bind :::9998 v4v6\n"), "{balancer}");
        assert!(balancer.ends_with(
            "  server cp1 10.0.0.1:6443\n  server cp2 192.0.2.2:6443\n  server cp3 [2001:db8::3]:6443\n"
        ));
    }

    #[test]
    fn a_token_is_known_to_the_cluster_by_a_secret_that_ends() {
        let token = Token::of(&"0123456789abcdef".repeat(4)).unwrap();
        assert_eq!(token.whole(), "012345.6789abcdef012345");
        let secret = token.secret("2026-01-01T00:30:00.5Z".parse().unwrap());
        assert_eq!(secret["metadata"]["name"], "bootstrap-token-012345");
        let value = |key: &str| {
            let value = fedgate_kubeconfig::from_base64(secret["data"][key].as_str().unwrap());
            String::from_utf8(value.unwrap()).unwrap()
        };
        assert_eq!(value("token-secret"), "6789abcdef012345");
        assert_eq!(value("expiration"), "2026-01-01T00:30:00Z");
        assert_eq!(
            value("auth-extra-groups"),
            "system:bootstrappers:kubeadm:default-node-token"
        );
    }
}
