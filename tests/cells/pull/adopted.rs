//! A Cluster of mode pull that another program has registered, with its karmada-agent.

use super::{
    DRAIN, JOIN,
    agent::{PODS, SECRET_NAME, WITHIN, refused_nowhere},
    is_gone, operator,
};
use crate::{
    membership::{fedgate, writes},
    support::{
        Case, Wish,
        audit::AuditLog,
        kinds::{
            CLUSTER, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, Kind, LEASE, NAMESPACE, ROLE, ROLE_BINDING, SECRET,
            SERVICE_ACCOUNT, kind,
        },
        lone_trials,
        plane::Plane,
        seconds,
        suite::{NEW, NewCell},
        with_cleanup,
    },
};
use serde_json::{Value, json};
use std::path::Path;

lone_trials![m04_a_cluster_is_adopted_with_its_agent];

const POLICY: Kind = kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    false,
);
const POLICY_BINDING: Kind = kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    false,
);
const AGENT: &str = "karmada-agent";
/// The agent's objects at the cell.
const AT_CELL: [(&Kind, &str, &str); 5] = [
    (&PODS, WITHIN, AGENT),
    (&SERVICE_ACCOUNT, WITHIN, "karmada-agent-sa"),
    (&SECRET, WITHIN, SECRET_NAME),
    (&CLUSTER_ROLE, "", AGENT),
    (&CLUSTER_ROLE_BINDING, "", AGENT),
];
/// Its rights on the hub: kind, namespace and end of the name.
const ON_HUB: [(&Kind, &str, &str); 8] = [
    (&CLUSTER_ROLE_BINDING, "", ""),
    (&CLUSTER_ROLE, "", ""),
    (&ROLE_BINDING, "karmada-es-iad-1", "-work"),
    (&ROLE, "karmada-es-iad-1", "-work"),
    (&ROLE_BINDING, "karmada-cluster", "-lease"),
    (&ROLE, "karmada-cluster", "-lease"),
    (&ROLE_BINDING, WITHIN, "-lease"),
    (&ROLE, WITHIN, "-lease"),
];

async fn m04_a_cluster_is_adopted_with_its_agent(case: Case) {
    let new = case.suite.new_cell().await;
    with_cleanup(adopted(&case, &new), new.role.stop()).await;
}

fn right(end: &str) -> String {
    format!("system:karmada:{}:agent{end}", NEW.0)
}

/// Takes our marks off, as if another program had made the object.
async fn disown(plane: &Plane, kind: &Kind, namespace: &str, name: &str) {
    let unmarked = json!({"metadata": {
        "annotations": {"fedgate.dev/cell-uid": null},
        "labels": {"fedgate.dev/made-by": null, "topology.datum.net/city-code": null},
    }});
    plane.merge(kind, namespace, name, unmarked).await;
}

/// The Cluster and the agent that another program's registration leaves, neither of them ours.
async fn registered(case: &Case, new: &NewCell) {
    let (hub, cell) = (&case.hub, &new.role.plane);
    disown(hub, &CLUSTER, "", NEW.0).await;
    for (kind, namespace, end) in ON_HUB {
        disown(hub, kind, namespace, &right(end)).await;
    }
    for (kind, namespace, name) in AT_CELL {
        disown(cell, kind, namespace, name).await;
    }
    for kind in [&POLICY, &POLICY_BINDING] {
        cell.delete(kind, "", "fedgate-karmada-agent-writes").await;
    }
}

/// The agent's objects at the cell, with their versions.
async fn of_agent(new: &NewCell) -> Vec<Value> {
    let mut objects = Vec::new();
    for (kind, namespace, name) in AT_CELL {
        let object = new.role.plane.get(kind, namespace, name).await;
        let metadata = &object.expect("it is there")["metadata"];
        objects.push(json!([kind.name, metadata["uid"], metadata["resourceVersion"]]));
    }
    objects
}

async fn adopted(case: &Case, new: &NewCell) {
    let both = [
        ("--hub-kubeconfig", new.hub.as_path()),
        ("--cell-kubeconfig", new.cell.as_path()),
    ];
    let (joined, agent) = tokio::join!(fedgate(&JOIN, &both), operator(case, new));
    joined.exits(0, "cell iad-1 serves IAD");
    registered(case, new).await;
    let agents = of_agent(new).await;
    let logs = [&case.suite.hub_log, &new.role.log];
    let begin = logs.map(AuditLog::mark);

    fedgate(&JOIN, &both)
        .await
        .exits(4, "Cluster iad-1 was made by another program");
    fedgate(&[&JOIN[..], &["--adopt"]].concat(), &both)
        .await
        .exits(4, "karmadactl unregister iad-1");
    assert_eq!(writes(&logs, &begin), [""; 0]);
    used(case, new, &both).await;
    assert_eq!(of_agent(new).await, agents);
    assert!(
        new.role
            .plane
            .get(&POLICY, "", "fedgate-karmada-agent-writes")
            .await
            .is_none()
    );
    refused_nowhere(logs, begin);

    fedgate(&["cells", "leave", NEW.0], &both)
        .await
        .exits(4, "was made by another program");
    fedgate(&["cells", "leave", NEW.0, "--adopt"], &both)
        .await
        .exits(0, "it registers the Cluster again when it starts");
    assert_eq!(of_agent(new).await, agents);
    if let Some(agent) = agent {
        agent.end().await;
    }
    unregistered(case, new).await;
    is_gone(case, new).await;
}

/// The adopted cell runs a deployment and is drained.
async fn used(case: &Case, new: &NewCell, both: &[(&str, &Path); 2]) {
    let (name, city) = NEW;
    let adopt = ["cells", "join", name, "--city", city, "--adopt"];
    let out = [both[0], both[1], ("--credential-out", new.credential.as_path())];
    fedgate(&adopt, &out).await.exits(0, "cell iad-1 serves IAD");
    fedgate(&adopt, &out).await.exits(0, "nothing to change");
    new.role.start().await;
    let wish = Wish {
        places: vec![("us".to_owned(), city.to_owned(), 1)],
        ..Wish::new("adopted", 1)
    };
    case.run(&wish).await;
    case.delete(&wish).await;
    fedgate(&DRAIN, both).await.exits(0, "is drained");
    new.role.stop().await;
}

/// The other program's part of the end.
async fn unregistered(case: &Case, new: &NewCell) {
    let (hub, cell) = (&case.hub, &new.role.plane);
    for (kind, namespace, name) in AT_CELL {
        cell.delete(kind, namespace, name).await;
    }
    cell.delete(&NAMESPACE, "", WITHIN).await;
    for (kind, namespace, end) in ON_HUB {
        hub.delete(kind, namespace, &right(end)).await;
    }
    hub.delete(&LEASE, WITHIN, "karmada-agent-iad-1").await;
    hub.gone(&NAMESPACE, "", "karmada-es-iad-1", seconds(60)).await;
}
