use super::*;
use crate::runtime::queue::Mark;
use crate::{
    executor::{Call, permissions::Permissions},
    key::Kind,
    plan::Target,
};
use fedgate_api::names::ProjectKey;

fn project(name: &str) -> Plane {
    Plane::Project(ProjectKey::parse(name).unwrap())
}

fn key(plane: Plane, name: &str) -> Key {
    Key::new(plane, Kind::new("things", "x.y"), "ns", name)
}

fn failure(category: Category, message: &str) -> Failure {
    Failure {
        plane: Plane::Hub,
        verb: "apply",
        object: "things.x.y ns/a".to_owned(),
        category,
        message: message.to_owned(),
        retry_after: Duration::ZERO,
    }
}

fn at(second: i64) -> Now {
    Now {
        instant: Instant::now(),
        wall: Timestamp::from_second(second).unwrap(),
    }
}

/// An attempt of the controller `federator` that is repeated in 2 s.
fn attempt<'a>(key: &'a Key, failure: &'a Failure) -> Attempt<'a> {
    Attempt {
        key,
        controller: "federator",
        failure,
        cause: None,
        next: Some(Duration::from_secs(2)),
    }
}

fn hub_down() -> Cause {
    Cause::Plane(Plane::Hub)
}

#[test]
fn a_failure_is_kept_with_all_that_is_known_of_it_until_a_reconcile_succeeds() {
    let failures = Failures::default();
    let a = key(project("p"), "a");
    failures.failed(attempt(&a, &failure(Category::Timeout, "slow")), at(10));
    failures.failed(
        attempt(&a, &failure(Category::Server, &"ü".repeat(2_000))),
        at(20),
    );
    let last = failures.of(&a).unwrap();
    assert_eq!(last.message.chars().count(), crate::message::LENGTH);
    assert_eq!(
        LastFailure {
            message: "".into(),
            ..last
        },
        LastFailure {
            controller: "federator",
            plane: Plane::Hub,
            verb: "apply",
            object: "things.x.y ns/a".into(),
            category: Category::Server,
            class: Class::Retry,
            message: "".into(),
            since: at(10).wall,
            last: at(20).wall,
            attempts: 2,
            next: Some(at(22).wall),
        },
        "another category keeps since and attempts"
    );
    assert_eq!(failures.counts(), [(("hub", Category::Server), 1)].into());
    assert_eq!((failures.count(), failures.bytes() > 1_024), (1, true));
    assert_eq!(failures.succeeded(&a, at(30)), None, "it was not reported");
    assert_eq!(
        (failures.of(&a), failures.count(), failures.bytes()),
        (None, 0, 0)
    );
}

#[test]
fn the_class_says_how_a_key_goes_on() {
    let table = [
        (Category::Server, Class::Retry),
        (Category::Defect, Class::Retry),
        (Category::Forbidden, Class::Right),
        (Category::NamespaceTerminating, Class::Wait),
        (Category::Refused, Class::Quarantine),
    ];
    for (category, class) in table {
        let (failures, a) = (Failures::default(), key(Plane::Hub, "a"));
        failures.failed(attempt(&a, &failure(category, "")), at(0));
        assert_eq!(
            failures.of(&a).map(|last| last.class),
            Some(class),
            "{category:?}"
        );
    }
}

#[test]
fn a_missing_lease_is_no_failure_and_a_standby_has_those_of_planes_alone() {
    let failures = Failures::default();
    let [a, b] = ["a", "b"].map(|name| key(project("p"), name));
    failures.failed(attempt(&a, &failure(Category::NotLeader, "")), at(0));
    assert_eq!(failures.count(), 0);
    failures.failed(attempt(&a, &failure(Category::Server, "")), at(0));
    failures.failed(attempt(&a, &failure(Category::NotLeader, "")), at(0));
    assert_eq!(
        failures.count(),
        0,
        "a replica that leads no more has no failures"
    );
    failures.failed(attempt(&b, &failure(Category::Server, "")), at(0));
    failures.plane_down(&project("p"), Category::Network, "refused", at(0));
    failures.stand_by();
    assert_eq!((failures.of(&b), failures.bytes()), (None, 0));
    let causes = failures.causes();
    assert_eq!(*causes[0].0, Cause::Plane(project("p")));
    assert_eq!((causes.len(), &*causes[0].1.message), (1, "refused"));
}

#[test]
fn keys_behind_a_plane_that_is_down_are_one_failure() {
    let failures = Failures::default();
    let first = key(project("p"), "first");
    failures.failed(attempt(&first, &failure(Category::Network, "refused")), at(0));
    assert_eq!(failures.count(), 1, "it is not known yet that the plane is down");
    let mut causes = Vec::new();
    for n in 0..5_000 {
        let key = if n == 0 {
            first.clone()
        } else {
            key(project("p"), &n.to_string())
        };
        let category = if n % 1_000 == 1 {
            Category::Network
        } else {
            Category::CircuitOpen
        };
        let failure = failure(category, "no route");
        let attempt = Attempt {
            cause: Some(hub_down()),
            ..attempt(&key, &failure)
        };
        causes.extend(failures.failed(attempt, at(5)).cause);
    }
    assert_eq!((causes.len(), failures.count()), (5_000, 1));
    assert!(
        causes.iter().all(|cause| Arc::ptr_eq(cause, &causes[0])),
        "keys share it"
    );
    assert!(failures.of(&first).is_none() && failures.counts().is_empty());
    let (cause, last) = failures.causes().remove(0);
    assert_eq!(*cause, hub_down());
    assert_eq!(
        (last.attempts, last.category),
        (5, Category::Network),
        "calls that were sent"
    );
    assert_eq!((&*last.message, last.class), ("no route", Class::Retry));
    let behind = [(cause, 5_000)].into();
    assert_eq!(failures.describe(&behind)["causes"][0]["keys"], 5_000);

    assert_eq!(failures.retain_causes(|_| false, at(6)), []);
    failures.failed(attempt(&first, &failure(Category::CircuitOpen, "late")), at(7));
    assert_eq!(
        failures.count(),
        0,
        "nothing is known of a key whose call was held back"
    );
    failures.failed(attempt(&first, &failure(Category::Server, "500")), at(9));
    let last = failures.of(&first).unwrap();
    assert_eq!((last.since, last.attempts), (at(0).wall, 2), "the row goes on");
}

#[test]
fn keys_behind_a_missing_permission_are_one_failure() {
    let failures = Failures::default();
    let resource = kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
    let (permissions, target) = (
        Permissions::default(),
        Target::namespaced(Plane::Hub, &resource, "ns", "a"),
    );
    let denied = || permissions.ended(Call::of(&target, "apply"), Some(Category::Forbidden));
    let Some(right) = [denied(), denied(), denied()][2].clone() else {
        panic!("it is denied")
    };
    let failure = Failure {
        object: "configmaps ns/a".to_owned(),
        ..failure(Category::Forbidden, "no")
    };
    assert_eq!(permissions.missing_for(&failure), Some(right.clone()));
    let other = Failure {
        verb: "create",
        ..failure.clone()
    };
    assert_eq!(permissions.missing_for(&other), None);
    for name in ["a", "b"] {
        let key = key(project("p"), name);
        let attempt = Attempt {
            cause: Some(Cause::Right(right.clone())),
            ..attempt(&key, &failure)
        };
        failures.failed(attempt, at(1));
    }
    let causes = failures.causes();
    assert_eq!(
        (failures.count(), causes[0].1.class, causes[0].1.attempts),
        (1, Class::Right, 2)
    );
    failures.stand_by();
    assert_eq!(failures.count(), 0);
}

#[test]
fn the_oldest_failures_stay_and_those_of_a_plane_go_with_it() {
    let failures = Failures::default();
    let server = failure(Category::Server, &"x".repeat(200));
    for n in 0..=KEPT {
        let plane = project(if n == 0 { "q" } else { "p" });
        failures.failed(attempt(&key(plane, &n.to_string()), &server), at(0));
    }
    assert_eq!(failures.dropped(), 1);
    assert_eq!(failures.count(), KEPT);
    assert!(failures.bytes() <= BYTES, "{}", failures.bytes());
    let last = key(project("p"), &KEPT.to_string());
    assert!(failures.of(&key(project("p"), "1")).is_some() && failures.of(&last).is_none());
    failures.failed(attempt(&last, &failure(Category::Refused, "")), at(0));
    assert!(
        failures.of(&last).is_some(),
        "another class makes the youngest that is retried give way"
    );
    assert_eq!((failures.count(), failures.dropped()), (KEPT, 2));
    failures.forget(&project("p"));
    assert_eq!(failures.counts(), [(("hub", Category::Server), 1)].into());
    assert_eq!(
        failures.describe(&BTreeMap::new())["counts"][0]["category"],
        "server"
    );
}

#[test]
fn long_messages_give_way_before_the_memory_exceeds_its_bound() {
    let failures = Failures::default();
    let long = failure(Category::Server, &"ü".repeat(2_000));
    for n in 0..KEPT {
        failures.failed(attempt(&key(project("p"), &n.to_string()), &long), at(0));
    }
    assert!(failures.bytes() <= BYTES && failures.count() < KEPT);
    assert_eq!(
        usize::try_from(failures.dropped()).unwrap() + failures.count(),
        KEPT
    );
    assert!(failures.of(&key(project("p"), "0")).is_some());
}

/// Fails `key` with `category`; true if the log reports it.
fn reports(failures: &Failures, key: &Key, category: Category) -> bool {
    let now = Now {
        instant: Instant::now(),
        ..at(0)
    };
    failures
        .failed(attempt(key, &failure(category, "no")), now)
        .stuck
        .is_some()
}

#[tokio::test(start_paused = true)]
async fn a_stuck_key_is_reported_once_after_five_attempts_in_ten_seconds() {
    let (failures, a) = (Failures::default(), key(project("p"), "a"));
    for n in 0..10 {
        assert!(
            !reports(&failures, &a, Category::Server),
            "attempt {n}, too early"
        );
    }
    tokio::time::advance(Duration::from_secs(10)).await;
    assert!(reports(&failures, &a, Category::Server));
    assert!(!reports(&failures, &a, Category::Server), "once");
    assert!(reports(&failures, &a, Category::Timeout), "another category");
    tokio::time::advance(Duration::from_mins(59)).await;
    assert!(!reports(&failures, &a, Category::Timeout));
    tokio::time::advance(Duration::from_mins(1)).await;
    assert!(reports(&failures, &a, Category::Timeout), "once an hour");
    let settled = failures.succeeded(
        &a,
        Now {
            instant: Instant::now(),
            ..at(0)
        },
    );
    let lasted = Duration::from_secs(3_610);
    assert_eq!(settled, Some(Settled { attempts: 15, lasted }));

    for _ in 0..4 {
        assert!(!reports(&failures, &a, Category::Server));
        tokio::time::advance(Duration::from_secs(5)).await;
    }
    assert!(
        reports(&failures, &a, Category::Server),
        "another row of failures"
    );
}

#[tokio::test(start_paused = true)]
async fn at_most_ten_stuck_keys_a_second_have_a_line_and_the_others_a_sum() {
    let failures = Failures::default();
    let keys: Vec<Key> = (0..25).map(|n| key(project("p"), &format!("{n:02}"))).collect();
    for _ in 0..4 {
        assert!(keys.iter().all(|key| !reports(&failures, key, Category::Server)));
    }
    tokio::time::advance(Duration::from_secs(10)).await;
    let now = || Now {
        instant: Instant::now(),
        ..at(0)
    };
    let reported = |part: &[Key]| {
        part.iter()
            .filter(|key| reports(&failures, key, Category::Server))
            .count()
    };
    assert_eq!((reported(&keys), reported(&keys)), (10, 0));
    assert_eq!(failures.more_stuck(now()), None, "not yet");
    assert_eq!(failures.succeeded(&keys[20], now()), None, "it had no line");
    assert!(failures.succeeded(&keys[0], now()).is_some());
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(failures.more_stuck(now()), Some("hub server: 15".to_owned()));
    assert_eq!(failures.more_stuck(now()), None);
}

#[tokio::test(start_paused = true)]
async fn a_plane_that_is_down_for_thirty_seconds_is_reported_once_and_its_return_too() {
    let failures = Failures::default();
    let now = || Now {
        instant: Instant::now(),
        ..at(0)
    };
    let down = || failures.plane_down(&Plane::Hub, Category::Network, "refused", now());
    down();
    tokio::time::advance(Duration::from_secs(29)).await;
    down();
    assert_eq!(failures.planes_down(|_| true, now()), []);
    assert_eq!(failures.retain_causes(|_| true, now()), []);
    tokio::time::advance(Duration::from_secs(1)).await;
    let reported = failures.planes_down(|_| true, now());
    assert_eq!((reported.len(), &*reported[0].1.message), (1, "refused"));
    assert_eq!(failures.planes_down(|_| true, now()), [], "once");
    let lasted = Duration::from_secs(30);
    let ended = failures.retain_causes(|_| false, now());
    assert_eq!(ended, [(Arc::new(hub_down()), Settled { attempts: 1, lasted })]);
    down();
    assert_eq!(failures.retain_causes(|_| false, now()), [], "a short outage");
}

#[tokio::test(start_paused = true)]
async fn keys_that_fail_for_a_minute_are_stuck_and_refused_objects_are_not() {
    let failures = Failures::default();
    let now = || Now {
        instant: Instant::now(),
        ..at(0)
    };
    for (name, category) in [
        ("a", Category::Server),
        ("b", Category::NamespaceTerminating),
        ("c", Category::Refused),
    ] {
        let key = key(project("p"), name);
        failures.failed(attempt(&key, &failure(category, "no")), now());
    }
    let held_back = failure(Category::CircuitOpen, "not asked");
    let d = key(project("p"), "d");
    let held = Attempt {
        cause: Some(hub_down()),
        ..attempt(&d, &held_back)
    };
    let cause = failures.failed(held, now()).cause;
    let mark = |category, cause| Mark {
        controller: "federator",
        category,
        cause,
    };
    let backoffs = Backoffs(
        [
            (mark(Category::Server, None), 1),
            (mark(Category::CircuitOpen, cause), 7),
        ]
        .into(),
    );
    let failing = [
        ("server", 1_usize),
        ("namespace_terminating", 1),
        ("refused", 1),
        ("held_back", 7),
    ];
    let mut expected = Gauges::default();
    for (category, count) in failing {
        expected.set(Family::KeysInBackoff, &["federator", category], count);
    }
    expected.set(Family::Failures, &[], 4_usize);
    expected.set(Family::OldestStuckKey, &[], Duration::ZERO);
    assert_eq!(failures.gauges(&backoffs, now()), expected);
    tokio::time::advance(Duration::from_secs(61)).await;
    for (category, count) in failing.into_iter().filter(|(category, _)| *category != "refused") {
        expected.set(Family::StuckKeys, &["federator", category], count);
    }
    expected.set(Family::OldestStuckKey, &[], Duration::from_secs(61));
    assert_eq!(failures.gauges(&backoffs, now()), expected);
}
