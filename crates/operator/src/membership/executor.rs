//! The only writer of the commands: says each change before it is sent, and counts it.

use super::{
    change::{CellMark, Maker, Verb, apply, is_going, may_delete, title},
    plane::Plane,
    wait,
};
use fedgate_engine::plane::lease::LeaseHandle;
use fedgate_terminal::{
    error::{Error, Kind},
    write::say,
};
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
    /// The maker of the objects.
    pub maker: Maker,
    /// The Lease without which nothing is sent.
    pub lease: LeaseHandle,
}

impl Executor {
    /// An executor that has sent nothing.
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            changes: 0,
            patience: PATIENCE,
            maker: Maker::Command,
            lease: LeaseHandle::always(),
        }
    }

    /// The mark of the objects that are made for a cell.
    pub fn mark<'a>(&self, cell_uid: &'a str) -> CellMark<'a> {
        let maker = self.maker;
        CellMark { cell_uid, maker }
    }

    /// True if changes are sent.
    pub fn writes(&self) -> bool {
        self.mode == Mode::Write
    }

    /// Fails unless the Lease permits a write.
    pub fn may_write(&self, what: &str) -> Result<(), Error> {
        if self.lease.may_write() {
            return Ok(());
        }
        Err(Error::timed_out(format!("cannot {what}"))
            .because("this replica does not hold the Lease, or the process ends"))
    }

    /// Sends a write, and abandons it when the Lease ends: the next holder may not meet a late one.
    async fn send(&self, plane: &Plane, verb: Verb, object: &Value, what: &str) -> Result<Value, Error> {
        let mut in_flight = InFlightWrite::new(&self.lease);
        let answer = tokio::select! {
            biased;
            () = self.lease.permit_expired() => {
                Err(Error::timed_out(format!("cannot {what}")).because("the Lease has ended before the answer came"))
            }
            answer = plane.write(verb, object) => answer,
        };
        in_flight.is_answered = !answer
            .as_ref()
            .is_err_and(|e| matches!(e.kind, Kind::TimedOut | Kind::Failed));
        answer
    }

    /// Makes an object what is wanted; the object as the server has it then, or as it would be. One whose deletion has begun
    /// would take with it what is made in it, so it has to go first.
    pub async fn ensure(&mut self, plane: &Plane, wanted: Value, mark: Option<&str>) -> Result<Value, Error> {
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
        let mark = mark.map(|cell_uid| self.mark(cell_uid));
        match apply(wanted, live.as_ref(), mark) {
            Some((verb, object)) => self.run(plane, verb, object).await,
            None => Ok(live.unwrap_or_default()),
        }
    }

    /// [`Executor::ensure`] of several objects, in their order.
    pub async fn ensure_all(
        &mut self,
        plane: &Plane,
        wanted: Vec<Value>,
        mark: Option<&str>,
    ) -> Result<(), Error> {
        for object in wanted {
            self.ensure(plane, object, mark).await?;
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
                self.may_write(&what)?;
                say(&what);
                return self.send(plane, verb, &object, &what).await;
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

/// A write in flight. If it is dropped without an answer, e.g. because its task is cancelled, the Lease is not released before the
/// server can no longer execute it.
#[derive(Debug)]
pub struct InFlightWrite<'a> {
    lease: &'a LeaseHandle,
    /// True if no part of the write can be executed any more.
    pub is_answered: bool,
}

impl<'a> InFlightWrite<'a> {
    /// A write that is about to be sent under this Lease.
    pub fn new(lease: &'a LeaseHandle) -> Self {
        Self {
            lease,
            is_answered: false,
        }
    }
}

impl Drop for InFlightWrite<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.lease.unanswered();
        }
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
