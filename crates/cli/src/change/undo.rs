//! The way back to an earlier revision.

use super::Intent;
use crate::{
    error::{Error, Kind},
    history,
    plane::Plane,
    view::Object,
};

/// The wish to go back to a revision; 0 for the newest one that differs from the live Workload.
pub(crate) async fn undo(
    plane: &Plane,
    workload: &Object,
    to_revision: u64,
    keep_scale: bool,
) -> Result<Intent, Error> {
    let name = workload.name();
    let history = history::load(plane, workload).await?;
    let target = if to_revision > 0 {
        history.revision(name, to_revision)?
    } else {
        history.previous(workload).ok_or_else(|| {
            let what = format!("workload {name:?} has no earlier revision");
            Error::new(Kind::NotFound, what).next(format!("kubectl compute rollout history {name}"))
        })?
    };
    Ok(Intent::Undo {
        target: Box::new(target.clone()),
        keep_scale,
        number: history.next_number(workload),
    })
}

impl Intent {
    /// Numbers an undo anew, because a change of another user has taken its number.
    pub(super) async fn renumbered(self, plane: &Plane, live: Option<&Object>) -> Self {
        match (self, live) {
            (
                Self::Undo {
                    target, keep_scale, ..
                },
                Some(live),
            ) => {
                let number = history::known(plane, live).await.next_number(live);
                Self::Undo {
                    target,
                    keep_scale,
                    number,
                }
            }
            (wish, _) => wish,
        }
    }
}
