//! Permits for writes to the hub, and their times.

use super::*;
use fedgate_engine::key::{Kind, Plane};

const LIMITS: Limits = Limits {
    rate: 5,
    create_burst: 100,
    update_burst: 8,
    update_interval: Duration::from_millis(500),
};

fn project(name: &str) -> ProjectKey {
    ProjectKey::parse(name).unwrap()
}

fn key(project: &ProjectKey, n: usize) -> Key {
    let kind = Kind::new("workloaddeployments", "x.y");
    Key::new(
        Plane::Project(project.clone()),
        kind,
        "default",
        &format!("web-{n}"),
    )
}

fn start() -> Now {
    Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        instant: Instant::now(),
    }
}

fn later(now: Now, millis: u64) -> Now {
    Now {
        instant: now.instant + Duration::from_millis(millis),
        ..now
    }
}

/// Projects whose keys each want to change something all the time, for this number of milliseconds; returns the
/// admitted changes of each project, and how often a key asked.
fn run(
    limiter: &mut RateLimiter,
    from: Now,
    until: u64,
    wanting: &[(&ProjectKey, usize)],
) -> (Vec<usize>, usize) {
    let mut admitted = vec![0; wanting.len()];
    let mut looks = 0;
    let mut queue: BTreeSet<(Instant, usize, usize)> = wanting
        .iter()
        .enumerate()
        .flat_map(|(p, (_, keys))| (0..*keys).map(move |n| (from.instant, p, n)))
        .collect();
    while let Some((at, p, n)) = queue.pop_first() {
        if at >= later(from, until).instant {
            break;
        }
        looks += 1;
        let now = Now { instant: at, ..from };
        let project = wanting[p].0;
        match limiter.acquire(project, &key(project, n), Class::Update, now) {
            Permit::Granted => {
                admitted[p] += 1;
                queue.insert((at, p, n));
            }
            Permit::Wait(wait) => drop(queue.insert((at + wait, p, n))),
            Permit::Unasked => panic!(),
        }
    }
    (admitted, looks)
}

#[tokio::test]
async fn the_first_change_goes_at_once_and_the_next_of_the_object_after_the_interval() {
    let (mut limiter, now, a) = (RateLimiter::new(LIMITS), start(), project("a"));
    let mut ask = |n, at| limiter.acquire(&a, &key(&a, n), Class::Update, later(now, at));
    assert_eq!(ask(0, 0), Permit::Granted);
    assert_eq!(ask(0, 100), Permit::Wait(Duration::from_millis(400)));
    assert_eq!(ask(1, 100), Permit::Granted, "another object");
    assert_eq!(ask(0, 500), Permit::Granted);
    let created = limiter.acquire(&a, &key(&a, 2), Class::Create, later(now, 500));
    let changed = limiter.acquire(&a, &key(&a, 2), Class::Update, later(now, 501));
    assert_eq!(
        [created, changed],
        [Permit::Granted; 2],
        "what is new is no change"
    );
}

#[tokio::test]
async fn one_project_has_its_burst_and_then_the_whole_rate() {
    let (mut limiter, now, a) = (RateLimiter::new(LIMITS), start(), project("a"));
    let (admitted, looks) = run(&mut limiter, now, 60_000, &[(&a, 300)]);
    assert!(
        (300..=309).contains(&admitted[0]),
        "{admitted:?}: 8 and 5 a second"
    );
    assert!(
        looks < 3_000,
        "{looks} looks: who waits does not ask all the time"
    );
}

#[tokio::test]
async fn projects_that_want_it_share_the_rate_and_who_wants_little_waits_for_nobody() {
    let (mut limiter, now) = (RateLimiter::new(LIMITS), start());
    let (a, b, c) = (project("a"), project("b"), project("c"));
    let (admitted, _) = run(&mut limiter, now, 60_000, &[(&a, 300), (&b, 30)]);
    let second = later(now, 60_000);
    assert!(admitted.iter().all(|n| (140..=175).contains(n)), "{admitted:?}");
    for n in 0..8 {
        let granted = limiter.acquire(&c, &key(&c, n), Class::Update, second);
        assert_eq!(granted, Permit::Granted, "another project's change goes at once");
    }
    let created = limiter.acquire(&a, &key(&a, 1_000), Class::Create, second);
    assert_eq!(
        created,
        Permit::Granted,
        "and what is new does not wait for changes"
    );
}

#[tokio::test]
async fn what_one_project_leaves_the_others_have() {
    let (mut limiter, now) = (RateLimiter::new(LIMITS), start());
    let (a, b) = (project("a"), project("b"));
    run(&mut limiter, now, 20_000, &[(&a, 50), (&b, 50)]);
    // From now on only one project asks; the requests of the other soon expire.
    let (admitted, _) = run(&mut limiter, later(now, 20_000), 60_000, &[(&a, 50)]);
    assert!(admitted[0] >= 230, "{admitted:?} of 300 in a minute");
}

#[tokio::test]
async fn a_burst_of_new_objects_is_not_held_up_and_a_flood_is() {
    let (mut limiter, now) = (RateLimiter::new(LIMITS), start());
    for p in 0..50 {
        let project = project(&format!("p{p}"));
        for n in 0..100 {
            let permit = limiter.acquire(&project, &key(&project, n), Class::Create, now);
            assert_eq!(permit, Permit::Granted, "{p} {n}");
        }
    }
    let a = project("p0");
    let flood = limiter.acquire(&a, &key(&a, 100), Class::Create, now);
    assert_eq!(flood, Permit::Wait(Duration::from_millis(200)));
}

#[tokio::test]
async fn a_write_that_failed_costs_nothing() {
    let (mut limiter, now, a) = (RateLimiter::new(LIMITS), start(), project("a"));
    for _ in 0..100 {
        assert_eq!(
            limiter.acquire(&a, &key(&a, 0), Class::Update, now),
            Permit::Granted
        );
        limiter.refund(&a, &key(&a, 0), Class::Update);
    }
}

#[tokio::test]
async fn what_is_over_leaves_nothing_behind_and_zero_is_no_limit() {
    let (mut limiter, now, a) = (RateLimiter::new(LIMITS), start(), project("a"));
    run(&mut limiter, now, 1_000, &[(&a, 300)]);
    assert!(limiter.waiting() > 280);
    limiter.prune(|_| true, later(now, 1_000));
    assert!(limiter.waiting() > 280);
    limiter.prune(|_| true, later(now, 400_000));
    assert_eq!((limiter.waiting(), limiter.entry_count()), (0, 0));
    let mut limiter = RateLimiter::new(Limits { rate: 0, ..LIMITS });
    for n in 0..1_000 {
        let permit = limiter.acquire(&a, &key(&a, n), Class::Update, now);
        assert_eq!(permit, Permit::Granted);
    }
}
