//! Images, ports, variables and resources of a runtime.

use super::Lines;
use serde_json::Value;

/// `sandbox/<type>` or `vm/<type>`.
pub(super) fn kind(runtime: &Value) -> String {
    let kind = if runtime["virtualMachine"].is_null() {
        "sandbox"
    } else {
        "vm"
    };
    let type_ = runtime["resources"]["instanceType"].as_str().unwrap_or("-");
    format!("{kind}/{type_}")
}

/// The containers; a virtual machine has none.
pub(super) fn containers(lines: &mut Lines, runtime: &Value) {
    let containers = list(&runtime["sandbox"]["containers"]);
    if !containers.is_empty() {
        lines.line("Containers:");
    }
    for container in containers {
        lines.line(&format!("  {}", text(&container["name"])));
        for (name, value) in [
            ("Image", text(&container["image"]).to_owned()),
            ("Ports", ports(container)),
            ("Env", env(container)),
            ("Resources", resources(container)),
        ] {
            let value = if value.is_empty() { "-" } else { &value };
            lines.line(&format!("    {:<11}{value}", format!("{name}:")));
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn ports(container: &Value) -> String {
    let ports = list(&container["ports"]).iter().map(|port| {
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        format!("{} {}/{protocol}", text(&port["name"]), port["port"])
    });
    ports.collect::<Vec<_>>().join(", ")
}

fn env(container: &Value) -> String {
    let own = list(&container["env"]).iter().map(|entry| {
        let (name, from) = (text(&entry["name"]), &entry["valueFrom"]);
        let source = if from.is_null() {
            return format!("{name}={}", text(&entry["value"]));
        } else if !from["secretKeyRef"].is_null() {
            format!("secret {}", text(&from["secretKeyRef"]["name"]))
        } else if !from["configMapKeyRef"].is_null() {
            format!("config map {}", text(&from["configMapKeyRef"]["name"]))
        } else if !from["fieldRef"].is_null() {
            format!("field {}", text(&from["fieldRef"]["fieldPath"]))
        } else {
            format!("resource {}", text(&from["resourceFieldRef"]["resource"]))
        };
        format!("{name} (from {source})")
    });
    let all = list(&container["envFrom"]).iter().map(|source| {
        let (kind, name) = match source["secretRef"]["name"].as_str() {
            Some(name) => ("secret", name),
            None => ("config map", text(&source["configMapRef"]["name"])),
        };
        format!("all of {kind} {name}")
    });
    own.chain(all).collect::<Vec<_>>().join(", ")
}

fn resources(container: &Value) -> String {
    let limits = container["resources"]["limits"].as_object();
    let limits = limits.or_else(|| container["resources"]["requests"].as_object());
    let amounts = limits.into_iter().flatten().map(|(name, amount)| {
        let amount = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
        format!("{name} {amount}")
    });
    amounts.collect::<Vec<_>>().join(", ")
}
