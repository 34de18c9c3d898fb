//! The revision that a Workload has now.

use super::{ACTIVE, History, known, store};
use crate::{
    error::Error,
    plane::{Plane, Resource},
    time::age,
    view::Object,
};
use jiff::Timestamp;
use std::collections::BTreeMap;

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

/// The number of the last recorded revision of every Workload that has a history, without reading the revisions.
pub(crate) async fn numbers(plane: &Plane) -> Result<BTreeMap<String, String>, Error> {
    let maps = plane.list_metadata(Resource::ConfigMaps, HISTORIES).await?;
    Ok(numbers_of(&maps))
}

/// The numbers from the histories themselves.
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
