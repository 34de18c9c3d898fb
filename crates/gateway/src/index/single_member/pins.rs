//! Questions to the index about pins.

use crate::index::{
    GatewayIndex, ObjectRef,
    change::{Change, CopyNews},
    single_member::pin::{self, Pin, PinnedCluster, Pins},
};
use fedgate_api::keys;
use fedgate_engine::store::apply::RowChange;
use fedgate_kinds::{FederatedKind, KindId};
use std::{collections::BTreeSet, sync::Arc};

impl GatewayIndex {
    /// The Cluster that has the name of a pin's member now.
    pub fn pinned_cluster(&self, pin: &Pin) -> PinnedCluster {
        let clusters = &self.hub.clusters;
        match clusters.get("", &pin.member) {
            Some(row) if pin.is_at(&row.uid, row.digest.same_as.as_ref()) => PinnedCluster::Same,
            Some(_) => PinnedCluster::Replaced,
            None if clusters.proves() => PinnedCluster::Gone,
            None => PinnedCluster::Unknown,
        }
    }

    /// True if the Cluster of a pin's member is the one that was pinned, and reachable.
    pub fn is_member_ready(&self, pin: &Pin) -> bool {
        let row = self.hub.clusters.get("", &pin.member);
        row.is_some_and(|row| row.digest.is_ready()) && self.pinned_cluster(pin) == PinnedCluster::Same
    }

    /// The objects that live at a member.
    pub fn pinned_to(&self, member: &str) -> Vec<ObjectRef> {
        let records = self.hub.pins.iter().filter_map(|((_, record), row)| {
            let hub: Arc<str> = pin::hub_namespace(record)?.into();
            Some((hub, &row.digest))
        });
        let here = records.flat_map(|(hub, pins)| {
            let at = |pin: &Option<Arc<Pin>>| pin.as_ref().is_some_and(|pin| *pin.member == *member);
            let keys = pins.by_key.iter().filter(move |(_, pin)| at(pin));
            keys.filter_map(move |(key, _)| self.object_of_pin(&hub, key))
        });
        here.collect()
    }

    /// The object of a hub namespace whose pin has this key.
    pub fn object_of_pin(&self, hub: &Arc<str>, key: &str) -> Option<ObjectRef> {
        let mut kinds = self.kinds.enumerate().filter(|(_, kind)| kind.is_exactly_one());
        kinds.find_map(|(id, kind)| {
            let name = key.strip_prefix(pin::key(kind, "").as_str())?;
            Some(ObjectRef::new(id, hub, &name.into()))
        })
    }

    /// True if objects of a federated kind live at one member.
    pub fn has_pins(&self) -> bool {
        self.kinds.iter().any(FederatedKind::is_exactly_one)
    }

    /// The pin of an object.
    pub fn pin(&self, kind: KindId, hub_namespace: &str, name: &str) -> Option<&Arc<Pin>> {
        self.pin_value(kind, hub_namespace, name)?.as_ref()
    }

    /// The value of an object's key among the pins: `None` if it has none, `Some(None)` if that is no pin.
    fn pin_value(&self, kind: KindId, hub_namespace: &str, name: &str) -> Option<&Option<Arc<Pin>>> {
        let kind = Some(&self.kinds[kind]).filter(|kind| kind.is_exactly_one())?;
        let all = self.pins_in(hub_namespace)?;
        all.by_key.get(pin::key(kind, name).as_str())
    }

    fn pins_in(&self, hub_namespace: &str) -> Option<&Pins> {
        let record = pin::record_name(hub_namespace)?;
        let row = self.hub.pins.get(keys::SYSTEM_NAMESPACE, &record)?;
        Some(&row.digest)
    }

    /// The objects whose pins a change of their record concerns.
    pub(crate) fn pins_changed(&self, delta: &RowChange<Pins>) -> Vec<Change> {
        let Some(hub) = pin::hub_namespace(&delta.name.1) else {
            return Vec::new();
        };
        let hub: Arc<str> = hub.into();
        let none = Pins::default();
        let old = delta.old.as_ref().map_or(&none, |row| &row.digest);
        let new = self.hub.pins.get(&delta.name.0, &delta.name.1);
        let new = new.map_or(&none, |row| &row.digest);
        let keys: BTreeSet<&Arc<str>> = old.by_key.keys().chain(new.by_key.keys()).collect();
        let changed = keys
            .into_iter()
            .filter(|key| old.by_key.get(*key) != new.by_key.get(*key));
        let objects = changed.filter_map(|key| self.object_of_pin(&hub, key));
        // An object of another kind may wait for the name on the hub.
        let all = objects.flat_map(|of| {
            let kinds = self.namesakes(of.kind).chain([of.kind]);
            kinds.map(move |kind| ObjectRef { kind, ..of.clone() })
        });
        let waiting = (old.is_full && !new.is_full).then(|| self.unpinned(&hub));
        all.chain(waiting.into_iter().flatten())
            .map(|copy| Change::Copy {
                copy,
                news: CopyNews::Pinned,
            })
            .collect()
    }

    /// The copies of a hub namespace that have no pin yet.
    fn unpinned(&self, hub: &Arc<str>) -> impl Iterator<Item = ObjectRef> {
        let kinds = self.kinds.enumerate().filter(|(_, kind)| kind.is_exactly_one());
        kinds.flat_map(move |(id, _)| {
            let copies = self.hub.copies[id].in_namespace(hub);
            let unpinned = copies.filter(move |(name, _)| self.pin(id, hub, name).is_none());
            unpinned.map(move |(name, _)| ObjectRef::new(id, hub, name))
        })
    }

    /// True if the object's pin is there and cannot be read.
    pub fn has_unreadable_pin(&self, kind: KindId, hub_namespace: &str, name: &str) -> bool {
        let value = self.pin_value(kind, hub_namespace, name);
        value.is_some_and(Option::is_none)
    }

    /// Kinds of the same name in other groups. Karmada names bindings by kinds without their groups, so that objects of these
    /// kinds with the same name have the same binding.
    pub fn namesakes(&self, kind: KindId) -> impl Iterator<Item = KindId> {
        let name = &self.kinds[kind].resource.kind;
        let kinds = self.kinds.enumerate();
        kinds.filter_map(move |(id, other)| {
            (id != kind && other.resource.kind.eq_ignore_ascii_case(name)).then_some(id)
        })
    }

    /// Names of the objects of a kind in a hub namespace that have members.
    pub fn pinned_in(&self, kind: KindId, hub_namespace: &str) -> impl Iterator<Item = &str> {
        let prefix = pin::key(&self.kinds[kind], "");
        let keys = self
            .pins_in(hub_namespace)
            .into_iter()
            .flat_map(|all| all.by_key.keys());
        keys.filter_map(move |key| key.strip_prefix(prefix.as_str()))
    }

    /// True if objects of a hub namespace have members.
    pub fn has_pins_in(&self, hub_namespace: &str) -> bool {
        self.pins_in(hub_namespace)
            .is_some_and(|all| !all.by_key.is_empty())
    }
}
