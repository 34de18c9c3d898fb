//! The means of one test: namespaces of its own in projects, and the way of a deployment through all planes.

use super::{
    TestCase,
    kinds::{DEPLOYMENT, NAMESPACE},
    objects::deployment,
    plane::{brief, seconds},
    suite::{PROJECT, Suite},
};
use serde_json::{Value, json};
use std::{
    fmt::Write,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};
use tokio::sync::Mutex;

/// One test's view of the suite.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) suite: Arc<Suite>,
    /// The name of its namespaces.
    pub(crate) ns: String,
    /// The projects that have one.
    made: Arc<Mutex<Vec<String>>>,
    mark: usize,
}

impl TestCase for Case {
    async fn begin(_name: &str) -> Self {
        let suite = Suite::get().await;
        Case {
            ns: format!("t-{:08x}", RandomState::new().hash_one(0) & 0xffff_ffff),
            made: Arc::default(),
            mark: suite.gateway.log_mark(),
            suite,
        }
    }

    fn limit() -> Duration {
        seconds(240)
    }

    async fn clean_up(&self) {
        for project in self.made.lock().await.drain(..) {
            self.suite
                .project(&project)
                .delete(&NAMESPACE, "", &self.ns)
                .await;
        }
    }

    async fn dump(&self, name: &str, problem: &str, _alone: bool) -> String {
        let file = format!("failed-{}.txt", name.replace("::", "-"));
        let path = self.suite.dir.join(file);
        let mut out = format!("{problem}\n\n");
        for project in self.suite.core.list(&PROJECT, "", "").await {
            let _ = writeln!(out, "{}", brief(Some(&project)));
        }
        let _ = writeln!(out, "\n{}\n", self.suite.gateway.planes().await);
        out.push_str(&self.suite.gateway.log_since(self.mark).join("\n"));
        std::fs::write(&path, out).expect("write the dump");
        format!("see {}", path.display())
    }

    async fn abandon(&self) {
        self.clean_up().await;
    }

    async fn recover(&self) {
        self.suite.recover().await;
    }
}

impl Case {
    /// Makes the test's namespace in a project; returns its hub namespace.
    pub(crate) async fn namespace(&self, project: &str) -> String {
        let object = json!({"metadata": {"name": self.ns}});
        let plane = self.suite.project(project);
        let namespace = plane.create(&NAMESPACE, "", object).await;
        self.made.lock().await.push(project.to_owned());
        hub_namespace(&namespace)
    }

    /// Makes a deployment in the test's namespace of a project.
    pub(crate) async fn deploy(&self, project: &str, name: &str) -> Value {
        self.suite
            .project(project)
            .create(&DEPLOYMENT, &self.ns, deployment(name, "DFW"))
            .await
    }

    /// Waits until the hub has the copy.
    pub(crate) async fn copy(&self, hub_ns: &str, name: &str) -> Value {
        self.suite
            .hub
            .exists(&DEPLOYMENT, hub_ns, name, seconds(60))
            .await
    }

    /// The way of a deployment to the cell, and of its status back: nothing of it waits for another project.
    pub(crate) async fn lives(&self, project: &str, ns: &str, hub_ns: &str, name: &str) {
        self.copy(hub_ns, name).await;
        let cell = &self.suite.dfw;
        let delivered = cell.exists(&DEPLOYMENT, hub_ns, name, seconds(60)).await;
        let status = status(&delivered);
        cell.merge_status(&DEPLOYMENT, hub_ns, name, status).await;
        let plane = self.suite.project(project);
        let what = "has the cell's status";
        let back = |o: &Value| o["status"]["readyReplicas"] == 1;
        plane.sees(&DEPLOYMENT, ns, name, what, seconds(60), back).await;
    }

    /// Scales a deployment in the test's namespace of a project.
    pub(crate) async fn scale(&self, project: &str, name: &str, replicas: u32) {
        let patch = json!({"spec": {"scaleSettings": {"minReplicas": replicas}}});
        let plane = self.suite.project(project);
        plane.merge(&DEPLOYMENT, &self.ns, name, patch).await;
    }

    /// Waits until the copy has that scale.
    pub(crate) async fn copy_scaled(&self, hub_ns: &str, name: &str, replicas: u32) -> Value {
        let what = format!("has scale {replicas}");
        self.suite
            .hub
            .sees(&DEPLOYMENT, hub_ns, name, &what, seconds(60), |o| {
                o["spec"]["scaleSettings"]["minReplicas"] == replicas
            })
            .await
    }
}

/// The status of a cell that runs one instance of the deployment.
fn status(deployment: &Value) -> Value {
    let generation = &deployment["metadata"]["generation"];
    json!({
        "location": {"name": "dfw-1-a", "namespace": "default"},
        "observedGeneration": generation,
        "replicas": 1, "currentReplicas": 1, "updatedReplicas": 1, "desiredReplicas": 1, "readyReplicas": 1,
        "conditions": [{
            "type": "Available", "status": "True", "reason": "StableInstanceFound",
            "message": "StableInstanceFound", "observedGeneration": generation,
            "lastTransitionTime": "2026-05-04T10:00:00Z",
        }],
    })
}

/// The hub namespace of a project namespace.
pub(crate) fn hub_namespace(namespace: &Value) -> String {
    format!("ns-{}", uid(namespace))
}

/// An object's UID.
pub(crate) fn uid(object: &Value) -> &str {
    object["metadata"]["uid"]
        .as_str()
        .expect("a stored object has a UID")
}
