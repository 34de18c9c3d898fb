//! Reads hub and cells for `trace`, as far as the command line names them. Nothing is written there.

use crate::{
    args::TraceArgs,
    error::Error,
    plane::{Choice, Plane, Resource},
    trace::{Beside, CellView, HubView},
    view::{City, Object},
};
use fedgate_api::keys;
use std::collections::BTreeMap;

/// The planes beside the project.
#[derive(Debug)]
pub(super) struct Planes {
    hub: Beside<Plane>,
    /// By city.
    cells: BTreeMap<String, Result<Plane, String>>,
    via_hub: bool,
}

impl Planes {
    /// Reads the kubeconfigs. Sends no request.
    pub(super) async fn open(choice: &Choice, args: &TraceArgs) -> Result<Self, Error> {
        let hub = if args.hub_kubeconfig.is_none() && args.hub_context.is_empty() {
            Beside::NotNamed("see --hub-context")
        } else {
            let choice = Choice {
                kubeconfig: args.hub_kubeconfig.clone().or_else(|| choice.kubeconfig.clone()),
                ..choice.clone()
            };
            let context = Some(&*args.hub_context).filter(|context| !context.is_empty());
            match Plane::beside(&choice, context).await {
                Ok(plane) => Beside::Read(plane),
                Err(error) => Beside::Unreadable(told("hub", &error)),
            }
        };
        if args.via_hub && matches!(hub, Beside::NotNamed(_)) {
            return Err(Error::usage("--via-hub needs --hub-context or --hub-kubeconfig"));
        }
        let mut cells = BTreeMap::new();
        for (city, context) in &args.cell {
            let plane = Plane::beside(choice, Some(context)).await;
            cells.insert(city.clone(), plane.map_err(|error| told(city, &error)));
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

    /// The hub, if the name of the project's namespace there is not known.
    pub(super) fn without_namespace(&self) -> Beside<HubView> {
        match &self.hub {
            Beside::NotNamed(flag) => Beside::NotNamed(flag),
            Beside::Unreadable(cause) => Beside::Unreadable(cause.clone()),
            Beside::Read(_) => Beside::Unreadable("the hub namespace is not known".to_owned()),
        }
    }

    /// Reads the project's namespace on the hub.
    pub(super) async fn hub(&self, namespace: &str) -> Beside<HubView> {
        match &self.hub {
            Beside::NotNamed(flag) => Beside::NotNamed(flag),
            Beside::Unreadable(cause) => Beside::Unreadable(cause.clone()),
            Beside::Read(plane) => match read(plane, namespace).await {
                Ok(view) => Beside::Read(view),
                Err(error) => Beside::Unreadable(told("hub", &error)),
            },
        }
    }

    /// Reads a deployment and its Instances in the cell of a city.
    pub(super) async fn cell(
        &self,
        hub: &Beside<HubView>,
        namespace: &str,
        city: &City,
        deployment: Option<&Object>,
    ) -> Beside<CellView> {
        let Some(deployment) = deployment else {
            return Beside::NotNamed("see --cell");
        };
        let plane = match (self.cells.get(&city.city), &self.hub, hub) {
            (Some(plane), _, _) => plane.clone().map(|plane| (city.city.clone(), plane)),
            (None, Beside::Read(plane), Beside::Read(view)) if self.via_hub => {
                let scheduled = view.scheduled(deployment.name());
                let Some(cluster) = scheduled.first() else {
                    return Beside::NotNamed("no cell yet");
                };
                let member = plane.member(cluster);
                member
                    .map(|member| ((*cluster).to_owned(), member))
                    .map_err(|error| told(cluster, &error))
            }
            _ => return Beside::NotNamed("see --cell"),
        };
        let (name, plane) = match plane {
            Ok(found) => found,
            Err(cause) => return Beside::Unreadable(cause),
        };
        let read = tokio::try_join!(
            plane.find_in(Resource::Deployments, namespace, deployment.name()),
            plane.list_in(Resource::Instances, namespace, "")
        );
        match read {
            Ok((deployment, instances)) => Beside::Read(CellView {
                name,
                deployment,
                instances,
            }),
            Err(error) => Beside::Unreadable(told(&name, &error)),
        }
    }
}

/// Name of the project namespace on hub and cells: by its UID, else as the gateway has noted it on a deployment.
pub(super) async fn hub_namespace(plane: &Plane, deployments: &[Object]) -> Option<String> {
    let namespace = plane.find(Resource::Namespaces, &plane.namespace).await;
    if let Ok(Some(namespace)) = namespace {
        return Some(format!("ns-{}", namespace.uid()));
    }
    let noted = deployments
        .iter()
        .find_map(|deployment| deployment.0["metadata"]["annotations"][keys::FEDERATION_NAMESPACE].as_str());
    noted.map(str::to_owned)
}

async fn read(plane: &Plane, namespace: &str) -> Result<HubView, Error> {
    let (found, copies, bindings, policies, instances, clusters) = tokio::try_join!(
        plane.find(Resource::Namespaces, namespace),
        plane.list_in(Resource::Deployments, namespace, ""),
        plane.list_in(Resource::Bindings, namespace, ""),
        plane.list_in(Resource::Policies, namespace, ""),
        plane.list_in(Resource::Instances, namespace, ""),
        plane.list(Resource::Clusters),
    )?;
    let set = found
        .as_ref()
        .map(|namespace| namespace.label(keys::CITIES).to_owned());
    let city_set = match set.filter(|set| !set.is_empty()) {
        Some(set) => {
            let name = format!("cities-{set}");
            plane.find(Resource::ClusterPolicies, &name).await?
        }
        None => None,
    };
    Ok(HubView {
        namespace: found,
        city_set,
        copies,
        bindings,
        policies,
        instances,
        clusters,
    })
}

/// The plane that cannot be read, with the cause in one line.
fn told(plane: &str, error: &Error) -> String {
    format!("{plane} cannot be read: {}", error.what)
}
