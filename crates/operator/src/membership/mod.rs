//! Membership of cells and projects: the work that an administrator would do by hand, as commands and, for Cells, by the role
//! `fedgate provisioner` (contract: provisioning.md §5 to §10).
//!
//! [`change`], [`cluster`], [`mode`], [`registration`], [`pull`], [`certificate`], [`agent`] and [`usage`] decide, as functions
//! of values. [`plane`] and [`wait`] read, [`executor`] is the only writer. `join`, `drain` and `leave` are lists of steps: each proves
//! what is there, and writes only what differs, so that a second run goes on where the first ended. `objects/` has the objects of
//! Karmada's account and of its agent.

pub mod agent;
mod agent_hub;
pub mod args;
pub mod certificate;
pub mod change;
pub mod cluster;
pub mod credential;
pub mod drain;
mod enrol;
pub mod error;
pub mod executor;
mod file;
mod issue;
pub mod join;
pub mod kubeconfig;
pub mod leave;
mod list;
pub mod mode;
mod moves;
pub mod plane;
mod project;
mod projects;
pub mod pull;
pub mod registration;
mod rotation;
pub mod token;
mod unenrol;
pub mod usage;
pub mod wait;

use crate::args::KindsArgs;
use args::{CellArgs, CellsCommand, HubArgs, ProjectsCommand};
use fedgate_kinds::Kinds;
use fedgate_terminal::{
    error::{Error, Kind},
    write::{complain, say},
};
use plane::Plane;
use serde_json::{Value, json};
use std::{fmt, process::ExitCode};

/// Runs `fedgate cells` and prints its error.
pub async fn cells(command: &CellsCommand) -> ExitCode {
    exit(
        from_present_state(async || match command {
            CellsCommand::Join(args) => join::run(args).await,
            CellsCommand::List(args) => list::run(args).await,
            CellsCommand::Drain(args) => drain::run(args).await,
            CellsCommand::Uncordon(args) => drain::uncordon(args).await,
            CellsCommand::Move(args) => moves::run(args).await,
            CellsCommand::Balance(args) => moves::balance(args).await,
            CellsCommand::Leave(args) => leave::run(args).await,
            CellsCommand::Credential(args) => issue::run(args).await,
        })
        .await,
    )
}

/// Runs `fedgate projects` and prints its error.
pub async fn projects(command: &ProjectsCommand) -> ExitCode {
    exit(match command {
        ProjectsCommand::Add(args) => projects::add(args, false).await,
        ProjectsCommand::Rotate(args) => projects::add(args, true).await,
        ProjectsCommand::List(args) => projects::list(args).await,
        ProjectsCommand::Remove(args) => projects::remove(args).await,
    })
}

/// How often a command decides again because an object has changed since it was read.
const DECISIONS: usize = 10;

/// Runs a command that goes on from the present state, and again if a Cluster has changed since the command read it: Karmada
/// writes the taints of a Cluster too. The patch that was refused has changed nothing.
async fn from_present_state(run: impl AsyncFn() -> Result<(), Error>) -> Result<(), Error> {
    let mut result = run().await;
    for _ in 1..DECISIONS {
        if !matches!(&result, Err(error) if error.kind == Kind::Stale) {
            return result;
        }
        say("an object has changed meanwhile; the command goes on from its present state");
        result = run().await;
    }
    result
}

fn exit(result: Result<(), Error>) -> ExitCode {
    result.map_or_else(
        |error| {
            complain(&error.to_string());
            error.exit()
        },
        |()| ExitCode::SUCCESS,
    )
}

/// An error of this program's own data.
fn internal(error: impl fmt::Display) -> Error {
    Error::failed("the manifests cannot be made").because(error.to_string())
}

/// A value as a YAML document.
fn yaml(value: &Value) -> Result<String, Error> {
    serde_saphyr::to_string(value)
        .map_err(|error| Error::failed("cannot print YAML").because(error.to_string()))
}

/// Objects to install, without definitions if another tool installs those.
fn without_crds(mut objects: Vec<Value>, skip_crds: bool) -> Vec<Value> {
    objects.retain(|object| !skip_crds || object["kind"] != "CustomResourceDefinition");
    objects
}

fn load_kinds(args: &KindsArgs) -> Result<Kinds, Error> {
    let kinds = Kinds::load(&args.builtin_kinds, args.interpreters.as_deref());
    kinds.map_err(|error| Error::usage(format!("{}: {error}", error.flag())))
}

/// Fails if the hub has a Cell of this name, because the provisioner would undo the changes of a command.
async fn refuse_cell(hub: &Plane, name: &str) -> Result<(), Error> {
    let kind = plane::kind("fedgate.dev/v1alpha1", "Cell");
    let cell = json!({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}});
    let live = match hub.live(&cell).await {
        // A hub without the kind may answer either, and has no Cells.
        Err(error)
            if matches!(error.kind, Kind::NotFound | Kind::Forbidden) && !hub.serves(&kind).await? =>
        {
            None
        }
        live => live?,
    };
    if live.is_none_or(|cell| change::is_going(&cell)) {
        return Ok(());
    }
    let what = format!("cell {name} is managed by Cell {name} of the hub");
    Err(Error::refused(what).next(format!(
        "kubectl edit cells.fedgate.dev {name}, or delete it, with the kubeconfig of the hub"
    )))
}

async fn open_hub(args: &HubArgs) -> Result<Plane, Error> {
    Plane::open("hub", &args.hub_kubeconfig, args.hub_context.as_deref()).await
}

async fn open_cell(args: &CellArgs) -> Result<Option<Plane>, Error> {
    let Some(path) = &args.cell_kubeconfig else {
        return Ok(None);
    };
    let (title, context) = (format!("cell {}", args.name), args.cell_context.as_deref());
    Plane::open(&title, path, context).await.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    async fn tried(results: &[Option<Kind>]) -> (usize, Result<(), Kind>) {
        let tries = Cell::new(0);
        let result = from_present_state(async || {
            let result = results[tries.get().min(results.len() - 1)];
            tries.set(tries.get() + 1);
            result.map_or(Ok(()), |kind| Err(Error::new(kind, "no")))
        })
        .await;
        (tries.get(), result.map_err(|error| error.kind))
    }

    #[tokio::test]
    async fn a_command_decides_again_from_the_present_state_and_not_after_another_error() {
        let stale = Some(Kind::Stale);
        assert_eq!(tried(&[stale, stale, None]).await, (3, Ok(())));
        assert_eq!(tried(&[Some(Kind::Conflict)]).await, (1, Err(Kind::Conflict)));
        assert_eq!(
            tried(&[stale, Some(Kind::Refused)]).await,
            (2, Err(Kind::Refused))
        );
        assert_eq!(tried(&[stale]).await, (DECISIONS, Err(Kind::Stale)));
    }
}
