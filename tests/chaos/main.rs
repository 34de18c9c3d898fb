//! Chaos on real planes (`make chaos`): docs/reliability.md, "On real planes".
//!
//! Tenants and cells work on a real hub, two projects and two cells while gateways, API servers and etcd are killed and
//! stopped. Then the load ends, and the state of all planes is compared with what was asked for.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cells;
mod compare;
mod crashes;
mod faults;
mod load;
mod memory;
mod pending;
mod process;
mod replicas;
mod report;
mod rest;
mod rng;
mod silent;
mod snapshot;
#[allow(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "the end-to-end suite's support, used here in part"
)]
#[path = "../e2e/support/mod.rs"]
mod support;
mod sure;
mod wanted;

use cells::Program;
use compare::Asked;
use faults::{Fault, Faults};
use fedgate_sandbox::HubControllers;
use futures::FutureExt;
use load::Tenant;
use replicas::{Blow, Pair};
use report::Report;
use rng::Rng;
use snapshot::Snapshot;
use std::{
    hash::{BuildHasher, RandomState},
    panic::AssertUnwindSafe,
    path::Path,
    sync::Arc,
    time::Duration,
};
use support::{
    Cell, RUNTIME,
    federated::kinds_flags,
    gateway::{Gateway, Projects, Setup},
    seconds,
    suite::Suite,
};
use tokio::{sync::watch, task::JoinHandle, time::sleep};

/// Pause of one tenant between two operations, on average.
const PAUSE: Duration = Duration::from_millis(700);
/// Beside the load's own time: start, convergence, rest, restart.
const LIMIT: Duration = seconds(600);
/// How long nothing may be written at rest.
const QUIET: Duration = seconds(20);
/// Load shorter than this is a smoke test: fewer kinds of faults, one hand-over, and less rest.
const SMOKE: u64 = 60;

/// What one run is to be.
struct Plan {
    seed: u64,
    load: u64,
}

impl Plan {
    fn from_env() -> Self {
        let number = |name: &str| {
            let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
            let number = text.parse::<u64>();
            Some(number.unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
        };
        Self {
            seed: number("FEDGATE_CHAOS_SEED")
                .unwrap_or_else(|| u64::from(u32::MAX) & RandomState::new().hash_one(0)),
            load: number("FEDGATE_CHAOS_SECONDS").unwrap_or(210).max(10),
        }
    }

    fn smoke(&self) -> bool {
        self.load < SMOKE
    }
}

/// The gateways of a run.
struct Gateways {
    /// Alone and without election, so that a restarted one writes at once.
    alone: Gateway,
    pair: Pair,
}

impl Gateways {
    async fn new(suite: &Suite) -> Self {
        let alone = Gateway::new(Setup {
            hub: suite.gateway.hub_kubeconfig().to_owned(),
            projects: Projects::Folder(suite.gateway.projects().to_owned()),
            kinds: Some(kinds_flags()),
            log: suite.dir.join("gateway-alone.log"),
            further: vec!["--leader-elect=false".into()],
        });
        Self {
            alone,
            pair: Pair::new(suite).await,
        }
    }

    async fn end(&self, suite: &Suite) {
        self.alone.kill().await;
        self.pair.second.kill().await;
        suite.gateway.kill().await;
    }

    /// Lines that no gateway may write.
    fn panics(&self, suite: &Suite) -> Vec<String> {
        [&self.alone, &self.pair.second, &suite.gateway]
            .iter()
            .flat_map(|gateway| gateway.log_since(0))
            .filter(|line| line.contains("panicked"))
            .collect()
    }
}

/// Tenants and cells at work.
struct Load {
    stop: watch::Sender<bool>,
    lively: watch::Sender<bool>,
    end: watch::Sender<bool>,
    tenants: Vec<(&'static str, JoinHandle<Tenant>)>,
    cells: Vec<JoinHandle<Program>>,
}

impl Load {
    fn begin(suite: &Suite, rng: &Rng) -> Self {
        let (stop, lively, end) = (
            watch::Sender::new(false),
            watch::Sender::new(true),
            watch::Sender::new(false),
        );
        let homes = [
            ("alpha", &suite.alpha, "shop"),
            ("alpha", &suite.alpha, "press"),
            ("alpha", &suite.alpha, "games"),
            ("beta", &suite.beta, "shop"),
            ("beta", &suite.beta, "lab"),
        ];
        let tenants = homes.iter().zip(1..).map(|((project, plane, ns), number)| {
            let tenant = Tenant::new(plane, &suite.hub, ns, rng.fork(number));
            (*project, tokio::spawn(tenant.run(PAUSE, stop.subscribe())))
        });
        let cells = [&suite.dfw, &suite.lhr].into_iter().zip(101..);
        let cells = cells.map(|(access, number)| {
            let program = Program::new(Cell::new(access), rng.fork(number));
            tokio::spawn(program.run(lively.subscribe(), end.subscribe()))
        });
        Self {
            tenants: tenants.collect(),
            cells: cells.collect(),
            stop,
            lively,
            end,
        }
    }

    /// Ends what tenants do and what cells do by themselves; cells go on doing what is asked of them.
    async fn calm(&mut self) -> Vec<(&'static str, Tenant)> {
        self.stop.send_replace(true);
        self.lively.send_replace(false);
        let mut tenants = Vec::new();
        for (project, tenant) in self.tenants.drain(..) {
            tenants.push((project, tenant.await.expect("a tenant works to the end")));
        }
        tenants
    }

    async fn finish(&mut self, report: &mut Report) {
        self.end.send_replace(true);
        for cell in self.cells.drain(..) {
            let program = cell.await.expect("a cell works to the end");
            for (what, count) in program.counts {
                *report.cells.entry(what.to_owned()).or_default() += count;
            }
            if !report.differences.is_empty() && !program.trouble.is_empty() {
                eprintln!("    a cell's last trouble: {}", program.trouble);
            }
        }
    }
}

/// The first part: one gateway, killed again and again, while the planes are disturbed in two overlapping rows.
async fn crashes(suite: &Arc<Suite>, gateways: &Gateways, plan: &Plan, rng: &Rng, report: &mut Report) {
    use Fault::{Compact, CompactAndKillServer, FreezeEtcd, FreezeServer, KillServer};
    eprintln!("chaos: one gateway, killed again and again");
    gateways.alone.start().await;
    report.memory_kib.look(&gateways.alone).await;
    let stop = watch::Sender::new(false);
    let (storage, servers): (&[Fault], &[Fault]) = if plan.smoke() {
        (&[FreezeEtcd], &[CompactAndKillServer("alpha"), KillServer("hub")])
    } else {
        (
            &[FreezeEtcd, Compact],
            &[
                KillServer("hub"),
                KillServer("alpha"),
                FreezeServer("hub"),
                FreezeServer("beta"),
                CompactAndKillServer("hub"),
                CompactAndKillServer("beta"),
            ],
        )
    };
    let pauses = if plan.smoke() {
        [(1, 3), (1, 3)]
    } else {
        [(8, 16), (3, 10)]
    };
    let killing = crashes::run(&gateways.alone, rng.fork(201), stop.subscribe());
    let rows = [(storage, pauses[0], 202), (servers, pauses[1], 203)].map(|(faults, pause, number)| {
        Faults::new(suite, rng.fork(number)).run(faults, pause, stop.subscribe())
    });
    let [storage, servers] = rows;
    let timer = async {
        sleep(seconds(plan.load * 3 / 5)).await;
        stop.send_replace(true);
    };
    let (seen, storage, servers, ()) = tokio::join!(killing, storage, servers, timer);
    report.fail("the gateway ended by itself", &seen.ends);
    report
        .faults
        .insert("kill -9 of the gateway".to_owned(), seen.kills);
    for row in [storage, servers] {
        report.faults.extend(row.counts);
    }
    let memory = &mut report.memory_kib;
    memory.peak = memory.peak.max(seen.memory.peak);
    gateways.alone.kill().await;
}

/// The second part: two replicas, of which the one that leads is brought down; a project's plane is disturbed meanwhile.
async fn hand_overs(suite: &Arc<Suite>, gateways: &Gateways, plan: &Plan, rng: &Rng, report: &mut Report) {
    eprintln!("chaos: two replicas");
    let mark = suite.hub_log.mark();
    let stop = watch::Sender::new(false);
    let blows: &[Blow] = if plan.smoke() {
        &[Blow::Term]
    } else {
        &[Blow::Kill, Blow::Term, Blow::Stop, Blow::Term]
    };
    let faults = [Fault::Compact, Fault::KillServer("beta")];
    let meanwhile = Faults::new(suite, rng.fork(204)).run(&faults, (8, 16), stop.subscribe());
    let striking = async {
        let time = seconds(plan.load * 2 / 5);
        let (pair, least) = (&gateways.pair, blows.len());
        let seen = pair
            .run(&suite.gateway, blows, least, time, &mut report.memory_kib)
            .await;
        stop.send_replace(true);
        seen
    };
    let (overs, meanwhile) = tokio::join!(striking, meanwhile);
    for (fault, count) in meanwhile.counts {
        *report.faults.entry(fault).or_default() += count;
    }
    for over in &overs {
        *report
            .faults
            .entry(format!("{} of the leader", over.blow))
            .or_default() += 1;
        if over.too_late {
            report.failures.push(format!("hand-over took too long: {over:?}"));
        }
    }
    report.hand_overs = overs;
    let strays = replicas::writes_without_lease(suite, mark, &gateways.pair.second_user);
    report.fail("written on the hub without the Lease", &strays);
}

/// The end: what is there against what was asked for, then rest, then a restart.
async fn judge(suite: &Suite, gateways: &Gateways, plan: &Plan, load: &mut Load, report: &mut Report) {
    let tenants = load.calm().await;
    for (_, tenant) in &tenants {
        for (what, count) in &tenant.counts {
            *report.operations.entry((*what).to_owned()).or_default() += count;
        }
        report.fail("a tenant was told", &tenant.complaints);
    }
    let asked: Vec<Asked<'_>> = tenants
        .iter()
        .map(|(project, tenant)| Asked {
            project,
            ns: &tenant.ns,
            wanted: &tenant.wanted,
        })
        .collect();
    eprintln!("chaos: the load has ended");
    let end = rest::converge(suite, &asked).await;
    report.objects = end.state.0.len();
    report.converged_after_seconds = end.after.map(|after| after.as_secs_f64());
    report.differences = end.differences;
    load.finish(report).await;
    report.fail("waits without a word", &silent::silent(&end.state));
    if !report.differences.is_empty() {
        return;
    }
    if silent::silent(&silent::muted(&end.state)).is_empty() {
        report
            .failures
            .push("a deployment that waits without a word is not missed".to_owned());
    }
    let unguarded = compare::unguarded(&end.state, &asked);
    let unguarded: Vec<String> = unguarded.iter().map(|at| format!("{at:?}")).collect();
    report.fail("the comparison does not miss", &unguarded);
    let user = &gateways.pair.second_user;
    let time = if plan.smoke() { QUIET / 2 } else { QUIET };
    report.fail("written at rest", &rest::quiet(suite, user, time).await);
    gateways.pair.second.stop().await;
    report.fail("written by a restart", &rest::restart(suite, user).await);
    report.memory_kib.look(&suite.gateway).await;
    report.fail("a gateway panicked", &gateways.panics(suite));
}

async fn chaos(suite: &Arc<Suite>, gateways: &Gateways, plan: &Plan, report: &mut Report) {
    let rng = Rng::new(plan.seed);
    let mut load = Load::begin(suite, &rng);
    crashes(suite, gateways, plan, &rng, report).await;
    hand_overs(suite, gateways, plan, &rng, report).await;
    judge(suite, gateways, plan, &mut load, report).await;
}

async fn run(plan: &Plan) -> anyhow::Result<bool> {
    let mut report = Report {
        seed: plan.seed,
        load_seconds: plan.load,
        hub_controllers: HubControllers::from_env()?.to_string(),
        ..Report::default()
    };
    let suite = Arc::new(Suite::up("chaos", true, &[]).await?);
    suite.dfw.is_admitted(&suite.hub).await;
    suite.hub.join_unready("absent", wanted::NOWHERE).await;
    let gateways = Gateways::new(&suite).await;
    let limit = LIMIT + seconds(plan.load);
    let body = AssertUnwindSafe(chaos(&suite, &gateways, plan, &mut report)).catch_unwind();
    let outcome = tokio::time::timeout(limit, body).await;
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(panic)) => report.failures.push(support::text(&*panic)),
        Err(_) => {
            report.failures.push(format!("not finished after {limit:?}"));
            report.fail("not finished", &pending::lines());
            let state = Snapshot::take(&suite).await.unwrap_or_default();
            report.fail("not finished", &pending::stuck(&state));
        }
    }
    for difference in &report.differences {
        println!("{difference:#?}");
        for line in rest::history(&suite, &difference.name) {
            println!("    {line}");
        }
    }
    for failure in &report.failures {
        println!("FAILED {failure}");
    }
    gateways.end(&suite).await;
    suite.down().await;
    report.print();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
    let folder = target.unwrap_or(Path::new("target")).join("chaos");
    let file = report.write(&folder)?;
    println!("{}", file.display());
    if !report.holds() {
        println!("{}", report::keep_logs(&suite.dir, &file)?.display());
    }
    Ok(report.holds())
}

fn main() {
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    let plan = Plan::from_env();
    println!(
        "chaos: FEDGATE_CHAOS_SEED={} FEDGATE_CHAOS_SECONDS={}",
        plan.seed, plan.load
    );
    let held = RUNTIME.block_on(run(&plan));
    let held = held.unwrap_or_else(|error| {
        println!("FAILED {error:#}");
        false
    });
    println!(
        "chaos: {}",
        if held {
            "all of it holds"
        } else {
            "it does NOT hold"
        }
    );
    std::process::exit(i32::from(!held));
}
