//! The queue: which keys it hands out, when and in which order.

use super::*;
use crate::key::{Kind, Plane};
use fedgate_api::names::ProjectKey;

fn key(project: &str, name: &str) -> Key {
    Key::new(
        Plane::Project(ProjectKey::parse(project).unwrap()),
        Kind::new("things", "x.y"),
        "ns",
        name,
    )
}

async fn names(queue: &Queue, count: usize) -> Vec<String> {
    let mut taken = Vec::new();
    for _ in 0..count {
        taken.push(queue.next().await.unwrap().key.name.to_string());
    }
    taken
}

#[tokio::test(start_paused = true)]
async fn a_key_is_queued_once_and_never_runs_twice_at_a_time() {
    let queue = Queue::new(8);
    queue.add(key("p", "a"), Priority::Fresh);
    queue.add(key("p", "a"), Priority::Fresh);
    let a = queue.next().await.unwrap().key;
    queue.add(a.clone(), Priority::Fresh);
    assert_eq!(
        queue.depth(),
        QueueDepth {
            ready: 0,
            running: 1,
            delayed: 0,
            in_backoff: 0
        }
    );
    queue.done(&a, Ok(Requeue::AwaitChange));
    assert_eq!(queue.next().await.unwrap().key, a);
    queue.done(&a, Ok(Requeue::AwaitChange));
    assert_eq!(queue.depth(), QueueDepth::default());
    assert_eq!(queue.added(), 2);
}

#[tokio::test(start_paused = true)]
async fn lanes_take_turns_and_fresh_goes_before_backlog() {
    let queue = Queue::new(8);
    for name in ["a1", "a2", "a3"] {
        queue.add(key("a", name), Priority::Backlog);
    }
    queue.add(key("b", "b1"), Priority::Backlog);
    queue.add(key("a", "a3"), Priority::Fresh);
    assert_eq!(names(&queue, 4).await, ["a3", "a1", "b1", "a2"]);
}

#[tokio::test(start_paused = true)]
async fn a_lane_with_its_share_running_leaves_the_others_their_turn() {
    let queue = Queue::new(1);
    queue.add(key("a", "a1"), Priority::Fresh);
    queue.add(key("a", "a2"), Priority::Fresh);
    queue.add(key("b", "b1"), Priority::Fresh);
    assert_eq!(names(&queue, 2).await, ["a1", "b1"]);
    assert!(
        tokio::time::timeout(Duration::from_secs(60), queue.next())
            .await
            .is_err()
    );
    queue.done(&key("a", "a1"), Ok(Requeue::AwaitChange));
    assert_eq!(names(&queue, 1).await, ["a2"]);
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_and_an_event_comes_first() {
    let queue = Queue::new(8);
    let a = key("p", "a");
    queue.add(a.clone(), Priority::Fresh);
    let mut delays = Vec::new();
    for _ in 0..12 {
        let before = Instant::now();
        let taken = queue.next().await.unwrap().key;
        delays.push(before.elapsed());
        queue.done(&taken, Err(Duration::ZERO));
    }
    assert!(
        delays[11] <= BACKOFF.max && delays[11] > delays[3] && delays[3] > delays[1],
        "{delays:?}"
    );
    assert_eq!(queue.depth().in_backoff, 1);
    queue.add(a.clone(), Priority::Fresh);
    let before = Instant::now();
    assert_eq!(queue.next().await.unwrap().key, a);
    assert_eq!(before.elapsed(), Duration::ZERO);
    queue.done(&a, Ok(Requeue::AwaitChange));
    assert!(
        tokio::time::timeout(Duration::from_secs(600), queue.next())
            .await
            .is_err(),
        "the old delay is void"
    );
}

#[tokio::test(start_paused = true)]
async fn the_earlier_of_two_delays_counts() {
    let queue = Queue::new(8);
    queue.add_after(key("p", "a"), Duration::from_secs(60));
    queue.add_after(key("p", "a"), Duration::from_secs(5));
    let before = Instant::now();
    let a = queue.next().await.unwrap().key;
    assert_eq!(before.elapsed(), Duration::from_secs(5));
    queue.done(&a, Ok(Requeue::AwaitChange));
    assert!(
        tokio::time::timeout(Duration::from_secs(600), queue.next())
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_knows_since_when_it_could_have_run() {
    let queue = Queue::new(8);
    queue.add_after(key("p", "a"), Duration::from_secs(5));
    let due = Instant::now() + Duration::from_secs(5);
    assert_eq!(queue.next().await.unwrap().since, due);
    queue.add(key("p", "b"), Priority::Fresh);
    tokio::time::advance(Duration::from_secs(3)).await;
    assert_eq!(queue.next().await.unwrap().since, due);
}

#[tokio::test]
async fn closing_ends_the_workers() {
    let queue = Queue::new(8);
    queue.close();
    assert_eq!(queue.next().await, None);
    assert_eq!(queue.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn keys_in_backoff_are_counted_by_controller_and_category_until_they_succeed() {
    let queue = Queue::new(8);
    let hub_down = Arc::new(Cause::Plane(Plane::Hub));
    let retry = Err(Duration::ZERO);
    for (name, category, cause) in [
        ("a", Category::Server, None),
        ("b", Category::CircuitOpen, Some(hub_down.clone())),
        ("c", Category::CircuitOpen, Some(hub_down.clone())),
    ] {
        queue.add(key("p", name), Priority::Fresh);
        let taken = queue.next().await.unwrap().key;
        let controller = "federator";
        queue.mark(
            &taken,
            Mark {
                controller,
                category,
                cause,
            },
        );
        let delay = queue.retry_delay(&taken, Duration::from_secs(3));
        assert_eq!(
            delay,
            Duration::from_secs(3),
            "at least as long as the server requires"
        );
        queue.done(&taken, retry);
    }
    let controller = "federator";
    let server = Mark {
        controller,
        category: Category::Server,
        cause: None,
    };
    let held = Mark {
        category: Category::CircuitOpen,
        cause: Some(hub_down.clone()),
        ..server.clone()
    };
    let backoffs = queue.backoffs();
    assert_eq!(backoffs.behind(), [(hub_down, 2)].into());
    assert_eq!(backoffs, Backoffs([(server, 1), (held, 2)].into()));
    for _ in 0..3 {
        let taken = queue.next().await.unwrap().key;
        queue.done(&taken, Ok(Requeue::AwaitChange));
    }
    assert_eq!(queue.backoffs(), Backoffs::default());
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_project_has_its_share_running_waits_with_its_priority() {
    let queue = Queue::new(1);
    let shop = ProjectKey::parse("shop").unwrap();
    let hub = |namespace: &str| Key::new(Plane::Hub, Kind::new("things", "x.y"), namespace, namespace);
    for namespace in ["ns-1", "ns-2"] {
        queue.add(hub(namespace), Priority::Backlog);
    }
    let first = queue.next().await.unwrap();
    assert!(queue.assign(&first, Some(&shop)));
    let second = queue.next().await.unwrap();
    assert!(
        !queue.assign(&second, Some(&shop)),
        "it waits in the project's lane"
    );
    queue.add(key("other", "a"), Priority::Fresh);
    queue.done(&first.key, Ok(Requeue::AwaitChange));
    assert_eq!(
        names(&queue, 2).await,
        ["a", "ns-2"],
        "what was edited comes first"
    );
}
