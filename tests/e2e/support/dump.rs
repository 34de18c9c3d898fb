//! What a failed test leaves behind for its reader.

use super::{
    Case,
    kinds::{
        BINDING, CLUSTER, CLUSTER_POLICY, CONFIG_MAP, DEPLOYMENT, EVENT, INSTANCE, Kind, NAMESPACE, POLICY,
        SECRET, WORKLOAD,
    },
    plane::Plane,
};
use kube::api::ListParams;
use std::fmt::Write;

const PROJECT: [&Kind; 6] = [&WORKLOAD, &DEPLOYMENT, &INSTANCE, &CONFIG_MAP, &SECRET, &EVENT];
const HUB: [&Kind; 7] = [
    &DEPLOYMENT,
    &POLICY,
    &BINDING,
    &INSTANCE,
    &CONFIG_MAP,
    &SECRET,
    &EVENT,
];
const CELL: [&Kind; 5] = [&DEPLOYMENT, &INSTANCE, &CONFIG_MAP, &SECRET, &EVENT];

/// Writes what there is of a test to a file, and says where it is. A test that runs alone may have worked in the shared
/// namespace, which is then described as well.
pub(super) async fn write(case: &Case, name: &str, problem: &str, alone: bool) -> String {
    let mut text = format!("{name}: {problem}\n");
    describe(&mut text, case).await;
    if alone && let Some(shared) = case.suite.shared().await {
        describe(&mut text, &case.within(shared)).await;
    }
    objects(&mut text, &case.hub, &[&CLUSTER, &CLUSTER_POLICY], "").await;
    let _ = writeln!(
        text,
        "\n== end of the gateway's log\n{}",
        case.suite.gateway.log_tail(60)
    );
    let file = case
        .suite
        .dir
        .join(format!("failed-{}.txt", name.replace("::", "-")));
    match std::fs::write(&file, text) {
        Ok(()) => format!("all planes, requests and logs: {}", file.display()),
        Err(error) => format!("the dump could not be written to {}: {error}", file.display()),
    }
}

/// The objects of the test's namespaces on all planes, the gateway's requests for them and its log lines.
async fn describe(text: &mut String, case: &Case) {
    let _ = writeln!(text, "\nnamespace {} = hub namespace {}", case.ns, case.hub_ns);
    objects(text, &case.project, &PROJECT, &case.ns).await;
    objects(text, &case.hub, &HUB, &case.hub_ns).await;
    for (plane, namespace) in [
        (&case.project, &case.ns),
        (&case.hub, &case.hub_ns),
        (&case.dfw.plane, &case.hub_ns),
        (&case.lhr.plane, &case.hub_ns),
    ] {
        let found = plane.api(&NAMESPACE, "").get_opt(namespace).await;
        let _ = writeln!(
            text,
            "\n== {} Namespace {namespace}\n{}",
            plane.name,
            yaml(&found.ok().flatten())
        );
    }
    objects(text, &case.dfw.plane, &CELL, &case.hub_ns).await;
    objects(text, &case.lhr.plane, &CELL, &case.hub_ns).await;
    let _ = writeln!(text, "\n== requests of the gateway for this test");
    for (plane, entries) in [("project", case.project_requests()), ("hub", case.hub_requests())] {
        for entry in entries
            .iter()
            .filter(|entry| !matches!(entry.verb.as_str(), "list" | "watch"))
        {
            let _ = writeln!(
                text,
                "{} {plane}: {} {} {} {}",
                entry.request_received_timestamp,
                entry.action(),
                entry.object_ref.name,
                entry.response_status.code,
                entry.response_status.message
            );
        }
    }
    let gateway = &case.suite.gateway;
    let running = match gateway.pid().await {
        Some(pid) => format!("process {pid}"),
        None => "not running".to_owned(),
    };
    let lines: Vec<String> = gateway.log_since(0);
    let own = lines
        .iter()
        .filter(|line| line.contains(&case.ns) || line.contains(&case.hub_ns));
    let _ = writeln!(text, "\n== log of the gateway ({running}), lines of this test");
    for line in own {
        let _ = writeln!(text, "{line}");
    }
}

async fn objects(text: &mut String, plane: &Plane, kinds: &[&Kind], namespace: &str) {
    for kind in kinds {
        match plane.api(kind, namespace).list(&ListParams::default()).await {
            Ok(list) => {
                for mut object in list.items {
                    object.metadata.managed_fields = None;
                    if let Some(data) = object.data.get_mut("data").filter(|_| kind.name == SECRET.name) {
                        *data = serde_json::json!("(left out)");
                    }
                    let _ = writeln!(text, "\n== {} {}\n{}", plane.name, kind.name, yaml(&object));
                }
            }
            Err(error) => {
                let _ = writeln!(text, "\n== {} {}: {error}", plane.name, kind.name);
            }
        }
    }
}

fn yaml(object: &impl serde::Serialize) -> String {
    serde_saphyr::to_string(object).unwrap_or_else(|error| format!("(not printable: {error})"))
}
