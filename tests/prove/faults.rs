//! Every class of error at every place where the gateway asks for something: each ends in the state of a calm run, and
//! violates nothing on the way. `FEDGATE_PROVE_STRIDE=1` plays the whole matrix.

use crate::{
    invariants::Watchman,
    ops::Op::*,
    rig::{GATEWAY, HUB, Rig, rest, simulate, stride},
    scenarios::SETTLED,
    state::{State, differences, state},
};
use fedgate_simulator::{Entry, Fault, Rule, Verb, When};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::Instant;

/// A place in the code that asks, as the planes see it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Site {
    hub: bool,
    verb: Verb,
    resource: String,
    status: bool,
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (plane, status) = (
            if self.hub { "hub" } else { "project" },
            if self.status { "/status" } else { "" },
        );
        write!(f, "{plane} {:?} {}{status}", self.verb, self.resource)
    }
}

/// How long a fault lasts that does.
const WINDOW: Duration = Duration::from_secs(20);
/// Time between two steps.
const STEP: Duration = Duration::from_secs(12);
/// After a fault that lasted, all must be well in this time.
const CONVERGED: Duration = Duration::from_secs(30);
/// What admission has refused is asked again after five minutes, and a watch on a slow line ends by then.
const REFUSED: Duration = Duration::from_mins(6);

/// The calls that a fault hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hits {
    /// The first two.
    Two,
    /// All for [`WINDOW`].
    Lasting,
    /// The same, and what it leaves behind is looked at again after [`REFUSED`] at the latest.
    Slow,
}
use Hits::{Lasting, Slow, Two};

/// The classes, and by what they are called in the matrix.
fn classes() -> Vec<(&'static str, Fault, Hits)> {
    vec![
        ("dropped", Fault::DropBefore, Two),
        ("answer lost", Fault::LoseAnswer, Two),
        ("409", Fault::Conflict, Two),
        ("410", Fault::Gone, Two),
        ("429", Fault::TooMany { retry_after: None }, Two),
        ("429 after 3 s", Fault::TooMany { retry_after: Some(3) }, Two),
        ("500", Fault::Internal, Two),
        ("503", Fault::Unavailable, Two),
        ("504 applied", Fault::TimeoutAfterApply, Two),
        ("401", Fault::Unauthorized, Lasting),
        ("403", Fault::Forbidden, Lasting),
        ("403 by admission", Fault::Denied, Slow),
        ("truncated", Fault::TruncatedLine, Two),
        ("hangs", Fault::Hang, Two),
        ("hangs applied", Fault::HangAfterApply, Two),
        (
            "drips",
            Fault::SlowDrip {
                bytes: 64,
                every: Duration::from_millis(400),
            },
            Slow,
        ),
        ("reset", Fault::Reset, Two),
        ("html 502", Fault::HtmlBadGateway, Two),
        ("padded", Fault::Padded { bytes: 300_000 }, Two),
        ("nested", Fault::Nested { levels: 200 }, Two),
    ]
}

/// Every second field of the matrix is played, unless the environment says otherwise.
const STRIDE: u64 = 2;

/// What came of a course.
struct Course {
    end: State,
    /// What was violated on the way.
    violated: Vec<String>,
    sites: BTreeSet<Site>,
    hits: u64,
    /// The last write to a plane, counted from the last step, or from the last fault if that was later.
    tail: Duration,
}

/// A course in which every place asks at least once; `fault` is in force from its beginning.
async fn course(fault: Option<(&Site, &Fault, Hits)>) -> Course {
    let mut rig = Rig::new(1, &["p"]);
    let rules = fault
        .map(|(site, fault, hits)| rules(&rig, site, fault, hits))
        .unwrap_or_default();
    rig.elected = true;
    rig.start();
    let steps = [
        vec![
            Secret("p", "default", "login", "b25l"),
            Workload("p", "default", "shop", &["DFW", "LHR"]),
            Config("p", "default", "settings", "one"),
            CreateWith("p", "default", "web", "DFW", "settings"),
            Create("p", "default", "api", "LHR", 1),
        ],
        vec![
            Config("p", "default", "settings", "two"),
            MountSecret("p", "default", "web", "login"),
            Report("api-0", false),
        ],
        vec![
            EditCopy("api"),
            Move("p", "default", "api", "FRA"),
            Namespace("p", "shop"),
            Secret("p", "default", "login", "dHdv"),
        ],
        vec![
            Create("p", "shop", "web", "DFW", 1),
            Workload("p", "default", "shop", &["LHR"]),
        ],
        vec![
            DropCopy("api"),
            DropPolicies,
            Suspend("p", "default", "web", true),
        ],
        vec![
            Delete("p", "default", "web"),
            DropNamespace("p", "shop"),
            DropWorkload("p", "default", "shop"),
        ],
    ];
    let mut last_step = Instant::now();
    for step in steps {
        last_step = Instant::now();
        for op in step {
            op.apply(&mut rig);
        }
        rest(STEP).await;
    }
    rest(SETTLED).await;
    if fault.is_some_and(|(.., hits)| hits == Slow) {
        rest(REFUSED).await;
    }
    let hits = rules.iter().map(|rule| rig.simulator.faults().hits(*rule)).sum();
    let mut log = rig.simulator.log().entries();
    log.retain(|e| &*e.user == GATEWAY && &*e.resource != "events");
    let at = |wanted: &dyn Fn(&Entry) -> bool| log.iter().rev().find(|e| wanted(e)).map(|e| e.at);
    let disturbed = at(&|e| e.fault.is_some()).unwrap_or(last_step).max(last_step);
    let wrote = at(&|e| e.changed && &*e.resource != "leases").unwrap_or(disturbed);
    Course {
        end: state(&rig),
        violated: Watchman::default().violations(&rig.simulator.take_changes()),
        sites: log
            .iter()
            .map(|e| Site {
                hub: &*e.plane == HUB,
                verb: e.verb,
                resource: e.resource.to_string(),
                status: e.subresource.as_deref() == Some("status"),
            })
            .collect(),
        hits,
        tail: wrote.saturating_duration_since(disturbed),
    }
}

fn rules(rig: &Rig, site: &Site, fault: &Fault, hits: Hits) -> Vec<fedgate_simulator::RuleId> {
    let rule = |when| {
        Rule::new(when, fault.clone())
            .plane(if site.hub { HUB } else { "p" })
            .user(GATEWAY)
            .verb(site.verb)
            .kind(&site.resource)
            .status(site.status)
    };
    let faults = rig.simulator.faults();
    if hits == Two {
        vec![faults.add(rule(When::Nth(1))), faults.add(rule(When::Nth(2)))]
    } else {
        // From the first call on, whenever that is.
        vec![faults.add(rule(When::Within(WINDOW)))]
    }
}

/// One column of the matrix: a class of errors at every place.
fn column(names: &[&str]) {
    let calm = simulate(course(None));
    assert_eq!(calm.violated, Vec::<String>::new(), "undisturbed");
    let mut wrong = Vec::new();
    let stride = stride("FEDGATE_PROVE_STRIDE", STRIDE);
    for (class, (name, fault, lasts)) in (0..).zip(classes()) {
        if !names.contains(&name) {
            continue;
        }
        // Each place meets every n-th class, and each class every n-th place.
        let sites = (class..).zip(&calm.sites);
        let sites = sites.filter(|(n, _)| n % stride == 0).map(|(_, site)| site);
        // Admission looks at nothing that is only read.
        for site in sites.filter(|site| fault != Fault::Denied || site.verb.writes()) {
            let run = simulate(course(Some((site, &fault, lasts))));
            let mut lines = differences(&calm.end, &run.end);
            lines.extend(run.violated);
            if lasts != Slow && run.tail > calm.tail + CONVERGED {
                lines.push(format!(
                    "written {:?} after the fault, by itself it takes {:?}",
                    run.tail, calm.tail
                ));
            }
            if run.hits == 0 {
                lines.push("it was never met".to_owned());
            }
            println!(
                "{name:>16} | {site:<60} | met {} times | over after {:?} | {}",
                run.hits,
                run.tail,
                if lines.is_empty() { "well" } else { "WRONG" }
            );
            if !lines.is_empty() {
                wrong.push(format!("{name} at {site}:\n{}", lines.join("\n")));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of the matrix is wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

macro_rules! matrix {
    ($($test:ident: [$($name:literal),+]),+ $(,)?) => {
        $(#[test]
        fn $test() {
            column(&[$($name),+]);
        })+

        #[test]
        fn every_class_has_its_column() {
            let columns = [$($($name),+),+];
            assert_eq!(columns.to_vec(), classes().iter().map(|(name, ..)| *name).collect::<Vec<_>>());
        }
    };
}

matrix!(
    requests_and_answers_that_are_lost: ["dropped", "answer lost"],
    conflicts_and_old_versions: ["409", "410"],
    too_many_requests: ["429", "429 after 3 s"],
    servers_that_fail: ["500", "503", "504 applied"],
    credentials_that_are_refused: ["401", "403"],
    objects_that_are_refused: ["403 by admission"],
    answers_that_break_off: ["truncated"],
    servers_that_hang: ["hangs", "hangs applied", "drips"],
    connections_that_break: ["reset", "html 502"],
    answers_that_are_large_or_deep: ["padded", "nested"],
);

/// A move of the Namespace to another set hangs for as long as a set without users stays.
#[test]
fn a_city_set_stays_while_a_namespace_is_moved_to_it() {
    let site = Site {
        hub: true,
        verb: Verb::Patch,
        resource: "namespaces".to_owned(),
        status: false,
    };
    let run = simulate(course(Some((&site, &Fault::Hang, Two))));
    assert_eq!(run.hits, 2);
    assert_eq!(run.violated, Vec::<String>::new());
}
