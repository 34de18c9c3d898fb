//! Thousands of Kubernetes API servers in one process.
//!
//! A [`Simulator`] holds planes. A [`Plane`] is an API server of its own: it keeps objects with versions, and answers
//! the verbs as a real API server does, as far as a controller can tell. Clients reach it through a [`Service`] in the
//! same process; the test reaches it directly, and reads every request in the [`Log`].
//!
//! Everything is deterministic: with tokio's paused clock and one thread, two runs with one seed have equal logs.

mod base64;
mod body;
mod clock;
mod combine;
mod compare;
mod definition;
mod discovery;
mod faults;
mod fields;
mod garbage;
mod handle;
mod journal;
pub mod karmada;
mod list;
mod log;
mod managed;
mod merge;
mod meta;
mod plane;
mod prepare;
mod random;
mod restore;
mod route;
mod schema;
mod select;
mod server;
mod service;
mod simulator;
mod state;
mod status;
mod table;
mod view;
mod watch;
mod write;

pub use body::Body;
pub use definition::Definition;
pub use faults::{Fault, Faults, Rule, RuleId, When};
pub use garbage::Controllers;
pub use journal::{CONTROLLERS, Change, DIRECT};
pub use log::{Entry, Log};
pub use plane::Plane;
pub use route::Verb;
pub use service::Service;
pub use simulator::Simulator;
pub use state::Down;
pub use status::Status;
