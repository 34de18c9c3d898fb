//! The revision that a Workload has now.

use super::{ACTIVE, History, known, name, store};
use crate::{
    plane::{Follow, Plane, Resource, named},
    time::age,
    view::Object,
};
use jiff::Timestamp;
use std::{collections::BTreeMap, time::Duration};

/// The revision that a Workload has now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Active {
    /// The number; `None` for a change that others made.
    pub(crate) number: Option<u64>,
    /// The author.
    pub(crate) by: String,
    /// Time of the change.
    pub(crate) time: Option<Timestamp>,
}

impl Active {
    /// `#4`, or what is known of a change without a number.
    pub(crate) fn number(&self) -> String {
        self.number.map_or_else(
            || "changed outside of this command".to_owned(),
            |n| format!("#{n}"),
        )
    }

    /// `#4 by ann 5m ago`.
    pub(crate) fn line(&self, now: Timestamp) -> String {
        let time = self.time.map(|time| format!(" {} ago", age(time, now)));
        format!("{} by {}{}", self.number(), self.by, time.unwrap_or_default())
    }
}

/// The revision that a Workload has; `None` if there is no history that can be read.
pub(crate) async fn active(plane: &Plane, workload: &Object) -> Option<Active> {
    active_of(&known(plane, workload).await, workload)
}

/// The revision of a history that a Workload has; `None` if it has none.
pub(super) fn active_of(history: &History, workload: &Object) -> Option<Active> {
    if history.is_behind(workload) {
        return Some(Active {
            number: None,
            by: "unknown".to_owned(),
            time: workload.spec_written(),
        });
    }
    let active = history.active()?;
    Some(Active {
        number: Some(active.rev),
        by: active.actor.name.clone(),
        time: Some(active.time),
    })
}

/// The label of all histories.
pub(crate) const HISTORIES: &str = "fedgate.dev/revision-history=true";

/// The number of the last recorded revision of every Workload that has a history, of the histories or their metadata.
pub(crate) fn numbers_of(maps: &[Object]) -> BTreeMap<String, String> {
    let numbers = maps.iter().filter_map(|map| {
        let annotations = &map.0["metadata"]["annotations"];
        let (workload, active) = (
            annotations[store::WORKLOAD].as_str()?,
            annotations[ACTIVE].as_str()?,
        );
        Some((workload.to_owned(), format!("#{active}")))
    });
    numbers.collect()
}

/// Time in which a change is recorded, if its author records it at all.
const RECORDED_WITHIN: Duration = Duration::from_secs(2);

/// The history of a Workload, followed.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// `None` once it cannot be read.
    follow: Option<Follow>,
    is_known: bool,
}

impl Recorded {
    /// Begins to follow the history of a Workload.
    pub(crate) fn start(plane: &Plane, workload: &str) -> Self {
        let map = (Resource::ConfigMaps, named(&name(workload)));
        Self {
            is_known: false,
            follow: Some(Follow::start(plane, &[map])),
        }
    }

    /// Waits for a change. A history that cannot be read changes once, and never again.
    pub(crate) async fn changed(&mut self) {
        let Some(follow) = &mut self.follow else {
            return std::future::pending().await;
        };
        if follow.next().await.is_err() {
            self.follow = None;
        }
        self.is_known = true;
    }

    /// True once the history was read, or is known to be unreadable.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    /// The revision that a Workload has now.
    pub(crate) fn active(&self, workload: &Object) -> Option<Active> {
        let map = self.follow.as_ref()?.objects(Resource::ConfigMaps).next()?;
        store::belongs(map, workload).then(|| active_of(&History::read(map), workload))?
    }
}

/// Number and author of the revision that a Workload has now; `None` if it is not recorded within a moment.
pub(crate) async fn recorded(plane: &Plane, workload: &Object) -> Option<(u64, String)> {
    let mut history = Recorded::start(plane, workload.name());
    let found = async {
        loop {
            history.changed().await;
            if let Some(Active {
                number: Some(number),
                by,
                ..
            }) = history.active(workload)
            {
                return (number, by);
            }
        }
    };
    tokio::time::timeout(RECORDED_WITHIN, found).await.ok()
}
