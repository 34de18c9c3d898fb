//! A change of a Workload: what is wanted, shown, confirmed, written and recorded (contract: cli.md §3, §6).

mod flags;
mod intent;

pub(crate) use flags::{Edit, Flags, Port, pair, port, source};
pub(crate) use intent::Intent;

use crate::{
    args::DryRun,
    diff,
    effects::{Effect, effects},
    error::{Error, Kind},
    history::{self, Entry, History},
    manifest,
    output::{Format, Output, table::escape, write},
    plane::{Plane, Resource},
    prompt::{Answer, Question},
    view::{Object, join},
};
use backon::{BackoffBuilder, ExponentialBuilder};
use std::time::Duration;

/// Attempts to write while others change the status.
const ATTEMPTS: usize = 5;

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
    pub(crate) save: Option<&'a std::path::Path>,
}

/// The result of a change.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The Workload is as wanted already.
    Unchanged(Object),
    /// It was written; the revisions before and after are known if they could be recorded.
    Written {
        object: Object,
        from: Option<u64>,
        revision: Option<u64>,
    },
    /// Nothing was to be written.
    DryRun,
}

/// A change as it was shown to the user.
#[derive(Debug, Clone, PartialEq)]
struct Plan {
    changes: Vec<diff::Change>,
    effects: Vec<Effect>,
}

impl Session<'_> {
    /// Changes the Workload of this name.
    pub(crate) async fn change(&self, name: &str, intent: &Intent) -> Result<Outcome, Error> {
        let mut live = self.read(name, intent).await?;
        let mut shown: Option<Plan> = None;
        let mut delays = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(50))
            .with_jitter()
            .with_max_times(ATTEMPTS)
            .build();
        loop {
            let wanted = intent.wanted(live.as_ref(), self.plane.clock.now())?;
            match self.attempt(intent, live.as_ref(), &wanted, &mut shown).await {
                Err(error) if error.kind == Kind::Conflict => {
                    let delay = delays.next().ok_or_else(|| error.clone())?;
                    tokio::time::sleep(delay).await;
                    let again = self.read(name, intent).await?;
                    let generation = |object: &Option<Object>| object.as_ref().map(Object::generation);
                    if generation(&again) != generation(&live) && !intent.is_relative() {
                        if self.yes || self.stdin_used || !crate::prompt::is_terminal() {
                            return Err(self.changed_meanwhile(name, again.as_ref()).await);
                        }
                        self.output
                            .remark(&format!("workload {name:?} changed meanwhile; the new plan:"));
                        shown = None;
                    }
                    live = again;
                }
                result => return result,
            }
        }
    }

    async fn read(&self, name: &str, intent: &Intent) -> Result<Option<Object>, Error> {
        if intent.creates() {
            self.plane.find(Resource::Workloads, name).await
        } else {
            self.plane.workload(name).await.map(Some)
        }
    }

    /// Shows, confirms and writes once. A plan that was confirmed is not shown again.
    async fn attempt(
        &self,
        intent: &Intent,
        live: Option<&Object>,
        wanted: &serde_json::Value,
        shown: &mut Option<Plan>,
    ) -> Result<Outcome, Error> {
        let stored = match self.dry_run {
            DryRun::Client => Object(wanted.clone()),
            DryRun::None | DryRun::Server => self.plane.store(wanted, live.is_some(), true).await?,
        };
        let changes = diff::changes(live.map(|live| &live.0), &stored.0);
        if let (Some(live), true) = (live, changes.is_empty()) {
            self.output.remark(&intent.unchanged());
            return Ok(Outcome::Unchanged(live.clone()));
        }
        if shown.as_ref().is_none_or(|shown| shown.changes != changes) {
            let joined = match live {
                Some(live) => join(vec![live.clone()], self.plane.list(Resource::Deployments).await?).pop(),
                None => None,
            };
            let plan = Plan {
                effects: effects(joined.as_ref(), &stored.0["spec"]),
                changes,
            };
            self.show(intent, &plan);
            if self.dry_run == DryRun::None
                && let Some(question) = question(intent, &plan, &self.output.line)
            {
                self.confirm(&question).await?;
            }
            *shown = Some(plan);
        }
        let verb = if live.is_some() { "configured" } else { "created" };
        if self.dry_run != DryRun::None {
            let how = if self.dry_run == DryRun::Server {
                "server dry run"
            } else {
                "dry run"
            };
            self.print(&stored, &format!("{verb} ({how})"))?;
            return Ok(Outcome::DryRun);
        }
        if let Some(path) = self.save {
            manifest::save(wanted, path)?;
        }
        let written = self.plane.store(wanted, live.is_some(), false).await?;
        let (from, revision) = self.record(intent, live, &written).await;
        let rev = revision.map(|rev| format!(" (rev #{rev})")).unwrap_or_default();
        self.print(&written, &format!("{verb}{rev}"))?;
        Ok(Outcome::Written {
            object: written,
            from,
            revision,
        })
    }

    /// Asks. Stdin that was a file has no answers left.
    async fn confirm(&self, question: &Question) -> Result<(), Error> {
        if self.stdin_used && !self.yes && question.default == Answer::No {
            let what = "deploy -f - needs confirmation and stdin is the file";
            return Err(Error::new(Kind::NotConfirmed, what).next(format!("{} --yes", question.line)));
        }
        question.confirm(self.yes || self.stdin_used).await
    }

    fn show(&self, intent: &Intent, plan: &Plan) {
        if !intent.shows_plan() {
            return;
        }
        if let Some(title) = intent.title() {
            self.output.remark(&title);
        }
        let changes = plan.changes.iter().map(|change| escape(&change.to_string()));
        for line in changes.chain(plan.effects.iter().map(ToString::to_string)) {
            self.output.remark(&line);
        }
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
            from: intent.from(),
            reason: self.reason,
            before,
            after,
        };
        match history::record(self.plane, &entry).await {
            Ok((from, number)) => (from, Some(number)),
            Err(error) => {
                let cause = error.cause.unwrap_or_default();
                crate::output::warn(&format!("{}: {cause}; the change stands", error.what));
                (None, None)
            }
        }
    }

    async fn changed_meanwhile(&self, name: &str, live: Option<&Object>) -> Error {
        let by = match live {
            Some(live) => history::find(self.plane, live).await.ok().flatten(),
            None => None,
        };
        let newest = by.map(|map| History::read(&map)).and_then(|history| {
            let active = history.active()?;
            Some(format!(" (rev #{} by {})", active.rev, active.actor.name))
        });
        let what = format!(
            "workload {name:?} changed meanwhile{}",
            newest.unwrap_or_default()
        );
        Error::new(Kind::Conflict, what).next(format!("kubectl compute rollout history {name}"))
    }

    /// Prints the object that was written, or a line about it.
    fn print(&self, object: &Object, done: &str) -> Result<(), Error> {
        match self.output.format {
            Format::Table | Format::Wide => write(&format!(
                "workload.{}/{} {done}\n",
                fedgate_api::GROUP,
                escape(object.name())
            )),
            Format::Json | Format::Yaml | Format::Name | Format::Jsonpath(_) => {
                self.output.object(&crate::output::served(object))
            }
        }
    }
}

/// The question before a change, if it has one.
fn question(intent: &Intent, plan: &Plan, line: &str) -> Option<Question> {
    let removed: Vec<String> = plan
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Removes { city, instances } => Some(format!(
                "{city} and its {}",
                crate::effects::instances(*instances)
            )),
            Effect::Replaces(_) | Effect::Adds { .. } | Effect::Scales { .. } => None,
        })
        .collect();
    let (text, default) = match intent {
        Intent::Scale { .. } | Intent::Restart => return None,
        Intent::Undo { target, newest, .. } => (
            format!("Apply revision #{} as #{}?", target.rev, newest + 1),
            Answer::No,
        ),
        Intent::File(_) | Intent::Flags(_) if removed.is_empty() => ("Apply?".to_owned(), Answer::Yes),
        Intent::File(_) | Intent::Flags(_) => (
            format!("This removes {}. Continue?", removed.join(", ")),
            Answer::No,
        ),
    };
    Some(Question {
        text,
        default,
        asks: intent.asks(),
        line: line.to_owned(),
    })
}
