//! What one test works with: a project namespace of its own and the planes.

use super::{
    TestCase,
    audit::{Entry, GATEWAY, between},
    cell::Cell,
    dump,
    gateway::RETENTION,
    kinds::{CLUSTER, CLUSTER_POLICY, CONFIG_MAP, DEPLOYMENT, EVENT, INSTANCE, Kind, NAMESPACE, SECRET},
    plane::{Plane, seconds, wait_for},
    suite::{ALPHA_KEY, Suite, rest_seconds},
};
use serde_json::{Value, json};
use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

/// One test's view of the suite.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) suite: Arc<Suite>,
    /// The project plane `alpha`, as a tenant with every right.
    pub(crate) project: Plane,
    pub(crate) hub: Plane,
    pub(crate) dfw: Cell,
    pub(crate) lhr: Cell,
    /// The test's namespace in the project.
    pub(crate) ns: String,
    /// The test's namespace on hub and cells: `HUB` of the contract.
    pub(crate) hub_ns: String,
    marks: Marks,
}

#[derive(Clone, Copy)]
struct Marks {
    hub: u64,
    alpha: u64,
}

/// A text that no other test uses, of eight hex digits.
pub(crate) fn unique() -> String {
    format!("{:08x}", RandomState::new().hash_one(0) & 0xffff_ffff)
}

/// A city code that no cell serves and no other test uses.
pub(crate) fn unique_city() -> String {
    format!("T{}", unique().to_uppercase())
}

impl TestCase for Case {
    async fn begin(name: &str) -> Self {
        let suite = Suite::get().await;
        let number = name
            .rsplit("::")
            .next()
            .unwrap_or(name)
            .split('_')
            .next()
            .unwrap_or("t");
        let ns = format!("{number}-{}", unique());
        let marks = Marks {
            hub: suite.hub_log.mark(),
            alpha: suite.alpha_log.mark(),
        };
        let namespace = suite
            .alpha
            .create(&NAMESPACE, "", json!({"metadata": {"name": ns}}))
            .await;
        let hub_ns = hub_namespace(&namespace);
        Case {
            project: suite.alpha.clone(),
            hub: suite.hub.clone(),
            dfw: Cell::new(&suite.dfw),
            lhr: Cell::new(&suite.lhr),
            suite,
            ns,
            hub_ns,
            marks,
        }
    }

    fn limit() -> Duration {
        seconds(400 + 2 * rest_seconds())
    }

    /// Deletes the project namespace, and does not wait: the closing tests look at the end of all its objects.
    async fn clean_up(&self) {
        if self.suite.keeps(&self.ns).await {
            return;
        }
        // A write-back that the test made without an owner has no cell that would take it away.
        for made in self.hub.list(&INSTANCE, &self.hub_ns, "").await {
            if made["metadata"]["ownerReferences"].is_null()
                && let Some(name) = made["metadata"]["name"].as_str()
            {
                self.hub.delete(&INSTANCE, &self.hub_ns, name).await;
            }
        }
        self.hub.delete(&CLUSTER, "", &self.unready_cell()).await;
        self.project.delete(&NAMESPACE, "", &self.ns).await;
    }

    async fn dump(&self, name: &str, problem: &str, alone: bool) -> String {
        dump::write(self, name, problem, alone).await
    }

    async fn abandon(&self) {
        let _ = self.project.try_delete(&NAMESPACE, "", &self.ns, None).await;
    }

    async fn recover(&self) {
        self.suite.recover(&self.ns).await;
    }
}

impl Case {
    /// Lets a cell join that serves a city, is not ready and never will be: what is for it goes as far as the hub.
    pub(crate) async fn join_unready(&self, city: &str) {
        self.hub.join_unready(&self.unready_cell(), city).await;
    }

    /// A city that no other test uses, and that only such a cell serves.
    pub(crate) async fn unready_city(&self) -> String {
        let city = unique_city();
        self.join_unready(&city).await;
        city
    }

    fn unready_cell(&self) -> String {
        format!("absent-{}", self.ns)
    }

    /// The same planes, seen from other namespaces.
    pub(crate) fn within(&self, (ns, hub_ns): (String, String)) -> Case {
        Case {
            ns,
            hub_ns,
            ..self.clone()
        }
    }

    /// The value of label `upstream-cluster-name` for this test's project.
    pub(crate) fn project_label() -> String {
        format!("cluster-{ALPHA_KEY}")
    }

    // -- in the project ----------------------------------------------------------------------------------------

    pub(crate) async fn create(&self, kind: &Kind, object: Value) -> Value {
        self.project.create(kind, &self.ns, object).await
    }

    pub(crate) async fn merge(&self, kind: &Kind, name: &str, patch: Value) -> Value {
        self.project.merge(kind, &self.ns, name, patch).await
    }

    pub(crate) async fn delete(&self, kind: &Kind, name: &str) {
        self.project.delete(kind, &self.ns, name).await;
    }

    /// Creates a plain deployment for the city and waits for its copy, which is returned.
    pub(crate) async fn deploy(&self, name: &str, city: &str) -> Value {
        self.create(&DEPLOYMENT, super::objects::deployment(name, city))
            .await;
        self.copy(name).await
    }

    /// Waits until the project deployment passes `test`.
    pub(crate) async fn project_sees(&self, name: &str, what: &str, test: impl Fn(&Value) -> bool) -> Value {
        self.project
            .sees(&DEPLOYMENT, &self.ns, name, what, seconds(60), test)
            .await
    }

    /// Waits until a condition of the project deployment has this status and reason.
    pub(crate) async fn condition(&self, name: &str, kind: &str, status: &str, reason: &str) -> Value {
        let what = format!("has {kind}={status} {reason}");
        let deployment = self
            .project_sees(name, &what, |object| {
                condition(object, kind).is_some_and(|c| c["status"] == status && c["reason"] == reason)
            })
            .await;
        condition(&deployment, kind)
            .cloned()
            .expect("the wait asks for it")
    }

    /// The Events about an object of the test's namespace that have this reason.
    pub(crate) async fn events(&self, name: &str, reason: &str) -> Vec<Value> {
        let mut events = self.project.list(&EVENT, &self.ns, "").await;
        events.retain(|event| event["reason"] == reason && event["regarding"]["name"] == name);
        events
    }

    /// Waits for an Event about the object.
    pub(crate) async fn event(&self, name: &str, reason: &str) -> Value {
        let what = format!("{} {name} has an Event {reason}", self.ns);
        wait_for(&what, seconds(30), || async {
            self.events(name, reason).await.into_iter().next()
        })
        .await
    }

    // -- on the hub --------------------------------------------------------------------------------------------

    /// Waits for the copy.
    pub(crate) async fn copy(&self, name: &str) -> Value {
        self.hub
            .exists(&DEPLOYMENT, &self.hub_ns, name, seconds(60))
            .await
    }

    /// Waits until the copy passes `test`.
    pub(crate) async fn copy_sees(&self, name: &str, what: &str, test: impl Fn(&Value) -> bool) -> Value {
        self.hub
            .sees(&DEPLOYMENT, &self.hub_ns, name, what, seconds(60), test)
            .await
    }

    /// Deletes the project deployment and waits until project and hub have lost it.
    pub(crate) async fn remove(&self, name: &str) {
        self.delete(&DEPLOYMENT, name).await;
        self.project.gone(&DEPLOYMENT, &self.ns, name, seconds(180)).await;
        self.hub.gone(&DEPLOYMENT, &self.hub_ns, name, seconds(30)).await;
    }

    // -- referenced data ---------------------------------------------------------------------------------------

    pub(crate) async fn config_map(&self, name: &str, data: &Value) -> Value {
        self.create(&CONFIG_MAP, json!({"metadata": {"name": name}, "data": data}))
            .await
    }

    pub(crate) async fn secret(&self, name: &str, kind: &str, data: &Value) -> Value {
        self.create(
            &SECRET,
            json!({"metadata": {"name": name}, "type": kind, "stringData": data}),
        )
        .await
    }

    // -- requests ----------------------------------------------------------------------------------------------

    fn of_this_test(&self, entry: &Entry) -> bool {
        let object = &entry.object_ref;
        object.namespace == self.ns
            || object.namespace == self.hub_ns
            || (object.resource == "namespaces" && (object.name == self.ns || object.name == self.hub_ns))
    }

    fn requests(&self, marks: Marks, user: &str) -> (Vec<Entry>, Vec<Entry>) {
        let of = |entries: Vec<Entry>| {
            entries
                .into_iter()
                .filter(|entry| self.of_this_test(entry))
                .collect()
        };
        (
            of(self.suite.alpha_log.since(marks.alpha, user)),
            of(self.suite.hub_log.since(marks.hub, user)),
        )
    }

    /// All that the gateway asked of the hub for this test, in order of arrival, refusals included.
    pub(crate) fn hub_requests(&self) -> Vec<Entry> {
        self.requests(self.marks, GATEWAY).1
    }

    /// What the gateway wrote to the hub for this test, conflicts left out, since they add their retry.
    pub(crate) fn hub_writes(&self) -> Vec<String> {
        let asked = self.hub_requests();
        let writes = asked
            .iter()
            .filter(|e| e.is_write() && e.response_status.code != 409);
        writes.map(Entry::action).collect()
    }

    /// All that the gateway asked of the project for this test.
    pub(crate) fn project_requests(&self) -> Vec<Entry> {
        self.requests(self.marks, GATEWAY).0
    }

    /// All that anyone asked of the hub for this test.
    pub(crate) fn hub_requests_of_all(&self) -> Vec<Entry> {
        self.requests(self.marks, "").1
    }

    /// Starts a count of requests.
    pub(crate) fn count(&self) -> Count {
        Count {
            marks: Marks {
                hub: self.suite.hub_log.mark(),
                alpha: self.suite.alpha_log.mark(),
            },
        }
    }

    /// The gateway's writes since the count began, as `project: …` and `hub: …`, sorted; conflicts are left out,
    /// since they add their retry.
    pub(crate) fn writes(&self, count: &Count) -> Vec<String> {
        let (project, hub) = self.requests(count.marks, GATEWAY);
        let named = |plane: &str, entries: Vec<Entry>| -> Vec<String> {
            entries
                .iter()
                .filter(|entry| entry.is_write() && entry.response_status.code != 409)
                .map(|entry| format!("{plane}: {}", entry.action()))
                .collect()
        };
        let mut all = named("project", project);
        all.extend(named("hub", hub));
        all.sort();
        all
    }

    /// The gateway's writes to one policy of a city set since the count began: it belongs to the whole hub.
    pub(crate) fn city_set_writes(&self, count: &Count, policy: &str) -> Vec<String> {
        let all = self.suite.hub_log.since(count.marks.hub, GATEWAY);
        all.iter()
            .filter(|entry| entry.is_write() && entry.response_status.code != 409)
            .filter(|entry| {
                entry.object_ref.resource == CLUSTER_POLICY.plural && entry.object_ref.name == policy
            })
            .map(Entry::action)
            .collect()
    }

    /// What the gateway has read since the count began that no write of it followed from: lists, and objects of which
    /// neither they nor their counterpart on the other plane was written later.
    pub(crate) fn idle_reads(&self, count: &Count) -> Vec<String> {
        let (project, hub) = self.requests(count.marks, GATEWAY);
        let all: Vec<&Entry> = project.iter().chain(&hub).collect();
        let followed = |read: &Entry| {
            all.iter().any(|e| {
                let (a, b) = (&e.object_ref, &read.object_ref);
                // The name of what is created may be in its body alone.
                let counterpart = a.resource == b.resource && (a.name == b.name || a.name.is_empty());
                e.is_write() && counterpart && e.request_received_timestamp > read.request_received_timestamp
            })
        };
        let reads = all.iter().filter(|e| matches!(e.verb.as_str(), "get" | "list"));
        let idle = reads.filter(|read| read.verb == "list" || !followed(read));
        idle.map(|read| format!("{} {}", read.action(), read.object_ref.name))
            .collect()
    }

    /// How often the gateway has read an object since the count began.
    pub(crate) fn gets(&self, count: &Count) -> usize {
        let (project, hub) = self.requests(count.marks, GATEWAY);
        project
            .iter()
            .chain(&hub)
            .filter(|entry| entry.verb == "get")
            .count()
    }

    /// Waits until the gateway has written nothing for this test for a while.
    pub(crate) async fn quiet(&self) {
        self.quiet_for(Duration::from_millis(2_500)).await;
    }

    /// Waits until the gateway has written nothing for this test for `time`.
    pub(crate) async fn quiet_for(&self, time: Duration) {
        let mut last = self.count();
        let mut since = tokio::time::Instant::now();
        let deadline = since + seconds(60);
        while since.elapsed() < time {
            tokio::time::sleep(Duration::from_millis(250)).await;
            let writes = self.writes(&last);
            if !writes.is_empty() {
                last = self.count();
                since = tokio::time::Instant::now();
            }
            assert!(
                since < deadline,
                "the gateway does not come to rest for {time:?}; its last writes: {writes:?}"
            );
        }
    }
}

/// A moment from which requests are counted.
pub(crate) struct Count {
    marks: Marks,
}

/// The hub namespace of a project namespace.
pub(crate) fn hub_namespace(namespace: &Value) -> String {
    format!(
        "ns-{}",
        namespace["metadata"]["uid"]
            .as_str()
            .expect("a stored namespace has a UID")
    )
}

/// A condition of an object, by type.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// A label's value.
pub(crate) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

/// An annotation's value.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

/// An object's UID.
pub(crate) fn uid(object: &Value) -> &str {
    object["metadata"]["uid"]
        .as_str()
        .expect("a stored object has a UID")
}

/// Whether the object has this finalizer.
pub(crate) fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|list| list.iter().any(|item| item == finalizer))
}

impl Case {
    /// Asserts that the gateway let the hub namespace outlive the project namespace by its retention. Both are gone.
    pub(crate) fn kept_for_its_retention(&self) {
        let (project, _) = self.requests(self.marks, "");
        let ended = project
            .iter()
            .rfind(|e| {
                e.object_ref.resource == "namespaces"
                    && e.object_ref.subresource == "finalize"
                    && e.succeeded()
            })
            .expect("the project namespace was finalized");
        let hub = self.hub_requests();
        let deleted = hub
            .iter()
            .find(|e| e.action() == "delete namespaces")
            .expect("the gateway deleted the hub namespace");
        let kept = between(ended, deleted);
        assert!(
            kept >= seconds(RETENTION),
            "the hub namespace outlived the project namespace by {kept:?} only"
        );
    }
}
