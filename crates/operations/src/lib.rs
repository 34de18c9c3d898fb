//! The documents of the operations API (contract: operations.md §2): the answers, and the queries that select them.
//!
//! The gateway and the cell fill them from memory, the server sends them, and the commands `fedgate status`, `stuck`,
//! `trace` and `journal` read them. Field names are interface: within a major version they are only added to.

#![forbid(unsafe_code)]

mod answer;
mod cells;
mod flows;
mod journal;
mod overview;
mod planes;
mod projects;
pub mod query;
mod source;
mod stuck;
mod time;
mod trace;
pub mod views;

pub use answer::{API_VERSION, Answer, ErrorAnswer, ErrorCode, Header, Page, Replica, ReplicaRole};
pub use cells::{CellDetail, CellInstances, CellRow, CellState};
pub use flows::{FlowRow, Flows, REST};
pub use journal::{Journal, JournalRow};
pub use overview::{
    CellCounts, Deletions, Deployments, Garbage, Health, HealthReason, HealthState, HubSummary, Instances,
    Overview, ProjectCounts, QueueCounts, Stage, Undelivered,
};
pub use planes::{PlaneRow, PlaneState, Planes, RefusedProject, WatchRow};
pub use projects::{NamespaceRow, ProjectDetail, ProjectRow, Worst};
pub use source::{Changes, NoAnswer, OperationsSource, Rows};
pub use stuck::{Class, Stuck, StuckGroup, StuckItem};
pub use time::Time;
pub use trace::{
    Branch, FirstBroken, Hop, HopKind, HopSource, HopState, InstanceRow, Trace, TracedObject, Verdict,
};
