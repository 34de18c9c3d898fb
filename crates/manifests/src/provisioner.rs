//! The role `fedgate provisioner` (contract: provisioning.md §10.5): definition of Cell, limits and rights on the hub, and its Deployment
//! beside its Secrets. Who does not run the role applies none of these.

use crate::{KindManifests, Manifest, ManifestError, names, rbac::rule, sources};
use fedgate_api::crd;
use std::collections::BTreeSet;

/// All files, in the order in which they are applied.
pub(super) fn files(kinds: &[KindManifests]) -> Result<Vec<Manifest>, ManifestError> {
    let definition = crd::cell()?;
    let mut role = sources::manifest("provisioner/hub/role-of-provisioner.yaml")?;
    let federated = kinds.iter().filter_map(|kind| kind.federated.as_ref());
    let write_backs = federated.filter_map(|kind| kind.write_back.as_ref());
    // A drain waits until the cell has taken its write-backs back.
    let resources: BTreeSet<(&str, &str)> = write_backs.map(|of| names(&of.resource)).collect();
    let watched = resources
        .into_iter()
        .map(|(group, plural)| rule(group, &[plural], &["list", "watch"]));
    if let Some(rules) = role
        .objects
        .first_mut()
        .and_then(|role| role["rules"].as_array_mut())
    {
        rules.extend(watched);
    }
    Ok(vec![
        Manifest::generated("provisioner/hub/cells.fedgate.dev.yaml", vec![definition]),
        sources::manifest("provisioner/hub/provisioner-writes.yaml")?,
        role,
        sources::manifest("provisioner/hub-pull/role-of-pull.yaml")?,
        sources::manifest("provisioner/home/access-of-provisioner.yaml")?,
        sources::manifest("provisioner/home/provisioner.yaml")?,
    ])
}
