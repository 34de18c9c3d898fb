//! `instances`: all Instances with their state and addresses.

use super::deploy::check_place;
use crate::{
    args::InstancesArgs,
    error::Error,
    output::{
        Listing, Output, Watched, plural,
        table::{Cell, Table},
    },
    plane::{Follow, ListParams, Plane, Resource},
    rollout::Cities,
    view::{Home, Index, InstanceState, InstanceWord, Object},
};
use jiff::Timestamp;

/// The columns; `row` has a cell for each, in this order, and docs/contract/cli.md §3 describes them.
const COLUMNS: &[&str] = &[
    "NAME",
    "WORKLOAD",
    "CITY",
    "EXTERNAL IP",
    "INTERNAL IP",
    "TYPE",
    "AGE",
    "STATUS",
    "PLACEMENT",
    "ORDINAL",
    "REASON",
];

/// Number of the first columns that the narrow form has; `-o wide` has all.
const NARROW: usize = 8;

/// Lists Instances.
pub(crate) async fn run(plane: &Plane, output: &Output, args: &InstancesArgs) -> Result<(), Error> {
    if let Some(name) = &args.workload {
        plane.workload(name).await?;
    }
    if args.watch {
        return watch(plane, output, args).await;
    }
    let (instances, deployments, workloads) = tokio::join!(
        plane.list(Resource::Instances),
        plane.list(Resource::Deployments),
        plane.list(Resource::Workloads)
    );
    let (instances, deployments) = (instances?, deployments?);
    // The Workloads tell the order of placements only: a user who may not list them still gets the Instances.
    let workloads = workloads.unwrap_or_default();
    let mut cities = Cities::default();
    let index = index(plane, &mut cities, &workloads, &deployments, &instances).await;
    let rows = rows(instances, &index, args);
    if let Some(place) = args.city.as_ref().filter(|_| rows.is_empty()) {
        check_place(plane, place).await?;
    }
    output.list(&listing(rows, &plane.project, plane.clock.now()))
}

async fn watch(plane: &Plane, output: &Output, args: &InstancesArgs) -> Result<(), Error> {
    let workloads = plane.list(Resource::Workloads).await.unwrap_or_default();
    let kinds = [Resource::Instances, Resource::Deployments].map(|kind| (kind, ListParams::default()));
    let mut follow = Follow::start(plane, &kinds);
    let mut watched = Watched::new(output);
    let mut cities = Cities::default();
    loop {
        follow.changed(|notice| output.remark(notice)).await?;
        let deployments = follow.all(Resource::Deployments);
        let instances = follow.all(Resource::Instances);
        let index = index(plane, &mut cities, &workloads, &deployments, &instances).await;
        let rows = rows(instances, &index, args);
        watched.print(&listing(rows, &plane.project, plane.clock.now()))?;
    }
}

/// An index with the cities of all locations. Nothing is read as long as the Instances and deployments tell them.
pub(super) async fn index<'a>(
    plane: &Plane,
    cities: &mut Cities,
    workloads: &'a [Object],
    deployments: &'a [Object],
    instances: &[Object],
) -> Index<'a> {
    let index = Index::new(workloads, deployments).with_instances(instances);
    let homes = instances.iter().map(|instance| Home::of(instance, &index));
    let unmapped = homes.filter(Home::is_unmapped).map(|home| home.location);
    let unmapped = unmapped.collect();
    index.with_cities(cities.of(plane, unmapped).await)
}

/// The Instances that are asked for, in the order of rows.
fn rows(instances: Vec<Object>, index: &Index<'_>, args: &InstancesArgs) -> Vec<(Home, Object)> {
    let mut rows: Vec<(Home, Object)> = instances
        .into_iter()
        .map(|instance| (Home::of(&instance, index), instance))
        .filter(|(home, _)| args.workload.as_ref().is_none_or(|name| home.workload == *name))
        .filter(|(home, _)| args.city.as_ref().is_none_or(|city| home.is_called(city)))
        .collect();
    rows.sort_by(|(a, x), (b, y)| a.cmp(b).then_with(|| x.name().cmp(y.name())));
    rows
}

fn listing(rows: Vec<(Home, Object)>, project: &str, now: Timestamp) -> Listing {
    let mut table = Table::new(COLUMNS);
    let (mut objects, mut words) = (Vec::new(), Vec::new());
    for (home, instance) in rows {
        let state = InstanceState::of(&instance);
        table.row(row(&home, &instance, &state, now));
        words.push(state.word);
        objects.push(instance);
    }
    let count = |is: &[InstanceWord]| words.iter().filter(|word| is.contains(word)).count();
    let counted = [
        (count(&[InstanceWord::Available]), "Available"),
        (count(&[InstanceWord::Pending, InstanceWord::Starting]), "Pending"),
        (count(&[InstanceWord::Failed]), "Failed"),
        (count(&[InstanceWord::Terminating]), "Terminating"),
    ];
    let counted: Vec<String> = counted.iter().map(|(n, word)| format!("{n} {word}")).collect();
    Listing {
        footer: format!("{} - {}", plural(objects.len(), "instance"), counted.join(", ")),
        empty: format!("No instances in project {project} match."),
        hint: String::new(),
        objects,
        table,
        narrow: NARROW,
    }
}

fn row(home: &Home, instance: &Object, state: &InstanceState<'_>, now: Timestamp) -> Vec<Cell> {
    let address = |field: &str| {
        instance
            .text(&format!("/status/networkInterfaces/0/assignments/{field}"))
            .into()
    };
    let kind = instance.instance_type().rsplit('/').next().unwrap_or_default();
    let reason = instance
        .condition("Ready")
        .map(|ready| ready.reason)
        .unwrap_or_default();
    vec![
        instance.name().into(),
        (&*home.workload).into(),
        (&*home.city).into(),
        address("externalIP"),
        address("networkIP"),
        kind.into(),
        instance.age(now).into(),
        Cell::toned(&state.listed, state.word.tone()),
        (&*home.placement).into(),
        home.ordinal.map(|n| n.to_string()).unwrap_or_default().into(),
        reason.into(),
    ]
}
