//! The gateway: the controllers that join project planes and the hub.

pub mod world;
