//! The rights of karmada-agent on both sides.

use super::agent::{SECRET_NAME, WITHIN, of_agent, token};
use crate::{
    membership::client,
    support::{
        credentials::with_token,
        kinds::{CLUSTER_ROLE, NAMESPACE, SECRET},
        plane::Plane,
        seconds,
        suite::NewCell,
        wait_for,
    },
};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, api::PostParams};
use serde_json::json;

/// True if the agent may do this on the hub.
async fn may(
    hub: &kube::Client,
    verb: &str,
    [group, resource, subresource, namespace, name]: [&str; 5],
) -> bool {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: some(verb),
                group: some(group),
                resource: some(resource),
                subresource: some(subresource),
                namespace: some(namespace),
                name: some(name),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api: Api<SelfSubjectAccessReview> = Api::all(hub.clone());
    let answer = api.create(&PostParams::default(), &review).await;
    answer
        .expect("a review")
        .status
        .expect("a review is answered")
        .allowed
}

/// The agent's rights on the hub end at its own cell, and at the cell with tenants' Namespaces.
pub(super) async fn may_do_no_more(new: &NewCell) {
    let hub = client(&of_agent(new).await).await;
    let works = |namespace| ["work.karmada.io", "works", "", namespace, ""];
    let clusters = |subresource, name| ["cluster.karmada.io", "clusters", subresource, "", name];
    assert!(may(&hub, "update", works("karmada-es-iad-1")).await);
    assert!(!may(&hub, "list", works("karmada-es-dfw-1")).await);
    assert!(may(&hub, "update", clusters("status", "iad-1")).await);
    assert!(!may(&hub, "update", clusters("status", "dfw-1")).await);
    for verb in ["create", "update", "patch", "delete"] {
        assert!(!may(&hub, verb, clusters("", "iad-1")).await, "{verb}");
    }
    let leases = |namespace, name| ["coordination.k8s.io", "leases", "", namespace, name];
    assert!(may(&hub, "update", leases("karmada-cluster", "iad-1")).await);
    assert!(!may(&hub, "update", leases("karmada-cluster", "dfw-1")).await);
    assert!(!may(&hub, "update", leases("fedgate-system", "fedgate-gateway")).await);
    assert!(!may(&hub, "get", ["", "secrets", "", "karmada-cluster", "dfw-1"]).await);

    let at_cell = client(&with_token(&new.cell, &token(new).await)).await;
    let at_cell = Plane::new("the agent at the cell", at_cell);
    let meta = |name: &str| json!({"metadata": {"name": name}});
    wait_for("the agent may not write everywhere", seconds(30), || async {
        (!at_cell.would_create(&SECRET, "kube-system", meta("x")).await).then_some(())
    })
    .await;
    assert!(at_cell.would_create(&NAMESPACE, "", meta("ns-x")).await);
    assert!(!at_cell.would_create(&NAMESPACE, "", meta("x")).await);
    assert!(!at_cell.would_create(&SECRET, WITHIN, meta("x")).await);
    assert!(!at_cell.would_create(&CLUSTER_ROLE, "", meta("x")).await);
    // But it may renew its own certificate.
    let api = at_cell.api(&SECRET, WITHIN);
    let own = api.get(SECRET_NAME).await.expect("it reads its Secret");
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    api.replace(SECRET_NAME, &dry, &own)
        .await
        .expect("it may write its Secret");
}
