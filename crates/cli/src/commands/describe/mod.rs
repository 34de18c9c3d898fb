//! `workloads describe` and `instances describe`: one object in full, as text for people.

use super::instances::index;
use crate::{
    error::Error,
    history::{Active, active},
    output::{Output, served, table::escape, write},
    plane::{Plane, Resource},
    rollout::{Cities, Locations, Phase, Row, once},
    time::age,
    view::{Counts, Health, HealthWord, Home, InstanceState, InstanceWord, Instances, Joined, Object},
};
use jiff::Timestamp;
use serde_json::Value;
use std::fmt::Write;

/// Describes a Workload.
pub(crate) async fn workload(plane: &Plane, output: &Output, name: &str) -> Result<(), Error> {
    let workload = plane.workload(name).await?;
    if !output.is_text() {
        return output.object(&served(&workload));
    }
    let (deployments, revision) = tokio::join!(plane.list(Resource::Deployments), active(plane, &workload));
    let mut joined = Joined::of(workload, deployments?);
    Locations::default().look_up(plane, &mut joined).await;
    write(&workload_text(&joined, revision.as_ref(), plane.clock.now()))
}

/// Describes an Instance.
pub(crate) async fn instance(plane: &Plane, output: &Output, name: &str) -> Result<(), Error> {
    let instance = plane.get(Resource::Instances, name).await?;
    if !output.is_text() {
        return output.object(&served(&instance));
    }
    let deployments = plane.list(Resource::Deployments).await?;
    let one = std::slice::from_ref(&instance);
    let index = index(plane, &mut Cities::default(), &[], &deployments, one).await;
    let home = Home::of(&instance, &index);
    write(&instance_text(&instance, &home, plane.clock.now()))
}

/// Lines of a description: names in a column, texts of the server escaped.
#[derive(Debug, Default)]
struct Lines(String);

impl Lines {
    /// A name and its text; `-` if that is empty.
    fn field(&mut self, name: &str, text: &str) {
        let text = if text.is_empty() { "-" } else { text };
        self.line(&format!("{:<12}{text}", format!("{name}:")));
    }

    /// A line.
    fn line(&mut self, line: &str) {
        // Writing to a text cannot fail.
        let _ = writeln!(self.0, "{}", escape(line));
    }

    /// The commands that would do something now.
    fn next_steps(&mut self, commands: &[String]) {
        if commands.is_empty() {
            return;
        }
        self.line("Next steps:");
        for command in commands {
            self.line(&format!("  {command}"));
        }
    }
}

/// Describes a Workload.
fn workload_text(joined: &Joined, revision: Option<&Active>, now: Timestamp) -> String {
    let workload = &joined.workload;
    let counts: Counts = joined.deployments().map(Counts::of).sum();
    let health = Health::of(workload, counts);
    let runtime = &workload.0["spec"]["template"]["spec"]["runtime"];
    let mut lines = Lines::default();
    lines.field("Workload", workload.name());
    lines.field("Type", &kind(runtime));
    lines.field("Revision", &revision.map(Active::number).unwrap_or_default());
    let updated = workload
        .spec_written()
        .map(|time| format!("{} ago", age(time, now)));
    let by = revision.map(|revision| format!(" by {}", revision.by));
    lines.field(
        "Updated",
        &(updated.unwrap_or_default() + &by.unwrap_or_default()),
    );
    lines.field("Health", &health.to_string());
    let rows = once(joined, &Instances::default(), now);
    placements(&mut lines, joined, &rows);
    containers(&mut lines, runtime);
    lines.next_steps(&steps_of_workload(joined, &health, &rows));
    lines.0
}

fn placements(lines: &mut Lines, joined: &Joined, rows: &[Row]) {
    let placements = joined.workload.list("/spec/placements");
    lines.line(if placements.is_empty() {
        "Placements: none"
    } else {
        "Placements:"
    });
    for placement in placements {
        let name = placement["name"].as_str().unwrap_or_default();
        lines.line(&format!(
            "  {name}  scale: {}",
            scale(&placement["scaleSettings"])
        ));
        for row in rows.iter().filter(|row| row.city.placement == name) {
            let Counts { ready, desired, .. } = row.counts;
            let blocked = match row.phase {
                phase @ (Phase::Blocked | Phase::Waiting | Phase::Paused) => {
                    format!("  {} - {}", phase.as_str(), row.detail)
                }
                Phase::Done | Phase::Draining | Phase::Pending | Phase::Updating => String::new(),
            };
            lines.line(&format!("    {}  {ready}/{desired}{blocked}", row.city.shown));
        }
    }
}

/// `min..max`, or `min` alone.
fn scale(settings: &Value) -> String {
    let minimum = settings["minReplicas"].as_i64().unwrap_or(1);
    match settings["maxReplicas"].as_i64() {
        Some(maximum) => format!("{minimum}..{maximum}"),
        None => minimum.to_string(),
    }
}

fn steps_of_workload(joined: &Joined, health: &Health, rows: &[Row]) -> Vec<String> {
    let name = joined.workload.name();
    let mut steps = Vec::new();
    if joined.cities.is_empty() {
        steps.push("kubectl compute deploy -f FILE".to_owned());
        return steps;
    }
    if rows
        .iter()
        .any(|row| !matches!(row.phase, Phase::Done | Phase::Blocked))
    {
        steps.push(format!("kubectl compute rollout status {name}"));
    }
    let unserved = rows.iter().find(|row| row.is_unserved);
    if let Some(row) = unserved {
        steps.push(format!("kubectl compute trace {name} --city {}", row.city.shown));
    }
    if health.word != HealthWord::Available && health.word != HealthWord::Deleting {
        if unserved.is_none() {
            steps.push(format!("kubectl compute trace {name}"));
        }
        steps.push(format!("kubectl compute instances --workload {name}"));
    }
    steps
}

/// Describes an Instance.
fn instance_text(instance: &Object, home: &Home, now: Timestamp) -> String {
    let state = InstanceState::of(instance);
    let runtime = &instance.0["spec"]["runtime"];
    let mut lines = Lines::default();
    lines.field("Instance", instance.name());
    lines.field("Workload", &home.workload);
    lines.field("Placement", &home.placement);
    lines.field("City", &home.city);
    lines.field("Age", &instance.age(now));
    lines.field("Status", &state.described);
    lines.field("Message", state.message);
    lines.field("Type", &kind(runtime));
    network(&mut lines, instance);
    containers(&mut lines, runtime);
    let gates = instance.list("/spec/controller/schedulingGates").iter();
    let gates: Vec<&str> = gates.filter_map(|gate| gate["name"].as_str()).collect();
    if !gates.is_empty() {
        lines.field("Gates", &gates.join(", "));
    }
    conditions(&mut lines, instance, now);
    lines.next_steps(&steps_of_instance(home, &state));
    lines.0
}

fn network(lines: &mut Lines, instance: &Object) {
    let address = |field: &str| instance.text(&format!("/status/networkInterfaces/0/assignments/{field}"));
    let (external, internal) = (address("externalIP"), address("networkIP"));
    let text = match (external, internal) {
        ("", "") => "Waiting for addresses".to_owned(),
        ("", internal) => format!("{internal} (internal)"),
        (external, "") => format!("{external} (external)"),
        (external, internal) => format!("{external} (external), {internal} (internal)"),
    };
    lines.field("Network", &text);
}

fn conditions(lines: &mut Lines, instance: &Object, now: Timestamp) {
    let types = instance.list("/status/conditions").iter();
    let types: Vec<&str> = types.filter_map(|condition| condition["type"].as_str()).collect();
    if types.is_empty() {
        return;
    }
    lines.line("Conditions:");
    let width = types.iter().map(|type_| type_.len()).max().unwrap_or_default();
    for type_ in types {
        if let Some(condition) = instance.condition(type_) {
            let since = condition.since.map(|since| age(since, now));
            lines.line(&format!(
                "  {type_:<width$}  {:<7}  {}  {}",
                condition.status,
                condition.reason,
                since.as_deref().unwrap_or("-")
            ));
        }
    }
}

fn steps_of_instance(home: &Home, state: &InstanceState<'_>) -> Vec<String> {
    let workload = &home.workload;
    if state.lacks_quota {
        return vec!["kubectl compute quota".to_owned()];
    }
    if state.word == InstanceWord::Failed && workload != "orphaned" {
        return vec![
            format!("kubectl compute rollout history {workload}"),
            format!("kubectl compute rollout undo {workload}"),
        ];
    }
    if matches!(state.word, InstanceWord::Available | InstanceWord::Terminating) || workload == "orphaned" {
        return Vec::new();
    }
    vec![format!("kubectl compute trace {workload} --city {}", home.city)]
}

/// `sandbox/<type>` or `vm/<type>`.
fn kind(runtime: &Value) -> String {
    let kind = if runtime["virtualMachine"].is_null() {
        "sandbox"
    } else {
        "vm"
    };
    let type_ = runtime["resources"]["instanceType"].as_str().unwrap_or("-");
    format!("{kind}/{type_}")
}

/// The containers; a virtual machine has none.
fn containers(lines: &mut Lines, runtime: &Value) {
    let containers = list(&runtime["sandbox"]["containers"]);
    if !containers.is_empty() {
        lines.line("Containers:");
    }
    for container in containers {
        lines.line(&format!("  {}", plain(&container["name"])));
        for (name, value) in [
            ("Image", plain(&container["image"]).to_owned()),
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

fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn ports(container: &Value) -> String {
    let ports = list(&container["ports"]).iter().map(|port| {
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        format!("{} {}/{protocol}", plain(&port["name"]), port["port"])
    });
    ports.collect::<Vec<_>>().join(", ")
}

fn env(container: &Value) -> String {
    let own = list(&container["env"]).iter().map(|entry| {
        let (name, from) = (plain(&entry["name"]), &entry["valueFrom"]);
        let source = if from.is_null() {
            return format!("{name}={}", plain(&entry["value"]));
        } else if !from["secretKeyRef"].is_null() {
            format!("secret {}", plain(&from["secretKeyRef"]["name"]))
        } else if !from["configMapKeyRef"].is_null() {
            format!("config map {}", plain(&from["configMapKeyRef"]["name"]))
        } else if !from["fieldRef"].is_null() {
            format!("field {}", plain(&from["fieldRef"]["fieldPath"]))
        } else {
            format!("resource {}", plain(&from["resourceFieldRef"]["resource"]))
        };
        format!("{name} (from {source})")
    });
    let all = list(&container["envFrom"]).iter().map(|source| {
        let (kind, name) = match source["secretRef"]["name"].as_str() {
            Some(name) => ("secret", name),
            None => ("config map", plain(&source["configMapRef"]["name"])),
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

#[cfg(test)]
mod tests;
