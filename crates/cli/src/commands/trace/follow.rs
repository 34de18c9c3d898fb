//! The objects of hub and cells: read once, or followed for `trace -w`.

use super::planes::{CellKey, Planes, city_set, hub_namespace, no_hub, read_cell, read_hub, unreadable};
use crate::{
    plane::{Follow, News, Plane, Resource, Selection},
    trace::{Beside, CellView, HubView},
    view::{City, Joined, Object},
};
use futures::{
    FutureExt,
    future::{join_all, select_all},
};
use std::collections::BTreeMap;

/// A city of a Workload, with its deployment.
pub(super) type RequestInfo<'a> = &'a (City, Option<Object>);

/// The planes beside the project, as far as they are named and known.
#[derive(Debug)]
pub(super) struct Sides<'a> {
    planes: &'a Planes,
    is_followed: bool,
    /// Name of the project's namespace on hub and cells, once it is known.
    namespace: Option<String>,
    hub: Option<Side<HubView>>,
    /// The hub while it has no side.
    no_hub: Beside<HubView>,
    cells: BTreeMap<CellKey, Side<CellView>>,
}

impl<'a> Sides<'a> {
    /// Nothing is read yet.
    pub(super) fn new(planes: &'a Planes, is_followed: bool) -> Self {
        Self {
            planes,
            is_followed,
            namespace: None,
            hub: None,
            no_hub: no_hub(planes),
            cells: BTreeMap::new(),
        }
    }

    /// Reads the planes of these cities that were not read yet, and drops cells that no city has any more.
    pub(super) async fn update(&mut self, project: &Plane, joined: &Joined, cities: &[RequestInfo<'_>]) {
        if self.planes.is_project_alone() {
            return;
        }
        if self.namespace.is_none() {
            self.namespace = hub_namespace(project, joined.deployments()).await;
        }
        let (planes, is_followed) = (self.planes, self.is_followed);
        let namespace = self.namespace.as_deref();
        if self.hub.is_none()
            && let (Beside::Read(plane), Some(namespace)) = (planes.hub(), namespace)
        {
            let view = read_hub(plane, namespace).await;
            self.hub = Some(Side::start(plane, "hub", namespace, view, is_followed));
        }
        let keys = planes.cell_keys(self.hub(), cities);
        self.cells.retain(|key, _| keys.contains(key));
        let fresh = keys.into_iter().filter(|key| !self.cells.contains_key(key));
        let read = fresh.map(|key| async move {
            let side = match (planes.cell_plane(&key), namespace) {
                (Ok(plane), Some(namespace)) => {
                    let view = read_cell(&plane, key.name(), namespace).await;
                    Side::start(&plane, key.name(), namespace, view, is_followed)
                }
                (Ok(_), None) => Side::unreadable(key.name(), "the hub namespace is not known".to_owned()),
                (Err(cause), _) => Side::unreadable(key.name(), cause),
            };
            (key, side)
        });
        let read = join_all(read).await;
        // A namespace that is not known may become known.
        self.cells
            .extend(read.into_iter().filter(|_| self.namespace.is_some()));
    }

    /// Waits for a change on one of the planes.
    pub(super) async fn changed(&mut self) {
        let hub = self.hub.iter_mut().map(|hub| hub.changed().boxed());
        let cells = self.cells.values_mut().map(|cell| cell.changed().boxed());
        let all: Vec<_> = hub.chain(cells).collect();
        if all.is_empty() {
            return std::future::pending().await;
        }
        select_all(all).await;
    }

    /// The hub as it is now.
    pub(super) fn hub(&self) -> &Beside<HubView> {
        self.hub.as_ref().map_or(&self.no_hub, |hub| &hub.view)
    }

    /// The cell of a city as it is now.
    pub(super) fn cell(&self, (city, deployment): RequestInfo<'_>) -> Option<&Beside<CellView>> {
        let key = self.planes.cell_key(self.hub(), city, deployment.as_ref())?;
        self.cells.get(&key).map(|cell| &cell.view)
    }
}

/// A plane beside the project.
#[derive(Debug)]
struct Side<T> {
    name: String,
    /// `None` if it is read once only, or cannot be read.
    follow: Option<Follow>,
    view: Beside<T>,
}

/// The objects of a plane that is followed.
trait View: Sized {
    /// The kinds that it consists of.
    fn kinds(namespace: &str) -> Vec<(Resource, Selection)>;
    /// The objects as they are now.
    fn of(follow: &Follow, name: &str) -> Self;
}

impl View for HubView {
    fn kinds(namespace: &str) -> Vec<(Resource, Selection)> {
        let all = [
            Resource::Deployments,
            Resource::Bindings,
            Resource::Policies,
            Resource::Instances,
            Resource::Clusters,
            Resource::ClusterPolicies,
        ];
        let mut kinds = all.map(|kind| (kind, Selection::All)).to_vec();
        kinds.push((Resource::Namespaces, Selection::Named(namespace.to_owned())));
        kinds
    }

    fn of(follow: &Follow, _: &str) -> Self {
        let namespace = follow.objects(Resource::Namespaces).next().cloned();
        let set = namespace.as_ref().and_then(city_set);
        let mut policies = follow.objects(Resource::ClusterPolicies);
        let city_set = set.and_then(|set| policies.find(|policy| policy.name() == set).cloned());
        Self {
            namespace,
            city_set,
            copies: follow.objects(Resource::Deployments).cloned().collect(),
            bindings: follow.objects(Resource::Bindings).cloned().collect(),
            policies: follow.objects(Resource::Policies).cloned().collect(),
            instances: follow.objects(Resource::Instances).cloned().collect(),
            clusters: follow.objects(Resource::Clusters).cloned().collect(),
        }
    }
}

impl View for CellView {
    fn kinds(_: &str) -> Vec<(Resource, Selection)> {
        [Resource::Deployments, Resource::Instances]
            .map(|kind| (kind, Selection::All))
            .to_vec()
    }

    fn of(follow: &Follow, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            deployments: follow.objects(Resource::Deployments).cloned().collect(),
            instances: follow.objects(Resource::Instances).cloned().collect(),
        }
    }
}

impl<T: View> Side<T> {
    /// A plane that was read already: it would take long to find out by following that a plane cannot be read.
    fn start(plane: &Plane, name: &str, namespace: &str, view: Beside<T>, is_followed: bool) -> Self {
        let follow = is_followed.then(|| Follow::start(&plane.within(namespace), &T::kinds(namespace)));
        Self {
            name: name.to_owned(),
            follow,
            view,
        }
    }

    fn unreadable(name: &str, cause: String) -> Self {
        Self {
            name: name.to_owned(),
            follow: None,
            view: Beside::Unreadable(cause),
        }
    }

    /// Waits for a change.
    async fn changed(&mut self) {
        let Some(follow) = &mut self.follow else {
            return std::future::pending().await;
        };
        self.view = match follow.next().await {
            Ok(News::Changed) => Beside::Read(T::of(follow, &self.name)),
            Ok(News::NoAnswer(error)) => Beside::Unreadable(unreadable(&self.name, &error)),
            Err(error) => {
                self.follow = None;
                Beside::Unreadable(unreadable(&self.name, &error))
            }
        };
    }
}
