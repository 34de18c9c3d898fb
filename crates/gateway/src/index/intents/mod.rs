//! State that no row says, under one contract.
//!
//! * **Who records it.** A controller records what it is about to write under the lock under which it has decided, before
//!   the write is sent; other controllers read it as if the hub had it already. Deletions that were observed are recorded
//!   by the event itself, because the row is gone afterwards.
//! * **When it ends.** The controller removes its record once the result of the write is known, or its row shows it. All
//!   records of a hub namespace end when it loses its owner ([`Intents::retain_owned`]).
//! * **What a restart does.** A process begins without records. A write of an earlier process counts as another client's
//!   until its row is seen, and each first reconcile records its intent anew. The same holds of city sets after the start of
//!   a leadership, and of all that was observed of a hub that is restored ([`Intents::forget_hub`]).

pub mod delivery;
pub mod moves;

use super::{
    NamespaceOwner, ObjectRef, derived::withheld::Withheld, single_member::requested::RequestedPolicies,
};
use crate::route::CityRoute;
use delivery::Deliveries;
use fedgate_api::names::CityCode;
use fedgate_engine::{
    key::{Key, Plane},
    random::{HashMap, HashSet},
};
use fedgate_kinds::{CompanionKind, KindId};
use moves::Moves;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::time::Instant;

/// A delivery or a policy that a controller withdraws from a hub namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Withdrawal {
    /// The delivery of the Namespace to this city.
    City(CityCode),
    /// The policy of this name.
    Policy(Arc<str>),
}

/// State that no row says; see the module.
#[derive(Debug, Default)]
pub struct Intents {
    /// The city set of each hub Namespace as this replica last left it: another set on its label is a manual edit.
    pub deliveries: Deliveries,
    /// Time at which the last object of a city left a hub namespace (or was found gone), for the linger, by hub
    /// namespace.
    pub lingering: HashMap<Arc<str>, BTreeMap<CityCode, Instant>>,
    /// Deliveries and policies that are being withdrawn from hub namespaces right now: nothing may rely on them.
    pub withdrawing: HashSet<(Arc<str>, Withdrawal)>,
    /// Policies that objects which live at one member are about to be given to.
    pub requested: RequestedPolicies,
    /// Destinations of the copies whose write to the hub has no known result: until it is known, the objects that they
    /// need there stay.
    pub arriving: BTreeMap<ObjectRef, CityRoute>,
    /// Policies of city sets that are being deleted right now: no Namespace may begin to rely on them.
    pub ending_sets: HashSet<Arc<str>>,
    /// Companions whose name on the hub belongs to an object that is not ours: kind, hub namespace, name.
    pub name_taken: HashSet<(CompanionKind, Arc<str>, Arc<str>)>,
    /// Hub namespaces whose project uses the maximum number of city sets, by the label value of the project.
    pub limited: BTreeSet<(Arc<str>, Arc<str>)>,
    /// Sets that are being sent to hub namespaces right now, by hub namespace, with the label value of the project.
    pub moving: HashMap<Arc<str>, (Arc<str>, Arc<str>)>,
    /// The hub's message when it rejected a Namespace, the policies of one, or a companion, by the key of the
    /// record.
    pub refused: HashMap<Key, String>,
    /// Keys that wait until absence counts again on a plane whose watches fail.
    pub unproven: HashMap<Plane, HashSet<Key>>,
    /// Write-backs whose deletion was observed, as long as their projections exist.
    pub ended: HashSet<ObjectRef>,
    /// UIDs of deployments whose deletion was observed while their copies existed, by copy.
    pub departed: HashMap<ObjectRef, Arc<str>>,
    /// Deployments whose write-backs disappeared among many at once; their projections stay for a while.
    pub withheld: HashMap<ObjectRef, Withheld>,
    /// Moves of deployments from cell to cell that are to begin, and what became of earlier moves.
    pub moves: Moves,
    /// Deployments whose copies began to be reported on while their cells had more Instances than they had written back.
    pub unreported: HashSet<ObjectRef>,
}

impl Intents {
    /// Destinations of the copies of a kind that are in flight to a hub namespace.
    pub fn arriving_in(&self, kind: KindId, hub: &str) -> impl Iterator<Item = &CityRoute> {
        let first = ObjectRef::new(kind, &hub.into(), &"".into());
        let here = self.arriving.range(first.clone()..);
        here.take_while(move |(copy, _)| (copy.kind, &copy.hub) == (first.kind, &first.hub))
            .map(|(_, destination)| destination)
    }

    /// Drops the records of hub namespaces without an owner: a project that returns begins with none.
    pub fn retain_owned(&mut self, owners: &HashMap<Arc<str>, NamespaceOwner>) {
        let has_owner = |hub: &Arc<str>| owners.contains_key(hub);
        self.ended.retain(|write_back| has_owner(&write_back.hub));
        self.lingering.retain(|hub, _| has_owner(hub));
        self.withdrawing.retain(|(hub, _)| has_owner(hub));
        self.name_taken.retain(|(_, hub, _)| has_owner(hub));
        self.limited.retain(|(label, hub)| {
            let owner = owners.get(hub);
            owner.is_some_and(|owner| *owner.project.label() == **label)
        });
        self.deliveries.retain(has_owner);
        self.requested.retain(has_owner);
        self.arriving.retain(|copy, _| has_owner(&copy.hub));
        self.refused
            .retain(|key, _| has_owner(&key.namespace) || has_owner(&key.name));
    }

    /// Forgets what was written to and observed of the hub, which was restored to an older state: a value that differs from
    /// the last write is no edit. Projections that are withheld stay so.
    pub fn forget_hub(&mut self) {
        self.deliveries.clear();
        self.lingering.clear();
        self.ended.clear();
        self.departed.clear();
        self.moves = Moves::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_on_its_way_has_its_destination_until_its_result_is_known() {
        let mut intents = Intents::default();
        let [dfw, lhr] = ["DFW", "LHR"].map(|code| CityRoute::to_city(CityCode::parse(code).unwrap()));
        let second = KindId::nth(1);
        for (kind, hub, name, to) in [
            (KindId::FIRST, "ns-a", "web", &dfw),
            (KindId::FIRST, "ns-a", "api", &lhr),
            (second, "ns-a", "web", &lhr),
            (KindId::FIRST, "ns-b", "web", &lhr),
        ] {
            let copy = ObjectRef::new(kind, &hub.into(), &name.into());
            intents.arriving.insert(copy, to.clone());
        }
        let all = |of: &Intents| of.arriving_in(KindId::FIRST, "ns-a").cloned().collect::<Vec<_>>();
        assert_eq!(all(&intents), [lhr, dfw]);
        let owner = NamespaceOwner {
            project: crate::index::fixture::shop(),
            namespace: "default".into(),
        };
        intents.retain_owned(&[(Arc::from("ns-b"), owner)].into_iter().collect());
        assert_eq!(all(&intents), []);
        assert_eq!(intents.arriving_in(KindId::FIRST, "ns-b").count(), 1);
    }
}
