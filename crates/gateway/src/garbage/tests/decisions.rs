//! Tests of decisions on snapshots: the exact effects, and no others.

use super::{
    super::brake::{Brake, Load},
    super::decide::{
        CitySetSnapshot, CopyDecision, CopySnapshot, CopyState, Decision, NamespaceSnapshot, Origin,
        city_set, copy, namespace,
    },
    HUB, KINDS, PATIENCE, RETENTION, SWEEP, UNUSED, later, now, settings,
};
use crate::index::{
    Resources, TableId,
    rows::{CitySet, HubNamespaceDigest},
};
use fedgate_api::names::CityCode;
use fedgate_engine::{
    key::Plane,
    plan::{Effect, Endpoint, Plan, Prepared, Requeue, Target, Write},
    store::table::Row,
};
use fedgate_kinds::KindId;
use std::time::Duration;
use tokio::time::Instant;

fn row<D>(digest: D) -> Row<D> {
    Row {
        uid: "u".into(),
        version: 7,
        deleting: false,
        partial: false,
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
        reason: fedgate_engine::plan::ReasonLabel::new(reason),
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
        plan: Plan::wait(Requeue::After(wait)),
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
    let counted = decision.since.is_some();
    CopyDecision {
        decision,
        counted,
        held: None,
    }
}

fn braked(decision: Decision, brake: Brake) -> CopyDecision {
    CopyDecision {
        held: Some(brake),
        ..free(decision)
    }
}

/// A copy among 100 of its project.
fn copy_with(origin: Origin) -> CopySnapshot {
    CopySnapshot {
        target: Target::namespaced(Plane::Hub, &KINDS[KindId::FIRST].resource, HUB, "web"),
        hub_complete: true,
        copy: Some(CopyState {
            uid: "u".into(),
            deleting: false,
            marked: true,
            origin,
            seen_to_go: false,
        }),
        since: None,
        confirmed: None,
        project: Load {
            orphans: 1,
            total: 100,
        },
        hub: Load {
            orphans: 1,
            total: 100,
        },
    }
}

#[tokio::test]
async fn an_orphan_waits_then_goes_by_its_uid() {
    let now = now();
    for origin in [Origin::NamespaceGone, Origin::Absent, Origin::Released] {
        let mut s = copy_with(origin);
        assert_eq!(copy(&s, &settings(), now), free(waits(now.instant, PATIENCE)));
        s.since = Some(now.instant);
        let sooner = later(now, Duration::from_secs(45));
        assert_eq!(
            copy(&s, &settings(), sooner),
            free(waits(now.instant, Duration::from_secs(15)))
        );
        let gone = delete(s.target.clone(), None, "delete_orphan");
        assert_eq!(
            copy(&s, &settings(), later(now, PATIENCE)),
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
        assert_eq!(copy(&s, &settings(), later(now, PATIENCE)), free(kept()), "{s:?}");
    };
    stays(|s| s.copy = None);
    stays(|s| s.hub_complete = false);
    stays(|s| s.copy.as_mut().unwrap().origin = Origin::There);
    stays(|s| s.copy.as_mut().unwrap().origin = Origin::Unproven);
    stays(|s| s.copy.as_mut().unwrap().marked = false);
    stays(|s| s.copy.as_mut().unwrap().deleting = true);
}

#[tokio::test]
async fn more_than_ten_and_a_tenth_of_a_projects_copies_put_its_brake_on() {
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
        s.project = Load { orphans, total };
        let expected = if holds {
            braked(waits(now.instant, SWEEP), Brake::Project)
        } else {
            free(goes(now.instant, delete(s.target.clone(), None, "delete_orphan")))
        };
        assert_eq!(copy(&s, &settings(), due), expected, "{orphans} of {total}");
    }
}

#[tokio::test]
async fn more_than_fifty_and_a_fifth_of_the_hubs_copies_put_the_brake_of_all_on() {
    let now = now();
    let mut s = copy_with(Origin::Absent);
    s.since = Some(now.instant);
    let due = later(now, PATIENCE);
    for (orphans, total, holds) in [(50, 50, false), (51, 51, true), (60, 300, false), (61, 300, true)] {
        s.hub = Load { orphans, total };
        let held = copy(&s, &settings(), due).held;
        assert_eq!(held, holds.then_some(Brake::Hub), "{orphans} of {total}");
    }
}

#[tokio::test]
async fn what_was_seen_to_go_or_is_confirmed_goes_in_any_number() {
    let now = now();
    let due = later(now, PATIENCE);
    let mut s = copy_with(Origin::Absent);
    s.since = Some(now.instant);
    s.project.orphans = 90;
    s.hub.orphans = 90;
    let goes = goes(now.instant, delete(s.target.clone(), None, "delete_orphan"));
    let goes = CopyDecision {
        counted: false,
        ..free(goes)
    };
    let held = |s: &CopySnapshot| copy(s, &settings(), due).held;
    assert_eq!(held(&s), Some(Brake::Project));
    s.copy.as_mut().unwrap().seen_to_go = true;
    assert_eq!(copy(&s, &settings(), due), goes);
    s.copy.as_mut().unwrap().seen_to_go = false;
    let seconds = |n| now.wall.checked_add(jiff::SignedDuration::from_secs(n)).unwrap();
    s.confirmed = Some(seconds(30));
    assert_eq!(copy(&s, &settings(), due), goes, "it was an orphan by then");
    s.confirmed = Some(seconds(-1));
    assert_eq!(
        held(&s),
        Some(Brake::Project),
        "an earlier confirmation is not for it"
    );
    s.confirmed = Some(seconds(61));
    assert_eq!(
        held(&s),
        Some(Brake::Project),
        "a time to come confirms nothing yet"
    );
}

fn lost_namespace() -> NamespaceSnapshot {
    NamespaceSnapshot {
        target: Target::cluster(Plane::Hub, &Resources::default()[TableId::Namespaces], HUB),
        hub_complete: true,
        row: Some(row(HubNamespaceDigest {
            cluster: None,
            namespace: None,
            skip: true,
            project_uid: Some("p1".into()),
            cities: Some("dfw".into()),
            reassign_to: None,
            garbage_confirmed: None,
            of_hub: None,
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
    assert_eq!(namespace(&s, &settings(), now), waits(now.instant, RETENTION));
    s.since = Some(now.instant);
    let due = later(now, RETENTION);
    let gone = delete(s.target.clone(), Some("7"), "collect_namespace");
    assert_eq!(namespace(&s, &settings(), due), goes(now.instant, gone));
    s.empty = false;
    assert_eq!(
        namespace(&s, &settings(), due),
        goes(now.instant, Plan::default()),
        "what is in it goes first, and its retention goes on"
    );
    let stays = |change: fn(&mut NamespaceSnapshot)| {
        let mut s = lost_namespace();
        s.since = Some(now.instant);
        change(&mut s);
        assert_eq!(namespace(&s, &settings(), due), kept(), "{s:?}");
    };
    stays(|s| s.origin_gone = false);
    stays(|s| s.hub_complete = false);
    stays(|s| s.row = None);
    stays(|s| s.row.as_mut().unwrap().deleting = true);
}

fn unused_set() -> CitySetSnapshot {
    CitySetSnapshot {
        target: Target::cluster(Plane::Hub, &Resources::default()[TableId::CitySets], "cities-dfw"),
        hub_complete: true,
        row: Some(row(CitySet {
            is_intruder: false,
            cities: Some([CityCode::parse("DFW").unwrap()].into()),
            exact: true,
        })),
        used: false,
        sent: false,
        since: None,
    }
}

#[tokio::test]
async fn a_city_set_that_nobody_carries_goes_as_seen() {
    let now = now();
    let mut s = unused_set();
    assert_eq!(city_set(&s, &settings(), now), waits(now.instant, UNUSED));
    s.since = Some(now.instant);
    let gone = delete(s.target.clone(), Some("7"), "delete_city_set");
    assert_eq!(
        city_set(&s, &settings(), later(now, UNUSED)),
        goes(now.instant, gone)
    );
}

#[tokio::test]
async fn a_city_set_that_was_sent_somewhere_stays_until_it_is_known_where_it_is() {
    let now = now();
    let s = CitySetSnapshot {
        since: Some(now.instant),
        sent: true,
        ..unused_set()
    };
    let waits = Decision {
        plan: Plan::after(settings().sweep_interval),
        since: None,
    };
    assert_eq!(city_set(&s, &settings(), later(now, UNUSED)), waits);
}

#[tokio::test]
async fn a_policy_that_is_used_or_not_of_our_shape_is_never_touched() {
    let now = now();
    let stays = |change: fn(&mut CitySetSnapshot)| {
        let mut s = unused_set();
        s.since = Some(now.instant);
        change(&mut s);
        assert_eq!(city_set(&s, &settings(), later(now, UNUSED)), kept(), "{s:?}");
    };
    stays(|s| s.used = true);
    stays(|s| s.hub_complete = false);
    stays(|s| s.row = None);
    stays(|s| s.row.as_mut().unwrap().deleting = true);
    stays(|s| s.row.as_mut().unwrap().digest.cities = None);
    stays(|s| s.row.as_mut().unwrap().digest.exact = false);
    stays(|s| s.target.name = "dfw".into());
}

#[tokio::test]
async fn an_orphan_is_due_when_its_time_is_over_and_a_confirmation_counts_from_its_first_moment() {
    let start = now();
    let mut s = copy_with(Origin::Absent);
    s.since = Some(start.instant);
    assert!(!s.is_due(&settings(), start));
    assert!(s.is_due(&settings(), later(start, PATIENCE)));
    s.copy.as_mut().unwrap().origin = Origin::There;
    assert!(!s.is_due(&settings(), later(start, PATIENCE)), "it is no orphan");
    s = copy_with(Origin::Absent);
    s.since = Some(start.instant);
    (s.project.orphans, s.hub.orphans) = (90, 90);
    let due = later(start, PATIENCE);
    assert!(copy(&s, &settings(), due).held.is_some());
    s.confirmed = Some(start.wall);
    assert_eq!(
        copy(&s, &settings(), due).held,
        None,
        "confirmed as soon as it was one"
    );
}
