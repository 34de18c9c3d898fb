//! The acceptance behaviours of federation, each under its number, on real API servers: docs/e2e.md.
//!
//! Tests run in parallel on one sandbox, each in a project namespace of its own; those that stop the gateway or a
//! plane, or have a second's limit, run after them, one at a time; those that look back at the whole run come last. The
//! sandbox is ended then. The whole suite runs in two such worlds beside each other (`support/worlds.rs`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod admin_auth;
mod adopted;
mod azimuth;
mod beacons;
mod budget;
mod budget_companions;
mod by_hand;
mod choosing;
mod city_move;
mod closing;
mod companions;
mod deletion;
mod denials;
mod doctor;
mod fairness;
mod federation;
mod hub_identity;
mod kinds;
mod lanes;
mod locations;
mod lost_credentials;
mod members;
mod namespaces;
mod one_of_two;
mod operations;
mod peer_forms;
mod platform;
mod policies;
mod postgres;
mod projection;
mod projects;
mod rest;
mod restarts;
mod restored;
mod return_admission;
mod returns;
mod shared_companions;
mod shipped;
mod status;
mod stuck;
mod support;
mod suspension;
mod unasked;
mod vault_hands;
mod vault_held;
mod vault_remade;
mod vault_requests;
mod vault_status;
mod workload;
mod writeback;

use libtest_mimic::Trial;

/// How many tests wait beside each other, unless `--test-threads` says otherwise.
const PARALLEL: usize = 8;

fn together() -> Vec<Trial> {
    // Those that wait longest begin first.
    [
        budget_companions::trials(),
        budget::trials(),
        projects::trials(),
        federation::trials(),
        policies::trials(),
        city_move::trials(),
        namespaces::trials(),
        status::trials(),
        projection::trials(),
        writeback::trials(),
        deletion::trials(),
        companions::trials(),
        suspension::trials(),
        workload::trials(),
        operations::trials(),
        admin_auth::trials(),
        beacons::trials(),
        kinds::trials(),
        lanes::trials(),
        stuck::trials(),
        members::trials(),
        denials::trials(),
        choosing::trials(),
        vault_status::trials(),
        vault_held::trials(),
        vault_requests::trials(),
        vault_remade::trials(),
        returns::trials(),
        return_admission::trials(),
        adopted::trials(),
        shared_companions::trials(),
        platform::trials(),
        shipped::trials(),
        azimuth::trials(),
        postgres::trials(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The worlds' tests, each of which takes about as long. A world has about 2 GB. Two cores do not carry more worlds: the API
/// servers of one keep a fifth of a core busy also while its tests wait.
fn alone() -> Vec<Vec<Trial>> {
    support::in_order(&[
        &[
            // What those that need rest leave behind goes while others run; the last leave the least.
            rest::lone_trials,
            projects::lone_trials,
            by_hand::lone_trials,
            peer_forms::lone_trials,
            doctor::lone_trials,
            hub_identity::lone_trials,
            admin_auth::lone_trials,
        ],
        &[
            locations::lone_trials,
            deletion::lone_trials,
            vault_status::lone_trials,
            vault_hands::lone_trials,
            unasked::lone_trials,
            returns::lone_trials,
            return_admission::lone_trials,
            operations::lone_trials,
            companions::lone_trials,
            federation::lone_trials,
            status::lone_trials,
            policies::lone_trials,
            fairness::lone_trials,
            restarts::lone_trials,
            one_of_two::lone_trials,
            projection::lone_trials,
            lost_credentials::lone_trials,
            restored::lone_trials,
            // After the hub is restored: its garbage collector deletes what a Cluster has owned that was deleted since.
            members::lone_trials,
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
