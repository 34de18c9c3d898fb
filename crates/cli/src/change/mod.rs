//! A change of a Workload: what is wanted, shown, confirmed, written and recorded (contract: cli.md §3, §6).

mod flags;
mod intent;
mod plan;
mod undo;

pub(crate) use flags::Flags;
pub(crate) use intent::{CONTAINERS, Intent, check_minimum};
pub(crate) use plan::Plan;
pub(crate) use undo::undo;

use crate::{
    args::{DryRun, WriteArgs},
    diff,
    error::{Error, Kind},
    history::{self, Entry},
    manifest,
    output::{Output, served, table::escape, warn, write},
    plane::{Plane, Resource},
    prompt::{Answer, is_terminal},
    retry,
    rollout::changed_meanwhile,
    view::Object,
};
use backon::BackoffBuilder;
use serde_json::Value;
use std::path::Path;

/// The surroundings of a change.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    /// The project.
    pub(crate) plane: &'a Plane,
    /// For plans and results.
    pub(crate) output: &'a Output,
    /// True if questions are answered yes.
    pub(crate) yes: bool,
    /// Whether something is written.
    pub(crate) dry_run: DryRun,
    /// The reason for the history.
    pub(crate) reason: &'a str,
    /// True if the file was read from stdin, so that nobody can answer there.
    pub(crate) stdin_used: bool,
    /// File for the manifest that is sent.
    pub(crate) save: Option<&'a Path>,
}

/// The result of a change.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The Workload is as wanted already.
    Unchanged(Object),
    /// The Workload was written; the revisions before and after are known if they could be recorded.
    Written {
        object: Object,
        from: Option<u64>,
        revision: Option<u64>,
    },
    /// The flags asked for no write.
    DryRun,
}

impl<'a> Session<'a> {
    /// The surroundings of a command with these flags, and without a file.
    pub(crate) fn new(plane: &'a Plane, output: &'a Output, args: &'a WriteArgs, yes: bool) -> Self {
        Self {
            plane,
            output,
            yes,
            dry_run: args.dry_run,
            reason: &args.reason,
            stdin_used: false,
            save: None,
        }
    }

    /// Changes the Workload of this name. `live` is the object that the wish was made for; `None` if it does not exist.
    pub(crate) async fn change(
        &self,
        name: &str,
        mut live: Option<Object>,
        mut intent: Intent,
    ) -> Result<Outcome, Error> {
        let mut confirmed = None;
        let mut delays = retry::conflicts().build();
        loop {
            match self.attempt(&intent, live.as_ref(), &mut confirmed).await {
                Err(error) if error.kind == Kind::Conflict => {
                    tokio::time::sleep(delays.next().ok_or(error)?).await;
                }
                result => return result,
            }
            let again = self.read(name, &intent).await?;
            if version(again.as_ref()) != version(live.as_ref()) && !self.may_reapply(&intent) {
                if self.yes || self.stdin_used || !is_terminal() {
                    return Err(self.overtaken(name, again.as_ref()).await);
                }
                let notice = format!("workload {name:?} changed meanwhile; the new plan:");
                self.output.say(&notice);
                intent = intent.renumbered(self.plane, again.as_ref()).await;
                confirmed = None;
            }
            live = again;
        }
    }

    /// The error about a spec that another user wrote first.
    async fn overtaken(&self, name: &str, live: Option<&Object>) -> Error {
        match live {
            Some(live) => changed_meanwhile(self.plane, live).await,
            None => Error::new(Kind::Conflict, format!("workload {name:?} was deleted meanwhile"))
                .next("kubectl compute workloads"),
        }
    }

    async fn read(&self, name: &str, intent: &Intent) -> Result<Option<Object>, Error> {
        if intent.creates() {
            self.plane.find(Resource::Workloads, name).await
        } else {
            self.plane.workload(name).await.map(Some)
        }
    }

    /// True if a spec that another user wrote may be taken for the one that the user saw.
    fn may_reapply(&self, intent: &Intent) -> bool {
        intent.is_relative() || self.dry_run != DryRun::None
    }

    /// Plans, confirms and writes once. Changes that were confirmed are not shown again.
    async fn attempt(
        &self,
        intent: &Intent,
        live: Option<&Object>,
        confirmed: &mut Option<Vec<diff::Change>>,
    ) -> Result<Outcome, Error> {
        let wanted = intent.wanted(live, self.plane.clock.now())?;
        let stored = self.preview(&wanted, live.is_some()).await?;
        let changes = diff::changes(live.map(|live| &live.0), &stored.0);
        if let (Some(live), true) = (live, changes.is_empty()) {
            return self.unchanged(intent, live, &wanted);
        }
        if !intent.is_relative() && confirmed.as_ref() != Some(&changes) {
            let plan = Plan::new(self.plane, live, &stored, changes).await?;
            self.confirm(intent, &plan).await?;
            *confirmed = Some(plan.changes);
        }
        self.save(&wanted)?;
        let verb = if live.is_some() { "configured" } else { "created" };
        match self.dry_run {
            DryRun::None => self.write(intent, live, &wanted, verb).await,
            DryRun::Client | DryRun::Server => {
                print(self.output, &stored, &format!("{verb}{}", self.dry_run.note()))?;
                Ok(Outcome::DryRun)
            }
        }
    }

    /// The Workload as the server would store it.
    async fn preview(&self, wanted: &Value, exists: bool) -> Result<Object, Error> {
        match self.dry_run {
            DryRun::Client => Ok(Object(wanted.clone())),
            DryRun::None | DryRun::Server => self.plane.store(wanted, exists, true).await,
        }
    }

    fn unchanged(&self, intent: &Intent, live: &Object, wanted: &Value) -> Result<Outcome, Error> {
        let undone = intent.undone();
        self.output.say(&undone.map_or_else(
            || "No changes.".to_owned(),
            |(target, _)| format!("Already at revision #{}.", target.rev),
        ));
        self.save(wanted)?;
        if !self.output.is_text() {
            self.output.object(&served(live))?;
        }
        Ok(match self.dry_run {
            DryRun::None => Outcome::Unchanged(live.clone()),
            DryRun::Client | DryRun::Server => Outcome::DryRun,
        })
    }

    /// Shows a plan and asks. Stdin that was a file has no answers left.
    async fn confirm(&self, intent: &Intent, plan: &Plan) -> Result<(), Error> {
        let undone = intent.undone();
        let title = undone.map(|(target, number)| format!("#{} -> #{number}", target.rev));
        for line in title.into_iter().chain(plan.lines()) {
            self.output.say(&escape(&line));
        }
        if self.dry_run != DryRun::None {
            return Ok(());
        }
        let question = plan.question(intent, &self.output.line);
        if self.stdin_used && !self.yes && question.default == Answer::No {
            let what = "deploy -f - needs confirmation and stdin is the file";
            return Err(Error::new(Kind::NotConfirmed, what).next(format!("{} --yes", question.line)));
        }
        question.confirm(self.yes || self.stdin_used).await
    }

    /// Writes the manifest to the file that the user asked for.
    fn save(&self, wanted: &Value) -> Result<(), Error> {
        self.save.map_or(Ok(()), |path| manifest::save(wanted, path))
    }

    /// Writes and records. Ctrl-C waits for the end of that.
    async fn write(
        &self,
        intent: &Intent,
        live: Option<&Object>,
        wanted: &Value,
        verb: &str,
    ) -> Result<Outcome, Error> {
        let _write = self.output.writes.begin();
        let object = self.plane.store(wanted, live.is_some(), false).await?;
        let (from, revision) = self.record(intent, live, &object).await;
        let rev = revision.map(|rev| format!(" (rev #{rev})")).unwrap_or_default();
        print(self.output, &object, &format!("{verb}{rev}"))?;
        Ok(Outcome::Written {
            object,
            from,
            revision,
        })
    }

    /// Records the change. It stands even if that fails.
    async fn record(
        &self,
        intent: &Intent,
        before: Option<&Object>,
        after: &Object,
    ) -> (Option<u64>, Option<u64>) {
        let entry = Entry {
            verb: intent.verb(),
            from: intent.undone().map(|(target, _)| target.rev),
            reason: self.reason,
            before,
            after,
        };
        match history::record(self.plane, &entry).await {
            Ok((from, number)) => (from, Some(number)),
            Err(error) => {
                let cause = error.cause.map(|cause| format!(": {cause}"));
                let cause = cause.unwrap_or_default();
                let what = error.what;
                warn(&format!(
                    "the revision history cannot be written: {what}{cause}; the change stands"
                ));
                (None, None)
            }
        }
    }
}

/// UID and generation, which identify a spec: a Workload that was made anew counts its generations anew.
fn version(object: Option<&Object>) -> Option<(&str, i64)> {
    object.map(|object| (object.uid(), object.generation()))
}

/// Prints the object that was written, or a line about it.
pub(crate) fn print(output: &Output, object: &Object, done: &str) -> Result<(), Error> {
    if output.is_text() {
        let name = escape(object.name());
        write(&format!("workload.{}/{name} {done}\n", fedgate_api::GROUP))
    } else {
        output.object(&served(object))
    }
}
