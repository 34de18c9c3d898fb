//! The roles of the words of a line, whether the line is accepted or not.

use clap::{Arg, Command};

/// The role of a word.
#[derive(Debug, Clone)]
pub(crate) enum Role<'a> {
    /// A command.
    Command,
    /// A `list` after a command that lists anyway.
    List,
    /// Flags that the command knows, and the value of the last one if it is in the same word.
    Flags(Vec<&'a Arg>, Option<String>),
    /// The value of the flag before it.
    Value(&'a Arg),
    /// A flag that the command does not know, or `--`.
    Unknown,
    /// Any other word.
    Word,
}

/// The words of a line by their roles.
#[derive(Debug)]
pub(crate) struct Roles<'a> {
    /// The role of each word.
    pub(crate) of: Vec<Role<'a>>,
    /// The innermost command.
    pub(crate) command: &'a Command,
    /// Names of the commands, from the outermost to the innermost one.
    pub(crate) path: Vec<&'a str>,
    /// The flag whose value the next word would be.
    pub(crate) open: Option<&'a Arg>,
    /// True if no command can follow, because a flag or a word of the innermost one came before.
    pub(crate) is_closed: bool,
    /// True after `--`.
    has_ended_flags: bool,
}

impl<'a> Roles<'a> {
    /// The roles of the words after the program's name. The command must be built.
    pub(crate) fn read(root: &'a Command, words: &[String]) -> Self {
        let mut roles = Self {
            of: Vec::with_capacity(words.len()),
            command: root,
            path: Vec::new(),
            open: None,
            is_closed: false,
            has_ended_flags: false,
        };
        for word in words {
            let role = roles.next(word);
            roles.of.push(role);
        }
        roles
    }

    /// The values of the flags by their ids, in the order of the line.
    pub(crate) fn values(&self, words: &[String]) -> Vec<(&'a str, String)> {
        let values = self.of.iter().zip(words).filter_map(|(role, word)| match role {
            Role::Flags(args, Some(value)) => Some((args.last()?.get_id().as_str(), value.clone())),
            Role::Value(arg) => Some((arg.get_id().as_str(), word.clone())),
            _ => None,
        });
        values.collect()
    }

    /// Index of the first flag that lacks its value.
    pub(crate) fn first_without_value(&self) -> Option<usize> {
        let lacks_value = |at: &usize| {
            let is_value_next = matches!(self.of.get(at + 1), Some(Role::Value(_)));
            matches!(&self.of[*at], Role::Flags(args, None) if args.last().is_some_and(|arg| takes_next_word(arg)))
                && !is_value_next
        };
        (0..self.of.len()).find(lacks_value)
    }

    fn next(&mut self, word: &str) -> Role<'a> {
        if let Some(arg) = self.open.take().filter(|arg| may_be_value(arg, word)) {
            return Role::Value(arg);
        }
        if !self.has_ended_flags {
            if word == "--" {
                self.has_ended_flags = true;
                return Role::Unknown;
            }
            if let Some(long) = word.strip_prefix("--") {
                return self.long(long);
            }
            if let Some(cluster) = word.strip_prefix('-').filter(|cluster| !cluster.is_empty()) {
                return self.cluster(cluster);
            }
            if !self.is_closed
                && let Some(command) = self.command.find_subcommand(word)
            {
                self.command = command;
                self.path.push(command.get_name());
                return Role::Command;
            }
            let has_words = self.of.iter().any(|role| matches!(role, Role::Word));
            if word == "list" && !has_words && matches!(self.path[..], ["workloads" | "instances"]) {
                return Role::List;
            }
        }
        self.is_closed = true;
        Role::Word
    }

    fn long(&mut self, word: &str) -> Role<'a> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        match self.flag(|arg| arg.get_long() == Some(name)) {
            Some(arg) => self.flags(vec![arg], value),
            None => Role::Unknown,
        }
    }

    /// Short flags in one word: all but the last one have no value.
    fn cluster(&mut self, cluster: &str) -> Role<'a> {
        let mut args = Vec::new();
        for (at, short) in cluster.char_indices() {
            let Some(arg) = self.flag(|arg| arg.get_short() == Some(short)) else {
                return Role::Unknown;
            };
            args.push(arg);
            let rest = &cluster[at + short.len_utf8()..];
            let value = match rest.strip_prefix('=') {
                Some(value) => Some(value),
                None => Some(rest).filter(|rest| !rest.is_empty() && takes_next_word(arg)),
            };
            if value.is_some() {
                return self.flags(args, value);
            }
        }
        self.flags(args, None)
    }

    fn flags(&mut self, args: Vec<&'a Arg>, value: Option<&str>) -> Role<'a> {
        if value.is_none() {
            self.open = args.last().copied().filter(|arg| takes_next_word(arg));
        }
        self.is_closed |= self.command.is_args_conflicts_with_subcommands_set()
            && args.iter().any(|arg| !arg.is_global_set());
        Role::Flags(args, value.map(str::to_owned))
    }

    /// The first flag of the innermost command that is of this kind.
    pub(crate) fn flag(&self, is: impl Fn(&Arg) -> bool) -> Option<&'a Arg> {
        self.command.get_arguments().find(|arg| is(arg))
    }
}

/// True if the next word is the value of this flag.
fn takes_next_word(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

/// True if a word after this flag is its value, and no flag.
fn may_be_value(arg: &Arg, word: &str) -> bool {
    let is_number = || arg.is_allow_negative_numbers_set() && word.parse::<f64>().is_ok();
    !word.starts_with('-') || word == "-" || is_number()
}
