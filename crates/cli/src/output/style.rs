//! Colour as a second signal: it repeats a word and never replaces it.

use crate::{
    rollout::Phase,
    trace::State,
    view::{HealthWord, InstanceWord},
};
use anstyle::{AnsiColor, Style};
use std::io::IsTerminal;

/// When colours are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColorChoice {
    /// True if the stream gets colours.
    pub(crate) fn applies(self, stream: &impl IsTerminal) -> bool {
        let variable = |name: &str| std::env::var_os(name).unwrap_or_default();
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                stream.is_terminal() && variable("NO_COLOR").is_empty() && variable("TERM") != "dumb"
            }
        }
    }
}

/// The meaning of a coloured word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As wanted.
    Good,
    /// On its way.
    Busy,
    /// Broken.
    Bad,
    /// Not known.
    Dim,
    /// Without colour.
    Plain,
}

impl Tone {
    /// The escape sequences.
    pub(crate) fn style(self) -> Style {
        let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
        match self {
            Self::Good => colour(AnsiColor::Green),
            Self::Busy => colour(AnsiColor::Yellow),
            Self::Bad => colour(AnsiColor::Red),
            Self::Dim => Style::new().dimmed(),
            Self::Plain => Style::new(),
        }
    }
}

impl From<HealthWord> for Tone {
    fn from(word: HealthWord) -> Self {
        match word {
            HealthWord::Available => Self::Good,
            HealthWord::Progressing | HealthWord::Degraded => Self::Busy,
            HealthWord::Unavailable => Self::Bad,
            HealthWord::Unknown => Self::Dim,
            HealthWord::Deleting => Self::Plain,
        }
    }
}

impl From<Phase> for Tone {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Done => Self::Good,
            Phase::Blocked => Self::Bad,
            Phase::Waiting | Phase::Draining | Phase::Pending | Phase::Updating => Self::Busy,
        }
    }
}

impl From<State> for Tone {
    fn from(state: State) -> Self {
        match state {
            State::Ok => Self::Good,
            State::Waiting => Self::Busy,
            State::Broken => Self::Bad,
            State::Unseen => Self::Dim,
        }
    }
}

impl From<InstanceWord> for Tone {
    fn from(word: InstanceWord) -> Self {
        match word {
            InstanceWord::Available => Self::Good,
            InstanceWord::Pending | InstanceWord::Starting => Self::Busy,
            InstanceWord::Failed => Self::Bad,
            InstanceWord::Terminating => Self::Plain,
        }
    }
}
