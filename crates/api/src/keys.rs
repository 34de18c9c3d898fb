//! The registry of labels, annotations and finalizers: one constant per wire key (contract: federation.md §1.3).

/// Finalizer on a project deployment, set before any hub write for it.
pub const FEDERATOR_FINALIZER: &str = "compute.datumapis.com/federator";
/// Finalizer on a project deployment while its template references data.
pub const REFERENCED_DATA_FINALIZER: &str = "compute.datumapis.com/referenced-data-controller";
/// Finalizer on a Workload until its deployments are gone.
pub const WORKLOAD_FINALIZER: &str = "compute.datumapis.com/workload-controller";

/// Label: `cluster-<project key>` on hub Namespace, write-back and projection.
pub const UPSTREAM_CLUSTER: &str = "meta.datumapis.com/upstream-cluster-name";
/// Label: the project namespace, on hub Namespace, copy, write-back and projection.
pub const UPSTREAM_NAMESPACE: &str = "meta.datumapis.com/upstream-namespace";
/// Label on a hub Namespace that keeps Karmada from spreading it to every cell.
pub const SKIP_AUTO_PROPAGATION: &str = "namespace.karmada.io/skip-auto-propagation";
/// Label on a hub Namespace: its city set.
pub const CITIES: &str = "fedgate.dev/cities";
/// Label on a hub Namespace: UID of the project it belongs to.
pub const PROJECT_UID: &str = "fedgate.dev/project-uid";
/// Annotation on a hub Namespace, by an operator: key of the project that it is given to.
pub const REASSIGN_TO: &str = "fedgate.dev/reassign-to";
/// Annotation on a hub Namespace, by an operator: the orphaned copies in it that were known at this time (RFC 3339) are
/// none in error, so the brake lets them go.
pub const GARBAGE_CONFIRMED: &str = "fedgate.dev/garbage-confirmed";
/// Label on copies and Karmada Clusters: the city code.
pub const CITY_CODE: &str = "topology.datum.net/city-code";
/// Label on Karmada Clusters: the name of the location.
pub const LOCATION: &str = "topology.datum.net/location";
/// Label on companions.
pub const REFERENCED_DATA: &str = "compute.datumapis.com/referenced-data";
/// Label on Instances: UID of the Workload.
pub const WORKLOAD_UID: &str = "compute.datumapis.com/workload-uid";
/// Label on Instances: UID of the *cell* deployment; never a join between planes.
pub const WORKLOAD_DEPLOYMENT_UID: &str = "compute.datumapis.com/workload-deployment-uid";
/// Label on Instances: the ordinal.
pub const INSTANCE_INDEX: &str = "compute.datumapis.com/instance-index";
/// Label on Instances: name of the deployment, the same on every plane.
pub const WORKLOAD_DEPLOYMENT_NAME: &str = "compute.datumapis.com/workload-deployment-name";
/// Label on Instances: city code.
pub const INSTANCE_CITY_CODE: &str = "compute.datumapis.com/city-code";
/// Label on Instances: name of the location, where it is known. Projected, but not one of [`LINKING`]: an
/// Instance is complete without it.
pub const INSTANCE_LOCATION: &str = "compute.datumapis.com/location";
/// Label on Instances: name of the Workload.
pub const WORKLOAD_NAME: &str = "compute.datumapis.com/workload-name";
/// Label on Instances: name of the placement.
pub const PLACEMENT_NAME: &str = "compute.datumapis.com/placement-name";
/// The labels that link an Instance to its deployment and Workload, on every plane.
pub const LINKING: [&str; 7] = [
    WORKLOAD_UID,
    WORKLOAD_DEPLOYMENT_UID,
    WORKLOAD_DEPLOYMENT_NAME,
    WORKLOAD_NAME,
    PLACEMENT_NAME,
    INSTANCE_CITY_CODE,
    INSTANCE_INDEX,
];
/// Label on project deployments by which the platform's suspension hook finds them.
pub const SERVICE_NAME: &str = "services.miloapis.com/service-name";

/// Namespace whose UID identifies a project, where no platform gives the project one (federation.md §1.1).
pub const PROJECT_IDENTITY: &str = "kube-system";

/// Annotation on a project deployment: UID of the hub whose gateway federates it (federation.md §1.2 rule 11).
pub const HUB: &str = "fedgate.dev/hub";
/// Namespace of a hub whose UID is that of the hub.
pub const HUB_IDENTITY: &str = "kube-system";
/// Annotation on Namespace [`SYSTEM_NAMESPACE`] of a hub, by an operator: UIDs of hubs, separated by commas, whose place this
/// hub takes.
pub const REPLACES_HUB: &str = "fedgate.dev/replaces-hub";
/// Namespace of fedgate itself on a hub.
pub const SYSTEM_NAMESPACE: &str = "fedgate-system";

/// Label on write-backs, which is not projected: name of the writing cell's Karmada Cluster. Annotation on copies: name of the Cluster
/// whose write-backs count (contract: serving.md §1).
pub const CELL: &str = "fedgate.dev/cell";
/// Annotation on write-backs: UID of the Instance at the cell.
pub const INSTANCE_UID: &str = "fedgate.dev/instance-uid";
/// Annotation on Instances at a cell: what the provider remembers of crashes, `{attempts, notBefore}`.
pub const RECOVERY: &str = "fedgate.dev/recovery";
/// Annotation on Instances at a cell: when the gate for referenced data was first seen.
pub const GATE_START: &str = "compute.datumapis.com/referenced-data-gate-start";
/// Annotation on deployments at a cell: the last template whose rollout completed, as JSON (contract: serving.md §3).
pub const COMPLETE_TEMPLATE: &str = "fedgate.dev/complete-template";
/// Annotation on deployments at a cell: hash of the template whose rollout was undone (contract: serving.md §3).
pub const UNDONE: &str = "fedgate.dev/undone";
/// Annotation on project deployments, written at creation: UIDs of the deployments of former places that it replaces, separated by
/// commas (contract: serving.md §4).
pub const REPLACES: &str = "fedgate.dev/replaces";
/// Annotation on Workloads, by their tenant: with `true`, the gateway deletes the deployments of former places without waiting for the
/// new ones (contract: serving.md §4).
pub const ALLOW_GAP: &str = "fedgate.dev/allow-gap";
/// Label on claims of quota: name of the claiming cell's Karmada Cluster.
pub const SOURCE_CLUSTER: &str = "compute.datumapis.com/source-cluster";
/// Label on claims of quota: namespace of the Instance at its cell.
pub const INSTANCE_NAMESPACE: &str = "compute.datumapis.com/instance-namespace";
/// Finalizer on Instances at a cell, until their copy on the hub is gone.
pub const INSTANCE_FINALIZER: &str = "compute.datumapis.com/instance-controller";
/// Finalizer on Instances at a cell, until their claim of quota is released.
pub const CLAIM_FINALIZER: &str = "quota.compute.datumapis.com/claim-cleanup";
/// Finalizer on Instances at a cell, until their Pod and Service are gone.
pub const PROVIDER_FINALIZER: &str = "fedgate.dev/pod-provider";
/// Label on Namespaces: the profile that Pods in it have to keep.
pub const POD_SECURITY: &str = "pod-security.kubernetes.io/enforce";
/// Label on Secrets that hold a project's kubeconfig.
pub const PROJECT_SECRET: &str = "fedgate.dev/project";

/// Annotation on a project deployment: its hub namespace.
pub const FEDERATION_NAMESPACE: &str = "compute.datumapis.com/federation-namespace";
/// Annotation: sorted JSON array of `Kind/name`, what the deployment expects at its cell.
pub const EXPECTED_REFERENCED_DATA: &str = "compute.datumapis.com/expected-referenced-data";
/// Annotation: JSON `{"reason","message"}` of a terminal source error.
pub const REFERENCED_DATA_ERROR: &str = "compute.datumapis.com/referenced-data-error";
/// Annotation: `true` suspends.
pub const SUSPENDED: &str = "compute.datumapis.com/suspended";
/// Annotation in a template: lines of `user:public-key` for virtual machines.
pub const SSH_KEYS: &str = "compute.datumapis.com/ssh-keys";
/// Annotation on companions: sorted JSON array of `<project namespace>/<deployment>`.
pub const REFERENCED_BY: &str = "compute.datumapis.com/referenced-by";
/// Label on copies and companions of objects that live at one member: name of the policy that is to claim them
/// (clusters.md §2).
pub const LANE: &str = "fedgate.dev/lane";
/// Label on the `ConfigMaps` that record the members of objects (clusters.md §2).
pub const PINS: &str = "fedgate.dev/pins";
/// Annotation on copies, by an operator of the hub: name of the cell to which the deployment is to move (contract: serving.md §2).
pub const MOVE_TO: &str = "fedgate.dev/move-to";
/// Annotation on copies: name of the cell to which the deployment moves (contract: serving.md §2).
pub const MOVING_TO: &str = "fedgate.dev/moving-to";
/// Producer of the graceful eviction tasks by which the gateway moves deployments (contract: serving.md §2).
pub const EVICTION_PRODUCER: &str = "fedgate";
/// Taint on a Karmada Cluster, by an operator: its deployments move to other cells of their city (contract: serving.md §2).
pub const DRAINING: &str = "fedgate.dev/draining";
/// Taint on a Karmada Cluster, by an operator: it takes no new deployments (contract: provisioning.md §7.2).
pub const CORDONED: &str = "fedgate.dev/cordoned";
/// Annotation on a Karmada Cluster, by an operator: UID of the Cluster whose member it is (clusters.md §4).
pub const SAME_AS: &str = "fedgate.dev/same-as";
/// Annotation on a project's object: the member that its deletion no longer waits for (clusters.md §3.4).
pub const ABANDON: &str = "fedgate.dev/abandon";
/// Annotation on each object that `fedgate cells` or the provisioner has made for a cell: its mark (contract: provisioning.md §1.3).
pub const CELL_UID: &str = "fedgate.dev/cell-uid";
/// Finalizer on a Cell until the objects of its cell are deleted.
pub const CELL_FINALIZER: &str = "fedgate.dev/cell";
/// Annotation on a Secret beside the provisioner: names of the Cells that it serves, or `*`.
pub const CELLS: &str = "fedgate.dev/cells";
/// Annotation on a Cell: any change of it lets the provisioner try again.
pub const RETRY: &str = "fedgate.dev/retry";
/// Annotation on a Cell: with its name its deployments are withdrawn although no other cell runs them.
pub const ALLOW_OUTAGE: &str = "fedgate.dev/allow-outage";
/// Annotation on a project's object whose schema has no conditions: those of the gateway, as JSON (clusters.md §1).
pub const CONDITIONS: &str = "fedgate.dev/conditions";

/// Label on Secrets that come back from members: on the hub the kind of their object, as `<plural>.<group>`; in a project `true`
/// (clusters.md §7).
pub const RETURNED: &str = "fedgate.dev/returned";
/// Label on Secrets that come back from members, on the hub: name of their object.
pub const RETURNED_FOR: &str = "fedgate.dev/returned-for";
/// Label of Karmada on an object at a member that it manages.
pub const KARMADA_MANAGED: &str = "karmada.io/managed";

/// Label on a project's object that the gateway projects from the hub's of a kind of the platform (clusters.md §8).
pub const PROJECTED: &str = "fedgate.dev/projected";

/// Annotation on a copy: UID of the project deployment; on a projection of a platform's object: UID of the hub's.
pub const SOURCE_UID: &str = "fedgate.dev/source-uid";
/// Annotation on a copy: generation of the project deployment whose spec it carries.
pub const SOURCE_GENERATION: &str = "fedgate.dev/source-generation";

/// Karmada's claim of a copy: label.
pub const CLAIM_ID: &str = "propagationpolicy.karmada.io/permanent-id";
/// Karmada's claim of a copy: annotation with the policy's name.
pub const CLAIM_NAME: &str = "propagationpolicy.karmada.io/name";
/// Karmada's claim of a copy: annotation with the policy's namespace.
pub const CLAIM_NAMESPACE: &str = "propagationpolicy.karmada.io/namespace";
/// Karmada's claim of a Namespace: label.
pub const CLUSTER_CLAIM_ID: &str = "clusterpropagationpolicy.karmada.io/permanent-id";
/// Karmada's claim of a Namespace: annotation with the policy's name.
pub const CLUSTER_CLAIM_NAME: &str = "clusterpropagationpolicy.karmada.io/name";
/// Annotation of Karmada on an object at a member: UID of the hub's object that it was made from.
pub const TEMPLATE_UID: &str = "resourcetemplate.karmada.io/uid";
/// Key in the status that a member reports of an object that lives there alone: UID of the member's object. The gateway's
/// scripts add and remove it (contract: clusters.md §3.6), so that no copy has it.
pub const UID_AT_MEMBER: &str = "fedgate.dev/uid-at-member";
/// Key beside [`UID_AT_MEMBER`]: the time since which the member's object is being deleted.
pub const DELETED_AT_MEMBER: &str = "fedgate.dev/deleted-at-member";
/// Finalizer of a `ResourceBinding`, of the controller that delivers what a template names beside it.
pub const DISTRIBUTOR_FINALIZER: &str = "karmada.io/binding-dependencies-distributor";
/// Annotation of Karmada on the Works of a binding: its namespace.
pub const BINDING_NAMESPACE: &str = "resourcebinding.karmada.io/namespace";
/// Annotation of Karmada on the Works of a binding: its name.
pub const BINDING_NAME: &str = "resourcebinding.karmada.io/name";
/// Label of Karmada on the Works of a binding: its permanent id.
pub const BINDING_ID: &str = "resourcebinding.karmada.io/permanent-id";
/// Annotation on the Clusters of a hub whose controllers are the sandbox's stand-in for Karmada.
pub const STAND_IN: &str = "fedgate.dev/stand-in";
