//! The commands that operators type.
//!
//! * [`client`]: commands that ask a running gateway or cell: status, stuck, trace, journal and console.
//! * [`doctor`]: checks of hub and projects, before the start of a gateway and on demand.
//! * [`membership`]: cells join, drain and leave, projects come and go.

#![forbid(unsafe_code)]

pub mod args;
pub mod client;
pub mod doctor;
pub mod membership;
