//! The acceptance behaviours of cells, each under its number, with the gateway and the cells' own program on real API
//! servers: docs/e2e.md.
//!
//! Tests run in parallel on one sandbox, each in a project namespace of its own; those that stop, kill or cut something,
//! or count what all ask, run after them, one at a time; those that look back at the whole run come last. The sandbox is
//! ended then. The whole suite runs in two such worlds beside each other (`../e2e/support/worlds.rs`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod alone;
mod bad_input;
mod chain;
mod clients;
mod closing;
mod compute;
mod crashes;
#[allow(dead_code, reason = "the tests of the commands have it, used here in part")]
#[path = "../../crates/operator/src/client/tests/documents.rs"]
mod documents;
mod gates;
mod locations;
mod membership;
mod operator;
mod outage;
mod pods;
mod provisioner;
mod pull;
mod quota;
#[allow(dead_code, reason = "the tests of the commands have it, used here in part")]
#[path = "../client/replica.rs"]
mod replica;
mod rollouts;
mod runbooks;
mod serving;
mod story;
mod support;
mod teardown;

use libtest_mimic::Trial;

/// How many tests wait beside each other, unless `--test-threads` says otherwise.
const PARALLEL: usize = 8;

fn together() -> Vec<Trial> {
    // Those that wait longest begin first.
    [
        rollouts::trials(),
        clients::trials(),
        quota::trials(),
        teardown::trials(),
        pods::trials(),
        chain::trials(),
        compute::trials(),
        operator::trials(),
        story::trials(),
        gates::trials(),
        bad_input::trials(),
        alone::trials(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The tests of each world.
fn alone() -> Vec<Vec<Trial>> {
    support::in_order(&[
        // Its outages make the planes slow to take back what it leaves: the trials at the end need rest.
        &[
            provisioner::lone_trials,
            provisioner::cluster_api::lone_trials,
            runbooks::lone_trials,
            alone::lone_trials,
            outage::lone_trials,
        ],
        &[
            gates::lone_trials,
            locations::lone_trials,
            serving::lone_trials,
            rollouts::lone_trials,
            quota::lone_trials,
            crashes::lone_trials,
            compute::lone_trials,
            membership::lone_trials,
            pull::lone_trials,
            pull::adopted::lone_trials,
            pull::killed::lone_trials,
        ],
        &[
            provisioner::hosts::lone_trials,
            provisioner::interrupted::lone_trials,
            provisioner::pull::lone_trials,
        ],
    ])
}

fn main() {
    let tests = support::Tests {
        together: together(),
        alone: alone(),
        closing: closing::trials(),
    };
    let failed = support::run_all(tests, PARALLEL);
    if let Some(suite) = support::suite::Suite::present() {
        support::RUNTIME.block_on(suite.down());
    }
    std::process::exit(i32::from(failed) * 101);
}
