//! Checks K1, K2, K4 to K6 and K8 of a Workload (contract: api.md §6). A failed check stops every change, and keeps
//! everything that runs.

use super::snapshot::{Networks, WorkloadSnapshot};
use fedgate_api::{
    DiskSpec, InstanceSpec, InstanceTemplate, Reason, keys,
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
    networks_are_own(snapshot, &mut problems);
    known(snapshot, &mut problems);
    keys_parse(template, &mut problems);
    device_names(&template.spec, &mut problems);
    ports_once(&template.spec, &mut problems);
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

fn bad(problems: &mut Vec<Problem>, rule: &'static str, path: String, message: String) {
    problems.push(Problem { rule, path, message });
}

fn namespace(snapshot: &WorkloadSnapshot) -> &str {
    snapshot
        .workload
        .metadata
        .namespace
        .as_deref()
        .unwrap_or_default()
}

fn networks_are_own(snapshot: &WorkloadSnapshot, problems: &mut Vec<Problem>) {
    if snapshot.checks.foreign_networks {
        return;
    }
    for (i, interface) in snapshot
        .workload
        .spec
        .template
        .spec
        .network_interfaces
        .iter()
        .enumerate()
    {
        let other = interface
            .network
            .namespace
            .as_deref()
            .filter(|n| *n != namespace(snapshot));
        if let Some(other) = other {
            let path = format!("spec.template.spec.networkInterfaces[{i}].network.namespace");
            bad(
                problems,
                "K2",
                path,
                format!("{other:?} must be the Workload's own namespace or absent"),
            );
        }
    }
}

fn networks_exist(snapshot: &WorkloadSnapshot) -> CheckOutcome {
    let existing = match &snapshot.checks.networks {
        Networks::Unchecked => return CheckOutcome::Good,
        Networks::Pending => return CheckOutcome::Wait,
        Networks::Existing(existing) => existing,
    };
    let wanted = snapshot
        .workload
        .spec
        .template
        .spec
        .network_interfaces
        .iter()
        .map(|interface| {
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

/// K4: instance type and images are known, and disks have room for their image.
fn known(snapshot: &WorkloadSnapshot, problems: &mut Vec<Problem>) {
    let catalog = &snapshot.checks.catalog;
    let spec = &snapshot.workload.spec.template.spec;
    let type_ = &spec.runtime.resources.instance_type;
    if !catalog.instance_types.contains(type_) {
        let known = catalog
            .instance_types
            .iter()
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        let path = "spec.template.spec.runtime.resources.instanceType".to_owned();
        bad(
            problems,
            "K4",
            path,
            format!("{type_:?} is not known; use one of {known}"),
        );
    }
    for (i, volume) in spec.volumes.iter().enumerate() {
        let Some(disk) = volume.disk.as_ref().map(|d| &d.template.spec) else {
            continue;
        };
        let Some(image) = disk.populator.as_ref().and_then(|p| p.image.as_ref()) else {
            continue;
        };
        let path = format!("spec.template.spec.volumes[{i}].disk.template.spec");
        match catalog.images.get(&image.name) {
            None => {
                let known = catalog.images.keys().cloned().collect::<Vec<_>>().join(", ");
                let message = format!("{:?} is not known; use one of {known}", image.name);
                bad(problems, "K4", format!("{path}.populator.image.name"), message);
            }
            Some(needed) if storage(disk).is_some_and(|has| needed.nanos().is_some_and(|n| has < n)) => {
                let message = format!("storage must be at least the image's {needed}");
                bad(
                    problems,
                    "K4",
                    format!("{path}.resources.requests.storage"),
                    message,
                );
            }
            Some(_) => {}
        }
    }
}

fn storage(disk: &DiskSpec) -> Option<i128> {
    disk.resources.as_ref()?.requests.get("storage")?.nanos()
}

/// K5: each line of the annotation is `user:public-key`.
fn keys_parse(template: &InstanceTemplate, problems: &mut Vec<Problem>) {
    let Some(text) = template.metadata.annotations.get(keys::SSH_KEYS) else {
        return;
    };
    for (i, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let parses = line
            .split_once(':')
            .is_some_and(|(user, key)| !user.trim().is_empty() && !key.trim().is_empty());
        if !parses {
            let path = format!("spec.template.metadata.annotations[{}]", keys::SSH_KEYS);
            bad(
                problems,
                "K5",
                path,
                format!("line {} is not user:public-key", i + 1),
            );
        }
    }
}

/// K5: no explicit device name equals the default name of another disk.
fn device_names(spec: &InstanceSpec, problems: &mut Vec<Problem>) {
    let disks = || {
        spec.volumes
            .iter()
            .enumerate()
            .filter_map(|(i, v)| Some((i, v.disk.as_ref()?)))
    };
    let defaults: BTreeSet<String> = disks()
        .filter(|(_, disk)| disk.device_name.is_none())
        .map(|(i, _)| format!("persistent-disk-{i}"))
        .collect();
    for (i, disk) in disks() {
        if let Some(name) = disk.device_name.as_ref().filter(|name| defaults.contains(*name)) {
            let path = format!("spec.template.spec.volumes[{i}].disk.deviceName");
            bad(
                problems,
                "K5",
                path,
                format!("{name:?} is the default name of another disk"),
            );
        }
    }
}

/// K5: each port and protocol occurs once in the Instance.
fn ports_once(spec: &InstanceSpec, problems: &mut Vec<Problem>) {
    let sandbox = spec
        .runtime
        .sandbox
        .iter()
        .flat_map(|s| &s.containers)
        .enumerate();
    let of_containers = sandbox.flat_map(|(i, c)| {
        let at = format!("spec.template.spec.runtime.sandbox.containers[{i}].ports");
        c.ports
            .iter()
            .enumerate()
            .map(move |(j, port)| (format!("{at}[{j}]"), port))
    });
    let machine = spec
        .runtime
        .virtual_machine
        .iter()
        .flat_map(|m| &m.ports)
        .enumerate();
    let of_machine = machine.map(|(j, port)| {
        (
            format!("spec.template.spec.runtime.virtualMachine.ports[{j}]"),
            port,
        )
    });
    let mut seen = BTreeSet::new();
    for (path, port) in of_containers.chain(of_machine) {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        if !seen.insert((port.port, protocol)) {
            bad(
                problems,
                "K5",
                path,
                format!("{protocol} port {} is served twice in the Instance", port.port),
            );
        }
    }
}
