//! Two replicas: the hand-over on SIGTERM and on a kill, and never two that write.

use crate::{
    end::wrong,
    operations::{operations_of, traced},
    ops::Op::*,
    rig::{GATEWAY, HUB, Rig, rest, simulate, user},
    scenarios::SETTLED,
};
use fedgate_operations::{
    Class, HopKind, OperationsSource, Overview, PlaneState, Replica, ReplicaRole, query::Query,
};
use fedgate_simulator::{Down, Entry, Fault, Rule, Simulator, When};
use std::time::Duration;
use tokio::time::Instant;

async fn two() -> Rig {
    let mut rig = Rig::new(1, &["p"]);
    rig.simulator
        .latency(Some(Duration::from_micros(200)..=Duration::from_millis(20)));
    rig.elected = true;
    rig.start_as(0);
    rest(Duration::from_secs(20)).await;
    rig.start_as(1);
    Create("p", "default", "web", "DFW", 1).apply(&mut rig);
    rest(SETTLED).await;
    assert_eq!(wrong(&rig), Vec::<String>::new());
    assert_eq!(writers(&rig.simulator), [user(0)]);
    rig
}

fn is_write(entry: &Entry) -> bool {
    entry.user.starts_with(GATEWAY) && entry.verb.writes() && &*entry.resource != "leases"
}

/// Who wrote, in the order in which they did; one who writes again after another did is named again.
fn writers(simulator: &Simulator) -> Vec<String> {
    let mut users: Vec<String> = simulator
        .log()
        .entries()
        .iter()
        .filter(|e| is_write(e))
        .map(|e| e.user.to_string())
        .collect();
    users.dedup();
    users
}

/// Work for whoever leads, for so many seconds; answers after which time the standby wrote first.
async fn load(rig: &mut Rig, seconds: u32) -> Duration {
    let began = Instant::now();
    let log = rig.simulator.log();
    let mut seen = log.next();
    let mut taken_over = None;
    for n in 0..seconds * 10 {
        Scale("p", "default", "web", n % 3).apply(rig);
        rest(Duration::from_millis(100)).await;
        let news = log.since(seen);
        seen = log.next();
        if taken_over.is_none() && news.iter().any(|e| is_write(e) && *e.user == *user(1)) {
            taken_over = Some(began.elapsed());
        }
    }
    taken_over.expect("the standby never took over")
}

#[test]
fn a_leader_that_is_asked_to_end_hands_over_within_two_seconds() {
    simulate(async {
        let mut rig = two().await;
        Scale("p", "default", "web", 3).apply(&mut rig);
        let asked = Instant::now();
        rig.stop_replica(0).await;
        let after = asked.elapsed() + load(&mut rig, 30).await;
        println!("handed over after {after:?}");
        assert!(after <= Duration::from_secs(2), "{after:?}");
        assert_eq!(writers(&rig.simulator), [user(0), user(1)]);
    });
}

#[test]
fn a_leader_that_is_killed_is_followed_within_fifteen_seconds() {
    simulate(async {
        let mut rig = two().await;
        Scale("p", "default", "web", 3).apply(&mut rig);
        // Dead at once: nothing of it arrives, the Lease is not given back.
        rig.kill_replica(0).await;
        let after = load(&mut rig, 40).await;
        println!("followed after {after:?}");
        assert!(after <= Duration::from_secs(16), "{after:?}");
        assert_eq!(writers(&rig.simulator), [user(0), user(1)]);
    });
}

#[test]
fn a_leader_that_cannot_reach_the_hub_writes_nowhere_when_the_other_begins() {
    for fault in [Fault::Hang, Fault::DropBefore, Fault::HangAfterApply] {
        simulate(async {
            let mut rig = two().await;
            let rule = Rule::new(When::Always, fault.clone()).plane(HUB).user(&user(0));
            let rule = rig.simulator.faults().add(rule);
            let after = load(&mut rig, 60).await;
            println!("{fault:?}: followed after {after:?}");
            rig.simulator.faults().remove(rule);
            rest(Duration::from_secs(60)).await;
            assert_eq!(writers(&rig.simulator), [user(0), user(1)], "{fault:?}");
            rest(SETTLED).await;
            assert_eq!(wrong(&rig), Vec::<String>::new());
        });
    }
}

#[test]
fn leaders_that_die_one_after_the_other_never_write_at_once() {
    simulate(async {
        let mut rig = two().await;
        let mut expected = vec![user(0)];
        for round in 0..6u32 {
            let (dies, follows) = (round % 2, 1 - round % 2);
            for n in 0..20u32 {
                Scale("p", "default", "web", n % 3).apply(&mut rig);
                rest(Duration::from_millis(37)).await;
            }
            if round % 3 == 0 {
                rig.stop_replica(dies).await;
            } else {
                rig.kill_replica(dies).await;
            }
            rig.start_as(dies);
            Scale("p", "default", "web", 3).apply(&mut rig);
            rest(Duration::from_secs(30)).await;
            expected.push(user(follows));
            assert_eq!(writers(&rig.simulator), expected, "round {round}");
        }
        rest(SETTLED).await;
        assert_eq!(wrong(&rig), Vec::<String>::new());
    });
}

/// A replica without the Lease that cannot reach the hub, and so knows no leader.
fn is_cut_off(replica: &Replica, overview: &Overview) -> bool {
    let hub = overview.hub.as_ref().unwrap();
    (replica.role, &replica.leader) == (ReplicaRole::Standby, &None)
        && (hub.state, hub.since.is_some()) == (PlaneState::Backoff, true)
}

/// Nothing can be written to a project then, so that an operator is the only one who sees why.
#[test]
fn replicas_that_cannot_reach_the_hub_say_so_and_name_no_leader() {
    for down in [Down::Refused, Down::BlackHole] {
        simulate(async move {
            let mut rig = two().await;
            let replicas = [0, 1].map(|replica| operations_of(&rig, replica));
            let leaders = replicas.each_ref().map(|replica| replica.header().replica.leader);
            let named = leaders[1].as_deref();
            assert!(
                named.is_some_and(|leader| leader.starts_with(GATEWAY)),
                "{leaders:?}"
            );
            rig.simulator.plane(HUB).unwrap().set_down(Some(down));
            rest(Duration::from_secs(1)).await;
            Scale("p", "default", "web", 2).apply(&mut rig);
            rest(Duration::from_mins(2)).await;
            for replica in &replicas {
                let (header, overview) = (replica.header(), replica.overview());
                assert!(is_cut_off(&header.replica, &overview), "{header:?} {overview:?}");
                let reason = &overview.health.reasons[0];
                assert_eq!(
                    (reason.class, reason.plane.as_str()),
                    (Class::Plane, "hub"),
                    "{down:?}"
                );
                let stuck = replica.stuck(&Query::default()).items;
                let classes: Vec<_> = stuck.iter().map(|group| group.class).collect();
                assert_eq!(classes, [Class::Plane, Class::Undelivered], "{stuck:#?}");
                let message = &stuck[1].items[0].message;
                assert!(
                    message.starts_with("HubUnreachable: the hub has not answered since "),
                    "{message}"
                );
                let trace = traced(replica, "workloaddeployments", "web").unwrap();
                let hops = &trace.branches[0].hops;
                let hub = hops.iter().find(|hop| hop.hop == HopKind::Hub).unwrap();
                assert_eq!(hub.word, "HubUnreachable", "{hub:?}");
            }
            rig.simulator.plane(HUB).unwrap().set_down(None);
            rest(SETTLED).await;
            assert_eq!(wrong(&rig), Vec::<String>::new());
            let roles = replicas.each_ref().map(|replica| replica.header().replica.role);
            let leads = |role: &&ReplicaRole| **role == ReplicaRole::Leader;
            assert_eq!(roles.iter().filter(leads).count(), 1, "{roles:?}");
        });
    }
}

#[test]
fn a_standby_that_alone_cannot_reach_the_hub_names_no_leader_until_it_can() {
    simulate(async {
        let rig = two().await;
        let standby = operations_of(&rig, 1);
        let rule = Rule::new(When::Always, Fault::DropBefore)
            .plane(HUB)
            .user(&user(1));
        let rule = rig.simulator.faults().add(rule);
        rig.simulator.plane(HUB).unwrap().close_watches(None);
        rest(Duration::from_secs(60)).await;
        let (header, overview) = (standby.header(), standby.overview());
        assert!(is_cut_off(&header.replica, &overview), "{header:?} {overview:?}");
        assert_eq!(operations_of(&rig, 0).header().replica.role, ReplicaRole::Leader);
        rig.simulator.faults().remove(rule);
        rest(SETTLED).await;
        let replica = standby.header().replica;
        let named = replica.leader.as_deref();
        assert!(
            named.is_some_and(|leader| leader.starts_with(GATEWAY)),
            "{replica:?}"
        );
    });
}
