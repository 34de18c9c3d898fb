//! See the crate's map.

pub mod client;
pub mod kubeconfig;
pub mod lease;
