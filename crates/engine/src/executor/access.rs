//! The executor's surroundings: planes, the write permit and the index.

use crate::{
    key::Plane,
    plan::{ReasonLabel, Target, WriteResult},
    plane::health::PlaneHealth,
};
use futures::future::BoxFuture;
use kube::Client;
use std::sync::Arc;

/// The executor's access to planes, the write permit and the index.
pub trait PlaneAccess: Send + Sync {
    /// The client for short calls to a plane; `None` if the plane is not engaged.
    fn client(&self, plane: &Plane) -> Option<Client>;
    /// True if this replica may start a write now.
    fn may_write(&self) -> bool;
    /// Resolves when this replica must have no write in flight any longer.
    fn permit_expired(&self) -> BoxFuture<'_, ()>;
    /// A write was cancelled, or its response was lost: the server may still apply it.
    fn write_unresolved(&self, target: &Target);
    /// Health of a plane, to which its calls report; `None` if the plane is not engaged.
    fn health(&self, plane: &Plane) -> Option<Arc<PlaneHealth>>;
    /// A permission that was denied on this plane is granted again.
    fn permission_granted(&self, _plane: &Plane) {}
    /// The server of a project that refused writes as one of a suspended project accepts them again.
    fn suspension_ended(&self, _plane: &Plane) {}
    /// The number of the plane's current engagement: a new engagement may be another server.
    fn engagement(&self, _plane: &Plane) -> u64 {
        0
    }
    /// Records the result of a request sent in this engagement of the plane, so that the index has it before the watch
    /// event arrives.
    fn object_observed(&self, target: &Target, engagement: u64, answer: WriteResult);
    /// Counts a write and its reason, for metrics.
    fn wrote(&self, target: &Target, reason: ReasonLabel);
    /// Counts a repeated write to these fields, for metrics: another writer keeps reverting them.
    fn fight_detected(&self, target: &Target, field_group: &'static str);
}
