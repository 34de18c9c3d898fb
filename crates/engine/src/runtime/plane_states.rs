//! The states of the engaged planes, kept from one survey to the next: only the planes of which something was reported in
//! between are read again. Nothing is kept before the first survey.

use super::{
    index::Defect,
    inspect::{PlaneState, Survey},
};
use crate::{key::Plane, random::HashSet};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;

/// The state of one plane, as far as surveys need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// State of the plane.
    pub(super) state: PlaneState,
    /// True if it forbids a watch that it must allow.
    pub(super) forbids: bool,
    /// Why it cannot be worked with, although it answers.
    pub(super) defect: Option<Defect>,
    /// The end of its credential in seconds since the epoch, if that is known.
    pub(super) ends: Option<i64>,
}

/// The states of all planes, and those that may have changed.
#[derive(Debug, Default)]
pub(super) struct PlaneStates {
    /// Planes whose state may have changed since the last survey; `None` before the first one.
    changed: Mutex<Option<HashSet<Plane>>>,
    known: Mutex<Known>,
}

impl PlaneStates {
    /// Records that the state of a plane may have changed. To be called after the change.
    pub(super) fn may_have_changed(&self, plane: &Plane) {
        if let Some(changed) = self.changed.lock().as_mut()
            && !changed.contains(plane)
        {
            changed.insert(plane.clone());
        }
    }

    /// Begins a survey; a second one waits. Returns the planes to read, of which `all` are engaged, while `denying` are
    /// those that deny a permission.
    pub(super) fn begin(
        &self,
        all: impl FnOnce() -> Vec<Plane>,
        denying: HashSet<Plane>,
    ) -> (Vec<Plane>, MutexGuard<'_, Known>) {
        let mut known = self.known.lock();
        // Taken before anything is read: what changes from here on is read by the next survey at the latest.
        let changed = self.changed.lock().replace(HashSet::default());
        let planes = match changed {
            None => all(),
            Some(mut changed) => {
                changed.extend(known.denying.symmetric_difference(&denying).cloned());
                changed.into_iter().collect()
            }
        };
        known.denying = denying;
        (planes, known)
    }
}

/// The planes as the last survey found them.
#[derive(Debug, Default)]
pub(super) struct Known {
    planes: BTreeMap<Plane, Seen>,
    /// Planes that deny a permission.
    denying: HashSet<Plane>,
}

impl Known {
    /// Takes in a plane as it was read; `None` if it is not engaged.
    pub(super) fn take(&mut self, plane: &Plane, seen: Option<&Seen>) {
        match seen {
            Some(seen) => drop(self.planes.insert(plane.clone(), seen.clone())),
            None => drop(self.planes.remove(plane)),
        }
    }

    /// The planes whose first lists are not complete, the hub first, then by name.
    pub(super) fn syncing(&self) -> impl Iterator<Item = &Plane> {
        let syncing = |(_, seen): &(&Plane, &Seen)| seen.state == PlaneState::Syncing;
        self.planes.iter().filter(syncing).map(|(plane, _)| plane)
    }

    /// The planes whose credential has ended at this time in seconds since the epoch, with the end; the oldest first.
    pub(super) fn expired(&self, now: i64) -> impl Iterator<Item = (&Plane, i64)> {
        let ends = self
            .planes
            .iter()
            .filter_map(|(plane, seen)| Some((plane, seen.ends?)));
        let mut ended: Vec<_> = ends.filter(|(_, end)| *end <= now).collect();
        ended.sort_by_key(|(_, end)| *end);
        ended.into_iter()
    }

    /// The planes as a whole.
    pub(super) fn survey(&self) -> Survey {
        let mut survey = Survey::default();
        for (plane, seen) in &self.planes {
            *survey.states.entry((plane.kind(), seen.state)).or_default() += 1;
            if seen.forbids {
                survey.forbidding.push(plane.clone());
            }
            survey
                .defects
                .extend(seen.defect.map(|defect| (plane.clone(), defect)));
        }
        survey
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected() -> Seen {
        Seen {
            state: PlaneState::Connected,
            forbids: false,
            defect: None,
            ends: None,
        }
    }

    #[test]
    fn credentials_are_known_by_their_end_and_a_new_one_has_its_own() {
        let mut known = Known::default();
        let until = |ends| Seen {
            ends: Some(ends),
            ..connected()
        };
        let expired = |known: &Known, now| -> Vec<(Plane, i64)> {
            let all = known.expired(now);
            all.map(|(plane, end)| (plane.clone(), end)).collect()
        };
        known.take(&Plane::Hub, Some(&until(20)));
        known.take(&Plane::Cell, Some(&until(10)));
        assert_eq!(expired(&known, 9), []);
        assert_eq!(expired(&known, 20), [(Plane::Cell, 10), (Plane::Hub, 20)]);
        known.take(&Plane::Cell, Some(&until(30)));
        assert_eq!(expired(&known, 25), [(Plane::Hub, 20)]);
        known.take(&Plane::Hub, None);
        assert_eq!(expired(&known, 99), [(Plane::Cell, 30)]);
    }

    #[test]
    fn only_planes_that_may_have_changed_are_read_again() {
        let states = PlaneStates::default();
        let read = |denying: &[Plane]| {
            let denying = denying.iter().cloned().collect();
            let (planes, mut known) = states.begin(|| vec![Plane::Hub, Plane::Cell], denying);
            for plane in &planes {
                known.take(plane, Some(&connected()));
            }
            planes
        };
        // Before the first survey nothing is kept.
        states.may_have_changed(&Plane::Cell);
        assert!(states.changed.lock().is_none());
        assert_eq!(read(&[]), [Plane::Hub, Plane::Cell]);
        assert_eq!(read(&[]), []);
        states.may_have_changed(&Plane::Cell);
        states.may_have_changed(&Plane::Cell);
        assert_eq!(read(&[]), [Plane::Cell]);
        // A plane denies a permission, another one does, still, and none.
        assert_eq!(read(&[Plane::Hub]), [Plane::Hub]);
        assert_eq!(read(&[Plane::Hub, Plane::Cell]), [Plane::Cell]);
        assert_eq!(read(&[Plane::Hub, Plane::Cell]), []);
        assert_eq!(read(&[Plane::Hub]), [Plane::Cell]);
        assert_eq!(read(&[]), [Plane::Hub]);
        assert_eq!(read(&[]), []);
    }

    #[test]
    fn a_plane_that_is_taken_in_again_counts_once_and_one_that_has_gone_no_more() {
        let mut known = Known::default();
        let defect = Defect {
            word: "word",
            text: "text",
            next: "next",
        };
        let syncing = Seen {
            state: PlaneState::Syncing,
            ..connected()
        };
        for plane in [Plane::Cell, Plane::Hub] {
            known.take(&plane, Some(&syncing));
        }
        assert_eq!(known.syncing().collect::<Vec<_>>(), [&Plane::Hub, &Plane::Cell]);
        known.take(&Plane::Hub, Some(&connected()));
        known.take(&Plane::Cell, Some(&connected()));
        assert_eq!(known.syncing().next(), None);
        let failing = Seen {
            state: PlaneState::Backoff,
            forbids: true,
            defect: Some(defect),
            ends: None,
        };
        known.take(&Plane::Cell, Some(&failing));
        let survey = known.survey();
        let counts = [
            (("cell", PlaneState::Backoff), 1),
            (("hub", PlaneState::Connected), 1),
        ];
        assert_eq!(survey.states, BTreeMap::from(counts));
        assert_eq!(survey.forbidding, [Plane::Cell]);
        assert_eq!(survey.defects, [(Plane::Cell, defect)]);
        known.take(&Plane::Cell, None);
        let survey = known.survey();
        assert_eq!(survey.states, BTreeMap::from([counts[1]]));
        assert_eq!((survey.forbidding, survey.defects), (vec![], vec![]));
    }
}
