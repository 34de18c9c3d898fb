//! The project's objects as commands show them. Objects stay as the server sent them: the peer's definitions have fields
//! that ours lack, and `-o json` prints them all.

mod join;
mod place;
mod words;

pub(crate) use join::{Home, Index, Instances, Joined, join};
pub(crate) use place::{City, CityMap, city_of, is_at, is_located, is_selecting, location_of, places};
pub(crate) use words::{Health, HealthWord, InstanceState, InstanceWord};

use crate::time::age;
use fedgate_api::{conditions::types::STALLED, keys};
use jiff::Timestamp;
use serde_json::Value;

/// An object as the server sent it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Object(pub(crate) Value);

/// A condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Condition<'a> {
    /// `True`, `False` or `Unknown`.
    pub(crate) status: &'a str,
    /// A word in `CamelCase`.
    pub(crate) reason: &'a str,
    /// Text for people.
    pub(crate) message: &'a str,
    /// Time of the last change of the status.
    pub(crate) since: Option<Timestamp>,
}

impl Condition<'_> {
    /// True if the status is `True`.
    pub(crate) fn holds(&self) -> bool {
        self.status == "True"
    }

    /// True if the status is `False`.
    pub(crate) fn refuses(&self) -> bool {
        self.status == "False"
    }

    /// True if an Instance with this reason does not become ready by itself (contract: api.md §8).
    pub(crate) fn is_grave(&self) -> bool {
        fedgate_api::conditions::priority(self.reason) >= 5
    }

    /// Reason and message, as the server has them.
    pub(crate) fn text(&self) -> String {
        match (self.reason, self.message) {
            (reason, "") => reason.to_owned(),
            ("", message) => message.to_owned(),
            (reason, message) => format!("{reason}: {message}"),
        }
    }
}

/// The condition of this type in a list.
fn condition<'a>(list: &'a [Value], type_: &str) -> Option<Condition<'a>> {
    let found = list.iter().find(|condition| condition["type"] == type_)?;
    let text = |field: &str| found[field].as_str().unwrap_or_default();
    Some(Condition {
        status: text("status"),
        reason: text("reason"),
        message: text("message"),
        since: text("lastTransitionTime").parse().ok(),
    })
}

/// The number of Instances that scale settings ask for at least.
pub(crate) fn minimum(scale: &Value) -> i64 {
    scale["minReplicas"].as_i64().unwrap_or(1)
}

impl Object {
    /// The text at a JSON pointer; empty if there is none.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.0
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The number at a JSON pointer; 0 if there is none.
    pub(crate) fn number(&self, pointer: &str) -> i64 {
        self.0
            .pointer(pointer)
            .and_then(Value::as_i64)
            .unwrap_or_default()
    }

    /// The list at a JSON pointer; empty if there is none.
    pub(crate) fn list(&self, pointer: &str) -> &[Value] {
        let list = self.0.pointer(pointer).and_then(Value::as_array);
        list.map(Vec::as_slice).unwrap_or_default()
    }

    /// The object's name.
    pub(crate) fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// The object's UID.
    pub(crate) fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }

    /// A label; empty if the object does not have it.
    pub(crate) fn label(&self, key: &str) -> &str {
        self.0["metadata"]["labels"][key].as_str().unwrap_or_default()
    }

    /// The value of an annotation; empty if there is none.
    pub(crate) fn annotation(&self, key: &str) -> &str {
        self.0["metadata"]["annotations"][key]
            .as_str()
            .unwrap_or_default()
    }

    /// Time of creation.
    pub(crate) fn created(&self) -> Option<Timestamp> {
        self.text("/metadata/creationTimestamp").parse().ok()
    }

    /// The time since its creation; empty if it does not tell.
    pub(crate) fn age(&self, now: Timestamp) -> String {
        self.created()
            .map(|created| age(created, now))
            .unwrap_or_default()
    }

    /// Time of the last write of anything but its status, as its field managers tell.
    pub(crate) fn spec_written(&self) -> Option<Timestamp> {
        self.written(str::is_empty).or_else(|| self.created())
    }

    /// Time of the last write of its status, as its field managers tell.
    pub(crate) fn status_written(&self) -> Option<Timestamp> {
        self.written(|subresource| subresource == "status")
    }

    fn written(&self, part: impl Fn(&str) -> bool) -> Option<Timestamp> {
        let entries = self.list("/metadata/managedFields").iter();
        let times = entries.filter(|entry| part(entry["subresource"].as_str().unwrap_or_default()));
        times
            .filter_map(|entry| entry["time"].as_str()?.parse().ok())
            .max()
    }

    /// The generation of its spec.
    pub(crate) fn generation(&self) -> i64 {
        self.number("/metadata/generation")
    }

    /// The generation that a condition is about.
    pub(crate) fn observed_generation(&self, type_: &str) -> Option<i64> {
        let mut conditions = self.list("/status/conditions").iter();
        let found = conditions.find(|condition| condition["type"] == type_)?;
        found["observedGeneration"].as_i64()
    }

    /// True if the object is being deleted.
    pub(crate) fn is_deleting(&self) -> bool {
        !self.text("/metadata/deletionTimestamp").is_empty()
    }

    /// The condition of this type.
    pub(crate) fn condition(&self, type_: &str) -> Option<Condition<'_>> {
        condition(self.list("/status/conditions"), type_)
    }

    /// True if the annotation of a Workload lets deployments of former places go before the new ones are ready.
    pub(crate) fn allows_gap(&self) -> bool {
        self.annotation(keys::ALLOW_GAP) == "true"
    }

    /// The cause that stops this generation of a Workload for good, if the server knows one.
    pub(crate) fn stalled(&self) -> Option<Condition<'_>> {
        let is_current = self.observed_generation(STALLED) == Some(self.generation());
        self.condition(STALLED)
            .filter(|stalled| is_current && stalled.holds())
    }

    /// The condition of this type of a placement of this Workload.
    pub(crate) fn placement_condition(&self, placement: &str, type_: &str) -> Option<Condition<'_>> {
        let mut placements = self.list("/status/placements").iter();
        let found = placements.find(|found| found["name"] == placement)?;
        condition(found["conditions"].as_array()?, type_)
    }

    /// Images of the containers of a template for tables, each without its registry; `(vm)` for a virtual machine.
    pub(crate) fn image(&self) -> String {
        without_registries(&self.images())
    }

    /// Images of the containers of a template; `(vm)` for a virtual machine.
    pub(crate) fn images(&self) -> String {
        let runtime = self.runtime();
        let containers = self.list(&format!("{runtime}/sandbox/containers"));
        if containers.is_empty() {
            let machine = self.0.pointer(&format!("{runtime}/virtualMachine"));
            return if machine.is_some() { "(vm)" } else { "-" }.to_owned();
        }
        let images = containers
            .iter()
            .map(|container| container["image"].as_str().unwrap_or_default());
        images.collect::<Vec<_>>().join(",")
    }

    /// The instance type; empty if there is none.
    pub(crate) fn instance_type(&self) -> &str {
        self.text(&format!("{}/resources/instanceType", self.runtime()))
    }

    /// Path of the runtime of an Instance, or of a template.
    fn runtime(&self) -> &'static str {
        match self.text("/kind") {
            "Instance" => "/spec/runtime",
            _ => "/spec/template/spec/runtime",
        }
    }
}

/// Images joined by commas, each without its registry.
pub(crate) fn without_registries(images: &str) -> String {
    let images = images.split(',').map(|image| match image.split_once('/') {
        Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => rest,
        _ => image,
    });
    images.collect::<Vec<_>>().join(",")
}

/// Counts of a deployment, or sums over several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Instances that exist.
    pub(crate) replicas: i64,
    /// Instances on the latest template.
    pub(crate) updated: i64,
    /// Instances that are ready.
    pub(crate) ready: i64,
    /// Instances that are wanted.
    pub(crate) desired: i64,
}

impl Counts {
    /// The counts of a deployment. Until its cell reports, the minimum of the spec is wanted.
    pub(crate) fn of(deployment: &Object) -> Self {
        let number = |field: &str| deployment.number(&format!("/status/{field}"));
        let desired = match number("desiredReplicas") {
            0 => minimum(&deployment.0["spec"]["scaleSettings"]),
            desired => desired,
        };
        let updated = match deployment.0.pointer("/status/updatedReplicas") {
            Some(_) => number("updatedReplicas"),
            None => number("currentReplicas"),
        };
        Self {
            replicas: number("replicas"),
            updated,
            ready: number("readyReplicas"),
            desired,
        }
    }

    /// Instances that are not on the latest template.
    pub(crate) fn old(self) -> i64 {
        self.replicas.saturating_sub(self.updated).max(0)
    }
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            replicas: a.replicas.saturating_add(b.replicas),
            updated: a.updated.saturating_add(b.updated),
            ready: a.ready.saturating_add(b.ready),
            desired: a.desired.saturating_add(b.desired),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn registries_are_stripped_from_images() {
        let of = |images: &[&str]| {
            let containers: Vec<_> = images.iter().map(|image| json!({"image": image})).collect();
            Object(
                json!({"spec": {"template": {"spec": {"runtime": {"sandbox": {"containers": containers}}}}}}),
            )
            .image()
        };
        assert_eq!(of(&["ghcr.io/acme/web:1", "nginx"]), "acme/web:1,nginx");
        assert_eq!(of(&["acme/web", "localhost/x", "reg:5000/y"]), "acme/web,x,y");
        assert_eq!(of(&[]), "-");
        let machine = json!({"spec": {"template": {"spec": {"runtime": {"virtualMachine": {}}}}}});
        assert_eq!(Object(machine).image(), "(vm)");
    }

    #[test]
    fn the_minimum_of_the_spec_is_wanted_until_the_cell_reports() {
        let deployment = |status: Value| {
            let spec = json!({"scaleSettings": {"minReplicas": 3}});
            Counts::of(&Object(json!({"spec": spec, "status": status})))
        };
        assert_eq!(deployment(json!({})).desired, 3);
        assert_eq!(deployment(json!({"desiredReplicas": 0})).desired, 3);
        assert_eq!(deployment(json!({"desiredReplicas": 2})).desired, 2);
        let old = deployment(json!({"currentReplicas": 1}));
        let new = deployment(json!({"currentReplicas": 1, "updatedReplicas": 2}));
        assert_eq!(
            (old.updated, new.updated),
            (1, 2),
            "the peer's status has no updatedReplicas"
        );
    }
}
