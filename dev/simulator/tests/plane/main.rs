//! A plane as its clients meet it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test says where")]

mod apply;
mod client;
mod ends;
mod faults;
mod karmada;
mod lanes;
mod proxy;
mod server;
mod verbs;
mod watches;
