//! Membership of cells and projects: the work that an administrator would do by hand, as commands and, later, as a role
//! (contract: provisioning.md §5 to §8).
//!
//! [`change`], [`cluster`], [`registration`], [`agent`] and [`usage`] decide, as functions of values. [`plane`] and
//! [`wait`] read, [`executor`] is the only writer. `join`, `drain`, `leave` and the others are the commands: each proves
//! what is there, and writes only what differs, so that a second run goes on where the first ended.

pub mod agent;
pub mod args;
pub mod change;
pub mod cluster;
pub mod credential;
mod drain;
pub mod error;
pub mod executor;
mod file;
mod issue;
mod join;
pub mod kubeconfig;
mod leave;
mod list;
pub mod plane;
mod project;
mod projects;
pub mod registration;
pub mod token;
pub mod usage;
pub mod wait;

use args::{CellArgs, CellsCommand, HubArgs, ProjectsCommand};
use error::{Error, Kind};
use fedgate_kinds::FederatedKind;
use plane::Plane;
use std::{fmt, path::Path, process::ExitCode};

/// Runs `fedgate cells` and prints its error.
pub async fn cells(command: &CellsCommand) -> ExitCode {
    exit(match command {
        CellsCommand::Join(args) => join::run(args).await,
        CellsCommand::List(args) => list::run(args).await,
        CellsCommand::Drain(args) => drain::run(args).await,
        CellsCommand::Uncordon(args) => drain::uncordon(args).await,
        CellsCommand::Leave(args) => leave::run(args).await,
        CellsCommand::Credential(args) => issue::run(args).await,
    })
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

fn exit(result: Result<(), Error>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.kind.exit())
        }
    }
}

/// An error of this program's own data.
fn internal(error: impl fmt::Display) -> Error {
    Error::new(Kind::Failed, "the manifests cannot be made").because(error.to_string())
}

fn load_kinds(dir: Option<&Path>) -> Result<Vec<FederatedKind>, Error> {
    FederatedKind::load(dir).map_err(|error| Error::new(Kind::Usage, format!("--interpreters: {error}")))
}

async fn open_hub(args: &HubArgs) -> Result<Plane, Error> {
    Plane::open(
        "hub".to_owned(),
        &args.hub_kubeconfig,
        args.hub_context.as_deref(),
    )
    .await
}

async fn open_cell(args: &CellArgs) -> Result<Option<Plane>, Error> {
    let Some(path) = &args.cell.cell_kubeconfig else {
        return Ok(None);
    };
    let title = format!("cell {}", args.name);
    Plane::open(title, path, args.cell.cell_context.as_deref())
        .await
        .map(Some)
}
