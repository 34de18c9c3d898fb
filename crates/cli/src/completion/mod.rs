//! Completion in shells, with live names (contract: cli.md §3).
//!
//! A shell asks with the words typed so far; the answer has a candidate a line and ends with a line `:N`, as kubectl
//! expects it of plugins. An error, or a server that does not answer in time, makes an empty answer: a prompt must not hang.

mod live;
mod wanted;

use crate::{args::Shell, output::table::escape, typing::built};
use std::time::Duration;
use wanted::{Place, Wanted};

/// Time for names of the server, so that the whole answer takes less than two seconds.
const LIMIT: Duration = Duration::from_millis(1_700);

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
    let command = built();
    let Place {
        wanted,
        mut commands,
        typed,
        context,
    } = wanted::place(&command, words);
    commands.extend(match wanted {
        Wanted::Files => return FILES.to_owned(),
        Wanted::OneOf(candidates) => candidates,
        wanted => live::candidates(wanted, context, LIMIT).await,
    });
    // Of a list with commas, the last item is completed.
    let (before, item) = match typed.rsplit_once(',') {
        Some((before, item)) => (format!("{before},"), item),
        None => (String::new(), &*typed),
    };
    let lines = commands
        .iter()
        .filter(|candidate| candidate.word.starts_with(item) && is_plain(&candidate.word))
        .map(|Candidate { word, meaning }| match &*escape(meaning) {
            "" => format!("{before}{word}\n"),
            meaning => format!("{before}{word}\t{meaning}\n"),
        });
    lines.chain([NO_FILES.to_owned()]).collect()
}

/// The script for a shell.
pub(crate) const fn script(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => include_str!("scripts/kubectl-compute.bash"),
        Shell::Zsh => include_str!("scripts/kubectl-compute.zsh"),
        Shell::Fish => include_str!("scripts/kubectl-compute.fish"),
        Shell::Powershell => include_str!("scripts/kubectl-compute.ps1"),
    }
}

/// True for a word that every shell takes as it is: a name of a server must not become a command or another flag.
fn is_plain(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._=:/@-".contains(c);
    word.chars().all(plain)
}
