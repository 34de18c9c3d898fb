//! The only writer of the commands: says each change before it is sent, and counts it.

use super::{
    change::{Change, Verb, apply, apply_unmarked, is_going, marked, title},
    error::{Error, Kind, plain},
    plane::Plane,
    wait,
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

/// The object's owner.
#[derive(Debug, Clone, Copy)]
pub enum Owner<'a> {
    /// The cell with this mark.
    Cell(&'a str),
    /// No single cell: a definition, a role or a policy of a whole plane.
    Shared,
}

/// Sends changes, or shows them.
#[derive(Debug)]
pub struct Executor {
    mode: Mode,
    changes: usize,
    patience: Duration,
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

    /// The same with this time for an object that has to go before a new one can be made.
    #[must_use]
    pub fn waiting(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The handling of changes.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// True if changes are sent.
    pub fn writes(&self) -> bool {
        self.mode == Mode::Write
    }

    /// The number of changes so far.
    pub fn changes(&self) -> usize {
        self.changes
    }

    /// Makes an object what is wanted; the object as the server has it then, or as it would be. One whose deletion has begun
    /// would take with it what is made in it, so it has to go first.
    pub async fn ensure(&mut self, plane: &Plane, wanted: Value, owner: Owner<'_>) -> Result<Value, Error> {
        if self.mode == Mode::Print {
            let wanted = match owner {
                Owner::Cell(uid) => marked(wanted, uid),
                Owner::Shared => wanted,
            };
            print_object(plane, &wanted)?;
            return Ok(wanted);
        }
        let live = self.lasting(plane, &wanted).await?;
        let change = match owner {
            Owner::Cell(uid) => apply(wanted, live.as_ref(), uid),
            Owner::Shared => apply_unmarked(wanted, live.as_ref()),
        };
        match (change, live) {
            (Some(change), _) => self.run(plane, &change).await,
            (None, live) => Ok(live.unwrap_or_default()),
        }
    }

    /// The live object with the identity of `wanted`, unless it goes; then this waits for its end.
    async fn lasting(&self, plane: &Plane, wanted: &Value) -> Result<Option<Value>, Error> {
        match plane.live(wanted).await? {
            Some(live) if is_going(&live) => {
                if self.writes() {
                    wait::gone(plane, &live, self.patience).await?;
                }
                Ok(None)
            }
            live => Ok(live),
        }
    }

    /// Sends a change; the object as the server has it then, or as it would be.
    pub async fn run(&mut self, plane: &Plane, change: &Change) -> Result<Value, Error> {
        self.changes += 1;
        match self.mode {
            Mode::Write => {
                say(&format!("{}: {change}", plane.title));
                plane.write(change).await
            }
            Mode::DryRun => {
                say(&format!("{}: {change} (dry run)", plane.title));
                plane.rehearse(change).await?;
                Ok(change.object.clone())
            }
            Mode::Print => {
                if change.verb != Verb::Delete {
                    print_object(plane, &change.object)?;
                }
                Ok(change.object.clone())
            }
        }
    }
}

/// A line about progress, on standard error.
pub fn say(line: &str) {
    eprintln!("{}", plain(line));
}

/// Prints an object as a document; of a Secret only the identity, because its data is a credential.
fn print_object(plane: &Plane, object: &Value) -> Result<(), Error> {
    let mut object = object.clone();
    println!("---\n# {}", plane.title);
    if object["kind"] == "Secret"
        && let Some(fields) = object.as_object_mut()
        && fields.remove("data").is_some()
    {
        println!(
            "# {}: its data is a credential, and is not printed",
            title(&object)
        );
    }
    let text = serde_saphyr::to_string(&object)
        .map_err(|error| Error::new(Kind::Failed, "cannot print YAML").because(error.to_string()))?;
    print!("{text}");
    Ok(())
}
