//! `fedgate-sandbox explain`: what becomes of an object of a federated kind, request by request, without a cluster.
//!
//! The gateway's own controllers decide and its own executor writes, to planes of the simulator (`planes`), on which Karmada
//! and the members act where all goes well (`world`). What is shown is what the gateway sent (`record`).

#![forbid(unsafe_code)]

mod example;
mod planes;
mod record;
mod returned;
mod scripts;
mod text;
mod world;

pub use record::{Happening, Request};

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use fedgate_engine::random::Random;
use fedgate_gateway::settings::Settings;
use fedgate_kinds::{
    FederatedKind, Kinds,
    lua::{LuaError, Operation},
};
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// A part of an object's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Chapter {
    /// The object is created.
    Create,
    /// A number of its spec is changed, or a boolean if it has none.
    Edit,
    /// The object is suspended, and resumed.
    Suspend,
    /// The object is deleted.
    Delete,
    /// All of these, in this order.
    All,
}

/// The object to explain, and what of it.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Folder of federated kinds, or of one kind.
    pub dir: PathBuf,
    /// File with the object, and in further documents what it refers to. Default: example.yaml in the folder of the kind,
    /// else an object of the cases beside the scripts.
    #[arg(long, value_name = "FILE")]
    pub object: Option<PathBuf>,
    /// Part of the life of the object; may be repeated. Default: create and delete.
    #[arg(long = "chapter", value_enum, value_name = "CHAPTER")]
    pub chapters: Vec<Chapter>,
}

/// Arguments of `fedgate-sandbox explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    options: Options,
    /// Format.
    #[arg(long, short, value_enum, default_value = "text")]
    output: Format,
}

/// Format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line for each request, and each object of the hub once.
    Text,
    /// A YAML document for each request, with its body.
    Yaml,
}

impl ExplainArgs {
    /// The output of the command, for a gateway with these settings.
    pub fn run(&self, settings: &Settings) -> anyhow::Result<String> {
        let explained = explain(&self.options, settings)?;
        Ok(match self.output {
            Format::Text => text::text(&explained),
            Format::Yaml => text::yaml(&explained),
        })
    }
}

/// The error of a script, which `lacks` a part of the status where it fails.
fn script_error(kind: &FederatedKind, operation: Operation, error: &LuaError, lacks: &str) -> anyhow::Error {
    let file = example::folder(kind).join(operation.file());
    let line = error.line().map_or_else(String::new, |line| format!(":{line}"));
    anyhow!(
        "{}{line}{lacks}: {} fails for this object: {error}; Karmada would return no status; correct the script, or the \
         status of the object",
        file.display(),
        operation.key()
    )
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
pub fn explain(options: &Options, settings: &Settings) -> anyhow::Result<Vec<Explanation>> {
    let (dir, object) = (options.dir.display(), options.object.as_deref());
    let (root, only) = root_of(&options.dir).with_context(|| format!("cannot read {dir}"))?;
    let kinds = Kinds::load_dir(&root)?;
    let is_wanted = |kind: &&FederatedKind| {
        let own = || example::folder(kind).canonicalize().ok();
        only.is_none() || own() == only
    };
    let wanted: Vec<&FederatedKind> = kinds.federated.iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        bail!(
            "{dir} holds no kind of objects that tenants own; give a folder <group>/<version>/<Kind> with a kind.yaml"
        );
    }
    let chapters = chapters(&options.chapters);
    let mut explained = Vec::new();
    for &kind in &wanted {
        // The file has an object of one of several kinds.
        if let Some(file) = object.filter(|_| wanted.len() > 1)
            && !example::has_object_of(kind, file)?
        {
            continue;
        }
        let found = example::find(kind, object)?;
        explained.push(on_a_thread(
            (kind, &kinds.federated),
            &found,
            &chapters,
            settings,
        )?);
        example::check_less_status(kind, &found)?;
    }
    if let Some(file) = object.filter(|_| explained.is_empty()) {
        let kinds = wanted.iter().map(|kind| &kind.resource);
        let kinds: Vec<String> = kinds
            .map(|kind| format!("{} of {}", kind.kind, kind.api_version))
            .collect();
        let (file, kinds) = (file.display(), kinds.join(", "));
        bail!("{file} has no object of a kind in {dir}; there are {kinds}");
    }
    Ok(explained)
}

/// The folder of kinds that a folder is or belongs to, and the full path of one kind's own folder: the kinds beside it are those
/// that a gateway would load with it.
fn root_of(dir: &Path) -> io::Result<(PathBuf, Option<PathBuf>)> {
    if !dir.join("kind.yaml").is_file() {
        return Ok((dir.to_owned(), None));
    }
    let full = dir.canonicalize()?;
    let above = full.ancestors().nth(3).unwrap_or(&full);
    // Messages have the path that was given, where it has the folders above.
    let given = dir.ancestors().nth(3);
    let given = given.filter(|root| root.canonicalize().is_ok_and(|root| root == above));
    Ok((given.unwrap_or(above).to_owned(), Some(full.clone())))
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
) -> anyhow::Result<Explanation> {
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
