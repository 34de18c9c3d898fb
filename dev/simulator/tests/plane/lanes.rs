//! Karmada's part of a hub whose members have planes: what delivers nothing, what stays, and what is let go.

use crate::client::{Client, named, plane};
use fedgate_simulator::{
    Plane, Simulator,
    karmada::{Cluster, Karmada, KarmadaOptions},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const CITY: &str = "city";
const LANE: &str = "lane";

/// A hub, and two members of one city.
pub(crate) struct Rig {
    pub(crate) simulator: Simulator,
    pub(crate) hub: Plane,
    pub(crate) karmada: Karmada,
    pub(crate) client: Client,
    pub(crate) members: [Plane; 2],
}

/// What a lane's policy says beside its selector.
pub(crate) fn rig(spread: Duration) -> Rig {
    let (simulator, hub, client) = plane();
    let names = ["dfw-1", "dfw-2"];
    let karmada = Karmada::attach(
        &hub,
        KarmadaOptions {
            spread,
            clusters: names.map(|name| Cluster::new(name, CITY, "DFW")).into(),
            ..KarmadaOptions::default()
        },
    );
    let members = names.map(|name| {
        let member = simulator.add(name);
        member.define(&crate::client::gadget());
        karmada.member(name, &member);
        member
    });
    let rig = Rig {
        simulator,
        hub,
        karmada,
        client,
        members,
    };
    let city = json!({"labelSelector": {"matchLabels": {CITY: "DFW"}}});
    rig.lane("choose", &city, &json!({"suspension": {"dispatching": true}}));
    for name in names {
        let one = json!({"clusterNames": [name]});
        let hold = json!({"preserveResourcesOnDeletion": true, "suspension": {"dispatching": true}});
        let mend = json!({"preserveResourcesOnDeletion": true, "conflictResolution": "Overwrite"});
        rig.lane(
            &format!("drop-{name}"),
            &one,
            &json!({"suspension": {"dispatching": true}}),
        );
        rig.lane(
            &format!("pin-{name}"),
            &one,
            &json!({"preserveResourcesOnDeletion": true}),
        );
        rig.lane(&format!("hold-{name}"), &one, &hold);
        rig.lane(&format!("mend-{name}"), &one, &mend);
    }
    rig
}

impl Rig {
    fn lane(&self, name: &str, affinity: &Value, more: &Value) {
        let mut policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "g.dev/v1", "kind": "Gadget",
                "labelSelector": {"matchLabels": {LANE: name}}}],
            "placement": {
                "clusterAffinity": affinity,
                "clusterTolerations": [{"operator": "Exists"}],
                "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
            },
        }});
        let spec = policy["spec"].as_object_mut().unwrap();
        spec.extend(more.as_object().unwrap().clone());
        self.hub.create(policy).unwrap();
    }

    pub(crate) fn create(&self, lane: &str, size: u32) -> Value {
        let mut gadget = named("a", &json!({"size": size}));
        gadget["metadata"]["namespace"] = json!("default");
        gadget["metadata"]["labels"] = json!({LANE: lane});
        self.hub.create(gadget).unwrap()
    }

    /// The one patch that changes the lane, and the spec if one is given.
    pub(crate) fn to(&self, lane: &str, spec: Option<Value>) {
        let mut patch = json!({"metadata": {
            "labels": {LANE: lane, "propagationpolicy.karmada.io/permanent-id": null},
            "annotations": {"propagationpolicy.karmada.io/name": null, "propagationpolicy.karmada.io/namespace": null},
        }});
        if let Some(spec) = spec {
            patch["spec"] = spec;
        }
        self.hub.merge("Gadget", "default", "a", patch).unwrap();
    }

    fn edit(&self, size: u32) {
        let patch = json!({"spec": {"size": size}});
        self.hub.merge("Gadget", "default", "a", patch).unwrap();
    }

    pub(crate) fn delete(&self) {
        self.hub.delete("Gadget", "default", "a").unwrap();
    }

    pub(crate) fn binding(&self) -> Option<Arc<Value>> {
        self.hub.get("ResourceBinding", "default", "a-gadget")
    }

    fn item(&self) -> Value {
        self.binding().unwrap()["status"]["aggregatedStatus"][0].clone()
    }

    fn clusters(&self) -> Value {
        self.binding().unwrap()["spec"]["clusters"].clone()
    }

    pub(crate) fn works(&self) -> Vec<Arc<Value>> {
        self.hub.list("Work")
    }

    pub(crate) fn at(&self, member: usize) -> Option<Arc<Value>> {
        self.members[member].get("Gadget", "default", "a")
    }

    fn is_managed(&self, member: usize) -> bool {
        self.at(member).unwrap()["metadata"]["labels"]["karmada.io/managed"] == "true"
    }
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_choice_delivers_nothing_and_moves_with_the_affinity() {
    let rig = rig(Duration::ZERO);
    rig.create("choose", 1);
    assert_eq!(rig.clusters(), json!([{"name": "dfw-1"}]));
    let binding = rig.binding().unwrap();
    assert_eq!(
        binding["status"]["schedulerObservedGeneration"],
        binding["metadata"]["generation"]
    );
    assert_eq!(rig.item(), json!({"clusterName": "dfw-1", "health": "Unknown"}));
    assert_eq!(binding["status"]["conditions"][1]["reason"], "FullyAppliedFailed");
    let works = rig.works();
    let [work] = works.as_slice() else {
        panic!("{works:?}")
    };
    assert_eq!(work["metadata"]["namespace"], "karmada-es-dfw-1");
    assert_eq!(
        (
            &work["spec"]["suspendDispatching"],
            &work["spec"]["preserveResourcesOnDeletion"]
        ),
        (&json!(true), &json!(false))
    );
    assert_eq!(
        work["metadata"]["annotations"]["resourcebinding.karmada.io/name"],
        "a-gadget"
    );
    rig.karmada.join(&Cluster::new("dfw-1", CITY, "LHR"));
    assert_eq!(rig.clusters(), json!([{"name": "dfw-2"}]));
    assert_eq!(rig.works().len(), 1);
    assert!(rig.at(0).is_none() && rig.at(1).is_none());
}

#[tokio::test]
async fn the_scheduler_has_observed_a_choice_one_event_later() {
    let rig = rig(Duration::ZERO);
    rig.simulator.keep_changes();
    rig.create("choose", 1);
    let changes = rig.simulator.take_changes();
    let bindings = changes.iter().filter_map(|change| change.after.clone());
    let seen: Vec<(Value, Value)> = bindings
        .filter(|object| object["kind"] == "ResourceBinding")
        .map(|binding| {
            (
                binding["metadata"]["generation"].clone(),
                binding["status"]["schedulerObservedGeneration"].clone(),
            )
        })
        .collect();
    let behind = (json!(2), json!(1));
    assert!(seen.contains(&behind), "{seen:?}");
    assert!(
        seen.iter().position(|one| *one == behind) < seen.iter().position(|one| *one == (json!(2), json!(2)))
    );
}

#[tokio::test]
async fn a_lane_that_delivers_and_changes_the_member_reaches_both() {
    let rig = rig(Duration::ZERO);
    rig.create("choose", 1);
    rig.simulator.keep_changes();
    rig.to("pin-dfw-2", None);
    let made = |plane: &str| {
        let changes = rig.simulator.take_changes();
        changes.iter().any(|change| {
            &*change.plane == plane
                && change
                    .after
                    .as_ref()
                    .is_some_and(|object| object["kind"] == "Gadget")
        })
    };
    assert!(made("dfw-1"), "what was suspended there goes first");
    assert!(rig.at(1).is_some());
}

#[tokio::test]
async fn by_way_of_drop_only_the_chosen_member_gets_it() {
    let rig = rig(Duration::ZERO);
    rig.create("choose", 1);
    rig.simulator.keep_changes();
    rig.to("drop-dfw-2", None);
    assert_eq!(rig.clusters(), json!([{"name": "dfw-2"}]));
    rig.to("pin-dfw-2", None);
    assert!(rig.at(1).is_some());
    assert_eq!(rig.item()["applied"], true);
    let changes = rig.simulator.take_changes();
    assert!(!changes.iter().any(|change| &*change.plane == "dfw-1"));
    rig.to("drop-dfw-2", None);
    rig.delete();
    assert!(rig.works().is_empty() && rig.at(1).is_none() && rig.binding().is_none());
}

#[tokio::test]
async fn a_work_that_preserves_and_was_never_applied_cannot_end() {
    let rig = rig(Duration::ZERO);
    rig.create("choose", 1);
    rig.to("hold-dfw-1", None);
    rig.delete();
    assert!(rig.binding().is_none());
    let works = rig.works();
    let [stuck] = works.as_slice() else {
        panic!("{works:?}")
    };
    assert!(stuck["metadata"]["deletionTimestamp"].is_string());
    // The next copy of the name gets no Work there.
    rig.create("pin-dfw-1", 2);
    assert!(rig.at(0).is_none() && rig.binding().unwrap()["status"]["aggregatedStatus"].is_null());
    let name = stuck["metadata"]["name"].as_str().unwrap();
    let bare = json!({"metadata": {"finalizers": null}});
    rig.hub.merge("Work", "karmada-es-dfw-1", name, bare).unwrap();
    assert_eq!(rig.at(0).unwrap()["spec"]["size"], 2);
}

#[tokio::test]
async fn what_is_held_stays_as_it_is_and_is_written_when_it_is_let_go() {
    let rig = rig(Duration::ZERO);
    let copy = rig.create("pin-dfw-1", 1);
    let below = rig.at(0).unwrap();
    assert_eq!(
        below["metadata"]["annotations"]["resourcetemplate.karmada.io/uid"],
        copy["metadata"]["uid"]
    );
    rig.to("hold-dfw-1", None);
    rig.edit(2);
    assert_eq!(rig.at(0).unwrap()["spec"]["size"], 1);
    assert_eq!(rig.item()["applied"], true);
    let member = &rig.members[0];
    member
        .merge_status("Gadget", "default", "a", json!({"status": {"size": 7}}))
        .unwrap();
    assert_eq!(rig.item()["status"], json!({"size": 7}));
    member
        .merge("Gadget", "default", "a", json!({"spec": {"colour": "blue"}}))
        .unwrap();
    assert_eq!(rig.at(0).unwrap()["spec"]["colour"], "blue");
    rig.delete();
    let left = rig.at(0).unwrap();
    assert_eq!(uid(&left), uid(&below));
    assert_eq!(
        (&left["spec"]["size"], &left["spec"]["colour"]),
        (&json!(2), &json!("red"))
    );
    assert_eq!(left["metadata"]["labels"], json!({LANE: "hold-dfw-1"}));
    assert!(rig.works().is_empty() && rig.binding().is_none());
}

#[tokio::test]
async fn a_spec_that_comes_with_the_release_is_written_once() {
    let rig = rig(Duration::ZERO);
    rig.create("pin-dfw-1", 1);
    rig.to("hold-dfw-1", None);
    rig.edit(2);
    let before = rig.at(0).unwrap()["metadata"]["generation"].as_u64().unwrap();
    rig.to("pin-dfw-1", Some(json!({"size": 3})));
    let after = rig.at(0).unwrap();
    assert_eq!(
        (&after["spec"]["size"], &after["metadata"]["generation"]),
        (&json!(3), &json!(before + 1))
    );
}

#[tokio::test]
async fn what_was_let_go_is_taken_back_by_overwriting_alone() {
    let rig = rig(Duration::ZERO);
    rig.create("pin-dfw-1", 1);
    let below = rig.at(0).unwrap();
    let affinity = |name: &str| json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": [name]}}}});
    let place = |name| {
        rig.hub
            .merge("PropagationPolicy", "default", "pin-dfw-1", affinity(name))
            .unwrap();
    };
    place("none");
    assert_eq!(rig.clusters(), Value::Null);
    assert!(!rig.is_managed(0) && rig.works().is_empty());
    place("dfw-1");
    let refused = rig.item();
    assert_eq!(
        (&refused["clusterName"], &refused["applied"]),
        (&json!("dfw-1"), &Value::Null)
    );
    let message = refused["appliedMessage"].as_str().unwrap();
    assert!(
        message.contains("already exists in the cluster dfw-1"),
        "{message}"
    );
    rig.to("mend-dfw-1", None);
    assert!(rig.is_managed(0));
    assert_eq!(rig.item()["applied"], true);
    rig.to("pin-dfw-1", None);
    rig.edit(5);
    assert_eq!(rig.at(0).unwrap()["spec"]["size"], 5);
    assert_eq!(uid(&rig.at(0).unwrap()), uid(&below));
}

#[tokio::test]
async fn what_a_member_deletes_comes_again_unless_it_is_suspended() {
    let rig = rig(Duration::ZERO);
    rig.create("pin-dfw-1", 1);
    let first = rig.at(0).unwrap();
    rig.members[0].delete("Gadget", "default", "a").unwrap();
    assert_ne!(uid(&rig.at(0).unwrap()), uid(&first));
    rig.to("drop-dfw-1", None);
    rig.members[0].delete("Gadget", "default", "a").unwrap();
    assert!(rig.at(0).is_none());
    rig.delete();
    assert!(rig.works().is_empty() && rig.binding().is_none());
}

#[tokio::test]
async fn an_object_that_ends_slowly_outlives_all_of_the_hub() {
    let rig = rig(Duration::ZERO);
    rig.create("pin-dfw-1", 1);
    let kept = json!({"metadata": {"finalizers": ["cell/finalizer"]}});
    rig.members[0].merge("Gadget", "default", "a", kept).unwrap();
    rig.to("drop-dfw-1", None);
    rig.delete();
    assert!(rig.works().is_empty() && rig.binding().is_none());
    assert!(rig.at(0).unwrap()["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test]
async fn of_two_kinds_with_one_name_the_first_has_the_binding() {
    let rig = rig(Duration::ZERO);
    rig.hub
        .define_plain("other.dev", "v1", "Gadget", "gadgets", true, true);
    let first = rig.create("choose", 1);
    let mut policy = Value::clone(&rig.hub.get("PropagationPolicy", "default", "choose").unwrap());
    policy["metadata"] = json!({"name": "other", "namespace": "default"});
    policy["spec"]["resourceSelectors"][0]["apiVersion"] = json!("other.dev/v1");
    rig.hub.create(policy).unwrap();
    let mut second = first.clone();
    second["apiVersion"] = json!("other.dev/v1");
    second["metadata"] = json!({"name": "a", "namespace": "default", "labels": {LANE: "choose"}});
    let second = rig.hub.create(second).unwrap();
    let owner = |rig: &Rig| rig.binding().unwrap()["metadata"]["ownerReferences"][0]["uid"].clone();
    assert_eq!(owner(&rig), first["metadata"]["uid"]);
    rig.hub.delete("Gadget.g.dev", "default", "a").unwrap();
    assert_eq!(owner(&rig), second["metadata"]["uid"]);
    assert_eq!(
        rig.binding().unwrap()["spec"].get("clusters"),
        None,
        "no member serves it"
    );
}

#[tokio::test]
async fn what_waits_for_its_namespace_comes_with_it() {
    let rig = rig(Duration::ZERO);
    let space = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "ns-1", "labels": {LANE: "all"}}});
    rig.hub.create(space).unwrap();
    let mut policy = Value::clone(&rig.hub.get("PropagationPolicy", "default", "pin-dfw-1").unwrap());
    policy["metadata"] = json!({"name": "pin-dfw-1", "namespace": "ns-1"});
    policy["spec"]["resourceSelectors"][0]["namespace"] = json!("ns-1");
    rig.hub.create(policy).unwrap();
    let mut gadget = named("a", &json!({"size": 1}));
    gadget["metadata"]["namespace"] = json!("ns-1");
    gadget["metadata"]["labels"] = json!({LANE: "pin-dfw-1"});
    rig.hub.create(gadget).unwrap();
    let item = || {
        let binding = rig.hub.get("ResourceBinding", "ns-1", "a-gadget").unwrap();
        binding["status"]["aggregatedStatus"][0].clone()
    };
    assert_eq!(
        item()["appliedMessage"],
        "Failed to apply all manifests (0/1): namespaces \"ns-1\" not found"
    );
    let all = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
    "metadata": {"name": "all"},
    "spec": {
        "resourceSelectors": [{"apiVersion": "v1", "kind": "Namespace",
            "labelSelector": {"matchLabels": {LANE: "all"}}}],
        "placement": {},
    }});
    rig.hub.create(all).unwrap();
    assert_eq!(item()["applied"], true);
    assert!(rig.members[0].get("Gadget", "ns-1", "a").is_some());
}

#[tokio::test]
async fn a_member_that_is_not_ready_gets_nothing_and_loses_nothing() {
    let rig = rig(Duration::ZERO);
    rig.create("pin-dfw-1", 1);
    rig.karmada.ready("dfw-1", false);
    rig.edit(2);
    assert_eq!(rig.at(0).unwrap()["spec"]["size"], 1);
    rig.to("drop-dfw-1", None);
    rig.delete();
    assert!(rig.at(0).is_some() && rig.works().len() == 1);
    rig.karmada.ready("dfw-1", true);
    assert!(rig.at(0).is_none() && rig.works().is_empty());
}

#[tokio::test]
async fn the_only_members_status_is_the_templates() {
    let rig = rig(Duration::ZERO);
    rig.karmada.aggregate("Gadget");
    rig.create("pin-dfw-1", 1);
    let generation = rig.binding().unwrap()["metadata"]["generation"].clone();
    let said = json!({"status": {"size": 7}});
    rig.members[0]
        .merge_status("Gadget", "default", "a", said)
        .unwrap();
    let copy = rig.hub.get("Gadget", "default", "a").unwrap();
    assert_eq!(copy["status"], json!({"size": 7}));
    assert_eq!(rig.binding().unwrap()["metadata"]["generation"], generation);
}

#[tokio::test(start_paused = true)]
async fn a_preserving_lane_that_loses_its_cluster_leaves_the_object_or_takes_it() {
    let (mut left, mut taken) = (0, 0);
    for _ in 0..20 {
        let rig = rig(Duration::from_millis(50));
        rig.lane("none", &json!({"clusterNames": ["none"]}), &json!({}));
        rig.create("pin-dfw-1", 1);
        let rest = || tokio::time::sleep(Duration::from_secs(5));
        rest().await;
        assert!(rig.at(0).is_some());
        // How many draws came before this one differs from round to round.
        for round in 0..left + taken {
            rig.edit(round + 2);
            rest().await;
        }
        rig.to("none", None);
        rest().await;
        match rig.at(0) {
            Some(_) => left += 1,
            None => taken += 1,
        }
    }
    assert!(left > 0 && taken > 0, "{left} left, {taken} taken");
}
