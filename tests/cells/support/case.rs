//! What one test works with: a project namespace of its own, and the planes.

use super::{
    TestCase,
    audit::{AuditLog, Entry},
    cell::CellRole,
    dump,
    kinds::{CLAIM, CONFIG_MAP, DEPLOYMENT, INSTANCE, Kind, NAMESPACE, POD, WORKLOAD},
    objects::Wish,
    plane::{Plane, brief, seconds, wait_for},
    suite::{ALPHA, BETA, Suite},
    with_cleanup,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

/// What a test awaits on planes that are busy with other tests' objects.
pub(crate) const SOON: u64 = 60;

/// One test's view of the suite.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) suite: Arc<Suite>,
    /// The project, as a tenant with every right.
    pub(crate) project: Plane,
    pub(crate) hub: Plane,
    /// The test's namespace in the project.
    pub(crate) ns: String,
    /// The test's namespace on hub and cells.
    pub(crate) hub_ns: String,
    marks: Arc<Vec<u64>>,
}

/// A text that no other test uses, of eight hex digits.
fn unique() -> String {
    format!("{:08x}", RandomState::new().hash_one(0) & 0xffff_ffff)
}

fn number(name: &str) -> &str {
    let own = name.rsplit("::").next().unwrap_or(name);
    own.split('_').next().unwrap_or("t")
}

impl TestCase for Case {
    async fn begin(name: &str) -> Self {
        let suite = Suite::get().await;
        Self::within(suite, ALPHA, number(name)).await
    }

    fn limit() -> Duration {
        // The longest, that of the runbooks, takes five and a half minutes on real Karmada.
        seconds(600)
    }

    /// Deletes the project namespace, and does not wait: the closing tests look at the end of all its objects.
    async fn clean_up(&self) {
        if !self.suite.keeps(&self.ns).await {
            self.project.delete(&NAMESPACE, "", &self.ns).await;
        }
    }

    async fn dump(&self, name: &str, problem: &str, _: bool) -> String {
        dump::write(self, name, problem).await
    }

    async fn abandon(&self) {
        let _ = self.project.try_delete(&NAMESPACE, "", &self.ns, None).await;
    }

    async fn recover(&self) {
        self.suite.recover().await;
    }
}

impl Case {
    /// The same in a namespace of the project with budgets.
    pub(crate) async fn with_budgets(&self) -> Case {
        Self::within(Arc::clone(&self.suite), BETA, "b").await
    }

    /// Sets the number of Instances that the project may have to that of the granted claims, which are those of other tests too.
    pub(crate) async fn budget_is_used_up(&self) {
        let claims = self.project.list(&CLAIM, "", "").await;
        let granted = claims.iter().filter(|claim| is_true(claim, "Granted")).count();
        self.budget(&granted.to_string()).await;
    }

    /// Runs a test in a namespace of the project with budgets. Afterwards no claim of the test is left, and the budget is 10.
    pub(crate) async fn within_budgets(&self, test: impl AsyncFnOnce(&Case)) {
        let case = self.with_budgets().await;
        let restored = async {
            case.budget("10").await;
            case.clean_up().await;
            let what = format!("the claims of {} are gone", case.ns);
            wait_for(&what, seconds(2 * SOON), || async {
                let claims = case.project.list(&CLAIM, &case.ns, "").await;
                claims.is_empty().then_some(())
            })
            .await;
        };
        with_cleanup(test(&case), restored).await;
    }

    /// Sets the number of Instances that the project may have; `none` decides nothing.
    pub(crate) async fn budget(&self, instances: &str) {
        let data = json!({"data": {"instances": instances}});
        let (plane, name) = (&self.project, "sandbox-budgets");
        if plane.get(&CONFIG_MAP, "default", name).await.is_some() {
            plane.merge(&CONFIG_MAP, "default", name, data).await;
        } else {
            let object = json!({"metadata": {"name": name}, "data": data["data"]});
            plane.create(&CONFIG_MAP, "default", object).await;
        }
    }

    async fn within(suite: Arc<Suite>, project: &str, prefix: &str) -> Case {
        let ns = format!("{prefix}-{}", unique());
        let marks = suite.logs().map(|(_, log)| log.mark()).to_vec();
        let plane = if project == BETA {
            &suite.beta
        } else {
            &suite.alpha
        };
        let namespace = plane
            .create(&NAMESPACE, "", json!({"metadata": {"name": ns}}))
            .await;
        Case {
            project: plane.clone(),
            hub: suite.hub.clone(),
            hub_ns: format!("ns-{}", uid(&namespace)),
            ns,
            marks: Arc::new(marks),
            suite,
        }
    }

    pub(crate) fn dfw(&self) -> &CellRole {
        &self.suite.dfw
    }

    // -- the tenant --------------------------------------------------------------------------------------------

    pub(crate) async fn create(&self, wish: &Wish) -> Value {
        self.project.create(&WORKLOAD, &self.ns, wish.workload()).await
    }

    /// Makes the Workload what is wished now.
    pub(crate) async fn update(&self, wish: &Wish) -> Value {
        let spec = json!({"spec": wish.workload()["spec"]});
        self.project.merge(&WORKLOAD, &self.ns, &wish.name, spec).await
    }

    pub(crate) async fn delete(&self, wish: &Wish) {
        self.project.delete(&WORKLOAD, &self.ns, &wish.name).await;
    }

    /// Suspends a deployment, or resumes it.
    pub(crate) async fn suspend(&self, deployment: &str, suspended: bool) {
        let value = suspended.then_some("true");
        let patch = json!({"metadata": {"annotations": {fedgate_api::keys::SUSPENDED: value}}});
        self.project.merge(&DEPLOYMENT, &self.ns, deployment, patch).await;
    }

    /// Creates it and waits until it runs.
    pub(crate) async fn run(&self, wish: &Wish) {
        self.create(wish).await;
        self.runs(wish).await;
    }

    /// Waits until the project has exactly the wished Instances, each Ready with the image, and the Workload counts
    /// them.
    pub(crate) async fn runs(&self, wish: &Wish) {
        let wanted: BTreeSet<String> = wish.instances().into_iter().collect();
        let mut last = String::new();
        let what = format!(
            "{} of {} has exactly {wanted:?}, Ready with {}",
            wish.name, self.ns, wish.image
        );
        let deadline = tokio::time::Instant::now() + seconds(2 * SOON);
        loop {
            let all = self.project.list(&INSTANCE, &self.ns, "").await;
            let of: Vec<&Value> = all.iter().filter(|i| wish.owns(i)).collect();
            let runs = |i: &&&Value| is_true(i, "Ready") && image(i) == wish.image;
            let ready: BTreeSet<String> = of.iter().filter(runs).map(|i| name(i).to_owned()).collect();
            let workload = self.project.get(&WORKLOAD, &self.ns, &wish.name).await;
            let counts = workload
                .as_ref()
                .is_some_and(|w| w["status"]["readyReplicas"] == wanted.len());
            if ready == wanted && of.len() == wanted.len() && counts {
                return;
            }
            if tokio::time::Instant::now() > deadline {
                for object in of.into_iter().chain(&workload) {
                    last.push_str(&brief(Some(object)));
                    last.push('\n');
                }
                panic!("waited in vain until {what}; last seen:\n{last}");
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }

    // -- what there is -----------------------------------------------------------------------------------------

    /// Everything of the kind in the test's namespace of a cell, by name.
    pub(crate) async fn at(&self, cell: &CellRole, kind: &Kind) -> Vec<Value> {
        let mut all = cell.plane.list(kind, &self.hub_ns, "").await;
        all.sort_by(|a, b| name(a).cmp(name(b)));
        all
    }

    /// Waits until an object of the test's namespace of the cell in DFW passes `test`.
    pub(crate) async fn sees(
        &self,
        kind: &Kind,
        name: &str,
        what: &str,
        test: impl Fn(&Value) -> bool,
    ) -> Value {
        let plane = &self.dfw().plane;
        plane
            .sees(kind, &self.hub_ns, name, what, seconds(SOON), test)
            .await
    }

    /// Waits until a condition of an object at the cell in DFW has this status and reason; the whole object.
    pub(crate) async fn cell_says(&self, kind: &Kind, name: &str, said: [&str; 3]) -> Value {
        let [kind_of, status, reason] = said;
        let what = format!("says {kind_of}={status} {reason}");
        self.sees(kind, name, &what, |object| says(object, said)).await
    }

    /// The same in the project.
    pub(crate) async fn project_says(&self, kind: &Kind, name: &str, said: [&str; 3]) -> Value {
        let [kind_of, status, reason] = said;
        let what = format!("says {kind_of}={status} {reason}");
        self.project
            .sees(kind, &self.ns, name, &what, seconds(SOON), |object| {
                says(object, said)
            })
            .await
    }

    /// Waits until the cell in DFW has no Instance, Pod and deployment of the test.
    pub(crate) async fn emptied(&self, cell: &CellRole) {
        wait_for(
            &format!("{} has nothing of {}", cell.name, self.hub_ns),
            seconds(2 * SOON),
            || async {
                for kind in [&POD, &INSTANCE, &DEPLOYMENT] {
                    if !self.at(cell, kind).await.is_empty() {
                        return None;
                    }
                }
                Some(())
            },
        )
        .await;
    }

    // -- requests ----------------------------------------------------------------------------------------------

    /// A moment of all logs.
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.suite.logs().map(|(_, log)| log.mark()).to_vec())
    }

    /// The test's own beginning.
    pub(crate) fn begin(&self) -> Mark {
        Mark(self.marks.to_vec())
    }

    fn of_this_test(&self, entry: &Entry) -> bool {
        let object = &entry.object_ref;
        [&self.ns, &self.hub_ns].contains(&&object.namespace)
    }

    /// What anybody asked of any plane for this test since the mark, in order of arrival, with the plane's name.
    pub(crate) fn asked(&self, mark: &Mark) -> Vec<(String, Entry)> {
        let logs = self.suite.logs();
        let mut all: Vec<(String, Entry)> = logs
            .iter()
            .zip(&mark.0)
            .flat_map(|((plane, log), from): (&(&str, &AuditLog), &u64)| {
                let entries = log.since(*from, "");
                entries
                    .into_iter()
                    .filter(|entry| self.of_this_test(entry))
                    .map(|entry| ((*plane).to_owned(), entry))
            })
            .collect();
        all.sort_by(|(_, a), (_, b)| a.request_received_timestamp.cmp(&b.request_received_timestamp));
        all
    }

    /// What this cell asked of any plane for this test since the mark.
    pub(crate) fn asked_by(&self, cell: &CellRole, mark: &Mark) -> Vec<(String, Entry)> {
        let users = cell.users();
        let mut asked = self.asked(mark);
        asked.retain(|(_, entry)| users.contains(&entry.user.username));
        asked
    }

    /// The writes among them, in words, without those that were refused for a conflict.
    pub(crate) fn writes_of(&self, cell: &CellRole, mark: &Mark) -> Vec<String> {
        let asked = self.asked_by(cell, mark);
        asked
            .iter()
            .filter(|(_, entry)| entry.is_write() && entry.response_status.code != 409)
            .map(|(plane, entry)| format!("{plane}: {} {}", entry.action(), entry.object_ref.name))
            .collect()
    }
}

/// Ends of all logs at one moment.
pub(crate) struct Mark(Vec<u64>);

impl Mark {
    /// The end of one plane's log.
    pub(crate) fn of(&self, suite: &Suite, plane: &str) -> u64 {
        let names = suite.logs().map(|(name, _)| name);
        let at = names.iter().position(|name| *name == plane);
        self.0[at.expect("the suite has this plane")]
    }
}

impl Wish {
    /// The deployment of a placement.
    pub(crate) fn deployment_name(&self, place: usize) -> String {
        let (place, city, _) = &self.places[place];
        format!("{}-{place}-{}", self.name, city.to_lowercase())
    }

    /// Names of all wished Instances.
    pub(crate) fn instances(&self) -> Vec<String> {
        let counts = self.places.iter().map(|(_, _, count)| count).enumerate();
        counts
            .flat_map(|(place, count)| {
                let deployment = self.deployment_name(place);
                (0..*count).map(move |ordinal| format!("{deployment}-{ordinal}"))
            })
            .collect()
    }

    fn owns(&self, instance: &Value) -> bool {
        label(instance, fedgate_api::keys::WORKLOAD_NAME) == Some(self.name.as_str())
    }
}

/// A condition of an object, by type.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let all = object["status"]["conditions"].as_array()?;
    all.iter().find(|condition| condition["type"] == kind)
}

/// What a condition of an object says in words.
pub(crate) fn message<'a>(object: &'a Value, kind: &str) -> &'a str {
    let said = condition(object, kind).and_then(|c| c["message"].as_str());
    said.unwrap_or_default()
}

/// Whether a condition has this type, status and reason.
pub(crate) fn says(object: &Value, [kind, status, reason]: [&str; 3]) -> bool {
    condition(object, kind).is_some_and(|c| c["status"] == status && c["reason"] == reason)
}

/// Whether a condition is True.
pub(crate) fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|c| c["status"] == "True")
}

/// A label's value.
pub(crate) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"]
        .as_str()
        .expect("a stored object has a name")
}

/// Whether a Service selects a Pod. A Service without a selector selects none.
pub(crate) fn selects(service: &Value, pod: &Value) -> bool {
    let selector = service["spec"]["selector"].as_object();
    let has = |(key, value): (&String, &Value)| pod["metadata"]["labels"][key] == *value;
    selector.is_some_and(|all| !all.is_empty() && all.iter().all(has))
}

/// An object's UID.
pub(crate) fn uid(object: &Value) -> &str {
    object["metadata"]["uid"]
        .as_str()
        .expect("a stored object has a UID")
}

/// The image that an Instance runs.
pub(crate) fn image(instance: &Value) -> &str {
    instance["spec"]["runtime"]["sandbox"]["containers"][0]["image"]
        .as_str()
        .unwrap_or_default()
}
