//! 8–13: one policy per city and namespace, there while it is needed.

use crate::support::{
    Case, annotation, deployment,
    kinds::{BINDING, DEPLOYMENT, POLICY},
    lone_trials,
    plane::BY_EVENT,
    seconds, trials, uid, wait_for,
};
use fedgate_api::keys;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::time::Instant;

trials![
    #[core]
    a08_deployments_of_a_city_share_a_policy,
    a09_first_deletion_leaves_the_policy,
    a10_last_deletion_removes_the_policy_after_the_binding,
    a11_creation_racing_with_the_policys_deletion,
];

lone_trials![
    #[core]
    a12_policy_deleted_by_hand_is_back,
    a13_policy_edited_by_hand_is_restored,
];

async fn a08_deployments_of_a_city_share_a_policy(case: Case) {
    case.deploy("one", "DFW").await;
    case.deploy("two", "DFW").await;
    for name in ["one", "two"] {
        case.copy_sees(name, "is claimed by city-dfw", |o| {
            annotation(o, keys::CLAIM_NAME) == Some("city-dfw")
        })
        .await;
        case.dfw.deployment(&case.hub_ns, name).await;
    }
    let policies = case.hub.list(&POLICY, &case.hub_ns, "").await;
    assert_eq!(policies.len(), 1, "one policy for the city");
}

async fn a09_first_deletion_leaves_the_policy(case: Case) {
    case.deploy("one", "DFW").await;
    case.deploy("two", "DFW").await;
    case.dfw.deployment(&case.hub_ns, "one").await;
    let policy = case
        .hub
        .exists(&POLICY, &case.hub_ns, "city-dfw", seconds(30))
        .await;
    case.remove("one").await;
    let same = |state: Option<&Value>| {
        state.is_some_and(|p| uid(p) == uid(&policy) && p["metadata"]["deletionTimestamp"].is_null())
    };
    case.hub
        .holds(
            &POLICY,
            &case.hub_ns,
            "city-dfw",
            "is the same policy",
            seconds(8),
            same,
        )
        .await;
    case.dfw.deployment(&case.hub_ns, "two").await;
}

async fn a10_last_deletion_removes_the_policy_after_the_binding(case: Case) {
    for name in ["one", "two"] {
        case.deploy(name, "DFW").await;
        case.dfw.deployment(&case.hub_ns, name).await;
    }
    case.remove("one").await;
    case.delete(&DEPLOYMENT, "two").await;
    case.hub
        .gone(&POLICY, &case.hub_ns, "city-dfw", seconds(30))
        .await;
    assert!(
        case.hub
            .get(&BINDING, &case.hub_ns, "two-workloaddeployment")
            .await
            .is_none()
    );
    let requests = case.hub_requests_of_all();
    let left = requests.iter().rfind(|e| {
        e.object_ref.resource == "resourcebindings"
            && e.object_ref.name == "two-workloaddeployment"
            && e.is_write()
            && e.succeeded()
    });
    let policy = requests
        .iter()
        .find(|e| e.action() == "delete propagationpolicies" && e.object_ref.name == "city-dfw");
    let (left, policy) = (
        left.expect("the binding was written"),
        policy.expect("the policy was deleted"),
    );
    assert!(
        left.request_received_timestamp <= policy.request_received_timestamp,
        "the binding ended at {}, the policy was deleted at {}",
        left.request_received_timestamp,
        policy.request_received_timestamp
    );
}

/// Each moment at which a copy was there and the policy of its city was not, or was going.
async fn without_policy(case: &Case, since: &str) -> Vec<String> {
    let copies = case.hub.history(&DEPLOYMENT, &case.hub_ns, since).await;
    let policies = case.hub.history(&POLICY, &case.hub_ns, since).await;
    let mut changes: Vec<_> = copies.into_iter().chain(policies).collect();
    changes.sort_by_key(|(version, ..)| *version);
    let (mut copies, mut policy, mut wrong) = (BTreeSet::new(), false, Vec::new());
    let (mut made, mut ended) = (0, 0);
    for (version, object, there) in changes {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if object["kind"] == POLICY.name {
            policy = there && object["metadata"]["deletionTimestamp"].is_null();
            ended += u32::from(!there);
        } else if there {
            made += u32::from(copies.insert(name));
        } else {
            copies.remove(&name);
        }
        if !policy && !copies.is_empty() {
            wrong.push(format!("at version {version}: {copies:?}"));
        }
    }
    assert!(
        made > 8 && ended > 3,
        "{made} copies were made, {ended} policies went: no race"
    );
    wrong
}

async fn a11_creation_racing_with_the_policys_deletion(case: Case) {
    let since = case.hub.version(&POLICY, &case.hub_ns).await;
    case.deploy("web-0", "DFW").await;
    let gone = |state: Option<&Value>| state.is_none();
    let going = |state: Option<&Value>| state.is_none_or(|o| !o["metadata"]["deletionTimestamp"].is_null());
    for round in 1..=8_u64 {
        let (old, new) = (format!("web-{}", round - 1), format!("web-{round}"));
        case.delete(&DEPLOYMENT, &old).await;
        // The policy's deletion follows that of copy and binding: just before, while it is asked for, and after.
        let binding = format!("{old}-workloaddeployment");
        let (kind, name) = match round % 4 {
            0 => (&DEPLOYMENT, &*old),
            1 => (&BINDING, &*binding),
            _ => (&POLICY, "city-dfw"),
        };
        let limit = seconds(60);
        if round % 4 == 2 {
            case.hub
                .until(kind, &case.hub_ns, name, "is going", limit, going)
                .await;
        } else {
            case.hub
                .until(kind, &case.hub_ns, name, "is gone", limit, gone)
                .await;
        }
        let created = Instant::now();
        case.create(&DEPLOYMENT, deployment(&new, "DFW")).await;
        let copy = case.copy(&new).await;
        let what = format!("copy {new} has its city policy");
        wait_for(&what, seconds(5), || async {
            let policy = case.hub.get(&POLICY, &case.hub_ns, "city-dfw").await?;
            policy["metadata"]["deletionTimestamp"].is_null().then_some(())
        })
        .await;
        assert!(created.elapsed() < seconds(60));
        let still = case
            .hub
            .get(&DEPLOYMENT, &case.hub_ns, &new)
            .await
            .expect("the copy stays");
        assert_eq!(uid(&still), uid(&copy));
    }
    case.dfw.deployment(&case.hub_ns, "web-8").await;
    // At each version of the hub, between two looks as well.
    assert_eq!(without_policy(&case, &since).await, Vec::<String>::new());
}

async fn a12_policy_deleted_by_hand_is_back(case: Case) {
    case.deploy("web", "DFW").await;
    case.dfw.deployment(&case.hub_ns, "web").await;
    let old = case
        .hub
        .exists(&POLICY, &case.hub_ns, "city-dfw", seconds(30))
        .await;
    let mut states = case.hub.states(&POLICY, &case.hub_ns, "city-dfw");
    case.hub.delete(&POLICY, &case.hub_ns, "city-dfw").await;
    let mut absent_since = None;
    let back = async {
        while let Some(state) = futures::StreamExt::next(&mut states).await {
            match state {
                None => absent_since = Some(Instant::now()),
                Some(policy) if uid(&policy) != uid(&old) => return,
                Some(_) => {}
            }
        }
    };
    tokio::time::timeout(seconds(30), back)
        .await
        .expect("the policy comes back");
    let pause = absent_since.expect("the old policy went first").elapsed();
    assert!(pause < BY_EVENT, "back after {pause:?}");
    let ports = json!({"spec": {"scaleSettings": {"minReplicas": 2}}});
    case.merge(&DEPLOYMENT, "web", ports).await;
    case.dfw
        .sees(&case.hub_ns, "web", "has the new scale", |o| {
            o["spec"]["scaleSettings"]["minReplicas"] == 2
        })
        .await;
}

async fn a13_policy_edited_by_hand_is_restored(case: Case) {
    case.deploy("web", "DFW").await;
    case.dfw.deployment(&case.hub_ns, "web").await;
    case.quiet().await;
    let policy = case
        .hub
        .exists(&POLICY, &case.hub_ns, "city-dfw", seconds(30))
        .await;
    let count = case.count();
    let mut selectors = policy["spec"]["resourceSelectors"].clone();
    selectors[0]["labelSelector"]["matchLabels"][keys::CITY_CODE] = json!("LHR");
    let edited = Instant::now();
    case.hub
        .merge(
            &POLICY,
            &case.hub_ns,
            "city-dfw",
            json!({"spec": {"resourceSelectors": selectors}}),
        )
        .await;
    case.hub
        .sees(
            &POLICY,
            &case.hub_ns,
            "city-dfw",
            "selects DFW again",
            seconds(10),
            |o| o["spec"]["resourceSelectors"] == policy["spec"]["resourceSelectors"],
        )
        .await;
    assert!(
        edited.elapsed() < BY_EVENT,
        "restored after {:?}",
        edited.elapsed()
    );
    case.quiet().await;
    let writes: Vec<String> = case
        .writes(&count)
        .into_iter()
        .filter(|w| w.contains("propagationpolicies"))
        .collect();
    assert_eq!(
        writes,
        ["hub: patch propagationpolicies"],
        "one write restores it, and Karmada's defaults cause none"
    );
}
