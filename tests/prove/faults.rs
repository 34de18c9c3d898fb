//! Every class of error at every place where the gateway asks for something: each ends in the state of a calm run.

use crate::{
    ops::Op::*,
    rig::{GATEWAY, HUB, Rig, rest, simulate},
    scenarios::SETTLED,
    state::{State, differences, state},
};
use fedgate_simulator::{Fault, Rule, Verb, When};
use std::{collections::BTreeSet, time::Duration};

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

/// How long a refusal lasts.
const WINDOW: Duration = Duration::from_secs(20);
/// What is refused for want of rights is asked again after five minutes, and a watch on a slow line ends by then.
const REFUSED: Duration = Duration::from_mins(6);

/// The classes, and by what they are called in the matrix.
fn classes() -> Vec<(&'static str, Fault, bool)> {
    // True: it lasts, as that of a credential or of a slow line does; else it hits the first two calls.
    vec![
        ("dropped", Fault::DropBefore, false),
        ("answer lost", Fault::LoseAnswer, false),
        ("409", Fault::Conflict, false),
        ("410", Fault::Gone, false),
        ("429", Fault::TooMany { retry_after: None }, false),
        ("429 after 3 s", Fault::TooMany { retry_after: Some(3) }, false),
        ("500", Fault::Internal, false),
        ("503", Fault::Unavailable, false),
        ("504 applied", Fault::TimeoutAfterApply, false),
        ("401", Fault::Unauthorized, true),
        ("403", Fault::Forbidden, true),
        ("truncated", Fault::TruncatedLine, false),
        ("hangs", Fault::Hang, false),
        ("hangs applied", Fault::HangAfterApply, false),
        (
            "drips",
            Fault::SlowDrip {
                bytes: 512,
                every: Duration::from_millis(400),
            },
            true,
        ),
        ("reset", Fault::Reset, false),
        ("html 502", Fault::HtmlBadGateway, false),
    ]
}

/// A course in which every place asks at least once; `fault` is in force from its beginning.
async fn course(fault: Option<(&Site, &Fault, bool)>) -> (State, BTreeSet<Site>, u64) {
    let mut rig = Rig::new(1, &["p"]);
    let rules = fault
        .map(|(site, fault, lasts)| rules(&rig, site, fault, lasts))
        .unwrap_or_default();
    rig.start();
    let steps = [
        vec![
            Config("p", "default", "settings", "one"),
            CreateWith("p", "default", "web", "DFW", "settings"),
            Create("p", "default", "api", "LHR", 1),
        ],
        vec![Config("p", "default", "settings", "two"), Report("api-0", false)],
        vec![
            EditCopy("api"),
            Move("p", "default", "api", "FRA"),
            Namespace("p", "shop"),
        ],
        vec![Create("p", "shop", "web", "DFW", 1)],
        vec![
            DropCopy("api"),
            DropPolicies,
            Suspend("p", "default", "web", true),
        ],
        vec![Delete("p", "default", "web"), DropNamespace("p", "shop")],
    ];
    for step in steps {
        for op in step {
            op.apply(&mut rig);
        }
        rest(Duration::from_secs(12)).await;
    }
    rest(SETTLED).await;
    if fault.is_some_and(|(.., lasts)| lasts) {
        rest(REFUSED).await;
    }
    let hits = rules.iter().map(|rule| rig.simulator.faults().hits(*rule)).sum();
    let sites = rig
        .simulator
        .log()
        .entries()
        .iter()
        .filter(|e| &*e.user == GATEWAY && &*e.resource != "events")
        .map(|e| Site {
            hub: &*e.plane == HUB,
            verb: e.verb,
            resource: e.resource.to_string(),
            status: e.subresource.as_deref() == Some("status"),
        })
        .collect();
    (state(&rig), sites, hits)
}

fn rules(rig: &Rig, site: &Site, fault: &Fault, lasts: bool) -> Vec<fedgate_simulator::RuleId> {
    let rule = |when| {
        Rule::new(when, fault.clone())
            .plane(if site.hub { HUB } else { "p" })
            .user(GATEWAY)
            .verb(site.verb)
            .kind(&site.resource)
            .status(site.status)
    };
    let faults = rig.simulator.faults();
    if lasts {
        // From the first call on, whenever that is.
        vec![faults.add(rule(When::Within(WINDOW)))]
    } else {
        vec![faults.add(rule(When::Nth(1))), faults.add(rule(When::Nth(2)))]
    }
}

/// One column of the matrix: a class of errors at every place.
fn column(names: &[&str]) {
    let (calm, sites, _) = simulate(course(None));
    let mut wrong = Vec::new();
    for (name, fault, lasts) in classes().iter().filter(|(name, ..)| names.contains(name)) {
        for site in &sites {
            let (end, _, hits) = simulate(course(Some((site, fault, *lasts))));
            let lines = differences(&calm, &end);
            println!(
                "{name:>14} | {site:<60} | met {hits} times | {}",
                if lines.is_empty() { "well" } else { "WRONG" }
            );
            if hits == 0 {
                wrong.push(format!("{name} at {site}: it was never met"));
            }
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
    answers_that_break_off: ["truncated"],
    servers_that_hang: ["hangs", "hangs applied", "drips"],
    connections_that_break: ["reset", "html 502"],
);
