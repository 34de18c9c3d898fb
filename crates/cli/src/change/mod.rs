//! A change of a Workload: what is wanted, shown, confirmed, written and recorded (contract: cli.md §3, §6).

mod fields;
mod intent;

pub(crate) use intent::{CONTAINERS, Intent, check_minimum};

use crate::{
    args::{ChangeArgs, DryRun},
    diff::{self, Change},
    effects::{Effect, Known, effects},
    error::{Error, Kind},
    history::{self, Entry},
    manifest,
    output::{Output, served, table::escape, warn, write},
    plane::{Plane, Resource},
    prompt::{Answer, Question, is_terminal},
    retry,
    rollout::{Target, changed_meanwhile, header, wait},
    view::{Joined, Object},
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
    /// Whether something is written, and waited for.
    pub(crate) args: &'a ChangeArgs,
    /// True if the file was read from stdin, so that nobody can answer there.
    pub(crate) stdin_used: bool,
    /// File for the manifest that is sent.
    pub(crate) save: Option<&'a Path>,
}

/// The rollout that a change leads to.
#[derive(Debug)]
struct Rollout {
    /// The Workload as it is wanted.
    object: Object,
    /// The line that begins it; `None` if nothing was written.
    header: Option<String>,
}

impl<'a> Session<'a> {
    /// The surroundings of a command with these flags, and without a file.
    pub(crate) fn new(plane: &'a Plane, output: &'a Output, args: &'a ChangeArgs, yes: bool) -> Self {
        Self {
            plane,
            output,
            yes,
            args,
            stdin_used: false,
            save: None,
        }
    }

    /// Changes the Workload of this name, and waits for the rollout unless nobody wants to. `live` is the object that the wish
    /// was made for; `None` if it does not exist.
    pub(crate) async fn run(&self, name: &str, live: Option<Object>, intent: Intent) -> Result<(), Error> {
        let Some(Rollout { object, header }) = self.change(name, live, intent).await? else {
            return Ok(());
        };
        if !self.args.wait {
            let hint = format!("To follow it: kubectl compute rollout status {name}");
            self.output.remark(&hint);
            return Ok(());
        }
        self.output.remark(&header.unwrap_or_default());
        let target = Target {
            name: name.to_owned(),
            uid: object.uid().to_owned(),
            generation: Some(object.generation()),
            timeout: self.args.timeout,
            stall_timeout: self.args.stall_timeout,
        };
        wait(self.plane, self.output, &target, false).await
    }

    /// Changes the Workload; `None` if there is no rollout to wait for.
    async fn change(
        &self,
        name: &str,
        mut live: Option<Object>,
        mut intent: Intent,
    ) -> Result<Option<Rollout>, Error> {
        let mut confirmed = None;
        let mut delays = retry::conflicts().build();
        loop {
            match self.attempt(&intent, live.as_ref(), &mut confirmed).await {
                Err(error) if error.kind == Kind::Conflict => {
                    tokio::time::sleep(delays.next().ok_or(error)?).await;
                }
                result => return result,
            }
            let again = if intent.creates() {
                self.plane.find(Resource::Workloads, name).await?
            } else {
                Some(self.plane.workload(name).await?)
            };
            // Else a spec that another user wrote may be taken for the one that the user saw.
            let is_bound = !intent.is_relative() && self.args.dry_run == DryRun::None;
            if is_bound && version(again.as_ref()) != version(live.as_ref()) {
                if self.yes || self.stdin_used || !is_terminal() {
                    let deleted =
                        || Error::new(Kind::Conflict, format!("workload {name:?} was deleted meanwhile"));
                    return Err(match again {
                        Some(live) => changed_meanwhile(self.plane, &live).await,
                        None => deleted().next("kubectl compute workloads"),
                    });
                }
                let notice = format!("workload {name:?} changed meanwhile; the new plan:");
                self.output.say(&notice);
                if let (Intent::Undo { number, .. }, Some(live)) = (&mut intent, &again) {
                    *number = history::known(self.plane, live).await.next_number(live);
                }
                confirmed = None;
            }
            live = again;
        }
    }

    /// Plans, confirms and writes once. Changes that were confirmed are not shown again.
    async fn attempt(
        &self,
        intent: &Intent,
        live: Option<&Object>,
        confirmed: &mut Option<Vec<Change>>,
    ) -> Result<Option<Rollout>, Error> {
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
        if self.args.dry_run == DryRun::None {
            return self.write(intent, live, &wanted, verb).await.map(Some);
        }
        print(
            self.output,
            &stored,
            &format!("{verb}{}", self.args.dry_run.note()),
        )?;
        Ok(None)
    }

    /// The Workload as the server would store it.
    async fn preview(&self, wanted: &Value, exists: bool) -> Result<Object, Error> {
        match self.args.dry_run {
            DryRun::Client => Ok(Object(wanted.clone())),
            DryRun::None | DryRun::Server => self.plane.store(wanted, exists, true).await,
        }
    }

    fn unchanged(&self, intent: &Intent, live: &Object, wanted: &Value) -> Result<Option<Rollout>, Error> {
        let undone = intent.undone();
        self.output.say(&undone.map_or_else(
            || "No changes.".to_owned(),
            |(target, _)| format!("Already at revision #{}.", target.rev),
        ));
        self.save(wanted)?;
        if !self.output.is_text() {
            self.output.object(&served(live))?;
        }
        let is_waited_for = undone.is_none() && self.args.dry_run == DryRun::None;
        Ok(is_waited_for.then(|| Rollout {
            object: live.clone(),
            header: None,
        }))
    }

    /// Shows a plan and asks. Stdin that was a file has no answers left.
    async fn confirm(&self, intent: &Intent, plan: &Plan) -> Result<(), Error> {
        let undone = intent.undone();
        let title = undone.map(|(target, number)| format!("#{} -> #{number}", target.rev));
        for line in title.into_iter().chain(plan.lines()) {
            self.output.say(&escape(&line));
        }
        if self.args.dry_run != DryRun::None {
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
    ) -> Result<Rollout, Error> {
        let _write = self.output.writes.begin();
        let object = self.plane.store(wanted, live.is_some(), false).await?;
        let (from, revision) = self.record(intent, live, &object).await;
        let rev = revision.map(|rev| format!(" (rev #{rev})")).unwrap_or_default();
        print(self.output, &object, &format!("{verb}{rev}"))?;
        Ok(Rollout {
            header: Some(header(object.name(), from, revision)),
            object,
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
            reason: &self.args.reason,
            before,
            after,
        };
        match history::record(self.plane, &entry).await {
            Ok((from, number)) => (from, Some(number)),
            Err(error) => {
                let why = error.message();
                warn(&format!(
                    "the revision history cannot be written: {why}; the change stands"
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

/// A plan.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// The changed fields.
    pub(crate) changes: Vec<Change>,
    /// The effects on Instances.
    pub(crate) effects: Vec<Effect>,
}

impl Plan {
    /// The plan to make `stored` of the live Workload; `live` is `None` if it does not exist.
    pub(crate) async fn new(
        plane: &Plane,
        live: Option<&Object>,
        stored: &Object,
        changes: Vec<Change>,
    ) -> Result<Self, Error> {
        let mut joined = match live {
            Some(live) => Some(Joined::of(live.clone(), plane.list(Resource::Deployments).await?)),
            None => None,
        };
        let spec = &stored.0["spec"];
        let known = Known::read(plane, joined.as_mut(), spec).await;
        Ok(Self {
            changes,
            effects: effects(joined.as_ref(), spec, stored.allows_gap(), &known),
        })
    }

    /// The lines that show it.
    pub(crate) fn lines(&self) -> Vec<String> {
        let changes = self.changes.iter().map(ToString::to_string);
        let effects = self.effects.iter().map(|effect| effect.text.clone());
        changes.chain(effects).collect()
    }

    /// The question before it is carried out.
    fn question(&self, intent: &Intent, line: &str) -> Question {
        let lost = |is_certain: bool| {
            let losses = self.effects.iter().filter_map(|effect| effect.loss.as_ref());
            let losses = losses.filter(|(_, certain)| *certain == is_certain);
            losses.map(|(city, _)| &**city).collect::<Vec<_>>().join(", ")
        };
        let parts = [("removes", lost(true)), ("may remove", lost(false))];
        let parts = parts.iter().filter(|(_, cities)| !cities.is_empty());
        let parts: Vec<String> = parts.map(|(verb, cities)| format!("{verb} {cities}")).collect();
        let (asks, text, default) = match intent.undone() {
            Some((target, number)) => {
                let text = format!("Apply revision #{} as #{number}?", target.rev);
                ("rollout undo", text, Answer::No)
            }
            None if parts.is_empty() => ("deploy", "Apply?".to_owned(), Answer::Yes),
            None => (
                "deploy",
                format!("This {}. Continue?", parts.join(" and ")),
                Answer::No,
            ),
        };
        Question {
            text,
            default,
            asks,
            line: line.to_owned(),
        }
    }
}
