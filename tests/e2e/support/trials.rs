//! What every suite's runner shares: lists of tests, and what a panic said.

use futures::FutureExt;
use std::panic::AssertUnwindSafe;

/// Awaits `body`, then `cleanup` whether or not `body` panicked, and passes a panic on.
pub(crate) async fn with_cleanup<T>(body: impl Future<Output = T>, cleanup: impl Future<Output = ()>) -> T {
    let outcome = AssertUnwindSafe(body).catch_unwind().await;
    cleanup.await;
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// What a panic said.
pub(crate) fn text(panic: &(dyn std::any::Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().cloned();
    said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "the test panicked without a message".to_owned())
}

/// Lists a module's tests for the runner.
macro_rules! trials {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
            vec![$(crate::support::trial(module_path!(), stringify!($name), false, $name)),*]
        }
    };
}
/// Lists a module's tests that must run alone, because they stop a role or a plane.
macro_rules! lone_trials {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn lone_trials() -> Vec<libtest_mimic::Trial> {
            vec![$(crate::support::trial(module_path!(), stringify!($name), true, $name)),*]
        }
    };
}
pub(crate) use {lone_trials, trials};

/// Runs all `groups` one after the other, `together` beside each other and the rest one at a time, and says whether
/// one failed. The runner knows one filter; here it may be several, with commas between them.
pub(crate) fn run_all(
    together: Vec<libtest_mimic::Trial>,
    one_at_a_time: Vec<Vec<libtest_mimic::Trial>>,
    parallel: usize,
) -> bool {
    // The runner prints each failure; of panics elsewhere one line is enough.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    let mut arguments = libtest_mimic::Arguments::from_args();
    arguments.test_threads.get_or_insert(parallel);
    let parts = arguments.filter.take_if(|filter| filter.contains(','));
    let chosen = |mut trials: Vec<libtest_mimic::Trial>| {
        trials.retain(|trial| {
            let among = |parts: &String| parts.split(',').any(|part| trial.name().contains(part));
            parts.as_ref().is_none_or(among)
        });
        trials
    };
    let mut failed = libtest_mimic::run(&arguments, chosen(together)).has_failed();
    arguments.test_threads = Some(1);
    for group in one_at_a_time {
        failed |= libtest_mimic::run(&arguments, chosen(group)).has_failed();
    }
    failed
}
