//! Karmada's part of a hub: defaults of policies, claims on templates, bindings. A member may have a plane: then Works
//! say what it gets, it gets that, and what it reports comes back. Of a member without one a binding says that whatever
//! is dispatched is applied.

mod actor;
mod binding;
mod claim;
mod interpreter;
mod member;
mod proxy;
mod webhook;
mod works;

pub(crate) use actor::Actor;
pub use interpreter::Interpreter;
pub(crate) use member::{Membership, Told};
pub(crate) use proxy::{Proxied, through, unreachable};
pub(crate) use webhook::complete;

use crate::{definition::Definition, plane::Plane, state::State};
use fedgate_karmada::names;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Who makes Karmada's changes, at members too.
pub const KARMADA: &str = "karmada";

/// A member cluster, as its `Cluster` object shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Vec<(String, String)>,
}

impl Cluster {
    /// A cluster with one label.
    pub fn new(name: &str, label: &str, value: &str) -> Self {
        Self {
            name: name.to_owned(),
            labels: vec![(label.to_owned(), value.to_owned())],
        }
    }
}

/// How Karmada acts.
#[derive(Debug, Clone, Default)]
pub struct KarmadaOptions {
    /// How long Karmada takes to look at what was written; zero: it does so within the write.
    pub delay: Duration,
    /// How much longer it may take, drawn for each object: then steps overtake each other, and writes meet conflicts.
    pub spread: Duration,
    /// The members from the start on. More of them, and changes, come as `Cluster` objects.
    pub clusters: Vec<Cluster>,
    /// Bindings whose template is gone stay until [`Karmada::release`].
    pub hold_bindings: bool,
    /// Karmada looks at nothing before [`Karmada::step`].
    pub on_demand: bool,
}

/// Karmada on one plane.
#[derive(Debug, Clone)]
pub struct Karmada(Plane);

impl Karmada {
    /// Brings Karmada's kinds to a plane, as far as it does not have them, and starts acting there.
    pub fn attach(plane: &Plane, options: KarmadaOptions) -> Self {
        plane.0.with(|state| {
            for kind in kinds() {
                if state.table(&kind.group, &kind.plural).is_none() {
                    state.define(kind);
                }
            }
            state.karmada = Some(Actor::new(&options, state.delays.fork()));
        });
        let karmada = Self(plane.clone());
        for cluster in options.clusters {
            karmada.join(&cluster);
        }
        karmada
    }

    /// A member joins, or has other labels now; it is ready.
    pub fn join(&self, cluster: &Cluster) {
        let labels: Value = cluster
            .labels
            .iter()
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect();
        let object = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": cluster.name, "labels": labels},
            "spec": {"syncMode": "Push"},
        });
        if self.0.create(object).is_err() {
            let labels = json!({"metadata": {"labels": labels}});
            // It is there, so the patch is valid.
            let _ = self.0.merge(CLUSTER, "", &cluster.name, labels);
        }
        self.ready(&cluster.name, true);
    }

    /// A member becomes ready, or is so no more.
    pub fn ready(&self, cluster: &str, ready: bool) {
        let status = if ready { "True" } else { "False" };
        let told = self.0.get(CLUSTER, "", cluster);
        let told = told.as_ref().map(|cluster| &cluster["status"]["conditions"]);
        let mut conditions = told.and_then(Value::as_array).cloned().unwrap_or_default();
        let had = conditions
            .iter()
            .position(|condition| condition["type"] == "Ready");
        let had = had.map(|at| conditions.remove(at));
        let same = had.filter(|condition| condition["status"] == status);
        let since = same.map(|condition| condition["lastTransitionTime"].clone());
        let since = since.unwrap_or_else(|| json!(self.0.0.with(|state| state.clock.now())));
        conditions.insert(
            0,
            json!({"type": "Ready", "status": status, "reason": "ClusterReady", "lastTransitionTime": since}),
        );
        let status = json!({"status": {"conditions": conditions}});
        // A cluster that is not there has no status.
        let _ = self.0.merge_status(CLUSTER, "", cluster, status);
    }

    /// A member that has joined has this plane, which has its kinds already: from now on there are Works for it, Karmada
    /// acts there, and the Cluster's proxy leads there.
    pub fn member(&self, cluster: &str, plane: &Plane) {
        let hub = Arc::downgrade(&self.0.0);
        plane.0.with(|state| state.become_member(hub, cluster));
        let space = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": names::work_namespace(cluster)}});
        // One that is there already will do.
        let _ = self.0.create(space);
        self.0.0.with(|state| {
            if let Some(actor) = &mut state.karmada {
                actor.members.insert(cluster.into(), plane.0.clone());
            }
        });
        self.report_kinds(cluster);
    }

    /// A member's kinds are reported, as after they have changed.
    pub fn report_kinds(&self, cluster: &str) {
        let member = self.0.0.state.lock().member(cluster);
        let Some(kinds) = member.map(|member| member.state.lock().served_kinds()) else {
            return;
        };
        let told = self.0.get(CLUSTER, "", cluster);
        let told = told.as_ref().map(|cluster| &cluster["status"]["conditions"]);
        let mut conditions = told.and_then(Value::as_array).cloned().unwrap_or_default();
        conditions.retain(|condition| condition["type"] != "CompleteAPIEnablements");
        conditions.push(json!({"type": "CompleteAPIEnablements", "status": "True", "reason": "Complete"}));
        let status = json!({"status": {"conditions": conditions, "apiEnablements": kinds}});
        // A cluster that is not there has no status.
        let _ = self.0.merge_status(CLUSTER, "", cluster, status);
    }

    /// Templates of a kind get the status that the member reports which alone has them, as a statusAggregation does that
    /// takes over one item whole.
    pub fn aggregate(&self, kind: &str) {
        self.interpret(kind, Arc::new(interpreter::TakeOver));
    }

    /// Statuses of a kind are reported and aggregated by this interpreter. Without one, members report them whole, and
    /// templates get none.
    pub fn interpret(&self, kind: &str, interpreter: Arc<dyn Interpreter>) {
        self.0.0.with(|state| {
            if let Some(actor) = &mut state.karmada {
                actor.interpreters.insert(kind.into(), interpreter);
            }
        });
    }

    /// Karmada that acts on demand looks at everything that was written, until nothing is left to look at.
    pub fn step(&self) {
        let is_idle = |state: &mut State| state.karmada.as_ref().is_none_or(Actor::is_idle);
        while !self.0.0.with(is_idle) {
            self.0.0.with_as(KARMADA, State::karmada_step);
        }
    }

    /// Whether bindings whose template is gone stay until [`Karmada::release`]. Those held so far go with `false`.
    pub fn hold_bindings(&self, hold: bool) {
        self.0.0.with(|state| state.hold_bindings(hold));
    }

    /// Lets a binding go that was held; an empty namespace is that of a `ClusterResourceBinding`.
    pub fn release(&self, namespace: &str, name: &str) {
        self.0.0.with(|state| state.release_binding(namespace, name));
    }
}

const CLUSTER: &str = "Cluster.cluster.karmada.io";

/// Karmada's kinds, with the defaults that its definitions have.
fn kinds() -> Vec<Arc<Definition>> {
    let plain = |group, version, kind, plural, namespaced, status| {
        Arc::new(Definition::plain(
            group, version, kind, plural, namespaced, status,
        ))
    };
    vec![
        policy("PropagationPolicy", "propagationpolicies", "Namespaced"),
        policy(
            "ClusterPropagationPolicy",
            "clusterpropagationpolicies",
            "Cluster",
        ),
        plain(
            "work.karmada.io",
            "v1alpha2",
            "ResourceBinding",
            "resourcebindings",
            true,
            true,
        ),
        plain(
            "work.karmada.io",
            "v1alpha2",
            "ClusterResourceBinding",
            "clusterresourcebindings",
            false,
            true,
        ),
        plain("work.karmada.io", "v1alpha1", "Work", "works", true, true),
        plain(
            "cluster.karmada.io",
            "v1alpha1",
            "Cluster",
            "clusters",
            false,
            true,
        ),
        plain(
            "config.karmada.io",
            "v1alpha1",
            "ResourceInterpreterCustomization",
            "resourceinterpretercustomizations",
            false,
            false,
        ),
    ]
}

fn policy(kind: &str, plural: &str, scope: &str) -> Arc<Definition> {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut spec = open.clone();
    spec["properties"] = json!({
        "resourceSelectors": {"type": "array", "items": open},
        "priority": {"type": "integer", "default": 0},
        "preemption": {"type": "string", "default": "Never"},
        "schedulerName": {"type": "string", "default": "default-scheduler"},
        "conflictResolution": {"type": "string", "default": "Abort"},
    });
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    Arc::new(Definition::parse(&json!({"spec": {
        "group": "policy.karmada.io", "scope": scope, "names": {"kind": kind, "plural": plural},
        "versions": [{"name": "v1alpha1", "storage": true, "schema": {"openAPIV3Schema": schema}}],
    }})))
}
