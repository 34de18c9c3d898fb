//! Those who act around a cell: Karmada brings deployments, a kubelet runs Pods, others decide claims and networks. Each
//! acts on the planes directly, on each change and a moment later.

mod claims;
mod karmada;
mod network;
mod pods;

use super::rig::wall;
use fedgate_simulator::Plane;
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle, time::Instant};

/// What players are told.
#[derive(Debug, Clone)]
pub(super) struct Script {
    /// So many Instances may have quota.
    pub(super) budget: watch::Sender<usize>,
    /// Whether Karmada brings and takes away anything.
    pub(super) delivers: watch::Sender<bool>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            budget: watch::Sender::new(usize::MAX),
            delivers: watch::Sender::new(true),
        }
    }
}

/// All of them, until aborted.
pub(super) fn all(hub: &Plane, cell: &Plane, project: &Plane, script: &Script) -> Vec<JoinHandle<()>> {
    let clock = Clock(Instant::now());
    vec![
        tokio::spawn(karmada::act(
            hub.clone(),
            cell.clone(),
            script.delivers.subscribe(),
        )),
        tokio::spawn(pods::act(cell.clone(), clock)),
        tokio::spawn(claims::act(project.clone(), script.budget.subscribe(), clock)),
        tokio::spawn(network::act(cell.clone(), clock)),
    ]
}

/// A quota system at another plane, until aborted.
pub(super) fn quota(project: &Plane, budget: usize) -> JoinHandle<()> {
    let budget = watch::Sender::new(budget).subscribe();
    tokio::spawn(claims::act(project.clone(), budget, Clock(Instant::now())))
}

/// The planes' time.
#[derive(Debug, Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn condition(self, type_: &str, status: bool, reason: &str, message: &str) -> Value {
        json!({
            "type": type_, "status": if status { "True" } else { "False" }, "reason": reason, "message": message,
            "lastTransitionTime": wall(self.0).to_string(),
        })
    }
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"][key].as_str().unwrap_or_default()
}

fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Whether a condition is True.
fn holds(object: &Value, type_: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|c| c["type"] == type_ && c["status"] == "True")
}
