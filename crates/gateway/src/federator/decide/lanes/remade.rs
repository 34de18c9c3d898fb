//! An object that the member's own controllers end, and that Karmada makes again each time, is withheld from the member after two
//! such rounds within an hour (contract: clusters.md §3.6). Pure.

use super::Case;
use crate::{
    federator::{decide::Step, memory::Memory},
    index::rows::Item,
    pin::{Pin, PinnedCluster},
};
use jiff::Timestamp;

impl Case<'_> {
    /// Records that the member's object is another one than before. A delivered object is deleted by the gateway at the end of its
    /// life alone, so its member has ended it.
    pub(super) fn record_remade(&self, pin: &Pin, item: Option<&Item>, memory: &mut Memory) -> Option<Step> {
        if !pin.delivered {
            // The object before it, of an earlier life, was another one.
            memory.uid_at_member = None;
            return None;
        }
        let uid = item?.uid.as_ref()?;
        let last = match &pin.remade {
            Some(last) => &last.uid,
            None => &*memory.uid_at_member.get_or_insert_with(|| uid.clone()),
        };
        if last == uid || !self.is_at(PinnedCluster::Same) || self.withheld_since(pin).is_some() {
            return None;
        }
        let remade = pin.remade(uid.clone(), self.now.wall, self.source.digest.generation);
        Some(self.patch_pin(&remade, memory))
    }

    /// Since when the object, as it is in the project, is withheld from its member.
    pub(in crate::federator) fn withheld_since(&self, pin: &Pin) -> Option<Timestamp> {
        pin.withheld(self.source.digest.generation)
    }
}
