//! `deploy`: creates a Workload or changes it, by flags or by a file.

use super::changes::follow_up;
use crate::{
    args::DeployArgs,
    change::{Flags, Intent, Session},
    error::Error,
    manifest,
    output::Output,
    plane::Plane,
};
use fedgate_api::names::is_label_value;

const FORMS: &str = "deploy needs NAME --image IMAGE --city CITY[,CITY]..., or -f FILE";

/// Deploys.
pub(crate) async fn run(plane: &Plane, output: &Output, args: DeployArgs, yes: bool) -> Result<(), Error> {
    let intent = intent(plane, &args)?;
    if let Intent::Flags(flags) = &intent {
        check_cities(plane, &flags.cities).await?;
    }
    let name = match &intent {
        Intent::File(file) => file["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        _ => args.name.clone().unwrap_or_default(),
    };
    let session = Session {
        plane,
        output,
        yes,
        dry_run: args.write.dry_run,
        reason: &args.write.reason,
        stdin_used: args.file.as_deref() == Some("-"),
        save: args.save.as_deref(),
    };
    let outcome = session.change(&name, &intent).await?;
    follow_up(plane, output, &name, outcome, &args.wait).await
}

fn intent(plane: &Plane, args: &DeployArgs) -> Result<Intent, Error> {
    let Some(file) = &args.file else {
        let Some(name) = &args.name else {
            return Err(Error::usage(FORMS).next("kubectl compute deploy --help"));
        };
        return Ok(Intent::Flags(Box::new(Flags {
            name: name.clone(),
            namespace: plane.namespace.clone(),
            image: args.image.clone(),
            cities: args.city.clone(),
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
        })));
    };
    let mixed = [
        (
            args.image.is_some(),
            "--image",
            "spec.template.spec.runtime.sandbox.containers[].image",
        ),
        (!args.city.is_empty(), "--city", "spec.placements[].cityCodes"),
        (args.placement.is_some(), "--placement", "spec.placements[].name"),
        (
            args.container.is_some(),
            "--container",
            "spec.template.spec.runtime.sandbox.containers[].name",
        ),
        (
            args.min.is_some(),
            "--min",
            "spec.placements[].scaleSettings.minReplicas",
        ),
        (
            args.instance_type.is_some(),
            "--instance-type",
            "spec.template.spec.runtime.resources.instanceType",
        ),
        (
            args.network.is_some(),
            "--network",
            "spec.template.spec.networkInterfaces[].network.name",
        ),
        (
            !args.port.is_empty(),
            "--port",
            "spec.template.spec.runtime.sandbox.containers[].ports",
        ),
        (
            !args.env.is_empty(),
            "--env",
            "spec.template.spec.runtime.sandbox.containers[].env",
        ),
        (
            !args.env_from_configmap.is_empty(),
            "--env-from-configmap",
            "spec.template.spec.runtime.sandbox.containers[].envFrom",
        ),
        (
            !args.env_from_secret.is_empty(),
            "--env-from-secret",
            "spec.template.spec.runtime.sandbox.containers[].envFrom",
        ),
        (!args.label.is_empty(), "--label", "spec.template.metadata.labels"),
    ];
    if let Some((_, flag, field)) = mixed.into_iter().find(|(given, _, _)| *given) {
        let what = format!("{flag} cannot be used with -f; set {field} in the file");
        return Err(Error::usage(what).next(format!("kubectl compute deploy -f {file}")));
    }
    manifest::read(file, &plane.namespace, "deploy").map(Intent::File)
}

/// Refuses city codes that are no label values, and ones that no Location has, if Locations can be listed.
async fn check_cities(plane: &Plane, cities: &[String]) -> Result<(), Error> {
    if let Some(wrong) = cities
        .iter()
        .find(|city| city.is_empty() || !is_label_value(city))
    {
        return Err(Error::usage(format!("--city {wrong:?} is no city code")));
    }
    if cities.is_empty() {
        return Ok(());
    }
    let known = plane.cities().await;
    if known.is_empty() {
        return Ok(());
    }
    let Some(unknown) = cities.iter().find(|city| !known.contains(*city)) else {
        return Ok(());
    };
    let near = crate::plane::nearest(unknown, known.iter().map(String::as_str));
    let near = near
        .map(|near| format!("; did you mean {near:?}?"))
        .unwrap_or_default();
    let what = format!("no location has the city {unknown:?}{near}");
    let cities: Vec<&str> = known.iter().map(String::as_str).collect();
    Err(Error::usage(what).because(format!("the cities are {}", cities.join(", "))))
}
