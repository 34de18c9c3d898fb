//! Reads hub and cells for `trace`, as far as the command line names them. Nothing is written there.

use super::follow::RequestInfo;
use crate::{
    args::TraceArgs,
    error::Error,
    plane::{Choice, Plane, Resource, Scope},
    trace::{Beside, CellView, HubView},
    view::{City, Instances, Object},
};
use fedgate_api::keys;
use std::collections::{BTreeMap, BTreeSet};

/// The planes beside the project.
#[derive(Debug)]
pub(super) struct Planes {
    hub: Beside<Plane>,
    /// By city.
    cells: BTreeMap<String, Result<Plane, String>>,
    via_hub: bool,
}

/// The cell of a city.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CellKey {
    /// The one that the command line names for this city.
    City(String),
    /// The cluster of this name, through the hub's proxy.
    Cluster(String),
}

impl CellKey {
    /// The name for people.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::City(name) | Self::Cluster(name) => name,
        }
    }
}

/// Refuses to read cells through a hub that is not named.
pub(in crate::commands) fn check(args: &TraceArgs) -> Result<(), Error> {
    if args.via_hub && !names_hub(args) {
        return Err(Error::usage("--via-hub needs --hub-context or --hub-kubeconfig"));
    }
    Ok(())
}

fn names_hub(args: &TraceArgs) -> bool {
    args.hub_kubeconfig.is_some() || !args.hub_context.is_empty()
}

impl Planes {
    /// Reads the kubeconfigs. Sends no request.
    pub(super) async fn open(choice: &Choice, args: &TraceArgs) -> Result<Self, Error> {
        let hub = if names_hub(args) {
            let choice = Choice {
                kubeconfig: args.hub_kubeconfig.clone().or_else(|| choice.kubeconfig.clone()),
                ..choice.clone()
            };
            let context = Some(&*args.hub_context).filter(|context| !context.is_empty());
            match Plane::beside(&choice, context).await {
                Ok(plane) => Beside::Read(plane),
                Err(error) => Beside::Unreadable(unreadable("hub", &error)),
            }
        } else {
            Beside::NotNamed("see --hub-context")
        };
        let mut cells = BTreeMap::new();
        for (city, context) in &args.cell {
            let plane = Plane::beside(choice, Some(context)).await;
            cells.insert(city.clone(), plane.map_err(|error| unreadable(city, &error)));
        }
        Ok(Self {
            hub,
            cells,
            via_hub: args.via_hub,
        })
    }

    /// True if no plane beside the project is named.
    pub(super) fn is_project_alone(&self) -> bool {
        matches!(self.hub, Beside::NotNamed(_)) && self.cells.is_empty()
    }

    /// The hub.
    pub(super) fn hub(&self) -> &Beside<Plane> {
        &self.hub
    }

    /// The cell of a city; `None` if it is not named or not known yet.
    pub(super) fn cell_key(
        &self,
        hub: &Beside<HubView>,
        city: &City,
        deployment: Option<&Object>,
    ) -> Option<CellKey> {
        let deployment = deployment?;
        // Cells of several locations of a city are named by the locations.
        let mut names = [&city.location, &city.code].into_iter();
        if let Some(name) = names.find(|name| self.cells.contains_key(*name)) {
            return Some(CellKey::City(name.clone()));
        }
        let Beside::Read(view) = hub else { return None };
        let scheduled = view.scheduled(deployment.name());
        let cluster = scheduled.first().filter(|_| self.via_hub)?;
        Some(CellKey::Cluster((*cluster).to_owned()))
    }

    /// The control plane of a cell; the error says why it cannot be read.
    pub(super) fn cell_plane(&self, key: &CellKey) -> Result<Plane, String> {
        match (key, &self.hub) {
            (CellKey::City(city), _) => {
                let named = self.cells.get(city).cloned();
                named.unwrap_or_else(|| Err(format!("{city} is not named")))
            }
            (CellKey::Cluster(cluster), Beside::Read(hub)) => {
                let member = hub.member(cluster);
                member.map_err(|error| unreadable(cluster, &error))
            }
            (CellKey::Cluster(cluster), _) => Err(format!("{cluster} is reached through the hub")),
        }
    }

    /// The cells of these cities, each once.
    pub(super) fn cell_keys(&self, hub: &Beside<HubView>, cities: &[RequestInfo<'_>]) -> BTreeSet<CellKey> {
        let keys = cities.iter();
        keys.filter_map(|(city, deployment)| self.cell_key(hub, city, deployment.as_ref()))
            .collect()
    }
}

/// The hub before its namespace of the project is known.
pub(super) fn no_hub(planes: &Planes) -> Beside<HubView> {
    match &planes.hub {
        Beside::NotNamed(flag) => Beside::NotNamed(flag),
        Beside::Unreadable(cause) => Beside::Unreadable(cause.clone()),
        Beside::Read(_) => Beside::Unreadable("the hub namespace is not known".to_owned()),
    }
}

/// Name of the project namespace on hub and cells: by its UID, else as the gateway has noted it on a deployment.
pub(super) async fn hub_namespace<'a>(
    plane: &Plane,
    mut deployments: impl Iterator<Item = &'a Object>,
) -> Option<String> {
    let namespace = plane.find(Resource::Namespaces, &plane.namespace).await;
    if let Ok(Some(namespace)) = namespace {
        return Some(format!("ns-{}", namespace.uid()));
    }
    let noted = deployments
        .find_map(|deployment| deployment.0["metadata"]["annotations"][keys::FEDERATION_NAMESPACE].as_str());
    noted.map(str::to_owned)
}

/// Reads the project's namespace on the hub.
pub(super) async fn read_hub(plane: &Plane, namespace: &str) -> Beside<HubView> {
    let read = async {
        let (found, copies, bindings, policies, instances, clusters) = tokio::try_join!(
            plane.find(Resource::Namespaces, namespace),
            plane.list_in(Resource::Deployments, Scope::Namespace(namespace), ""),
            plane.list_in(Resource::Bindings, Scope::Namespace(namespace), ""),
            plane.list_in(Resource::Policies, Scope::Namespace(namespace), ""),
            plane.list_in(Resource::Instances, Scope::Namespace(namespace), ""),
            plane.list(Resource::Clusters),
        )?;
        let city_set = match found.as_ref().and_then(city_set) {
            Some(name) => plane.find(Resource::ClusterPolicies, &name).await?,
            None => None,
        };
        Ok(HubView {
            namespace: found,
            city_set,
            copies,
            bindings,
            policies,
            instances: instances.into(),
            clusters,
        })
    };
    match read.await {
        Ok(view) => Beside::Read(view),
        Err(error) => Beside::Unreadable(unreadable("hub", &error)),
    }
}

/// Name of the policy that delivers a hub namespace to its cities.
pub(super) fn city_set(namespace: &Object) -> Option<String> {
    match namespace.label(keys::CITIES) {
        "" => None,
        set => Some(format!("cities-{set}")),
    }
}

/// Reads the project's namespace in a cell.
pub(super) async fn read_cell(plane: &Plane, name: &str, namespace: &str) -> Beside<CellView> {
    let read = tokio::try_join!(
        plane.list_in(Resource::Deployments, Scope::Namespace(namespace), ""),
        plane.list_in(Resource::Instances, Scope::Namespace(namespace), "")
    );
    match read {
        Ok((deployments, instances)) => Beside::Read(CellView {
            name: name.to_owned(),
            deployments,
            instances: Instances::from(instances),
        }),
        Err(error) => Beside::Unreadable(unreadable(name, &error)),
    }
}

/// The plane that cannot be read, with the cause in one line.
pub(super) fn unreadable(plane: &str, error: &Error) -> String {
    format!("{plane} cannot be read: {}", error.what)
}
