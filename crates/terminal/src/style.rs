//! Colour as a second signal: it repeats a word and never replaces it.

use anstyle::{AnsiColor, Style};
use std::io::IsTerminal;

/// When colours are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
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
    pub fn applies(self, stream: &impl IsTerminal) -> bool {
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
pub enum Tone {
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
    pub fn style(self) -> Style {
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
