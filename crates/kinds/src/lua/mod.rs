//! A Lua host equivalent to the one in which Karmada runs interpreter scripts.
//!
//! Karmada embeds gopher-lua, a Lua 5.1 in Go. [`Host`] provides the same libraries, the same forbidden functions, the
//! same limit of 1 s per call and the same conversion to JSON on PUC Lua 5.1, plus a memory limit that Karmada lacks.
//! docs/interpreters.md lists the remaining differences.

#[cfg(feature = "checks")]
mod bytecode;
#[cfg(feature = "checks")]
pub mod checks;
mod convert;
mod error;
mod host;
mod operation;
mod text;
mod vm;

pub use error::LuaError;
pub use host::{Dependency, Host, check_entry_point};
pub use operation::Operation;

#[cfg(test)]
mod tests;
