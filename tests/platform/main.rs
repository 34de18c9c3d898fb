//! Projects of Milo: the gateway in mode `milo` against the sandbox's stand-ins of Milo and of Karmada, or Milo's own API
//! server (`MILO_BIN`): docs/e2e.md.
//!
//! Tests run one at a time on one sandbox, since they change Projects that all of them share.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod behind;
mod brake;
mod discovery;
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
    ];
    let failed = support::run_all(Vec::new(), trials.into(), 1);
    if let Some(suite) = support::suite::Suite::present() {
        support::RUNTIME.block_on(suite.down());
    }
    std::process::exit(i32::from(failed) * 101);
}
