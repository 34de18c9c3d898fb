//! The cell role: planes, the parts that others play around a cell, and a real cell between them.

mod courses;
mod crash;
mod end;
mod gates;
mod invariants;
mod ops;
mod outage;
mod planes;
mod players;
mod provider;
mod quota;
mod random;
mod rig;
mod write_back;
