//! A reconcile that fails: its key in the queue, its failure in the registry, its line in the log.

use super::*;
use crate::{
    key::{Kind, Plane},
    testing::logs,
};
use serde_json::{Value, json};

/// A controller whose reconciles end as a test says; `None` panics.
struct Scripted(Mutex<Option<Result<(), Category>>>);

impl Dispatch for Scripted {
    fn controller(&self, _key: &Key) -> &'static str {
        "federator"
    }

    async fn reconcile(&self, key: &Key, _: Instant, _: &AtomicBool) -> Result<Requeue, Failure> {
        let end = *self.0.lock();
        let end = end.unwrap_or_else(|| panic!("as the test wants"));
        end.map(|()| Requeue::AwaitChange).map_err(|category| Failure {
            plane: Plane::Hub,
            verb: "apply",
            object: format!("{} ns-1/{}", key.kind, key.name),
            category,
            message: "etcdserver: timed out, Invalid value: \"secret\"".to_owned(),
            retry_after: Duration::ZERO,
        })
    }

    fn project(&self, _key: &Key) -> Option<ProjectKey> {
        ProjectKey::parse("shop").ok()
    }
}

struct Running {
    workers: Arc<Workers>,
    controllers: Arc<Scripted>,
    logged: logs::Captured,
}

impl Running {
    fn start() -> Self {
        let clock = Clock::fixed("2026-12-01T10:00:00Z".parse().unwrap());
        let queue = Arc::new(Queue::new(8));
        let workers = Workers::new(queue, Arc::default(), Metrics::new().unwrap(), clock, 4);
        let workers = Arc::new(workers);
        let controllers = Arc::new(Scripted(Mutex::new(Some(Ok(())))));
        tokio::spawn(workers.clone().run(controllers.clone()));
        Self {
            workers,
            controllers,
            logged: logs::capture(tracing::Level::DEBUG),
        }
    }

    /// Reconciles a key once, in a moment.
    async fn reconcile(&self, end: Option<Result<(), Category>>) {
        *self.controllers.0.lock() = end;
        self.workers
            .queue
            .add(key(), crate::runtime::queue::Priority::Fresh);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    /// The lines with this text since the last look.
    fn said(&self, message: &str) -> Vec<Value> {
        let mut lines = self.logged.take();
        lines.retain(|line| line["message"] == message);
        lines
    }
}

fn key() -> Key {
    let plane = Plane::Project(ProjectKey::parse("shop").unwrap());
    Key::new(plane, Kind::new("things", "x.y"), "default", "web")
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_five_times_in_ten_seconds_has_one_warn_line_and_its_success_one_info_line() {
    let running = Running::start();
    let fails = Some(Err(Category::Server));
    for _ in 0..4 {
        running.reconcile(fails).await;
    }
    let tried = running.said("trying again");
    assert_eq!((tried.len() >= 4, &tried[0]["level"]), (true, &json!("DEBUG")));
    assert_eq!(tried[0]["error"], "etcdserver: timed out, Invalid value: …");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let stuck = running.said("a key is stuck");
    assert_eq!(stuck.len(), 1, "{stuck:?}");
    let mut fields = stuck[0].as_object().unwrap().clone();
    let next = fields.remove("next").unwrap();
    assert!(next.as_str().unwrap().starts_with("2026-12-01T10:00:"), "{next}");
    assert!(fields.remove("attempts").unwrap().as_u64() >= Some(5));
    fields.retain(|name, _| name != "timestamp" && name != "target");
    assert_eq!(
        Value::Object(fields),
        json!({
            "level": "WARN", "message": "a key is stuck", "project": "shop", "namespace": "default",
            "kind": "things.x.y", "name": "web", "plane": "hub", "controller": "federator", "verb": "apply",
            "category": "server", "error": "etcdserver: timed out, Invalid value: …",
            "since": "2026-12-01T10:00:00Z", "key": "project shop things.x.y default/web",
        })
    );
    running.reconcile(Some(Ok(()))).await;
    running.reconcile(Some(Ok(()))).await;
    let settled = running.said("the key is settled again");
    assert_eq!(settled.len(), 1, "{settled:?}");
    assert_eq!(
        (&settled[0]["level"], &settled[0]["lasted"]),
        (&json!("INFO"), &json!("60 s"))
    );
    assert!(settled[0]["attempts"].as_u64() >= Some(5));
    assert_eq!(running.workers.failures().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_of_category_defect() {
    let running = Running::start();
    running.reconcile(None).await;
    assert_eq!(running.said("a controller panicked; the key is retried").len(), 1);
    let last = running.workers.failures().of(&key()).unwrap();
    assert_eq!(
        (last.category, last.verb, &*last.object),
        (Category::Defect, "reconcile", "things.x.y default/web")
    );
    running.reconcile(Some(Ok(()))).await;
    assert_eq!(running.workers.failures().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_refused_object_is_reported_once_until_it_is_accepted() {
    let running = Running::start();
    let line = "object refused; it is retried when it changes, or in 5 min";
    let mut reported = Vec::new();
    for end in [
        Err(Category::Refused),
        Err(Category::Refused),
        Ok(()),
        Err(Category::Refused),
    ] {
        running.reconcile(Some(end)).await;
        reported.push(running.said(line).len());
    }
    assert_eq!(reported, [1, 0, 0, 1]);
    let next = running.workers.failures().of(&key()).unwrap().next;
    assert_eq!(next.unwrap().to_string(), "2026-12-01T10:05:00Z");
}

/// A project with many namespaces on the hub, whose plane takes 9.9 s for each answer, and one whose plane answers at once.
struct Slow(Mutex<Option<Instant>>);

impl Dispatch for Slow {
    fn controller(&self, _key: &Key) -> &'static str {
        "projector"
    }

    async fn reconcile(&self, key: &Key, _: Instant, _: &AtomicBool) -> Result<Requeue, Failure> {
        if &*key.namespace == "ns-quick" {
            *self.0.lock() = Some(Instant::now());
        } else {
            tokio::time::sleep(Duration::from_millis(9_900)).await;
        }
        Ok(Requeue::AwaitChange)
    }

    fn project(&self, key: &Key) -> Option<ProjectKey> {
        ProjectKey::parse(if &*key.namespace == "ns-quick" {
            "quick"
        } else {
            "slow"
        })
        .ok()
    }
}

#[tokio::test(start_paused = true)]
async fn the_namespaces_of_a_slow_plane_share_what_one_project_may_hold() {
    let key = |namespace: &str| Key::new(Plane::Hub, Kind::new("instances", "x.y"), namespace, "web-0");
    let clock = Clock::fixed("2026-12-01T10:00:00Z".parse().unwrap());
    let queue = Arc::new(Queue::new(2));
    let workers = Arc::new(Workers::new(
        queue.clone(),
        Arc::default(),
        Metrics::new().unwrap(),
        clock,
        4,
    ));
    let controllers = Arc::new(Slow(Mutex::default()));
    tokio::spawn(workers.run(controllers.clone()));
    let add = |namespace: &str| queue.add(key(namespace), crate::runtime::queue::Priority::Fresh);
    let namespaces: Vec<String> = (0..200).map(|i| format!("ns-{i}")).collect();
    for namespace in &namespaces {
        add(namespace);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked = Instant::now();
    add("ns-quick");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let waited = controllers.0.lock().map(|at| at - asked).unwrap();
    assert!(waited < Duration::from_secs(1), "{waited:?}");
    assert!(queue.depth().running <= 2, "{:?}", queue.depth());
}
