//! Nodes of a cluster, as proof that its machines have joined.

use super::summary::combine;
use crate::{
    reason::{Problem, Reason},
    report::STEP_TIMEOUT,
};
use fedgate_api::cell::{Machine, MachineRole};
use fedgate_operator::membership::{
    plane::{Plane, kind},
    wait,
};
use fedgate_terminal::error::Error;
use kube_runtime::watcher;
use serde_json::Value;

/// Label of a Node with an API server. kubeadm sets it when the join of a control plane is done.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// The machines that are Nodes of their role and Ready.
///
/// # Errors
/// If the cluster does not answer.
pub(super) async fn ready<'a>(plane: &Plane, machines: &'a [Machine]) -> Result<Vec<&'a Machine>, Problem> {
    let nodes = plane.list(&kind("v1", "Node"), "").await;
    let nodes = nodes.map_err(|error| cluster_problem(&error))?;
    let ready = machines.iter().filter(|machine| check(&nodes, machine).is_ok());
    Ok(ready.collect())
}

/// Waits until each machine is a Node of its role and Ready.
///
/// # Errors
/// If one is not after some seconds, or the cluster does not answer.
pub(super) async fn wait_ready(plane: &Plane, machines: &[&Machine]) -> Result<(), Problem> {
    let test = |nodes: &[Value]| {
        let missing = machines.iter().filter_map(|machine| check(nodes, machine).err());
        let all = combine(
            &missing.collect::<Vec<_>>(),
            machines.len(),
            "are Nodes that are Ready",
        );
        let reason = Reason::NodesNotReady.as_str();
        all.map_err(|problem| Error::timed_out(problem.what).reason(reason))
    };
    let nodes = (kind("v1", "Node"), "", watcher::Config::default());
    let waited = wait::until(plane, nodes, STEP_TIMEOUT, test).await;
    waited.map_err(|error| {
        if error.reason == Some(Reason::NodesNotReady.as_str()) {
            Problem::new(Reason::NodesNotReady, error.what)
        } else {
            cluster_problem(&error)
        }
    })
}

/// True if a Node is a worker with this internal address.
pub(super) fn is_worker_at(node: &Value, address: &str) -> bool {
    let addresses = node["status"]["addresses"].as_array();
    let mut internal = addresses
        .into_iter()
        .flatten()
        .filter(|one| one["type"] == "InternalIP");
    internal.any(|one| one["address"] == address) && node["metadata"]["labels"][CONTROL_PLANE].is_null()
}

/// The problem of a request to the cluster.
pub(super) fn cluster_problem(error: &Error) -> Problem {
    Problem::new(Reason::MemberUnreachable, error.message())
}

/// Fails unless the machine is a Node of its role and Ready.
fn check(nodes: &[Value], machine: &Machine) -> Result<(), Problem> {
    let name = &machine.name;
    let waits = |what: &str| {
        Err(Problem::new(
            Reason::NodesNotReady,
            format!("machine {name}: {what}"),
        ))
    };
    let Some(node) = nodes.iter().find(|node| node["metadata"]["name"] == **name) else {
        return waits("the cluster has no Node of its name yet");
    };
    if machine.role == MachineRole::ControlPlane && node["metadata"]["labels"][CONTROL_PLANE].is_null() {
        return waits(&format!("its Node has no label {CONTROL_PLANE} yet"));
    }
    let conditions = node["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    match conditions.find(|condition| condition["type"] == "Ready") {
        Some(ready) if ready["status"] == "True" => Ok(()),
        ready => {
            let said = ready.and_then(|ready| ready["message"].as_str());
            waits(&format!("its Node is not Ready: {}", said.unwrap_or_default()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_worker_is_known_by_its_internal_address() {
        let node = |labels: Value, addresses: Value| json!({"metadata": {"name": "w1", "labels": labels}, "status": {"addresses": addresses}});
        let at = |kind: &str, address: &str| json!([{"type": "Hostname", "address": "w1"}, {"type": kind, "address": address}]);
        for (node, wanted) in [
            (node(json!({}), at("InternalIP", "10.0.0.2")), true),
            (node(json!({}), at("InternalIP", "10.0.0.3")), false),
            (node(json!({}), at("ExternalIP", "10.0.0.2")), false),
            (
                node(json!({CONTROL_PLANE: ""}), at("InternalIP", "10.0.0.2")),
                false,
            ),
            (node(json!({}), Value::Null), false),
        ] {
            assert_eq!(is_worker_at(&node, "10.0.0.2"), wanted, "{node}");
        }
    }

    #[test]
    fn a_node_counts_once_it_is_ready_and_has_the_label_of_its_role() {
        let machine = |role: &str| -> Machine {
            serde_json::from_value(
                json!({"name": "m1", "role": role, "address": "192.0.2.1", "hostKey": "x"}),
            )
            .unwrap()
        };
        let node = |labels: Value, ready: &str| {
            json!({"metadata": {"name": "m1", "labels": labels},
                "status": {"conditions": [{"type": "Ready", "status": ready, "message": "no network"}]}})
        };
        let said = |role: &str, nodes: &[Value]| {
            check(nodes, &machine(role)).map_err(|problem| problem.what.into_string())
        };
        assert_eq!(said("worker", &[node(json!({}), "True")]), Ok(()));
        assert_eq!(
            said("controlPlane", &[node(json!({CONTROL_PLANE: ""}), "True")]),
            Ok(())
        );
        let table = [
            ("worker", vec![], "the cluster has no Node of its name yet"),
            (
                "worker",
                vec![node(json!({}), "False")],
                "its Node is not Ready: no network",
            ),
            (
                "controlPlane",
                vec![node(json!({}), "True")],
                "its Node has no label node-role.kubernetes.io/control-plane yet",
            ),
        ];
        for (role, nodes, what) in table {
            assert_eq!(said(role, &nodes), Err(format!("machine m1: {what}")));
        }
    }
}
