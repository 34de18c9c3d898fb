//! The optional kinds of a plane: its API server tells which of them it serves, and those are watched.
//!
//! A list of a kind that is not served is refused each time, so the discovery documents of the API groups are read
//! instead.

use super::{
    index::{Discovered, Index},
    planes::EngagedPlanes,
    queue::Priority,
};
use crate::{
    backoff::{Backoff, WATCH},
    key::Plane,
    plane::{client::Connection, watch::is_not_served},
};
use kube::core::ApiResource;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// Time after which a kind that is not served is looked for again: soon at first, since an API server that starts denies
/// kinds that it has. The planes do not ask at once.
const AGAIN: Backoff = Backoff::new(Duration::from_secs(10), Duration::from_mins(10)).with_jitter(0.25);

/// The task that looks for the optional kinds of a plane, in one engagement. It ends once no kind is looked for.
pub(super) async fn discover<I: Index>(
    planes: Arc<EngagedPlanes<I>>,
    plane: Plane,
    engagement: u64,
    connection: Connection,
) {
    let (mut failures, mut rounds) = (0, 0);
    loop {
        let kinds = planes.optional_kinds(&plane);
        if kinds.is_empty() {
            return;
        }
        let delay = match served(&connection.current().client(), kinds).await {
            Ok(served) => {
                failures = 0;
                planes.discovered(&plane, engagement, &served);
                rounds += 1;
                AGAIN.delay(rounds - 1, (&plane, rounds))
            }
            Err(error) => {
                if failures == 0 {
                    tracing::warn!(%plane, %error, "which optional kinds it serves is not known yet; it is asked again");
                }
                failures += 1;
                WATCH.delay(failures - 1, &plane)
            }
        };
        tokio::time::sleep(delay).await;
    }
}

/// The kinds, of those given, that an API server serves. One request per version of an API group.
///
/// # Errors
/// Any answer but the document or 404.
async fn served(client: &kube::Client, kinds: Vec<ApiResource>) -> Result<Vec<ApiResource>, kube::Error> {
    let versions: BTreeSet<&str> = kinds.iter().map(|kind| &*kind.api_version).collect();
    let mut found = BTreeSet::new();
    for version in versions {
        match client.list_api_group_resources(version).await {
            Ok(list) => found.extend(
                list.resources
                    .into_iter()
                    .map(|one| (version.to_owned(), one.name)),
            ),
            Err(error) if is_not_served(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let is_served = |kind: &ApiResource| found.contains(&(kind.api_version.clone(), kind.plural.clone()));
    Ok(kinds.into_iter().filter(is_served).collect())
}

impl<I: Index> EngagedPlanes<I> {
    /// Kinds that are still looked for.
    pub(super) fn optional_kinds(&self, plane: &Plane) -> Vec<ApiResource> {
        self.index.lock().optional_kinds(plane)
    }

    /// Records which optional kinds a plane serves, watches their tables, and enqueues the keys that this concerns.
    fn discovered(self: &Arc<Self>, plane: &Plane, engagement: u64, served: &[ApiResource]) {
        let mut index = self.index.lock();
        let Discovered {
            changes,
            watch,
            unwatch,
        } = index.kinds_discovered(plane, engagement, served);
        let mut keys = Vec::new();
        for change in &changes {
            (self.triggers)(&index, change, &mut keys);
        }
        drop(index);
        // A plane that is engaged again meanwhile is asked anew.
        if self.engagement(plane) == engagement {
            self.unwatch(plane, &unwatch);
            self.watch_more(plane, &watch);
        }
        self.queue.extend(keys, Priority::Backlog);
    }
}
