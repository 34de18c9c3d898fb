//! `trace`: the way of a Workload through all planes, and the first broken link (contract: cli.md §10).

mod follow;
mod planes;
mod show;

use crate::{
    args::TraceArgs,
    error::{Error, Kind},
    output::{Output, screen::Screen, write},
    plane::{Choice, Follow, Plane, Resource, Selection},
    rollout::Locations,
    time::sleep,
    trace::{Beside, Chain, Evidence, Verdict, chain, unprojected},
    view::{City, Instances, Joined, Object, join},
};
use follow::{RequestInfo, Sides};
use jiff::{SignedDuration, Timestamp};
use planes::Planes;
pub(super) use planes::check;

/// Traces once, or at each change until all is whole.
pub(crate) async fn run(
    plane: &Plane,
    output: &Output,
    choice: &Choice,
    args: &TraceArgs,
) -> Result<(), Error> {
    let planes = Planes::open(choice, args).await?;
    let mut tracer = Tracer {
        plane,
        output,
        args,
        sides: Sides::new(&planes, args.watch),
        events: Events::default(),
        locations: Locations::default(),
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
    let Some(mut joined) = join(vec![workload], deployments).pop() else {
        return Ok(());
    };
    tracer.locations.map(plane, &mut joined).await;
    let (chains, verdict, now) = tracer.trace(&joined, &Instances::from(instances)).await?;
    if output.is_text() {
        write(&show::text(output, &chains, &verdict, now))?;
    } else {
        output.object(&show::object(&args.name, &chains, &verdict, now))?;
    }
    show::end(&verdict)
}

struct Tracer<'a> {
    plane: &'a Plane,
    output: &'a Output,
    args: &'a TraceArgs,
    sides: Sides<'a>,
    events: Events,
    locations: Locations,
    stuck_after: SignedDuration,
}

/// The Events about deployments whose Instances are not projected as they should be.
#[derive(Debug, Default)]
struct Events {
    /// The cities for which they were read.
    cities: Vec<City>,
    objects: Vec<Object>,
}

impl Tracer<'_> {
    /// Traces at each change of a plane, and when a hop has waited for too long.
    async fn watch(&mut self) -> Result<(), Error> {
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
        );
        let mut screen = Screen::stdout();
        let mut is_listed = false;
        let mut last: Vec<Chain> = Vec::new();
        loop {
            // While there is no contact, the hops may have changed.
            let next_change = self.next_change(&last).filter(|_| !follow.is_lost());
            tokio::select! {
                news = follow.next() => {
                    let news = news?;
                    if let Some(notice) = news.notice() {
                        if !self.output.quiet {
                            screen.notice(&notice)?;
                        }
                        continue;
                    }
                    is_listed = true;
                    screen.clear_notice()?;
                }
                () = self.sides.changed() => {}
                () = sleep(next_change.and_then(|next_change| next_change.try_into().ok())) => {}
            }
            if !is_listed {
                continue;
            }
            let workload = follow.objects(Resource::Workloads).next().cloned();
            let joined = workload.and_then(|workload| {
                join(
                    vec![workload],
                    follow.objects(Resource::Deployments).cloned().collect(),
                )
                .pop()
            });
            let Some(mut joined) = joined else {
                let what = format!("workload {:?} was deleted", self.args.name);
                return Err(Error::new(Kind::NotFound, what));
            };
            self.locations.map(self.plane, &mut joined).await;
            let instances: Instances = follow.objects(Resource::Instances).cloned().collect();
            let (chains, verdict, now) = self.trace(&joined, &instances).await?;
            if chains == last {
                continue;
            }
            if self.output.is_text() {
                screen.draw(&show::text(self.output, &chains, &verdict, now))?;
            } else {
                let object = show::object(&self.args.name, &chains, &verdict, now);
                self.output.next_object(&object)?;
            }
            if verdict == Verdict::Whole {
                return Ok(());
            }
            last = chains;
        }
    }

    /// Time until a waiting hop is broken by its age.
    fn next_change(&self, chains: &[Chain]) -> Option<SignedDuration> {
        let now = self.plane.clock.now();
        let next_change = chains.iter();
        next_change
            .filter_map(|chain| chain.next_change(self.stuck_after, now))
            .min()
    }

    /// Traces the placements and cities that are asked for.
    async fn trace(
        &mut self,
        joined: &Joined,
        instances: &Instances,
    ) -> Result<(Vec<Chain>, Verdict, Timestamp), Error> {
        let cities = joined.cities.iter();
        let asked: Vec<RequestInfo<'_>> = cities.filter(|(city, _)| self.is_asked(city)).collect();
        if asked.is_empty() {
            return Err(self.no_city(&joined.cities));
        }
        self.sides.update(self.plane, joined, &asked).await;
        let now = self.plane.clock.now();
        let mut chains = self.chains(joined, &asked, instances, now);
        if self.events.read(self.plane, unprojected(&chains)).await {
            chains = self.chains(joined, &asked, instances, now);
        }
        let verdict = Verdict::of(&self.args.name, &chains, now);
        Ok((chains, verdict, now))
    }

    fn chains(
        &self,
        joined: &Joined,
        asked: &[RequestInfo<'_>],
        instances: &Instances,
        now: Timestamp,
    ) -> Vec<Chain> {
        let chains = asked.iter().map(|asked| {
            let (city, deployment) = asked;
            let evidence = Evidence {
                workload: &joined.workload,
                city,
                deployment: deployment.as_ref(),
                instances,
                events: &self.events.objects,
                hub: self.sides.hub(),
                cell: self.sides.cell(asked).unwrap_or(&Beside::NotNamed("see --cell")),
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

    fn no_city(&self, cities: &[(City, Option<Object>)]) -> Error {
        let name = &self.args.name;
        let all: Vec<String> = cities
            .iter()
            .map(|(city, _)| format!("{}/{}", city.placement, city.shown))
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
}

impl Events {
    /// Reads the Events again if there is another city whose Instances are not projected as they should be; returns true
    /// then.
    async fn read(&mut self, plane: &Plane, cities: Vec<City>) -> bool {
        let before = std::mem::replace(&mut self.cities, cities);
        if self.cities.iter().all(|city| before.contains(city)) {
            return false;
        }
        // A user who may not list Events still gets the trace.
        self.objects = plane.list(Resource::Events).await.unwrap_or_default();
        true
    }
}
