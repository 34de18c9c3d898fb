//! 43–49: the whole chain, with the cell's half played under the cell's own certificate.

use crate::support::{
    Case, Cell,
    cell::{LINKING, running},
    condition, deployment,
    kinds::{DEPLOYMENT, INSTANCE, NAMESPACE, POLICY},
    label, seconds, trials, uid,
};
use fedgate_api::keys;
use serde_json::{Value, json};

trials![
    #[core]
    a43_full_chain_dfw,
    #[core]
    a44_full_chain_lhr,
    #[core]
    a45_write_back_has_the_namespaces_identity,
    #[core]
    a46_write_back_is_owned_by_the_copy,
    a47_write_back_goes_with_its_copy,
    a48_unmarked_hub_deployment_is_nobodys,
    #[core]
    a49_one_author,
    a91_a_gate_that_was_written_goes_from_the_projection,
];

async fn full_chain(case: &Case, cell: &Cell, policy: &str) {
    case.create(&DEPLOYMENT, deployment("web", &cell.city)).await;
    let copy = case.copy("web").await;
    assert_eq!(label(&copy, keys::CITY_CODE), Some(cell.city.as_str()));
    cell.report(&case.hub_ns, "web", 0, 1).await;
    case.copy_sees("web", "has the cell's status", |o| o["status"]["replicas"] == 1)
        .await;
    let policies = case.hub.list(&POLICY, &case.hub_ns, "").await;
    let names: Vec<_> = policies
        .iter()
        .filter_map(|p| p["metadata"]["name"].as_str())
        .collect();
    assert_eq!(names, [policy], "this city's policy alone");
    let written = cell.run(&case.hub_ns, "web", 0).await;
    assert_eq!(
        label(&written, keys::UPSTREAM_CLUSTER),
        Some(Case::project_label().as_str())
    );
    let ready =
        |status: &'static str| move |o: &Value| condition(o, "Ready").is_some_and(|c| c["status"] == status);
    let seen = case
        .project
        .sees(
            &INSTANCE,
            &case.ns,
            "web-0",
            "is Ready=False",
            seconds(120),
            ready("False"),
        )
        .await;
    assert_eq!(label(&seen, keys::INSTANCE_CITY_CODE), Some(cell.city.as_str()));
    for key in LINKING {
        assert_eq!(label(&seen, key), label(&written, key), "linking label {key}");
    }
    cell.hub
        .merge_status(&INSTANCE, &case.hub_ns, "web-0", running())
        .await;
    case.project
        .sees(
            &INSTANCE,
            &case.ns,
            "web-0",
            "is Ready=True",
            seconds(30),
            ready("True"),
        )
        .await;
}

async fn a43_full_chain_dfw(case: Case) {
    let cell = case.dfw.clone();
    full_chain(&case, &cell, "city-dfw").await;
}

async fn a44_full_chain_lhr(case: Case) {
    let cell = case.lhr.clone();
    full_chain(&case, &cell, "city-lhr").await;
    assert!(
        case.dfw.plane.get(&NAMESPACE, "", &case.hub_ns).await.is_none(),
        "nothing of it is at DFW"
    );
}

async fn a45_write_back_has_the_namespaces_identity(case: Case) {
    case.deploy("web", "DFW").await;
    let written = case.dfw.run(&case.hub_ns, "web", 0).await;
    let namespace = case
        .hub
        .get(&NAMESPACE, "", &case.hub_ns)
        .await
        .expect("the hub namespace is there");
    for key in [keys::UPSTREAM_CLUSTER, keys::UPSTREAM_NAMESPACE] {
        assert_eq!(label(&written, key), label(&namespace, key), "{key}");
    }
    // The hub refuses a cell that claims another identity, or to be another cell.
    let instance = case.dfw.instance(&case.hub_ns, "web", 1).await;
    for (key, forged) in [
        (keys::UPSTREAM_NAMESPACE, "default"),
        (keys::UPSTREAM_CLUSTER, "cluster-beta"),
        (keys::CELL, "lhr-1"),
        (keys::INSTANCE_CITY_CODE, "LHR"),
    ] {
        let mut object = case.dfw.written_back(&instance).await;
        object["metadata"]["labels"][key] = json!(forged);
        let refused = case.dfw.hub.try_create(&INSTANCE, &case.hub_ns, object).await;
        assert!(
            refused.is_err(),
            "the hub takes a write-back with {key}={forged} from cell dfw-1"
        );
    }
}

async fn a46_write_back_is_owned_by_the_copy(case: Case) {
    let copy = case.deploy("web", "DFW").await;
    let written = case.dfw.run(&case.hub_ns, "web", 0).await;
    let owner = &written["metadata"]["ownerReferences"][0];
    assert_eq!(
        (owner["name"].as_str(), owner["uid"].as_str()),
        (Some("web"), Some(uid(&copy)))
    );
    assert_eq!(
        (
            owner["controller"].as_bool(),
            owner["blockOwnerDeletion"].as_bool()
        ),
        (Some(true), Some(true))
    );
    // Without an owner the hub does not take it from a cell.
    let instance = case.dfw.instance(&case.hub_ns, "web", 1).await;
    let mut object = case.dfw.written_back(&instance).await;
    object["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("ownerReferences");
    assert!(
        case.dfw
            .hub
            .try_create(&INSTANCE, &case.hub_ns, object)
            .await
            .is_err(),
        "the hub takes it without an owner"
    );
}

async fn a47_write_back_goes_with_its_copy(case: Case) {
    let copy = case.deploy("web", "DFW").await;
    let written = case.dfw.run(&case.hub_ns, "web", 0).await;
    case.project
        .exists(&INSTANCE, &case.ns, "web-0", seconds(30))
        .await;
    case.hub.delete(&DEPLOYMENT, &case.hub_ns, "web").await;
    case.hub
        .until(
            &INSTANCE,
            &case.hub_ns,
            "web-0",
            "is collected",
            seconds(300),
            |state| state.is_none_or(|o| uid(o) != uid(&written)),
        )
        .await;
    case.project.gone(&INSTANCE, &case.ns, "web-0", seconds(30)).await;
    case.copy_sees("web", "is made anew", |o| uid(o) != uid(&copy))
        .await;
    // The gateway makes none up: only a cell writes it again.
    case.hub
        .holds(
            &INSTANCE,
            &case.hub_ns,
            "web-0",
            "is absent",
            seconds(5),
            |state| state.is_none(),
        )
        .await;
}

async fn a48_unmarked_hub_deployment_is_nobodys(case: Case) {
    case.deploy("web", "DFW").await;
    let foreign = case
        .hub
        .create(&DEPLOYMENT, &case.hub_ns, deployment("hand-made", "DFW"))
        .await;
    let policies = case.hub.list(&POLICY, &case.hub_ns, "").await.len();
    let time = seconds(crate::support::gateway::ORPHAN + 5);
    let same = |state: Option<&Value>| {
        state.is_some_and(|o| {
            uid(o) == uid(&foreign)
                && o["metadata"]["deletionTimestamp"].is_null()
                && o["metadata"]
                    .get("annotations")
                    .is_none_or(|a| a.get(keys::SOURCE_UID).is_none())
        })
    };
    case.hub
        .holds(
            &DEPLOYMENT,
            &case.hub_ns,
            "hand-made",
            "is left alone",
            time,
            same,
        )
        .await;
    let asked: Vec<String> = case
        .hub_requests()
        .iter()
        .filter(|e| e.object_ref.name == "hand-made")
        .map(crate::support::Entry::action)
        .collect();
    assert!(asked.is_empty(), "the gateway asked {asked:?}");
    assert_eq!(case.hub.list(&POLICY, &case.hub_ns, "").await.len(), policies);
    case.hub.delete(&DEPLOYMENT, &case.hub_ns, "hand-made").await;
}

async fn a49_one_author(case: Case) {
    case.deploy("web", "DFW").await;
    let written = case.dfw.run(&case.hub_ns, "web", 0).await;
    case.project
        .exists(&INSTANCE, &case.ns, "web-0", seconds(30))
        .await;
    let before = case.hub.get(&INSTANCE, &case.hub_ns, "web-0").await;
    // Another cell can neither make, edit nor delete what this one wrote while it is in the copy's city.
    let mut same = case.dfw.written_back(&written).await;
    same["metadata"]["labels"][keys::CELL] = json!("lhr-1");
    let made = case.lhr.hub.try_create(&INSTANCE, &case.hub_ns, same).await;
    assert!(made.is_err(), "lhr-1 made a write-back of DFW");
    let edit = json!({"metadata": {"labels": {keys::CELL: "lhr-1"}}});
    assert!(
        case.lhr
            .hub
            .try_merge(&INSTANCE, &case.hub_ns, "web-0", &edit)
            .await
            .is_err(),
        "lhr-1 took the write-back over"
    );
    let deleted = case
        .lhr
        .hub
        .try_delete(&INSTANCE, &case.hub_ns, "web-0", Some(uid(&written)))
        .await;
    assert!(deleted.is_err(), "lhr-1 deleted the write-back of dfw-1");
    let status = json!({"status": {"conditions": []}});
    let told = case
        .lhr
        .hub
        .try_merge_status(&INSTANCE, &case.hub_ns, "web-0", &status)
        .await;
    assert!(told.is_err(), "lhr-1 wrote the status of dfw-1's write-back");
    let untouched = case.hub.get(&INSTANCE, &case.hub_ns, "web-0").await;
    assert_eq!(untouched, before, "the second keeps off");
    // After a move the new city's cell may: the left cell's write-back stayed behind.
    case.merge(&DEPLOYMENT, "web", json!({"spec": {"cityCode": "LHR"}}))
        .await;
    case.lhr.deployment(&case.hub_ns, "web").await;
    case.lhr
        .hub
        .try_delete(&INSTANCE, &case.hub_ns, "web-0", Some(uid(&written)))
        .await
        .expect("the new author may delete it");
    case.hub.gone(&INSTANCE, &case.hub_ns, "web-0", seconds(30)).await;
    let taken = case.lhr.run(&case.hub_ns, "web", 0).await;
    case.project
        .sees(&INSTANCE, &case.ns, "web-0", "comes from LHR", seconds(30), |o| {
            label(o, keys::INSTANCE_CITY_CODE) == Some("LHR")
        })
        .await;
    // The old cell's finalizer asks for its own write-back by UID: the new one stays.
    let late = case
        .dfw
        .hub
        .try_delete(&INSTANCE, &case.hub_ns, "web-0", Some(uid(&written)))
        .await;
    assert!(late.is_err(), "the old author deleted the new one's write-back");
    let still = case
        .hub
        .get(&INSTANCE, &case.hub_ns, "web-0")
        .await
        .expect("the new write-back stays");
    assert_eq!(still, taken);
}

/// An Instance that is replaced while its projection stays has gates that come and go.
async fn a91_a_gate_that_was_written_goes_from_the_projection(case: Case) {
    case.deploy("web", "DFW").await;
    let gates = |gates: &[&str], hash: &str| {
        let gates: Vec<Value> = gates.iter().map(|name| json!({"name": name})).collect();
        json!({"spec": {"controller": {"templateHash": hash, "schedulingGates": gates}}})
    };
    let mut instance = case.dfw.instance(&case.hub_ns, "web", 0).await;
    instance["spec"]["controller"] = gates(&["Quota"], "v1-00")["spec"]["controller"].clone();
    case.dfw.write_back(&instance).await;
    case.project
        .exists(&INSTANCE, &case.ns, "web-0", seconds(30))
        .await;
    for (names, hash) in [(&[][..], "v1-01"), (&["Quota"], "v1-02"), (&[], "v1-03")] {
        case.dfw
            .hub
            .merge(&INSTANCE, &case.hub_ns, "web-0", gates(names, hash))
            .await;
        let what = format!("has the gates {names:?}");
        case.project
            .sees(&INSTANCE, &case.ns, "web-0", &what, seconds(30), |o| {
                let controller = &o["spec"]["controller"];
                let left = controller["schedulingGates"].as_array().map_or(0, Vec::len);
                controller["templateHash"] == hash && left == names.len()
            })
            .await;
    }
}
