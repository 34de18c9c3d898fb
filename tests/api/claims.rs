//! What a cell may do to claims of quota in a project: each rule on a real API server, and what a refused cell is told.

use crate::{
    admission::{denied, wait_until},
    plane::{object, play, verdict},
};
use anyhow::Result;
use fedgate_sandbox::{Sandbox, User};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

/// The definition has no admission of its own, as Milo's has.
const DEFINITION: &str = include_str!("../../dev/sandbox/src/backends/crds/resourceclaims.yaml");
/// The rule of claims that are there.
const ANOTHERS: &str = "this claim is another cell's or another service's";

fn claims(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("quota.miloapis.com", "v1alpha1", "ResourceClaim");
    Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&kind))
}

async fn cell(sandbox: &Sandbox, user: &str) -> Result<Api<DynamicObject>> {
    let groups = ["fedgate-quota", "system:authenticated"];
    Ok(claims(&play(sandbox, "alpha", user, &groups).await?))
}

/// The claim of an Instance `web-0` as `dfw-1` makes it, with a change.
fn claim(pointer: &str, value: Value) -> Value {
    let project = json!({"apiGroup": "resourcemanager.miloapis.com", "kind": "Project", "name": "alpha"});
    let mut claim = json!({
        "apiVersion": "quota.miloapis.com/v1alpha1", "kind": "ResourceClaim",
        "metadata": {
            "name": "instance-web-0",
            "labels": {
                "compute.datumapis.com/source-cluster": "dfw-1",
                "compute.datumapis.com/instance-namespace": "ns-a1",
            },
            "annotations": {"fedgate.dev/instance-uid": "u"},
        },
        "spec": {"consumerRef": project, "resourceRef": project,
            "requests": [{"resourceType": "compute.datumapis.com/instances", "amount": 1}]},
    });
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/");
    let parent = claim.pointer_mut(parent).unwrap();
    if value.is_null() {
        parent.as_object_mut().unwrap().remove(&key);
    } else {
        parent[&*key] = value;
    }
    claim
}

fn named(name: &str) -> Value {
    claim("/metadata/name", json!(name))
}

async fn create(api: &Api<DynamicObject>, claim: Value) -> String {
    verdict(api.create(&PostParams::default(), &object(claim)).await)
}

async fn delete(api: &Api<DynamicObject>, name: &str) -> String {
    verdict(api.delete(name, &DeleteParams::default()).await)
}

/// S22: a cell makes and deletes the claims of its own Instances, and no other claim of the project.
pub(crate) async fn a_cell_writes_its_own_claims_only(sandbox: &Sandbox) -> Result<()> {
    let admin = sandbox.client("alpha", User::Admin)?;
    let definition: CustomResourceDefinition = serde_saphyr::from_str(DEFINITION)?;
    Api::all(admin.clone())
        .create(&PostParams::default(), &definition)
        .await?;
    let all = claims(&admin);
    wait_until(|| async { all.list(&ListParams::default()).await.is_ok() }).await;
    let dfw = cell(sandbox, "fedgate-quota:dfw-1").await?;
    let good = || named("instance-web-0");

    let other = cell(sandbox, "fedgate-quota:dfw-2").await?;
    let label = "/metadata/labels/compute.datumapis.com~1source-cluster";
    // A policy takes a moment until it is in force.
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    wait_until(|| async { verdict(other.create(&dry, &object(good())).await) != "200" }).await;
    let whose = "label compute.datumapis.com/source-cluster must be the cell that writes";
    for (what, user, made) in [
        ("another cell", "fedgate-quota:dfw-2", good()),
        ("no cell", "fedgate-quota:", claim(label, json!(""))),
        ("a user without the prefix", "dfw-1", good()),
        (
            "a label of another cell",
            "fedgate-quota:dfw-1",
            claim(label, json!("dfw-2")),
        ),
        ("no label", "fedgate-quota:dfw-1", claim(label, Value::Null)),
    ] {
        let answer = create(&cell(sandbox, user).await?, made).await;
        assert!(answer.contains(whose), "{what}: {answer}");
    }
    denied(
        &create(&dfw, named("storage-web-0")).await,
        "metadata.name: a cell",
    );
    let storage = json!([{"resourceType": "storage.datumapis.com/bytes", "amount": 1}]);
    denied(
        &create(&dfw, claim("/spec/requests", storage)).await,
        "spec.requests: a cell may claim only types of compute.datumapis.com",
    );
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}]);
    for (field, value) in [
        ("finalizers", json!(["example.com/for-ever"])),
        ("ownerReferences", owner),
    ] {
        let answer = create(&dfw, claim(&format!("/metadata/{field}"), value)).await;
        denied(
            &answer,
            "metadata: a cell may set neither finalizers nor ownerReferences",
        );
    }

    // What others have in the project, by an administrator whom the policy does not concern.
    for made in [
        claim("/metadata/name", json!("storage-disk")),
        {
            let mut made = claim(label, json!("dfw-2"));
            made["metadata"]["name"] = json!("instance-other-0");
            made
        },
        {
            let mut made = claim(label, Value::Null);
            made["metadata"]["name"] = json!("instance-nobodys-0");
            made
        },
    ] {
        assert_eq!(create(&all, made).await, "200");
    }
    denied(&delete(&dfw, "instance-other-0").await, ANOTHERS);
    denied(&delete(&dfw, "instance-nobodys-0").await, ANOTHERS);
    denied(&delete(&dfw, "storage-disk").await, "metadata.name: a cell");
    let dry = DeleteParams {
        dry_run: true,
        ..DeleteParams::default()
    };
    denied(&verdict(dfw.delete("instance-other-0", &dry).await), ANOTHERS);
    // The role has neither of these verbs.
    let many = dfw
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await;
    assert!(matches!(many, Err(kube::Error::Api(status)) if status.code == 403));
    let taken =
        Patch::Merge(json!({"metadata": {"labels": {"compute.datumapis.com/source-cluster": "dfw-1"}}}));
    let taken = verdict(
        dfw.patch("instance-other-0", &PatchParams::default(), &taken)
            .await,
    );
    assert!(taken.starts_with("403"), "{taken}");
    assert_eq!(all.list(&ListParams::default()).await?.items.len(), 3);

    assert_eq!(create(&dfw, good()).await, "200");
    denied(&delete(&other, "instance-web-0").await, ANOTHERS);
    assert_eq!(delete(&dfw, "instance-web-0").await, "200");
    Ok(())
}
