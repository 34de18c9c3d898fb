//! `workloads`: all Workloads with their health.

use super::deploy::check_place;
use crate::{
    args::WorkloadsArgs,
    error::Error,
    history::{HISTORIES, numbers_of},
    output::{
        Format, Listing, Output, Watched, plural,
        table::{Cell, Table},
    },
    plane::{Follow, ListParams, Plane, Resource},
    rollout::Locations,
    view::{Counts, Health, HealthWord, Joined, join},
};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

const COLUMNS: &[&str] = &[
    "NAME",
    "HEALTH",
    "READY",
    "UP-TO-DATE",
    "PLACEMENTS",
    "IMAGE",
    "AGE",
    "INSTANCE TYPE",
    "CITIES",
    "REV",
];

/// Columns of the narrow form.
const NARROW: usize = 7;

/// Numbers of the active revisions by Workload.
type Revisions = BTreeMap<String, String>;

/// Lists Workloads.
pub(crate) async fn run(plane: &Plane, output: &Output, args: &WorkloadsArgs) -> Result<(), Error> {
    if args.watch {
        return watch(plane, output, args).await;
    }
    let is_wide = matches!(output.format, Format::Wide);
    let (workloads, deployments) =
        tokio::try_join!(plane.list(Resource::Workloads), plane.list(Resource::Deployments))?;
    // A user who may not read the histories still gets the list.
    let revisions = if is_wide {
        let maps = plane.list_metadata(Resource::ConfigMaps, HISTORIES).await;
        numbers_of(&maps.unwrap_or_default())
    } else {
        Revisions::new()
    };
    let mut all = join(workloads, deployments);
    Locations::default().map(plane, &mut all).await;
    let mut listing = listing(all, args, &revisions, &plane.project, plane.clock.now());
    if listing.objects.is_empty() && args.health.is_none() && args.city.is_none() && output.is_text() {
        let city = plane
            .cities()
            .await
            .pop_first()
            .unwrap_or_else(|| "CITY".to_owned());
        listing.hint = format!("Get started: kubectl compute deploy web --image nginx --city {city}");
    }
    if let Some(place) = args.city.as_ref().filter(|_| listing.objects.is_empty()) {
        check_place(plane, place).await?;
    }
    output.list(&listing)
}

async fn watch(plane: &Plane, output: &Output, args: &WorkloadsArgs) -> Result<(), Error> {
    let kinds = [Resource::Workloads, Resource::Deployments];
    let mut kinds = kinds.map(|kind| (kind, ListParams::default())).to_vec();
    if matches!(output.format, Format::Wide) {
        kinds.push((Resource::ConfigMaps, ListParams::default().labels(HISTORIES)));
    }
    let mut follow = Follow::start(plane, &kinds);
    let mut watched = Watched::new(output);
    let mut locations = Locations::default();
    loop {
        follow.changed(|notice| output.remark(notice)).await?;
        let mut all = join(follow.all(Resource::Workloads), follow.all(Resource::Deployments));
        locations.map(plane, &mut all).await;
        let revisions = numbers_of(&follow.all(Resource::ConfigMaps));
        let now = plane.clock.now();
        watched.print(&listing(all, args, &revisions, &plane.project, now))?;
    }
}

fn listing(
    all: Vec<Joined>,
    args: &WorkloadsArgs,
    revisions: &Revisions,
    project: &str,
    now: Timestamp,
) -> Listing {
    let mut table = Table::new(COLUMNS);
    let mut objects = Vec::new();
    let mut words: BTreeMap<HealthWord, usize> = BTreeMap::new();
    for joined in all {
        let counts: Counts = joined.deployments().map(Counts::of).sum();
        let health = Health::of(&joined.workload, counts);
        let in_city = |code: &String| joined.cities.iter().any(|(city, _)| city.is_called(code));
        if args.health.is_some_and(|word| word != health.word) || !args.city.as_ref().is_none_or(in_city) {
            continue;
        }
        *words.entry(health.word).or_default() += 1;
        let revision = revisions.get(joined.workload.name());
        table.row(row(&joined, counts, &health, revision, now));
        objects.push(joined.workload);
    }
    let counted: Vec<String> = words
        .iter()
        .map(|(word, n)| format!("{n} {}", word.as_str()))
        .collect();
    let filters = [
        args.health
            .map(|word| format!("--health={}", word.as_str().to_lowercase())),
        args.city.as_ref().map(|city| format!("--city={city}")),
    ];
    let filters: Vec<String> = filters.into_iter().flatten().collect();
    Listing {
        footer: format!("{} - {}", plural(objects.len(), "workload"), counted.join(", ")),
        empty: if filters.is_empty() {
            format!("No workloads in project {project}.")
        } else {
            format!("No workloads in project {project} match {}.", filters.join(" "))
        },
        hint: String::new(),
        objects,
        table,
        narrow: NARROW,
    }
}

fn row(
    joined: &Joined,
    counts: Counts,
    health: &Health,
    revision: Option<&String>,
    now: Timestamp,
) -> Vec<Cell> {
    let workload = &joined.workload;
    let placements = workload.list("/spec/placements").iter();
    let names: Vec<&str> = placements
        .filter_map(|placement| placement["name"].as_str())
        .collect();
    let mut seen = BTreeSet::new();
    let known = joined.cities.iter().filter(|(city, _)| city.is_known());
    let cities = known.map(|(city, _)| &*city.shown);
    let cities: Vec<&str> = cities.filter(|city| seen.insert(*city)).collect();
    vec![
        workload.name().into(),
        Cell::toned(&health.to_string(), health.word.tone()),
        format!("{}/{}", counts.ready, counts.desired).into(),
        format!("{}/{}", counts.updated, counts.desired).into(),
        if names.is_empty() {
            "(none)".into()
        } else {
            names.join(",").into()
        },
        workload.image().into(),
        workload.age(now).into(),
        workload.instance_type().into(),
        cities.join(",").into(),
        revision.cloned().unwrap_or_default().into(),
    ]
}
