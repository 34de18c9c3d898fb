//! Proofs of objects that live at one member (docs/contract, clusters.md): a made-up kind, `Vault`, whose members have planes.

mod away;
mod crash;
mod end;
mod ended;
mod explained;
mod invariants;
mod ops;
mod orphans;
mod random;
mod rig;
