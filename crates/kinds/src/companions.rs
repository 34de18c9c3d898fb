//! The objects that the gateway carries together with an object, as the folder of its kind describes them.

use super::{FederatedKind, PerKind, Query, per_kind::KindPlace};
use kube::core::{ApiResource, GroupVersionKind};
use serde::Deserialize;
use std::{collections::BTreeMap, ops::Index};

/// See [`FederatedKind::companions`](super::FederatedKind::companions).
#[derive(Debug, Clone)]
pub struct Companions {
    /// Annotation that lists the expected companions; `None` if the interpreter reads the spec itself.
    pub expected_annotation: Option<String>,
    /// Annotation that reports a terminal source error to the cell.
    pub error_annotation: Option<String>,
    /// The references, in the order in which their errors are reported.
    pub references: Vec<Reference>,
}

/// A path in a project object that names other objects of its namespace.
#[derive(Debug, Clone)]
pub struct Reference {
    /// The kind of the objects that are named, e.g. core/v1 `Secret`.
    pub resource: ApiResource,
    /// Selects the referring objects, e.g. `$.spec.template.spec.volumes[*].secret`, or the names themselves.
    pub path: Query,
    /// Field of the referring object that holds the name, e.g. `secretName`; `None` if the path selects the names.
    pub name_field: Option<String>,
    /// The sources that must exist.
    pub required: Required,
    /// True if the member must have applied the companion before the object, or a new spec of it, is delivered.
    pub before_applied: bool,
    /// True if somebody at the member makes the object the companion's owner, so that it goes with the object.
    pub adopted: bool,
    /// The largest payload of a source, in bytes.
    pub max_bytes: u32,
    /// Line of the reference in the kind's file, for messages.
    pub line: u64,
}

impl Reference {
    /// True if it names core/v1 `ConfigMap`s or Secrets.
    pub fn is_core(&self) -> bool {
        core_plural(&self.resource).is_some()
    }
}

/// The sources that must exist for a [`Reference`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Required {
    /// A name must be given, and its source must exist.
    Always,
    /// If a name is given, its source must exist.
    IfNamed,
    /// The source is carried if it exists.
    Optional,
    /// As [`IfNamed`](Self::IfNamed), or as [`Optional`](Self::Optional) where a field `optional: true` stands beside the
    /// name.
    UnlessOptional,
}

/// A kind of companions: its place among the [`CompanionKinds`] of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CompanionKind(u8);

impl CompanionKind {
    /// A core/v1 `ConfigMap`.
    pub const CONFIG_MAP: Self = Self(0);
    /// A core/v1 Secret.
    pub const SECRET: Self = Self(1);

    /// True for the core/v1 kinds, which Karmada may also send as dependencies, and of which the metadata alone are small.
    pub const fn is_core(self) -> bool {
        self.0 < 2
    }
}

impl KindPlace for CompanionKind {
    fn at(place: usize) -> Self {
        Self(u8::try_from(place).unwrap_or(u8::MAX))
    }

    fn place(self) -> usize {
        self.0.into()
    }
}

/// The kinds of companions: `ConfigMap` and Secret, then those that folders name beside them, sorted.
#[derive(Debug, Clone)]
pub struct CompanionKinds {
    resources: Box<[ApiResource]>,
    adopted: CompanionSet,
}

impl CompanionKinds {
    /// The kinds of companions that these kinds name, at most [`CompanionSet::LIMIT`]: a load refuses more.
    pub fn of<'a>(kinds: impl IntoIterator<Item = &'a FederatedKind, IntoIter: Clone>) -> Self {
        let kinds = kinds.into_iter();
        let core = CORE.map(|(kind, plural)| {
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", kind), plural)
        });
        let others = others(kinds.clone()).into_values().cloned();
        let mut all = Self {
            resources: core.into_iter().chain(others).collect(),
            adopted: CompanionSet::default(),
        };
        for reference in references(kinds).filter(|reference| reference.adopted) {
            if let Some(kind) = all.id(&reference.resource) {
                all.adopted.insert(kind);
            }
        }
        all
    }

    /// Number of the kinds of companions, which may be above the limit.
    pub(crate) fn count<'a>(kinds: impl IntoIterator<Item = &'a FederatedKind>) -> usize {
        CORE.len() + others(kinds).len()
    }

    /// True if objects of the kind go at their member together with the object that names them.
    pub fn is_adopted(&self, kind: CompanionKind) -> bool {
        self.adopted.contains(kind)
    }

    /// All.
    pub fn ids(&self) -> impl Iterator<Item = CompanionKind> + Clone + use<> {
        (0..self.resources.len()).map(CompanionKind::at)
    }

    /// The place of a resource; `None` if no folder names it.
    pub fn id(&self, resource: &ApiResource) -> Option<CompanionKind> {
        self.id_of(&resource.group, &resource.kind)
    }

    /// The place of a kind of a group.
    pub fn id_of(&self, group: &str, kind: &str) -> Option<CompanionKind> {
        let is = |resource: &ApiResource| resource.kind == kind && resource.group == group;
        self.ids().find(|id| is(&self[*id]))
    }

    /// A value for each.
    pub fn map<T>(&self, value: impl FnMut(CompanionKind) -> T) -> PerCompanionKind<T> {
        self.ids().map(value).collect()
    }
}

fn references<'a>(kinds: impl IntoIterator<Item = &'a FederatedKind>) -> impl Iterator<Item = &'a Reference> {
    let sections = kinds.into_iter().filter_map(|kind| kind.companions.as_ref());
    sections.flat_map(|section| &section.references)
}

/// The companions beside [`CORE`], by group and kind.
fn others<'a>(
    kinds: impl IntoIterator<Item = &'a FederatedKind>,
) -> BTreeMap<(&'a str, &'a str), &'a ApiResource> {
    references(kinds)
        .filter(|reference| !reference.is_core())
        .map(|reference| &reference.resource)
        .map(|resource| ((&*resource.group, &*resource.kind), resource))
        .collect()
}

impl Default for CompanionKinds {
    fn default() -> Self {
        Self::of([])
    }
}

impl Index<CompanionKind> for CompanionKinds {
    type Output = ApiResource;

    fn index(&self, id: CompanionKind) -> &ApiResource {
        &self.resources[usize::from(id.0)]
    }
}

/// A set of kinds of companions, whose places are all below [`LIMIT`](Self::LIMIT): each is a bit, and a higher place
/// overflows the shift. A load checks the number of kinds before any set is made of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompanionSet(u64);

impl CompanionSet {
    /// The largest number of kinds.
    pub const LIMIT: usize = 64;

    /// Adds a kind; returns true if it was not there.
    pub fn insert(&mut self, kind: CompanionKind) -> bool {
        let was = self.0;
        self.0 |= 1 << kind.0;
        self.0 != was
    }

    /// Takes a kind out; returns true if it was there.
    pub fn remove(&mut self, kind: CompanionKind) -> bool {
        let was = self.0;
        self.0 &= !(1 << kind.0);
        self.0 != was
    }

    /// True if it has the kind.
    pub const fn contains(self, kind: CompanionKind) -> bool {
        self.0 & (1 << kind.0) != 0
    }

    /// True if it has none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The kinds that another set does not have.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The kinds.
    pub fn iter(self) -> impl Iterator<Item = CompanionKind> {
        (0..64)
            .map(CompanionKind)
            .filter(move |kind| self.contains(*kind))
    }
}

/// A value for each kind of companions.
pub type PerCompanionKind<T> = PerKind<T, CompanionKind>;

/// Kinds and plurals of core/v1 that are companions without a plural in the file, in the order of their places.
pub(crate) const CORE: [(&str, &str); 2] = [("ConfigMap", "configmaps"), ("Secret", "secrets")];

/// The plural of a resource that is one of [`CORE`].
pub(crate) fn core_plural(resource: &ApiResource) -> Option<&'static str> {
    let is = |(kind, _): &(&str, &str)| resource.api_version == "v1" && resource.kind == *kind;
    CORE.into_iter().find(is).map(|(_, plural)| plural)
}
