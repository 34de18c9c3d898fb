//! A cell without a hub, and one whose Instances another program runs.

use crate::support::{
    Case, Wish,
    case::{Mark, is_true},
    kinds::{DEPLOYMENT, INSTANCE, NAMESPACE, POD},
    lone_trials, message, says, seconds, trials, uid, wait_for, with_cleanup,
};
use fedgate_api::keys;
use serde_json::{Value, json};

trials![
    #[core]
    a08_w30_one_api_server_for_everything,
    #[core]
    w24_a_deployment_of_another_city_runs_nothing,
];
lone_trials![a09_another_provider_runs_the_instances];

/// UID of a Workload that nobody has.
const WORKLOAD: &str = "5f1c2d9e-0000-4000-8000-000000000001";

fn wish(city: &str, count: u64) -> Wish {
    let mut wish = Wish::new("web", count);
    city.clone_into(&mut wish.places[0].1);
    wish
}

/// Makes a deployment in a namespace of its own at the cell that stands alone; the namespace.
async fn deploy(case: &Case, city: &str, count: u64) -> String {
    let lab = &case.suite.lab.plane;
    lab.create(&NAMESPACE, "", json!({"metadata": {"name": case.ns}}))
        .await;
    lab.create(&DEPLOYMENT, &case.ns, wish(city, count).deployment(WORKLOAD))
        .await;
    wish(city, count).deployment_name(0)
}

/// What the cell asked of its API server since the mark.
fn asked(case: &Case, mark: &Mark) -> Vec<String> {
    let user = &case.suite.lab.users()[0];
    let entries = case
        .suite
        .lab
        .log
        .since(mark.of(&case.suite, &case.suite.lab.name), user);
    entries
        .iter()
        .map(|e| format!("{} {}", e.action(), e.object_ref.api_group))
        .collect()
}

async fn a08_w30_one_api_server_for_everything(case: Case) {
    let lab = &case.suite.lab;
    let mark = case.mark();
    let deployment = deploy(&case, "LAB", 2).await;
    let ready = |d: &Value| {
        d["status"]["readyReplicas"] == 2 && says(d, ["ReplicasReady", "True", "ReplicasAvailable"])
    };
    let told = lab
        .plane
        .sees(
            &DEPLOYMENT,
            &case.ns,
            &deployment,
            "has both Instances Ready",
            seconds(60),
            ready,
        )
        .await;
    assert_eq!(told["status"]["location"]["name"], "lab", "{told}");
    let first = lab
        .plane
        .get(&INSTANCE, &case.ns, &format!("{deployment}-0"))
        .await
        .expect("it is there");
    assert!(says(&first, ["QuotaGranted", "True", "QuotaDisabled"]), "{first}");
    let finalizers = first["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    assert!(
        !finalizers.contains(&json!(keys::INSTANCE_FINALIZER)),
        "there is no hub to clean up: {finalizers:?}"
    );
    let one = json!({"spec": {"scaleSettings": {"minReplicas": 1}}});
    lab.plane.merge(&DEPLOYMENT, &case.ns, &deployment, one).await;
    lab.plane
        .gone(&INSTANCE, &case.ns, &format!("{deployment}-1"), seconds(60))
        .await;
    lab.plane.delete(&DEPLOYMENT, &case.ns, &deployment).await;
    for kind in [&INSTANCE, &POD] {
        lab.plane
            .gone(kind, &case.ns, &format!("{deployment}-0"), seconds(60))
            .await;
    }
    let all = asked(&case, &mark);
    assert!(all.len() > 10, "the audit log shows the cell at work: {all:?}");
    assert!(
        !all.iter()
            .any(|request| request.contains("networking.datumapis.com")),
        "{all:?}"
    );
    lab.plane.delete(&NAMESPACE, "", &case.ns).await;
}

async fn w24_a_deployment_of_another_city_runs_nothing(case: Case) {
    let lab = &case.suite.lab.plane;
    let deployment = deploy(&case, "DFW", 1).await;
    let said = |d: &Value| says(d, ["Available", "False", "CityCodeMismatch"]);
    let told = lab
        .sees(
            &DEPLOYMENT,
            &case.ns,
            &deployment,
            "is refused",
            seconds(60),
            said,
        )
        .await;
    let message = message(&told, "Available");
    assert!(message.contains("DFW") && message.contains("LAB"), "{message}");
    assert!(lab.list(&INSTANCE, &case.ns, "").await.is_empty());
    let here = json!({"spec": {"cityCode": "LAB"}});
    lab.merge(&DEPLOYMENT, &case.ns, &deployment, here).await;
    let ready = |d: &Value| d["status"]["readyReplicas"] == 1;
    lab.sees(&DEPLOYMENT, &case.ns, &deployment, "runs", seconds(60), ready)
        .await;
    lab.delete(&NAMESPACE, "", &case.ns).await;
}

/// Finalizer of a provider that is not the cell's own.
const FOREIGN: &str = "example.com/runs-it";

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

async fn a09_another_provider_runs_the_instances(case: Case) {
    let lab = &case.suite.lab;
    lab.restart_with(&["--provider=none"]).await;
    let body = async {
        let deployment = deploy(&case, "LAB", 1).await;
        let finalizers = provider_runs(&case, &deployment).await;
        provider_ends(&case, &deployment, finalizers).await;
        lab.plane.delete(&NAMESPACE, "", &case.ns).await;
    };
    with_cleanup(body, lab.restart_with(&[])).await;
}

/// As docs/cell.md asks of a provider: finalizer, then what runs, then its two conditions. The finalizers as they were
/// before.
async fn provider_runs(case: &Case, deployment: &str) -> Vec<Value> {
    let (lab, ns, minute) = (&case.suite.lab.plane, &case.ns, seconds(60));
    let instance = format!("{deployment}-0");
    let open = |i: &Value| list(&i["spec"]["controller"]["schedulingGates"]).is_empty();
    let open = lab
        .sees(&INSTANCE, ns, &instance, "has no gate", minute, open)
        .await;
    let before = list(&open["metadata"]["finalizers"]);
    let mut finalizers = before.clone();
    finalizers.push(json!(FOREIGN));
    let hold = json!({"metadata": {"finalizers": finalizers}});
    lab.merge(&INSTANCE, ns, &instance, hold).await;
    tell(case, &instance, "True", ["Programmed", "Available"]).await;
    let ready = |i: &Value| says(i, ["Ready", "True", "Available"]);
    lab.sees(&INSTANCE, ns, &instance, "is Ready", minute, ready)
        .await;
    let counted = |d: &Value| d["status"]["readyReplicas"] == 1 && d["status"]["updatedReplicas"] == 1;
    lab.sees(&DEPLOYMENT, ns, deployment, "counts it", minute, counted)
        .await;
    let pods = lab.list(&POD, ns, "").await;
    assert!(pods.is_empty(), "the cell runs no Pod");
    tell(case, &instance, "False", ["ImageUnavailable", "ImageUnavailable"]).await;
    let said = |d: &Value| says(d, ["Available", "False", "ImageUnavailable"]);
    let what = "says what the provider said";
    lab.sees(&DEPLOYMENT, ns, deployment, what, minute, said).await;
    before
}

/// The Instance waits for its provider, however long that takes.
async fn provider_ends(case: &Case, deployment: &str, finalizers: Vec<Value>) {
    let (lab, ns, minute) = (&case.suite.lab.plane, &case.ns, seconds(60));
    let instance = format!("{deployment}-0");
    lab.delete(&DEPLOYMENT, ns, deployment).await;
    let waits = |i: &Value| {
        says(i, ["Ready", "False", "Stopping"])
            && list(&i["metadata"]["finalizers"]).contains(&json!(FOREIGN))
    };
    let what = "waits for its provider";
    lab.sees(&INSTANCE, ns, &instance, what, minute, waits).await;
    let let_go = json!({"metadata": {"finalizers": finalizers}});
    lab.merge(&INSTANCE, ns, &instance, let_go).await;
    lab.gone(&INSTANCE, ns, &instance, minute).await;
}

/// Says as a provider how an Instance is.
async fn tell(case: &Case, instance: &str, status: &str, reasons: [&str; 2]) {
    let lab = &case.suite.lab.plane;
    wait_for("the provider is heard", seconds(20), || async {
        let found = lab.get(&INSTANCE, &case.ns, instance).await?;
        let mut conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        for (kind, reason) in ["Programmed", "Available"].into_iter().zip(reasons) {
            conditions.retain(|c| c["type"] != kind);
            conditions.push(json!({
                "type": kind, "status": status, "reason": reason, "message": "said by a test",
                "lastTransitionTime": "2026-11-22T00:00:00Z", "observedGeneration": found["metadata"]["generation"],
            }));
        }
        let hash = &found["spec"]["controller"]["templateHash"];
        let patch = json!({
            "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
            "status": {"conditions": conditions, "controller": {"observedTemplateHash": hash}},
        });
        lab.try_merge_status(&INSTANCE, &case.ns, instance, &patch).await.ok()
    })
    .await;
    let heard = lab.get(&INSTANCE, &case.ns, instance).await.expect("it is there");
    assert_eq!(is_true(&heard, "Available"), status == "True", "{}", uid(&heard));
}
