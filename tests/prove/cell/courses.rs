//! Courses of events whose every request may be the last one of a cell's life.

use super::ops::{
    BAD,
    Op::{self, *},
    SECOND, THIRD,
};
use std::time::Duration;

/// A course: each step a while after the one before.
#[derive(Debug)]
pub(super) struct Course {
    /// Its name.
    pub name: &'static str,
    /// Whether the network path is on.
    pub networking: bool,
    /// What happens; a step holds what happens at one moment.
    pub steps: &'static [&'static [Op]],
}

/// Time between two steps.
pub(super) const STEP: Duration = Duration::from_secs(20);
/// After this time without acts nothing may be under way: a claim that was denied is asked for anew after six
/// minutes at the latest.
pub(super) const SETTLED: Duration = Duration::from_mins(8);

const fn course(name: &'static str, steps: &'static [&'static [Op]]) -> Course {
    Course {
        name,
        networking: false,
        steps,
    }
}

/// A deployment that is replaced with surge.
const SURGING: [Op; 2] = [Create("web", 2), Rollout("web", Some((1, 0)))];

/// The courses; `crash.rs` has a test for each.
pub(super) const COURSES: [Course; 17] = [
    course("create", &[&[Create("web", 2)]]),
    course("roll", &[&[Create("web", 2)], &[Image("web", SECOND)]]),
    course("surge", &[&SURGING, &[Image("web", SECOND)]]),
    course(
        "surge_and_scale",
        &[
            &SURGING,
            &[Image("web", SECOND), Scale("web", 3)],
            &[Image("web", THIRD), Scale("web", 1)],
        ],
    ),
    course(
        "surge_and_bad_image",
        &[&SURGING, &[Image("web", BAD)], &[Image("web", SECOND)]],
    ),
    course(
        "surge_and_denied_claim",
        &[&[Budget(2)], &SURGING, &[Image("web", SECOND)]],
    ),
    course("scale_down", &[&[Create("web", 3)], &[Scale("web", 1)]]),
    course("deletion", &[&[Create("web", 2)], &[Delete("web")]]),
    course(
        "deletion_and_creation",
        &[&[Create("web", 1)], &[Delete("web"), Create("web", 2)]],
    ),
    course(
        "suspension",
        &[
            &[Create("web", 1)],
            &[Suspend("web", true)],
            &[Suspend("web", false)],
        ],
    ),
    course(
        "bad_image",
        &[&[Create("web", 2)], &[Image("web", BAD)], &[Image("web", SECOND)]],
    ),
    course("denied_claim", &[&[Budget(1), Create("web", 2)], &[Budget(2)]]),
    course("companion", &[&[CreateWith("web", 1)], &[Companion]]),
    Course {
        name: "networking",
        networking: true,
        steps: &[&[Create("web", 2)]],
    },
    Course {
        name: "networking_and_deletion",
        networking: true,
        steps: &[&[Create("web", 1)], &[Delete("web")]],
    },
    course(
        "scale_down_and_roll_while_away",
        &[
            &[Create("web", 2)],
            &[Away(true), Scale("web", 1)],
            &[Image("web", SECOND)],
            &[Away(false)],
        ],
    ),
    course(
        "deletion_while_away",
        &[&[Create("web", 2)], &[Away(true), Delete("web")], &[Away(false)]],
    ),
];
