//! The rules of the Workload's definition in Rust (contract: api.md §6, V1 to V33 and the strict bounds).
//!
//! The API server refuses bad objects first. This is for objects older than the rules, for deployments that were
//! written directly, and for a command line that wants to say what is wrong before it asks a server.

pub use super::check::Problem;

use super::{
    InstanceSpec, InstanceTemplate, InstanceVolume, Metric, Placement, Probe, Quantity, RolloutSettings,
    Sandbox, SandboxContainer, Workload, WorkloadSpec,
    check::{self, Checker},
    crd, keys, rules,
    runtime::{EnvVar, NamedPort, VolumeAttachment},
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use regex::Regex;
use serde_json::{Value, json};
use std::sync::LazyLock;

static SPEC_SCHEMA: LazyLock<Option<Checker>> = LazyLock::new(|| {
    let mut crd = crd::workload().ok()?;
    let root = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    Checker::new(root["properties"]["spec"].take()).ok()
});

static LABEL_KEY: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(rules::LABEL_KEY).ok());

/// Everything that is wrong with a Workload; empty if it is valid.
pub fn workload(workload: &Workload) -> Vec<Problem> {
    spec(&json!(workload.spec))
}

/// Everything that is wrong with a Workload's spec as it was written, which may not even decode.
pub fn spec(written: &Value) -> Vec<Problem> {
    let mut found = SPEC_SCHEMA
        .as_ref()
        .map(|schema| schema.check("spec", written))
        .unwrap_or_default();
    match serde_json::from_value::<WorkloadSpec>(written.clone()) {
        Ok(spec) => {
            placements(&spec.placements, &mut found);
            found.extend(template(&spec.template));
        }
        // The schema has said it already, with the path.
        Err(_) if !found.is_empty() => {}
        Err(error) => {
            found.push(Problem {
                rule: check::RULE,
                path: "spec".to_owned(),
                message: error.to_string(),
            });
        }
    }
    found
}

/// The rules V6 to V26 on a template. A cell leaves out V7, V8 and V19, which it may break.
pub fn template(template: &InstanceTemplate) -> Vec<Problem> {
    let mut found = Vec::new();
    let at = "spec.template";
    let machine = template.spec.runtime.virtual_machine.is_some();
    refuse(
        &mut found,
        "V24",
        at,
        machine && !template.metadata.annotations.contains_key(keys::SSH_KEYS),
    );
    for key in template.metadata.labels.keys() {
        let fits = key.chars().count() <= 317 && LABEL_KEY.as_ref().is_some_and(|r| r.is_match(key));
        refuse(&mut found, "V26", &format!("{at}.metadata.labels[{key}]"), !fits);
    }
    instance(&template.spec, &format!("{at}.spec"), &mut found);
    found
}

fn refuse(found: &mut Vec<Problem>, rule: &'static str, path: &str, broken: bool) {
    if broken {
        found.push(Problem {
            rule,
            path: path.to_owned(),
            message: rules::message(rule).to_owned(),
        });
    }
}

fn placements(placements: &[Placement], found: &mut Vec<Problem>) {
    let at = "spec.placements";
    refuse(found, "V1", at, repeats(placements.iter().map(|p| &p.name)));
    for (i, placement) in placements.iter().enumerate() {
        where_to(placement, &format!("{at}[{i}]"), found);
        let at = format!("{at}[{i}].scaleSettings");
        let scale = &placement.scale_settings;
        refuse(
            found,
            "V2",
            &at,
            scale.max_replicas.is_some() && scale.metrics.is_empty(),
        );
        refuse(
            found,
            "V3",
            &at,
            scale.max_replicas.is_some_and(|max| max < scale.min_replicas),
        );
        for (j, metric) in scale.metrics.iter().enumerate() {
            target(metric, &format!("{at}.metrics[{j}].resource.target"), found);
        }
        if let Some(of) = &scale.rollout {
            rollout(of, &format!("{at}.rollout"), found);
        }
    }
}

/// V32 and V33.
fn rollout(rollout: &RolloutSettings, at: &str, found: &mut Vec<Problem>) {
    let is_zero = |number: &Option<IntOrString>| match number {
        Some(IntOrString::Int(number)) => *number == 0,
        Some(IntOrString::String(percentage)) => percentage == "0%",
        None => false,
    };
    let deadline = rollout
        .progress_deadline_seconds
        .unwrap_or(RolloutSettings::PROGRESS_DEADLINE_SECONDS);
    let none = is_zero(&rollout.max_surge) && is_zero(&rollout.max_unavailable);
    refuse(found, "V32", at, none);
    let min_ready = rollout.min_ready_seconds.unwrap_or_default();
    refuse(found, "V33", at, deadline <= min_ready);
}

/// V27 to V29: the field that says where. An empty list, which counts as absent here, is refused by the schema.
fn where_to(placement: &Placement, at: &str, found: &mut Vec<Problem>) {
    refuse(found, "V27", at, placement.places().is_none());
    if let Some(selector) = &placement.location_selector {
        let at = format!("{at}.locationSelector");
        refuse(found, "V28", &at, selector.is_empty());
        for (i, expression) in selector.match_expressions.iter().enumerate() {
            let at = format!("{at}.matchExpressions[{i}]");
            refuse(found, "V28", &at, !expression.is_sound());
        }
    }
    let names = placement.locations.iter().map(|location| &location.name);
    refuse(found, "V29", &format!("{at}.locations"), repeats(names));
}

fn target(metric: &Metric, at: &str, found: &mut Vec<Problem>) {
    let Some(target) = metric.resource.as_ref().map(|r| &r.target) else {
        return;
    };
    let set = [
        target.value.is_some(),
        target.average_value.is_some(),
        target.average_utilization.is_some(),
    ];
    refuse(found, "V4", at, !is_one_set(set));
    for amount in [&target.value, &target.average_value].into_iter().flatten() {
        refuse(found, "V5", at, amount.nanos().is_none_or(|n| n <= 0));
    }
}

fn instance(spec: &InstanceSpec, at: &str, found: &mut Vec<Problem>) {
    let runtime = &spec.runtime;
    refuse(
        found,
        "V6",
        &format!("{at}.runtime"),
        runtime.sandbox.is_some() == runtime.virtual_machine.is_some(),
    );
    refuse(
        found,
        "V7",
        &format!("{at}.runtime.resources"),
        runtime.resources.requests.is_some(),
    );
    for (i, c) in containers(spec).iter().enumerate() {
        container(c, &format!("{at}.runtime.sandbox.containers[{i}]"), found);
    }
    if let Some(sandbox) = &runtime.sandbox {
        let at = format!("{at}.runtime.sandbox");
        refuse(found, "V31", &at, !sleeps_fit_grace_period(sandbox));
    }
    if let Some(machine) = &runtime.virtual_machine {
        ports(
            &machine.ports,
            &format!("{at}.runtime.virtualMachine.ports"),
            found,
        );
    }
    for (i, v) in spec.volumes.iter().enumerate() {
        volume(v, &format!("{at}.volumes[{i}]"), found);
    }
    let names = spec
        .volumes
        .iter()
        .filter_map(|v| v.disk.as_ref()?.device_name.as_ref());
    refuse(found, "V15", &format!("{at}.volumes"), repeats(names));
    refuse(
        found,
        "V19",
        at,
        spec.location.is_some() || spec.controller.is_some(),
    );
    attachments_fit(spec, at, found);
    ingress(spec, at, found);
}

fn containers(spec: &InstanceSpec) -> &[SandboxContainer] {
    spec.runtime.sandbox.as_ref().map_or(&[], |s| &s.containers)
}

/// All attachments of the Instance.
fn attachments(spec: &InstanceSpec) -> impl Iterator<Item = &VolumeAttachment> {
    let machine = spec
        .runtime
        .virtual_machine
        .iter()
        .flat_map(|m| &m.volume_attachments);
    containers(spec)
        .iter()
        .flat_map(|c| &c.volume_attachments)
        .chain(machine)
}

fn container(container: &SandboxContainer, at: &str, found: &mut Vec<Problem>) {
    let sized = container
        .resources
        .as_ref()
        .is_some_and(|r| r.limits.is_some() || r.requests.is_some());
    refuse(found, "V8", at, sized);
    for (field, probe) in [
        ("startupProbe", &container.startup_probe),
        ("readinessProbe", &container.readiness_probe),
        ("livenessProbe", &container.liveness_probe),
    ] {
        let broken = probe.as_ref().is_some_and(|probe| !has_one_action(probe));
        refuse(found, "V30", &format!("{at}.{field}"), broken);
    }
    ports(&container.ports, &format!("{at}.ports"), found);
    for (i, variable) in container.env.iter().enumerate() {
        env(variable, &format!("{at}.env[{i}]"), found);
    }
    for (i, from) in container.env_from.iter().enumerate() {
        let both_or_none = from.config_map_ref.is_some() == from.secret_ref.is_some();
        refuse(found, "V12", &format!("{at}.envFrom[{i}]"), both_or_none);
    }
    refuse(
        found,
        "V13",
        at,
        repeats(
            container
                .volume_attachments
                .iter()
                .filter_map(|a| a.mount_path.as_ref()),
        ),
    );
}

/// Default of `terminationGracePeriodSeconds` in core/v1.
const DEFAULT_GRACE_PERIOD_SECONDS: i64 = 30;

/// True if no container's `preStop.sleep` is longer than the grace period.
fn sleeps_fit_grace_period(sandbox: &Sandbox) -> bool {
    let grace = sandbox
        .termination_grace_period_seconds
        .unwrap_or(DEFAULT_GRACE_PERIOD_SECONDS);
    let sleeps = sandbox.containers.iter().filter_map(|container| {
        let handler = container.lifecycle.as_ref()?.pre_stop.as_ref()?;
        Some(handler.sleep.seconds)
    });
    sleeps.into_iter().all(|seconds| seconds <= grace)
}

fn has_one_action(probe: &Probe) -> bool {
    is_one_set([
        probe.http_get.is_some(),
        probe.tcp_socket.is_some(),
        probe.grpc.is_some(),
        probe.exec.is_some(),
    ])
}

fn ports(ports: &[NamedPort], at: &str, found: &mut Vec<Problem>) {
    for (i, port) in ports.iter().enumerate() {
        let named = port.name.bytes().any(|b| b.is_ascii_lowercase()) && !port.name.contains("--");
        refuse(found, "V9", &format!("{at}[{i}]"), !named);
    }
}

fn env(variable: &EnvVar, at: &str, found: &mut Vec<Problem>) {
    let Some(from) = &variable.value_from else { return };
    refuse(
        found,
        "V10",
        at,
        variable.value.as_ref().is_some_and(|v| !v.is_empty()),
    );
    let set = [
        from.config_map_key_ref.is_some(),
        from.secret_key_ref.is_some(),
        from.field_ref.is_some(),
        from.resource_field_ref.is_some(),
    ];
    refuse(found, "V11", &format!("{at}.valueFrom"), !is_one_set(set));
}

fn volume(volume: &InstanceVolume, at: &str, found: &mut Vec<Problem>) {
    let set = [
        volume.disk.is_some(),
        volume.config_map.is_some(),
        volume.secret.is_some(),
    ];
    refuse(found, "V14", at, !is_one_set(set));
    let Some(disk) = volume.disk.as_ref().map(|d| &d.template.spec) else {
        return;
    };
    let at = format!("{at}.disk.template.spec");
    let image = disk.populator.as_ref().is_some_and(|p| p.image.is_some());
    let filesystem = disk.populator.as_ref().is_some_and(|p| p.filesystem.is_some());
    refuse(found, "V16", &format!("{at}.populator"), image && filesystem);
    let storage = disk.resources.as_ref().and_then(|r| r.requests.get("storage"));
    refuse(found, "V17", &at, !image && storage.is_none());
    refuse(found, "V18", &at, storage.is_some_and(|s| !is_disk_size(s)));
}

/// 10Gi to 100Gi in whole Gi.
fn is_disk_size(size: &Quantity) -> bool {
    const GI: i128 = 1 << 30;
    size.whole()
        .is_some_and(|bytes| bytes % GI == 0 && (10 * GI..=100 * GI).contains(&bytes))
}

fn attachments_fit(spec: &InstanceSpec, at: &str, found: &mut Vec<Problem>) {
    let volume = |name: &str| spec.volumes.iter().find(|v| v.name == name);
    refuse(
        found,
        "V20",
        at,
        attachments(spec).any(|a| volume(&a.name).is_none()),
    );
    let attached = |v: &InstanceVolume| attachments(spec).any(|a| a.name == v.name);
    refuse(found, "V21", at, !spec.volumes.iter().all(attached));
    let mounted = |v: &InstanceVolume| attachments(spec).any(|a| a.name == v.name && a.mount_path.is_some());
    let bare = |v: &InstanceVolume| {
        v.disk
            .as_ref()
            .is_some_and(|d| d.template.spec.populator.is_none())
    };
    refuse(
        found,
        "V22",
        at,
        spec.volumes.iter().any(|v| bare(v) && mounted(v)),
    );
    if let Some(machine) = &spec.runtime.virtual_machine {
        let boot = machine.volume_attachments.first().and_then(|a| volume(&a.name));
        let image = boot.and_then(|v| v.disk.as_ref()?.template.spec.populator.as_ref()?.image.as_ref());
        refuse(found, "V23", at, image.is_none());
    }
}

fn ingress(spec: &InstanceSpec, at: &str, found: &mut Vec<Problem>) {
    for (i, interface) in spec.network_interfaces.iter().enumerate() {
        let rules = interface.network_policy.iter().flat_map(|p| &p.ingress);
        for (j, rule) in rules.enumerate() {
            for (k, port) in rule.ports.iter().enumerate() {
                let Some(end) = port.end_port else { continue };
                let fits = matches!(&port.port, Some(IntOrString::Int(first)) if end >= *first);
                let at = format!("{at}.networkInterfaces[{i}].networkPolicy.ingress[{j}].ports[{k}]");
                refuse(found, "V25", &at, !fits);
            }
        }
    }
}

/// True if exactly one of the fields is set.
fn is_one_set<const N: usize>(fields: [bool; N]) -> bool {
    fields.into_iter().filter(|is_set| *is_set).count() == 1
}

fn repeats<'a>(names: impl Iterator<Item = &'a String>) -> bool {
    let mut names: Vec<_> = names.collect();
    names.sort();
    names.windows(2).any(|pair| pair[0] == pair[1])
}
