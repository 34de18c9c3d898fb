//! Topics of a stream.

use std::collections::BTreeSet;

/// A part of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    Overview,
    Projects,
    Cells,
    Stuck,
    Journal,
}

impl Topic {
    const ALL: [Self; 5] = [
        Self::Overview,
        Self::Projects,
        Self::Cells,
        Self::Stuck,
        Self::Journal,
    ];
    /// Topics that can be limited to a project. The others show other projects too.
    const OF_PROJECT: [Self; 3] = [Self::Projects, Self::Stuck, Self::Journal];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Projects => "projects",
            Self::Cells => "cells",
            Self::Stuck => "stuck",
            Self::Journal => "journal",
        }
    }

    /// The topics of a stream, the default first; `of_project` if it is limited to a project.
    pub(super) fn allowed(of_project: bool) -> &'static [Self] {
        if of_project { &Self::OF_PROJECT } else { &Self::ALL }
    }
}

/// A topic of all, or of one project.
pub(super) type Part = (Option<String>, Topic);

/// The parts of the state that a stream shows.
pub(super) type Selection = BTreeSet<Part>;
