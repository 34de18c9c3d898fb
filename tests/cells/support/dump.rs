//! What a failed test leaves behind for its reader.

use super::{
    Case,
    kinds::{BINDING, CLAIM, CONFIG_MAP, DEPLOYMENT, EVENT, INSTANCE, Kind, NETWORK_BINDING, POD, WORKLOAD},
    plane::Plane,
};
use kube::api::ListParams;
use std::fmt::Write;

const PROJECT: [&Kind; 5] = [&WORKLOAD, &DEPLOYMENT, &INSTANCE, &CLAIM, &EVENT];
const HUB: [&Kind; 4] = [&DEPLOYMENT, &BINDING, &INSTANCE, &EVENT];
const CELL: [&Kind; 6] = [
    &DEPLOYMENT,
    &INSTANCE,
    &POD,
    &NETWORK_BINDING,
    &CONFIG_MAP,
    &EVENT,
];

/// Writes what there is of a test to a file, and says where it is.
pub(super) async fn write(case: &Case, name: &str, problem: &str) -> String {
    let mut text = format!("{name}: {problem}\n\nnamespace {} = {}\n", case.ns, case.hub_ns);
    objects(&mut text, &case.project, &PROJECT, &case.ns).await;
    objects(&mut text, &case.hub, &HUB, &case.hub_ns).await;
    for cell in case.suite.cells() {
        objects(&mut text, &cell.plane, &CELL, &case.hub_ns).await;
    }
    let _ = writeln!(text, "\n== requests");
    for (plane, entry) in case.asked(&case.begin()) {
        if !matches!(entry.verb.as_str(), "list" | "watch" | "get") {
            let _ = writeln!(
                text,
                "{} {plane}: {} {} by {} {} {}",
                entry.request_received_timestamp,
                entry.action(),
                entry.object_ref.name,
                entry.user.username,
                entry.response_status.code,
                entry.response_status.message
            );
        }
    }
    for (role, lines) in [
        ("gateway", case.suite.gateway.log_since(0)),
        ("dfw-1", case.suite.dfw.log_since(0)),
        ("lhr-1", case.suite.lhr.log_since(0)),
        ("lab-1", case.suite.lab.log_since(0)),
    ] {
        let _ = writeln!(text, "\n== log of {role}, lines of this test");
        for line in lines
            .iter()
            .filter(|l| l.contains(&case.ns) || l.contains(&case.hub_ns))
        {
            let _ = writeln!(text, "{line}");
        }
    }
    let file = case
        .suite
        .dir
        .join(format!("failed-{}.txt", name.replace("::", "-")));
    match std::fs::write(&file, text) {
        Ok(()) => format!("all planes, requests and logs: {}", file.display()),
        Err(error) => format!("the dump could not be written to {}: {error}", file.display()),
    }
}

async fn objects(text: &mut String, plane: &Plane, kinds: &[&Kind], namespace: &str) {
    for kind in kinds {
        match plane.api(kind, namespace).list(&ListParams::default()).await {
            Ok(list) => {
                for mut object in list.items {
                    object.metadata.managed_fields = None;
                    let yaml = serde_saphyr::to_string(&object);
                    let yaml = yaml.unwrap_or_else(|error| format!("(not printable: {error})"));
                    let _ = writeln!(text, "\n== {} {}\n{yaml}", plane.name, kind.name);
                }
            }
            Err(error) => {
                let _ = writeln!(text, "\n== {} {}: {error}", plane.name, kind.name);
            }
        }
    }
}
