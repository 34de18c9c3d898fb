//! Planes, the gateway and the cells as processes, waits, and what a failure shows.

#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/audit.rs"]
pub(crate) mod audit;
pub(crate) mod case;
pub(crate) mod cell;
#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/credentials.rs"]
mod credentials;
mod dump;
#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/gateway.rs"]
pub(crate) mod gateway;
#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/http.rs"]
mod http;
pub(crate) mod kinds;
pub(crate) mod line;
pub(crate) mod objects;
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
#[path = "../../e2e/support/trials.rs"]
mod trials;

pub(crate) use case::{Case, condition, label, says, uid};
pub(crate) use objects::Wish;
pub(crate) use plane::{seconds, wait_for};
pub(crate) use trials::{lone_trials, run_all, text, trials, with_cleanup};

use futures::FutureExt;
use libtest_mimic::{Failed, Trial};
use std::panic::AssertUnwindSafe;

/// The longest a test may take, cleaning up included.
const LIMIT: u64 = 400;

/// Makes a test of the runner out of an async function; one that runs `alone` may leave something stopped or cut when
/// it fails.
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
    let problem = match tokio::time::timeout(seconds(LIMIT), body.catch_unwind()).await {
        Ok(Ok(())) => {
            eprintln!("    {name}: {:.1} s", began.elapsed().as_secs_f64());
            return Ok(());
        }
        Ok(Err(panic)) => text(&*panic),
        Err(_) => format!("the test took more than {LIMIT} s"),
    };
    let dumped = dump::write(&case, name, &problem).await;
    // The objects of a failed test would disturb the others: their namespace goes, but nobody waits for it.
    case.abandon().await;
    if alone
        && AssertUnwindSafe(case.suite.recover())
            .catch_unwind()
            .await
            .is_err()
    {
        eprintln!(
            "{name}: planes and roles could not be put back to work; later failures may come from that"
        );
    }
    Err(format!("{problem}\n{dumped}").into())
}
