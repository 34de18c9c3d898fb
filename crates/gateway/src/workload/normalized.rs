//! Workloads whose API server changes written values, so that they are not written forever.

use fedgate_engine::{diff::Digest, reconcile::normalized::Normalized};

/// True if a plan is to be executed. `executed` is the plan that this reconcile has executed last, with the state that it
/// was decided from; `found` is the current state. The Workload is normalized once a write has changed nothing: a difference
/// after the first write may be another client's edit.
pub(super) fn goes_on(
    normalized: &mut Normalized,
    executed: Option<(Digest, Digest)>,
    wanted: Digest,
    found: Digest,
) -> bool {
    if executed == Some((wanted, found)) {
        normalized.record(wanted, found);
    }
    !normalized.accepts(wanted, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_changed_nothing_is_executed_again_only_after_a_change() {
        let mut normalized = Normalized::default();
        let [wanted, other, before, after] = [1, 2, 3, 4].map(|n: u8| Digest::of_hash(&n));
        let mut go = |executed, wanted, found| goes_on(&mut normalized, executed, wanted, found);
        assert!(go(None, wanted, before));
        assert!(
            go(Some((wanted, before)), wanted, after),
            "another client may have edited it meanwhile"
        );
        assert!(
            !go(Some((wanted, after)), wanted, after),
            "the write changed nothing"
        );
        assert!(!go(None, wanted, after), "in later reconciles too");
        assert!(go(None, wanted, before), "the state is another one");
        assert!(go(None, other, after), "the plan is another one");
        normalized = Normalized::default();
        assert!(goes_on(&mut normalized, None, wanted, after));
    }
}
