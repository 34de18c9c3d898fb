//! Checks between kinds.

use super::{Kinds, LoadError};
use crate::{Cardinality, FederatedKind, PlatformKind};
use kube::core::ApiResource;

/// Checks that kinds do not conflict: policies differ by prefix and interpreters by name, all kinds use the same label to
/// select cells, and a kind whose objects live at one member is no companion.
pub(super) fn check(kinds: &Kinds) -> Result<(), LoadError> {
    for (i, kind) in kinds.federated.iter().enumerate() {
        for other in &kinds.federated[..i] {
            pair(kind, other)?;
        }
        companions(kind, &kinds.federated)?;
    }
    for (i, kind) in kinds.platform.iter().enumerate() {
        platform(kind, &kinds.federated, &kinds.platform[..i])?;
    }
    Ok(())
}

fn is_same(a: &ApiResource, b: &ApiResource) -> bool {
    a.api_version == b.api_version && a.kind == b.kind
}

fn twice(file: &str, there: &str) -> LoadError {
    LoadError::at(
        file,
        1,
        format!("{there} describes this kind already; remove one of the folders"),
    )
}

fn pair(kind: &FederatedKind, other: &FederatedKind) -> Result<(), LoadError> {
    let fail = |line, message: String| Err(LoadError::at(&kind.origin.file, line, message));
    let there = &other.origin.file;
    if is_same(&kind.resource, &other.resource) {
        return Err(twice(&kind.origin.file, there));
    }
    let (prefix, taken) = (&kind.placement.policy_prefix, &other.placement.policy_prefix);
    if prefix.starts_with(taken.as_str()) || taken.starts_with(prefix.as_str()) {
        let message = format!(
            "policyPrefix {prefix:?} cannot be told from {taken:?} of {there}; choose one that neither begins \
             with the other"
        );
        return fail(kind.origin.prefix_line, message);
    }
    if kind.placement.label != other.placement.label {
        let message = format!(
            "label {:?} differs from {:?} of {there}; Karmada Clusters carry one label for their city, use the same",
            kind.placement.label, other.placement.label
        );
        return fail(kind.origin.label_line, message);
    }
    if kind.interpreter.name == other.interpreter.name {
        let name = &kind.interpreter.name;
        return fail(
            1,
            format!("the interpreter's name {name:?} is taken by {there}; set interpreter.name"),
        );
    }
    Ok(())
}

fn companions(kind: &FederatedKind, all: &[FederatedKind]) -> Result<(), LoadError> {
    for reference in kind.companions.iter().flat_map(|section| &section.references) {
        let resource = &reference.resource;
        let folder = all.iter().find(|other| {
            other.placement.cardinality == Cardinality::ExactlyOne
                && other.resource.group == resource.group
                && other.resource.kind == resource.kind
        });
        if let Some(folder) = folder {
            let message = format!(
                "kind {} of {} lives at exactly one member by {}, so it cannot be a companion; take the reference out",
                resource.kind, resource.api_version, folder.origin.file
            );
            return Err(LoadError::at(&kind.origin.file, reference.line, message));
        }
    }
    Ok(())
}

fn platform(
    kind: &PlatformKind,
    federated: &[FederatedKind],
    others: &[PlatformKind],
) -> Result<(), LoadError> {
    let federated = federated
        .iter()
        .map(|other| (&other.resource, &other.origin.file));
    let mut all = federated.chain(others.iter().map(|other| (&other.resource, &other.origin)));
    match all.find(|(resource, _)| is_same(&kind.resource, resource)) {
        Some((_, there)) => Err(twice(&kind.origin, there)),
        None => Ok(()),
    }
}
