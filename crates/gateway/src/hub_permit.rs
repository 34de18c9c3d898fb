//! A reconcile's permit to write an object to the hub.

use super::{
    context::Shared,
    rate_limit::{Class, Permit, RateLimiter},
};
use fedgate_api::names::ProjectKey;
use fedgate_engine::{clock::Clock, key::Key};
use parking_lot::Mutex;
use std::sync::Arc;

/// A permit of one key. A granted permit without a write is refunded.
#[derive(Debug)]
pub struct HubPermit {
    limiter: Arc<Mutex<RateLimiter>>,
    clock: Clock,
    project: ProjectKey,
    key: Key,
    permit: Permit,
    class: Class,
}

impl HubPermit {
    /// A permit that is not requested yet.
    pub fn new(ctx: &Shared, project: &ProjectKey, key: &Key) -> Self {
        Self {
            limiter: ctx.rate_limiter.clone(),
            clock: ctx.clock.clone(),
            project: project.clone(),
            key: key.clone(),
            permit: Permit::Unasked,
            class: Class::Create,
        }
    }

    /// State of the permit.
    pub fn state(&self) -> Permit {
        self.permit
    }

    /// Requests the permit unless it is granted already.
    pub fn ask(&mut self, class: Class) -> Permit {
        if self.permit != Permit::Granted {
            let mut limiter = self.limiter.lock();
            self.class = class;
            self.permit = limiter.acquire(&self.project, &self.key, class, self.clock.now());
        }
        self.permit
    }

    /// The write was applied; the next write needs a new permit.
    pub fn used(&mut self) {
        self.permit = Permit::Unasked;
    }
}

impl Drop for HubPermit {
    fn drop(&mut self) {
        if self.permit == Permit::Granted {
            let mut limiter = self.limiter.lock();
            limiter.refund(&self.project, &self.key, self.class);
        }
    }
}
