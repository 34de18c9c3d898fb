//! Names that the server or the kubeconfig knows.

use super::{Candidate, wanted::Live};
use crate::{
    error::Error,
    history::{History, find},
    plane::{Choice, Plane, Resource},
    time::age,
    view::{Counts, Health, Home, Index, InstanceState, Object, location_of, without_registries},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::runtime::Handle;

/// The candidates; none if something is wrong, or if the answer does not come within the limit.
pub(super) async fn candidates(
    live: Live,
    context: BTreeMap<String, String>,
    limit: Duration,
) -> Vec<Candidate> {
    let runtime = Handle::current();
    // A program that makes credentials blocks the thread that it is called from; the limit must not wait for it.
    let asked = tokio::task::spawn_blocking(move || runtime.block_on(found(live, &context, limit)));
    match tokio::time::timeout(limit, asked).await {
        Ok(Ok(candidates)) => candidates,
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

async fn found(live: Live, context: &BTreeMap<String, String>, limit: Duration) -> Vec<Candidate> {
    let kubeconfig = context.get("kubeconfig").map(PathBuf::from);
    if live == Live::Contexts {
        return contexts(kubeconfig.as_deref()).await;
    }
    let choice = Choice {
        kubeconfig,
        context: context.get("context").cloned(),
        project: context.get("project").cloned().unwrap_or_default(),
        namespace: context.get("namespace").cloned(),
        request_timeout: Some(limit),
        is_interactive: false,
    };
    ask(live, &choice).await.unwrap_or_default()
}

async fn contexts(kubeconfig: Option<&Path>) -> Vec<Candidate> {
    let names = fedgate_kubeconfig::contexts(kubeconfig).await.unwrap_or_default();
    names.into_iter().map(|name| Candidate::new(name, "")).collect()
}

async fn ask(live: Live, choice: &Choice) -> Result<Vec<Candidate>, Error> {
    let plane = Plane::open(choice).await?;
    let plain = |names: Vec<String>| names.into_iter().map(|name| Candidate::new(name, "")).collect();
    Ok(match live {
        Live::Workloads => {
            let all = plane.list(Resource::Workloads).await?;
            let candidates = all.iter().map(|workload| {
                let health = Health::of(workload, Counts::default());
                Candidate::new(
                    workload.name(),
                    format!("{}, {}", workload.image(), health.word.word()),
                )
            });
            candidates.collect()
        }
        Live::Instances => {
            let all = plane.list(Resource::Instances).await?;
            let candidates = all
                .iter()
                .map(|instance| Candidate::new(instance.name(), InstanceState::of(instance).listed()));
            candidates.collect()
        }
        Live::Cities => plain(cities(&plane).await?.into_iter().collect()),
        Live::Places => {
            let mut places = cities(&plane).await?;
            places.extend(locations_in_use(&plane).await?);
            plain(places.into_iter().collect())
        }
        Live::Locations => {
            let listed = plane.locations().await;
            let mut names: BTreeSet<String> = listed.iter().map(|one| one.name().to_owned()).collect();
            if names.is_empty() {
                names = locations_in_use(&plane).await?;
            }
            plain(names.into_iter().collect())
        }
        Live::Namespaces => {
            let all = plane.list(Resource::Namespaces).await?;
            plain(all.iter().map(|namespace| namespace.name().to_owned()).collect())
        }
        Live::Placements(name) => {
            let workload = plane.workload(&name).await?;
            plain(names(workload.list("/spec/placements")))
        }
        Live::Containers(name) => {
            let workload = plane.workload(&name).await?;
            plain(names(
                workload.list("/spec/template/spec/runtime/sandbox/containers"),
            ))
        }
        Live::Revisions(name) => revisions(&plane, &plane.workload(&name).await?).await?,
        Live::Contexts => Vec::new(),
    })
}

/// The cities that have a Location, else those in use.
async fn cities(plane: &Plane) -> Result<BTreeSet<String>, Error> {
    let mut cities = plane.cities().await;
    if cities.is_empty() {
        let (instances, deployments) =
            tokio::try_join!(plane.list(Resource::Instances), plane.list(Resource::Deployments))?;
        let index = Index::new(&[], &deployments).with_cities(&instances, &[]);
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

fn names(items: &[serde_json::Value]) -> Vec<String> {
    let names = items.iter().filter_map(|item| item["name"].as_str());
    names.map(str::to_owned).collect()
}

async fn revisions(plane: &Plane, workload: &Object) -> Result<Vec<Candidate>, Error> {
    let map = find(plane, workload).await?;
    let history = map.map(|map| History::read(&map)).unwrap_or_default();
    let now = plane.clock.now();
    let newest = history.revisions.iter().rev();
    let candidates = newest.map(|revision| {
        let meaning = format!(
            "{}, {} ago",
            without_registries(&revision.image),
            age(revision.time, now)
        );
        Candidate::new(revision.rev.to_string(), meaning)
    });
    Ok(candidates.collect())
}
