//! City sets of each hub Namespace: the last known one, those that were sent since, and the wanted one.
//!
//! A set is recorded before it is sent: the answer may be lost although the set was applied, and a manual edit must
//! not be confused with our own write.

use fedgate_engine::random::HashMap;
use std::{collections::BTreeSet, sync::Arc};

/// City sets of one hub Namespace.
#[derive(Debug, Default, PartialEq, Eq)]
struct Delivery {
    /// The set at the end of the last successful reconcile.
    at: Option<Arc<str>>,
    /// Sets that were sent since, with an unknown result.
    intended: BTreeSet<Arc<str>>,
    /// The set that the last decision wants.
    wanted: Option<Arc<str>>,
}

impl Delivery {
    fn sets(&self) -> impl Iterator<Item = &Arc<str>> {
        self.at.iter().chain(&self.intended).chain(&self.wanted)
    }
}

/// City sets of all hub Namespaces.
#[derive(Debug, Default)]
pub struct Deliveries {
    of: HashMap<Arc<str>, Delivery>,
    /// The hub Namespaces of each recorded set.
    users: BTreeSet<(Arc<str>, Arc<str>)>,
}

impl Deliveries {
    /// The recorded set of a hub Namespace whose label is `labelled`: the last known one, or one that was sent
    /// since. `None` if nothing is recorded.
    pub fn at(&self, hub: &str, labelled: Option<&Arc<str>>) -> Option<&Arc<str>> {
        let of = self.of.get(hub)?;
        let arrived = labelled.and_then(|set| of.intended.get(set));
        arrived.or(of.at.as_ref())
    }

    /// Records a set that is about to be sent.
    pub fn record_intended(&mut self, hub: &Arc<str>, set: &Arc<str>) {
        self.change(hub, |of| {
            of.intended.insert(set.clone());
        });
    }

    /// Records the end of a successful reconcile: the hub Namespace has this set, which this replica has `written`
    /// or found.
    pub fn leave(&mut self, hub: &Arc<str>, set: Option<&Arc<str>>, written: bool) {
        self.change(hub, |of| match set {
            None => (of.at, of.intended) = Default::default(),
            Some(set) if written || of.intended.contains(set) => {
                of.at = Some(set.clone());
                of.intended.clear();
            }
            Some(set) => drop(of.at.get_or_insert_with(|| set.clone())),
        });
    }

    /// True if a set is recorded of any hub Namespace.
    pub fn mentions(&self, set: &str) -> bool {
        self.users_of(set).next().is_some()
    }

    /// True if a hub Namespace may have this set since a write with an unknown result.
    pub fn may_have_arrived(&self, set: &str) -> bool {
        self.users_of(set)
            .any(|hub| self.of.get(hub).is_some_and(|of| of.intended.contains(set)))
    }

    /// Records the wanted set, or that none is wanted.
    pub fn want(&mut self, hub: &Arc<str>, set: Option<&Arc<str>>) {
        if self.wanted(hub) != set {
            self.change(hub, |of| of.wanted = set.cloned());
        }
    }

    /// The set that the last decision wants.
    pub fn wanted(&self, hub: &str) -> Option<&Arc<str>> {
        self.of.get(hub)?.wanted.as_ref()
    }

    /// The hub Namespaces with this set in their records.
    pub fn users_of<'a>(&'a self, set: &'a str) -> impl Iterator<Item = &'a Arc<str>> {
        let from = (Arc::from(set), Arc::from(""));
        let users = self.users.range(from..).take_while(move |(of, _)| **of == *set);
        users.map(|(_, hub)| hub)
    }

    /// Number of hub Namespaces with a record.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.of.len()
    }

    /// Drops all but these hub Namespaces.
    pub fn retain(&mut self, wanted: impl Fn(&Arc<str>) -> bool) {
        self.of.retain(|hub, _| wanted(hub));
        self.users.retain(|(_, hub)| wanted(hub));
    }

    /// Drops all records.
    pub fn clear(&mut self) {
        self.of.clear();
        self.users.clear();
    }

    fn change(&mut self, hub: &Arc<str>, how: impl FnOnce(&mut Delivery)) {
        let of = self.of.entry(hub.clone()).or_default();
        let before: Vec<Arc<str>> = of.sets().cloned().collect();
        how(of);
        let after: Vec<Arc<str>> = of.sets().cloned().collect();
        if *of == Delivery::default() {
            self.of.remove(hub);
        }
        if before == after {
            return;
        }
        for set in before {
            self.users.remove(&(set, hub.clone()));
        }
        self.users.extend(after.into_iter().map(|set| (set, hub.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_no_edit_whether_it_was_answered_or_not() {
        let mut noted = Deliveries::default();
        let [hub, dfw, both, other]: [Arc<str>; 4] = ["ns-a", "dfw", "dfw-lhr", "lhr"].map(Into::into);
        assert_eq!(noted.at("ns-a", Some(&dfw)), None);
        noted.leave(&hub, Some(&dfw), false);
        noted.record_intended(&hub, &both);
        assert_eq!(noted.at("ns-a", Some(&dfw)), Some(&dfw), "it was not applied yet");
        assert_eq!(noted.at("ns-a", Some(&both)), Some(&both), "it was");
        assert_eq!(
            noted.at("ns-a", Some(&other)),
            Some(&dfw),
            "that is someone's edit"
        );
        noted.leave(&hub, Some(&dfw), false);
        assert_eq!(noted.at("ns-a", Some(&both)), Some(&both), "it may still arrive");
        assert!(noted.may_have_arrived("dfw-lhr") && !noted.may_have_arrived("dfw"));
        noted.leave(&hub, Some(&both), false);
        assert!(!noted.may_have_arrived("dfw-lhr"), "it has");
        assert_eq!(
            noted.at("ns-a", Some(&dfw)),
            Some(&both),
            "from now on that is an edit"
        );
        let uses = |noted: &Deliveries, set| noted.users_of(set).count();
        assert_eq!([uses(&noted, "dfw-lhr"), uses(&noted, "dfw")], [1, 0]);
        noted.want(&hub, Some(&other));
        assert_eq!([uses(&noted, "dfw-lhr"), uses(&noted, "lhr")], [1, 1]);
        assert!(noted.mentions("lhr") && !noted.mentions("dfw"));
        noted.want(&hub, None);
        noted.leave(&hub, None, false);
        assert!(noted.of.is_empty() && noted.users.is_empty());
        noted.want(&hub, Some(&other));
        noted.clear();
        assert!(noted.of.is_empty() && noted.users.is_empty());
    }
}
