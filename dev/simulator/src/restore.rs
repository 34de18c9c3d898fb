//! A plane that goes back to an older state.

use crate::state::{Change, State};

impl State {
    /// Puts everything back to what it was at a revision.
    pub(crate) fn restore(&mut self, revision: u64) {
        for table in 0..self.tables.len() {
            let changes = &mut self.tables[table].changes;
            let kept = changes.partition_point(|change| change.revision <= revision);
            let undone: Vec<Change> = changes.drain(kept..).collect();
            for change in undone.into_iter().rev() {
                let objects = &mut self.tables[table].objects;
                let now = match &change.previous {
                    Some(previous) => objects.insert(change.key.clone(), previous.clone()),
                    None => objects.remove(&change.key),
                };
                self.index(table, &change.key, now.as_deref(), change.previous.as_deref());
                if let Some(karmada) = &mut self.karmada {
                    karmada.notice(table, &change.key);
                }
            }
            self.tables[table].epoch += 1;
        }
        self.revision = revision;
        self.wake_all();
    }
}
