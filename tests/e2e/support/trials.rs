//! Parts that the runners of all suites share: lists of tests, the run of one test, and the text of a panic.

use futures::FutureExt;
use libtest_mimic::{Failed, Trial};
use std::{panic::AssertUnwindSafe, sync::LazyLock, time::Duration};
use tokio::runtime::Runtime;

/// The runtime of all tests of a suite, whose planes outlive each test.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("start the runtime"));

/// A test's own part of a suite's planes.
pub(crate) trait TestCase: Clone {
    /// The planes, and a namespace of the test.
    async fn begin(name: &str) -> Self;
    /// The longest time that a test may take, cleaning up included.
    fn limit() -> Duration;
    /// Deletes the test's objects, and waits for their end.
    async fn clean_up(&self);
    /// Writes down the state of the planes after a failure; returns where.
    async fn dump(&self, name: &str, problem: &str, alone: bool) -> String;
    /// Deletes the objects of a failed test, which would disturb the others, without waiting.
    async fn abandon(&self);
    /// Puts planes and roles back to work that a test has stopped.
    async fn recover(&self);
}

/// Makes a test of the runner out of an async function; one that runs `alone` may leave something stopped or cut when
/// it fails. `make test` runs those that are `core`, `make verify` all.
pub(crate) fn trial<C: TestCase + 'static, F>(
    module: &str,
    name: &str,
    core: bool,
    alone: bool,
    test: fn(C) -> F,
) -> Trial
where
    F: Future<Output = ()> + 'static,
{
    let name = format!("{}::{name}", module.rsplit("::").next().unwrap_or(module));
    Trial::test(name.clone(), move || RUNTIME.block_on(run(&name, alone, test))).with_ignored_flag(!core)
}

async fn run<C: TestCase, F>(name: &str, alone: bool, test: fn(C) -> F) -> Result<(), Failed>
where
    F: Future<Output = ()>,
{
    let case = match AssertUnwindSafe(C::begin(name)).catch_unwind().await {
        Ok(case) => case,
        Err(panic) => return Err(text(&*panic).into()),
    };
    let began = tokio::time::Instant::now();
    let body = AssertUnwindSafe(async {
        test(case.clone()).await;
        case.clean_up().await;
    });
    let problem = match tokio::time::timeout(C::limit(), body.catch_unwind()).await {
        Ok(Ok(())) => {
            eprintln!("    {name}: {:.1} s", began.elapsed().as_secs_f64());
            return Ok(());
        }
        Ok(Err(panic)) => text(&*panic),
        Err(_) => format!("the test took more than {} s", C::limit().as_secs()),
    };
    let dumped = case.dump(name, &problem, alone).await;
    case.abandon().await;
    if alone && AssertUnwindSafe(case.recover()).catch_unwind().await.is_err() {
        eprintln!(
            "{name}: planes and roles could not be put back to work; later failures may come from that"
        );
    }
    Err(format!("{problem}\n{dumped}").into())
}

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

/// Lists a module's tests for the runner. `make test` runs those marked `#[core]`, `make verify` all.
macro_rules! trials {
    ($($(#[$tier:tt])? $name:ident),* $(,)?) => {
        pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
            vec![$(crate::support::trial(
                module_path!(), stringify!($name), crate::support::is_core!($($tier)?), false, $name,
            )),*]
        }
    };
}
/// Lists a module's tests that must run alone, because they stop a role or a plane.
macro_rules! lone_trials {
    ($($(#[$tier:tt])? $name:ident),* $(,)?) => {
        pub(crate) fn lone_trials() -> Vec<libtest_mimic::Trial> {
            vec![$(crate::support::trial(
                module_path!(), stringify!($name), crate::support::is_core!($($tier)?), true, $name,
            )),*]
        }
    };
}
/// Whether a test is marked `#[core]`; no other mark compiles.
macro_rules! is_core {
    () => {
        false
    };
    (core) => {
        true
    };
}
pub(crate) use {is_core, lone_trials, trials};
