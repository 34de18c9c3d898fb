//! The only writer of the commands: says each change before it is sent, and counts it.

use super::{
    change::{Verb, apply, is_going, may_delete, title},
    plane::Plane,
    wait,
};
use fedgate_terminal::{error::Error, write::say};
use serde_json::Value;
use std::time::Duration;

/// How long an object may take to go that is in the way of a new one, unless a command says otherwise.
const PATIENCE: Duration = Duration::from_mins(5);

/// Handling of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Changes are sent.
    Write,
    /// Changes are shown, up to the first conflict that the server would answer.
    DryRun,
    /// The wanted objects are printed as YAML, without credentials.
    Print,
}

/// Sends changes, or shows them.
#[derive(Debug)]
pub struct Executor {
    /// The handling of changes.
    pub mode: Mode,
    /// The number of changes so far.
    pub changes: usize,
    /// How long an object may take to go that is in the way of a new one.
    pub patience: Duration,
}

impl Executor {
    /// An executor that has sent nothing.
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            changes: 0,
            patience: PATIENCE,
        }
    }

    /// True if changes are sent.
    pub fn writes(&self) -> bool {
        self.mode == Mode::Write
    }

    /// Makes an object what is wanted; the object as the server has it then, or as it would be. One whose deletion has begun
    /// would take with it what is made in it, so it has to go first.
    pub async fn ensure(
        &mut self,
        plane: &Plane,
        wanted: Value,
        owner: Option<&str>,
    ) -> Result<Value, Error> {
        let live = match self.mode {
            Mode::Print => None,
            Mode::Write | Mode::DryRun => plane.live(&wanted).await?,
        };
        let live = match live {
            Some(live) if is_going(&live) => {
                if self.writes() {
                    wait::gone(plane, &live, self.patience).await?;
                }
                None
            }
            live => live,
        };
        match apply(wanted, live.as_ref(), owner) {
            Some((verb, object)) => self.run(plane, verb, object).await,
            None => Ok(live.unwrap_or_default()),
        }
    }

    /// [`Executor::ensure`] of several objects, in their order.
    pub async fn ensure_all(
        &mut self,
        plane: &Plane,
        wanted: Vec<Value>,
        owner: Option<&str>,
    ) -> Result<(), Error> {
        for object in wanted {
            self.ensure(plane, object, owner).await?;
        }
        Ok(())
    }

    /// Deletes those of the objects that are there and bear the mark, the last first.
    pub async fn take_away(&mut self, plane: &Plane, objects: Vec<Value>, mark: &str) -> Result<(), Error> {
        for object in objects.into_iter().rev() {
            let live = plane.live(&object).await?;
            self.delete_own(plane, live, mark).await?;
        }
        Ok(())
    }

    /// Deletes those of the objects that were seen which bear the mark.
    pub async fn delete_own(
        &mut self,
        plane: &Plane,
        seen: impl IntoIterator<Item = Value>,
        mark: &str,
    ) -> Result<(), Error> {
        for object in seen.into_iter().filter(|object| may_delete(object, mark)) {
            self.run(plane, Verb::Delete, object).await?;
        }
        Ok(())
    }

    /// Says the end of a command: `done` after changes, `idle` without any.
    pub fn conclude(&self, done: &str, idle: &str) {
        match (self.mode, self.changes) {
            (Mode::Print, _) => {}
            (Mode::DryRun, changes) => say(&format!("{changes} changes would be made")),
            (Mode::Write, 0) => say(&format!("{idle}; nothing to change")),
            (Mode::Write, changes) => say(&format!("{done}; {changes} changes were made")),
        }
    }

    /// Sends a change: the body is the object, the patch, or for a delete the object as it was seen. Returns the object as the
    /// server has it then, or as it would be.
    pub async fn run(&mut self, plane: &Plane, verb: Verb, object: Value) -> Result<Value, Error> {
        self.changes += 1;
        let what = format!("{}: {}", plane.title, verb.of(&object));
        match self.mode {
            Mode::Write => {
                say(&what);
                return plane.write(verb, &object).await;
            }
            Mode::DryRun => {
                say(&format!("{what} (dry run)"));
                plane.rehearse(verb, &object).await?;
            }
            Mode::Print => print_object(plane, verb, &object)?,
        }
        Ok(object)
    }
}

/// Prints the object of a change as a document; of a Secret only the identity, because its data is a credential.
fn print_object(plane: &Plane, verb: Verb, object: &Value) -> Result<(), Error> {
    if verb == Verb::Delete {
        return Ok(());
    }
    let mut object = object.clone();
    println!("---\n# {}", plane.title);
    let fields = object.as_object_mut().filter(|fields| fields["kind"] == "Secret");
    if fields.is_some_and(|fields| fields.remove("data").is_some()) {
        let title = title(&object);
        println!("# {title}: its data is a credential, and is not printed");
    }
    print!("{}", super::yaml(&object)?);
    Ok(())
}
