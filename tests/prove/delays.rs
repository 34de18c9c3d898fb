//! Deployments that do not reach the hub: their tenants see why, and no other object is written (contract: federation.md
//! §3.1).

use crate::{
    ops::Op::*,
    rig::{HUB, Rig, rest, simulate},
    scenarios::SETTLED,
};
use fedgate_simulator::{Down, Fault, Rule, Verb, When};
use std::time::Duration;

/// Status patches of the project since the log was cleared: seconds since `from`, and the object.
fn told(rig: &Rig, project: &str, from: tokio::time::Instant) -> Vec<(u64, String)> {
    let entries = rig.simulator.log().entries();
    let patches = entries.iter().filter(|e| {
        &*e.plane == project
            && e.verb.writes()
            && e.subresource.as_deref() == Some("status")
            && &*e.resource == "workloaddeployments"
    });
    patches
        .map(|e| ((e.at - from).as_secs(), e.name.clone()))
        .collect()
}

/// Status, reason and observed generation of a deployment's `Federated`.
fn federated(rig: &Rig, project: &str, name: &str) -> String {
    let object = rig.projects[project]
        .get("WorkloadDeployment", "default", name)
        .unwrap();
    let conditions = object["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == "Federated")
        .unwrap();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    format!(
        "{} {} {}",
        text("status"),
        text("reason"),
        found["observedGeneration"]
    )
}

fn message(rig: &Rig, project: &str, name: &str) -> String {
    let object = rig.projects[project]
        .get("WorkloadDeployment", "default", name)
        .unwrap();
    let conditions = object["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == "Federated")
        .unwrap();
    found["message"].as_str().unwrap_or_default().to_owned()
}

/// Reasons of the project's Events, with the object of each.
fn events(rig: &Rig, project: &str) -> Vec<String> {
    let all = rig.projects[project].list("Event.events.k8s.io");
    let text = |event: &serde_json::Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    let mut lines: Vec<String> = all
        .iter()
        .map(|event| {
            let about = event["regarding"]["name"].as_str().unwrap_or_default();
            format!("{} {about}", text(event, "reason"))
        })
        .collect();
    lines.sort();
    lines
}

fn names(prefix: &str, count: usize) -> Vec<&'static str> {
    (0..count).map(|n| &*format!("{prefix}-{n}").leak()).collect()
}

fn with(names: &[&'static str]) -> Rig {
    let mut rig = Rig::new(1, &["p"]);
    rig.start();
    for name in names {
        Create("p", "default", name, "DFW", 1).apply(&mut rig);
    }
    rig
}

#[test]
fn three_edits_of_a_hundred_deployments_are_reported_while_the_hub_is_down() {
    simulate(async {
        let all = names("web", 100);
        let mut rig = with(&all);
        rest(SETTLED).await;
        let hub = rig.simulator.plane(HUB).unwrap();
        hub.set_down(Some(Down::Refused));
        rig.simulator.log().clear();
        let from = tokio::time::Instant::now();
        for name in &all[..3] {
            Scale("p", "default", name, 2).apply(&mut rig);
        }
        rest(Duration::from_mins(1)).await;
        let patches = told(&rig, "p", from);
        let mut objects: Vec<&str> = patches.iter().map(|(_, name)| name.as_str()).collect();
        objects.sort_unstable();
        assert_eq!(objects, &all[..3], "{patches:?}");
        assert!(
            patches.iter().all(|(second, _)| (30..=38).contains(second)),
            "{patches:?}"
        );
        for name in &all[..3] {
            assert_eq!(federated(&rig, "p", name), "False HubUnreachable 2");
        }
        assert!(
            message(&rig, "p", all[0]).contains("generation 2 is kept"),
            "{}",
            message(&rig, "p", all[0])
        );
        let before = events(&rig, "p");
        assert_eq!(
            before
                .iter()
                .filter(|line| line.starts_with("HubUnreachable"))
                .count(),
            3,
            "{before:?}"
        );
        hub.set_down(None);
        rest(SETTLED).await;
        for name in &all[..3] {
            assert_eq!(federated(&rig, "p", name), "True Delivered 2");
        }
        let resumed = events(&rig, "p");
        assert_eq!(
            resumed.iter().filter(|line| line.starts_with("Resumed")).count(),
            3,
            "{resumed:?}"
        );
        let patches = told(&rig, "p", from);
        for name in &all[3..] {
            assert!(
                patches.iter().all(|(_, object)| object != name),
                "{name} was at rest: {patches:?}"
            );
        }
    });
}

#[test]
fn many_edits_of_a_project_are_reported_one_a_second_and_those_not_reached_never() {
    simulate(async {
        let all = names("web", 60);
        let mut rig = with(&all);
        rest(SETTLED).await;
        let hub = rig.simulator.plane(HUB).unwrap();
        hub.set_down(Some(Down::Refused));
        rig.simulator.log().clear();
        let from = tokio::time::Instant::now();
        for name in &all {
            Scale("p", "default", name, 2).apply(&mut rig);
        }
        rest(Duration::from_secs(55)).await;
        let patches = told(&rig, "p", from);
        assert!((15..=30).contains(&patches.len()), "{patches:?}");
        for second in 0..60 {
            let at = patches.iter().filter(|(at, _)| *at == second).count();
            assert!(at <= 2, "{at} in second {second}: {patches:?}");
        }
        hub.set_down(None);
        let reported = patches.len();
        rest(SETTLED).await;
        let known = events(&rig, "p");
        let delayed = known
            .iter()
            .filter(|line| line.starts_with("HubUnreachable"))
            .count();
        assert!(delayed <= reported + 5, "{delayed} Events for {reported} patches");
        for name in &all {
            assert_eq!(federated(&rig, "p", name), "True Delivered 2");
        }
    });
}

#[test]
fn an_outage_of_less_than_thirty_seconds_is_not_reported() {
    simulate(async {
        let all = names("web", 3);
        let mut rig = with(&all);
        rest(SETTLED).await;
        let hub = rig.simulator.plane(HUB).unwrap();
        hub.set_down(Some(Down::Refused));
        Scale("p", "default", all[0], 2).apply(&mut rig);
        rest(Duration::from_secs(20)).await;
        hub.set_down(None);
        rest(SETTLED).await;
        assert_eq!(federated(&rig, "p", all[0]), "True Delivered 2");
        let known = events(&rig, "p");
        assert!(
            known.iter().all(|line| !line.starts_with("HubUnreachable")),
            "{known:?}"
        );
    });
}

#[test]
fn a_deletion_while_the_hub_is_down_is_reported_and_goes_on() {
    simulate(async {
        let all = names("web", 2);
        let mut rig = with(&all);
        rest(SETTLED).await;
        let hub = rig.simulator.plane(HUB).unwrap();
        hub.set_down(Some(Down::Refused));
        Delete("p", "default", all[0]).apply(&mut rig);
        rest(Duration::from_mins(1)).await;
        assert!(federated(&rig, "p", all[0]).starts_with("False HubUnreachable"));
        hub.set_down(None);
        rest(SETTLED).await;
        assert!(
            rig.projects["p"]
                .get("WorkloadDeployment", "default", all[0])
                .is_none()
        );
    });
}

#[test]
fn a_copy_that_fails_for_a_minute_is_reported_without_the_servers_words() {
    simulate(async {
        let all = names("web", 2);
        let mut rig = with(&all);
        rest(SETTLED).await;
        // Every other write fails, so that the hub itself does not count as down.
        let rule = Rule::new(When::Always, Fault::Internal)
            .plane(HUB)
            .verb(Verb::Patch)
            .kind("workloaddeployments");
        let rule = rig.simulator.faults().add(rule);
        Scale("p", "default", all[0], 2).apply(&mut rig);
        rest(Duration::from_secs(110)).await;
        let state = federated(&rig, "p", all[0]);
        assert!(
            state == "False Retrying 2" || state == "False HubUnreachable 2",
            "{state}"
        );
        assert!(
            !message(&rig, "p", all[0]).contains("injected"),
            "{}",
            message(&rig, "p", all[0])
        );
        rig.simulator.faults().remove(rule);
        rest(SETTLED).await;
        assert_eq!(federated(&rig, "p", all[0]), "True Delivered 2");
    });
}

#[test]
fn a_missing_right_on_the_hub_is_named() {
    simulate(async {
        let all = names("web", 2);
        let mut rig = with(&all);
        rest(SETTLED).await;
        let rule = Rule::new(When::Always, Fault::Forbidden)
            .plane(HUB)
            .verb(Verb::Patch)
            .kind("workloaddeployments");
        let rule = rig.simulator.faults().add(rule);
        Scale("p", "default", all[0], 2).apply(&mut rig);
        rest(Duration::from_secs(70)).await;
        assert_eq!(federated(&rig, "p", all[0]), "False MissingRights 2");
        assert_eq!(
            message(&rig, "p", all[0]),
            "fedgate may not patch workloaddeployments.compute.datumapis.com on the hub; its operator has to grant it"
        );
        rig.simulator.faults().remove(rule);
        rest(SETTLED).await;
        assert_eq!(federated(&rig, "p", all[0]), "True Delivered 2");
    });
}

#[test]
fn a_project_that_refuses_instances_gets_one_event_and_one_when_it_is_over() {
    simulate(async {
        let mut rig = Rig::new(1, &["p"]);
        rig.start();
        let rule = Rule::new(When::Always, Fault::Internal)
            .plane("p")
            .kind("instances")
            .verb(Verb::Apply);
        let rule = rig.simulator.faults().add(rule);
        Create("p", "default", "web", "DFW", 1).apply(&mut rig);
        rest(Duration::from_mins(4)).await;
        let known = events(&rig, "p");
        assert_eq!(
            known
                .iter()
                .filter(|line| *line == "ProjectionDelayed web")
                .count(),
            1,
            "{known:?}"
        );
        rig.simulator.faults().remove(rule);
        rest(SETTLED).await;
        let known = events(&rig, "p");
        assert_eq!(
            known.iter().filter(|line| *line == "Resumed web").count(),
            1,
            "{known:?}"
        );
    });
}

/// The namespace on the hub of the project's `default`.
fn on_hub(rig: &Rig) -> String {
    let home = rig.projects["p"].get("Namespace", "", "default").unwrap();
    format!("ns-{}", home["metadata"]["uid"].as_str().unwrap())
}

/// Deletes the deployment while what `held` names on the hub has a finalizer that nobody takes off, makes a new one, and asserts
/// what that says; then takes the finalizer off, and it is delivered.
async fn held_by(kind: &str, held: &str, said: &str, words: &str) {
    let mut rig = with(&["web"]);
    rest(SETTLED).await;
    let (hub, place) = (rig.hub.clone(), on_hub(&rig));
    let finalizers = |list: serde_json::Value| serde_json::json!({"metadata": {"finalizers": list}});
    let held_back = finalizers(serde_json::json!(["example.com/held"]));
    hub.merge(kind, &place, held, held_back).unwrap();
    // Somebody takes our finalizer off, so that the next deployment is there before the hub has nothing of this one.
    Delete("p", "default", "web").apply(&mut rig);
    rest(Duration::from_secs(20)).await;
    let free = finalizers(serde_json::Value::Null);
    if rig.projects["p"]
        .get("WorkloadDeployment", "default", "web")
        .is_some()
    {
        let project = &rig.projects["p"];
        project
            .merge("WorkloadDeployment", "default", "web", free.clone())
            .unwrap();
    }
    Create("p", "default", "web", "DFW", 1).apply(&mut rig);
    rig.simulator.log().clear();
    let from = tokio::time::Instant::now();
    rest(Duration::from_secs(60)).await;
    let patches: Vec<u64> = told(&rig, "p", from).iter().map(|(at, _)| *at).collect();
    assert!(
        patches.first().is_some_and(|second| (30..=35).contains(second)),
        "{patches:?}"
    );
    assert_eq!(federated(&rig, "p", "web"), said);
    let text = message(&rig, "p", "web");
    assert!(text.contains(words), "{text}");
    hub.merge(kind, &place, held, free).unwrap();
    rest(SETTLED).await;
    assert_eq!(federated(&rig, "p", "web"), "True Delivered 1");
}

#[test]
fn a_policy_that_the_hub_is_slow_to_delete_is_named_to_the_next_deployment() {
    let words = "still deleting the policy of an earlier use of city DFW";
    simulate(held_by(
        "PropagationPolicy",
        "city-dfw",
        "False Propagating 1",
        words,
    ));
}

#[test]
fn a_copy_that_the_hub_is_slow_to_delete_is_named_to_the_next_deployment() {
    let words = "the copy of an earlier deployment of this name";
    simulate(held_by(
        "WorkloadDeployment",
        "web",
        "False EarlierLifeDraining 1",
        words,
    ));
}
