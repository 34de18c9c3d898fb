//! Rollouts that keep serving: surge, deadline, undo, pause (docs/contract/serving.md §3); moves of a placement to another city
//! (docs/contract/serving.md §4).

use crate::support::{
    Case, Wish,
    case::{image, is_true, message, name, says},
    kinds::{DEPLOYMENT, EVENT, INSTANCE, POD, WORKLOAD},
    lone_trials, seconds, trials, wait_for,
};
use fedgate_api::keys;
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};

trials![
    #[core]
    s14_one_instance_is_replaced_while_another_one_serves,
    s15_a_rollout_with_a_bad_image_holds_or_is_undone,
    s17_a_paused_rollout_goes_on_when_it_is_resumed,
    s19_a_city_serves_until_the_one_that_replaces_it_is_ready,
    probes_and_the_end_of_a_container_reach_the_pod,
];
lone_trials![s16_a_surge_without_quota_makes_room];

const DEPLOYED: &str = "web-us-dfw";
/// Longest wait, in seconds, until a change reaches the next plane.
const SOON: u64 = 60;

/// Waits until the condition Progressing of the project's deployment has this status and reason.
async fn wait_for_progressing(case: &Case, status: &str, reason: &str) -> Value {
    case.project_says(&DEPLOYMENT, DEPLOYED, ["Progressing", status, reason])
        .await
}

/// Every 20 ms, asserts that at least `count` Instances are Ready and their Pods are not being deleted. Never returns.
async fn assert_serving(case: &Case, count: usize) {
    loop {
        let (mut instances, mut pods) = (Vec::new(), Vec::new());
        for cell in [case.dfw(), &case.suite.lhr] {
            instances.extend(case.at(cell, &INSTANCE).await);
            pods.extend(case.at(cell, &POD).await);
        }
        let living: BTreeSet<&str> = pods
            .iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            .map(name)
            .collect();
        let ready = instances.iter().filter(|i| is_true(i, "Ready"));
        let serving = ready.filter(|i| living.contains(name(i))).count();
        assert!(serving >= count, "{instances:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Runs a change, and asserts meanwhile that at least `count` Instances serve.
async fn while_serving(case: &Case, count: usize, change: impl Future<Output = ()>) {
    tokio::select! {
        () = change => {}
        () = assert_serving(case, count) => {}
    }
}

async fn s14_one_instance_is_replaced_while_another_one_serves(case: Case) {
    let wish = Wish::new("web", 1).rollout(json!({}));
    case.run(&wish).await;
    wait_for_progressing(&case, "True", "RolloutComplete").await;
    let mark = case.mark();
    let newer = wish.image("shop/web:1.4.3");
    while_serving(&case, 1, async {
        case.update(&newer).await;
        case.runs(&newer).await;
    })
    .await;
    wait_for_progressing(&case, "True", "RolloutComplete").await;
    let written: Vec<String> = case
        .writes_of(case.dfw(), &mark)
        .into_iter()
        .filter(|write| write.contains(" delete "))
        .collect();
    let place = |what: &str| {
        let found = written.iter().position(|write| write.contains(what));
        found.unwrap_or_else(|| panic!("{what}: {written:#?}"))
    };
    assert!(
        place("services") < place("pods"),
        "clients leave before the process is told to end: {written:#?}"
    );
}

async fn s15_a_rollout_with_a_bad_image_holds_or_is_undone(case: Case) {
    let settings = json!({"progressDeadlineSeconds": 3});
    let wish = Wish::new("web", 2).rollout(settings.clone());
    case.run(&wish).await;
    let broken = wish.clone().image("shop/web:broken");
    let good = wish
        .image("shop/web:1.4.3")
        .rollout(json!({"progressDeadlineSeconds": 3, "onFailure": "Undo"}));
    while_serving(&case, 2, async {
        case.update(&broken).await;
        wait_for_progressing(&case, "False", "ProgressDeadlineExceeded").await;
        // The deadline may come before the kubelet has tried the image.
        let what = "the condition names the image";
        wait_for(what, seconds(SOON), || async {
            let deployment = case.project.get(&DEPLOYMENT, &case.ns, DEPLOYED).await?;
            let said = message(&deployment, "Progressing");
            said.contains("waiting for web-us-dfw-2: ImageUnavailable: image")
                .then_some(())
        })
        .await;
        case.project_says(&WORKLOAD, "web", ["Stalled", "True", "ProgressDeadlineExceeded"])
            .await;
        case.update(&good).await;
        case.runs(&good).await;
        wait_for_progressing(&case, "True", "RolloutComplete").await;
        case.update(&broken.rollout(json!({"progressDeadlineSeconds": 3, "onFailure": "Undo"})))
            .await;
        wait_for_progressing(&case, "False", "RolloutUndone").await;
        // The Instances are those of the last template that was complete, and no other one is left.
        let what = "two Instances with the former image are left";
        wait_for(what, seconds(SOON), || async {
            let all = case.project.list(&INSTANCE, &case.ns, "").await;
            let is_former = |i: &Value| image(i) == "shop/web:1.4.3" && is_true(i, "Ready");
            (all.len() == 2 && all.iter().all(is_former)).then_some(())
        })
        .await;
    })
    .await;
    let what = "the tenant has both Events";
    wait_for(what, seconds(SOON), || async {
        let all = case.project.list(&EVENT, &case.ns, "").await;
        let has = |reason: &str| all.iter().any(|event| event["reason"] == reason);
        (has("ProgressDeadlineExceeded") && has("RolloutUndone")).then_some(())
    })
    .await;
    // Karmada leaves the cell's annotations on the deployment when it writes the spec again.
    let scaled = json!({"spec": {"placements": [{"name": "us", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1,
        "rollout": {"progressDeadlineSeconds": 3, "onFailure": "Undo"}}}]}});
    case.project.merge(&WORKLOAD, &case.ns, "web", scaled).await;
    let what = "one Instance with the former image is left";
    wait_for(what, seconds(SOON), || async {
        let all = case.at(case.dfw(), &INSTANCE).await;
        (all.len() == 1 && image(&all[0]) == "shop/web:1.4.3").then_some(())
    })
    .await;
    let at_cell = &case.at(case.dfw(), &DEPLOYMENT).await[0];
    assert!(
        at_cell["metadata"]["annotations"][keys::UNDONE].is_string(),
        "{at_cell}"
    );
}

async fn s16_a_surge_without_quota_makes_room(case: Case) {
    case.within_budgets(async |case: &Case| {
        case.budget("100").await;
        // `minReadySeconds` makes `SurgeWithoutQuota` last long enough to be observed.
        let wish = Wish::new("web", 2).rollout(json!({"minReadySeconds": 3}));
        case.run(&wish).await;
        case.budget_is_used_up().await;
        let newer = wish.image("shop/web:1.4.3");
        case.update(&newer).await;
        let what = "says that the surge has no quota";
        case.project
            .sees(&DEPLOYMENT, &case.ns, DEPLOYED, what, seconds(SOON), |d| {
                says(d, ["Progressing", "True", "SurgeWithoutQuota"])
            })
            .await;
        case.runs(&newer).await;
        wait_for_progressing(case, "True", "RolloutComplete").await;
    })
    .await;
}

async fn s17_a_paused_rollout_goes_on_when_it_is_resumed(case: Case) {
    let wish = Wish::new("web", 2).rollout(json!({}));
    case.run(&wish).await;
    let paused = wish.rollout(json!({"paused": true}));
    case.update(&paused).await;
    wait_for_progressing(&case, "Unknown", "RolloutPaused").await;
    // A paused rollout replaces no Instance after a template edit, but a new `minReplicas` takes effect.
    case.update(&paused.clone().image("shop/web:1.4.3")).await;
    let mut more = paused.image("shop/web:1.4.4");
    more.places[0].2 = 3;
    case.update(&more).await;
    let what = "a third Instance has the newest image, and the others keep theirs";
    wait_for(what, seconds(SOON), || async {
        let all = case.project.list(&INSTANCE, &case.ns, "").await;
        let mut images: Vec<&str> = all.iter().filter(|i| is_true(i, "Ready")).map(image).collect();
        images.sort_unstable();
        (images == ["shop/web:1.4.2", "shop/web:1.4.2", "shop/web:1.4.4"]).then_some(())
    })
    .await;
    let resumed = more.rollout(json!({}));
    while_serving(&case, 3, async {
        case.update(&resumed).await;
        case.runs(&resumed).await;
    })
    .await;
    wait_for_progressing(&case, "True", "RolloutComplete").await;
}

async fn s19_a_city_serves_until_the_one_that_replaces_it_is_ready(case: Case) {
    let wish = Wish::new("web", 1);
    case.run(&wish).await;
    let in_city = |city: &str, image: &str| {
        let mut wish = wish.clone().image(image);
        city.clone_into(&mut wish.places[0].1);
        wish
    };
    // The new city cannot serve before its image is corrected.
    let good = in_city("LHR", "shop/web:1.4.3");
    while_serving(&case, 1, async {
        case.update(&in_city("LHR", "shop/web:broken")).await;
        let moving = case
            .project_says(&WORKLOAD, "web", ["Moving", "True", "ImageUnavailable"])
            .await;
        let said = message(&moving, "Moving");
        assert!(
            said.starts_with(
                "the deployment of us/DFW stays until that of us/LHR is ready: image shop/web:broken"
            ),
            "{said}"
        );
        assert!(
            is_true(&moving, "Available") && !is_true(&moving, "Ready"),
            "{moving}"
        );
        let former = case.project.get(&DEPLOYMENT, &case.ns, DEPLOYED).await;
        assert!(former.is_some_and(|d| d["metadata"]["deletionTimestamp"].is_null()));
        case.update(&good).await;
        case.runs(&good).await;
    })
    .await;
    case.emptied(case.dfw()).await;
    let ended = case
        .project_says(&WORKLOAD, "web", ["Ready", "True", "ReplicasAvailable"])
        .await;
    assert!(!is_true(&ended, "Moving"), "{ended}");

    // With a gap that the tenant allows, nothing waits for a city that does not serve.
    let allowed = json!({"metadata": {"annotations": {keys::ALLOW_GAP: "true"}}});
    case.project.merge(&WORKLOAD, &case.ns, "web", allowed).await;
    case.update(&in_city("DFW", "shop/web:broken")).await;
    case.emptied(&case.suite.lhr).await;
    case.update(&wish).await;
    case.runs(&wish).await;
}

async fn probes_and_the_end_of_a_container_reach_the_pod(case: Case) {
    let wish = Wish::new("web", 1);
    let mut workload = wish.workload();
    let sandbox = &mut workload["spec"]["template"]["spec"]["runtime"]["sandbox"];
    sandbox["terminationGracePeriodSeconds"] = json!(20);
    let probe = json!({"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 2});
    let lifecycle = json!({"preStop": {"sleep": {"seconds": 5}}});
    sandbox["containers"][0]["readinessProbe"] = probe.clone();
    sandbox["containers"][0]["lifecycle"] = lifecycle.clone();
    case.project.create(&WORKLOAD, &case.ns, workload).await;
    case.runs(&wish).await;
    let pod = &case.at(case.dfw(), &POD).await[0];
    let container = &pod["spec"]["containers"][0];
    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 20);
    assert_eq!(container["lifecycle"], lifecycle);
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/ready");
    assert_eq!(container["readinessProbe"]["periodSeconds"], 2);
}
