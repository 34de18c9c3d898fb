//! A Lua host equal to the one in which Karmada runs interpreter scripts.
//!
//! Karmada embeds gopher-lua, a Lua 5.1 in Go. [`Host`] gives the same libraries, the same refused functions, the same
//! budget of one second and the same way back to JSON on PUC Lua 5.1, with a memory limit that Karmada lacks. What the
//! two still disagree on is listed in docs/interpreters.md.

mod bytecode;
#[cfg(feature = "checks")]
pub mod checks;
mod convert;
mod error;
mod host;
mod kube;
mod operation;
mod pattern;
mod quantity;
mod text;
mod vm;

pub use error::LuaError;
pub use host::{Dependency, Host, check_entry_point};
pub use operation::Operation;

#[cfg(test)]
mod tests;
