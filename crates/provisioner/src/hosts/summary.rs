//! Combines the problems of several machines into one message.

use crate::reason::{Class, Problem};
use std::fmt::Write;

/// Characters of all problems: [`Problem`] shows some more.
const MAX_TOTAL: usize = 420;
/// Characters of one problem at least.
const MIN_EACH: usize = 40;

/// Combines the problems of machines into one. Its message has the number of machines without a problem, and each problem. Its reason
/// is that of the machine with the earliest next run; it is of class Waiting only if all problems are.
///
/// # Errors
/// If there is a problem.
pub(super) fn combine(problems: &[Problem], total: usize, done: &str) -> Result<(), Problem> {
    let rank = |problem: &&Problem| match problem.reason.class() {
        Class::Retry => 0,
        Class::Conflict => 1,
        Class::Terminal => 2,
        Class::Waiting => 3,
    };
    let Some(reason) = problems.iter().min_by_key(rank).map(|problem| problem.reason) else {
        return Ok(());
    };
    let mut what = format!(
        "{} of {total} machines {done}",
        total.saturating_sub(problems.len())
    );
    let share = (MAX_TOTAL / problems.len()).max(MIN_EACH);
    for problem in problems {
        let shown: String = problem.what.chars().take(share).collect();
        // Writing to a String does not fail.
        let _ = write!(what, "; {shown}");
    }
    Err(Problem::new(reason, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::Reason::{self, HostClaimed, HostUnreachable, NeedsReset, Waiting};

    #[test]
    fn the_machine_that_is_looked_at_again_soonest_gives_the_reason() {
        let of = |reasons: &[Reason]| {
            let problems = reasons
                .iter()
                .map(|reason| Problem::new(*reason, "machine x: no"));
            combine(&problems.collect::<Vec<_>>(), 3, "joined")
                .map_err(|problem| (problem.reason, problem.what.into_string()))
        };
        assert_eq!(of(&[]), Ok(()));
        let reason = |reasons: &[Reason]| of(reasons).unwrap_err().0;
        assert_eq!(reason(&[Waiting, NeedsReset]), NeedsReset);
        assert_eq!(reason(&[NeedsReset, HostClaimed]), HostClaimed);
        assert_eq!(reason(&[HostClaimed, HostUnreachable]), HostUnreachable);
        assert_eq!(
            of(&[Waiting]),
            Err((Waiting, "2 of 3 machines joined; machine x: no".to_owned()))
        );
    }

    #[test]
    fn each_of_many_machines_is_named() {
        let problems =
            (0..8).map(|n| Problem::new(HostUnreachable, format!("machine w{n}: {}", "x".repeat(400))));
        let what = combine(&problems.collect::<Vec<_>>(), 8, "joined")
            .unwrap_err()
            .what;
        assert!(
            (0..8).all(|n| what.contains(&format!("machine w{n}: x"))),
            "{what}"
        );
    }
}
