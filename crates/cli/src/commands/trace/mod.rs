//! `trace`: the way of a Workload through all planes, and the first broken link (contract: cli.md §10).

mod planes;

use crate::{
    args::TraceArgs,
    error::{Error, Kind},
    output::{
        Output,
        screen::Screen,
        style::Tone,
        table::{Cell, Table},
        write,
    },
    plane::{Choice, Follow, Plane, Resource, Selection},
    time::{age, sleep},
    trace::{Chain, Evidence, Link, Verdict, chain},
    view::{City, Object, join},
};
use jiff::{SignedDuration, Timestamp};
use planes::{Planes, hub_namespace};
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
pub(crate) async fn run(
    plane: &Plane,
    output: &Output,
    choice: &Choice,
    args: &TraceArgs,
) -> Result<(), Error> {
    let planes = Planes::open(choice, args).await?;
    let tracer = Tracer {
        plane,
        output,
        args,
        planes,
        stuck_after: SignedDuration::try_from(args.stuck_after).unwrap_or(SignedDuration::MAX),
    };
    if args.watch {
        return tracer.watch().await;
    }
    let (workload, deployments, instances) = tokio::try_join!(
        plane.workload(&args.name),
        plane.list(Resource::Deployments),
        plane.list(Resource::Instances)
    )?;
    let now = plane.clock.now();
    let chains = tracer.chains(workload, deployments, &instances, now).await?;
    let verdict = Verdict::of(&args.name, &chains, now);
    tracer.print(&chains, &verdict, now)?;
    end(&verdict)
}

struct Tracer<'a> {
    plane: &'a Plane,
    output: &'a Output,
    args: &'a TraceArgs,
    planes: Planes,
    stuck_after: SignedDuration,
}

impl Tracer<'_> {
    /// Traces at each change of the project, and when a hop has waited for too long.
    async fn watch(&self) -> Result<(), Error> {
        // A misspelled name is answered at once.
        self.plane.workload(&self.args.name).await?;
        let workload = Selection::Named(self.args.name.clone());
        let mut follow = Follow::start(
            self.plane,
            &[
                (Resource::Workloads, workload),
                (Resource::Deployments, Selection::All),
                (Resource::Instances, Selection::All),
            ],
        )?;
        let mut screen = Screen::stdout();
        let mut last: Vec<Chain> = Vec::new();
        let mut turns: Option<SignedDuration> = None;
        loop {
            let news = tokio::select! {
                news = follow.next() => Some(news?),
                () = sleep(turns.and_then(|turns| turns.try_into().ok())) => None,
            };
            if let Some(notice) = news.and_then(|news| news.notice()) {
                self.output.remark(&notice);
                continue;
            }
            let Some(workload) = follow.objects(Resource::Workloads).pop() else {
                let what = format!("workload {:?} was deleted", self.args.name);
                return Err(Error::new(Kind::NotFound, what));
            };
            let now = self.plane.clock.now();
            let deployments = follow.objects(Resource::Deployments);
            let instances = follow.objects(Resource::Instances);
            let chains = self.chains(workload, deployments, &instances, now).await?;
            turns = chains
                .iter()
                .filter_map(|chain| chain.turns(self.stuck_after, now))
                .min();
            if chains == last {
                continue;
            }
            let verdict = Verdict::of(&self.args.name, &chains, now);
            if self.output.is_text() {
                screen.draw(&self.text(&chains, &verdict, now))?;
            } else {
                let object = object(&self.args.name, &chains, &verdict, now);
                self.output.next_object(&object)?;
            }
            if verdict == Verdict::Whole {
                return Ok(());
            }
            last = chains;
        }
    }

    /// The chains of the placements and cities that are asked for.
    async fn chains(
        &self,
        workload: Object,
        deployments: Vec<Object>,
        instances: &[Object],
        now: Timestamp,
    ) -> Result<Vec<Chain>, Error> {
        let namespace = match &self.planes {
            planes if planes.is_project_alone() => None,
            _ => hub_namespace(self.plane, &deployments).await,
        };
        let hub = match &namespace {
            Some(namespace) => self.planes.hub(namespace).await,
            None => self.planes.without_namespace(),
        };
        let Some(joined) = join(vec![workload], deployments).pop() else {
            return Ok(Vec::new());
        };
        let asked: Vec<_> = joined
            .cities
            .iter()
            .filter(|(city, _)| self.is_asked(city))
            .collect();
        if asked.is_empty() {
            return Err(self.no_city(&joined.cities));
        }
        let cells = asked.iter().map(|(city, deployment)| {
            let namespace = namespace.as_deref().unwrap_or_default();
            self.planes.cell(&hub, namespace, city, deployment.as_ref())
        });
        let cells = futures::future::join_all(cells).await;
        let chains = asked.iter().zip(&cells).map(|((city, deployment), cell)| {
            let evidence = Evidence {
                workload: &joined.workload,
                city,
                deployment: deployment.as_ref(),
                instances,
                hub: &hub,
                cell,
            };
            chain(&evidence, self.stuck_after, now)
        });
        Ok(chains.collect())
    }

    fn is_asked(&self, city: &City) -> bool {
        let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
        is(&self.args.placement, &city.placement) && is(&self.args.city, &city.city)
    }

    fn no_city(&self, cities: &[(City, Option<Object>)]) -> Error {
        let name = &self.args.name;
        let all: Vec<String> = cities
            .iter()
            .map(|(city, _)| format!("{}/{}", city.placement, city.city))
            .collect();
        let what = match (&self.args.placement, &self.args.city) {
            (None, None) => format!("workload {name:?} has no placements"),
            _ => format!("workload {name:?} has no such placement and city"),
        };
        let error =
            Error::new(Kind::NotFound, what).next(format!("kubectl compute workloads describe {name}"));
        if all.is_empty() {
            error
        } else {
            error.because(format!("it has {}", all.join(", ")))
        }
    }

    fn print(&self, chains: &[Chain], verdict: &Verdict, now: Timestamp) -> Result<(), Error> {
        if self.output.is_text() {
            return write(&self.text(chains, verdict, now));
        }
        self.output.object(&object(&self.args.name, chains, verdict, now))
    }

    fn text(&self, chains: &[Chain], verdict: &Verdict, now: Timestamp) -> String {
        let output = self.output;
        let mut table = Table::new(COLUMNS);
        for chain in chains {
            for link in &chain.links {
                table.row(row(&chain.city, link, now));
            }
        }
        output.table_text(&table, output.columns(NARROW, COLUMNS.len())) + &last_lines(verdict)
    }
}

fn row(city: &City, link: &Link, now: Timestamp) -> Vec<Cell> {
    vec![
        (&*city.city).into(),
        link.hop.word().into(),
        (&*link.object).into(),
        Cell::toned(link.state.word(), Tone::from(link.state)),
        link.since.map(|since| age(since, now)).unwrap_or_default().into(),
        (&*link.detail).into(),
        (&*city.placement).into(),
        link.generation.map(|n| n.to_string()).unwrap_or_default().into(),
        link.source.word().into(),
    ]
}

fn last_lines(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Whole => "Whole.\n".to_owned(),
        Verdict::Moving(line) => format!("{line}\n"),
        Verdict::Broken { line, next } => format!("{line}\n  next: {next}\n"),
    }
}

/// The trace for programs.
fn object(name: &str, chains: &[Chain], verdict: &Verdict, now: Timestamp) -> Value {
    let links = |chain: &Chain| -> Vec<Value> {
        let links = chain.links.iter().map(|link| {
            json!({"hop": link.hop.word(), "object": link.object, "state": link.state.word(), "since": link.since,
                "age": link.since.map(|since| age(since, now)), "detail": link.detail, "generation": link.generation,
                "source": link.source.word()})
        });
        links.collect()
    };
    let cities = chains.iter().map(
        |chain| json!({"placement": chain.city.placement, "city": chain.city.city, "hops": links(chain)}),
    );
    let (word, line) = match verdict {
        Verdict::Whole => ("Whole", "Whole."),
        Verdict::Moving(line) => ("Moving", line.as_str()),
        Verdict::Broken { line, .. } => ("Broken", line.as_str()),
    };
    json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "Trace", "metadata": {"name": name}, "state": word,
        "message": line, "cities": cities.collect::<Vec<_>>()})
}

/// The end of a single trace, by its exit code: the result has said it already.
fn end(verdict: &Verdict) -> Result<(), Error> {
    match verdict {
        Verdict::Whole => Ok(()),
        Verdict::Moving(line) => Err(Error::new(Kind::Moving, line).shown()),
        Verdict::Broken { line, next } => Err(Error::new(Kind::Blocked, line).next(next).shown()),
    }
}
