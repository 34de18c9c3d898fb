//! The part of the operations API that the role adds: Cells that are not ready, and next steps (contract: operations.md §2.2).

use super::{
    Provisioner,
    index::CellsIndex,
    reason::{Class as ReasonClass, Reason},
};
use fedgate_api::ConditionStatus;
use fedgate_engine::{metrics::Holder, runtime::Runtime};
use fedgate_operations::{
    Class, StuckItem, Time,
    views::{
        role::Answering,
        stuck::{Found, Naming, is_older},
    },
};
use std::time::Duration;

impl Answering for Provisioner {
    fn next_step(class: Class, plane: &str, word: &str) -> String {
        if let Some(reason) = Reason::parse(word) {
            return match reason.next() {
                "" => format!("kubectl describe cells.fedgate.dev, with the kubeconfig of the {plane}"),
                next => next.to_owned(),
            };
        }
        match class {
            Class::Right => format!(
                "apply OUT/provisioner/{plane} to {plane}; fedgate manifests --write OUT writes it: {word} is denied"
            ),
            Class::Plane => {
                "check the address and the credential of the plane, the network and the API server itself"
                    .to_owned()
            }
            _ => "see the log of fedgate provisioner for the key".to_owned(),
        }
    }

    /// The first condition of each Cell that is not True, unless its spec says so.
    fn add_stuck(role: &Runtime<Self>, stuck_for: Duration, naming: Naming<'_>, found: &mut Vec<Found>) {
        let now = role.shared.now();
        let index = role.shared.read_index(Holder::Operations);
        for ((_, name), row) in index.cells.iter() {
            let Some((_, status)) = &row.digest.cell else {
                continue;
            };
            let missing = status
                .conditions
                .iter()
                .filter(|condition| condition.status != ConditionStatus::True);
            let mut missing =
                missing.filter_map(|condition| Some((condition, Reason::parse(&condition.reason)?)));
            let Some((condition, reason)) = missing.find(|(_, reason)| !reason.is_asked_for()) else {
                continue;
            };
            let since = Time(condition.last_transition_time.0);
            if !is_older(Some(since), stuck_for, now) {
                continue;
            }
            let class = match reason.class() {
                _ if row.deleting => Class::Deleting,
                ReasonClass::Waiting => Class::Waiting,
                ReasonClass::Retry => Class::Retrying,
                ReasonClass::Conflict | ReasonClass::Terminal => Class::Refused,
            };
            let item = StuckItem {
                since: Some(since),
                message: condition.message.clone(),
                ..naming(&CellsIndex::key(name))
            };
            found.push(Found::new(class, "hub", reason.as_str(), item));
        }
    }
}
