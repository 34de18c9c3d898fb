//! Completion in shells, with live names (contract: cli.md §3).
//!
//! A shell asks with the words typed so far; the answer has a candidate a line and ends with a line `:N`, as kubectl
//! expects it of plugins. An error, or a server that does not answer in time, makes an empty answer: a prompt must not hang.

mod live;
mod scripts;
mod wanted;

pub(crate) use scripts::script;

use crate::args::Cli;
use clap::CommandFactory;
use std::time::Duration;
use wanted::{Place, Wanted};

/// Time for the whole answer.
const LIMIT: Duration = Duration::from_secs(2);

/// The shell completes file names if there are no candidates.
const FILES: &str = ":0\n";

/// The shell completes nothing by itself.
const NO_FILES: &str = ":4\n";

/// A word that the shell may put in, and its meaning.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    word: String,
    meaning: String,
}

impl Candidate {
    fn new(word: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self {
            word: word.into(),
            meaning: meaning.into(),
        }
    }
}

/// The answer for the words after `kubectl compute`, of which the last one is being typed.
pub(crate) async fn answer(words: &[String]) -> String {
    let mut command = Cli::command();
    command.build();
    let Place {
        wanted,
        mut commands,
        typed,
        context,
    } = wanted::place(&command, words);
    commands.extend(match wanted {
        Wanted::Files => return FILES.to_owned(),
        Wanted::Nothing => Vec::new(),
        Wanted::OneOf(candidates) => candidates,
        Wanted::Live(live) => tokio::time::timeout(LIMIT, live::candidates(live, &context))
            .await
            .unwrap_or_default(),
    });
    // Of a list with commas, the last item is completed.
    let (before, item) = match typed.rsplit_once(',') {
        Some((before, item)) => (format!("{before},"), item),
        None => (String::new(), &*typed),
    };
    let lines = commands
        .iter()
        .filter(|candidate| candidate.word.starts_with(item))
        .map(|Candidate { word, meaning }| match plain(meaning) {
            meaning if meaning.is_empty() => format!("{before}{}\n", plain(word)),
            meaning => format!("{before}{}\t{meaning}\n", plain(word)),
        });
    lines.chain([NO_FILES.to_owned()]).collect()
}

/// A text without characters that would end the line or the candidate.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}
