//! Values that a server changes when they are written.

use crate::diff::Digest;

/// The last value that a server did not store as it was written: digests of the written and of the stored value. Servers
/// fill in defaults, and drop fields that their definitions do not have; writing the value again changes nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Normalized(Option<(Digest, Digest)>);

impl Normalized {
    /// Records what the server stored when `wanted` was written.
    pub fn record(&mut self, wanted: Digest, stored: Digest) {
        self.0 = (wanted != stored).then_some((wanted, stored));
    }

    /// True if the stored value is the wanted one, or the one that the server makes of it.
    pub fn accepts(self, wanted: Digest, stored: Digest) -> bool {
        wanted == stored || self.0 == Some((wanted, stored))
    }

    /// True if the server changed the last written value.
    pub fn differs(self) -> bool {
        self.0.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_recorded_change_of_a_server_is_accepted() {
        let [wanted, stored, other] = [1, 2, 3].map(|n: u8| Digest::of_hash(&n));
        let mut normalized = Normalized::default();
        assert!(normalized.accepts(wanted, wanted) && !normalized.accepts(wanted, stored));
        normalized.record(wanted, stored);
        assert!(normalized.accepts(wanted, stored) && normalized.differs());
        assert!(!normalized.accepts(wanted, other) && !normalized.accepts(other, stored));
        normalized.record(wanted, wanted);
        assert_eq!(
            normalized,
            Normalized::default(),
            "the server stores it unchanged now"
        );
    }
}
