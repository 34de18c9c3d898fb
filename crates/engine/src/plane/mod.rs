//! Planes: clients, watches and the tables they fill, discovery of project planes, the Lease.

pub mod client;
pub mod credential;
pub mod discovery;
pub mod files;
pub mod health;
pub mod kubeconfig;
pub mod lease;
pub mod watch;
