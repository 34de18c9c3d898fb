//! Checks between kinds.

use super::{Kinds, LoadError};
use crate::{CompanionKinds, CompanionSet, FederatedKind, PlatformKind};
use kube::core::ApiResource;

/// Checks that kinds do not conflict: policies differ by prefix and interpreters by name, all kinds use the same label to
/// select cells, and no federated kind is a companion.
pub(super) fn check(kinds: &Kinds) -> Result<(), LoadError> {
    for (i, kind) in kinds.federated.iter().enumerate() {
        for other in &kinds.federated[..i] {
            pair(kind, other)?;
        }
        companions(kind, &kinds.federated)?;
    }
    let limit = CompanionSet::LIMIT;
    if let Some(kind) = kinds.federated.last()
        && CompanionKinds::of(&kinds.federated).ids().count() > limit
    {
        let message = format!("the folders name more than {limit} kinds of companions; take some out");
        return Err(LoadError::at(&kind.origin.file, 1, message));
    }
    for (i, kind) in kinds.platform.iter().enumerate() {
        platform(kind, &kinds.federated, &kinds.platform[..i])?;
    }
    Ok(())
}

fn is_same(a: &ApiResource, b: &ApiResource) -> bool {
    a.api_version == b.api_version && a.kind == b.kind
}

/// The same kind, whatever its version.
fn is_same_kind(a: &ApiResource, b: &ApiResource) -> bool {
    a.group == b.group && a.kind == b.kind
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
        let refuse = |message| Err(LoadError::at(&kind.origin.file, reference.line, message));
        if let Some(folder) = all.iter().find(|other| is_same_kind(&other.resource, resource)) {
            return refuse(format!(
                "kind {} of {} is federated by {}, so it cannot be a companion; take the reference out",
                resource.kind, resource.api_version, folder.origin.file
            ));
        }
        let mut named = all.iter().flat_map(|other| {
            let references = other.companions.iter().flat_map(|section| &section.references);
            references.map(|reference| (&other.origin.file, reference))
        });
        let Some((file, other)) = named.find(|(_, other)| {
            let is_alike = other.resource == *resource && other.adopted == reference.adopted;
            is_same_kind(&other.resource, resource) && !is_alike
        }) else {
            continue;
        };
        return refuse(if other.resource == *resource {
            format!(
                "companions of kind {} are adopted by some references and not by others ({file}:{}); allowed is one for all",
                resource.kind, other.line
            )
        } else {
            let of = &other.resource;
            format!(
                "companions of kind {} are {} of {} here, and {} of {} in {file}; allowed is one version and plural",
                resource.kind, resource.plural, resource.api_version, of.plural, of.api_version
            )
        });
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
