//! Checks K1, K2, K4 to K6 and K8 of a Workload (contract: api.md §6). A failed check stops every change, and keeps
//! everything that runs.

use super::snapshot::{Networks, WorkloadSnapshot};
use fedgate_api::{
    Disk, DiskSpec, InstanceNetworkInterface, InstanceSpec, InstanceTemplate, Reason, keys,
    validate::{self, Problem},
};
use std::collections::BTreeSet;

/// Maximum length of a condition's message that lists problems, in characters.
const LONGEST: usize = 1024;

/// Outcome of the checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CheckOutcome {
    /// All checks passed.
    Good,
    /// A list is incomplete; its completion enqueues the Workload.
    Wait,
    /// A check failed: the deployments are not changed.
    Bad { reason: Reason, message: String },
}

/// Runs all checks; problems of the template precede missing Networks, as in the priority table.
pub(super) fn check(snapshot: &WorkloadSnapshot) -> CheckOutcome {
    if let Some(message) = &snapshot.checks.too_large {
        return CheckOutcome::Bad {
            reason: Reason::SpecTooLarge,
            message: message.clone(),
        };
    }
    let template = &snapshot.workload.spec.template;
    let mut problems = validate::workload(&snapshot.workload);
    if !snapshot.checks.foreign_networks {
        problems.extend(foreign_networks(snapshot));
    }
    problems.extend(unknown(snapshot));
    problems.extend(unparsed_keys(template));
    problems.extend(device_names(&template.spec));
    problems.extend(ports_twice(&template.spec));
    if !problems.is_empty() {
        return CheckOutcome::Bad {
            reason: Reason::InvalidTemplate,
            message: listed(&problems),
        };
    }
    networks_exist(snapshot)
}

fn listed(problems: &[Problem]) -> String {
    let all: Vec<String> = problems.iter().map(Problem::to_string).collect();
    let text = all.join("; ");
    if text.chars().count() <= LONGEST {
        return text;
    }
    let head: String = text.chars().take(LONGEST - 1).collect();
    format!("{head}…")
}

fn problem(rule: &'static str, path: impl Into<String>, message: String) -> Problem {
    let path = path.into();
    Problem { rule, path, message }
}

fn namespace(snapshot: &WorkloadSnapshot) -> &str {
    let namespace = snapshot.workload.metadata.namespace.as_deref();
    namespace.unwrap_or_default()
}

fn interfaces(snapshot: &WorkloadSnapshot) -> &[InstanceNetworkInterface] {
    &snapshot.workload.spec.template.spec.network_interfaces
}

/// K2: interfaces name Networks of the Workload's own namespace.
fn foreign_networks(snapshot: &WorkloadSnapshot) -> impl Iterator<Item = Problem> {
    let own = namespace(snapshot);
    let interfaces = interfaces(snapshot).iter().enumerate();
    interfaces.filter_map(move |(i, interface)| {
        let other = interface.network.namespace.as_deref();
        let other = other.filter(|other| *other != own)?;
        let path = format!("spec.template.spec.networkInterfaces[{i}].network.namespace");
        let message = format!("{other:?} must be the Workload's own namespace or absent");
        Some(problem("K2", path, message))
    })
}

fn networks_exist(snapshot: &WorkloadSnapshot) -> CheckOutcome {
    let existing = match &snapshot.checks.networks {
        Networks::Unchecked => return CheckOutcome::Good,
        Networks::Pending => return CheckOutcome::Wait,
        Networks::Existing(existing) => existing,
    };
    let wanted = interfaces(snapshot).iter().map(|interface| {
        let network = &interface.network;
        let namespace = network.namespace.as_deref().unwrap_or(namespace(snapshot));
        (namespace.to_owned(), network.name.clone())
    });
    let missing: BTreeSet<String> = wanted
        .filter(|network| !existing.contains(network))
        .map(|(ns, name)| format!("{ns}/{name}"))
        .collect();
    if missing.is_empty() {
        return CheckOutcome::Good;
    }
    let names = missing.into_iter().collect::<Vec<_>>().join(", ");
    CheckOutcome::Bad {
        reason: Reason::NetworkNotFound,
        message: format!("no such Network: {names}; create it"),
    }
}

fn joined<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// K4: instance type and images are known, and disks have room for their image.
fn unknown(snapshot: &WorkloadSnapshot) -> Vec<Problem> {
    let catalog = &snapshot.checks.catalog;
    let spec = &snapshot.workload.spec.template.spec;
    let mut problems = Vec::new();
    let type_ = &spec.runtime.resources.instance_type;
    if !catalog.instance_types.contains(type_) {
        let known = joined(catalog.instance_types.iter());
        let path = "spec.template.spec.runtime.resources.instanceType";
        let message = format!("{type_:?} is not known; use one of {known}");
        problems.push(problem("K4", path, message));
    }
    for (i, disk) in disks(spec) {
        let disk = &disk.template.spec;
        let Some(image) = disk.populator.as_ref().and_then(|p| p.image.as_ref()) else {
            continue;
        };
        let path = format!("spec.template.spec.volumes[{i}].disk.template.spec");
        match catalog.images.get(&image.name) {
            None => {
                let known = joined(catalog.images.keys());
                let message = format!("{:?} is not known; use one of {known}", image.name);
                problems.push(problem("K4", format!("{path}.populator.image.name"), message));
            }
            Some(needed) if storage(disk).is_some_and(|has| needed.nanos().is_some_and(|n| has < n)) => {
                let path = format!("{path}.resources.requests.storage");
                let message = format!("storage must be at least the image's {needed}");
                problems.push(problem("K4", path, message));
            }
            Some(_) => {}
        }
    }
    problems
}

/// The disks of an Instance, each with the position of its volume.
fn disks(spec: &InstanceSpec) -> impl Iterator<Item = (usize, &Disk)> {
    let volumes = spec.volumes.iter().enumerate();
    volumes.filter_map(|(i, volume)| Some((i, volume.disk.as_ref()?)))
}

fn storage(disk: &DiskSpec) -> Option<i128> {
    disk.resources.as_ref()?.requests.get("storage")?.nanos()
}

/// K5: each line of the annotation is `user:public-key`.
fn unparsed_keys(template: &InstanceTemplate) -> impl Iterator<Item = Problem> {
    let text = template.metadata.annotations.get(keys::SSH_KEYS);
    let lines = text.into_iter().flat_map(|text| text.lines().enumerate());
    let parses = |line: &str| {
        let parts = line.split_once(':');
        parts.is_some_and(|(user, key)| !user.trim().is_empty() && !key.trim().is_empty())
    };
    let unparsed = lines.filter(move |(_, line)| !line.trim().is_empty() && !parses(line));
    unparsed.map(|(i, _)| {
        let path = format!("spec.template.metadata.annotations[{}]", keys::SSH_KEYS);
        problem("K5", path, format!("line {} is not user:public-key", i + 1))
    })
}

/// K5: no explicit device name equals the default name of another disk.
fn device_names(spec: &InstanceSpec) -> impl Iterator<Item = Problem> {
    let unnamed = disks(spec).filter(|(_, disk)| disk.device_name.is_none());
    let defaults: BTreeSet<String> = unnamed.map(|(i, _)| format!("persistent-disk-{i}")).collect();
    disks(spec).filter_map(move |(i, disk)| {
        let name = disk
            .device_name
            .as_ref()
            .filter(|name| defaults.contains(*name))?;
        let path = format!("spec.template.spec.volumes[{i}].disk.deviceName");
        let message = format!("{name:?} is the default name of another disk");
        Some(problem("K5", path, message))
    })
}

/// K5: each port and protocol occurs once in the Instance.
fn ports_twice(spec: &InstanceSpec) -> impl Iterator<Item = Problem> {
    let at = "spec.template.spec.runtime";
    let containers = spec
        .runtime
        .sandbox
        .iter()
        .flat_map(|sandbox| &sandbox.containers);
    let of_containers = containers
        .enumerate()
        .map(move |(i, container)| (format!("{at}.sandbox.containers[{i}]"), &container.ports));
    let machine = spec.runtime.virtual_machine.iter();
    let of_machine = machine.map(move |machine| (format!("{at}.virtualMachine"), &machine.ports));
    let ports = of_containers.chain(of_machine).flat_map(|(at, ports)| {
        let ports = ports.iter().enumerate();
        ports.map(move |(i, port)| (format!("{at}.ports[{i}]"), port))
    });
    let mut seen = BTreeSet::new();
    ports.filter_map(move |(path, port)| {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let message = format!("{protocol} port {} is served twice in the Instance", port.port);
        (!seen.insert((port.port, protocol))).then(|| problem("K5", path, message))
    })
}
