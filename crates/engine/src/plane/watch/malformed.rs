//! Objects of a watch that could not be read in full: each is reported once, and counted while it stays malformed.

use crate::random::HashMap;

/// Maximum number of remembered objects. Further malformed objects are read like the others, but neither reported nor
/// counted.
const KEPT: usize = 1_000;

/// Namespace and name.
type Name = (String, String);

/// Malformed objects; see the module.
#[derive(Debug, Default)]
pub(super) struct Malformed {
    known: HashMap<Name, Seen>,
    list: u64,
}

#[derive(Debug)]
struct Seen {
    /// True if the object was malformed when it was last seen.
    now: bool,
    /// The last list that contained it.
    list: u64,
}

impl Malformed {
    /// Records a malformed object; true if it must be reported. It is not reported again until a list has shown it
    /// well-formed, however often it changes.
    pub(super) fn record_malformed(&mut self, namespace: &str, name: &str) -> bool {
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

    /// Records an object that was read in full or deleted.
    pub(super) fn record_readable(&mut self, namespace: &str, name: &str) {
        if self.known.is_empty() {
            return;
        }
        if let Some(seen) = self.known.get_mut(&(namespace.to_owned(), name.to_owned())) {
            seen.now = false;
        }
    }

    /// Starts a list.
    pub(super) fn begin_list(&mut self) {
        self.list += 1;
    }

    /// Completes the list: objects that it has not shown as malformed are dropped.
    pub(super) fn end_list(&mut self) {
        let list = self.list;
        self.known.retain(|_, seen| seen.now && seen.list == list);
    }

    /// Number of objects that are malformed now.
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
        assert!(malformed.record_malformed("ns", "a") && malformed.record_malformed("ns", "b"));
        assert!(!malformed.record_malformed("ns", "a"));
        assert_eq!(malformed.count(), 2);
        for _ in 0..3 {
            malformed.record_readable("ns", "a");
            assert_eq!(malformed.count(), 1);
            assert!(!malformed.record_malformed("ns", "a"), "its change is no news");
        }
        malformed.begin_list();
        assert!(!malformed.record_malformed("ns", "a"));
        malformed.end_list();
        assert_eq!(malformed.count(), 1, "the other is gone or well");
        assert!(malformed.record_malformed("ns", "b"));
    }

    #[test]
    fn many_take_no_more_than_their_room() {
        let mut malformed = Malformed::default();
        let told = (0..2 * KEPT).filter(|n| malformed.record_malformed("ns", &n.to_string()));
        assert_eq!(told.count(), KEPT);
        assert_eq!(malformed.count(), KEPT);
    }
}
