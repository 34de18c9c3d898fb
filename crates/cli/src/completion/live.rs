//! Names that the server or the kubeconfig knows.

use super::{Candidate, wanted::Wanted};
use crate::{
    change::CONTAINERS,
    error::Error,
    history::known,
    plane::{Choice, Plane, Resource},
    time::age,
    view::{Counts, Health, Home, Index, InstanceState, Object, location_of, without_registries},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};
use tokio::runtime::Handle;

/// The candidates; none if something is wrong, or if the answer does not come within the limit.
pub(super) async fn candidates(
    wanted: Wanted,
    context: BTreeMap<String, String>,
    limit: Duration,
) -> Vec<Candidate> {
    let runtime = Handle::current();
    // A program that makes credentials blocks the thread that it is called from; the limit must not wait for it.
    let asked = tokio::task::spawn_blocking(move || runtime.block_on(found(wanted, &context, limit)));
    match tokio::time::timeout(limit, asked).await {
        Ok(Ok(candidates)) => candidates,
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

async fn found(wanted: Wanted, context: &BTreeMap<String, String>, limit: Duration) -> Vec<Candidate> {
    let kubeconfig = context.get("kubeconfig").map(PathBuf::from);
    if wanted == Wanted::Contexts {
        let names = fedgate_kubeconfig::contexts(kubeconfig.as_deref()).await;
        return plain(names.unwrap_or_default());
    }
    let choice = Choice {
        kubeconfig,
        context: context.get("context").cloned(),
        project: context.get("project").cloned().unwrap_or_default(),
        namespace: context.get("namespace").cloned(),
    };
    match Plane::open(&choice, limit, false).await {
        Ok(plane) => ask(wanted, &plane).await.unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}

/// Names without meanings.
fn plain(names: impl IntoIterator<Item = impl Into<String>>) -> Vec<Candidate> {
    names.into_iter().map(|name| Candidate::new(name, "")).collect()
}

async fn ask(wanted: Wanted, plane: &Plane) -> Result<Vec<Candidate>, Error> {
    Ok(match wanted {
        Wanted::Workloads => {
            let all = plane.list(Resource::Workloads).await?;
            let candidates = all.iter().map(|workload| {
                let health = Health::of(workload, Counts::default()).word.as_str();
                Candidate::new(workload.name(), format!("{}, {health}", workload.image()))
            });
            candidates.collect()
        }
        Wanted::Instances => {
            let all = plane.list(Resource::Instances).await?;
            let state = |instance: &Object| InstanceState::of(instance).listed;
            let candidates = all.iter().map(|one| Candidate::new(one.name(), state(one)));
            candidates.collect()
        }
        Wanted::Cities => plain(cities(plane).await?),
        Wanted::Places => {
            let mut places = cities(plane).await?;
            places.extend(locations_in_use(plane).await?);
            plain(places)
        }
        Wanted::Locations => {
            let listed = plane.locations().await;
            let names: BTreeSet<&str> = listed.iter().map(Object::name).collect();
            if names.is_empty() {
                return Ok(plain(locations_in_use(plane).await?));
            }
            plain(names)
        }
        Wanted::Namespaces => plain(plane.list(Resource::Namespaces).await?.iter().map(Object::name)),
        Wanted::Placements(name) => named(&plane.workload(&name).await?, "/spec/placements"),
        Wanted::Containers(name) => named(&plane.workload(&name).await?, CONTAINERS),
        Wanted::Revisions(name) => revisions(plane, &plane.workload(&name).await?).await,
        Wanted::OneOf(_) | Wanted::Files | Wanted::Contexts => Vec::new(),
    })
}

/// Names of the items of a list.
fn named(workload: &Object, list: &str) -> Vec<Candidate> {
    let names = workload
        .list(list)
        .iter()
        .filter_map(|item| item["name"].as_str());
    plain(names)
}

/// The cities that have a Location, else those in use.
async fn cities(plane: &Plane) -> Result<BTreeSet<String>, Error> {
    let mut cities = plane.cities().await;
    if cities.is_empty() {
        let (instances, deployments) =
            tokio::try_join!(plane.list(Resource::Instances), plane.list(Resource::Deployments))?;
        let index = Index::new(&[], &deployments).with_instances(&instances);
        let used = instances.iter().map(|instance| Home::of(instance, &index));
        let used = used.filter(|home| !home.is_unmapped()).map(|home| home.city);
        cities.extend(used.filter(|city| city != "unknown"));
        let named = deployments.iter().map(|d| d.text("/spec/cityCode"));
        cities.extend(named.filter(|city| !city.is_empty()).map(str::to_owned));
    }
    Ok(cities)
}

/// The locations of deployments.
async fn locations_in_use(plane: &Plane) -> Result<BTreeSet<String>, Error> {
    let deployments = plane.list(Resource::Deployments).await?;
    let names = deployments.iter().map(location_of);
    Ok(names.filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

async fn revisions(plane: &Plane, workload: &Object) -> Vec<Candidate> {
    let history = known(plane, workload).await;
    let now = plane.clock.now();
    let newest = history.revisions.iter().rev();
    let candidates = newest.map(|revision| {
        let (image, age) = (without_registries(&revision.image), age(revision.time, now));
        Candidate::new(revision.rev.to_string(), format!("{image}, {age} ago"))
    });
    candidates.collect()
}
