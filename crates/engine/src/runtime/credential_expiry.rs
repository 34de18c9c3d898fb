//! Credentials that end soon: each is logged once for each step of the time left to it.

use super::{Runtime, role::Role};
use crate::plane::kubeconfig::{Expiry, TimeLeft};
use std::fmt::Display;

impl<R: Role> Runtime<R> {
    /// Logs the credentials that have come closer to their end, or have passed it, since the last call.
    pub(super) fn observe_credentials(&self) {
        let now = self.shared.now().wall.as_second();
        for (plane, engaged) in self.shared.planes.lock().iter_mut() {
            let expiry = engaged.connection.current().expiry();
            let step = expiry.map(|expiry| (expiry.at, TimeLeft::of(Some(expiry), now)));
            if step != engaged.reported_expiry {
                engaged.reported_expiry = step;
                if let (Some(expiry), Some((_, left))) = (expiry, step) {
                    report(plane, expiry, left);
                }
            }
        }
    }
}

fn report(plane: &dyn Display, Expiry { at, part }: Expiry, left: TimeLeft) {
    let ends = jiff::Timestamp::from_second(at).unwrap_or_default();
    let (part, next) = (
        part.as_str(),
        "renew it in the plane's kubeconfig; it is taken up without a restart",
    );
    match left {
        TimeLeft::Expired => tracing::error!(%plane, part, %ends, next, "the credential has expired"),
        TimeLeft::Day => tracing::warn!(%plane, part, %ends, next, "the credential expires within a day"),
        TimeLeft::Week => tracing::warn!(%plane, part, %ends, next, "the credential expires within 7 days"),
        TimeLeft::Later | TimeLeft::Unknown => {}
    }
}
