//! Checks between kinds.

use super::{Kinds, LoadError};
use crate::{CompanionKinds, CompanionSet, FederatedKind};
use kube::core::ApiResource;

/// Checks that kinds do not conflict: policies differ by prefix and interpreters by name, all kinds use the same label to
/// select cells, and no kind of a folder is a companion.
pub(super) fn check(kinds: &Kinds) -> Result<(), LoadError> {
    let limit = CompanionSet::LIMIT;
    if let Some(kind) = kinds.federated.last()
        && CompanionKinds::count(&kinds.federated) > limit
    {
        let message = format!("the folders name more than {limit} kinds of companions; take some out");
        return Err(LoadError::at(&kind.origin.file, 1, message));
    }
    let federated = kinds.federated.iter();
    let federated = federated.map(|kind| (&kind.resource, "federated", &*kind.origin.file));
    let platform = kinds.platform.iter();
    let platform = platform.map(|kind| (&kind.resource, "projected", &*kind.origin));
    let all: Vec<Folder<'_>> = federated.chain(platform).collect();
    for (i, (own, _, file)) in all.iter().enumerate() {
        if let Some((other, _, there)) = all[..i].iter().find(|(other, ..)| is_same_kind(own, other)) {
            return Err(twice(file, own, there, other));
        }
    }
    for (i, kind) in kinds.federated.iter().enumerate() {
        for other in &kinds.federated[..i] {
            pair(kind, other)?;
        }
        companions(kind, &kinds.federated, &all)?;
    }
    Ok(())
}

/// A kind of a folder, the word for how the gateway carries it, and its file.
type Folder<'a> = (&'a ApiResource, &'a str, &'a str);

/// True if both have the same group and kind. The version does not count, because the rest of the program keys objects by group
/// and kind.
fn is_same_kind(a: &ApiResource, b: &ApiResource) -> bool {
    a.group == b.group && a.kind == b.kind
}

/// Refuses a second folder of a kind.
fn twice(file: &str, own: &ApiResource, there: &str, other: &ApiResource) -> LoadError {
    let message = if own.version == other.version {
        format!("{there} describes this kind already; remove one of the folders")
    } else {
        format!(
            "{there} describes this kind already, in version {}; allowed is one version of a kind, remove one of the \
             folders",
            other.version
        )
    };
    LoadError::at(file, 1, message)
}

fn pair(kind: &FederatedKind, other: &FederatedKind) -> Result<(), LoadError> {
    let fail = |line, message: String| Err(LoadError::at(&kind.origin.file, line, message));
    let there = &other.origin.file;
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

fn companions(kind: &FederatedKind, others: &[FederatedKind], all: &[Folder<'_>]) -> Result<(), LoadError> {
    for reference in kind.companions.iter().flat_map(|section| &section.references) {
        let resource = &reference.resource;
        let refuse = |message| Err(LoadError::at(&kind.origin.file, reference.line, message));
        if let Some((_, carried, folder)) = all.iter().find(|(other, ..)| is_same_kind(other, resource)) {
            return refuse(format!(
                "kind {} of {} is {carried} by {folder}, so it cannot be a companion; take the reference out",
                resource.kind, resource.api_version
            ));
        }
        let mut named = others.iter().flat_map(|other| {
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
