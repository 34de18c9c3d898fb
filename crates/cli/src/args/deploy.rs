//! Arguments of `deploy`: the flags that name fields of a Workload, and how their values are parsed. `change/fields.rs` sets the
//! fields.

use super::{changes::ChangeArgs, duration, number};
use clap::Args;
use fedgate_api::keys;
use serde_json::{Value, json};
use std::time::Duration;

/// Path of a container, for errors.
const CONTAINER_PATH: &str = "spec.template.spec.runtime.sandbox.containers[]";
/// Protocols of a port.
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

/// Arguments of `deploy`.
#[derive(Debug, Args)]
pub(crate) struct DeployArgs {
    /// Name of the workload
    pub(crate) name: Option<String>,
    /// File with one Workload, which replaces the spec; - for standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<String>,
    /// Write the manifest that was sent to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<std::path::PathBuf>,
    /// Flags that name fields.
    #[command(flatten)]
    pub(crate) flags: DeployFlags,
    /// Flags of all changes.
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// A named entry that is set, or removed by `name-`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    /// Name of the entry.
    pub(crate) name: String,
    /// The entry; `None` removes it.
    pub(crate) entry: Option<Value>,
}

/// The flags of `deploy` that name fields.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DeployFlags {
    /// Image of the container; required on creation
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// Cities of the placement, which replace its list; required on creation
    #[arg(long, value_name = "CODE", value_delimiter = ',')]
    pub(crate) city: Vec<String>,
    /// Locations of the placement, which replace its list; in place of cities
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "city")]
    pub(crate) location: Vec<String>,
    /// Delete the deployments of removed cities without waiting for the new ones. It stays in effect until --city or --location is given without it
    #[arg(long)]
    pub(crate) allow_gap: bool,
    /// The placement to change; default: the only one
    #[arg(long, value_name = "NAME")]
    pub(crate) placement: Option<String>,
    /// The container to change; default: the only one
    #[arg(long, value_name = "NAME")]
    pub(crate) container: Option<String>,
    /// Number of instances in each city, 1 to 1000
    #[arg(long, value_name = "NUMBER", value_parser = number::<i64>, allow_negative_numbers = true)]
    pub(crate) min: Option<i64>,
    /// The instance type
    #[arg(long, value_name = "TYPE")]
    pub(crate) instance_type: Option<String>,
    /// The network; fixed once the workload exists
    #[arg(long, value_name = "NAME")]
    pub(crate) network: Option<String>,
    /// A port of the container; NAME- removes it
    #[arg(long, value_name = "[NAME=]PORT[/PROTOCOL]", value_parser = port)]
    pub(crate) port: Vec<Edit>,
    /// A variable of the container; KEY- removes it
    #[arg(long, value_name = "KEY=VALUE", value_parser = variable)]
    pub(crate) env: Vec<Edit>,
    /// A ConfigMap whose keys are variables; NAME- removes it
    #[arg(long, value_name = "NAME", value_parser = |name: &str| source(name, "configMapRef"))]
    pub(crate) env_from_configmap: Vec<Edit>,
    /// A Secret whose keys are variables; NAME- removes it
    #[arg(long, value_name = "NAME", value_parser = |name: &str| source(name, "secretRef"))]
    pub(crate) env_from_secret: Vec<Edit>,
    /// A label of the instances; KEY- removes it
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) label: Vec<Edit>,
    /// Readiness probe: an instance is ready while GET PATH at PORT succeeds
    #[arg(long, value_name = "PATH:PORT", value_parser = http_probe)]
    pub(crate) health_http: Option<Value>,
    /// Instances beyond --min during a rollout; 0 deletes each instance before its replacement is created. On creation 1
    #[arg(long, value_name = "NUMBER|PERCENT%", value_parser = int_or_percent)]
    pub(crate) max_surge: Option<Value>,
    /// Time that a new instance is ready before the next one is replaced
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) min_ready: Option<Duration>,
    /// Answer to a rollout that exceeds its progress deadline (10m): hold keeps it, undo runs the last template whose rollout completed
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) on_failure: Option<OnFailure>,
}

/// Answer to a rollout that exceeds its progress deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnFailure {
    /// Keep the rollout as it is
    Hold,
    /// Run the last template whose rollout completed
    Undo,
}

impl DeployFlags {
    /// The flags that were given, each with the field that takes its place in a file.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static str, String)> {
        let container = |field: &str| format!("{CONTAINER_PATH}.{field}");
        let placement = |field: &str| format!("spec.placements[].{field}");
        let template = |field: &str| format!("spec.template.{field}");
        let rollout = |field: &str| placement(&format!("scaleSettings.rollout.{field}"));
        let all = [
            (self.image.is_some(), "--image", container("image")),
            (!self.city.is_empty(), "--city", placement("cityCodes")),
            (!self.location.is_empty(), "--location", placement("locations")),
            (
                self.allow_gap,
                "--allow-gap",
                format!("annotation {}: \"true\"", keys::ALLOW_GAP),
            ),
            (self.placement.is_some(), "--placement", placement("name")),
            (self.container.is_some(), "--container", container("name")),
            (
                self.min.is_some(),
                "--min",
                placement("scaleSettings.minReplicas"),
            ),
            (
                self.instance_type.is_some(),
                "--instance-type",
                template("spec.runtime.resources.instanceType"),
            ),
            (
                self.network.is_some(),
                "--network",
                template("spec.networkInterfaces[].network.name"),
            ),
            (!self.port.is_empty(), "--port", container("ports")),
            (!self.env.is_empty(), "--env", container("env")),
            (
                !self.env_from_configmap.is_empty(),
                "--env-from-configmap",
                container("envFrom"),
            ),
            (
                !self.env_from_secret.is_empty(),
                "--env-from-secret",
                container("envFrom"),
            ),
            (!self.label.is_empty(), "--label", template("metadata.labels")),
            (
                self.health_http.is_some(),
                "--health-http",
                container("readinessProbe"),
            ),
            (self.max_surge.is_some(), "--max-surge", rollout("maxSurge")),
            (
                self.min_ready.is_some(),
                "--min-ready",
                rollout("minReadySeconds"),
            ),
            (self.on_failure.is_some(), "--on-failure", rollout("onFailure")),
        ];
        let given = all.into_iter().filter(|(is_given, ..)| *is_given);
        given.map(|(_, flag, field)| (flag, field))
    }
}

/// Parses `K=V` or `K-`.
pub(crate) fn pair(text: &str) -> Result<Edit, String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok(Edit {
            name: key.to_owned(),
            entry: Some(json!(value)),
        }),
        _ => removal(text).ok_or_else(|| format!("{text:?} is neither KEY=VALUE nor KEY-")),
    }
}

/// Parses a variable of a container.
pub(crate) fn variable(text: &str) -> Result<Edit, String> {
    let Edit { name, entry } = pair(text)?;
    let entry = entry.map(|value| json!({"name": name, "value": value}));
    Ok(Edit { name, entry })
}

/// Parses a name, or `name-`.
fn source(text: &str, kind: &str) -> Result<Edit, String> {
    if text.is_empty() {
        return Err("a name is needed".to_owned());
    }
    Ok(removal(text).unwrap_or_else(|| Edit {
        name: text.to_owned(),
        entry: Some(json!({kind: {"name": text}})),
    }))
}

/// Parses `[name=]port[/proto]`, or `name-`.
pub(crate) fn port(text: &str) -> Result<Edit, String> {
    if let Some(edit) = removal(text) {
        return Ok(edit);
    }
    let wrong = || format!("{text:?} is neither [NAME=]PORT[/PROTOCOL] nor NAME-");
    let (name, rest) = match text.split_once('=') {
        Some((name, rest)) => (Some(name), rest),
        None => (None, text),
    };
    let (number, protocol) = rest.split_once('/').unwrap_or((rest, PROTOCOLS[0]));
    let number: u16 = number.parse().map_err(|_| wrong())?;
    let protocol = protocol.to_ascii_uppercase();
    if number == 0 {
        return Err(format!("{text:?}: a port is a number from 1 to 65535"));
    }
    if !PROTOCOLS.contains(&&*protocol) || name == Some("") {
        return Err(wrong());
    }
    let name = name.map_or_else(|| format!("p{number}"), str::to_owned);
    let entry = Some(json!({"name": name, "port": number, "protocol": protocol}));
    Ok(Edit { name, entry })
}

/// Parses `PATH:PORT`; the port is a number or a name.
fn http_probe(text: &str) -> Result<Value, String> {
    let found = text.rsplit_once(':');
    let (path, port) = found
        .filter(|(path, port)| path.starts_with('/') && !port.is_empty())
        .ok_or_else(|| format!("{text:?} is not PATH:PORT, such as /ready:8080"))?;
    let port = port
        .parse::<u16>()
        .map_or_else(|_| json!(port), |port| json!(port));
    Ok(json!({"httpGet": {"path": path, "port": port}}))
}

/// Parses a number from 0 to 1000, or a percentage from 0% to 100%.
fn int_or_percent(text: &str) -> Result<Value, String> {
    let percentage = text.strip_suffix('%').map(str::parse::<u8>);
    match (percentage, text.parse::<u16>()) {
        (Some(Ok(0..=100)), _) => Ok(json!(text)),
        (None, Ok(number @ 0..=1000)) => Ok(json!(number)),
        _ => Err(format!(
            "{text:?} is neither a number up to 1000 nor a percentage such as 25%"
        )),
    }
}

fn removal(text: &str) -> Option<Edit> {
    let name = text
        .strip_suffix('-')
        .filter(|name| !name.is_empty() && !name.contains('='))?;
    Some(Edit {
        name: name.to_owned(),
        entry: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_parsed() {
        let edit = |name: &str, entry| {
            Ok(Edit {
                name: name.to_owned(),
                entry,
            })
        };
        assert_eq!(pair("A=b=c"), edit("A", Some(json!("b=c"))));
        assert_eq!(pair("A="), edit("A", Some(json!(""))));
        assert_eq!(pair("A-"), edit("A", None));
        assert!(pair("A").is_err() && pair("=x").is_err() && pair("-").is_err());
        assert_eq!(source("cfg-", "secretRef"), edit("cfg", None));
        assert_eq!(
            http_probe("/ready:http"),
            Ok(json!({"httpGet": {"path": "/ready", "port": "http"}}))
        );
        assert_eq!(http_probe("/a:b:80").unwrap()["httpGet"]["port"], 80);
        assert!(http_probe("8080").is_err() && http_probe("/:").is_err() && http_probe("a:1").is_err());
        assert_eq!(
            (int_or_percent("3"), int_or_percent("25%")),
            (Ok(json!(3)), Ok(json!("25%")))
        );
        assert!(
            int_or_percent("101%").is_err()
                && int_or_percent("1001").is_err()
                && int_or_percent("-1").is_err()
                && int_or_percent("x").is_err()
        );
        assert!(
            port("0").is_err() && port("65536").is_err() && port("80/http").is_err() && port("=80").is_err()
        );
    }
}
