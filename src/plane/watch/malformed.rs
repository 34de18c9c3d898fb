//! The objects of a watch that could not be read in full: each is told once, and counted as long as it is so.

use crate::engine::chance::HashMap;

/// Most objects that are remembered. Beyond that they are read as well as the others, untold and uncounted.
const KEPT: usize = 1_000;

/// Namespace and name.
type Name = (String, String);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Malformed {
    known: HashMap<Name, Seen>,
    list: u64,
}

#[derive(Debug)]
struct Seen {
    /// Whether it was malformed when it was last seen.
    now: bool,
    /// The list that named it last.
    list: u64,
}

impl Malformed {
    /// An object could not be read in full; whether that is news. It is no news again before a list has shown it well,
    /// however often it changes.
    pub(super) fn saw_malformed(&mut self, namespace: &str, name: &str) -> bool {
        let list = self.list;
        let key = (namespace.to_owned(), name.to_owned());
        if let Some(seen) = self.known.get_mut(&key) {
            *seen = Seen { now: true, list };
            return false;
        }
        if self.known.len() >= KEPT {
            return false;
        }
        self.known.insert(key, Seen { now: true, list });
        true
    }

    /// An object was read in full, or is gone.
    pub(super) fn saw_well(&mut self, namespace: &str, name: &str) {
        if self.known.is_empty() {
            return;
        }
        if let Some(seen) = self.known.get_mut(&(namespace.to_owned(), name.to_owned())) {
            seen.now = false;
        }
    }

    /// A list begins.
    pub(super) fn begin_list(&mut self) {
        self.list += 1;
    }

    /// It is complete: what it has not shown malformed is forgotten.
    pub(super) fn end_list(&mut self) {
        let list = self.list;
        self.known.retain(|_, seen| seen.now && seen.list == list);
    }

    /// How many are malformed now.
    pub(super) fn count(&self) -> usize {
        self.known.values().filter(|seen| seen.now).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_once_until_a_list_shows_it_well() {
        let mut malformed = Malformed::default();
        assert!(malformed.saw_malformed("ns", "a") && malformed.saw_malformed("ns", "b"));
        assert!(!malformed.saw_malformed("ns", "a"));
        assert_eq!(malformed.count(), 2);
        for _ in 0..3 {
            malformed.saw_well("ns", "a");
            assert_eq!(malformed.count(), 1);
            assert!(!malformed.saw_malformed("ns", "a"), "its change is no news");
        }
        malformed.begin_list();
        assert!(!malformed.saw_malformed("ns", "a"));
        malformed.end_list();
        assert_eq!(malformed.count(), 1, "the other is gone or well");
        assert!(malformed.saw_malformed("ns", "b"));
    }

    #[test]
    fn many_take_no_more_than_their_room() {
        let mut malformed = Malformed::default();
        let told = (0..2 * KEPT).filter(|n| malformed.saw_malformed("ns", &n.to_string()));
        assert_eq!(told.count(), KEPT);
        assert_eq!(malformed.count(), KEPT);
    }
}
