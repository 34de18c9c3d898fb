//! Which city set each hub Namespace was left at, which ones it may have got since, and which one it is to have.
//!
//! What a write intends is noted before it is sent: its answer may be lost though it was applied, and an edit by someone
//! else must not be taken for it, nor it for an edit.

use fedgate_engine::random::HashMap;
use std::{collections::BTreeSet, sync::Arc};

/// Of one hub Namespace.
#[derive(Debug, Default, PartialEq, Eq)]
struct Delivery {
    /// The set that it had when a turn left it in order.
    at: Option<Arc<str>>,
    /// Sets that were sent since, of which it is not known whether they were applied.
    intended: BTreeSet<Arc<str>>,
    /// The set that it is to have by the last decision.
    wanted: Option<Arc<str>>,
}

impl Delivery {
    fn sets(&self) -> impl Iterator<Item = &Arc<str>> {
        self.at.iter().chain(&self.intended).chain(&self.wanted)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Deliveries {
    of: HashMap<Arc<str>, Delivery>,
    /// Each set with the hub Namespaces that it is noted of.
    users: BTreeSet<(Arc<str>, Arc<str>)>,
}

impl Deliveries {
    /// The set that a hub Namespace is at by what is noted, `labelled` being what it says itself: the one that it was
    /// left at, or one that was sent to it. `None` if nothing is noted.
    pub fn at(&self, hub: &str, labelled: Option<&Arc<str>>) -> Option<&Arc<str>> {
        let of = self.of.get(hub)?;
        let arrived = labelled.and_then(|set| of.intended.get(set));
        arrived.or(of.at.as_ref())
    }

    /// A set is about to be sent.
    pub fn record_intended(&mut self, hub: &Arc<str>, set: &Arc<str>) {
        self.change(hub, |of| {
            of.intended.insert(set.clone());
        });
    }

    /// A turn leaves a hub Namespace in order: it carries this set, which this replica has `written`, or found.
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

    /// Whether a set is noted of any hub Namespace.
    pub fn mentions(&self, set: &str) -> bool {
        self.users_of(set).next().is_some()
    }

    /// Whether a set was sent to a hub Namespace that may have it since, though nothing shows it.
    pub fn may_have_arrived(&self, set: &str) -> bool {
        self.users_of(set)
            .any(|hub| self.of.get(hub).is_some_and(|of| of.intended.contains(set)))
    }

    /// A set is wanted, or none in particular.
    pub fn want(&mut self, hub: &Arc<str>, set: Option<&Arc<str>>) {
        if self.wanted(hub) != set {
            self.change(hub, |of| of.wanted = set.cloned());
        }
    }

    /// The set that a hub Namespace is to have by the last decision.
    pub fn wanted(&self, hub: &str) -> Option<&Arc<str>> {
        self.of.get(hub)?.wanted.as_ref()
    }

    /// The hub Namespaces that a set is noted of.
    pub fn users_of<'a>(&'a self, set: &'a str) -> impl Iterator<Item = &'a Arc<str>> {
        let from = (Arc::from(set), Arc::from(""));
        let users = self.users.range(from..).take_while(move |(of, _)| **of == *set);
        users.map(|(_, hub)| hub)
    }

    /// Of how many hub Namespaces something is noted.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.of.len()
    }

    /// Forgets all but these hub Namespaces.
    pub fn retain(&mut self, wanted: impl Fn(&Arc<str>) -> bool) {
        self.of.retain(|hub, _| wanted(hub));
        self.users.retain(|(_, hub)| wanted(hub));
    }

    /// Forgets all.
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
