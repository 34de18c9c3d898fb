//! Objects that are large, or nested deeply: whoever has them, no other tenant waits for them, and nobody loses anything.

use crate::{
    end::wrong,
    invariants::Watchman,
    objects::{deployment, workload},
    ops::Op::*,
    rig::{GATEWAY, Rig, rest, simulate},
    scenarios::{SETTLED, STEP},
};
use fedgate_engine::plane::client::Limits;
use fedgate_simulator::Verb;
use serde_json::{Value, json};
use std::time::Duration;

/// How long another tenant's deployment may take after a restart. The lists that carrying does not need begin after 5 s.
const SOON: Duration = Duration::from_secs(3);

/// A deployment whose template has an environment variable of so many bytes.
fn large(name: &str, bytes: usize) -> Value {
    let mut object = deployment("default", name, "DFW", 1, None);
    object["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["env"] =
        json!([{"name": "DATA", "value": "x".repeat(bytes)}]);
    object
}

/// Planes whose answers are read up to 256 KiB.
fn planes(projects: &[&str]) -> Rig {
    let mut rig = Rig::new(1, projects);
    rig.limits.answer_bytes = 256 * 1024;
    rig
}

/// So many levels of lists in lists.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!("deep"), |inner, _| json!([inner]))
}

fn federated(rig: &Rig, project: &str, name: &str) -> Option<(String, String, String)> {
    let object = rig.projects[project].get("WorkloadDeployment", "default", name)?;
    let conditions = object["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|c| c["type"] == "Federated")?;
    let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason"), text("message")))
}

/// Copies of this name on the hub.
fn copies(rig: &Rig, name: &str) -> usize {
    let copies = rig.hub.list("WorkloadDeployment");
    copies
        .iter()
        .filter(|copy| copy["metadata"]["name"] == name)
        .count()
}

/// Nothing was lost, and nothing is wrong in the end.
async fn settles(rig: &Rig) {
    rest(SETTLED).await;
    let violated = Watchman::default().violations(&rig.simulator.take_changes());
    assert_eq!(violated, Vec::<String>::new());
    assert_eq!(wrong(rig), Vec::<String>::new());
    assert_eq!(rig.gateway().ready(), Ok(()));
}

#[test]
fn lists_that_are_larger_than_an_answer_may_be_hold_up_nobody_after_a_restart() {
    simulate(async {
        let mut rig = planes(&["p", "q"]);
        rig.start();
        rest(STEP).await;
        for n in 0..60 {
            rig.projects["p"]
                .create(large(&format!("web-{n}"), 20 * 1024))
                .unwrap();
        }
        Create("q", "default", "old", "LHR", 1).apply(&mut rig);
        rest(STEP).await;
        assert_eq!(rig.hub.count("workloaddeployments"), 61, "all are carried");
        rig.kill().await;
        rig.simulator.log().clear();
        rig.start();
        Create("q", "default", "new", "LHR", 1).apply(&mut rig);
        rest(SOON).await;
        assert_eq!(copies(&rig, "new"), 1, "another tenant's deployment is carried");
        rest(STEP).await;
        assert_eq!(rig.gateway().ready(), Ok(()));
        settles(&rig).await;
    });
}

#[test]
fn an_object_that_is_larger_than_an_answer_may_be_holds_up_nobody_and_keeps_its_copy() {
    simulate(async {
        let mut rig = planes(&["p", "q"]);
        rig.start();
        Create("p", "default", "other", "LHR", 1).apply(&mut rig);
        rig.projects["p"].create(large("web", 10)).unwrap();
        rest(STEP).await;
        let grown = large("web", 300 * 1024);
        rig.projects["p"]
            .merge(
                "WorkloadDeployment",
                "default",
                "web",
                json!({"spec": grown["spec"]}),
            )
            .unwrap();
        rest(STEP).await;
        rig.kill().await;
        rig.start();
        Create("p", "default", "later", "DFW", 1).apply(&mut rig);
        Create("q", "default", "new", "LHR", 1).apply(&mut rig);
        rest(SOON).await;
        for name in ["other", "web", "later", "new"] {
            assert_eq!(copies(&rig, name), 1, "{name}");
        }
        rest(SETTLED).await;
        assert_eq!(rig.gateway().ready(), Ok(()));
        assert_eq!(copies(&rig, "web"), 1, "its copy keeps its last valid state");
        let (status, reason, _) = federated(&rig, "p", "web").unwrap();
        assert_eq!((&*status, &*reason), ("False", "SpecTooLarge"));
        Delete("p", "default", "web").apply(&mut rig);
        settles(&rig).await;
        assert_eq!(copies(&rig, "web"), 0);
    });
}

#[test]
fn a_spec_over_the_limit_is_refused_in_words_and_its_copy_keeps_what_it_had() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        rig.limits = Limits::default();
        rig.start();
        rig.projects["p"].create(large("web", 10)).unwrap();
        rig.projects["p"].create(large("never", 257 * 1024)).unwrap();
        rest(STEP).await;
        let before = rig.hub.list("WorkloadDeployment")[0]["spec"].clone();
        let grown = large("web", 257 * 1024);
        rig.projects["p"]
            .merge(
                "WorkloadDeployment",
                "default",
                "web",
                json!({"spec": grown["spec"]}),
            )
            .unwrap();
        rest(STEP).await;
        for name in ["web", "never"] {
            let (status, reason, message) = federated(&rig, "p", name).unwrap();
            assert_eq!((&*status, &*reason), ("False", "SpecTooLarge"));
            assert!(message.contains("262144"), "{message}");
        }
        assert_eq!(copies(&rig, "never"), 0);
        assert_eq!(rig.hub.list("WorkloadDeployment")[0]["spec"], before);
        let small = large("web", 20);
        rig.projects["p"]
            .merge(
                "WorkloadDeployment",
                "default",
                "web",
                json!({"spec": small["spec"]}),
            )
            .unwrap();
        Delete("p", "default", "never").apply(&mut rig);
        settles(&rig).await;
    });
}

/// The template of a Workload that has an environment variable of so many bytes.
fn template(bytes: usize) -> Value {
    large("any", bytes)["spec"]["template"].clone()
}

/// Status, reason and message of a Workload's condition.
fn workload_says(rig: &Rig, name: &str, kind: &str) -> Option<(String, String)> {
    let object = rig.projects["p"].get("Workload", "default", name)?;
    let conditions = object["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|c| c["type"] == kind)?;
    let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason")))
}

#[test]
fn a_workload_over_the_limit_is_refused_and_one_whose_text_is_not_kept_is_carried() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        rig.limits = Limits::default();
        rig.start();
        let refused = ("False".to_owned(), "SpecTooLarge".to_owned());
        let mut never = workload("default", "never", &["DFW"]);
        never["spec"]["template"] = template(257 * 1024);
        rig.projects["p"].create(never).unwrap();
        let mut shop = workload("default", "shop", &["DFW"]);
        shop["spec"]["template"] = template(40 * 1024);
        rig.projects["p"].create(shop).unwrap();
        rest(STEP).await;
        assert_eq!(workload_says(&rig, "never", "Available"), Some(refused.clone()));
        assert_eq!(copies(&rig, "shop-main-dfw"), 1, "it is read and carried");
        assert_eq!(rig.projects["p"].count("workloaddeployments"), 1);
        let change = |bytes: usize| json!({"spec": {"template": template(bytes)}});
        let merge = |rig: &Rig, patch: Value| {
            rig.projects["p"]
                .merge("Workload", "default", "shop", patch)
                .unwrap();
        };
        merge(&rig, change(257 * 1024));
        rest(STEP).await;
        assert_eq!(workload_says(&rig, "shop", "Ready"), Some(refused));
        let carried = |rig: &Rig| {
            let data = "/spec/template/spec/runtime/sandbox/containers/0/env/0/value";
            let copy = rig.hub.list("WorkloadDeployment")[0].clone();
            copy.pointer(data).and_then(Value::as_str).map(str::len)
        };
        assert_eq!(carried(&rig), Some(40 * 1024), "what runs goes on");
        merge(&rig, change(30 * 1024));
        rest(STEP).await;
        assert_eq!(carried(&rig), Some(30 * 1024));
        DropWorkload("p", "default", "never").apply(&mut rig);
        settles(&rig).await;
    });
}

#[test]
fn a_status_that_is_nested_too_deeply_for_a_parser_holds_up_nobody() {
    simulate(async {
        let mut rig = planes(&["p", "q"]);
        rig.start();
        Create("p", "default", "web", "DFW", 1).apply(&mut rig);
        Create("q", "default", "old", "LHR", 1).apply(&mut rig);
        rest(STEP).await;
        let spoil = |rig: &Rig| {
            let binding = rig
                .hub
                .list("ResourceBinding")
                .into_iter()
                .find(|b| b["metadata"]["name"] == "web-workloaddeployment")
                .unwrap();
            let namespace = binding["metadata"]["namespace"].as_str().unwrap();
            let mut status = binding["status"].clone();
            status["aggregatedStatus"][0]["clusterName"] = json!("dfw-1");
            status["aggregatedStatus"][0]["applied"] = json!(true);
            status["aggregatedStatus"][0]["status"] = nested(500);
            rig.hub
                .merge_status(
                    "ResourceBinding",
                    namespace,
                    "web-workloaddeployment",
                    json!({"status": status}),
                )
                .unwrap();
        };
        rig.simulator.log().clear();
        spoil(&rig);
        rest(Duration::from_secs(1)).await;
        Create("q", "default", "new", "LHR", 1).apply(&mut rig);
        rest(STEP).await;
        let lists = rig.simulator.log().entries();
        let lists: Vec<String> = lists
            .iter()
            .filter(|e| e.verb == Verb::List && &*e.user == GATEWAY)
            .map(ToString::to_string)
            .collect();
        assert_eq!(lists, Vec::<String>::new(), "the watch goes on");
        let (status, reason, _) = federated(&rig, "q", "new").unwrap();
        assert_eq!((&*status, &*reason), ("True", "Delivered"));
        rig.kill().await;
        spoil(&rig);
        rig.start();
        Create("q", "default", "newer", "LHR", 1).apply(&mut rig);
        rest(STEP).await;
        let (status, reason, _) = federated(&rig, "q", "newer").unwrap();
        assert_eq!((&*status, &*reason), ("True", "Delivered"));
        settles(&rig).await;
    });
}
