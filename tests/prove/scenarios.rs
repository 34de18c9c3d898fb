//! Courses of events whose every request may be the last one of a gateway's life.

use crate::ops::{
    LOCATION,
    Op::{self, *},
};
use std::time::Duration;

/// A course: each act a while after the one before.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What happens; a step holds what happens at one moment.
    pub steps: &'static [&'static [Op]],
}

/// Time between two steps.
pub(crate) const STEP: Duration = Duration::from_secs(15);
/// After this time without acts nothing may be under way.
pub(crate) const SETTLED: Duration = Duration::from_secs(150);

/// The scenarios; `tests/prove/crash.rs` has a test for each.
pub(crate) const SCENARIOS: [Scenario; 21] = [
    Scenario {
        name: "create",
        steps: &[&[Create("p", "default", "web", "DFW", 1)]],
    },
    Scenario {
        name: "first_of_namespace",
        steps: &[
            &[Create("p", "default", "web", "DFW", 0)],
            &[Namespace("p", "shop"), Create("p", "shop", "web", "DFW", 0)],
        ],
    },
    Scenario {
        name: "first_of_city",
        steps: &[
            &[Create("p", "default", "web", "DFW", 0)],
            &[Create("p", "default", "eu", "LHR", 0)],
        ],
    },
    Scenario {
        name: "spec_change",
        steps: &[
            &[Create("p", "default", "web", "DFW", 0)],
            &[Image("p", "default", "web", "shop/web:2")],
        ],
    },
    Scenario {
        name: "status_return",
        steps: &[
            &[Create("p", "default", "web", "DFW", 0)],
            &[Scale("p", "default", "web", 2)],
        ],
    },
    Scenario {
        name: "projection",
        steps: &[
            &[Create("p", "default", "web", "DFW", 1)],
            &[Report("web-0", false)],
            &[DropProjection("p", "default", "web-0")],
        ],
    },
    Scenario {
        name: "scale_down",
        steps: &[
            &[Create("p", "default", "web", "DFW", 2)],
            &[Scale("p", "default", "web", 0)],
        ],
    },
    Scenario {
        name: "city_move",
        steps: &[
            &[Create("p", "default", "web", "DFW", 1)],
            &[Move("p", "default", "web", "LHR")],
        ],
    },
    // docs/contract/serving.md §2: a cell is drained, and opened again; nothing moves back.
    Scenario {
        name: "drain",
        steps: &[
            &[
                Create("p", "default", "web", "DFW", 2),
                Create("q", "default", "web", "DFW", 1),
            ],
            &[Join],
            &[Drain("dfw-1", true)],
            &[Scale("p", "default", "web", 1)],
            &[Drain("dfw-1", false)],
        ],
    },
    // docs/contract/locations.md §3: the order of an upgrade, forwards and backwards.
    Scenario {
        name: "location_label",
        steps: &[
            &[Create("p", "default", "web", "DFW", 1)],
            &[Label(true)],
            &[Label(false)],
        ],
    },
    Scenario {
        name: "change_of_form",
        steps: &[
            &[Label(true), Create("p", "default", "web", "DFW", 1)],
            &[Locate("p", "default", "web", LOCATION)],
            &[Move("p", "default", "web", "DFW")],
            &[Label(false)],
        ],
    },
    Scenario {
        name: "companion",
        steps: &[
            &[
                Config("p", "default", "settings", "one"),
                CreateWith("p", "default", "web", "DFW", "settings"),
            ],
            &[Config("p", "default", "settings", "two")],
            &[Mount("p", "default", "web", None)],
        ],
    },
    Scenario {
        name: "deletion",
        steps: &[
            &[
                Create("p", "default", "web", "DFW", 1),
                Create("p", "default", "api", "DFW", 0),
            ],
            &[Delete("p", "default", "web")],
        ],
    },
    Scenario {
        name: "deletion_with_companion",
        steps: &[
            &[
                Config("p", "default", "settings", "one"),
                CreateWith("p", "default", "web", "DFW", "settings"),
            ],
            &[Delete("p", "default", "web")],
        ],
    },
    Scenario {
        name: "namespace_gone",
        steps: &[
            &[Namespace("p", "shop"), Create("p", "shop", "web", "DFW", 1)],
            &[DropNamespace("p", "shop")],
        ],
    },
    Scenario {
        name: "project_gone",
        steps: &[
            &[
                Create("p", "default", "web", "DFW", 1),
                Create("q", "default", "web", "LHR", 0),
            ],
            &[Leave("p"), Delete("p", "default", "web")],
            &[Engage("p")],
        ],
    },
    Scenario {
        name: "suspension",
        steps: &[
            &[Create("p", "default", "web", "DFW", 0)],
            &[Suspend("p", "default", "web", true)],
            &[Suspend("p", "default", "web", false)],
        ],
    },
    Scenario {
        name: "secret",
        steps: &[
            &[
                Secret("p", "default", "login", "b25l"),
                Create("p", "default", "web", "DFW", 0),
                MountSecret("p", "default", "web", "login"),
            ],
            &[Secret("p", "default", "login", "dHdv")],
            &[Mount("p", "default", "web", None)],
        ],
    },
    Scenario {
        name: "shared_companion",
        steps: &[
            &[
                Config("p", "default", "settings", "one"),
                CreateWith("p", "default", "web", "DFW", "settings"),
                CreateWith("p", "default", "api", "DFW", "settings"),
            ],
            &[
                DropConfig("p", "default", "settings"),
                Delete("p", "default", "web"),
            ],
            &[Config("p", "default", "settings", "two")],
        ],
    },
    Scenario {
        name: "workload",
        steps: &[
            &[Workload("p", "default", "shop", &["DFW"])],
            &[Workload("p", "default", "shop", &["DFW", "LHR"])],
            &[Workload("p", "default", "shop", &["LHR"])],
            // The deployment in LHR stays until that in DFW is ready.
            &[Workload("p", "default", "shop", &["DFW"])],
        ],
    },
    Scenario {
        name: "workload_deletion",
        steps: &[
            &[Workload("p", "default", "shop", &["DFW", "LHR"])],
            &[DropWorkload("p", "default", "shop")],
        ],
    },
];
