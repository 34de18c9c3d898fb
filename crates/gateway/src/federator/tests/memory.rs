//! A failed write leaves every field of the memory as it was; only observations stay.

use super::*;
use crate::{
    federator::{Federator, memory::Since},
    index::{
        GatewayIndex, TableId,
        fixture::{self, shop},
    },
    single_member::{self, Observation, decide::Deletion, probe::Probing},
    testing::{LOST, Rig, refusal},
};
use fedgate_engine::reconcile::{
    normalized::Normalized,
    throttle::{Rate, TokenBucket},
};
use fedgate_engine::runtime::driver::reconcile;
use fedgate_engine::{diff::Digest, key::Key, reconcile::throttle::RETRY_AFTER};
use fedgate_kinds::KindId;

const LONG_AGO: Duration = Duration::from_secs(1_000);

/// A record that the server made `stored` of `wanted`.
fn normalized(wanted: u8, stored: u8) -> Normalized {
    let mut normalized = Normalized::default();
    normalized.record(Digest::of_hash(&wanted), Digest::of_hash(&stored));
    normalized
}

/// Every field that a write may change.
fn everything(at: Instant) -> Memory {
    let refused = {
        let mut memory = Memory::default();
        let earlier = Now { instant: at, ..now() };
        memory.refuse(
            &source(&fixture::source("web", "DFW")),
            true,
            "too large",
            earlier,
        );
        memory.refused
    };
    Memory {
        since: Since {
            undelivered: Some(at),
            unresolved: None,
            unreported: None,
            only_true: Some(at),
            claim_mismatch: Some(at),
        },
        carrying: Some(at),
        claim_repaired: Some(at),
        status_writes: TokenBucket::empty(Rate::new(SETTINGS.status_interval), at),
        status: normalized(1, 2),
        payload: normalized(3, 4),
        refused,
        is_binding_settled: true,
        pruned: Some(at),
        pause_failed: true,
        status_refused: None,
        member: single_member::decide::Memory {
            policy: None,
            undelivered: None,
            strayed: Some(at),
            uid_at_member: None,
            unapplied: Some(at),
            last_takeover: Some(at),
            probing: Probing {
                observation: Some(Observation::Absent),
                count: 3,
            },
            stuck_work: Some("karmada-es-dfw-1/web-1".into()),
            probe_due: Some(at),
            deletion: Deletion {
                binding_id: Some("id".into()),
                refused_abandonment: None,
                is_taken_over: true,
                is_unguarded: false,
                is_alive: false,
            },
        },
    }
}

/// The observations of a reconcile with a write, regardless of the write's result.
fn learned(reason: &str, before: &Memory) -> Memory {
    let mut memory = before.clone();
    // Nothing is to be suspended.
    memory.pause_failed = false;
    if reason == "return_status" {
        // A cell reports, the claim is right, and the hub has the wanted payload.
        (
            memory.since.undelivered,
            memory.since.claim_mismatch,
            memory.refused,
        ) = (None, None, None);
    }
    if reason == "repair_claim" {
        memory.refused = None;
    }
    memory
}

/// The index before each kind of write, by the write's reason.
fn worlds() -> [(&'static str, GatewayIndex); 5] {
    let with = |deployment: Value, copy: Option<Value>, policy: &str| {
        let mut index = GatewayIndex::fixture();
        index.hub_has(TableId::CitySets, &fixture::city_set("cities-dfw", &["DFW"]));
        index.hub_has(TableId::CityPolicies, &fixture::city_policy(policy, "DFW"));
        index.shop_has(TableId::DEPLOYMENTS, &deployment);
        if let Some(copy) = copy {
            index.hub_has(TableId::DEPLOYMENTS, &copy);
        }
        index
    };
    let web = || fixture::source("web", "DFW");
    let copy = || fixture::copy("web", "DFW");
    let mut edited = web();
    edited["metadata"]["generation"] = json!(2);
    let mut elsewhere = copy();
    elsewhere["metadata"]["labels"][keys::CITY_CODE] = json!("LHR");
    let mut claimed = copy();
    claimed["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"] = json!("1");
    claimed["metadata"]["annotations"]["propagationpolicy.karmada.io/name"] = json!("another");
    let mut reported = copy();
    reported["status"] = json!({"replicas": 1});
    [
        ("create_copy", with(web(), None, "city-dfw")),
        ("update_copy", with(edited, Some(copy()), "city-dfw")),
        ("move_copy", with(web(), Some(elsewhere), "city-dfw")),
        ("repair_claim", with(web(), Some(claimed), "city-dfw")),
        ("return_status", with(web(), Some(reported), "city-dfw")),
    ]
}

/// One reconcile with a failing write: the memory afterwards, and the number of requests.
async fn failed(index: GatewayIndex, key: &Key, before: &Memory, code: u16) -> (Memory, Vec<String>) {
    let bodies = [fixture::source("web", "DFW"), fixture::copy("web", "DFW")];
    let rig = Rig::new(index, move |method, _| {
        if method == http::Method::GET {
            (200, bodies[0].clone())
        } else if code == LOST {
            (LOST, Value::Null)
        } else {
            refusal(
                code,
                if code == 409 { "Conflict" } else { "InternalError" },
                &json!({}),
            )
        }
    });
    let federator = Federator::default();
    federator.memory.put(key, before.clone());
    let end = reconcile(&federator, &rig.reconcile_once(), key).await;
    assert!(end.is_err(), "{code}: {:?}", rig.asked());
    (federator.memory.take(key), rig.asked())
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_applied_changes_what_it_stands_for() {
    tokio::time::advance(2 * LONG_AGO + RETRY_AFTER).await;
    for (reason, index) in worlds() {
        let key = index.source_key(KindId::FIRST, &shop(), "default", "web");
        let before = everything(Instant::now().checked_sub(LONG_AGO).unwrap());
        let snapshot = super::super::observe::observe(&index, &key, &shop()).unwrap();
        let at = now();
        let update = decision(&snapshot, &before, &SETTINGS, Permit::Granted, at).memory;
        assert_eq!(update.observed, learned(reason, &before), "{reason}");
        let mut expected = update.observed.clone();
        match reason {
            "create_copy" | "move_copy" => {
                (expected.since.undelivered, expected.refused) = (Some(at.instant), None);
            }
            "update_copy" => expected.refused = None,
            "repair_claim" => expected.claim_repaired = Some(at.instant),
            _ => {
                expected.since.only_true = None;
                expected
                    .status_writes
                    .take(Rate::new(SETTINGS.status_interval), at.instant);
            }
        }
        assert_eq!(update.applied, expected, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_leaves_each_field_as_it_was() {
    tokio::time::advance(2 * LONG_AGO + RETRY_AFTER).await;
    for code in [409, 500, LOST] {
        // The bodies of the rows are kept: the write is the only request.
        for (reason, index) in worlds() {
            let key = index.source_key(KindId::FIRST, &shop(), "default", "web");
            let before = everything(Instant::now().checked_sub(LONG_AGO).unwrap());
            let (after, asked) = failed(index, &key, &before, code).await;
            let request = match reason {
                "return_status" => "PATCH status",
                "create_copy" => "POST workloaddeployments",
                _ => "PATCH web",
            };
            assert_eq!(asked, [request], "{reason}");
            assert_eq!(after, learned(reason, &before), "{reason} {code}: {asked:?}");
        }
    }
}
