//! `deploy`: creates a Workload or changes it, by flags or by a file.

use super::changes::follow_up;
use crate::{
    args::DeployArgs,
    change::{Flags, Intent, Session, check_minimum},
    error::Error,
    manifest,
    output::Output,
    plane::{Plane, Resource},
};
use fedgate_api::{crd::WORKLOAD_NAME_LIMIT, names::is_label_value};
use std::collections::BTreeSet;

const FORMS: &str = "deploy needs NAME --image IMAGE --city CITY[,CITY]..., or -f FILE";

/// True if a flag was given.
type IsGiven = fn(&DeployArgs) -> bool;

/// Words that a file excludes, each with the field that takes its place.
const EXCLUDED: [(&str, &str, IsGiven); 14] = [
    ("NAME", "metadata.name", |args| args.name.is_some()),
    (
        "--image",
        "spec.template.spec.runtime.sandbox.containers[].image",
        |args| args.image.is_some(),
    ),
    ("--city", "spec.placements[].cityCodes", |args| {
        !args.city.is_empty()
    }),
    ("--location", "spec.placements[].locations", |args| {
        !args.location.is_empty()
    }),
    ("--placement", "spec.placements[].name", |args| {
        args.placement.is_some()
    }),
    (
        "--container",
        "spec.template.spec.runtime.sandbox.containers[].name",
        |args| args.container.is_some(),
    ),
    ("--min", "spec.placements[].scaleSettings.minReplicas", |args| {
        args.min.is_some()
    }),
    (
        "--instance-type",
        "spec.template.spec.runtime.resources.instanceType",
        |args| args.instance_type.is_some(),
    ),
    (
        "--network",
        "spec.template.spec.networkInterfaces[].network.name",
        |args| args.network.is_some(),
    ),
    (
        "--port",
        "spec.template.spec.runtime.sandbox.containers[].ports",
        |args| !args.port.is_empty(),
    ),
    (
        "--env",
        "spec.template.spec.runtime.sandbox.containers[].env",
        |args| !args.env.is_empty(),
    ),
    (
        "--env-from-configmap",
        "spec.template.spec.runtime.sandbox.containers[].envFrom",
        |args| !args.env_from_configmap.is_empty(),
    ),
    (
        "--env-from-secret",
        "spec.template.spec.runtime.sandbox.containers[].envFrom",
        |args| !args.env_from_secret.is_empty(),
    ),
    ("--label", "spec.template.metadata.labels", |args| {
        !args.label.is_empty()
    }),
];

/// Refuses a line with neither NAME nor file, flags that a file excludes, and values that no Workload can have.
pub(crate) fn check(args: &DeployArgs) -> Result<(), Error> {
    args.min.map_or(Ok(()), check_minimum)?;
    let Some(file) = &args.file else {
        return match &args.name {
            Some(_) => check_names("--city", "city code", &args.city)
                .and_then(|()| check_names("--location", "name of a location", &args.location)),
            None => Err(Error::usage(FORMS).next("kubectl compute deploy --help")),
        };
    };
    let excluded = EXCLUDED.iter().filter(|(_, _, is_given)| is_given(args));
    let lines: Vec<String> = excluded
        .map(|(flag, field, _)| format!("{flag} cannot be used with -f; set {field} in the file"))
        .collect();
    if lines.is_empty() {
        return Ok(());
    }
    Err(Error::usage(lines.join("\n  ")).next(format!("kubectl compute deploy -f {file}")))
}

/// Deploys.
pub(crate) async fn run(plane: &Plane, output: &Output, args: DeployArgs, yes: bool) -> Result<(), Error> {
    let intent = match &args.file {
        Some(file) => Intent::File(manifest::read(file, &plane.namespace, "deploy").await?),
        None => Intent::Flags(Box::new(flags(plane, &args))),
    };
    let name = match &intent {
        Intent::File(file) => file["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        _ => args.name.clone().unwrap_or_default(),
    };
    if name.len() > WORKLOAD_NAME_LIMIT {
        let what = format!(
            "the name has {} characters; {WORKLOAD_NAME_LIMIT} are allowed",
            name.len()
        );
        return Err(Error::usage(what).because("the instances carry it as a label value"));
    }
    if args.file.is_none() {
        check_cities(plane, &args.city).await?;
        check_locations(plane, &args.location).await?;
    }
    let session = Session {
        stdin_used: args.file.as_deref() == Some("-"),
        save: args.save.as_deref(),
        ..Session::new(plane, output, &args.write, yes)
    };
    let live = plane.find(Resource::Workloads, &name).await?;
    let outcome = session.change(&name, live, intent).await?;
    follow_up(plane, output, &name, outcome, &args.wait).await
}

fn flags(plane: &Plane, args: &DeployArgs) -> Flags {
    Flags {
        name: args.name.clone().unwrap_or_default(),
        namespace: plane.namespace.clone(),
        image: args.image.clone(),
        cities: args.city.clone(),
        locations: args.location.clone(),
        placement: args.placement.clone(),
        container: args.container.clone(),
        minimum: args.min,
        instance_type: args.instance_type.clone(),
        network: args.network.clone(),
        ports: args.port.clone(),
        env: args.env.clone(),
        config_maps: args.env_from_configmap.clone(),
        secrets: args.env_from_secret.clone(),
        labels: args.label.clone(),
    }
}

/// Refuses names of places that are no label values.
fn check_names(flag: &str, noun: &str, names: &[String]) -> Result<(), Error> {
    let is_name = |name: &&String| !name.is_empty() && is_label_value(name);
    match names.iter().find(|name| !is_name(name)) {
        Some(wrong) => Err(Error::usage(format!("{flag} {wrong:?} is no {noun}"))),
        None => Ok(()),
    }
}

/// Refuses city codes that no Location has, if Locations can be listed.
async fn check_cities(plane: &Plane, cities: &[String]) -> Result<(), Error> {
    if cities.is_empty() {
        return Ok(());
    }
    check_known(
        &plane.cities().await,
        cities,
        "no location has the city",
        "cities",
    )
}

/// Refuses a city or location that does not exist, if Locations can be listed: an empty list would say that nothing is there.
pub(super) async fn check_place(plane: &Plane, wanted: &str) -> Result<(), Error> {
    let locations = plane.locations().await;
    let names = locations.iter().map(|location| location.name().to_owned());
    let known = plane.cities().await.into_iter().chain(names).collect();
    let what = "there is no city or location";
    check_known(&known, &[wanted.to_owned()], what, "cities and locations")
}

/// Refuses the first name that is not known. Without known names all are accepted.
fn check_known(known: &BTreeSet<String>, names: &[String], what: &str, noun: &str) -> Result<(), Error> {
    let unknown = names.iter().find(|name| !known.contains(*name));
    let Some(unknown) = unknown.filter(|_| !known.is_empty()) else {
        return Ok(());
    };
    let near = crate::plane::nearest(unknown, known.iter().map(String::as_str));
    let near = near
        .map(|near| format!("; did you mean {near:?}?"))
        .unwrap_or_default();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let known = known.join(", ");
    Err(Error::usage(format!("{what} {unknown:?}{near}")).because(format!("the {noun} are {known}")))
}

/// Refuses locations that do not exist, if Locations can be listed.
async fn check_locations(plane: &Plane, names: &[String]) -> Result<(), Error> {
    if names.is_empty() {
        return Ok(());
    }
    let known = plane.locations().await;
    let known = known.iter().map(|location| location.name().to_owned()).collect();
    check_known(&known, names, "no location", "locations")
}
