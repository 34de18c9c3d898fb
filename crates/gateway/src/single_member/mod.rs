//! Objects that live at one member, of kinds with `cardinality: exactlyOne` (contract: clusters.md). Karmada chooses the member,
//! the hub records it in a pin, and only then is the object delivered there.
//!
//! The index has its part of these objects in `index/single_member`; everything else is in this folder. The controllers of ordinary objects reach it at
//! one place in each phase:
//!
//! | phase | the controller calls |
//! |---|---|
//! | observe | [`observe()`] for a deployment, [`referrers`] for a companion, [`orphan`] for garbage |
//! | decide | [`decide::advance`] while the object lives, [`decide::end`] while it is being deleted |
//! | report | [`conditions::own`] |
//! | read | [`probe::probe`], which asks Karmada and the member |
//!
//! The interface has functions and no trait, because ordinary objects have nothing to put behind the same methods: their phases have
//! neither pin nor probe, and an implementation for them would be empty. A decision returns a [`decide::MemberStep`], which says what is
//! to become of copy and pin. The federator alone knows how to write a copy, and carries the step out.

pub mod conditions;
pub mod decide;
pub mod members;
pub mod observe;
pub mod orphan;
pub mod probe;
pub mod referrers;

pub use members::{Member, MemberApi};
pub use observe::{CompanionState, HubUser, SingleMember, observe, own_binding};
pub use probe::{Observation, Probe};

use crate::{
    context::Context,
    index::{GatewayIndex, single_member::DeliveryPolicy},
};
use fedgate_api::Reason;
use fedgate_engine::{key::Key, runtime::queue::Priority};
use std::sync::Arc;

/// Reason and message of what keeps an object from its member.
pub type Fault = (Reason, String);

/// True if the hub knows the gateway as a `ServiceAccount`. A member cannot be asked in such a name: its groups would have to be
/// bound, too, and with them every `ServiceAccount` of the hub.
pub fn is_service_account(user: &str) -> bool {
    user.starts_with("system:serviceaccount:")
}

/// Requests the policy that the object of a key is to have, so that it is made and stays. The policies of the hub namespace are
/// enqueued only if the request is another one: they enqueue in turn the objects that wait for them, also while the hub refuses
/// them or does not answer.
pub fn request_policy(
    index: &mut GatewayIndex,
    hub: &Arc<str>,
    key: &Key,
    policy: Option<&DeliveryPolicy>,
) -> Option<Key> {
    let has_changed = index.intents.requested.request(hub, key, policy);
    has_changed.then(|| index.policies_key(hub))
}

/// Requests a policy just before an object is given to it. Returns false if the policy is being deleted: the object is then not
/// written.
pub fn may_be_given(ctx: &Context<'_>, hub: &Arc<str>, key: &Key, policy: &DeliveryPolicy) -> bool {
    let mut index = ctx.index.lock();
    let policies = request_policy(&mut index, hub, key, Some(policy));
    let name: Arc<str> = policy.name(&index.kinds).into();
    let is_leaving = index.is_policy_withdrawn(hub, &name);
    drop(index);
    ctx.queue.extend(policies, Priority::Fresh);
    !is_leaving
}
