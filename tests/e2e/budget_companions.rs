//! 78, the rows of companions and of the lists that ask for them.

use crate::{
    budget::{APPLY, CREATE, NEVER, ONCE, PATCH, REMOVE, REST, costs, reported, settled},
    support::{
        Case, condition, deployment_with_data,
        kinds::{CONFIG_MAP, DEPLOYMENT},
        seconds, trials, uid,
    },
};
use fedgate_api::keys;
use serde_json::{Value, json};
use std::ops::RangeInclusive;

trials![a78_companion_lists, a78_companions];

/// The verdict and the report.
const TWICE: RangeInclusive<usize> = 2..=2;
const CREATE_COMPANION: &str = "hub: create configmaps";
const PATCH_COMPANION: &str = "hub: patch configmaps";
const REMOVE_COMPANION: &str = "hub: delete configmaps";

/// Waits until the companion at the cell holds the value under the key `a`.
async fn companion_at_cell(case: &Case, name: &str, value: &str) {
    let (kind, ns) = (&CONFIG_MAP, case.hub_ns.as_str());
    case.dfw
        .plane
        .sees(kind, ns, name, "has its data", seconds(60), |o| {
            o["data"]["a"] == value
        })
        .await;
}

fn with_settings(name: &str) -> Value {
    deployment_with_data(name, "DFW", Some("settings"), None, &[])
}

/// A deployment that references data: the first one of a project makes the gateway watch sources there, and what it
/// expects is said when they are listed, by a patch of its own.
async fn warm(case: &Case) {
    case.config_map("first", &json!({"a": "1"})).await;
    let first = deployment_with_data("other", "DFW", Some("first"), None, &[]);
    case.create(&DEPLOYMENT, first).await;
    reported(case, "other", "DFW").await;
}

async fn a78_companions(case: Case) {
    case.config_map("settings", &json!({"a": "1"})).await;
    warm(&case).await;
    case.quiet_for(REST).await;
    let row = [PATCH, CREATE, CREATE_COMPANION];
    // Beside the cell's report: the verdict, which turns from Resolving to Ready.
    costs(&case, "deployment with a companion", &row, TWICE, async {
        case.create(&DEPLOYMENT, with_settings("web")).await;
        companion_at_cell(&case, "settings", "1").await;
        case.condition("web", "ReferencedDataReady", "True", "Ready")
            .await;
        reported(&case, "web", "DFW").await;
    })
    .await;
    costs(&case, "source changed", &[PATCH_COMPANION], NEVER, async {
        case.merge(&CONFIG_MAP, "settings", json!({"data": {"a": "2"}}))
            .await;
        companion_at_cell(&case, "settings", "2").await;
    })
    .await;
    let (hub, ns) = (&case.hub, case.hub_ns.as_str());
    let what = "companion edited by hand";
    costs(&case, what, &[PATCH_COMPANION], NEVER, async {
        let edit = json!({"data": {"a": "forged"}});
        hub.merge(&CONFIG_MAP, ns, "settings", edit).await;
        hub.sees(&CONFIG_MAP, ns, "settings", "is restored", seconds(30), |o| {
            o["data"]["a"] == "2"
        })
        .await;
    })
    .await;
    let what = "companion deleted by hand";
    costs(&case, what, &[CREATE_COMPANION], NEVER, async {
        let ours = hub.exists(&CONFIG_MAP, ns, "settings", seconds(5)).await;
        hub.delete(&CONFIG_MAP, ns, "settings").await;
        hub.sees(&CONFIG_MAP, ns, "settings", "is back", seconds(30), |o| {
            uid(o) != uid(&ours) && o["data"] == ours["data"]
        })
        .await;
    })
    .await;
    let row = [PATCH, REMOVE, REMOVE_COMPANION];
    costs(
        &case,
        "deployment with a companion deleted",
        &row,
        NEVER,
        case.remove("web"),
    )
    .await;
}

async fn a78_companion_lists(case: Case) {
    case.config_map("settings", &json!({"a": "1"})).await;
    case.config_map("more", &json!({"a": "1"})).await;
    warm(&case).await;
    settled(&case, "web", "DFW").await;
    case.quiet_for(REST).await;
    let refer = async |to: Option<&str>| {
        let template = deployment_with_data("web", "DFW", to, None, &[])["spec"]["template"].clone();
        let runtime = &template["spec"]["runtime"];
        case.merge(
            &DEPLOYMENT,
            "web",
            json!({"spec": {"template": {"spec": {"runtime": runtime, "volumes": template["spec"]["volumes"]}}}}),
        )
        .await;
    };
    let expects = async |list: &str| {
        case.dfw
            .sees(&case.hub_ns, "web", &format!("expects {list}"), |o| {
                o["metadata"]["annotations"][keys::EXPECTED_REFERENCED_DATA] == list
            })
            .await;
        case.dfw.report(&case.hub_ns, "web", 1, 1).await;
    };
    // The status returns with the cell's report of the new generation, and before that once alone: the verdict is news.
    let row = [PATCH, APPLY, CREATE_COMPANION];
    let what = "first reference of a live deployment";
    costs(&case, what, &row, TWICE, async {
        refer(Some("settings")).await;
        companion_at_cell(&case, "settings", "1").await;
        case.condition("web", "ReferencedDataReady", "True", "Ready")
            .await;
        expects("[\"ConfigMap/settings\"]").await;
    })
    .await;
    let row = [PATCH, APPLY, CREATE_COMPANION, REMOVE_COMPANION];
    costs(&case, "list of a live deployment changed", &row, ONCE, async {
        refer(Some("more")).await;
        companion_at_cell(&case, "more", "1").await;
        expects("[\"ConfigMap/more\"]").await;
    })
    .await;
    // The verdict: its error is a carried annotation, its condition a status.
    costs(&case, "source gone", &[PATCH, APPLY], ONCE, async {
        case.delete(&CONFIG_MAP, "more").await;
        case.condition("web", "ReferencedDataReady", "False", "SourceNotFound")
            .await;
    })
    .await;
    costs(&case, "source back", &[PATCH, APPLY], ONCE, async {
        case.config_map("more", &json!({"a": "1"})).await;
        case.condition("web", "ReferencedDataReady", "True", "Ready")
            .await;
    })
    .await;
    // With the last companion the referenced-data finalizer goes, which cannot ride with the list that lets go of it; the
    // verdict goes at once, the report follows.
    let row = [PATCH, PATCH, APPLY, REMOVE_COMPANION];
    costs(&case, "companion released", &row, TWICE, async {
        refer(None).await;
        case.project_sees("web", "has no verdict", |o| {
            condition(o, "ReferencedDataReady").is_none()
        })
        .await;
        case.hub
            .gone(&CONFIG_MAP, &case.hub_ns, "more", seconds(60))
            .await;
        case.dfw
            .sees(&case.hub_ns, "web", "has no volume", |o| {
                o["spec"]["template"]["spec"]["volumes"].is_null()
            })
            .await;
        case.dfw.report(&case.hub_ns, "web", 1, 1).await;
    })
    .await;
}
