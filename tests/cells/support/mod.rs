//! Planes, the gateway and the cells as processes, waits, and what a failure shows.

#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/audit.rs"]
pub(crate) mod audit;
pub(crate) mod case;
pub(crate) mod cell;
pub(crate) mod compute;
#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/credentials.rs"]
pub(crate) mod credentials;
mod dump;
#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/gateway.rs"]
pub(crate) mod gateway;
#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/http.rs"]
pub(crate) mod http;
pub(crate) mod kinds;
pub(crate) mod line;
#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/log_lines.rs"]
pub(crate) mod log_lines;
pub(crate) mod objects;
mod outages;
#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/plane.rs"]
pub(crate) mod plane;
pub(crate) mod platform;
#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/rights.rs"]
pub(crate) mod rights;
#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/role.rs"]
pub(crate) mod role;
pub(crate) mod suite;
#[path = "../../e2e/support/tls.rs"]
pub(crate) mod tls;
#[path = "../../e2e/support/trials.rs"]
mod trials;
#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/worlds.rs"]
mod worlds;

pub(crate) use case::{Case, condition, label, message, says, uid};
pub(crate) use objects::Wish;
pub(crate) use plane::{seconds, wait_for};
pub(crate) use trials::{RUNTIME, TestCase, is_core, lone_trials, text, trial, trials, with_cleanup};
pub(crate) use worlds::{Tests, dir, in_all_worlds, in_order, run_all};
