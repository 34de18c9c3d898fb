//! Which cities have a cell, and what a gateway does that does not see it.

use crate::{
    end::{unused, wrong},
    ops::Op::*,
    rig::{GATEWAY, HUB, Rig, rest, simulate},
    scenarios::{SETTLED, STEP},
};
use fedgate_api::keys;
use fedgate_simulator::{Fault, Rule, Verb, When, karmada::Cluster};
use serde_json::Value;
use std::{collections::BTreeSet, time::Duration};

const CLUSTER: &str = "Cluster.cluster.karmada.io";

fn fra(rig: &Rig) {
    rig.karmada.join(&Cluster::new("fra-1", keys::CITY_CODE, "FRA"));
}

/// What the gateway has written to the hub since the log was cleared.
fn written(rig: &Rig) -> Vec<String> {
    let entries = rig.simulator.log().entries();
    let writes = entries
        .iter()
        .filter(|e| &*e.user == GATEWAY && &*e.plane == HUB && e.verb.writes());
    writes.map(ToString::to_string).collect()
}

/// Why a deployment of the project is not carried, or that it is.
fn reason(rig: &Rig, name: &str) -> String {
    let found = rig.projects["p"].get("WorkloadDeployment", "default", name);
    let conditions = found.map(|o| o["status"]["conditions"].clone());
    let conditions = conditions.as_ref().and_then(Value::as_array);
    let federated = conditions.and_then(|all| all.iter().find(|c| c["type"] == "Federated"));
    let said = federated.and_then(|c| c["reason"].as_str());
    said.unwrap_or_default().to_owned()
}

/// The sets on the hub Namespaces.
fn sets(rig: &Rig) -> BTreeSet<String> {
    let namespaces = rig.hub.list("Namespace");
    let sets = namespaces
        .iter()
        .filter_map(|ns| ns["metadata"]["labels"][keys::CITIES].as_str());
    sets.map(str::to_owned).collect()
}

#[test]
fn a_code_without_a_cell_brings_nothing_to_the_hub_until_one_joins() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        rig.hub.delete(CLUSTER, "", "fra-1").unwrap();
        rig.start();
        rest(STEP).await;
        rig.simulator.log().clear();
        Create("p", "default", "web", "FRA", 1).apply(&mut rig);
        rest(STEP).await;
        assert_eq!(written(&rig), Vec::<String>::new());
        assert_eq!(reason(&rig, "web"), "NoCellForCity");
        fra(&rig);
        rest(STEP).await;
        assert_eq!(reason(&rig, "web"), "Delivered");
        assert_eq!(wrong(&rig), Vec::<String>::new());
    });
}

#[test]
fn a_cell_that_leaves_by_mistake_takes_no_running_workload_with_it() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        rig.start();
        Create("p", "default", "web", "FRA", 1).apply(&mut rig);
        Create("p", "default", "api", "DFW", 1).apply(&mut rig);
        rest(SETTLED).await;
        rig.simulator.log().clear();
        rig.hub.delete(CLUSTER, "", "fra-1").unwrap();
        rest(SETTLED).await;
        // A replica that starts now knows of the city by the hub alone.
        rig.kill().await;
        rig.start();
        rest(SETTLED).await;
        assert_eq!(written(&rig), Vec::<String>::new());
        // Nothing of the city is left but the set, and that it is wanted.
        DropCopy("web").apply(&mut rig);
        DropPolicies.apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(sets(&rig), BTreeSet::from(["dfw-fra".to_owned()]));
        assert_eq!(rig.hub.count("WorkloadDeployment"), 2, "it is carried again");
        fra(&rig);
        rest(SETTLED).await;
        assert_eq!(reason(&rig, "web"), "Delivered");
        assert_eq!(wrong(&rig), Vec::<String>::new());
    });
}

#[test]
fn while_clusters_are_not_seen_nothing_is_taken_out_of_a_set_and_nothing_is_denied() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        rig.hub.delete(CLUSTER, "", "fra-1").unwrap();
        rig.start();
        Create("p", "default", "web", "DFW", 1).apply(&mut rig);
        Create("p", "default", "api", "LHR", 1).apply(&mut rig);
        rest(SETTLED).await;
        let both = BTreeSet::from(["dfw-lhr".to_owned()]);
        assert_eq!(sets(&rig), both);
        let unseen = Rule::new(When::Always, Fault::DropBefore)
            .plane(HUB)
            .user(GATEWAY)
            .kind("clusters");
        let unseen = rig.simulator.faults().add(unseen);
        rig.hub.close_watches(Some(CLUSTER));
        rest(Duration::from_secs(1)).await;
        fra(&rig);
        Delete("p", "default", "api").apply(&mut rig);
        Move("p", "default", "web", "FRA").apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(sets(&rig), both, "LHR is left, and its cell is not asked for");
        assert_eq!(reason(&rig, "web"), "Delivered", "it is still where it was");
        rig.simulator.faults().remove(unseen);
        rest(SETTLED).await;
        assert_eq!(sets(&rig), BTreeSet::from(["fra".to_owned()]));
        assert_eq!(wrong(&rig), Vec::<String>::new());
    });
}

#[test]
fn a_project_uses_so_many_sets_and_another_one_suffers_nothing() {
    simulate(async {
        let mut rig = Rig::new(1, &["p", "q"]);
        rig.settings.city_sets_per_project = 2;
        rig.start();
        let cities: [&[&str]; 3] = [&["DFW"], &["LHR"], &["FRA"]];
        let names = ["a", "b", "c"];
        // At one moment: turns of a project run side by side.
        for (name, cities) in names.into_iter().zip(cities) {
            Namespace("p", name).apply(&mut rig);
            Create("p", name, "web", cities[0], 1).apply(&mut rig);
        }
        rest(STEP).await;
        assert_eq!(sets(&rig).len(), 2, "{:?}", sets(&rig));
        Create("q", "default", "web", "FRA", 1).apply(&mut rig);
        Create("q", "default", "api", "DFW", 1).apply(&mut rig);
        rest(STEP).await;
        assert!(sets(&rig).contains("dfw-fra"), "{:?}", sets(&rig));
        let waits = |name: &str| {
            let found = rig.projects["p"].get("WorkloadDeployment", name, "web");
            found.is_some_and(|o| o["status"].to_string().contains("TooManyCitySets"))
        };
        let waiting: Vec<_> = names.into_iter().filter(|name| waits(name)).collect();
        assert_eq!(waiting.len(), 1);
        let served = names.into_iter().find(|name| !waiting.contains(name)).unwrap();
        DropNamespace("p", served).apply(&mut rig);
        rest(SETTLED).await;
        assert_eq!(wrong(&rig), Vec::<String>::new());
    });
}

/// The hub does not answer the creation of the copy. Then the deployment names code "dfw", which has no cell, or is deleted.
#[test]
fn a_creation_without_an_answer_leaves_no_policy() {
    let acts = [Move("p", "default", "web", "dfw"), Delete("p", "default", "web")];
    let faults = [Fault::Hang, Fault::HangAfterApply];
    for (fault, act) in faults
        .iter()
        .flat_map(|fault| acts.iter().map(move |act| (fault.clone(), act)))
    {
        simulate(async {
            let mut rig = Rig::new(1, &["p"]);
            rig.start();
            rest(STEP).await;
            let lost = Rule::new(When::Always, fault)
                .plane(HUB)
                .verb(Verb::Create)
                .kind("workloaddeployments");
            let lost = rig.simulator.faults().add(lost);
            Create("p", "default", "web", "DFW", 1).apply(&mut rig);
            rest(STEP).await;
            act.apply(&mut rig);
            rig.simulator.faults().remove(lost);
            rest(SETTLED).await;
            assert_eq!(unused(&rig), Vec::<String>::new());
            assert_eq!(wrong(&rig), Vec::<String>::new());
        });
    }
}

/// The hub does not answer the patch that moves a copy to another city. Then the deployment names its former city again.
#[test]
fn a_city_move_without_an_answer_leaves_no_policy() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        rig.start();
        Create("p", "default", "web", "DFW", 1).apply(&mut rig);
        rest(STEP).await;
        let lost = Rule::new(When::Always, Fault::Hang)
            .plane(HUB)
            .verb(Verb::Patch)
            .kind("workloaddeployments");
        let lost = rig.simulator.faults().add(lost);
        Move("p", "default", "web", "LHR").apply(&mut rig);
        rest(STEP).await;
        Move("p", "default", "web", "DFW").apply(&mut rig);
        rig.simulator.faults().remove(lost);
        rest(SETTLED).await;
        assert_eq!(unused(&rig), Vec::<String>::new());
        assert_eq!(wrong(&rig), Vec::<String>::new());
    });
}
