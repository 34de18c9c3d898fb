//! The history of a Workload as it changes: a revision is recorded a moment after the change itself.

use super::{Active, History, active::active_of, name, store::belongs};
use crate::{
    error::Error,
    plane::{Follow, News, Plane, Resource, named},
    view::Object,
};
use std::time::Duration;

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
        let news: Result<News, Error> = follow.next().await;
        if news.is_err() {
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
        belongs(map, workload).then(|| active_of(&History::read(map), workload))?
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
