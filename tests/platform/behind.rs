//! What the gateway's tests rely on is there, be it of the stand-in or of Milo's own API server, as docs/sandbox.md says.

use crate::support::{
    Case,
    kinds::{DEPLOYMENT, NAMESPACE},
    lone_trials,
    objects::deployment,
    plane::Plane,
    seconds,
    suite::LATE,
    wait_for,
};
use fedgate_sandbox::{Sandbox, User};
use kube::{Client, Config};
use serde_json::json;

lone_trials![
    #[core]
    who_is_unknown_is_refused_and_nobody_names_himself,
    #[core]
    a_suspended_project_refuses_writes_alone,
    #[core]
    hidden_namespaces_are_not_listed,
];

/// The gateway's own way to a project.
async fn as_gateway(case: &Case, project: &str) -> Plane {
    let path = format!("/projects/{project}/control-plane");
    let client = async |sandbox: &Sandbox| sandbox.platform_client(&path, User::Gateway);
    Plane::new(project, case.suite.with_sandbox(client).await.expect("a client"))
}

async fn who_is_unknown_is_refused_and_nobody_names_himself(case: Case) {
    let file = async |sandbox: &Sandbox| sandbox.platform_kubeconfig(User::Gateway);
    let file = case.suite.with_sandbox(file).await;
    let config = kube::config::Kubeconfig::read_from(&file).expect("a kubeconfig");
    let options = kube::config::KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(config, &options);
    let mut config = config.await.expect("a usable kubeconfig");
    // The gateway may not make Projects; a header does not make an administrator of it.
    let forged = [("x-remote-user", "admin"), ("x-remote-group", "system:masters")];
    config.headers = forged
        .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
        .into();
    let client = Client::try_from(config.clone()).expect("a client");
    let object =
        json!({"metadata": {"name": "forged"}, "spec": {"ownerRef": {"kind": "Organization", "name": "a"}}});
    let refused = Plane::new("milo", client)
        .try_create(&crate::support::suite::PROJECT, "", object)
        .await;
    assert_eq!(code(refused), 403);
    config.auth_info = kube::config::AuthInfo::default();
    let client = Client::try_from(config).expect("a client");
    assert_eq!(code(client.apiserver_version().await), 401);
}

fn code<T>(answer: kube::Result<T>) -> u16 {
    match answer {
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("no answer: {error}"),
        Ok(_) => 200,
    }
}

async fn a_suspended_project_refuses_writes_alone(case: Case) {
    let suite = &case.suite;
    suite.ensure(LATE).await;
    suite.gateway.stop().await;
    let hub_ns = case.namespace(LATE).await;
    let tenant = suite.project(LATE);
    let mut held = deployment("held", "DFW");
    held["metadata"]["finalizers"] = json!(["fedgate.dev/test"]);
    tenant.create(&DEPLOYMENT, &case.ns, held).await;
    tenant.delete(&DEPLOYMENT, &case.ns, "held").await;
    suite.switch(LATE, json!({"suspend": "Billing"})).await;
    let project = suite.is(LATE, "Suspended", "True").await;
    assert_eq!(project["status"]["suspensions"][0]["reason"], "Billing");
    suite.is(LATE, "Ready", "True").await;
    let gateway = as_gateway(&case, LATE).await;
    // What the gateway's role lets it make. Milo may learn of the suspension a moment after the condition is there.
    let status = wait_for("a write is refused", seconds(30), || async {
        match gateway
            .try_create(&DEPLOYMENT, &case.ns, deployment("new", "DFW"))
            .await
        {
            Err(kube::Error::Api(status)) => Some(status),
            Err(error) => panic!("no answer: {error}"),
            Ok(_) => {
                tenant.delete(&DEPLOYMENT, &case.ns, "new").await;
                None
            }
        }
    })
    .await;
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    // Nobody plays what Milo does: it says so in its own words.
    let by_milo = status.message.contains("cannot accept new updates");
    assert_eq!(by_milo, suite.is_milo, "{}", status.message);
    let causes = status.details.map(|details| details.causes).unwrap_or_default();
    assert!(
        causes.iter().any(|cause| cause.reason == "ProjectSuspended"),
        "{causes:?}"
    );
    assert!(
        gateway.get(&NAMESPACE, "", &case.ns).await.is_some(),
        "reads go on"
    );
    // Of the administrator, and of whatever is being deleted, it refuses nothing.
    tenant
        .create(&DEPLOYMENT, &case.ns, deployment("new", "DFW"))
        .await;
    let patch = json!({"metadata": {"finalizers": null}});
    let answer = gateway.try_merge(&DEPLOYMENT, &case.ns, "held", &patch).await;
    answer.expect("what is being deleted may lose its finalizers");
    tenant.gone(&DEPLOYMENT, &case.ns, "held", seconds(30)).await;
    suite.switch(LATE, json!({"suspend": null})).await;
    let project = suite.is(LATE, "Suspended", "False").await;
    assert_eq!(project["status"]["suspensions"], json!([]));
    suite.gateway.start().await;
    assert!(hub_ns.starts_with("ns-"));
}

async fn hidden_namespaces_are_not_listed(case: Case) {
    let plane = case.suite.project("alpha");
    let all = plane.list(&NAMESPACE, "", "").await;
    let names: Vec<&str> = all
        .iter()
        .filter_map(|ns| ns["metadata"]["name"].as_str())
        .collect();
    assert!(
        names.contains(&"default") && names.contains(&"milo-system"),
        "{names:?}"
    );
    assert!(names.iter().all(|name| !name.starts_with("kube-")), "{names:?}");
}
