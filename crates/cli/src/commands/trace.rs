//! `trace`: the way of a Workload through all planes, as its project tells it, and the first broken link (contract: cli.md
//! §10).

use super::watching::Watching;
use crate::{
    args::TraceArgs,
    error::{Error, Kind},
    output::{
        Output,
        table::{Cell, Table},
    },
    plane::{Plane, Resource},
    rollout::Locations,
    time::age,
    trace::{Chain, Evidence, Link, Verdict, chain},
    view::{City, Instances, Joined, Object},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

const COLUMNS: &[&str] = &[
    "CITY",
    "HOP",
    "OBJECT",
    "STATE",
    "AGE",
    "DETAIL",
    "PLACEMENT",
    "GENERATION",
    "SOURCE",
];

/// Columns of the narrow form.
const NARROW: usize = 6;

/// Traces once, or at each change until all is whole.
pub(crate) async fn run(plane: &Plane, output: &Output, args: &TraceArgs) -> Result<(), Error> {
    let mut tracer = Tracer {
        plane,
        args,
        locations: Locations::default(),
        stuck_after: SignedDuration::try_from(args.stuck_after).unwrap_or(SignedDuration::MAX),
    };
    if args.watch {
        return tracer.watch(output).await;
    }
    let (joined, instances) = plane.joined(&args.name).await?;
    let trace = tracer.trace(joined, &instances).await?;
    output.result(&trace.text(output), &trace.object(&args.name))?;
    let Verdict {
        fault, line, next, ..
    } = trace.verdict;
    // The result has said it already.
    fault.map_or(Ok(()), |kind| {
        Err(Error {
            next,
            ..Error::new(kind, line).shown()
        })
    })
}

struct Tracer<'a> {
    plane: &'a Plane,
    args: &'a TraceArgs,
    locations: Locations,
    stuck_after: SignedDuration,
}

/// A trace as it is shown.
struct Trace {
    chains: Vec<Chain>,
    verdict: Verdict,
    now: Timestamp,
}

impl Tracer<'_> {
    /// Traces at each change of the project, and when a hop has waited for too long.
    async fn watch(&mut self, output: &Output) -> Result<(), Error> {
        let mut watching = Watching::start(self.plane, output, &self.args.name).await?;
        let mut last: Vec<Chain> = Vec::new();
        loop {
            let now = self.plane.clock.now();
            let due = last
                .iter()
                .filter_map(|chain| chain.next_change(self.stuck_after, now));
            let due = due.min().and_then(|due| due.try_into().ok());
            let (joined, instances) = watching.next(due, std::future::pending()).await?;
            let trace = self.trace(joined, &instances).await?;
            if trace.chains == last {
                continue;
            }
            watching.show(&trace.text(output), &trace.object(&self.args.name))?;
            if trace.verdict.fault.is_none() {
                return Ok(());
            }
            last = trace.chains;
        }
    }

    /// Traces the placements and cities that are asked for.
    async fn trace(&mut self, mut joined: Joined, instances: &Instances) -> Result<Trace, Error> {
        self.locations
            .map(self.plane, std::slice::from_mut(&mut joined))
            .await;
        if !joined.cities.iter().any(|(city, _)| self.is_asked(city)) {
            return Err(self.no_city(&joined));
        }
        let now = self.plane.clock.now();
        let mut chains = self.chains(&joined, instances, &[], now);
        if chains.iter().any(Chain::is_unprojected) {
            // A user who may not list Events still gets the trace.
            let events = self.plane.list(Resource::Events).await.unwrap_or_default();
            chains = self.chains(&joined, instances, &events, now);
        }
        Ok(Trace {
            verdict: Verdict::of(&self.plane.project, &joined.workload, &chains, now),
            chains,
            now,
        })
    }

    fn chains(
        &self,
        joined: &Joined,
        instances: &Instances,
        events: &[Object],
        now: Timestamp,
    ) -> Vec<Chain> {
        let asked = joined.cities.iter().filter(|(city, _)| self.is_asked(city));
        let chains = asked.map(|(city, deployment)| {
            let evidence = Evidence {
                workload: &joined.workload,
                city,
                deployment: deployment.as_ref(),
                instances,
                events,
            };
            chain(&evidence, self.stuck_after, now)
        });
        chains.collect()
    }

    fn is_asked(&self, city: &City) -> bool {
        let is_placed = |name: &String| *name == city.placement;
        let is_called = |name: &String| city.is_called(name);
        self.args.placement.as_ref().is_none_or(is_placed) && self.args.city.as_ref().is_none_or(is_called)
    }

    fn no_city(&self, joined: &Joined) -> Error {
        let name = &self.args.name;
        let what = match (&self.args.placement, &self.args.city) {
            (None, None) => format!("workload {name:?} has no placements"),
            _ => format!("workload {name:?} has no such placement and city"),
        };
        let error =
            Error::new(Kind::NotFound, what).next(format!("kubectl compute workloads describe {name}"));
        let all: Vec<String> = joined.cities.iter().map(|(city, _)| city.to_string()).collect();
        if all.is_empty() {
            error
        } else {
            error.because(format!("it has {}", all.join(", ")))
        }
    }
}

impl Trace {
    /// The trace for people.
    fn text(&self, output: &Output) -> String {
        let mut table = Table::new(COLUMNS);
        for chain in &self.chains {
            for link in &chain.links {
                table.row(row(&chain.city, link, self.now));
            }
        }
        let next = self.verdict.next.as_ref().map(|next| format!("  next: {next}\n"));
        let table = output.table_text(&table, NARROW);
        format!("{table}{}\n{}", self.verdict.line, next.unwrap_or_default())
    }

    /// The trace for programs.
    fn object(&self, name: &str) -> Value {
        let links = |chain: &Chain| -> Vec<Value> {
            let links = chain.links.iter().map(|link| {
                json!({"hop": link.hop.as_str(), "object": link.object, "state": link.state.word().0, "since": link.since,
                    "age": link.since.map(|since| age(since, self.now)), "detail": link.detail,
                    "generation": link.generation, "source": link.source()})
            });
            links.collect()
        };
        let cities = self.chains.iter().map(|chain| {
            let mut object = json!({"hops": links(chain)});
            chain.city.describe(&mut object);
            object
        });
        json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "Trace", "metadata": {"name": name},
            "state": self.verdict.word, "message": self.verdict.line, "cities": cities.collect::<Vec<_>>()})
    }
}

fn row(city: &City, link: &Link, now: Timestamp) -> Vec<Cell> {
    let (word, tone) = link.state.word();
    vec![
        (&*city.shown).into(),
        link.hop.as_str().into(),
        (&*link.object).into(),
        Cell::toned(word, tone),
        link.since.map(|since| age(since, now)).unwrap_or_default().into(),
        (&*link.detail).into(),
        (&*city.placement).into(),
        link.generation.map(|n| n.to_string()).unwrap_or_default().into(),
        link.source().into(),
    ]
}
