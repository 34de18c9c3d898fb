//! State that the role shares beside the runtime's own.

use super::index::CellsIndex;
use fedgate_api::cell::ProviderKind;
use fedgate_engine::{
    plane::lease::LeaseHandle,
    runtime::{self, index::RoleState},
};
use fedgate_kinds::FederatedKind;
use std::{path::PathBuf, sync::Arc};

/// State beside the runtime's own.
#[derive(Debug)]
pub struct State {
    /// Namespace of the Secrets with the clusters' kubeconfigs.
    pub namespace: Arc<str>,
    /// Kubeconfig of the hub, for the steps.
    pub hub_kubeconfig: PathBuf,
    /// The Lease that permits the writes of the steps.
    pub lease: LeaseHandle,
    /// The kinds of providers that the role runs.
    pub providers: Vec<ProviderKind>,
    /// Namespaces in which Cells may use or create Clusters of Cluster API.
    pub cluster_api_namespaces: Vec<String>,
    /// Folder for keys of SSH while a step uses them.
    pub runtime_directory: PathBuf,
    /// The federated kinds.
    pub kinds: Vec<FederatedKind>,
}

/// The shared state.
pub type Shared = runtime::context::Shared<State>;
/// Context of one reconcile.
pub type Context<'a> = runtime::context::Context<'a, State>;

impl RoleState for State {
    type Index = CellsIndex;
}
