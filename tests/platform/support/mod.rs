//! The sandbox with its platform, the gateway, waits, and what a failure shows.

#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/audit.rs"]
pub(crate) mod audit;
pub(crate) mod case;
#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/credentials.rs"]
pub(crate) mod credentials;
#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/gateway.rs"]
pub(crate) mod gateway;
#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/http.rs"]
mod http;
#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/kinds.rs"]
pub(crate) mod kinds;
#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/objects.rs"]
pub(crate) mod objects;
#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/plane.rs"]
pub(crate) mod plane;
#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/role.rs"]
pub(crate) mod role;
pub(crate) mod suite;
#[allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "the gateway's suite has it, used here in part"
)]
#[path = "../../e2e/support/trials.rs"]
mod trials;
#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/worlds.rs"]
mod worlds;

pub(crate) use case::{Case, hub_namespace, uid};
pub(crate) use plane::{seconds, wait_for};
pub(crate) use trials::{RUNTIME, TestCase, is_core, lone_trials, text, trial, with_cleanup};
pub(crate) use worlds::{Tests, run_all};
