//! Shows a rollout while it goes on: a table that is drawn in place on a terminal, a line or an object for each change
//! elsewhere.

use super::{Phase, ROWS, Row, object, table};
use crate::{
    error::Error,
    output::{Output, screen::Screen, table::escape},
    prompt,
    time::{ServerClock, prose},
    view::City,
};
use std::{collections::BTreeMap, io, time::Duration};
use tokio::time::Instant;

/// Time between two drawings of the clock.
const TICK: Duration = Duration::from_secs(1);

/// Number of rows from which on those that are done are only counted.
const MANY: usize = 20;

/// Shows a rollout.
#[derive(Debug)]
pub(super) struct Report<'a> {
    output: &'a Output,
    clock: &'a ServerClock,
    begun: Instant,
    form: Form,
}

/// The form in which a rollout is shown.
#[derive(Debug)]
enum Form {
    /// A table that is drawn in place.
    Drawn(Screen),
    /// A line for each row that looks different, with the last one of each: rows also change in what is not shown.
    Lines(BTreeMap<City, String>),
    /// An object on stdout for each change, with the cities of the last one.
    Objects { name: String, cities: Option<Vec<City>> },
}

impl<'a> Report<'a> {
    /// The report of a rollout. Its name is given if the rollout is the command's result, which is an object for each change
    /// unless people read it.
    pub(super) fn new(
        output: &'a Output,
        clock: &'a ServerClock,
        begun: Instant,
        result: Option<&str>,
    ) -> Self {
        let form = match result.filter(|_| !output.is_text()) {
            Some(name) => Form::Objects {
                name: name.to_owned(),
                cities: None,
            },
            None if prompt::is_terminal() && !output.quiet && output.is_text() => {
                Form::Drawn(Screen::stderr())
            }
            None => Form::Lines(BTreeMap::new()),
        };
        Self {
            output,
            clock,
            begun,
            form,
        }
    }

    /// Time until the clock is drawn again.
    pub(super) fn tick(&self) -> Option<Duration> {
        matches!(self.form, Form::Drawn(_)).then_some(TICK)
    }

    /// Says that the server does not answer.
    pub(super) fn notice(&mut self, line: &str) -> Result<(), Error> {
        if let Form::Drawn(screen) = &mut self.form {
            return screen.notice(line);
        }
        self.output.remark(line);
        Ok(())
    }

    /// Takes the notice away, because the server answers.
    pub(super) fn clear_notice(&mut self) -> Result<(), Error> {
        match &mut self.form {
            Form::Drawn(screen) => screen.clear_notice(),
            Form::Lines(_) | Form::Objects { .. } => Ok(()),
        }
    }

    /// Shows the rows, of which these have changed.
    pub(super) fn show(&mut self, rows: &[Row], changed: &[Row]) -> Result<(), Error> {
        match &mut self.form {
            Form::Drawn(screen) => {
                let colour = self.output.color.applies(&io::stderr());
                screen.draw(&drawn(rows, self.begun.elapsed(), colour))
            }
            Form::Lines(last) => {
                let now = self.clock.now();
                let time = now.round(jiff::Unit::Second).unwrap_or(now);
                for row in changed {
                    let text = row.to_string();
                    if last.get(&row.city) != Some(&text) {
                        self.output.remark(&escape(&format!("{time} {text}")));
                        last.insert(row.city.clone(), text);
                    }
                }
                Ok(())
            }
            Form::Objects { name, cities } => {
                let now: Vec<City> = rows.iter().map(|row| row.city.clone()).collect();
                if changed.is_empty() && cities.as_ref() == Some(&now) {
                    return Ok(());
                }
                *cities = Some(now);
                self.output.next_object(&object(name, rows))
            }
        }
    }

    /// Says that the rollout is complete.
    pub(super) fn complete(&self) {
        if !matches!(self.form, Form::Objects { .. }) {
            let line = format!("Rollout complete in {}.", prose(self.begun.elapsed()));
            self.output.remark(&line);
        }
    }
}

/// The text that is drawn in place.
fn drawn(rows: &[Row], elapsed: Duration, colour: bool) -> String {
    let done = rows.iter().filter(|row| row.phase == Phase::Done).count();
    let shown = rows
        .iter()
        .filter(|row| rows.len() <= MANY || row.phase != Phase::Done);
    let table = table(shown).text(ROWS.len(), true, colour);
    table + &format!("{done} of {} done after {}\n", rows.len(), prose(elapsed))
}
