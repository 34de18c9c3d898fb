//! The results of the steps of a Cell, which [`cells`](super::cells), `cluster_api` and `hosts` report.

use crate::reason::{Class, Problem};
use fedgate_api::cell::{CellCluster, ProviderKind};
use jiff::Timestamp;
use std::time::Duration;

/// How long one step waits for other programs, before others get the worker.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// A step of a Cell: the type of its condition. In their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The provider of the Cell is on, its Secret, if the provider has one, lists the Cell and can be used, and the name of the Cell is free.
    Validated,
    /// The Cluster of Cluster API reports `InfrastructureReady`; only with Cluster API.
    InfrastructureReady,
    /// All machines belong to the Cell and are prepared; only with machines.
    Bootstrapped,
    /// The first control plane runs; only with Cluster API or machines.
    ControlPlaneInitialized,
    /// All control planes run, or Cluster API reports `ControlPlaneAvailable`; only with Cluster API or machines.
    ControlPlaneJoined,
    /// All workers run, or Cluster API reports `WorkersAvailable`; only with Cluster API or machines.
    WorkersJoined,
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
    /// The steps of every provider, but Drained.
    const OF_ALL: [Self; 4] = [Self::Validated, Self::Registered, Self::AgentReady, Self::Ready];
    const OF_CLUSTER_API: [Self; 4] = [
        Self::InfrastructureReady,
        Self::ControlPlaneInitialized,
        Self::ControlPlaneJoined,
        Self::WorkersJoined,
    ];
    const OF_MACHINES: [Self; 4] = [
        Self::Bootstrapped,
        Self::ControlPlaneInitialized,
        Self::ControlPlaneJoined,
        Self::WorkersJoined,
    ];

    /// The steps by which this provider makes a cluster.
    const fn of_provider(provider: ProviderKind) -> &'static [Self] {
        match provider {
            ProviderKind::Existing => &[],
            ProviderKind::ClusterApi => &Self::OF_CLUSTER_API,
            ProviderKind::Hosts => &Self::OF_MACHINES,
        }
    }

    /// The type of the condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Validated => "Validated",
            Self::InfrastructureReady => "InfrastructureReady",
            Self::Bootstrapped => "Bootstrapped",
            Self::ControlPlaneInitialized => "ControlPlaneInitialized",
            Self::ControlPlaneJoined => "ControlPlaneJoined",
            Self::WorkersJoined => "WorkersJoined",
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
    /// The status with step Registered undone, because the cluster cannot be asked again while its machines go. The steps run again after
    /// that.
    Withdrawn,
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

    /// The first step of a provider without a result.
    pub fn next_step(&self, provider: ProviderKind, deleting: bool) -> Step {
        let is_open = |step: &&Step| self.outcomes.iter().all(|(of, _)| of != *step);
        let mut all = Step::of_provider(provider).iter().chain(&Step::OF_ALL);
        let next = all.find(is_open).copied().filter(|_| !deleting);
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
