//! `fedgate kinds explain`: what becomes of an object of a federated kind, request by request, without a cluster.
//!
//! The gateway's own controllers decide and its own executor writes, to API servers that exist in this process alone
//! (`server`, `store`); Karmada and the members are played where all goes well (`karmada`). Nothing is rendered here: what
//! is shown is what the gateway sent.

mod example;
mod karmada;
mod planes;
mod returned;
mod server;
mod store;
mod text;
mod world;

pub use server::{Happening, Request};
pub use text::{text, yaml};

use fedgate_engine::random::Random;
use fedgate_gateway::settings::Settings;
use fedgate_kinds::{
    FederatedKind, Kinds, LoadError, folder_names,
    lua::{LuaError, Operation},
};
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// A part of an object's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Chapter {
    /// It is created.
    Create,
    /// A number of its spec is changed, or a boolean if it has none.
    Edit,
    /// It is suspended, and resumed.
    Suspend,
    /// It is deleted.
    Delete,
    /// All of these, in this order.
    All,
}

/// The object to explain, and the chapters.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folder of kinds, or of one kind.
    pub dir: PathBuf,
    /// File with the object.
    pub object: Option<PathBuf>,
    /// The chapters; none for create and delete.
    pub chapters: Vec<Chapter>,
}

/// The reason why nothing can be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The folder cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The folder of a kind cannot be found.
    #[error(
        "cannot read {0}: {1}; give a folder of kinds, or the folder <group>/<version>/<Kind> of one kind"
    )]
    Folder(String, io::Error),
    /// The folder has no kind whose objects a project has.
    #[error(
        "{0} holds no kind of objects that tenants own; give a folder <group>/<version>/<Kind> with a kind.yaml"
    )]
    NoKind(String),
    /// There is no object.
    #[error("there is no object of kind {kind} to explain: write one into {file}, or give --object FILE")]
    NoExample {
        /// The kind.
        kind: String,
        /// The file that would have one.
        file: String,
    },
    /// A file cannot be read.
    #[error("cannot read {file}: {error}")]
    File {
        /// The file.
        file: String,
        /// Why not.
        error: String,
    },
    /// The file has no object of the kind.
    #[error("{file} has no object of kind {kind} of {api_version}; give one as its first document")]
    Kind {
        /// The file.
        file: String,
        /// The kind.
        kind: String,
        /// Its group and version.
        api_version: String,
    },
    /// The file has an object of none of several kinds.
    #[error("{file} has no object of a kind in {dir}; there are {}", kinds.join(", "))]
    OtherKind {
        /// The file.
        file: String,
        /// The folder of kinds.
        dir: String,
        /// The kinds of the folder, each with its group and version.
        kinds: Vec<String>,
    },
    /// The object names no city.
    #[error(
        "the object names no city at {0} (placement.path of kind.yaml); give --object FILE with one that does"
    )]
    NoPlace(String),
    /// A script raises an error.
    #[error(
        "{place}: {operation} fails for this object: {error}; Karmada would return no status; correct the script, or the \
         status of the object"
    )]
    Script {
        /// The file of the script, and the line if the error has one.
        place: String,
        /// The operation of Karmada's interpreter.
        operation: &'static str,
        /// The error.
        error: LuaError,
    },
    /// A request was refused.
    #[error("the gateway cannot go on: {0}")]
    Failed(String),
    /// The runtime of the play does not start.
    #[error(transparent)]
    Runtime(#[from] io::Error),
}

impl ExplainError {
    fn of_script(kind: &FederatedKind, operation: Operation, error: LuaError, lacks: &str) -> Self {
        let file = example::folder(kind).join(operation.file());
        let line = error.line().map_or_else(String::new, |line| format!(":{line}"));
        Self::Script {
            place: format!("{}{line}{lacks}", file.display()),
            operation: operation.key(),
            error,
        }
    }
}

/// The course of an object's life.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The kind.
    pub kind: String,
    /// Its group and version.
    pub api_version: String,
    /// Namespace and name of the object in its project.
    pub object: String,
    /// True if it lives at one member of its city.
    pub at_one: bool,
    /// The members of its city.
    pub members: Vec<String>,
    /// Where the object is from, and what is not shown.
    pub notes: Vec<String>,
    /// The chapters, in their order.
    pub chapters: Vec<ChapterSteps>,
}

/// A chapter.
#[derive(Debug, Clone)]
pub struct ChapterSteps {
    /// The act of the tenant.
    pub title: String,
    /// The consequences, each with the time since then.
    pub happened: Vec<(Duration, Happening)>,
    /// The conditions of the object at the end: type, status, reason, message.
    pub conditions: Vec<[String; 4]>,
}

/// Explains an object of each kind of a folder.
pub fn explain(options: &Options, settings: &Settings) -> Result<Vec<Explanation>, ExplainError> {
    let (root, only) = root_of(&options.dir)?;
    // The kinds beside one kind are those that a gateway would load with it.
    let kinds = match &only {
        Some(_) => Kinds::load_dir(&root),
        None => Kinds::load_all_below(&root),
    }?;
    let wanted = |kind: &&FederatedKind| {
        let resource = &kind.resource;
        only.as_ref()
            .is_none_or(|(api_version, name)| resource.api_version == *api_version && resource.kind == *name)
    };
    let wanted: Vec<&FederatedKind> = kinds.federated.iter().filter(wanted).collect();
    if wanted.is_empty() {
        return Err(ExplainError::NoKind(options.dir.display().to_string()));
    }
    let chapters = chapters(&options.chapters);
    // One of several kinds is that of the file.
    let alone = wanted.len() == 1;
    let mut explained = Vec::new();
    for &kind in &wanted {
        let found = match example::find(kind, options.object.as_deref()) {
            Err(ExplainError::Kind { .. }) if !alone && options.object.is_some() => continue,
            found => found?,
        };
        explained.push(on_a_thread(
            (kind, &kinds.federated),
            &found,
            &chapters,
            settings,
        )?);
        example::check_less_status(kind, &found)?;
    }
    match &options.object {
        Some(file) if explained.is_empty() => {
            let kinds = wanted.iter().map(|kind| &kind.resource);
            Err(ExplainError::OtherKind {
                file: file.display().to_string(),
                dir: options.dir.display().to_string(),
                kinds: kinds
                    .map(|kind| format!("{} of {}", kind.kind, kind.api_version))
                    .collect(),
            })
        }
        _ => Ok(explained),
    }
}

/// The folder of kinds that a folder is or belongs to, and the kind if it is one kind's own.
fn root_of(dir: &Path) -> Result<(PathBuf, Option<(String, String)>), ExplainError> {
    if !dir.join("kind.yaml").is_file() {
        return Ok((dir.to_owned(), None));
    }
    let unreadable = |error| ExplainError::Folder(dir.display().to_string(), error);
    let [group, version, kind] = folder_names(dir).map_err(unreadable)?;
    let full = dir.canonicalize().map_err(unreadable)?;
    let own: PathBuf = [&group, &version, &kind].iter().collect();
    let root = if dir.ends_with(&own) {
        dir.ancestors().nth(3)
    } else {
        full.ancestors().nth(3)
    };
    let root = root
        .filter(|root| !root.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    Ok((root.to_owned(), Some((format!("{group}/{version}"), kind))))
}

/// The chapters in the order in which they happen.
fn chapters(asked: &[Chapter]) -> Vec<Chapter> {
    let asked = if asked.is_empty() {
        &[Chapter::Create, Chapter::Delete]
    } else {
        asked
    };
    let all = asked.contains(&Chapter::All);
    let order = [Chapter::Create, Chapter::Edit, Chapter::Suspend, Chapter::Delete];
    order
        .into_iter()
        .filter(|chapter| all || asked.contains(chapter))
        .collect()
}

/// Plays on a thread of its own, where the order of hash maps is always the same.
fn on_a_thread(
    kinds: (&FederatedKind, &[FederatedKind]),
    example: &example::Example,
    chapters: &[Chapter],
    settings: &Settings,
) -> Result<Explanation, ExplainError> {
    let play = || {
        Random::seed(1);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        runtime.block_on(world::play(kinds, example, chapters, settings))
    };
    std::thread::scope(|threads| match threads.spawn(play).join() {
        Ok(played) => played,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
