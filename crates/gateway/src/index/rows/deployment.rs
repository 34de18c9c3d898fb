//! Digests of federated objects: a project's deployment and its copy on the hub.

use super::{
    ConditionsAt, LEVEL_LIMIT, Place, Returning, Rollup, Strings, annotation, content, controller, created,
    is_suspended, label, noted, place, references, suspended_content,
};
use crate::index::rows::status::StatusDigest;
use crate::{references::Reference, route::Route};
use fedgate_api::{
    keys,
    names::{CityCode, LocationName, is_label_value},
};
use fedgate_engine::{
    diff::{Digest, is_payload},
    object::{is_partial, levels, size},
};
use fedgate_kinds::{CompanionKinds, FederatedKind, Guard, Suspension};
use jiff::Timestamp;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::sync::Arc;

/// A project's deployment (any federated kind).
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// `metadata.generation`.
    pub generation: i64,
    /// Creation time, in seconds since the epoch; narrow, since every deployment has one.
    created: u32,
    /// `metadata.deletionTimestamp`.
    pub deleted: Option<Timestamp>,
    /// All its finalizers.
    pub finalizers: Box<[Arc<str>]>,
    /// The place that it names.
    pub place: Place,
    /// Annotation `federation-namespace`.
    pub federation_namespace: Option<Arc<str>>,
    /// Annotation `fedgate.dev/hub`, if it may be a UID.
    pub hub: Option<Arc<str>>,
    /// Hash of everything that is synced to the copy, without the place and the generation.
    pub content: Digest,
    /// True if the object is suspended, by its tenant or with its project.
    pub suspended: bool,
    /// Size of its spec, or of the fields that its kind has instead.
    pub extent: Extent,
    /// Annotations of the federator, if any.
    pub notes: Option<Box<ReferenceAnnotations>>,
    /// The objects that it references, in order.
    pub references: Box<[Reference]>,
    /// The rule of its kind that must name an object and names none, by position.
    pub unnamed: Option<u8>,
    /// Status, with the gateway's own conditions wherever they are.
    pub status: StatusDigest,
    /// Where those are.
    pub conditions: ConditionsAt,
    /// Largest scale setting of the deployment.
    pub scale: u32,
    /// UID of its controller, or of the Workload that it names.
    pub controller: Option<Arc<str>>,
    /// Conditions of its deletion; `None` if it holds no guard and abandons no member.
    pub ending: Option<Box<Ending>>,
    /// The fields that the workload controller reads, for the kind that it writes; an error text if they are
    /// malformed.
    pub rollup: Option<Box<Result<Rollup, String>>>,
}

/// Conditions of the deletion of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ending {
    /// The first of its kind's guards that holds, by position.
    pub guard: Option<usize>,
    /// The member that its deletion is not to wait for.
    pub abandons: Option<Arc<str>>,
}

impl Ending {
    fn read(
        kind: &FederatedKind,
        object: &DynamicObject,
        whole: &Value,
        words: &mut Strings,
    ) -> Option<Box<Self>> {
        let abandons = annotation(object, keys::ABANDON).filter(|_| kind.deletion.abandon);
        let ending = Self {
            guard: kind.deletion.guards.iter().position(|guard| guard.holds(whole)),
            abandons: words.share_some(abandons),
        };
        (ending != Self::default()).then(|| Box::new(ending))
    }
}

/// Size of the fields that would be synced. A single number, since every deployment has one: of no object are more
/// bytes read than the reserved values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent(u32);

impl Extent {
    /// More levels of lists and maps than [`LEVEL_LIMIT`].
    const DEEP: Self = Self(u32::MAX - 1);
    /// More bytes than are read of an object, or bytes that cannot be read.
    const UNREAD: Self = Self(u32::MAX);

    /// Measures the fields of an object.
    pub(super) fn of(object: &DynamicObject) -> Self {
        if is_partial(object) {
            return Self::UNREAD;
        }
        let fields = object.data.as_object().into_iter().flatten();
        let mut payload = fields
            .filter(|(name, _)| is_payload(name))
            .map(|(_, value)| value);
        if payload.clone().any(|value| levels(value) > LEVEL_LIMIT) {
            return Self::DEEP;
        }
        let bytes = payload.try_fold(0, |sum: u32, value| sum.checked_add(size(value)));
        bytes
            .map(Self)
            .filter(|extent| extent.0 < Self::DEEP.0)
            .unwrap_or(Self::UNREAD)
    }

    /// True if a spec of this size is synced under this limit in bytes.
    pub fn fits(self, largest: u32) -> bool {
        self.0 <= largest.min(Self::DEEP.0 - 1)
    }

    /// Text for people about a spec that does not fit, with the next step.
    pub fn too_much(self, largest: u32) -> String {
        match self {
            Self::DEEP => format!(
                "the spec has more than {LEVEL_LIMIT} levels of lists and maps, which are the most that are carried; nest it less deeply"
            ),
            Self::UNREAD => format!(
                "the object is too large to be read, at most {largest} bytes of its spec are carried; make it smaller"
            ),
            Self(bytes) => format!(
                "the spec has {bytes} bytes as JSON, at most {largest} are carried; make it smaller, for example by data in a ConfigMap that it references"
            ),
        }
    }
}

/// Annotations of the federator on a [`Source`] with references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceAnnotations {
    /// Annotation with the expected references, as text.
    expected: Option<Arc<str>>,
    /// Annotation with a terminal source error, as text.
    error: Option<Arc<str>>,
}

/// Digest of a template in the form in which fedgate writes it, without the defaults of an API server.
pub fn template_digest(template: &Value) -> Digest {
    fedgate_api::written_template(template)
        .map_or_else(|_| Digest::of(template), |written| Digest::of(&written))
}

/// The hub's copy of a deployment.
#[derive(Debug, Clone, PartialEq)]
pub struct HubCopy {
    /// Creation time, in seconds since the epoch.
    pub created: i64,
    /// Annotation `source-uid`.
    pub source_uid: Option<Arc<str>>,
    /// Annotation `source-generation`.
    pub source_generation: Option<i64>,
    /// Label with the project namespace.
    pub upstream_namespace: Option<Arc<str>>,
    /// The city of its label, or of its spec if it has the label of a location.
    pub city: Option<CityCode>,
    /// The location that its spec names.
    pub location: Option<LocationName>,
    /// Labels of a place that the copy has.
    pub routed: Routed,
    /// City and location of its spec; see [`place::placed`].
    pub placed: Digest,
    /// Fields of its spec that would name its place.
    pub lacks: Lacks,
    /// Hash of its synced fields without the place, computed as [`Source::content`].
    pub content: Digest,
    /// True if it is marked as suspended.
    pub suspended: bool,
    /// Label with the policy that is to claim it, for an object that lives at one member.
    pub delivery_policy: Option<Arc<str>>,
    /// Name of the policy that claims it.
    pub claimed_by: Option<Arc<str>>,
    /// The cells that its annotations name; `None` if they name none.
    cells: Option<Box<NamedCells>>,
    /// Status of the copy, as Karmada aggregated it.
    pub status: StatusDigest,
    /// The number of Instances that its cells say they have, `status.replicas`; 0 for a kind without that field.
    pub instances: u32,
    /// Names of the Secrets that come back for it; `None` for a kind without any.
    pub returning: Option<Box<Returning>>,
    /// True if a guard of its kind holds in it, or if it is too large to tell.
    pub guarded: bool,
}

/// The names of a place that an object lacks: a copy in its spec, a write-back among its labels. Both are false for
/// a kind that may not name a location.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lacks {
    /// The city.
    pub city: bool,
    /// The location.
    pub location: bool,
}

/// The labels of a copy that name a place, of which policies select one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routed {
    /// No label.
    Nowhere,
    /// The label of its city alone.
    City,
    /// The label of the location of its spec alone.
    Location,
    /// Both labels, or one that is no city code or not the location of its spec.
    Otherwise,
}

impl Routed {
    fn read(kind: &FederatedKind, copy: &DynamicObject, location: Option<&LocationName>) -> Self {
        let city = label(copy, &kind.placement.label);
        let labelled = label(copy, keys::LOCATION).filter(|_| kind.may_name_a_location());
        match (city, labelled) {
            (None, None) => Self::Nowhere,
            (Some(city), None) if CityCode::parse(city).is_ok() => Self::City,
            (None, Some(labelled)) if location.is_some_and(|l| l.as_str() == labelled) => Self::Location,
            _ => Self::Otherwise,
        }
    }
}

impl Source {
    /// Creation time, in seconds since the epoch.
    pub fn created(&self) -> i64 {
        self.created.into()
    }

    /// References of the deployment, and the rule that names none although it must.
    pub fn referenced(&self) -> (&[Reference], Option<u8>) {
        (&self.references, self.unnamed)
    }

    /// True if a spec of this size is synced under this limit in bytes.
    pub fn fits(&self, largest: u32) -> bool {
        self.extent.fits(largest)
    }

    /// Suspends the object with its project, where its kind can be suspended: its copy gets the mark as if its tenant had
    /// suspended it.
    pub fn suspend(&mut self, kind: &FederatedKind) {
        let is_carried = kind.suspension == Suspension::Annotation;
        let may_wait = kind.suspend_annotation.is_some() || !is_carried;
        if may_wait && !std::mem::replace(&mut self.suspended, true) && is_carried {
            self.content = suspended_content(self.content);
        }
    }

    /// The fields that the workload controller reads, if they are well-formed.
    pub fn rolled_up(&self) -> Option<&Rollup> {
        self.rollup.as_deref()?.as_ref().ok()
    }

    /// The expected references, as text.
    pub fn expected(&self) -> Option<&str> {
        self.notes.as_ref()?.expected.as_deref()
    }

    /// A terminal source error, as text.
    pub fn error(&self) -> Option<&str> {
        self.notes.as_ref()?.error.as_deref()
    }

    /// Digests a project's object of a federated kind.
    pub fn read(
        object: &DynamicObject,
        kind: &FederatedKind,
        all: &CompanionKinds,
        words: &mut Strings,
    ) -> Self {
        let meta = &object.metadata;
        let whole = with_metadata(object);
        let (references, unnamed) = references::read(kind, all, &whole, words);
        let city = kind
            .placement
            .path
            .first(&whole)
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
        let place = Place::read(kind, object, city.as_deref(), words);
        let companions = kind.companions.as_ref();
        let mut of = |key: Option<&String>| words.note(key.and_then(|k| annotation(object, k)));
        let expected = of(companions.and_then(|c| c.expected_annotation.as_ref()));
        let error = of(companions.and_then(|c| c.error_annotation.as_ref()));
        let (status, conditions) = noted::read(object, kind, words);
        let named = || {
            object
                .data
                .pointer("/spec/workloadRef/uid")
                .and_then(Value::as_str)
        };
        let controller = controller(object)
            .map(|o| o.uid.as_str())
            .or_else(named)
            .map(|uid| words.intern(uid));
        let rollup = kind
            .may_name_a_location()
            .then(|| Box::new(Rollup::read(object, words)));
        Self {
            generation: meta.generation.unwrap_or(0),
            created: u32::try_from(created(object)).unwrap_or(0),
            deleted: meta.deletion_timestamp.as_ref().map(|time| time.0),
            finalizers: meta
                .finalizers
                .iter()
                .flatten()
                .map(|f| words.intern(f))
                .collect(),
            content: content(
                kind,
                object,
                place.city().map(CityCode::as_str),
                meta.namespace.as_deref(),
                meta.uid.as_deref(),
            ),
            suspended: is_suspended(kind, object),
            place,
            extent: Extent::of(object),
            federation_namespace: words.share_some(annotation(object, keys::FEDERATION_NAMESPACE)),
            hub: words.share_some(annotation(object, keys::HUB).filter(|uid| is_label_value(uid))),
            notes: (expected.is_some() || error.is_some())
                .then(|| Box::new(ReferenceAnnotations { expected, error })),
            references,
            unnamed,
            ending: Ending::read(kind, object, &whole, words),
            status,
            conditions,
            scale: kind
                .write_back
                .iter()
                .flat_map(|w| &w.scale_paths)
                .flat_map(|path| path.all(&whole))
                .filter_map(Value::as_u64)
                .filter_map(|n| u32::try_from(n).ok())
                .max()
                .unwrap_or(0),
            controller,
            rollup,
        }
    }
}

/// The object as JSON, with the metadata that a profile's paths may select.
fn with_metadata(object: &DynamicObject) -> Value {
    let mut whole = object.data.clone();
    if let Some(map) = whole.as_object_mut() {
        map.insert(
            "metadata".into(),
            json!({"name": object.metadata.name, "namespace": object.metadata.namespace,
                "labels": object.metadata.labels, "annotations": object.metadata.annotations}),
        );
    }
    whole
}

/// True if a guard holds in an object, or if it is too large to tell.
pub fn guard_holds(guards: &[Guard], object: &DynamicObject) -> bool {
    let holds = || {
        let whole = with_metadata(object);
        guards.iter().any(|guard| guard.holds(&whole))
    };
    !guards.is_empty() && (is_partial(object) || holds())
}

impl HubCopy {
    /// Digest of its whole payload.
    pub fn whole(&self) -> Digest {
        place::whole(self.content, self.placed)
    }

    /// True if its status is not returned.
    pub fn is_too_large(&self, kind: &FederatedKind) -> bool {
        self.status.size > kind.status.max_bytes
    }

    /// The label by which it is given to a policy, if it has exactly one.
    pub fn route(&self) -> Option<Route> {
        match self.routed {
            Routed::City => self.city.clone().map(Route::City),
            Routed::Location => self.location.clone().map(Route::Location),
            Routed::Nowhere | Routed::Otherwise => None,
        }
    }

    /// True if a cell reports on it.
    pub fn reports(&self) -> bool {
        let available = self.status.condition("Available");
        self.status.reported && available.is_none_or(|c| &*c.reason != "NoCellReporting")
    }

    /// Digests the hub's object of a federated kind.
    pub fn read(object: &DynamicObject, kind: &FederatedKind, words: &mut Strings) -> Self {
        let city = label(object, &kind.placement.label);
        let upstream = label(object, keys::UPSTREAM_NAMESPACE);
        let source_uid = annotation(object, keys::SOURCE_UID);
        let location = place::location_of_copy(kind, object, words);
        Self {
            created: created(object),
            source_uid: words.share_some(source_uid),
            source_generation: annotation(object, keys::SOURCE_GENERATION).and_then(|g| g.parse().ok()),
            upstream_namespace: words.share_some(upstream),
            city: city
                .or_else(|| place::city_of_copy(kind, object))
                .and_then(|c| words.city(c).ok()),
            routed: Routed::read(kind, object, location.as_ref()),
            lacks: Lacks {
                city: kind.may_name_a_location() && place::city_of_copy(kind, object).is_none(),
                location: kind.may_name_a_location() && location.is_none(),
            },
            location,
            placed: place::placed_of(kind, object),
            content: content(kind, object, city, upstream, source_uid),
            suspended: is_suspended(kind, object),
            delivery_policy: words.share_some(label(object, keys::LANE).filter(|_| kind.is_exactly_one())),
            claimed_by: words.share_some(annotation(object, keys::CLAIM_NAME)),
            cells: NamedCells::read(kind, object, words),
            status: StatusDigest::of(object.data.get("status"), &kind.status.counters, words),
            instances: instances(object),
            returning: (!kind.returns.is_empty())
                .then(|| Box::new(Returning::read(kind, &with_metadata(object), words))),
            guarded: guard_holds(&kind.deletion.guards, object),
        }
    }
}

impl HubCopy {
    /// Annotation `fedgate.dev/cell`: the only cell whose write-backs and status count; `None` if no cell is named.
    pub fn cell(&self) -> Option<&Arc<str>> {
        self.cells.as_ref()?.counts.as_ref()
    }

    /// Annotation `fedgate.dev/move-to`: the cell to which an operator moves it.
    pub fn move_to(&self) -> Option<&Arc<str>> {
        self.cells.as_ref()?.move_to.as_ref()
    }

    /// Annotation `fedgate.dev/moving-to`: the cell to which the gateway moves it.
    pub fn moving_to(&self) -> Option<&Arc<str>> {
        self.cells.as_ref()?.moving_to.as_ref()
    }
}

/// The cells that the annotations of a copy name. Few copies have them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct NamedCells {
    counts: Option<Arc<str>>,
    move_to: Option<Arc<str>>,
    moving_to: Option<Arc<str>>,
}

impl NamedCells {
    fn read(kind: &FederatedKind, object: &DynamicObject, words: &mut Strings) -> Option<Box<Self>> {
        let mut named = |key| words.share_some(annotation(object, key).filter(|_| kind.is_movable()));
        let cells = Self {
            counts: named(keys::CELL),
            move_to: named(keys::MOVE_TO),
            moving_to: named(keys::MOVING_TO),
        };
        (cells != Self::default()).then(|| Box::new(cells))
    }
}

fn instances(object: &DynamicObject) -> u32 {
    let replicas = object.data.pointer("/status/replicas").and_then(Value::as_u64);
    replicas.map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX))
}
