//! What the admission policies and roles of manifests/ allow a cell, the gateway and a tenant.

use crate::{
    plane::{object, objects, play, verdict},
    table,
};
use anyhow::{Context, Result};
use fedgate_api::{Instance, Workload, WorkloadDeployment};
use fedgate_sandbox::{Sandbox, User};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Namespace, Secret},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

pub(crate) const HOME: &str = "ns-6d1f0c52-0000-4000-8000-00000000a001";

pub(crate) async fn make<K>(api: &Api<K>, value: Value) -> Result<K>
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    Ok(api
        .create(&PostParams::default(), &serde_json::from_value(value)?)
        .await?)
}

/// A write-back of `cell` for the copy `d` in DFW.
pub(crate) fn write_back(name: &str, cell: &str, copy_uid: &str) -> Value {
    json!({
        "apiVersion": "compute.datumapis.com/v1alpha", "kind": "Instance",
        "metadata": {
            "name": name, "namespace": HOME,
            "labels": {
                "meta.datumapis.com/upstream-cluster-name": "cluster-shop",
                "meta.datumapis.com/upstream-namespace": "default",
                "fedgate.dev/cell": cell,
                "compute.datumapis.com/workload-deployment-name": "d",
                "compute.datumapis.com/city-code": "DFW",
            },
            "ownerReferences": [{
                "apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment", "name": "d",
                "uid": copy_uid, "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "runtime": {"resources": {"instanceType": "x"}, "sandbox": {"containers": [{"name": "a", "image": "b"}]}},
            "networkInterfaces": [{"network": {"name": "default"}}],
        },
    })
}

fn typed<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn with(mut value: Value, pointer: &str, new: Value) -> Value {
    *value.pointer_mut(pointer).unwrap() = new;
    value
}

/// A hub namespace with a copy in it; answers the copy's UID.
async fn hub_home(admin: &Client) -> Result<String> {
    let identity = json!({
        "meta.datumapis.com/upstream-cluster-name": "cluster-shop",
        "meta.datumapis.com/upstream-namespace": "default",
        "fedgate.dev/project-uid": "p",
    });
    make::<Namespace>(
        &Api::all(admin.clone()),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME, "labels": identity}}),
    )
    .await?;
    let copy = json!({
        "apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment",
        "metadata": {"name": "d", "namespace": HOME, "labels": {"topology.datum.net/city-code": "DFW"}},
    });
    let copy = make(&objects::<WorkloadDeployment>(admin, HOME), copy).await?;
    for (name, city) in [("dfw-1", "DFW"), ("dfw-2", "DFW"), ("lhr-1", "LHR")] {
        cluster(admin, name, city).await?;
    }
    copy.metadata.uid.context("the copy has no UID")
}

/// Registers a cell in a city.
async fn cluster(admin: &Client, name: &str, city: &str) -> Result<()> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "cluster.karmada.io",
        "v1alpha1",
        "Cluster",
    ));
    let cluster = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name, "labels": {"topology.datum.net/city-code": city}},
        "spec": {"syncMode": "Push"},
    });
    make::<DynamicObject>(&Api::all_with(admin.clone(), &resource), cluster).await?;
    Ok(())
}

/// Fails unless the server has refused with these words.
pub(crate) fn denied(answer: &str, words: &str) {
    assert!(
        answer.starts_with("422") || answer.starts_with("403"),
        "{words:?}: {answer}"
    );
    assert!(answer.contains(words), "{words:?} is missing in {answer}");
}

/// S22, S3: a cell writes its own write-backs, under the Namespace's identity and one owner, and nothing else.
pub(crate) async fn a_cell_writes_its_own_instances_only(sandbox: &Sandbox) -> Result<()> {
    let admin = sandbox.client("hub", User::Admin)?;
    let uid = hub_home(&admin).await?;
    let cell = |name: &'static str| play(sandbox, "hub", name, &["fedgate-cells", "system:authenticated"]);
    let dfw = objects::<Instance>(&cell("fedgate-cell-dfw-1").await?, HOME);
    let other = objects::<Instance>(&cell("fedgate-cell-dfw-2").await?, HOME);
    let nobody = objects::<Instance>(&cell("somebody").await?, HOME);
    let post = PostParams::default();
    let good = write_back("d-0", "dfw-1", &uid);

    // A policy takes a moment until it is in force.
    wait_until_denied(|| async { verdict(nobody.create(&post, &object(good.clone())).await) }).await;
    denied(
        &verdict(nobody.create(&post, &object(good.clone())).await),
        "label fedgate.dev/cell must be",
    );
    denied(
        &verdict(other.create(&post, &object(good.clone())).await),
        "label fedgate.dev/cell must be",
    );
    let label = "/metadata/labels/meta.datumapis.com~1upstream-";
    for key in ["namespace", "cluster-name"] {
        let forged = with(good.clone(), &format!("{label}{key}"), json!("victim"));
        denied(
            &verdict(dfw.create(&post, &object(forged)).await),
            "must be those of the Namespace",
        );
    }
    let orphan = with(good.clone(), "/metadata/ownerReferences", json!([]));
    denied(
        &verdict(dfw.create(&post, &object(orphan)).await),
        "the controller of a write-back",
    );
    let loose = with(
        good.clone(),
        "/metadata/ownerReferences/0/controller",
        json!(false),
    );
    denied(
        &verdict(dfw.create(&post, &object(loose)).await),
        "the controller of a write-back",
    );

    assert_eq!(verdict(dfw.create(&post, &object(good)).await), "200");
    let merge = PatchParams::default();
    let status = Patch::Merge(json!({"status": {"suspended": true}}));
    assert_eq!(verdict(dfw.patch_status("d-0", &merge, &status).await), "200");
    // Two policies refuse it, and the server answers with the words of one.
    let told = verdict(other.patch_status("d-0", &merge, &status).await);
    let words = ["label fedgate.dev/cell must be", "belongs to another cell"];
    denied(
        &told,
        words
            .iter()
            .find(|words| told.contains(**words))
            .unwrap_or(&words[0]),
    );
    let taken = |by: &str| Patch::Merge(json!({"metadata": {"labels": {"fedgate.dev/cell": by}}}));
    denied(
        &verdict(other.patch("d-0", &merge, &taken("dfw-2")).await),
        "belongs to another cell",
    );
    a_named_cell_takes_over(&admin, [&dfw, &other], &uid).await?;
    let forged =
        Patch::Merge(json!({"metadata": {"labels": {"meta.datumapis.com/upstream-namespace": "victim"}}}));
    denied(
        &verdict(dfw.patch("d-0", &merge, &forged).await),
        "upstream-namespace",
    );
    let moved = Patch::Merge(json!({"metadata": {
        "labels": {"compute.datumapis.com/workload-deployment-name": "e"},
        "ownerReferences": [{"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment", "name": "e",
                             "uid": "x", "controller": true}],
    }}));
    denied(&verdict(dfw.patch("d-0", &merge, &moved).await), "cannot move");

    // A peer's write-back, without a cell, is adopted.
    let mut peer = write_back("d-9", "-", &uid);
    peer["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .remove("fedgate.dev/cell");
    make(&objects::<Instance>(&admin, HOME), peer).await?;
    let adopt = Patch::Merge(json!({"metadata": {"labels": {"fedgate.dev/cell": "dfw-1"}}}));
    assert_eq!(verdict(dfw.patch("d-9", &merge, &adopt).await), "200");

    let copies = objects::<WorkloadDeployment>(&cell("fedgate-cell-dfw-1").await?, HOME);
    let delete = DeleteParams::default();
    denied(&verdict(copies.delete("d", &delete).await), "forbidden");
    denied(
        &verdict(other.delete("d-0", &delete).await),
        "belongs to another cell",
    );
    assert_eq!(verdict(dfw.delete("d-9", &delete).await), "200");

    // After a city move the new cell may take away what the old one left.
    let moved = Patch::Merge(json!({"metadata": {"labels": {"topology.datum.net/city-code": "LHR"}}}));
    objects::<WorkloadDeployment>(&admin, HOME)
        .patch("d", &merge, &moved)
        .await?;
    wait_until(|| async { verdict(other.delete("d-0", &delete).await) == "200" }).await;
    Ok(())
}

/// serving.md §1: once the copy names a cell, that one takes write-back `d-0` over, and the other makes none and takes none back.
async fn a_named_cell_takes_over(
    admin: &Client,
    [dfw, other]: [&Api<DynamicObject>; 2],
    uid: &str,
) -> Result<()> {
    let (post, merge) = (PostParams::default(), PatchParams::default());
    let taken = |by: &str| Patch::Merge(json!({"metadata": {"labels": {"fedgate.dev/cell": by}}}));
    let copy = objects::<WorkloadDeployment>(admin, HOME);
    let name = async |cell: Option<&str>| {
        let named = Patch::Merge(json!({"metadata": {"annotations": {"fedgate.dev/cell": cell}}}));
        copy.patch("d", &merge, &named).await
    };
    name(Some("dfw-2")).await?;
    wait_until(|| async { verdict(other.patch("d-0", &merge, &taken("dfw-2")).await) == "200" }).await;
    let back = verdict(dfw.patch("d-0", &merge, &taken("dfw-1")).await);
    denied(&back, "WorkloadDeployment d runs at cell dfw-2");
    let more = write_back("d-1", "dfw-1", uid);
    let more = verdict(dfw.create(&post, &object(more)).await);
    denied(&more, "WorkloadDeployment d runs at cell dfw-2");
    name(Some("dfw-1")).await?;
    wait_until(|| async { verdict(dfw.patch("d-0", &merge, &taken("dfw-1")).await) == "200" }).await;
    name(None).await?;
    Ok(())
}

/// federation.md §1.1: the gateway deletes Namespaces of tenants and companions, and no others of these kinds.
pub(crate) async fn the_gateway_deletes_only_what_is_its_own(sandbox: &Sandbox) -> Result<()> {
    let admin = sandbox.client("hub", User::Admin)?;
    let gateway = sandbox.client("hub", User::Gateway)?;
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    let namespace = |name: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels}});
    let tenant = json!({"fedgate.dev/project-uid": "p"});
    make(&namespaces, namespace("ns-theirs", json!({}))).await?;
    make(&namespaces, namespace("other", tenant.clone())).await?;
    make(&namespaces, namespace("ns-ours", tenant)).await?;
    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), "ns-ours");
    let secrets: Api<Secret> = Api::namespaced(admin, "ns-ours");
    let companion = json!({"compute.datumapis.com/referenced-data": "true"});
    for (name, labels) in [("mine", companion), ("foreign", json!({}))] {
        let meta = json!({"metadata": {"name": name, "labels": labels}});
        make(&maps, meta.clone()).await?;
        make(&secrets, meta).await?;
    }

    let delete = DeleteParams::default();
    let maps: Api<ConfigMap> = Api::namespaced(gateway.clone(), "ns-ours");
    let secrets: Api<Secret> = Api::namespaced(gateway.clone(), "ns-ours");
    let namespaces: Api<Namespace> = Api::all(gateway);
    let answers = [
        verdict(maps.delete("foreign", &delete).await),
        verdict(secrets.delete("foreign", &delete).await),
        verdict(namespaces.delete("ns-theirs", &delete).await),
        verdict(namespaces.delete("other", &delete).await),
    ];
    for answer in answers {
        assert!(answer.contains("the gateway may delete only"), "{answer}");
    }
    let answers = [
        verdict(maps.delete("mine", &delete).await),
        verdict(secrets.delete("mine", &delete).await),
        verdict(namespaces.delete("ns-ours", &delete).await),
    ];
    assert_eq!(answers, ["200", "200", "200"]);
    Ok(())
}

/// federation.md §1.1: of Namespaces, ConfigMaps and Secrets the gateway writes those of tenants, and ConfigMaps of its own.
///
/// A push-mode Karmada keeps the members' administrator tokens in Secrets of the hub.
pub(crate) async fn the_gateway_writes_only_what_is_its_own(sandbox: &Sandbox) -> Result<()> {
    let admin = sandbox.client("hub", User::Admin)?;
    let gateway = sandbox.client("hub", User::Gateway)?;
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    for name in ["ns-writes", "members"] {
        make(&namespaces, json!({"metadata": {"name": name}})).await?;
    }
    let companion = json!({"compute.datumapis.com/referenced-data": "true"});
    let plain = json!({"metadata": {"name": "token"}, "stringData": {"token": "t"}});
    let ours = json!({"metadata": {"name": "ours", "labels": companion}});
    let in_cluster: Api<Secret> = Api::namespaced(admin.clone(), "members");
    let in_tenant: Api<Secret> = Api::namespaced(admin, "ns-writes");
    make(&in_cluster, plain.clone()).await?;
    make(&in_tenant, plain).await?;

    let post = PostParams::default();
    let secrets = |namespace: &str| Api::<Secret>::namespaced(gateway.clone(), namespace);
    let maps = |namespace: &str| Api::<ConfigMap>::namespaced(gateway.clone(), namespace);
    let all: Api<Namespace> = Api::all(gateway.clone());
    let merge = PatchParams::default();
    let label = Patch::Merge(json!({"metadata": {"labels": companion}, "stringData": {"token": "stolen"}}));
    let rename = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    let named = |name: &str| json!({"metadata": {"name": name}});
    let in_ours = secrets("ns-writes");
    let labelled = ours.clone();
    wait_until_denied(|| async { verdict(secrets("members").create(&post, &typed(labelled.clone())).await) })
        .await;
    let refused = [
        verdict(secrets("members").create(&post, &typed(ours.clone())).await),
        verdict(secrets("members").patch("token", &merge, &label).await),
        // A label that the same request sets makes nothing its own.
        verdict(in_ours.patch("token", &merge, &label).await),
        verdict(in_ours.create(&post, &typed(named("unlabelled"))).await),
        verdict(maps("fedgate-system").create(&post, &typed(named("other"))).await),
        verdict(maps("default").create(&post, &typed(named("fedgate-x"))).await),
        verdict(
            secrets("fedgate-system")
                .create(&post, &typed(named("fedgate-x")))
                .await,
        ),
        verdict(all.create(&post, &typed(named("other"))).await),
        verdict(all.patch("members", &merge, &rename).await),
    ];
    for answer in refused {
        denied(&answer, "the gateway may write only");
    }
    let taken = [
        verdict(in_ours.create(&post, &typed(ours.clone())).await),
        verdict(in_ours.patch("ours", &merge, &rename).await),
        verdict(maps("ns-writes").create(&post, &typed(ours)).await),
        verdict(
            maps("fedgate-system")
                .create(&post, &typed(named("fedgate-x")))
                .await,
        ),
        verdict(all.create(&post, &typed(named("ns-new"))).await),
        verdict(all.patch("ns-new", &merge, &rename).await),
    ];
    assert_eq!(taken, ["200"; 6]);
    Ok(())
}

/// federation.md §3.11: the gateway deletes bindings beside its copies and no others.
pub(crate) async fn the_gateway_deletes_bindings_of_tenants_only(sandbox: &Sandbox) -> Result<()> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "work.karmada.io",
        "v1alpha2",
        "ResourceBinding",
    ));
    let of = |client: &Client, namespace: &str| {
        Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource)
    };
    let admin = sandbox.client("hub", User::Admin)?;
    let gateway = sandbox.client("hub", User::Gateway)?;
    for namespace in ["ns-bound", "bound"] {
        make::<Namespace>(&Api::all(admin.clone()), json!({"metadata": {"name": namespace}})).await?;
        let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace, "name": "web"}}});
        make(&of(&admin, namespace), binding).await?;
    }
    let delete = DeleteParams::default();
    denied(
        &verdict(of(&gateway, "bound").delete("web", &delete).await),
        "only ResourceBindings in Namespaces ns-*",
    );
    assert_eq!(
        verdict(of(&gateway, "ns-bound").delete("web", &delete).await),
        "200"
    );
    Ok(())
}

/// serving.md §2 rule 11: the gateway moves bindings of tenants from cell to cell, and changes nothing else of them.
pub(crate) async fn the_gateway_changes_the_cells_of_a_binding_only(sandbox: &Sandbox) -> Result<()> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "work.karmada.io",
        "v1alpha2",
        "ResourceBinding",
    ));
    let of = |client: &Client, namespace: &str| {
        Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource)
    };
    let admin = sandbox.client("hub", User::Admin)?;
    let gateway = sandbox.client("hub", User::Gateway)?;
    for namespace in ["ns-moved", "moved"] {
        make::<Namespace>(&Api::all(admin.clone()), json!({"metadata": {"name": namespace}})).await?;
        let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace, "name": "web"},
                "clusters": [{"name": "dfw-1"}], "replicas": 1}});
        make(&of(&admin, namespace), binding).await?;
    }
    let merge = PatchParams::default();
    let patch = async |namespace: &str, patch: Value| {
        verdict(
            of(&gateway, namespace)
                .patch("web", &merge, &Patch::Merge(patch))
                .await,
        )
    };
    let to = json!({"spec": {"clusters": [{"name": "dfw-2", "replicas": 1}], "gracefulEvictionTasks": [
        {"fromCluster": "dfw-1", "purgeMode": "Gracefully", "suppressDeletion": true, "producer": "fedgate", "reason": "Draining"}]}});
    let words = "only spec.clusters and spec.gracefulEvictionTasks";
    denied(&patch("moved", to.clone()).await, words);
    assert_eq!(patch("ns-moved", to).await, "200");
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"}]);
    for other in [
        json!({"spec": {"replicas": 2}}),
        json!({"spec": {"replicas": null}}),
        json!({"spec": {"schedulerName": "x"}}),
        json!({"metadata": {"labels": {"a": "b"}}}),
        json!({"metadata": {"annotations": {"a": "b"}}}),
        json!({"metadata": {"finalizers": ["a/b"]}}),
        json!({"metadata": {"ownerReferences": owner}}),
    ] {
        denied(&patch("ns-moved", other).await, words);
    }
    assert_eq!(
        patch("ns-moved", json!({"spec": {"gracefulEvictionTasks": null}})).await,
        "200"
    );
    Ok(())
}

/// federation.md §1.2 rule 10: an operator gives a hub namespace to another project; the gateway takes the annotation away.
pub(crate) async fn only_an_operator_reassigns_a_hub_namespace(sandbox: &Sandbox) -> Result<()> {
    let admin: Api<Namespace> = Api::all(sandbox.client("hub", User::Admin)?);
    let gateway: Api<Namespace> = Api::all(sandbox.client("hub", User::Gateway)?);
    make(&admin, json!({"metadata": {"name": "ns-given"}})).await?;
    let merge = PatchParams::default();
    let to = |project: Value| {
        Patch::Merge(json!({"metadata": {"annotations": {"fedgate.dev/reassign-to": project}}}))
    };
    let shop = to(json!("shop"));
    denied(
        &verdict(gateway.patch("ns-given", &merge, &shop).await),
        "only an operator may set annotation fedgate.dev/reassign-to",
    );
    assert_eq!(verdict(admin.patch("ns-given", &merge, &shop).await), "200");
    let other = Patch::Merge(json!({"metadata": {"labels": {"fedgate.dev/cities": "dfw"}}}));
    assert_eq!(verdict(gateway.patch("ns-given", &merge, &other).await), "200");
    assert_eq!(
        verdict(gateway.patch("ns-given", &merge, &to(Value::Null)).await),
        "200"
    );
    Ok(())
}

/// api.md §6: a tenant needs the verb `use` on each network, when a Workload is made and when its interfaces change.
pub(crate) async fn a_tenant_uses_only_networks_that_it_may(sandbox: &Sandbox) -> Result<()> {
    let admin = sandbox.client("alpha", User::Admin)?;
    let verbs = json!([
        {"apiGroups": ["compute.datumapis.com"], "resources": ["workloads"], "verbs": ["create", "patch"]},
        {"apiGroups": ["networking.datumapis.com"], "resources": ["networks"], "resourceNames": ["default"],
         "verbs": ["use"]},
    ]);
    let roles: Api<ClusterRole> = Api::all(admin.clone());
    make(&roles, json!({"metadata": {"name": "tenant"}, "rules": verbs})).await?;
    let bindings: Api<ClusterRoleBinding> = Api::all(admin.clone());
    make(
        &bindings,
        json!({"metadata": {"name": "tenant"},
               "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tenant"},
               "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"}]}),
    )
    .await?;
    let tenant = objects::<Workload>(
        &play(sandbox, "alpha", "tenant", &["system:authenticated"]).await?,
        "default",
    );
    let workload = |networks: &[&str]| {
        let mut spec = table::cases().swap_remove(0).spec;
        spec["template"]["spec"]["networkInterfaces"] = networks
            .iter()
            .map(|name| json!({"network": {"name": name}}))
            .collect();
        object(
            json!({"apiVersion": "compute.datumapis.com/v1alpha", "kind": "Workload",
                      "metadata": {"name": "w", "namespace": "default"}, "spec": spec}),
        )
    };
    let post = PostParams::default();
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let two = workload(&["default", "secret"]);
    wait_until_denied(|| async { verdict(tenant.create(&dry, &two).await) }).await;
    let answer = verdict(tenant.create(&post, &two).await);
    assert!(
        answer.contains("you may not use the network of interface 1"),
        "{answer}"
    );
    assert_eq!(
        verdict(tenant.create(&post, &workload(&["default"])).await),
        "200"
    );

    let merge = PatchParams::default();
    let labels = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    assert_eq!(verdict(tenant.patch("w", &merge, &labels).await), "200");
    let interfaces = |names: &[&str]| {
        let list: Value = names
            .iter()
            .map(|name| json!({"network": {"name": name}}))
            .collect();
        Patch::Merge(json!({"spec": {"template": {"spec": {"networkInterfaces": list}}}}))
    };
    let answer = verdict(tenant.patch("w", &merge, &interfaces(&["secret"])).await);
    assert!(answer.starts_with("403"), "{answer}");
    // Eight interfaces are within the budget of the API server.
    assert_eq!(
        verdict(tenant.patch("w", &merge, &interfaces(&["default"; 8])).await),
        "200"
    );
    Ok(())
}

async fn wait_until_denied<F: Future<Output = String>>(request: impl Fn() -> F) {
    wait_until(|| async { request().await != "200" }).await;
}

pub(crate) async fn wait_until<F: Future<Output = bool>>(holds: impl Fn() -> F) {
    for _ in 0..100 {
        if holds().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("not within ten seconds");
}
