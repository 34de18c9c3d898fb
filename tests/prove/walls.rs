//! Tenants' walls (docs/security.md): what one tenant or a cell does causes no request at another tenant's plane, and no
//! word of a tenant becomes a key on the hub. Asserted on the log of all requests.

use crate::{
    end::wrong,
    objects::{WriteBack, deployment, instance_status},
    ops::Op::*,
    rig::{GATEWAY, HUB, Rig, rest, simulate},
    scenarios::{SETTLED, STEP},
};
use fedgate_api::keys;
use fedgate_simulator::{Entry, Plane, Verb};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};

/// What the gateway asked of a plane since the log was cleared; that a watch begins anew is nobody's data.
fn asked(rig: &Rig, plane: &str) -> Vec<String> {
    let data = |e: &&Entry| &*e.plane == plane && e.user.starts_with(GATEWAY) && e.verb != Verb::Watch;
    rig.simulator
        .log()
        .entries()
        .iter()
        .filter(data)
        .map(ToString::to_string)
        .collect()
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

fn hub_namespace(plane: &Plane, namespace: &str) -> String {
    format!("ns-{}", uid(&plane.get("Namespace", "", namespace).unwrap()))
}

/// Two tenants with a deployment each; their names tell whose they are.
async fn two_tenants() -> Rig {
    let mut rig = Rig::new(1, &["p", "q"]);
    rig.start();
    Create("p", "default", "web", "DFW", 1).apply(&mut rig);
    Create("q", "default", "api", "DFW", 1).apply(&mut rig);
    rest(SETTLED).await;
    assert_eq!(wrong(&rig), Vec::<String>::new());
    rig.simulator.log().clear();
    rig
}

/// S1: a cell writes, into the hub namespace of one tenant, an Instance that claims another.
#[test]
fn s1_forged_identity_reaches_nobody() {
    simulate(async {
        let rig = two_tenants().await;
        let (mine, victim) = (hub_namespace(&rig.projects["p"], "default"), &rig.projects["q"]);
        let copy = uid(&rig.hub.get("WorkloadDeployment", &mine, "web").unwrap());
        for (ordinal, project, namespace, deployment) in [
            (5, "q", "default", "web"),
            (6, "q", "default", "api"),
            (7, "p", "other", "web"),
        ] {
            let forged = WriteBack {
                project,
                namespace,
                hub: &mine,
                deployment: "web",
                copy: &copy,
                city: "DFW",
                cell: "dfw-1",
                ordinal,
            };
            let mut object = forged.object();
            object["metadata"]["labels"][keys::WORKLOAD_DEPLOYMENT_NAME] = json!(deployment);
            rig.hub.create(object).unwrap();
            let status = json!({"status": instance_status(true)});
            rig.hub
                .merge_status("Instance", &mine, &forged.name(), status)
                .unwrap();
        }
        let before = victim.revision();
        rest(SETTLED).await;
        assert_eq!(asked(&rig, "q"), Vec::<String>::new());
        assert_eq!(victim.revision(), before);
        let refused = rig.gateway().describe()["quarantined"].clone();
        assert!(refused.to_string().contains("identity_mismatch"), "{refused}");
        let projected: BTreeSet<String> = rig.projects["p"]
            .list("Instance")
            .iter()
            .map(|i| i["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(projected, BTreeSet::from(["web-0".to_owned()]));
    });
}

/// S4: someone with rights on the hub labels a tenant's namespace as another's.
#[test]
fn s4_relabelled_namespaces_are_put_back_and_lead_nowhere() {
    simulate(async {
        let rig = two_tenants().await;
        let mine = hub_namespace(&rig.projects["p"], "default");
        let forged = json!({"metadata": {"labels": {
            keys::UPSTREAM_CLUSTER: "cluster-q",
            keys::PROJECT_UID: uid(&rig.projects["q"].get("Namespace", "", "kube-system").unwrap()),
        }}});
        rig.hub.merge("Namespace", "", &mine, forged).unwrap();
        rest(SETTLED).await;
        assert_eq!(asked(&rig, "q"), Vec::<String>::new());
        let namespace = rig.hub.get("Namespace", "", &mine).unwrap();
        assert_eq!(
            namespace["metadata"]["labels"][keys::UPSTREAM_CLUSTER],
            "cluster-p"
        );
        assert_eq!(wrong(&rig), Vec::<String>::new());
    });
}

/// S5: a namespace that is deleted and made again has another hub namespace; the old one is drained and not used again.
#[test]
fn s5_a_namespace_made_again_is_another_one() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        rig.start();
        Namespace("p", "shop").apply(&mut rig);
        Create("p", "shop", "web", "DFW", 1).apply(&mut rig);
        rest(STEP).await;
        let first = hub_namespace(&rig.projects["p"], "shop");
        DropNamespace("p", "shop").apply(&mut rig);
        rest(STEP).await;
        Namespace("p", "shop").apply(&mut rig);
        Create("p", "shop", "web", "DFW", 1).apply(&mut rig);
        rest(SETTLED).await;
        let second = hub_namespace(&rig.projects["p"], "shop");
        assert_ne!(first, second);
        assert!(
            rig.hub.get("Namespace", "", &first).is_none(),
            "the old one stays"
        );
        assert!(rig.hub.get("WorkloadDeployment", &second, "web").is_some());
        assert_eq!(wrong(&rig), Vec::<String>::new());
    });
}

/// S9: each plane is asked for objects of its own tenant alone, whatever happens at the others.
#[test]
fn s9_no_plane_is_asked_for_anothers_objects() {
    simulate(async {
        let mut rig = Rig::new(1, &["p", "q"]);
        rig.start();
        Namespace("p", "of-p").apply(&mut rig);
        Namespace("q", "of-q").apply(&mut rig);
        for (project, namespace, name) in [("p", "of-p", "p-web"), ("q", "of-q", "q-web")] {
            Config(project, namespace, "settings", "one").apply(&mut rig);
            CreateWith(project, namespace, name, "DFW", "settings").apply(&mut rig);
        }
        rest(STEP).await;
        Move("p", "of-p", "p-web", "LHR").apply(&mut rig);
        Scale("q", "of-q", "q-web", 2).apply(&mut rig);
        DropCopy("p-web").apply(&mut rig);
        rest(STEP).await;
        Delete("p", "of-p", "p-web").apply(&mut rig);
        DropNamespace("q", "of-q").apply(&mut rig);
        rest(SETTLED).await;
        let entries = rig.simulator.log().entries();
        let mut seen = 0;
        for (plane, others) in [("p", "q"), ("q", "p")] {
            for entry in entries
                .iter()
                .filter(|e| &*e.plane == plane && e.user.starts_with(GATEWAY))
            {
                seen += 1;
                let (namespace, name) = (format!("of-{others}"), format!("{others}-web"));
                assert!(
                    entry.namespace != namespace && !entry.name.starts_with(&name),
                    "{entry}"
                );
            }
        }
        assert!(seen > 40, "only {seen} requests were looked at");
    });
}

/// S10: an Instance of the tenant's own that has a projection's name stays as it is, and the deployment says so.
#[test]
fn s10_a_tenants_own_instance_is_never_taken_over() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        let own = json!({
            "apiVersion": crate::objects::COMPUTE, "kind": "Instance",
            "metadata": {"name": "web-0", "namespace": "default", "labels": {"own": "yes"}},
            "spec": WriteBack {
                project: "p", namespace: "default", hub: "", deployment: "web", copy: "", city: "DFW", cell: "dfw-1",
                ordinal: 0,
            }
            .object()["spec"],
        });
        rig.projects["p"].create(own).unwrap();
        let before = rig.projects["p"].get("Instance", "default", "web-0").unwrap();
        rig.start();
        Create("p", "default", "web", "DFW", 1).apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(
            rig.projects["p"].get("Instance", "default", "web-0").unwrap(),
            before
        );
        let refused = rig.gateway().describe()["quarantined"].clone();
        assert!(refused.to_string().contains("name_taken"), "{refused}");
    });
}

/// S18 and P16: thousands of deployments of one tenant do not hold up another's.
#[test]
fn s18_a_tenant_that_floods_holds_up_no_other() {
    simulate(async {
        let mut rig = Rig::new(1, &["p", "q"]);
        let request = Duration::from_millis(5);
        rig.simulator.latency(Some(request..=request));
        rig.start();
        Create("q", "default", "first", "DFW", 0).apply(&mut rig);
        rest(STEP).await;
        for n in 0..1_000 {
            rig.projects["p"]
                .create(deployment("default", &format!("flood-{n}"), "DFW", 0, None))
                .unwrap();
        }
        rest(Duration::from_millis(50)).await;
        Create("q", "default", "one", "DFW", 0).apply(&mut rig);
        rest(Duration::from_millis(300)).await;
        let hub = hub_namespace(&rig.projects["q"], "default");
        assert!(
            rig.hub.get("WorkloadDeployment", &hub, "one").is_some(),
            "not on the hub after 300 ms"
        );
        let flood = rig.hub.list("WorkloadDeployment").len();
        assert!(flood < 900, "the flood was over already: {flood}");
    });
}

/// Keys that may be on a hub object (contract: federation.md §1.3 and §5).
fn allowed(key: &str) -> bool {
    let ours = [
        keys::UPSTREAM_CLUSTER,
        keys::UPSTREAM_NAMESPACE,
        keys::SKIP_AUTO_PROPAGATION,
        keys::CITIES,
        keys::PROJECT_UID,
        keys::CITY_CODE,
        keys::REFERENCED_DATA,
        keys::REFERENCED_BY,
        keys::EXPECTED_REFERENCED_DATA,
        keys::REFERENCED_DATA_ERROR,
        keys::SUSPENDED,
        keys::SOURCE_UID,
        keys::SOURCE_GENERATION,
    ];
    // What Karmada itself puts there.
    let karmadas = [
        keys::CLAIM_ID,
        keys::CLAIM_NAME,
        keys::CLAIM_NAMESPACE,
        keys::CLUSTER_CLAIM_ID,
        keys::CLUSTER_CLAIM_NAME,
    ];
    ours.contains(&key) || karmadas.contains(&key) || key == "kubernetes.io/metadata.name"
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("propagationpolicy.karmada.io/permanent-id".to_owned()),
        Just("resourcetemplate.karmada.io/deletion-protected".to_owned()),
        Just("namespace.karmada.io/skip-auto-propagation".to_owned()),
        Just(keys::SOURCE_UID.to_owned()),
        Just(keys::CITIES.to_owned()),
        Just(keys::CELL.to_owned()),
        "[a-z]{1,8}(\\.karmada\\.io)?/[a-z]{1,8}",
        "[a-zA-Z0-9]{1,12}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// S7: no label and no annotation of a tenant becomes a key of a hub object.
    #[test]
    fn s7_no_word_of_a_tenant_becomes_a_key_on_the_hub(
        labels in prop::collection::btree_map(key(), "[a-z0-9]{0,8}", 1..6),
        annotations in prop::collection::btree_map(key(), ".{0,20}", 1..6),
    ) {
        simulate(async {
            let mut rig = Rig::new(1, &["p"]);
            rig.start();
            let mut object = deployment("default", "web", "DFW", 1, Some("settings"));
            object["metadata"]["labels"] = json!(labels);
            object["metadata"]["annotations"] = json!(annotations);
            let mut settings = crate::objects::config_map("default", "settings", "one");
            settings["metadata"]["labels"] = json!(labels);
            settings["metadata"]["annotations"] = json!(annotations);
            rig.projects["p"].create(settings).unwrap();
            rig.projects["p"].create(object).unwrap();
            let labelled = json!({"metadata": {"labels": labels, "annotations": annotations}});
            rig.projects["p"].merge("Namespace", "", "default", labelled).unwrap();
            rest(STEP).await;
            Scale("p", "default", "web", 2).apply(&mut rig);
            rest(STEP).await;
            let mut seen = 0;
            for kind in ["Namespace", "WorkloadDeployment", "ConfigMap", "PropagationPolicy", "ClusterPropagationPolicy"] {
                for object in rig.hub.list(kind) {
                    for part in ["labels", "annotations"] {
                        for key in object["metadata"][part].as_object().into_iter().flat_map(|m| m.keys()) {
                            seen += 1;
                            assert!(allowed(key), "{HUB} {kind}: {part} has {key}");
                        }
                    }
                }
            }
            assert!(seen > 8, "only {seen} keys were looked at");
        });
    }
}
