//! `deploy`, `scale`, `restart`, `rollout undo`, `rollout pause` and `rollout resume`: create a Workload or change it.

use crate::{
    args::{ChangeArgs, DeployArgs, DeployFlags, PauseArgs, RestartArgs, ResumeArgs, ScaleArgs, UndoArgs},
    change::{Intent, Session, check_minimum},
    error::Error,
    manifest,
    output::Output,
    plane::{Plane, Resource, meant},
    view::{Object, city_of},
};
use fedgate_api::{crd::WORKLOAD_NAME_LIMIT, names::is_label_value};
use std::{collections::BTreeSet, time::Duration};

const FORMS: &str = "deploy needs NAME --image IMAGE --city CITY[,CITY]..., or -f FILE";

/// Refuses a line with neither NAME nor file, flags that a file excludes, and values that no Workload can have.
pub(crate) fn check(args: &DeployArgs) -> Result<(), Error> {
    args.flags.min.map_or(Ok(()), check_minimum)?;
    let Some(file) = &args.file else {
        return match &args.name {
            Some(_) => check_names("--city", "city code", &args.flags.city)
                .and_then(|()| check_names("--location", "name of a location", &args.flags.location)),
            None => Err(Error::usage(FORMS).next("kubectl compute deploy --help")),
        };
    };
    let name = args.name.iter().map(|_| ("NAME", "metadata.name".to_owned()));
    let excluded = name.chain(args.flags.given());
    let lines: Vec<String> = excluded
        .map(|(flag, field)| format!("{flag} cannot be used with -f; set {field} in the file"))
        .collect();
    if lines.is_empty() {
        return Ok(());
    }
    Err(Error::usage(lines.join("\n  ")).next(format!("kubectl compute deploy -f {file}")))
}

/// Deploys.
pub(crate) async fn run(plane: &Plane, output: &Output, args: DeployArgs, yes: bool) -> Result<(), Error> {
    let (name, intent) = if let Some(file) = &args.file {
        let file = manifest::read(file, &plane.namespace, "deploy").await?;
        let name = file["metadata"]["name"].as_str().unwrap_or_default();
        (name.to_owned(), Intent::File(file))
    } else {
        let (name, namespace) = (args.name.unwrap_or_default(), plane.namespace.clone());
        let flags = Box::new(args.flags.clone());
        let intent = Intent::Flags {
            flags,
            name: name.clone(),
            namespace,
        };
        (name, intent)
    };
    if name.len() > WORKLOAD_NAME_LIMIT {
        let what = format!(
            "the name has {} characters; {WORKLOAD_NAME_LIMIT} are allowed",
            name.len()
        );
        return Err(Error::usage(what).because("the instances carry it as a label value"));
    }
    let DeployFlags { city, location, .. } = &args.flags;
    check_known(plane, city, &[city_of], "no location has the city", "cities").await?;
    check_known(plane, location, &[Object::name], "no location", "locations").await?;
    let session = Session {
        stdin_used: args.file.as_deref() == Some("-"),
        save: args.save.as_deref(),
        ..Session::new(plane, output, &args.change, yes)
    };
    let live = plane.find(Resource::Workloads, &name).await?;
    session.run(&name, live, intent).await
}

/// Refuses names of places that are no label values.
fn check_names(flag: &str, noun: &str, names: &[String]) -> Result<(), Error> {
    let is_name = |name: &&String| !name.is_empty() && is_label_value(name);
    match names.iter().find(|name| !is_name(name)) {
        Some(wrong) => Err(Error::usage(format!("{flag} {wrong:?} is no {noun}"))),
        None => Ok(()),
    }
}

/// Refuses a city or location that does not exist, if Locations can be listed: an empty list would say that nothing is there.
pub(super) async fn check_place(plane: &Plane, wanted: &str) -> Result<(), Error> {
    let what = "there is no city or location";
    check_known(
        plane,
        &[wanted.to_owned()],
        &[city_of, Object::name],
        what,
        "cities and locations",
    )
    .await
}

/// Refuses the first of these names that no Location has, if Locations can be listed.
async fn check_known(
    plane: &Plane,
    names: &[String],
    of: &[fn(&Object) -> &str],
    what: &str,
    noun: &str,
) -> Result<(), Error> {
    if names.is_empty() {
        return Ok(());
    }
    let locations = plane.locations().await;
    let known = locations
        .iter()
        .flat_map(|location| of.iter().map(|of| of(location)));
    let known: BTreeSet<&str> = known.filter(|name| !name.is_empty()).collect();
    let unknown = names.iter().find(|name| !known.contains(&***name));
    let Some(unknown) = unknown.filter(|_| !known.is_empty()) else {
        return Ok(());
    };
    let near = meant(unknown, known.iter().copied());
    let known: Vec<&str> = known.into_iter().collect();
    let known = known.join(", ");
    Err(Error::usage(format!("{what} {unknown:?}{near}")).because(format!("the {noun} are {known}")))
}

/// Scales.
pub(crate) async fn scale(plane: &Plane, output: &Output, args: ScaleArgs, yes: bool) -> Result<(), Error> {
    let intent = Intent::Scale {
        minimum: args.min,
        placement: args.placement,
    };
    change_existing(plane, output, &args.name, &args.change, intent, yes).await
}

/// Changes a Workload that exists.
async fn change_existing(
    plane: &Plane,
    output: &Output,
    name: &str,
    change: &ChangeArgs,
    intent: Intent,
    yes: bool,
) -> Result<(), Error> {
    let live = plane.workload(name).await?;
    let session = Session::new(plane, output, change, yes);
    session.run(name, Some(live), intent).await
}

/// Refuses the restart of a city alone.
pub(crate) fn check_restart(args: &RestartArgs) -> Result<(), Error> {
    let Some(city) = &args.city else {
        return Ok(());
    };
    let what = format!(
        "a city alone cannot be restarted: the stamp of {city} would be overwritten by the workload's, and {city} would \
         restart twice"
    );
    Err(Error::usage(what).next(format!("kubectl compute restart {}", args.name)))
}

/// Restarts.
pub(crate) async fn restart(
    plane: &Plane,
    output: &Output,
    args: RestartArgs,
    yes: bool,
) -> Result<(), Error> {
    change_existing(plane, output, &args.name, &args.change, Intent::Restart, yes).await
}

/// Pauses rollouts and returns without a wait.
pub(crate) async fn pause(plane: &Plane, output: &Output, args: PauseArgs, yes: bool) -> Result<(), Error> {
    let change = ChangeArgs {
        dry_run: args.dry_run,
        reason: args.reason,
        wait: false,
        timeout: Duration::ZERO,
        stall_timeout: Duration::ZERO,
    };
    let intent = Intent::SetPaused {
        paused: true,
        placement: args.placement,
    };
    change_existing(plane, output, &args.name, &change, intent, yes).await
}

/// Resumes rollouts.
pub(crate) async fn resume(plane: &Plane, output: &Output, args: ResumeArgs, yes: bool) -> Result<(), Error> {
    let intent = Intent::SetPaused {
        paused: false,
        placement: args.placement,
    };
    change_existing(plane, output, &args.name, &args.change, intent, yes).await
}

/// Goes back to an earlier revision.
pub(crate) async fn undo(plane: &Plane, output: &Output, args: UndoArgs, yes: bool) -> Result<(), Error> {
    let live = plane.workload(&args.name).await?;
    let intent = Intent::undo(plane, &live, args.to_revision, args.keep_scale).await?;
    let session = Session::new(plane, output, &args.change, yes);
    session.run(&args.name, Some(live), intent).await
}
