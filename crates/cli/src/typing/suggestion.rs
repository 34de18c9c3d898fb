//! The line that was probably meant by one with a word in the wrong place (contract: cli.md §1).

use super::{
    line, normalized,
    roles::{Role, Roles},
};
use crate::{args::Cli, plane::nearest};
use clap::{
    Command, Parser,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// The line that was probably meant: a command after another one, or a command with a typing error. All other words stay.
pub(crate) fn corrected(root: &Command, words: &[String], error: &clap::Error) -> Option<String> {
    let typed = Typed::read(root, words, stray(error)?)?;
    let meant = typed
        .command_here()
        .or_else(|| typed.command_of_root())
        .or_else(|| typed.object_to_describe())?;
    Some(line(&meant))
}

/// The word that nothing accepts, as clap has found it.
fn stray(error: &clap::Error) -> Option<&str> {
    let context = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        // A word after flags and arguments that commands exclude is a conflict of an unknown command.
        ErrorKind::InvalidSubcommand | ErrorKind::ArgumentConflict => ContextKind::InvalidSubcommand,
        _ => return None,
    };
    match error.get(context) {
        Some(ContextValue::String(stray)) => Some(stray),
        _ => None,
    }
}

/// A line with a word that nothing accepts.
struct Typed<'a> {
    root: &'a Command,
    /// The words, of which the first one is the program.
    words: &'a [String],
    roles: Roles<'a>,
    /// Index of the word.
    stray: usize,
}

impl<'a> Typed<'a> {
    fn read(root: &'a Command, words: &'a [String], stray: &str) -> Option<Self> {
        let roles = Roles::read(root, words.get(1..)?);
        let mut typed = roles.of.iter().zip(&words[1..]);
        let at = typed.position(|(role, word)| matches!(role, Role::Word) && word == stray)?;
        Some(Self {
            root,
            words,
            roles,
            stray: at + 1,
        })
    }

    /// Indices of words before the stray one that have this role.
    fn before(&self, is: fn(&Role<'_>) -> bool) -> impl DoubleEndedIterator<Item = usize> {
        let of = self.roles.of[..self.stray - 1].iter().enumerate();
        of.filter(move |(_, role)| is(role)).map(|(at, _)| at + 1)
    }

    /// The stray word, or one before it, is a command of the innermost command that is misspelled or comes too late.
    fn command_here(&self) -> Option<Vec<String>> {
        let commands = || self.roles.command.get_subcommands().map(Command::get_name);
        let parent = self.before(|role| matches!(role, Role::Command)).last();
        let before = self.before(|role| matches!(role, Role::Word));
        for at in [self.stray].into_iter().chain(before) {
            let Some(near) = nearest(&self.words[at], commands()) else {
                continue;
            };
            let mut in_place = self.words.to_vec();
            near.clone_into(&mut in_place[at]);
            if is_command(&in_place) {
                return Some(in_place);
            }
            let mut moved = self.words.to_vec();
            moved.remove(at);
            moved.insert(parent.unwrap_or_default() + 1, near.to_owned());
            if is_command(&moved) {
                return Some(moved);
            }
        }
        None
    }

    /// The stray word is a command of its own: the commands before it are too many.
    fn command_of_root(&self) -> Option<Vec<String>> {
        let stray = &self.words[self.stray];
        let near = nearest(stray, self.root.get_subcommands().map(Command::get_name))?;
        let mut meant = self.words.to_vec();
        near.clone_into(&mut meant[self.stray]);
        for at in self
            .before(|role| matches!(role, Role::Command | Role::List))
            .rev()
        {
            meant.remove(at);
        }
        Some(meant)
    }

    /// The stray word is the name of an object in a list.
    fn object_to_describe(&self) -> Option<Vec<String>> {
        let mut meant = self.words.to_vec();
        meant.insert(self.stray, "describe".to_owned());
        Cli::try_parse_from(normalized(&meant)).is_ok().then_some(meant)
    }
}

/// True if all commands of a line are at their places. Its flags and the number of its arguments may be wrong.
fn is_command(words: &[String]) -> bool {
    match Cli::try_parse_from(normalized(words)) {
        Ok(_) => true,
        Err(error) => stray(&error).is_none_or(|stray| stray.starts_with('-')),
    }
}
