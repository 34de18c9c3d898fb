//! Checks of the planes: requirements for the gateway's start ([`preflight`]), and all other checks by requests
//! (`fedgate doctor`, [`examine`]).

mod admission;
mod cell_login;
mod clusters;
mod credential;
mod definitions;
mod error;
mod examine;
mod gateway;
mod hub;
mod karmada;
mod members;
mod preflight;
mod reach;
mod report;
mod rights;
mod subject;
mod works;

pub use error::PreflightError;
pub use examine::{Planes, examine};
pub use gateway::{Replica, gateway};
pub use preflight::preflight;
pub use report::{Check, Finding, Report, Verdict};
pub use subject::{Role, Subject};

#[cfg(test)]
mod tests;
