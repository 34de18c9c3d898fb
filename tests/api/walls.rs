//! What a cell may put on a write-back: each rule on a real API server, and what a refused cell is told.

use crate::{
    admission::{HOME, denied, make, wait_until, with, write_back},
    plane::{object, objects, play, verdict},
};
use anyhow::{Context, Result};
use fedgate_api::{Instance, WorkloadDeployment};
use fedgate_sandbox::{Sandbox, User};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// The copy `d`, back in its city: its UID. The namespace and the Clusters are there.
async fn copy(admin: &Client) -> Result<String> {
    let copies = objects::<WorkloadDeployment>(admin, HOME);
    let city = Patch::Merge(json!({"metadata": {"labels": {"topology.datum.net/city-code": "DFW"}}}));
    let copy = copies.patch("d", &PatchParams::default(), &city).await?;
    copy.metadata.uid.context("the copy has no UID")
}

async fn cell(sandbox: &Sandbox, user: &str) -> Result<Api<DynamicObject>> {
    let client = play(sandbox, "hub", user, &["fedgate-cells", "system:authenticated"]).await?;
    Ok(objects::<Instance>(&client, HOME))
}

async fn create(api: &Api<DynamicObject>, value: &Value) -> String {
    verdict(api.create(&PostParams::default(), &object(value.clone())).await)
}

async fn merge(api: &Api<DynamicObject>, name: &str, value: Value) -> String {
    verdict(
        api.patch(name, &PatchParams::default(), &Patch::Merge(value))
            .await,
    )
}

fn labelled(mut value: Value, key: &str, text: &str) -> Value {
    value["metadata"]["labels"][key] = json!(text);
    value
}

/// S6, S22: no finalizer, no second owner, no label or annotation beyond the contract's; nothing that Karmada obeys.
pub(crate) async fn a_cell_puts_nothing_else_on_a_write_back(sandbox: &Sandbox) -> Result<()> {
    let admin = sandbox.client("hub", User::Admin)?;
    let uid = copy(&admin).await?;
    let dfw = cell(sandbox, "fedgate-cell-dfw-1").await?;
    let good = write_back("d-1", "dfw-1", &uid);

    let protected = "resourcetemplate.karmada.io/deletion-protected";
    let answer = create(&dfw, &labelled(good.clone(), protected, "Always")).await;
    denied(
        &answer,
        &format!("metadata.labels: a cell may not set {protected}; leave it out"),
    );
    let mut noted = good.clone();
    noted["metadata"]["annotations"] = json!({"work.karmada.io/conflict-resolution": "overwrite"});
    let told = "metadata.annotations: a cell may not set work.karmada.io/conflict-resolution; leave it out";
    denied(&create(&dfw, &noted).await, told);
    noted["metadata"]["annotations"] = json!({"fedgate.dev/instance-uid": "u".repeat(65)});
    denied(
        &create(&dfw, &noted).await,
        "metadata.annotations: a cell may not set fedgate.dev/instance-uid",
    );
    let mut kept = good.clone();
    kept["metadata"]["finalizers"] = json!(["example.com/for-ever"]);
    denied(
        &create(&dfw, &kept).await,
        "metadata.finalizers: a cell may not set any",
    );
    let mut shared = good.clone();
    let second = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"});
    shared["metadata"]["ownerReferences"]
        .as_array_mut()
        .context("owners")?
        .push(second);
    denied(
        &create(&dfw, &shared).await,
        "metadata.ownerReferences of a write-back must be its controller alone",
    );

    let mut whole = good.clone();
    whole["metadata"]["annotations"] =
        json!({"fedgate.dev/instance-uid": "5f1c2d9e-0000-4000-8000-000000000003"});
    for key in [
        "workload-uid",
        "workload-deployment-uid",
        "instance-index",
        "workload-name",
        "placement-name",
    ] {
        whole = labelled(whole, &format!("compute.datumapis.com/{key}"), "1");
    }
    assert_eq!(
        create(&dfw, &whole).await,
        "200",
        "all that the contract has a cell write"
    );
    let finalizers = json!({"metadata": {"finalizers": ["example.com/for-ever"]}});
    denied(
        &merge(&dfw, "d-1", finalizers.clone()).await,
        "metadata.finalizers",
    );
    let label = json!({"metadata": {"labels": {protected: "Always"}}});
    denied(&merge(&dfw, "d-1", label.clone()).await, "metadata.labels");

    let mut large = good.clone();
    large["metadata"]["name"] = json!("d-2");
    large["spec"]["runtime"]["sandbox"]["containers"][0]["env"] =
        json!([{"name": "A", "value": "x".repeat(512 * 1024 - 1_000)}]);
    assert_eq!(create(&dfw, &large).await, "200", "almost as large as it may be");
    large["spec"]["runtime"]["sandbox"]["containers"][0]["env"] =
        json!([{"name": "A", "value": "x".repeat(512 * 1024)}]);
    large["metadata"]["name"] = json!("d-3");
    denied(
        &create(&dfw, &large).await,
        "spec of a write-back may have at most 512 KiB",
    );
    assert_eq!(verdict(dfw.delete("d-2", &DeleteParams::default()).await), "200");

    // What others have put there hinders no cell, and stays as it is.
    let all = objects::<Instance>(&admin, HOME);
    assert_eq!(merge(&all, "d-1", finalizers).await, "200");
    assert_eq!(merge(&all, "d-1", label).await, "200");
    let index = json!({"metadata": {"labels": {"compute.datumapis.com/instance-index": "2"}}});
    assert_eq!(merge(&dfw, "d-1", index).await, "200");
    let changed = json!({"metadata": {"labels": {protected: "Never"}}});
    denied(&merge(&dfw, "d-1", changed).await, "metadata.labels");
    let bare = json!({"metadata": {"finalizers": null, "labels": {protected: null}}});
    assert_eq!(merge(&dfw, "d-1", bare).await, "200");
    assert_eq!(verdict(dfw.delete("d-1", &DeleteParams::default()).await), "200");
    Ok(())
}

/// S3, S22: a write-back has its deployment's name and an ordinal, so a cell takes no names of another deployment.
pub(crate) async fn a_cell_takes_no_other_names(sandbox: &Sandbox) -> Result<()> {
    let admin = sandbox.client("hub", User::Admin)?;
    let uid = copy(&admin).await?;
    let dfw = cell(sandbox, "fedgate-cell-dfw-1").await?;
    for name in ["e-0", "d", "d-", "d-e-0", "d-01", "d-10000"] {
        let answer = create(&dfw, &write_back(name, "dfw-1", &uid)).await;
        assert!(!answer.starts_with("200"), "{name}");
        // What is no name at all is refused by the server itself.
        if name != "d-" {
            denied(
                &answer,
                "metadata.name of a write-back must be <deployment>-<ordinal>",
            );
        }
    }
    for name in ["d-0", "d-9999"] {
        assert_eq!(
            create(&dfw, &write_back(name, "dfw-1", &uid)).await,
            "200",
            "{name}"
        );
        assert_eq!(verdict(dfw.delete(name, &DeleteParams::default()).await), "200");
    }
    Ok(())
}

/// S2: a cell speaks for the city of its Cluster.
pub(crate) async fn a_cell_speaks_for_its_own_city(sandbox: &Sandbox) -> Result<()> {
    let admin = sandbox.client("hub", User::Admin)?;
    let uid = copy(&admin).await?;
    let lhr = cell(sandbox, "fedgate-cell-lhr-1").await?;
    let dfw = cell(sandbox, "fedgate-cell-dfw-1").await?;
    let city = "/metadata/labels/compute.datumapis.com~1city-code";
    let forged = write_back("d-2", "lhr-1", &uid);
    let told = "label compute.datumapis.com/city-code is \"DFW\", but Cluster lhr-1 is in \"LHR\"";
    // A policy takes a moment until it knows the Clusters.
    wait_until(|| async { create(&lhr, &forged).await.contains(told) }).await;
    let mut nowhere = write_back("d-2", "dfw-1", &uid);
    nowhere["metadata"]["labels"]
        .as_object_mut()
        .context("labels")?
        .remove("compute.datumapis.com/city-code");
    denied(
        &create(&dfw, &nowhere).await,
        "is \"\", but Cluster dfw-1 is in \"DFW\"",
    );
    let own = with(forged, city, json!("LHR"));
    assert_eq!(create(&lhr, &own).await, "200");
    let moved = json!({"metadata": {"labels": {"compute.datumapis.com/city-code": "DFW"}}});
    denied(&merge(&lhr, "d-2", moved).await, "but Cluster lhr-1 is in");
    assert_eq!(verdict(lhr.delete("d-2", &DeleteParams::default()).await), "200");

    // What a peer's cell has written is adopted in its own city only.
    let mut peer = write_back("d-3", "-", &uid);
    peer["metadata"]["labels"]
        .as_object_mut()
        .context("labels")?
        .remove("fedgate.dev/cell");
    make(&objects::<Instance>(&admin, HOME), peer).await?;
    let taken = json!({"metadata": {"labels": {
        "fedgate.dev/cell": "lhr-1", "compute.datumapis.com/city-code": "LHR",
    }}});
    denied(
        &merge(&lhr, "d-3", taken).await,
        "of a write-back that no cell has signed cannot change",
    );
    let adopted = json!({"metadata": {"labels": {"fedgate.dev/cell": "dfw-1"}}});
    assert_eq!(merge(&dfw, "d-3", adopted).await, "200");
    assert_eq!(verdict(dfw.delete("d-3", &DeleteParams::default()).await), "200");
    Ok(())
}

/// federation.md §6 rule 7: a cell may log in with its `ServiceAccount` of namespace fedgate-cells, and no other account
/// or group makes a cell.
pub(crate) async fn a_cell_is_also_its_service_account(sandbox: &Sandbox) -> Result<()> {
    let uid = copy(&sandbox.client("hub", User::Admin)?).await?;
    let as_user = async |user: &str, group: &str| -> Result<Api<DynamicObject>> {
        let client = play(sandbox, "hub", user, &[group, "system:authenticated"]).await?;
        Ok(objects::<Instance>(&client, HOME))
    };
    let account = |name: &str| format!("system:serviceaccount:fedgate-cells:{name}");
    let group = "system:serviceaccounts:fedgate-cells";
    let dfw = as_user(&account("dfw-1"), group).await?;
    let other = as_user(&account("dfw-2"), group).await?;
    let good = write_back("d-77", "dfw-1", &uid);
    denied(&create(&other, &good).await, "label fedgate.dev/cell must be");
    // A name of one kind in the group of the other is no cell.
    let mixed = [
        as_user("fedgate-cell-dfw-1", group).await?,
        as_user(&account("dfw-1"), "fedgate-cells").await?,
    ];
    for user in mixed {
        denied(&create(&user, &good).await, "label fedgate.dev/cell must be");
    }
    let elsewhere = "system:serviceaccount:default:dfw-1";
    let stranger = as_user(elsewhere, "system:serviceaccounts:default").await?;
    denied(&create(&stranger, &good).await, "forbidden");
    assert_eq!(create(&dfw, &good).await, "200");
    let delete = DeleteParams::default();
    denied(
        &verdict(other.delete("d-77", &delete).await),
        "belongs to another cell",
    );
    assert_eq!(verdict(dfw.delete("d-77", &delete).await), "200");
    Ok(())
}

/// S3, S22: a user of the cells' group who is no cell deletes nothing, not even what names no cell.
pub(crate) async fn nobody_in_the_group_deletes_what_names_no_cell(sandbox: &Sandbox) -> Result<()> {
    let admin = sandbox.client("hub", User::Admin)?;
    let uid = copy(&admin).await?;
    let mut peer = write_back("d-4", "-", &uid);
    peer["metadata"]["labels"]
        .as_object_mut()
        .context("labels")?
        .remove("fedgate.dev/cell");
    let all = objects::<Instance>(&admin, HOME);
    make(&all, peer).await?;
    let nobody = cell(sandbox, "somebody").await?;
    let answer = verdict(nobody.delete("d-4", &DeleteParams::default()).await);
    denied(
        &answer,
        "only a cell deletes write-backs: log in as user fedgate-cell-<name>",
    );
    assert_eq!(verdict(all.delete("d-4", &DeleteParams::default()).await), "200");
    Ok(())
}
