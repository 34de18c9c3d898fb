//! A Workload that is shown again at each change.

use crate::{
    error::{Error, Kind},
    output::{Output, screen::Screen},
    plane::{Follow, Plane},
    time::sleep,
    view::{Instances, Joined},
};
use futures::FutureExt;
use serde_json::Value;
use std::{pin::pin, time::Duration};

/// A Workload that is shown again at each change.
pub(super) struct Watching<'a> {
    output: &'a Output,
    name: &'a str,
    follow: Follow,
    screen: Screen,
    is_listed: bool,
}

impl<'a> Watching<'a> {
    /// Begins to follow the Workload.
    pub(super) async fn start(plane: &Plane, output: &'a Output, name: &'a str) -> Result<Self, Error> {
        // A misspelled name is answered at once.
        plane.workload(name).await?;
        Ok(Self {
            output,
            name,
            follow: Follow::workload(plane, name),
            screen: Screen::stdout(),
            is_listed: false,
        })
    }

    /// Waits for a change of the objects, for the end of `other`, or until `due` has passed; returns the objects as they are
    /// then. While there is no contact, the time does not pass, because the objects may have changed.
    pub(super) async fn next(
        &mut self,
        due: Option<Duration>,
        other: impl Future<Output = ()>,
    ) -> Result<(Joined, Instances), Error> {
        let mut other = pin!(other.fuse());
        loop {
            let due = due.filter(|_| !self.follow.is_lost());
            tokio::select! {
                news = self.follow.next() => {
                    if let Some(notice) = news? {
                        if !self.output.quiet {
                            self.screen.notice(&notice)?;
                        }
                        continue;
                    }
                    self.is_listed = true;
                    self.screen.clear_notice()?;
                }
                () = &mut other => {}
                () = sleep(due) => {}
            }
            if self.is_listed {
                let deleted = || Error::new(Kind::NotFound, format!("workload {:?} was deleted", self.name));
                return self.follow.joined().ok_or_else(deleted);
            }
        }
    }

    /// Shows the Workload: a text for people, or an object for programs.
    pub(super) fn show(&mut self, text: &str, object: &Value) -> Result<(), Error> {
        if self.output.is_text() {
            self.screen.draw(text)
        } else {
            self.output.next_object(object)
        }
    }
}
