//! Planes, the gateway process, the played cell, waits, and what a failure shows.

pub(crate) mod audit;
pub(crate) mod case;
pub(crate) mod cell;
pub(crate) mod credentials;
mod dump;
pub(crate) mod gate;
pub(crate) mod gateway;
pub(crate) mod http;
pub(crate) mod kinds;
pub(crate) mod objects;
pub(crate) mod plane;
pub(crate) mod process;
pub(crate) mod rights;
pub(crate) mod role;
pub(crate) mod suite;
mod trials;

pub(crate) use audit::Entry;
pub(crate) use case::{Case, annotation, condition, has_finalizer, hub_namespace, label, uid, unique_city};
pub(crate) use cell::Cell;
pub(crate) use objects::{deployment, deployment_with_data};
pub(crate) use plane::{seconds, wait_for};
pub(crate) use suite::rest_seconds;
pub(crate) use trials::{lone_trials, run_all, text, trials, with_cleanup};

use futures::FutureExt;
use libtest_mimic::{Failed, Trial};
use std::panic::AssertUnwindSafe;

/// The longest a test may take beside its two rests, cleaning up included.
const TEST_LIMIT: u64 = 400;

/// Makes a test of the runner out of an async function; one that runs `alone` may leave a plane stopped when it fails.
pub(crate) fn trial<F>(module: &str, name: &str, alone: bool, test: fn(Case) -> F) -> Trial
where
    F: Future<Output = ()> + Send + 'static,
{
    let name = format!("{}::{name}", module.rsplit("::").next().unwrap_or(module));
    Trial::test(name.clone(), move || {
        suite::RUNTIME.block_on(run(&name, alone, test))
    })
}

async fn run<F>(name: &str, alone: bool, test: fn(Case) -> F) -> Result<(), Failed>
where
    F: Future<Output = ()> + Send + 'static,
{
    let case = match AssertUnwindSafe(Case::new(name)).catch_unwind().await {
        Ok(case) => case,
        Err(panic) => return Err(text(&*panic).into()),
    };
    let began = tokio::time::Instant::now();
    let body = AssertUnwindSafe(async {
        test(case.clone()).await;
        case.clean_up().await;
    });
    let limit = TEST_LIMIT + 2 * rest_seconds();
    let outcome = tokio::time::timeout(seconds(limit), body.catch_unwind()).await;
    let problem = match outcome {
        Ok(Ok(())) => {
            eprintln!("    {name}: {:.1} s", began.elapsed().as_secs_f64());
            return Ok(());
        }
        Ok(Err(panic)) => text(&*panic),
        Err(_) => format!("the test took more than {limit} s"),
    };
    let dumped = dump::write(&case, name, &problem, alone).await;
    // The objects of a failed test would disturb the others: their namespace goes, but nobody waits for it.
    let _ = case
        .project
        .try_delete(&kinds::NAMESPACE, "", &case.ns, None)
        .await;
    if alone
        && AssertUnwindSafe(case.suite.recover(&case.ns))
            .catch_unwind()
            .await
            .is_err()
    {
        eprintln!(
            "{name}: planes and gateway could not be put back to work; later failures may come from that"
        );
    }
    Err(format!("{problem}\n{dumped}").into())
}
