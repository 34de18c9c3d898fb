//! The kinds of the planes that are not built in.

use fedgate_simulator::Definition;
use kube::core::{ApiResource, GroupVersionKind};
use std::sync::{Arc, LazyLock};

const COMPUTE: &str = "compute.datumapis.com";
const POLICY: &str = "policy.karmada.io";

/// A kind: group, version, name, plural, and whether it is in namespaces.
type Kind = (&'static str, &'static str, &'static str, &'static str, bool);

const EVERYWHERE: [Kind; 3] = [
    (COMPUTE, "v1alpha", "Workload", "workloads", true),
    (
        COMPUTE,
        "v1alpha",
        "WorkloadDeployment",
        "workloaddeployments",
        true,
    ),
    (COMPUTE, "v1alpha", "Instance", "instances", true),
];

const ON_THE_HUB: [Kind; 5] = [
    (
        POLICY,
        "v1alpha1",
        "ClusterPropagationPolicy",
        "clusterpropagationpolicies",
        false,
    ),
    (
        POLICY,
        "v1alpha1",
        "PropagationPolicy",
        "propagationpolicies",
        true,
    ),
    (
        "work.karmada.io",
        "v1alpha2",
        "ResourceBinding",
        "resourcebindings",
        true,
    ),
    (
        "config.karmada.io",
        "v1alpha1",
        "ResourceInterpreterCustomization",
        "resourceinterpretercustomizations",
        false,
    ),
    ("cluster.karmada.io", "v1alpha1", "Cluster", "clusters", false),
];

const AT_MILO: [Kind; 1] = [(
    "resourcemanager.miloapis.com",
    "v1alpha1",
    "Project",
    "projects",
    false,
)];

fn definitions(kinds: &[Kind]) -> Vec<Arc<Definition>> {
    let define = |&(group, version, name, plural, namespaced): &Kind| {
        Arc::new(Definition::plain(group, version, name, plural, namespaced, true))
    };
    kinds.iter().map(define).collect()
}

/// The kinds that every plane has.
pub(crate) fn everywhere() -> &'static [Arc<Definition>] {
    static ALL: LazyLock<Vec<Arc<Definition>>> = LazyLock::new(|| definitions(&EVERYWHERE));
    &ALL
}

/// The kinds that the hub has beside them.
pub(crate) fn on_the_hub() -> Vec<Arc<Definition>> {
    definitions(&ON_THE_HUB)
}

/// The kinds of Milo's own API server.
pub(crate) fn at_milo() -> Vec<Arc<Definition>> {
    definitions(&AT_MILO)
}

/// A kind as a client names it, from what a request names. Kinds that are built in have version 1.
pub(crate) fn resource(group: &str, plural: &str) -> ApiResource {
    let known = EVERYWHERE.iter().chain(&ON_THE_HUB);
    let (version, name) = known
        .filter(|kind| kind.0 == group && kind.3 == plural)
        .map(|kind| (kind.1, kind.2))
        .next()
        .unwrap_or(("v1", plural));
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, name), plural)
}
