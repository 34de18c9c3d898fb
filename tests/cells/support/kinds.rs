//! The kinds that the suite reads and writes: those of federation, and those of a cell.

#[allow(dead_code, reason = "the gateway's suite has it, used here in part")]
#[path = "../../e2e/support/kinds.rs"]
mod federation;

#[allow(unused_imports, reason = "the gateway's suite has them, used here in part")]
pub(crate) use federation::*;

const NETWORKING: &str = "networking.datumapis.com";

pub(crate) const CELL: Kind = kind("fedgate.dev", "v1alpha1", "Cell", "cells", false);
pub(crate) const NODE: Kind = kind("", "v1", "Node", "nodes", false);
pub(crate) const POD: Kind = kind("", "v1", "Pod", "pods", true);
pub(crate) const SERVICE: Kind = kind("", "v1", "Service", "services", true);
pub(crate) const NETWORK_POLICY: Kind = kind(
    "networking.k8s.io",
    "v1",
    "NetworkPolicy",
    "networkpolicies",
    true,
);
pub(crate) const LIMIT_RANGE: Kind = kind("", "v1", "LimitRange", "limitranges", true);
pub(crate) const SERVING_LOCATION: Kind = kind(
    NETWORKING,
    "v1alpha",
    "ServingLocation",
    "servinglocations",
    false,
);
pub(crate) const NETWORK_BINDING: Kind =
    kind(NETWORKING, "v1alpha", "NetworkBinding", "networkbindings", true);
pub(crate) const CLAIM: Kind = kind(
    "quota.miloapis.com",
    "v1alpha1",
    "ResourceClaim",
    "resourceclaims",
    true,
);
pub(crate) const ROLE: Kind = kind("rbac.authorization.k8s.io", "v1", "Role", "roles", true);
