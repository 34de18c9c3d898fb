//! Tells people of a rollout while it goes on: a table that is drawn in place on a terminal, else a line for each change.

use super::{Phase, Row, table, table::ROWS};
use crate::{
    output::{Output, screen::Screen, table::escape},
    time::{ServerClock, prose},
};
use std::{
    io,
    time::{Duration, Instant},
};

/// Time between two drawings of the clock.
const TICK: Duration = Duration::from_secs(1);

/// Number of rows from which on those that are done are only counted.
const MANY: usize = 20;

/// Tells people of a rollout.
#[derive(Debug)]
pub(super) struct Report<'a> {
    output: &'a Output,
    clock: &'a ServerClock,
    begun: Instant,
    screen: Option<Screen>,
}

impl<'a> Report<'a> {
    /// Begins to tell.
    pub(super) fn new(output: &'a Output, clock: &'a ServerClock, begun: Instant) -> Self {
        let screen = Screen::stderr();
        Self {
            output,
            clock,
            begun,
            screen: Some(screen).filter(|screen| screen.is_terminal() && !output.quiet && output.is_text()),
        }
    }

    /// Time until the clock is drawn again.
    pub(super) fn tick(&self) -> Option<Duration> {
        self.screen.is_some().then_some(TICK)
    }

    /// Tells of the rows, of which these have changed.
    pub(super) fn tell(&mut self, rows: &[Row], changed: &[Row]) {
        let Some(screen) = &mut self.screen else {
            let now = self.clock.now();
            let time = now.round(jiff::Unit::Second).unwrap_or(now);
            for row in changed {
                self.output.remark(&escape(&format!("{time} {row}")));
            }
            return;
        };
        let done = rows.iter().filter(|row| row.phase == Phase::Done).count();
        let shown = rows
            .iter()
            .filter(|row| rows.len() <= MANY || row.phase != Phase::Done);
        let table = table::table(shown).text(ROWS.len(), true, self.output.color.applies(&io::stderr()));
        let line = format!(
            "{done} of {} done after {}\n",
            rows.len(),
            prose(self.begun.elapsed())
        );
        // The result of the command does not depend on what people can see of the way.
        let _ = screen.draw(&(table + &line));
    }
}
