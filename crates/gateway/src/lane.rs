//! Lanes: the policies to which copies and companions of objects that live at one member are given, by the label
//! `fedgate.dev/lane` whose value is the policy's name (contract: clusters.md §2). Values only.

use fedgate_api::{
    keys,
    names::{self, CityCode, is_label_value},
};
use fedgate_kinds::{FederatedKind, KindId, PerKind};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// Before the members in the names of companions' lanes, which share the namespace of policies with those of copies.
const WITH: &str = "with-";
const KEEP: &str = "keep-";
const PARK: &str = "park-";
/// The lane of companions that no member is to have.
const WITH_NONE: &str = "with-none";
/// Name that no Cluster may have; the affinity of [`Lane::WithNone`] and [`Stage::Away`].
pub const NO_MEMBER: &str = "none";
/// Longest set of members whose name is written out.
const SET_LIMIT: usize = 50;
/// The characters of a longer one that are written out, and the digits of the hash after them.
const HEAD: usize = 40;
const HASH: usize = 8;

/// State of a copy on its way to a member. Karmada keeps a copy's member only as long as the affinity of its policy holds,
/// and lifts a suspension before it schedules anew: a stage that delivers must not change the member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Given to the one member, delivered nowhere; the member loses what it has when the copy is deleted.
    Drop,
    /// Delivered for the first time. A Work that preserves and was never applied cannot end, and holds its Cluster with it.
    Send,
    /// Delivered; the member keeps the object whatever becomes of copy and policy.
    Pin,
    /// As [`Stage::Mend`], with changes held back: a Work that preserves ends only where it may take its object over.
    Hold,
    /// As [`Stage::Pin`], taking over an object that the member already has.
    Mend,
    /// Given to no member: its Cluster has left the hub, and nothing is to be dispatched to one that joins under its name.
    Away,
}

impl Stage {
    /// All stages.
    pub const ALL: [Self; 6] = [
        Self::Drop,
        Self::Send,
        Self::Pin,
        Self::Hold,
        Self::Mend,
        Self::Away,
    ];

    /// The word in names of policies, which are label values: with a prefix of 10 and the name of a Cluster they have at most
    /// 63 characters.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Drop => "drop-",
            Self::Send => "send-",
            Self::Pin => "pin-",
            Self::Hold => "hold-",
            Self::Mend => "mend-",
            Self::Away => "none-",
        }
    }

    /// True if the member keeps the object when Karmada lets go of it.
    pub const fn preserves(self) -> bool {
        matches!(self, Self::Pin | Self::Hold | Self::Mend)
    }

    /// True if the member gets what the copy has.
    pub const fn delivers(self) -> bool {
        matches!(self, Self::Send | Self::Pin | Self::Mend)
    }
}

/// A policy to which copies or companions are given.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Karmada chooses a member of the city for a copy of this kind; nothing is delivered.
    Choose(KindId, CityCode),
    /// A copy of this kind is given to one member.
    At(KindId, Stage, Arc<str>),
    /// Companions are given to these members.
    With(BTreeSet<Arc<str>>),
    /// Companions that lanes no longer give to any member.
    WithNone,
    /// Companions that somebody at this member has made part of their object: the member keeps them whatever becomes of
    /// companion and policy.
    Keep(Arc<str>),
    /// Companions that leave this member: nothing is dispatched any more, so that what the member deletes is not made again.
    Park(Arc<str>),
}

/// The lane of a companion, read from its label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompanionLane<'a> {
    /// [`Lane::Keep`].
    Keep(&'a str),
    /// [`Lane::Park`].
    Park(&'a str),
    /// Any other label, or none.
    Other,
}

impl<'a> CompanionLane<'a> {
    /// Reads the label of a companion.
    pub fn read(label: Option<&'a str>) -> Self {
        let after = |word| label.and_then(|label| label.strip_prefix(word));
        match (after(KEEP), after(PARK)) {
            (Some(member), _) => Self::Keep(member),
            (_, Some(member)) => Self::Park(member),
            (None, None) => Self::Other,
        }
    }
}

/// The lane of a copy as its label tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyLane<'a> {
    /// Karmada chooses.
    Choose,
    /// Given to this member.
    At(Stage, &'a str),
    /// A label that is no lane of the kind, or none.
    Other,
}

impl<'a> CopyLane<'a> {
    /// Reads the label of a copy.
    pub fn read(kind: &FederatedKind, label: Option<&'a str>) -> Self {
        let Some(rest) = label.and_then(|label| label.strip_prefix(kind.placement.policy_prefix.as_str()))
        else {
            return Self::Other;
        };
        if rest.starts_with("choose-") {
            return Self::Choose;
        }
        let mut stages = Stage::ALL.into_iter();
        stages
            .find_map(|stage| Some(Self::At(stage, rest.strip_prefix(stage.word())?)))
            .unwrap_or(Self::Other)
    }
}

impl Lane {
    /// The name of its policy, which is the value of the label.
    pub fn name(&self, kinds: &PerKind<FederatedKind>) -> String {
        let prefix = |id: &KindId| kinds[*id].placement.policy_prefix.as_str();
        match self {
            Self::Choose(id, city) => choose_name(&format!("{}choose-", prefix(id)), city.as_str()),
            Self::At(id, stage, member) => format!("{}{}{member}", prefix(id), stage.word()),
            Self::With(members) => format!("{WITH}{}", set(members)),
            Self::WithNone => WITH_NONE.to_owned(),
            Self::Keep(member) => format!("{KEEP}{member}"),
            Self::Park(member) => format!("{PARK}{member}"),
        }
    }

    /// The `spec` of its policy in a hub namespace; `companions` are the kinds that lanes of companions select, sorted.
    pub fn spec(&self, kinds: &PerKind<FederatedKind>, namespace: &str) -> Value {
        let name = self.name(kinds);
        let selector = |api_version: &str, kind: &str| {
            json!({"apiVersion": api_version, "kind": kind, "namespace": namespace,
                "labelSelector": {"matchLabels": {keys::LANE: name}}})
        };
        let tolerations = json!([{"operator": "Exists"}]);
        let one = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
        match self {
            Self::Choose(id, city) => {
                let kind = &kinds[*id];
                json!({
                    "resourceSelectors": [selector(&kind.resource.api_version, &kind.resource.kind)],
                    "suspension": {"dispatching": true},
                    "placement": {
                        "clusterAffinity": {"labelSelector": {"matchLabels": {&kind.placement.label: city.as_str()}}},
                        "clusterTolerations": tolerations,
                        "spreadConstraints": one,
                    },
                })
            }
            Self::At(id, stage, member) => {
                let resource = &kinds[*id].resource;
                let member = if *stage == Stage::Away { NO_MEMBER } else { member };
                let mut spec = json!({
                    "resourceSelectors": [selector(&resource.api_version, &resource.kind)],
                    "placement": {
                        "clusterAffinity": {"clusterNames": [member]},
                        "clusterTolerations": tolerations,
                        "spreadConstraints": one,
                    },
                });
                if stage.preserves() {
                    spec["preserveResourcesOnDeletion"] = json!(true);
                }
                if !stage.delivers() {
                    spec["suspension"] = json!({"dispatching": true});
                }
                if matches!(stage, Stage::Mend | Stage::Hold) {
                    spec["conflictResolution"] = json!("Overwrite");
                }
                spec
            }
            Self::With(_) | Self::WithNone | Self::Keep(_) | Self::Park(_) => {
                let members: Vec<&str> = match self {
                    Self::With(members) => members.iter().map(|member| &**member).collect(),
                    Self::Keep(member) | Self::Park(member) => vec![member],
                    _ => vec![NO_MEMBER],
                };
                let selectors: Vec<Value> = companion_kinds(kinds)
                    .into_iter()
                    .map(|(api_version, kind)| selector(api_version, kind))
                    .collect();
                let mut spec = json!({
                    "resourceSelectors": selectors,
                    "placement": {
                        "clusterAffinity": {"clusterNames": members},
                        "clusterTolerations": tolerations,
                    },
                });
                match self {
                    Self::Keep(_) => {
                        spec["preserveResourcesOnDeletion"] = json!(true);
                        spec["conflictResolution"] = json!("Overwrite");
                    }
                    Self::Park(_) => spec["suspension"] = json!({"dispatching": true}),
                    _ => {}
                }
                spec
            }
        }
    }
}

/// The lane of a companion with this label; `None` without one, or if the name of its set is too long to be written out.
pub fn of_companion(label: Option<&str>) -> Option<Lane> {
    match CompanionLane::read(label) {
        CompanionLane::Keep(member) => Some(Lane::Keep(member.into())),
        CompanionLane::Park(member) => Some(Lane::Park(member.into())),
        CompanionLane::Other if label == Some(WITH_NONE) => Some(Lane::WithNone),
        CompanionLane::Other => {
            let set = label?.strip_prefix(WITH)?;
            (!is_cut(set)).then(|| Lane::With(set.split('.').map(Arc::from).collect()))
        }
    }
}

/// True if a companion in a lane is at this member, or on its way there.
pub fn names(lane: &Lane, member: &str) -> bool {
    match lane {
        Lane::Keep(of) | Lane::Park(of) => **of == *member,
        Lane::With(members) => members.contains(member),
        Lane::WithNone | Lane::Choose(..) | Lane::At(..) => false,
    }
}

/// True if a companion that goes from one lane to another is taken off members, and reaches no other.
pub fn only_withdraws(from: Option<&Lane>, to: &Lane) -> bool {
    match (to, from) {
        (Lane::WithNone | Lane::Park(_), _) => true,
        (Lane::With(new), Some(Lane::With(had))) => new.is_subset(had),
        _ => false,
    }
}

/// The merge patch that gives this version of an object to a lane, and takes Karmada's claim off.
pub fn patch(uid: &str, resource_version: &str, name: &str) -> Value {
    json!({"metadata": {
        "uid": uid,
        "resourceVersion": resource_version,
        "labels": {keys::LANE: name, keys::CLAIM_ID: null},
        "annotations": {keys::CLAIM_NAME: null, keys::CLAIM_NAMESPACE: null},
    }})
}

/// API version and kind of the companions of all kinds that live at one member, sorted.
fn companion_kinds(kinds: &PerKind<FederatedKind>) -> BTreeSet<(&str, &str)> {
    let at_one = kinds.iter().filter(|kind| kind.is_exactly_one());
    at_one
        .flat_map(|kind| kind.companions.iter().flat_map(|of| &of.references))
        .map(|reference| {
            (
                reference.resource.api_version.as_str(),
                reference.resource.kind.as_str(),
            )
        })
        .collect()
}

/// True if a policy of this name is a lane of one of these kinds, or of companions.
pub fn is_lane_name(kinds: &PerKind<FederatedKind>, name: &str) -> bool {
    let at_one = || kinds.iter().filter(|kind| kind.is_exactly_one());
    let of_copies = || at_one().any(|kind| CopyLane::read(kind, Some(name)) != CopyLane::Other);
    let of_companions = || [WITH, KEEP, PARK].iter().any(|prefix| name.starts_with(prefix));
    at_one().next().is_some() && (of_copies() || of_companions())
}

/// A city code whose letters are all upper-case has the plain name in lower case, any other one has a hash: the names of two
/// codes never coincide, whichever comes first.
fn choose_name(prefix: &str, city: &str) -> String {
    let is_plain = !city.bytes().any(|b| b.is_ascii_lowercase());
    let plain = is_plain.then(|| names::policy_name(prefix, city)).flatten();
    if let Some(plain) = plain.filter(|name| is_label_value(name)) {
        return plain;
    }
    let hashed = names::policy_name_hashed(prefix, city);
    if is_label_value(&hashed) {
        return hashed;
    }
    names::policy_name_hashed(prefix, &city[..city.len().min(24)])
        .rsplit_once('.')
        .map_or_else(
            || hashed.clone(),
            |(head, _)| format!("{head}.{}", names::short_hash(city, 8)),
        )
}

/// The name of a set of members, part of a label value.
fn set(members: &BTreeSet<Arc<str>>) -> String {
    let names: Vec<&str> = members.iter().map(|name| &**name).collect();
    let plain = names.join(".");
    if plain.len() <= SET_LIMIT {
        return plain;
    }
    let head = &plain[..HEAD];
    format!("{head}.{}", names::short_hash(&names.join("\n"), HASH))
}

/// True if the name of a set may be cut.
fn is_cut(set: &str) -> bool {
    let hash = set.rsplit_once('.').map(|(_, hash)| hash);
    set.len() == HEAD + 1 + HASH
        && hash.is_some_and(|hash| hash.len() == HASH && hash.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<Arc<str>> {
        names.into_iter().map(Arc::from).collect()
    }

    /// A set whose name is cut behind the first four members, and between the parts of the fifth.
    fn long() -> BTreeSet<Arc<str>> {
        members([
            "alpha-001",
            "bravo-001",
            "carol-001",
            "delta-001",
            "echo-0001",
            "foxtrot-1",
        ])
    }

    #[test]
    fn the_lane_of_a_companion_is_read_from_its_label_unless_that_is_cut() {
        let kinds = PerKind::from(Vec::new());
        for lane in [
            Lane::Keep("dfw-1".into()),
            Lane::Park("dfw-1".into()),
            Lane::WithNone,
            Lane::With(members(["dfw-1"])),
            Lane::With(members(["dfw-1", "lhr-1"])),
            // As long as a cut one.
            Lane::With(members(["dfw-000000000000000000001", "lhr-0000000000000000001"])),
        ] {
            let label = lane.name(&kinds);
            assert_eq!(of_companion(Some(&label)), Some(lane), "{label}");
        }
        let cut = Lane::With(long()).name(&kinds);
        for label in [None, Some("vault-pin-dfw-1"), Some(cut.as_str())] {
            assert_eq!(of_companion(label), None, "{label:?}");
        }
        for (label, member, named) in [
            ("keep-dfw-1", "dfw-1", true),
            ("park-dfw-1", "dfw-2", false),
            ("with-dfw-1.lhr-1", "lhr-1", true),
            ("with-dfw-1.lhr-1", "dfw", false),
            ("with-none", "none", false),
        ] {
            let lane = of_companion(Some(label)).unwrap();
            assert_eq!(names(&lane, member), named, "{label} {member}");
        }
    }

    #[test]
    fn a_move_to_fewer_members_only_withdraws() {
        let to = |names: &[&str]| Lane::With(members(names.iter().copied()));
        for (label, lane, withdraws) in [
            (Some("with-a.b"), to(&["b"]), true),
            (Some("with-a.b"), to(&["b", "c"]), false),
            (Some("with-a"), Lane::WithNone, true),
            (Some("keep-a"), Lane::Park("a".into()), true),
            (Some("park-a"), Lane::Keep("a".into()), false),
            (Some("with-none"), to(&["a"]), false),
            (None, to(&["a"]), false),
        ] {
            let from = of_companion(label);
            assert_eq!(
                only_withdraws(from.as_ref(), &lane),
                withdraws,
                "{label:?} {lane:?}"
            );
        }
    }
}
