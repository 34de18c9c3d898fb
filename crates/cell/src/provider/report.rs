//! Derives the conditions Available and Programmed of an Instance from its Pod (contract: cell.md §9).

use crate::conditions::{UNPLACED, Verdict};
use fedgate_api::{
    ConditionStatus::{self, False, True, Unknown},
    Reason,
};
use fedgate_engine::{message::clean, object::entries};
use serde_json::Value;

/// Reason why the provider cannot write an object of an Instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// The cell refuses the object, or another owner holds its name, as this message says.
    Refused(String),
    /// The request for a Service or `NetworkPolicy` has failed and is retried.
    Delayed,
}

/// The conditions to write; `None` leaves a condition unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Condition Available.
    pub available: Option<Verdict>,
    /// Condition Programmed.
    pub programmed: Option<Verdict>,
}

impl Report {
    fn both(status: ConditionStatus, reason: Reason, message: impl Into<String>) -> Self {
        let said = Verdict::of(status, reason, message);
        Self {
            available: Some(said.clone()),
            programmed: Some(said),
        }
    }

    fn available(mut self, status: ConditionStatus, reason: Reason, message: impl Into<String>) -> Self {
        self.available = Some(Verdict::of(status, reason, message));
        self
    }

    fn programmed(mut self, status: ConditionStatus, reason: Reason, message: impl Into<String>) -> Self {
        self.programmed = Some(Verdict::of(status, reason, message));
        self
    }

    /// True if the Instance's current template has been applied.
    pub fn is_applied(&self) -> bool {
        self.programmed.as_ref().is_some_and(|said| said.status == True)
    }

    /// The Instance is being deleted.
    pub fn stopping() -> Self {
        Self::both(False, Reason::Stopping, "Instance is being deleted")
    }

    /// The Instance is suspended.
    pub fn suspended() -> Self {
        Self::both(False, Reason::Suspended, "Instance is suspended")
    }

    /// The node does not confirm the end of the Pod. Programmed stays unchanged.
    pub fn lost() -> Self {
        let message = "nothing confirms that the Pod has stopped, its node may be lost; the cell's operator removes the \
                       Node, or taints it node.kubernetes.io/out-of-service once the machine is off";
        Self::default().available(Unknown, Reason::NodeLost, message)
    }

    /// The Pod's state is unchanged, but its Service or `NetworkPolicy` is missing for this reason.
    #[must_use]
    pub fn without(self, why: &Obstacle) -> Self {
        let fails = self.programmed.as_ref().is_some_and(|said| said.status == False);
        if fails {
            return self;
        }
        match why {
            Obstacle::Refused(why) => self.programmed(False, Reason::ConfigurationError, why),
            Obstacle::Delayed => {
                let message = "the Service or NetworkPolicy of the Instance cannot be written now; the cell tries again";
                self.programmed(Unknown, Reason::ProgrammingInProgress, message)
            }
        }
    }

    /// The Instance cannot run at this cell.
    pub fn unfit(why: &impl ToString) -> Self {
        Self::both(False, Reason::ConfigurationError, why.to_string())
    }
}

const IMAGE: [&str; 5] = [
    "ImagePullBackOff",
    "ErrImagePull",
    "ImageInspectError",
    "InvalidImageName",
    "RegistryUnavailable",
];
const CONFIGURATION: [&str; 4] = [
    "CreateContainerError",
    "CreateContainerConfigError",
    "RunContainerError",
    "PostStartHookError",
];

/// Derives the report from the Pod; `None` for a Pod that is not created yet. `attempts` is the number of replacements.
pub fn report(pod: Option<&Value>, attempts: u32) -> Report {
    let Some(pod) = pod else {
        // Between two Pods of a crashing Instance there is no new state.
        return if attempts > 0 {
            Report::default()
        } else {
            starting()
        };
    };
    if is_ready(pod) {
        return Report::default()
            .available(True, Reason::Available, "Instance is available")
            .programmed(True, Reason::Programmed, "Instance has been programmed");
    }
    if let Some(waiting) = waiting(pod) {
        return waiting;
    }
    let message = || {
        pod["status"]["message"]
            .as_str()
            .unwrap_or("the Pod has failed")
            .to_owned()
    };
    match pod["status"]["phase"].as_str() {
        Some("Failed") => match exited(pod) {
            Some((name, code)) => crashing(name, code, u64::from(attempts)),
            None => Report::both(False, Reason::Failed, message()),
        },
        Some("Succeeded") => Report::default().available(False, Reason::Stopped, "Instance has ended"),
        Some("Running") => match exited(pod) {
            Some((name, code)) if attempts > 0 => crashing(name, code, u64::from(attempts)),
            _ => Report::default()
                .available(False, Reason::Starting, describe_unready_pod(pod))
                .programmed(True, Reason::Programmed, "Instance has been programmed"),
        },
        Some("Unknown") => Report::default().available(
            Unknown,
            Reason::Unknown,
            "nothing is heard of the Instance's node",
        ),
        _ => match pod["status"]["unscheduled"].as_str() {
            Some(words) => unplaced(words),
            None => starting(),
        },
    }
}

/// No node takes the Pod. The scheduler's words count nodes and name what they lack; taints, which may name other tenants,
/// are left out.
fn unplaced(words: &str) -> Report {
    let (words, _) = words.split_once(" preemption: ").unwrap_or((words, ""));
    let mut rest = words;
    let mut shown = String::new();
    while let Some((before, taint)) = rest.split_once('{') {
        shown.push_str(before.trim_end());
        rest = taint.split_once('}').map_or("", |(_, after)| after);
    }
    shown.push_str(rest);
    let message = format!("{UNPLACED}: {}", clean(&shown));
    Report::both(Unknown, Reason::Provisioning, &*message).programmed(
        Unknown,
        Reason::ProgrammingInProgress,
        message,
    )
}

/// Names the first container whose startup or readiness probe does not succeed.
fn describe_unready_pod(pod: &Value) -> String {
    let probe = |container: &Value| {
        let name = container["name"].as_str()?;
        let mut all = entries(&pod["spec"]["containers"]).iter();
        let of = all.find(|of| of["name"] == name)?;
        let (field, asked) = if container["started"] == false && of["startup"].is_string() {
            ("startupProbe", of["startup"].as_str()?)
        } else if container["ready"] == false {
            ("readinessProbe", of["readiness"].as_str()?)
        } else {
            return None;
        };
        Some(format!(
            "the {field} of container {name} does not succeed: {asked}"
        ))
    };
    containers(pod)
        .find_map(probe)
        .unwrap_or_else(|| "Instance is starting".to_owned())
}

fn starting() -> Report {
    Report::default()
        .available(Unknown, Reason::Provisioning, "Instance is being provisioned")
        .programmed(
            Unknown,
            Reason::ProgrammingInProgress,
            "Instance is being programmed",
        )
}

/// Whether the Pod's condition Ready is True.
pub fn is_ready(pod: &Value) -> bool {
    let mut conditions = entries(&pod["status"]["conditions"]).iter();
    conditions.any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Statuses of a Pod's containers.
pub(super) fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    entries(&pod["status"]["containerStatuses"]).iter()
}

/// Report for the first container that waits with a known reason. The runtime's message names nodes and registries, so
/// it is only logged.
fn waiting(pod: &Value) -> Option<Report> {
    containers(pod).find_map(|container| {
        let name = container["name"].as_str().unwrap_or_default();
        let reason = container["state"]["waiting"]["reason"].as_str()?;
        if IMAGE.contains(&reason) {
            let image = image(pod, name);
            let message = format!(
                "image {image} of container {name} cannot be had; correct its name or make it available"
            );
            return Some(Report::both(False, Reason::ImageUnavailable, message));
        }
        if CONFIGURATION.contains(&reason) {
            let words = container["state"]["waiting"]["message"].as_str();
            return Some(unmade(name, words.unwrap_or_default()));
        }
        if let Some(words) = container["lastState"]["terminated"]["unstarted"].as_str() {
            return Some(unmade(name, words));
        }
        (reason == "CrashLoopBackOff").then(|| {
            let code = container["lastState"]["terminated"]["exitCode"].as_i64();
            crashing(name, code, container["restartCount"].as_u64().unwrap_or_default())
        })
    })
}

/// A container cannot be made or started.
fn unmade(container: &str, words: &str) -> Report {
    let message = match cause(words) {
        Some(cause) => format!("container {container} cannot be made: {}", clean(&cause)),
        None => format!(
            "container {container} cannot be made; check its command, environment, mounts and the user that its image runs as"
        ),
    };
    Report::both(False, Reason::ConfigurationError, message)
}

/// Why a kernel does not execute a command, as runtimes say it.
const UNEXECUTABLE: [&str; 4] = [
    "executable file not found in $PATH",
    "no such file or directory",
    "permission denied",
    "exec format error",
];

/// The part of a runtime's words that concerns the template alone; `None` for words that may name nodes and paths of the cell.
fn cause(words: &str) -> Option<String> {
    if let Some(place) = words.strip_prefix("couldn't find key ") {
        // The namespace is the hub's.
        let (before, name) = place.rsplit_once('/')?;
        let (before, _) = before.rsplit_once(' ')?;
        return Some(format!("couldn't find key {before} {name}"));
    }
    if words.ends_with(" not found") && (words.starts_with("secret \"") || words.starts_with("configmap \""))
    {
        return Some(words.to_owned());
    }
    if words.starts_with("container has runAsNonRoot") {
        return Some(words.split(" (pod: ").next()?.to_owned());
    }
    // The command stays out: no answer of the operations API may show it.
    let (_, command) = words.split_once("exec: \"")?;
    let why = UNEXECUTABLE.into_iter().find(|why| command.contains(why))?;
    Some(format!("its command cannot be executed: {why}"))
}

/// Name, reason and runtime message of each container that cannot start.
pub fn raw(pod: &Value) -> impl Iterator<Item = (&str, &str, &str)> {
    containers(pod).filter_map(|container| {
        let waiting = &container["state"]["waiting"];
        let reason = waiting["reason"].as_str()?;
        let grave = IMAGE.contains(&reason) || CONFIGURATION.contains(&reason);
        let message = waiting["message"].as_str().filter(|_| grave)?;
        Some((container["name"].as_str().unwrap_or_default(), reason, message))
    })
}

fn image<'a>(pod: &'a Value, container: &str) -> &'a str {
    let mut containers = entries(&pod["spec"]["containers"]).iter();
    let container = containers.find(|c| c["name"] == container);
    container.and_then(|c| c["image"].as_str()).unwrap_or_default()
}

/// Name and exit code of the first container that has ended.
fn exited(pod: &Value) -> Option<(&str, Option<i64>)> {
    containers(pod).find_map(|container| {
        let terminated = container["state"]["terminated"].as_object()?;
        let code = terminated.get("exitCode").and_then(Value::as_i64);
        Some((container["name"].as_str().unwrap_or_default(), code))
    })
}

fn crashing(container: &str, code: Option<i64>, attempt: u64) -> Report {
    let how = code.map_or_else(|| "ends".to_owned(), |code| format!("ends with exit code {code}"));
    let message = format!("container {container} {how} (attempt {attempt})");
    Report::both(False, Reason::InstanceCrashing, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(phase: &str, containers: &[Value]) -> Value {
        json!({
            "spec": {"containers": [{"name": "web", "image": "shop/web:broken"}, {"name": "side", "image": "shop/side"}]},
            "status": {"phase": phase, "containerStatuses": containers},
        })
    }

    fn waits(reason: &str) -> Value {
        json!({"name": "web", "restartCount": 4, "state": {"waiting": {"reason": reason, "message": "10.1.2.3: secret"}},
            "lastState": {"terminated": {"exitCode": 3}}})
    }

    /// `available reason, programmed reason, applied`, `-` for an unchanged condition.
    fn words(report: &Report) -> String {
        let one = |said: &Option<Verdict>| {
            said.as_ref().map_or_else(
                || "-".to_owned(),
                |said| format!("{:?} {}", said.status, said.reason),
            )
        };
        let applied = if report.is_applied() { ", applied" } else { "" };
        format!("{}, {}{applied}", one(&report.available), one(&report.programmed))
    }

    #[test]
    fn each_state_of_a_pod_has_its_conditions() {
        let mut ready = pod("Running", &[]);
        ready["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        let ended = json!({"name": "web", "state": {"terminated": {"exitCode": 1}}});
        let image = "False ImageUnavailable, False ImageUnavailable";
        let configuration = "False ConfigurationError, False ConfigurationError";
        let crashing = "False InstanceCrashing, False InstanceCrashing";
        let provisioning = "Unknown Provisioning, Unknown ProgrammingInProgress";
        for (pod, attempts, expected) in [
            (Some(ready), 0, "True Available, True Programmed, applied"),
            (Some(pod("Pending", &[waits("ImagePullBackOff")])), 0, image),
            (Some(pod("Running", &[waits("InvalidImageName")])), 0, image),
            (Some(pod("Running", &[waits("CrashLoopBackOff")])), 0, crashing),
            (Some(pod("Failed", std::slice::from_ref(&ended))), 2, crashing),
            (Some(pod("Running", &[ended])), 1, crashing),
            (
                Some(pod("Pending", &[waits("CreateContainerConfigError")])),
                0,
                configuration,
            ),
            (
                Some(pod("Pending", &[waits("RunContainerError")])),
                0,
                configuration,
            ),
            (Some(pod("Failed", &[])), 0, "False Failed, False Failed"),
            (Some(pod("Succeeded", &[])), 0, "False Stopped, -"),
            (
                Some(pod("Running", &[])),
                0,
                "False Starting, True Programmed, applied",
            ),
            (
                Some(pod("Pending", &[waits("ContainerCreating")])),
                0,
                provisioning,
            ),
            (Some(pod("Unknown", &[])), 0, "Unknown Unknown, -"),
            (None, 0, provisioning),
            (None, 1, "-, -"),
        ] {
            assert_eq!(words(&report(pod.as_ref(), attempts)), expected, "{pod:?}");
        }
        assert_eq!(words(&Report::suspended()), "False Suspended, False Suspended");
        assert_eq!(words(&Report::stopping()), "False Stopping, False Stopping");
        assert_eq!(words(&Report::unfit(&"x")), configuration);
    }

    #[test]
    fn a_pod_that_is_not_ready_names_the_probe_that_does_not_succeed() {
        let said = |container: Value| {
            let mut pod = pod("Running", &[container]);
            pod["spec"]["containers"][0]["startup"] = json!("a connection to port 80");
            pod["spec"]["containers"][0]["readiness"] = json!("GET /ready at port http");
            let report = report(Some(&pod), 0);
            assert_eq!(words(&report), "False Starting, True Programmed, applied");
            report.available.unwrap().message
        };
        assert_eq!(
            said(json!({"name": "web", "ready": false, "started": false})),
            "the startupProbe of container web does not succeed: a connection to port 80"
        );
        assert_eq!(
            said(json!({"name": "web", "ready": false})),
            "the readinessProbe of container web does not succeed: GET /ready at port http"
        );
        assert_eq!(said(json!({"name": "web"})), "Instance is starting");
        assert_eq!(
            said(json!({"name": "side", "ready": false})),
            "Instance is starting"
        );
    }

    #[test]
    fn a_container_that_cannot_be_made_says_what_its_template_lacks() {
        let said = |reason: &str, words: &str| {
            let container =
                json!({"name": "web", "state": {"waiting": {"reason": reason, "message": words}}});
            report(Some(&pod("Pending", &[container])), 0)
                .available
                .unwrap()
                .message
        };
        for (words, cause) in [
            (
                "couldn't find key PASSWORD in Secret ns-a1/db",
                "couldn't find key PASSWORD in Secret db",
            ),
            ("secret \"db\" not found", "secret \"db\" not found"),
            (
                "container has runAsNonRoot and image will run as root (pod: \"web-0_ns-a1(uid)\", container: web)",
                "container has runAsNonRoot and image will run as root",
            ),
            (
                "failed to create containerd task: runc create failed: exec: \"sleeep\": executable file not found in $PATH: unknown",
                "its command cannot be executed: executable file not found in $PATH",
            ),
        ] {
            let expected = format!("container web cannot be made: {cause}");
            assert_eq!(said("CreateContainerConfigError", words), expected);
        }
        let secret = said("RunContainerError", "node-7: /var/lib/kubelet is full");
        assert!(
            secret.starts_with("container web cannot be made; check"),
            "{secret}"
        );
        let unstarted = json!({"name": "web", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 128, "unstarted": "exec: \"x\": permission denied: unknown"}}});
        let report = report(Some(&pod("Running", &[unstarted])), 0);
        let message = report.programmed.unwrap().message;
        assert_eq!(
            message,
            "container web cannot be made: its command cannot be executed: permission denied"
        );
    }

    #[test]
    fn a_pod_that_no_node_takes_has_the_schedulers_words_without_taints() {
        let mut waits = pod("Pending", &[]);
        waits["status"]["unscheduled"] = json!(
            "0/3 nodes are available: 1 node(s) had untolerated taint {tenant: rival}, 2 Insufficient cpu. preemption: 0/3 nodes"
        );
        let report = report(Some(&waits), 0);
        assert_eq!(
            words(&report),
            "Unknown Provisioning, Unknown ProgrammingInProgress"
        );
        let expected = "no node of the cell takes the Pod: 0/3 nodes are available: 1 node(s) had untolerated taint, 2 \
                        Insufficient cpu.";
        assert_eq!(report.available.unwrap().message, expected);
    }

    #[test]
    fn messages_name_image_exit_code_and_attempt_and_nothing_of_the_runtimes() {
        let message = |pod: &Value| report(Some(pod), 2).available.unwrap().message;
        assert_eq!(
            message(&pod("Pending", &[waits("ErrImagePull")])),
            "image shop/web:broken of container web cannot be had; correct its name or make it available"
        );
        assert_eq!(
            message(&pod("Running", &[waits("CrashLoopBackOff")])),
            "container web ends with exit code 3 (attempt 4)"
        );
        let ended = json!({"name": "side", "state": {"terminated": {"exitCode": 137}}});
        assert_eq!(
            message(&pod("Failed", &[ended])),
            "container side ends with exit code 137 (attempt 2)"
        );
    }
}
