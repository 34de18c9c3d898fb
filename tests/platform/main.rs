//! Projects of Milo: the gateway in mode `milo` against the sandbox's stand-ins of Milo and of Karmada, or Milo's own API
//! server (`MILO_BIN`): docs/e2e.md.
//!
//! Tests run one at a time on one sandbox, since they change Projects that all of them share.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod behind;
mod brake;
mod discovery;
mod held;
mod internal;
mod lives;
mod shared;
mod support;

fn main() {
    // The one that wants a Project that is not there yet begins.
    let trials = [
        discovery::lone_trials(),
        shared::lone_trials(),
        behind::lone_trials(),
        brake::lone_trials(),
        lives::lone_trials(),
        held::lone_trials(),
    ];
    let mut trials = Vec::from(trials);
    if internal::hosts_can_be_named() {
        trials.push(internal::lone_trials());
    } else {
        eprintln!(
            "NOT RUN: internal: this system lets no process of this user have an /etc/hosts of its own"
        );
    }
    let tests = support::Tests {
        together: Vec::new(),
        alone: vec![trials.into_iter().flatten().collect()],
        closing: Vec::new(),
    };
    let failed = support::run_all(tests, 1);
    if let Some(suite) = support::suite::Suite::present() {
        support::RUNTIME.block_on(suite.down());
    }
    std::process::exit(i32::from(failed) * 101);
}
