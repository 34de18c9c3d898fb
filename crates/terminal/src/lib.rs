//! Results on a terminal, for `kubectl compute` and the commands of `fedgate` that ask a gateway (contract: cli.md §1, §2,
//! §9): tables, colours, text that is drawn again, errors with their exit codes.

#![forbid(unsafe_code)]

pub mod error;
pub mod screen;
pub mod style;
pub mod table;
pub mod time;
pub mod write;
