//! Delivery policies: the `PropagationPolicies` of copies and companions of objects that live at one member. The label
//! `fedgate.dev/lane` of a copy or companion has the name of its policy, so that exactly one policy selects it (contract:
//! clusters.md §2). Values only.

use crate::policy_spec;
use fedgate_api::{
    keys,
    names::{self, CityCode, is_label_value},
};
use fedgate_kinds::{FederatedKind, KindId, PerKind};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// Prefixes of the names of companions' policies; policies of copies have the prefix of their kind.
const WITH: &str = "with-";
const TAKE_OVER: &str = "keep-";
const WITHDRAW: &str = "park-";
/// Name of [`DeliveryPolicy::WithNone`].
const WITH_NONE: &str = "with-none";
/// Name that no Cluster may have: the affinity of policies that deliver to no member.
pub const NO_MEMBER: &str = "none";
/// Longest set of members whose name is written out.
const SET_LIMIT: usize = 50;
/// Number of characters of a longer set that are written out, and number of digits of the hash after them.
const HEAD: usize = 40;
const HASH: usize = 8;

/// How Karmada treats a copy at its one member. The normal order is `Choose` ([`DeliveryPolicy::Choose`]), `Withdraw`, `Deliver`,
/// `Preserve`: once Karmada has chosen a member, nothing is dispatched until the pin is written and the companions are there. A
/// deletion goes back to `Withdraw`, so that Karmada deletes the object at the member together with the copy.
///
/// | stage | name of the policy | dispatches | object stays when its Work is deleted | may overwrite the member's object |
/// |---|---|---|---|---|
/// | `Choose` | `<prefix>choose-<city>` | no | no | no |
/// | `Withdraw` | `<prefix>drop-<member>` | no | no | no |
/// | `Deliver` | `<prefix>send-<member>` | yes | no | no |
/// | `Preserve` | `<prefix>pin-<member>` | yes | yes | no |
/// | `Suspend` | `<prefix>hold-<member>` | no | yes | yes |
/// | `TakeOver` | `<prefix>mend-<member>` | yes | yes | yes |
/// | `Release` | `<prefix>none-<member>` | no | no | no |
///
/// Karmada keeps the member of a copy only as long as the affinity of its policy holds, and lifts a suspension before it schedules
/// again. Therefore a stage that delivers must not change the member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Karmada dispatches nothing: before the first delivery, and before a deletion. When the copy is deleted, Karmada deletes the
    /// object at the member.
    Withdraw,
    /// Karmada delivers the copy for the first time. It preserves nothing yet, because a Work that preserves an object that was
    /// never applied cannot end, and keeps its Cluster from being deleted.
    Deliver,
    /// Karmada delivers the copy. The object stays at the member whatever becomes of copy and policy.
    Preserve,
    /// Karmada dispatches nothing, and the object stays at the member, because it is suspended or its Cluster was replaced. The
    /// policy overwrites as that of [`Stage::TakeOver`], because a Work that preserves its object can end only where it may take
    /// the object over.
    Suspend,
    /// As [`Stage::Preserve`], and Karmada takes over an object that the member already has.
    TakeOver,
    /// The copy is given to no member, because the Cluster of its member has left the hub. A Cluster that joins under the same
    /// name gets nothing.
    Release,
}

impl Stage {
    /// All stages.
    pub const ALL: [Self; 6] = [
        Self::Withdraw,
        Self::Deliver,
        Self::Preserve,
        Self::Suspend,
        Self::TakeOver,
        Self::Release,
    ];

    /// The word in the name of the policy. The name is a label value: with a prefix of 10 characters and the name of a Cluster
    /// it has at most 63 characters.
    const fn word(self) -> &'static str {
        match self {
            Self::Withdraw => "drop-",
            Self::Deliver => "send-",
            Self::Preserve => "pin-",
            Self::Suspend => "hold-",
            Self::TakeOver => "mend-",
            Self::Release => "none-",
        }
    }

    /// True if the member keeps the object when Karmada deletes its Work.
    pub const fn preserves(self) -> bool {
        matches!(self, Self::Preserve | Self::Suspend | Self::TakeOver)
    }

    /// True if Karmada dispatches changes of the copy to the member.
    pub const fn delivers(self) -> bool {
        matches!(self, Self::Deliver | Self::Preserve | Self::TakeOver)
    }
}

/// A policy that copies or companions are given to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeliveryPolicy {
    /// Karmada chooses a member of the city for a copy of this kind, and delivers nothing.
    Choose(KindId, CityCode),
    /// Karmada treats a copy of this kind at this member so.
    At(KindId, Stage, Arc<str>),
    /// Karmada delivers companions to these members.
    With(BTreeSet<Arc<str>>),
    /// Karmada delivers companions to no member.
    WithNone,
    /// Karmada delivers adopted companions to this member as [`Stage::TakeOver`] does. They stay there whatever becomes of
    /// companion and policy, because somebody at the member has made them part of their object.
    TakeOver(Arc<str>),
    /// Karmada dispatches nothing of adopted companions, as [`Stage::Withdraw`] does, so that a companion that the member deletes is
    /// not created again.
    Withdraw(Arc<str>),
}

/// The policy of a copy as its label names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyPolicy<'a> {
    /// Karmada chooses a member.
    Choose,
    /// The copy is given to this member.
    At(Stage, &'a str),
    /// No policy of the kind.
    Other,
}

impl<'a> CopyPolicy<'a> {
    /// Reads the label of a copy.
    pub fn read(kind: &FederatedKind, label: Option<&'a str>) -> Self {
        let prefix = kind.placement.policy_prefix.as_str();
        let Some(rest) = label.and_then(|label| label.strip_prefix(prefix)) else {
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

impl DeliveryPolicy {
    /// The name of the policy, which is the value of the label.
    pub fn name(&self, kinds: &PerKind<FederatedKind>) -> String {
        let prefix = |id: &KindId| kinds[*id].placement.policy_prefix.as_str();
        match self {
            Self::Choose(id, city) => choose_name(&format!("{}choose-", prefix(id)), city.as_str()),
            Self::At(id, stage, member) => format!("{}{}{member}", prefix(id), stage.word()),
            Self::With(members) => format!("{WITH}{}", set(members)),
            Self::WithNone => WITH_NONE.to_owned(),
            Self::TakeOver(member) => format!("{TAKE_OVER}{member}"),
            Self::Withdraw(member) => format!("{WITHDRAW}{member}"),
        }
    }

    /// The policy of a companion with this label; `None` without one, or if the name of its set of members is cut.
    pub fn of_companion(label: Option<&str>) -> Option<Self> {
        let label = label?;
        if label == WITH_NONE {
            return Some(Self::WithNone);
        }
        if let Some(member) = label.strip_prefix(TAKE_OVER) {
            return Some(Self::TakeOver(member.into()));
        }
        if let Some(member) = label.strip_prefix(WITHDRAW) {
            return Some(Self::Withdraw(member.into()));
        }
        let set = label.strip_prefix(WITH).filter(|set| !is_cut(set))?;
        Some(Self::With(set.split('.').map(Arc::from).collect()))
    }

    /// The `spec` of the policy in a hub namespace.
    pub fn spec(&self, kinds: &PerKind<FederatedKind>, namespace: &str) -> Value {
        let name = self.name(kinds);
        let affinity = match self {
            Self::Choose(id, city) => {
                json!({"labelSelector": {"matchLabels": {&kinds[*id].placement.label: city.as_str()}}})
            }
            Self::At(_, Stage::Release, _) | Self::WithNone => json!({"clusterNames": [NO_MEMBER]}),
            Self::At(_, _, member) | Self::TakeOver(member) | Self::Withdraw(member) => {
                json!({"clusterNames": [member]})
            }
            Self::With(members) => json!({"clusterNames": members}),
        };
        let selected = match self {
            Self::Choose(id, _) | Self::At(id, ..) => {
                let resource = &kinds[*id].resource;
                [(resource.api_version.as_str(), resource.kind.as_str())].into()
            }
            _ => companion_kinds(kinds),
        };
        let selectors: Vec<Value> = selected
            .into_iter()
            .map(|(api_version, kind)| {
                json!({"apiVersion": api_version, "kind": kind, "namespace": namespace,
                    "labelSelector": {"matchLabels": {keys::LANE: name}}})
            })
            .collect();
        let mut spec = json!({
            "resourceSelectors": selectors,
            "placement": {"clusterAffinity": affinity, "clusterTolerations": [{"operator": "Exists"}]},
        });
        let (is_of_copies, stage) = match self {
            Self::Choose(..) => (true, Some(Stage::Withdraw)),
            Self::At(_, stage, _) => (true, Some(*stage)),
            Self::TakeOver(_) => (false, Some(Stage::TakeOver)),
            Self::Withdraw(_) => (false, Some(Stage::Withdraw)),
            Self::With(_) | Self::WithNone => (false, None),
        };
        if is_of_copies {
            spec["placement"]["spreadConstraints"] = policy_spec::to_one_cluster();
        }
        if stage.is_some_and(Stage::preserves) {
            spec["preserveResourcesOnDeletion"] = json!(true);
        }
        if stage.is_some_and(|stage| !stage.delivers()) {
            spec["suspension"] = json!({"dispatching": true});
        }
        if matches!(stage, Some(Stage::TakeOver | Stage::Suspend)) {
            spec["conflictResolution"] = json!("Overwrite");
        }
        spec
    }

    /// True if Karmada gives the companions of this policy to a member.
    pub fn reaches(&self, member: &str) -> bool {
        match self {
            Self::TakeOver(of) | Self::Withdraw(of) => **of == *member,
            Self::With(members) => members.contains(member),
            Self::WithNone | Self::Choose(..) | Self::At(..) => false,
        }
    }

    /// True if a companion that had another policy is withdrawn from members by this one, and reaches no further member.
    pub fn only_withdraws(&self, from: Option<&Self>) -> bool {
        match (self, from) {
            (Self::WithNone | Self::Withdraw(_), _) => true,
            (Self::With(new), Some(Self::With(had))) => new.is_subset(had),
            _ => false,
        }
    }
}

/// The merge patch that gives this version of an object to a policy, and removes Karmada's claim.
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
    let references = at_one.flat_map(|kind| kind.companions.iter().flat_map(|of| &of.references));
    references
        .map(|of| (of.resource.api_version.as_str(), of.resource.kind.as_str()))
        .collect()
}

/// True if a policy of this name is one of copies of these kinds, or of companions.
pub fn is_policy_name(kinds: &PerKind<FederatedKind>, name: &str) -> bool {
    let mut at_one = kinds.iter().filter(|kind| kind.is_exactly_one()).peekable();
    let is_of_companions = [WITH, TAKE_OVER, WITHDRAW]
        .iter()
        .any(|prefix| name.starts_with(prefix));
    at_one.peek().is_some()
        && (is_of_companions || at_one.any(|kind| CopyPolicy::read(kind, Some(name)) != CopyPolicy::Other))
}

/// The name of the policy that chooses in a city. A code whose letters are all upper-case has the plain name in lower case, any
/// other one has a hash: the names of two codes never coincide, whichever comes first.
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
    let cut = names::policy_name_hashed(prefix, &city[..city.len().min(24)]);
    let head = cut.rsplit_once('.').map(|(head, _)| head);
    head.map_or(hashed, |head| format!("{head}.{}", names::short_hash(city, HASH)))
}

/// The name of a set of members, part of a label value.
fn set(members: &BTreeSet<Arc<str>>) -> String {
    let names: Vec<&str> = members.iter().map(|name| &**name).collect();
    let plain = names.join(".");
    if plain.len() <= SET_LIMIT {
        return plain;
    }
    format!(
        "{}.{}",
        &plain[..HEAD],
        names::short_hash(&names.join("\n"), HASH)
    )
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
        for policy in [
            DeliveryPolicy::TakeOver("dfw-1".into()),
            DeliveryPolicy::Withdraw("dfw-1".into()),
            DeliveryPolicy::WithNone,
            DeliveryPolicy::With(members(["dfw-1"])),
            DeliveryPolicy::With(members(["dfw-1", "lhr-1"])),
            // As long as a cut one.
            DeliveryPolicy::With(members(["dfw-000000000000000000001", "lhr-0000000000000000001"])),
        ] {
            let label = policy.name(&kinds);
            assert_eq!(
                DeliveryPolicy::of_companion(Some(&label)),
                Some(policy),
                "{label}"
            );
        }
        let cut = DeliveryPolicy::With(long()).name(&kinds);
        for label in [None, Some("vault-pin-dfw-1"), Some(cut.as_str())] {
            assert_eq!(DeliveryPolicy::of_companion(label), None, "{label:?}");
        }
        for (label, member, named) in [
            ("keep-dfw-1", "dfw-1", true),
            ("park-dfw-1", "dfw-2", false),
            ("with-dfw-1.lhr-1", "lhr-1", true),
            ("with-dfw-1.lhr-1", "dfw", false),
            ("with-none", "none", false),
        ] {
            let policy = DeliveryPolicy::of_companion(Some(label)).unwrap();
            assert_eq!(policy.reaches(member), named, "{label} {member}");
        }
    }

    #[test]
    fn a_move_to_fewer_members_only_withdraws() {
        let to = |names: &[&str]| DeliveryPolicy::With(members(names.iter().copied()));
        for (label, policy, withdraws) in [
            (Some("with-a.b"), to(&["b"]), true),
            (Some("with-a.b"), to(&["b", "c"]), false),
            (Some("with-a"), DeliveryPolicy::WithNone, true),
            (Some("keep-a"), DeliveryPolicy::Withdraw("a".into()), true),
            (Some("park-a"), DeliveryPolicy::TakeOver("a".into()), false),
            (Some("with-none"), to(&["a"]), false),
            (None, to(&["a"]), false),
        ] {
            let from = DeliveryPolicy::of_companion(label);
            assert_eq!(
                policy.only_withdraws(from.as_ref()),
                withdraws,
                "{label:?} {policy:?}"
            );
        }
    }
}
