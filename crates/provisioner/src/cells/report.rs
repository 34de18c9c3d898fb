//! The results of the steps of a Cell.

use crate::reason::{Class, Problem};
use fedgate_api::cell::CellCluster;
use jiff::Timestamp;

/// A step of a Cell: the type of its condition. In their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The Secret lists the Cell and has a usable kubeconfig, and the name of the Cell is free.
    Validated,
    /// Hub and cluster reach each other, and the cluster has definitions and roles.
    Registered,
    /// The program of the cell runs, if the Cell has its image.
    AgentReady,
    /// The cell has its city, and Karmada can deliver to it.
    Ready,
    /// Nothing is left in the cell; only while it is to be empty.
    Drained,
}

impl Step {
    /// The type of the condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Validated => "Validated",
            Self::Registered => "Registered",
            Self::AgentReady => "AgentReady",
            Self::Ready => "Ready",
            Self::Drained => "Drained",
        }
    }
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The step is reached.
    Reached,
    /// The Cell does not ask for it.
    NotNeeded,
    /// The step is not reached.
    Missing(Problem),
}

impl Outcome {
    /// Why the step is not reached.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Missing(problem) => Some(problem),
            Self::Reached | Self::NotNeeded => None,
        }
    }
}

/// The action after a run of the steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The status.
    Reported,
    /// The finalizer, because nothing may be written for a Cell without it.
    NeedsFinalizer,
    /// The status with the id of the cluster, because a deletion takes nothing away without it. The steps run again after that.
    ClusterFound,
    /// The end of the finalizer, because nothing is left of the cell; the text names what had to be left behind.
    CleanedUp(Option<String>),
}

/// The results of one run of the steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The results.
    pub outcomes: Vec<(Step, Outcome)>,
    /// The cluster, if its kubeconfig can be used.
    pub cluster: Option<CellCluster>,
    /// The end.
    pub end: End,
    /// When.
    pub at: Timestamp,
}

impl Report {
    /// A report without outcomes.
    pub fn new(at: Timestamp) -> Self {
        Self {
            outcomes: Vec::new(),
            cluster: None,
            end: End::Reported,
            at,
        }
    }

    /// Adds the result of a step; true if the next one may follow.
    pub fn add(&mut self, step: Step, result: Result<(), Problem>) -> bool {
        let outcome = result.map_or_else(Outcome::Missing, |()| Outcome::Reached);
        let goes_on = outcome == Outcome::Reached;
        self.outcomes.push((step, outcome));
        goes_on
    }

    /// The first step without a result.
    pub fn next_step(&self, deleting: bool) -> Step {
        let all = [Step::Validated, Step::Registered, Step::AgentReady, Step::Ready];
        let is_open = |step: &Step| self.outcomes.iter().all(|(of, _)| of != step);
        let next = all.into_iter().find(is_open).filter(|_| !deleting);
        next.unwrap_or(Step::Drained)
    }

    /// The problems, in the order of the steps.
    pub fn problems(&self) -> impl Iterator<Item = (Step, &Problem)> {
        let all = self.outcomes.iter();
        all.filter_map(|(step, outcome)| Some((*step, outcome.problem()?)))
    }

    /// True if a request has failed.
    pub fn has_failed(&self) -> bool {
        self.problems()
            .any(|(_, problem)| problem.reason.class() == Class::Retry)
    }
}
