//! Provider `clusterAPI`: makes the cluster of a Cluster of Cluster API a cell (contract: cluster-api.md). In this file, Cluster means the
//! kind of Cluster API, not Karmada's.

use crate::{
    context::Context,
    index::digest::lists_cell,
    reason::{Problem, Reason, WriteReason},
    report::{Report, Step},
};
use fedgate_api::{
    cell::ClusterApi,
    keys::{CELL_UID, CELLS},
};
use fedgate_engine::{
    error::{Category, Failure},
    executor::Answer,
    key::Plane as PlaneOf,
    plan::{Effect, Endpoint, ExactFields, Plan, Target, Write},
    plane::kubeconfig::Rules,
};
use fedgate_kubeconfig::from_base64;
use fedgate_operator::membership::{
    change::contains,
    plane::{Plane, kind},
};
use kube::{ResourceExt, core::DynamicObject};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The group and version of kind Cluster that the provisioner uses.
const API_VERSION: &str = "cluster.x-k8s.io/v1beta2";
/// The label of a Secret of Cluster API: the name of its Cluster.
const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
/// Each step after `InfrastructureReady`, with the condition of the Cluster that it shows.
const SHOWN: [(Step, &str); 3] = [
    (Step::ControlPlaneInitialized, "ControlPlaneInitialized"),
    (Step::ControlPlaneJoined, "ControlPlaneAvailable"),
    (Step::WorkersJoined, "WorkersAvailable"),
];

/// The Cluster of a Cell, which the provisioner creates or the Cell names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClusterOfCell<'a> {
    /// Name of the Cell.
    pub(crate) cell: &'a str,
    /// UID of the Cell.
    pub(crate) uid: &'a str,
    /// spec.provider.clusterAPI of the Cell.
    pub(crate) spec: &'a ClusterApi,
    /// True if status.cluster of the Cell is set. A missing Cluster is not created then, because it would be another cluster.
    pub(crate) is_registered: bool,
    /// True if the Cell is Ready, or every step of it was reached once.
    pub(crate) was_ready: bool,
}

/// The next action for the Cluster.
#[derive(Debug, PartialEq)]
enum Action {
    /// The Cluster has every value of the Cell, or the Cell names the Cluster.
    Use,
    /// The Cluster is created or changed by this write.
    Write(Write),
}

impl ClusterOfCell<'_> {
    fn name(&self) -> &str {
        match &*self.spec.cluster {
            "" => self.cell,
            cluster => cluster,
        }
    }

    fn title(&self) -> String {
        format!("Cluster {}/{}", self.spec.namespace, self.name())
    }

    /// Reads, creates or changes the Cluster, and reports its conditions. Returns a client of the cluster with the rights of an administrator
    /// once the first control plane runs. At a registered cluster, a write of the Cluster that fails and its conditions stop nothing.
    pub(crate) async fn provision(&self, ctx: &Context<'_>, report: &mut Report) -> Option<Plane> {
        let (found, written) = match self.ensure(ctx).await {
            Ok(found) => found,
            Err(problem) => {
                report.add(Step::InfrastructureReady, Err(problem.clone()));
                // The conditions of a Cluster that is not the Cell's say nothing.
                if matches!(problem.reason, Reason::ClusterMissing | Reason::NameTaken) {
                    for (step, _) in SHOWN {
                        report.add(step, Err(problem.clone()));
                    }
                }
                return None;
            }
        };
        let infrastructure = written.and_then(|()| self.check_infrastructure(&found));
        report.add(Step::InfrastructureReady, infrastructure);
        let mut is_initialized = self.is_registered;
        for (step, type_) in SHOWN {
            let is_true = report.add(step, self.check_condition(&found, type_));
            is_initialized |= is_true && step == Step::ControlPlaneInitialized;
        }
        if !is_initialized {
            return None;
        }
        match self.connect(ctx).await {
            Ok(plane) => Some(plane),
            Err(problem) => {
                report.add(Step::Registered, Err(problem));
                None
            }
        }
    }

    /// Makes a client of the cluster from the kubeconfig that Cluster API keeps for administrators. The cluster gets no request.
    ///
    /// # Errors
    /// If its Secret is not there or cannot be used.
    pub(crate) async fn connect(&self, ctx: &Context<'_>) -> Result<Plane, Problem> {
        let name = format!("{}-kubeconfig", self.name());
        let title = format!("Secret {}/{name}", self.spec.namespace);
        let target = Target::namespaced(PlaneOf::Home, &kind("v1", "Secret"), &self.spec.namespace, &name);
        let secret = ctx.executor.get(&target).await;
        let secret = secret.map_err(|failure| of_failure(&failure))?.ok_or_else(|| {
            let what = format!("{title} does not exist; Cluster API creates it");
            Problem::new(Reason::ClusterMissing, what)
        })?;
        let bad = |what: &str| Problem::new(Reason::ClusterApiNotReady, format!("{title} {what}"));
        // A Secret that outlived another Cluster of the name may lead anywhere.
        if secret.labels().get(CLUSTER_NAME).map(String::as_str) != Some(self.name()) {
            return Err(bad(&format!("lacks label {CLUSTER_NAME}={}", self.name())));
        }
        let text = secret.data["data"]["value"].as_str().and_then(from_base64);
        let text = text.ok_or_else(|| bad("has no key value"))?;
        let plane = Plane::of_text(&format!("cell {}", self.cell), &text, Rules::default()).await;
        plane.map_err(|error| bad(&format!("cannot be used: {}", error.message())))
    }

    /// Deletes the Cluster if it was created for the Cell. Returns what stays, if that is to be told. If `is_abandoned`, does not wait until the
    /// Cluster is gone.
    ///
    /// # Errors
    /// If the Cluster still exists, or a request failed.
    pub(crate) async fn release(
        &self,
        ctx: &Context<'_>,
        is_abandoned: bool,
    ) -> Result<Option<String>, Problem> {
        if self.spec.topology.is_none() {
            return Ok(None);
        }
        let Some(found) = self.get(ctx).await? else {
            return Ok(None);
        };
        if !self.is_own(&found) {
            return Ok(Some(format!(
                "{} was not created for the Cell, and stays",
                self.title()
            )));
        }
        match self.delete(ctx, &found).await {
            problem if is_abandoned && problem.reason != Reason::Unreachable => Ok(Some(problem.what.into())),
            problem => Err(problem),
        }
    }

    async fn delete(&self, ctx: &Context<'_>, own: &DynamicObject) -> Problem {
        let mut what = format!("{} is being deleted", self.title());
        if own.metadata.deletion_timestamp.is_some() {
            what = format!("{what}: {}", told(own, "Deleting"));
        } else {
            let uid = own.metadata.uid.clone().unwrap_or_default();
            if let Err(problem) = self.write(ctx, Write::delete(&uid)).await {
                return problem;
            }
        }
        Problem::new(Reason::Leaving, what)
    }

    /// Reads the Cluster, and creates or changes it if the Cell asks for that. Returns the Cluster as it is then, and the problem of the write.
    async fn ensure(&self, ctx: &Context<'_>) -> Result<(DynamicObject, Result<(), Problem>), Problem> {
        let missing = || self.missing("does not exist");
        let found = self.get(ctx).await?;
        let Action::Write(write) = self.action(found.as_ref())? else {
            return Ok((found.ok_or_else(missing)?, Ok(())));
        };
        if let Err(problem) = self.write(ctx, write).await {
            return match found {
                Some(found) => Ok((found, Err(problem))),
                None => Err(problem),
            };
        }
        let written = self.get(ctx).await?.ok_or_else(missing)?;
        let result = match self.action(Some(&written))? {
            Action::Use => Ok(()),
            Action::Write(_) => Err(Problem::new(
                Reason::FieldConflict,
                format!(
                    "{} has other values than spec.provider.clusterAPI right after they were written: give them as Cluster API \
                     completes them, and leave out what another program sets",
                    self.title()
                ),
            )),
        };
        Ok((written, result))
    }

    fn action(&self, found: Option<&DynamicObject>) -> Result<Action, Problem> {
        match (&self.spec.topology, found) {
            (Some(topology), None) if !self.is_registered => {
                let body = self.body(json!({}), &self.fields(topology));
                Ok(Action::Write(Write::create(body)))
            }
            (_, None) => Err(self.missing("does not exist")),
            (Some(_), Some(found)) if !self.is_own(found) => {
                let what = format!(
                    "{} lacks annotation {CELL_UID}={}, and was not created for this Cell",
                    self.title(),
                    self.mark()
                );
                Err(Problem::new(Reason::NameTaken, what))
            }
            (_, Some(found)) if found.metadata.deletion_timestamp.is_some() => {
                Err(self.missing("is being deleted"))
            }
            (Some(topology), Some(found)) => {
                let spec = self.fields(topology);
                if covers(&found.data["spec"], &spec) {
                    return Ok(Action::Use);
                }
                let body = self.body(json!({"uid": found.metadata.uid}), &spec);
                let exact = ExactFields::default();
                Ok(Action::Write(Write::Apply { body, exact }))
            }
            (None, Some(found)) => {
                let cells = found.annotations().get(CELLS);
                if cells.is_some_and(|cells| lists_cell(cells, self.cell)) {
                    return Ok(Action::Use);
                }
                Err(self.missing("does not list the Cell in annotation fedgate.dev/cells"))
            }
        }
    }

    fn body(&self, mut metadata: Value, spec: &Value) -> Value {
        metadata["name"] = json!(self.name());
        metadata["namespace"] = json!(self.spec.namespace);
        metadata["annotations"] = json!({CELL_UID: self.mark()});
        json!({"apiVersion": API_VERSION, "kind": "Cluster", "metadata": metadata, "spec": spec})
    }

    /// The fields of the Cluster that the Cell sets.
    fn fields(&self, topology: &Map<String, Value>) -> Value {
        let mut spec = json!({"topology": topology});
        if let Some(network) = &self.spec.cluster_network {
            spec["clusterNetwork"] = json!(network);
        }
        spec
    }

    fn missing(&self, what: &str) -> Problem {
        Problem::new(Reason::ClusterMissing, format!("{} {what}", self.title()))
    }

    fn check_infrastructure(&self, cluster: &DynamicObject) -> Result<(), Problem> {
        let reconciled = condition(cluster, "TopologyReconciled");
        let seen = reconciled["observedGeneration"].as_i64();
        if seen.is_some_and(|seen| Some(seen) < cluster.metadata.generation) {
            let what = format!("{}: Cluster API has not seen its last change yet", self.title());
            return Err(Problem::new(self.not_ready(), what));
        }
        // During an upgrade the condition is False for other reasons.
        if reconciled["reason"] == "ReconcileFailed" {
            return self.check_condition(cluster, "TopologyReconciled");
        }
        self.check_condition(cluster, "InfrastructureReady")
    }

    /// The reason of a condition that is not True.
    fn not_ready(&self) -> Reason {
        if self.was_ready {
            Reason::ClusterApiNotReady
        } else {
            Reason::Waiting
        }
    }

    /// Fails unless this condition of the Cluster is True.
    fn check_condition(&self, cluster: &DynamicObject, type_: &str) -> Result<(), Problem> {
        if condition(cluster, type_)["status"] == "True" {
            return Ok(());
        }
        let what = format!("{}: {}", self.title(), told(cluster, type_));
        Err(Problem::new(self.not_ready(), what))
    }

    fn mark(&self) -> String {
        format!("cell-{}", self.uid)
    }

    fn is_own(&self, cluster: &DynamicObject) -> bool {
        cluster.annotations().get(CELL_UID) == Some(&self.mark())
    }

    fn target(&self) -> Target {
        let clusters = kind(API_VERSION, "Cluster");
        Target::namespaced(PlaneOf::Home, &clusters, &self.spec.namespace, self.name())
    }

    /// The Cluster; `None` only if home says that it does not exist. A server that does not serve the kind answers 404, too.
    async fn get(&self, ctx: &Context<'_>) -> Result<Option<DynamicObject>, Problem> {
        let target = self.target();
        let found = ctx.executor.get(&target).await;
        if let Some(found) = found.map_err(|failure| of_failure(&failure))? {
            return Ok(Some(found));
        }
        let answer = ctx.executor.ask(&target).await;
        let what = match answer.map_err(|failure| of_failure(&failure))? {
            Answer::Refused(status)
                if status.code == 404 && status.details.as_ref().is_some_and(|of| of.name == target.name) =>
            {
                return Ok(None);
            }
            Answer::Refused(status) => status.message,
            Answer::Found(_) => "it has just been created".to_owned(),
        };
        let what = format!("get {} ({API_VERSION}): {what}", self.title());
        Err(Problem::new(Reason::Unreachable, what))
    }

    async fn write(&self, ctx: &Context<'_>, write: Write) -> Result<(), Problem> {
        let effect = Effect {
            target: self.target(),
            endpoint: Endpoint::Main,
            write,
            reason: WriteReason::ClusterApi.into(),
        };
        let written = ctx.execute(Plan::one(effect)).await;
        written.map(drop).map_err(|failure| of_failure(&failure))
    }
}

/// A condition of the Cluster; null if it is missing.
fn condition<'a>(cluster: &'a DynamicObject, type_: &str) -> &'a Value {
    let all = cluster.data["status"]["conditions"].as_array();
    let found = all.and_then(|all| all.iter().find(|condition| condition["type"] == type_));
    found.unwrap_or(&Value::Null)
}

/// A condition of the Cluster, for people.
fn told(cluster: &DynamicObject, type_: &str) -> String {
    let condition = condition(cluster, type_);
    let [status, reason, message] =
        ["status", "reason", "message"].map(|field| condition[field].as_str().unwrap_or_default());
    match status {
        "" => format!("{type_} is missing"),
        status => format!("{type_} is {status} ({reason}): {message}"),
    }
}

/// True if `live` has everything of `wanted`. Entries of a list that are objects may be among others, because Cluster API and other programs
/// add entries, such as variables that have a default. Entries without a name keep their order. Each value is compared once, because a
/// list may have 100,000 entries.
fn covers(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            let mut all = wanted.iter();
            all.all(|(key, wanted)| covers(live.get(key).unwrap_or(&Value::Null), wanted))
        }
        (Value::Array(live), Value::Array(wanted)) if wanted.iter().all(|one| one["name"].is_string()) => {
            let named: BTreeMap<_, _> = live.iter().map(|one| (one["name"].as_str(), one)).collect();
            let mut all = wanted.iter();
            all.all(|wanted| {
                let live = named.get(&wanted["name"].as_str());
                live.is_some_and(|live| covers(live, wanted))
            })
        }
        (Value::Array(live), Value::Array(wanted)) if wanted.iter().all(Value::is_object) => {
            let mut left = live.iter();
            wanted.iter().all(|wanted| left.any(|live| covers(live, wanted)))
        }
        // Servers leave empty values out.
        (Value::Null, wanted) => contains(&json!({}), &json!({"value": wanted})),
        (live, wanted) => contains(live, wanted),
    }
}

/// The problem of a request to home.
fn of_failure(failure: &Failure) -> Problem {
    let reason = match failure.category {
        Category::Refused => Reason::ClusterRefused,
        Category::Forbidden | Category::Unauthorized => Reason::Forbidden,
        // Another writer created or changed the object. The next run reads it.
        Category::Conflict | Category::AlreadyExists => Reason::Waiting,
        _ => Reason::Unreachable,
    };
    Problem::new(reason, failure.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(fields: &Value) -> ClusterApi {
        let mut spec = json!({"namespace": "capi"});
        for (key, value) in fields.as_object().unwrap() {
            spec[key] = value.clone();
        }
        serde_json::from_value(spec).unwrap()
    }

    fn made() -> ClusterApi {
        let topology = json!({"classRef": {"name": "edge"}, "version": "v1.36.3"});
        spec(&json!({"topology": topology, "clusterNetwork": {"serviceDomain": "x.local"}}))
    }

    fn of(spec: &ClusterApi) -> ClusterOfCell<'_> {
        ClusterOfCell {
            cell: "dfw-2",
            uid: "u-1",
            spec,
            is_registered: false,
            was_ready: false,
        }
    }

    fn cluster(fields: &Value) -> DynamicObject {
        let mut cluster = json!({"metadata": {"name": "dfw-2", "uid": "c-1", "resourceVersion": "7"}});
        for (pointer, value) in fields.as_object().unwrap() {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            cluster.pointer_mut(parent).unwrap()[key] = value.clone();
        }
        serde_json::from_value(cluster).unwrap()
    }

    fn body() -> Value {
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Cluster",
            "metadata": {"name": "dfw-2", "namespace": "capi", "annotations": {CELL_UID: "cell-u-1"}},
            "spec": {"topology": {"classRef": {"name": "edge"}, "version": "v1.36.3"}, "clusterNetwork": {"serviceDomain": "x.local"}},
        })
    }

    fn own(version: &str) -> DynamicObject {
        let topology =
            json!({"classRef": {"name": "edge"}, "version": version, "controlPlane": {"replicas": 1}});
        let spec = json!({"topology": topology, "clusterNetwork": {"serviceDomain": "x.local"}});
        cluster(&json!({"/metadata/annotations": {CELL_UID: "cell-u-1"}, "/spec": spec}))
    }

    fn reason(action: Result<Action, Problem>) -> Reason {
        action.unwrap_err().reason
    }

    #[test]
    fn an_absent_cluster_is_created_once_with_the_mark_of_the_cell() {
        let spec = made();
        let body = body();
        assert_eq!(
            of(&spec).action(None).unwrap(),
            Action::Write(Write::Create { body, strict: false })
        );
        let registered = ClusterOfCell {
            is_registered: true,
            ..of(&spec)
        };
        assert_eq!(reason(registered.action(None)), Reason::ClusterMissing);
    }

    #[test]
    fn a_cluster_of_the_cell_follows_its_topology_and_keeps_what_others_set() {
        let spec = made();
        assert_eq!(of(&spec).action(Some(&own("v1.36.3"))).unwrap(), Action::Use);
        let mut body = body();
        body["metadata"]["uid"] = json!("c-1");
        let exact = ExactFields::default();
        assert_eq!(
            of(&spec).action(Some(&own("v1.35.0"))).unwrap(),
            Action::Write(Write::Apply { body, exact })
        );
        let mut going = own("v1.35.0");
        going.metadata.deletion_timestamp =
            Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
        assert_eq!(reason(of(&spec).action(Some(&going))), Reason::ClusterMissing);
    }

    #[test]
    fn a_cluster_of_another_is_neither_changed_nor_taken_for_our_own() {
        let spec = made();
        for annotations in [json!({}), json!({CELL_UID: "cell-u-2"}), json!({CELLS: "dfw-2"})] {
            let other = cluster(&json!({"/metadata/annotations": annotations}));
            assert_eq!(reason(of(&spec).action(Some(&other))), Reason::NameTaken);
            assert!(!of(&spec).is_own(&other));
        }
    }

    #[test]
    fn a_named_cluster_is_used_only_if_it_lists_the_cell() {
        let spec = spec(&json!({"cluster": "shared"}));
        assert_eq!(of(&spec).title(), "Cluster capi/shared");
        assert_eq!(reason(of(&spec).action(None)), Reason::ClusterMissing);
        let listing = |cells: &str| cluster(&json!({"/metadata/annotations": {CELLS: cells}}));
        assert_eq!(
            of(&spec).action(Some(&listing("lhr-1, dfw-2"))).unwrap(),
            Action::Use
        );
        assert_eq!(
            reason(of(&spec).action(Some(&listing("lhr-1")))),
            Reason::ClusterMissing
        );
        assert_eq!(
            reason(of(&spec).action(Some(&cluster(&json!({}))))),
            Reason::ClusterMissing
        );
    }

    #[test]
    fn a_condition_is_shown_with_its_message() {
        let spec = made();
        let condition = |status: &str| json!({"type": "WorkersAvailable", "status": status, "reason": "NotAvailable", "message": "* a: 0 of 1"});
        let with = |status: &str| {
            cluster(
                &json!({"/status": {"conditions": [{"type": "Available", "status": "True"}, condition(status)]}}),
            )
        };
        assert_eq!(
            of(&spec).check_condition(&with("True"), "WorkersAvailable"),
            Ok(())
        );
        let waits = of(&spec)
            .check_condition(&with("False"), "WorkersAvailable")
            .unwrap_err();
        assert_eq!(waits.reason, Reason::Waiting);
        assert_eq!(
            &*waits.what,
            "Cluster capi/dfw-2: WorkersAvailable is False (NotAvailable): * a: 0 of 1"
        );
        let before = ClusterOfCell {
            was_ready: true,
            ..of(&spec)
        };
        let ended = before
            .check_condition(&with("Unknown"), "WorkersAvailable")
            .unwrap_err();
        assert_eq!(ended.reason, Reason::ClusterApiNotReady);
        let failed = json!({"type": "TopologyReconciled", "status": "False", "reason": "ReconcileFailed", "message": "no class"});
        let failed = cluster(&json!({"/status": {"conditions": [failed]}}));
        let none = of(&spec).check_infrastructure(&failed).unwrap_err();
        assert_eq!(
            &*none.what,
            "Cluster capi/dfw-2: TopologyReconciled is False (ReconcileFailed): no class"
        );
    }

    #[test]
    fn a_change_that_cluster_api_has_not_seen_is_not_reached() {
        let spec = made();
        let conditions = json!([
            {"type": "InfrastructureReady", "status": "True"},
            {"type": "TopologyReconciled", "status": "True", "observedGeneration": 3},
        ]);
        let mut seen = cluster(&json!({"/status": {"conditions": conditions}}));
        seen.metadata.generation = Some(3);
        assert_eq!(of(&spec).check_infrastructure(&seen), Ok(()));
        seen.metadata.generation = Some(4);
        assert_eq!(
            of(&spec).check_infrastructure(&seen).unwrap_err().reason,
            Reason::Waiting
        );
    }

    #[test]
    fn entries_are_found_among_those_of_others() {
        let wanted = json!({"variables": [{"name": "b", "value": 1}], "zones": ["x", "y"], "empty": {}});
        let live =
            |variables: Value, zones: Value| json!({"variables": variables, "zones": zones, "version": "v1"});
        let zones = json!(["x", "y"]);
        let both = json!([{"name": "a", "value": 2}, {"name": "b", "value": 1, "kept": true}]);
        assert!(covers(&live(both.clone(), zones.clone()), &wanted));
        assert!(!covers(&live(both, json!(["x"])), &wanted));
        assert!(!covers(
            &live(json!([{"name": "b", "value": 2}]), zones.clone()),
            &wanted
        ));
        assert!(!covers(&live(json!([{"name": "a", "value": 1}]), zones), &wanted));
        assert!(!covers(&json!({}), &wanted));
        let taints = |keys: &[&str]| json!(keys.iter().map(|key| json!({"key": key})).collect::<Vec<_>>());
        assert!(covers(&taints(&["x", "a", "b"]), &taints(&["a", "b"])));
        assert!(!covers(&taints(&["a"]), &taints(&["a", "a"])));
    }

    #[test]
    fn long_lists_in_another_order_are_compared() {
        for field in ["name", "key"] {
            let entry = |number: u32| json!({field: number.to_string()});
            let long = json!((0..60_000).map(entry).collect::<Vec<_>>());
            let turned = json!((0..60_000).rev().map(entry).collect::<Vec<_>>());
            assert!(covers(&long, &long));
            assert_eq!(covers(&long, &turned), field == "name");
        }
    }
}
