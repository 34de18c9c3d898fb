//! The colours of the words that commands print.

pub(crate) use fedgate_terminal::style::{ColorChoice, Tone};

use crate::{
    rollout::Phase,
    trace::State,
    view::{HealthWord, InstanceWord},
};

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
