//! The built-in provider: an Instance runs as a Pod, and its ports are a Service's (contract: cell.md §9).
//!
//! Another provider can own Instances instead; all that both know of each other is in the Instance: a provider starts
//! nothing while it has gates, keeps a finalizer of its own on it while something of it runs, and writes the conditions
//! Programmed and Available, the applied template hash and the interfaces' addresses. It never writes Ready, quota or spec.

pub mod pod;
pub mod recovery;
pub mod report;
pub mod service;
