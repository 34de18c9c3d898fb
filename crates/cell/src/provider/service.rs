//! Renders the Service of an Instance.

use super::pod::{ProvidedInstance, UnsupportedSpec, ports};
use fedgate_api::keys;
use serde_json::{Value, json};

/// Renders the Service; `None` if the Instance has no ports. With `single_port_443` a single port is served as 443.
pub fn render(
    instance: &ProvidedInstance<'_>,
    single_port_443: bool,
) -> Result<Option<Value>, UnsupportedSpec> {
    let ports = ports(instance)?;
    if ports.is_empty() {
        return Ok(None);
    }
    let only = ports.len() == 1;
    let ports: Vec<Value> = ports
        .into_iter()
        .map(|(number, protocol, name)| {
            let at = if only && single_port_443 { 443 } else { number };
            // Two containers may use the same port name, but the names of a Service's ports must be unique: number and
            // protocol are.
            let label = format!("{}-{number}", protocol.to_lowercase());
            let name = if only && !name.is_empty() { name } else { label };
            json!({"name": name, "port": at, "targetPort": number, "protocol": protocol})
        })
        .collect();
    Ok(Some(json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": instance.metadata(),
        "spec": {"selector": {keys::INSTANCE_UID: instance.uid}, "ports": ports},
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::labels::Labels;

    fn ports_of(ports: &Value, single_port_443: bool) -> Value {
        let spec = json!({"runtime": {"sandbox": {"containers": [{"name": "a", "ports": ports}]}}});
        let instance = ProvidedInstance {
            namespace: "ns-1",
            name: "web-0",
            uid: "uid-0",
            labels: &Labels::default(),
            spec: &spec,
        };
        let service = render(&instance, single_port_443).unwrap();
        service.map_or(Value::Null, |service| {
            assert_eq!(
                service["spec"]["selector"],
                json!({"fedgate.dev/instance-uid": "uid-0"})
            );
            service["spec"]["ports"].clone()
        })
    }

    #[test]
    fn each_port_is_served_under_its_own_number() {
        assert_eq!(ports_of(&json!([]), false), Value::Null);
        let http = json!([{"name": "http", "port": 8080}]);
        let served = |at: i64| json!([{"name": "http", "port": at, "targetPort": 8080, "protocol": "TCP"}]);
        assert_eq!(ports_of(&http, false), served(8080));
        assert_eq!(ports_of(&http, true), served(443));
        let dns = json!([{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53}]);
        assert_eq!(
            ports_of(&dns, true),
            json!([
                {"name": "udp-53", "port": 53, "targetPort": 53, "protocol": "UDP"},
                {"name": "tcp-53", "port": 53, "targetPort": 53, "protocol": "TCP"},
            ])
        );
    }
}
