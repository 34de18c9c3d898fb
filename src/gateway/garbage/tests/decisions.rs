//! What goes from the hub, decided from snapshots: the exact effects, and that nothing else came.

use super::{
    super::decide::{
        CitySetSnapshot, CopyDecision, CopySnapshot, Decision, NamespaceSnapshot, Origin, Standing, city_set,
        copy, namespace,
    },
    HUB, KINDS, PATIENCE, RETENTION, SETTINGS, SWEEP, UNUSED, later, now,
};
use crate::{
    api::names::CityCode,
    engine::{
        key::Plane,
        plan::{Effect, Endpoint, Next, Plan, Prepared, Target, Write},
    },
    gateway::world::{
        Resources,
        digest::{CitySet, HubNamespaceDigest},
    },
    plane::table::Row,
};
use std::time::Duration;
use tokio::time::Instant;

fn row<D>(digest: D) -> Row<D> {
    Row {
        uid: "u".into(),
        version: 7,
        deleting: false,
        digest,
        body: None,
    }
}

fn delete(target: Target, version: Option<&str>, reason: &'static str) -> Plan<Prepared> {
    Plan::one(Effect {
        target,
        endpoint: Endpoint::Main,
        write: Write::Delete {
            uid: "u".into(),
            resource_version: version.map(str::to_owned),
        },
        reason,
    })
}

fn kept() -> Decision {
    Decision {
        plan: Plan::default(),
        since: None,
    }
}

fn waits(since: Instant, wait: Duration) -> Decision {
    Decision {
        plan: Plan::wait(Next::After(wait)),
        since: Some(since),
    }
}

fn goes(since: Instant, plan: Plan<Prepared>) -> Decision {
    Decision {
        plan,
        since: Some(since),
    }
}

fn free(decision: Decision) -> CopyDecision {
    CopyDecision {
        decision,
        braked: false,
    }
}

fn braked(decision: Decision) -> CopyDecision {
    CopyDecision {
        decision,
        braked: true,
    }
}

/// One copy of 100.
fn copy_with(origin: Origin) -> CopySnapshot {
    CopySnapshot {
        target: Target::namespaced(Plane::Hub, &KINDS[0].resource, HUB, "web"),
        hub_complete: true,
        copy: Some(Standing {
            uid: "u".into(),
            deleting: false,
            marked: true,
            origin,
        }),
        since: None,
        others: 0,
        total: 100,
        braked: false,
    }
}

#[tokio::test]
async fn an_orphan_waits_then_goes_by_its_uid() {
    let now = now();
    for origin in [Origin::NamespaceGone, Origin::Absent, Origin::LetGo] {
        let mut s = copy_with(origin);
        assert_eq!(copy(&s, SETTINGS, now), free(waits(now.instant, PATIENCE)));
        s.since = Some(now.instant);
        let sooner = later(now, Duration::from_secs(45));
        assert_eq!(
            copy(&s, SETTINGS, sooner),
            free(waits(now.instant, Duration::from_secs(15)))
        );
        let gone = delete(s.target.clone(), None, "delete_orphan");
        assert_eq!(
            copy(&s, SETTINGS, later(now, PATIENCE)),
            free(goes(now.instant, gone))
        );
    }
}

#[tokio::test]
async fn a_copy_that_is_not_proven_an_orphan_stays_and_its_patience_is_forgotten() {
    let now = now();
    let stays = |change: fn(&mut CopySnapshot)| {
        let mut s = copy_with(Origin::Absent);
        s.since = Some(now.instant);
        change(&mut s);
        assert_eq!(copy(&s, SETTINGS, later(now, PATIENCE)), free(kept()), "{s:?}");
    };
    stays(|s| s.copy = None);
    stays(|s| s.hub_complete = false);
    stays(|s| s.copy.as_mut().unwrap().origin = Origin::There);
    stays(|s| s.copy.as_mut().unwrap().origin = Origin::Unproven);
    stays(|s| s.copy.as_mut().unwrap().marked = false);
    stays(|s| s.copy.as_mut().unwrap().deleting = true);
}

#[tokio::test]
async fn more_than_ten_and_a_tenth_of_all_copies_put_the_brake_on() {
    let now = now();
    let mut s = copy_with(Origin::Absent);
    s.since = Some(now.instant);
    let due = later(now, PATIENCE);
    for (orphans, total, holds) in [
        (10, 10, false),
        (11, 11, true),
        (11, 109, true),
        (11, 110, false),
        (20, 200, false),
        (21, 209, true),
    ] {
        (s.others, s.total) = (orphans - 1, total);
        let expected = if holds {
            braked(waits(now.instant, SWEEP))
        } else {
            free(goes(now.instant, delete(s.target.clone(), None, "delete_orphan")))
        };
        assert_eq!(copy(&s, SETTINGS, due), expected, "{orphans} of {total}");
    }
}

#[tokio::test]
async fn the_brake_takes_hold_with_a_deletion_and_lets_go_with_any_turn() {
    let now = now();
    let mut s = copy_with(Origin::Absent);
    s.others = 50;
    assert_eq!(
        copy(&s, SETTINGS, now),
        free(waits(now.instant, PATIENCE)),
        "nothing would be deleted yet"
    );
    s.braked = true;
    assert_eq!(copy(&s, SETTINGS, now), braked(waits(now.instant, PATIENCE)));
    s.others = 9;
    assert_eq!(copy(&s, SETTINGS, now), free(waits(now.instant, PATIENCE)));
    s.copy = None;
    assert_eq!(copy(&s, SETTINGS, now), free(kept()));
    s.others = 11;
    assert_eq!(copy(&s, SETTINGS, now), braked(kept()));
}

fn lost_namespace() -> NamespaceSnapshot {
    NamespaceSnapshot {
        target: Target::cluster(Plane::Hub, &Resources::default().namespaces, HUB),
        hub_complete: true,
        row: Some(row(HubNamespaceDigest {
            cluster: None,
            namespace: None,
            skip: true,
            project_uid: Some("p1".into()),
            cities: Some("dfw".into()),
            reassign_to: None,
        })),
        origin_gone: true,
        empty: true,
        since: None,
    }
}

#[tokio::test]
async fn an_empty_namespace_without_origin_goes_as_seen_after_its_retention() {
    let now = now();
    let mut s = lost_namespace();
    assert_eq!(namespace(&s, SETTINGS, now), waits(now.instant, RETENTION));
    s.since = Some(now.instant);
    let due = later(now, RETENTION);
    let gone = delete(s.target.clone(), Some("7"), "collect_namespace");
    assert_eq!(namespace(&s, SETTINGS, due), goes(now.instant, gone));
    s.empty = false;
    assert_eq!(
        namespace(&s, SETTINGS, due),
        goes(now.instant, Plan::default()),
        "what is in it goes first, and its retention goes on"
    );
    let stays = |change: fn(&mut NamespaceSnapshot)| {
        let mut s = lost_namespace();
        s.since = Some(now.instant);
        change(&mut s);
        assert_eq!(namespace(&s, SETTINGS, due), kept(), "{s:?}");
    };
    stays(|s| s.origin_gone = false);
    stays(|s| s.hub_complete = false);
    stays(|s| s.row = None);
    stays(|s| s.row.as_mut().unwrap().deleting = true);
}

fn unused_set() -> CitySetSnapshot {
    CitySetSnapshot {
        target: Target::cluster(Plane::Hub, &Resources::default().city_sets, "cities-dfw"),
        hub_complete: true,
        row: Some(row(CitySet {
            cities: Some([CityCode::parse("DFW").unwrap()].into()),
            exact: true,
        })),
        used: false,
        since: None,
    }
}

#[tokio::test]
async fn a_city_set_that_nobody_carries_goes_as_seen() {
    let now = now();
    let mut s = unused_set();
    assert_eq!(city_set(&s, SETTINGS, now), waits(now.instant, UNUSED));
    s.since = Some(now.instant);
    let gone = delete(s.target.clone(), Some("7"), "delete_city_set");
    assert_eq!(
        city_set(&s, SETTINGS, later(now, UNUSED)),
        goes(now.instant, gone)
    );
}

#[tokio::test]
async fn a_policy_that_is_used_or_not_of_our_shape_is_never_touched() {
    let now = now();
    let stays = |change: fn(&mut CitySetSnapshot)| {
        let mut s = unused_set();
        s.since = Some(now.instant);
        change(&mut s);
        assert_eq!(city_set(&s, SETTINGS, later(now, UNUSED)), kept(), "{s:?}");
    };
    stays(|s| s.used = true);
    stays(|s| s.hub_complete = false);
    stays(|s| s.row = None);
    stays(|s| s.row.as_mut().unwrap().deleting = true);
    stays(|s| s.row.as_mut().unwrap().digest.cities = None);
    stays(|s| s.row.as_mut().unwrap().digest.exact = false);
    stays(|s| s.target.name = "dfw".into());
}
