//! A Cell of mode Pull, whose karmada-agent reads from the hub (acceptance M3 by a Cell).

use super::{ADMIN, Provisioner, SECRETS, apply, cell, says, secret, start_program, with_provisioner};
use crate::{
    membership::client,
    pull::{
        agent::{WITHIN, refused_nowhere, stopped},
        is_gone, operator,
    },
    support::{
        Case, Wish,
        audit::AuditLog,
        kinds::{CELL, CLUSTER, CLUSTER_ROLE, LEASE, NAMESPACE, SECRET},
        lone_trials, message,
        plane::Plane,
        seconds,
        suite::{NEW, NewCell},
    },
};
use fedgate_manifests::PROVISIONER;
use serde_json::{Value, json};

lone_trials![p09_a_cell_of_mode_pull_needs_further_rights_runs_and_goes];

async fn p09_a_cell_of_mode_pull_needs_further_rights_runs_and_goes(case: Case) {
    with_provisioner(&case, async |new, provisioner| {
        life(&case, new, provisioner).await;
    })
    .await;
}

fn pulled() -> Value {
    let mut pulled = cell(NEW.0, ADMIN);
    pulled["spec"]["register"] =
        json!({"mode": "Pull", "agentImage": "registry.example.com/karmada-agent:v1"});
    pulled
}

async fn life(case: &Case, new: &NewCell, provisioner: &Provisioner) {
    let (hub, home, name) = (&case.hub, &provisioner.home, NEW.0);
    provisioner.start().await;
    home.create(&SECRET, SECRETS, secret(ADMIN, &new.cell, Some(name)))
        .await;
    hub.create(&CELL, "", pulled()).await;
    let refused = says(hub, "Registered", "False", "Forbidden").await;
    let said = message(&refused, "Registered");
    assert!(said.contains("provisioner/hub-pull"), "{said}");
    assert!(hub.get(&CLUSTER, "", name).await.is_none());

    if hub.get(&NAMESPACE, "", WITHIN).await.is_none() {
        hub.create(&NAMESPACE, "", json!({"metadata": {"name": WITHIN}}))
            .await;
    }
    apply(hub, "provisioner/hub-pull/").await;
    let logs = [&case.suite.hub_log, &new.role.log];
    let begun = logs.map(AuditLog::mark);
    let retried = json!({"metadata": {"annotations": {"fedgate.dev/retry": "1"}}});
    hub.merge(&CELL, "", name, retried).await;
    let agent = operator(case, new).await;
    says(hub, "AgentReady", "False", "AgentNotAvailable").await;
    start_program(new).await;
    says(hub, "Ready", "True", "Ready").await;
    let cluster = hub.get(&CLUSTER, "", name).await.expect("it is there");
    assert_eq!(cluster["spec"]["syncMode"], "Pull");
    assert!(hub.get(&SECRET, "karmada-cluster", name).await.is_none());
    let wish = Wish {
        places: vec![("us".to_owned(), NEW.1.to_owned(), 1)],
        ..Wish::new("pulled-by-a-cell", 1)
    };
    case.run(&wish).await;
    case.delete(&wish).await;

    // Namespaces of the city that nobody uses are bound to the cell until they go.
    let outage = json!({"metadata": {"annotations": {"fedgate.dev/allow-outage": name}}});
    hub.merge(&CELL, "", name, outage).await;
    hub.delete(&CELL, "", name).await;
    stopped(new, agent).await;
    hub.gone(&CELL, "", name, seconds(180)).await;

    // A Cell of the same name comes while Kubernetes still ends what the former one has left.
    new.role.stop().await;
    let mut again = pulled();
    again["metadata"]["annotations"] = json!({"fedgate.dev/allow-outage": name});
    hub.create(&CELL, "", again).await;
    let agent = operator(case, new).await;
    says(hub, "AgentReady", "False", "AgentNotAvailable").await;
    hub.delete(&CELL, "", name).await;
    stopped(new, agent).await;
    hub.gone(&CELL, "", name, seconds(180)).await;
    is_gone(case, new).await;
    refused_nowhere(logs, begun);
    assert_eq!(provisioner.denied(logs[0], begun[0]), [""; 0]);
    limited(case, provisioner).await;
    home.delete(&SECRET, SECRETS, ADMIN).await;
}

/// The policy refuses changes of objects that belong to no cell, which the roles of the provisioner allow.
async fn limited(case: &Case, provisioner: &Provisioner) {
    let kubeconfig = std::fs::read_to_string(&provisioner.arguments[2]).expect("read a kubeconfig");
    let role = Plane::new("the provisioner on the hub", client(&kubeconfig).await);
    let lease = json!({"metadata": {"name": "another"}});
    case.hub.create(&LEASE, WITHIN, lease).await;
    let mark = json!({"metadata": {"annotations": {"fedgate.dev/cell-uid": "member-1"}}});
    let only_marked = "may change or delete this object only with annotation fedgate.dev/cell-uid";
    for (refused, said) in [
        (
            role.try_merge(&NAMESPACE, "", "karmada-cluster", &mark)
                .await
                .map(drop),
            "may neither add nor take away annotation fedgate.dev/cell-uid",
        ),
        (
            role.try_merge(&CLUSTER_ROLE, "", PROVISIONER, &mark)
                .await
                .map(drop),
            only_marked,
        ),
        (
            role.try_delete(&NAMESPACE, "", "karmada-cluster", None).await,
            only_marked,
        ),
        (
            role.try_delete(&LEASE, WITHIN, "another", None).await,
            only_marked,
        ),
    ] {
        let refused = refused.expect_err("it is refused").to_string();
        assert!(refused.contains(said), "{refused}");
    }
    case.hub.delete(&LEASE, WITHIN, "another").await;
}
