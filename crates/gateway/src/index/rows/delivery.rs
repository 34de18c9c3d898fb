//! The state of each member in a binding, for objects that live at one (contract: clusters.md §3).

use super::{Strings, condition, list, text};
use fedgate_api::keys;
use jiff::Timestamp;
use kube::core::DynamicObject;
use serde_json::Value;
use std::sync::Arc;

/// State of a binding whose members are looked at one by one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delivery {
    /// True if the scheduler has seen the binding as it is.
    pub observed: bool,
    /// Reason and message of `Scheduled=False`.
    pub unscheduled: Option<(Arc<str>, Arc<str>)>,
    /// True if nothing is dispatched.
    pub suspended: bool,
    /// Permanent id of the binding, by which its Works are found.
    pub id: Option<Arc<str>>,
    /// The members that report.
    pub items: Box<[Item]>,
}

/// State of an object at a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Name of the member.
    pub member: Arc<str>,
    /// True if the member has applied the object.
    pub applied: bool,
    /// The member's words if it has not.
    pub message: Arc<str>,
    /// UID of the member's object, as the member reports it.
    pub uid: Option<Arc<str>>,
    /// Time since which the member's object is being deleted, as the member reports it, in seconds since the epoch.
    pub deleted: Option<i64>,
}

/// Most characters of a member's words that a condition shows: a cell writes them.
const SHOWN: usize = 1_024;

/// Most bytes of a UID that a member reports.
const UID: usize = 64;

impl Delivery {
    /// Digests a `ResourceBinding`.
    pub fn read(object: &DynamicObject, words: &mut Strings) -> Self {
        let at = |pointer: &str| object.data.pointer(pointer);
        let scheduled = condition(object, "Scheduled");
        let unscheduled = scheduled.filter(|c| text(c, "status") == "False");
        let observed = at("/status/schedulerObservedGeneration").and_then(Value::as_i64);
        let labels = object.metadata.labels.as_ref();
        Self {
            observed: scheduled.is_some() && observed == object.metadata.generation,
            unscheduled: unscheduled.map(|c| {
                ["reason", "message"]
                    .map(|field| words.intern(text(c, field)))
                    .into()
            }),
            suspended: at("/spec/suspension/dispatching").and_then(Value::as_bool) == Some(true),
            id: labels
                .and_then(|labels| labels.get(keys::BINDING_ID))
                .map(|id| id.as_str().into()),
            items: list(&object.data, "/status/aggregatedStatus")
                .map(|item| Item {
                    member: words.intern(text(item, "clusterName")),
                    applied: item["applied"] == true,
                    message: text(item, "appliedMessage")
                        .chars()
                        .take(SHOWN)
                        .collect::<String>()
                        .into(),
                    uid: item["status"][keys::UID_AT_MEMBER]
                        .as_str()
                        .filter(|uid| uid.len() <= UID)
                        .map(Arc::from),
                    deleted: item["status"][keys::DELETED_AT_MEMBER]
                        .as_str()
                        .and_then(|time| Some(time.parse::<Timestamp>().ok()?.as_second())),
                })
                .collect(),
        }
    }

    /// The state at a member.
    pub fn at(&self, member: &str) -> Option<&Item> {
        self.items.iter().find(|item| *item.member == *member)
    }
}
