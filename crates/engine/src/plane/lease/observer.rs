//! Watches the Lease for a standby. The watch belongs to the plane: while the plane is down, it probes in turn with the
//! plane's other watches.

use crate::{
    key::Plane,
    plane::{
        client::Connection,
        watch::{self, WatchEvent, WatchSpec, WatchStatus},
    },
};
use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use kube::core::ApiResource;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::mpsc::UnboundedSender;

/// Sends the Lease at each change, `None` while the Lease does not exist, until the future is dropped; always uses the
/// plane's current credential.
pub(super) fn watch(
    plane: Connection,
    namespace: &str,
    name: &str,
    tell: UnboundedSender<Option<LeaseObject>>,
) -> impl Future<Output = ()> + use<> {
    let selection = WatchSpec {
        resource: ApiResource::erase::<LeaseObject>(&()),
        namespace: Some(namespace.to_owned()),
        labels: None,
        fields: Some(format!("metadata.name={name}")),
        page: watch::SMALL_OBJECTS,
        metadata_only: false,
        unread: &[],
        may_be_absent: false,
    };
    async move {
        let (status, present) = (WatchStatus::default(), AtomicBool::new(false));
        let sink = |event| {
            let seen = match event {
                WatchEvent::Init => return present.store(false, Ordering::Relaxed),
                WatchEvent::InitApply(object) | WatchEvent::Apply(object) | WatchEvent::Written(object) => {
                    present.store(true, Ordering::Relaxed);
                    // A Lease that cannot be parsed is skipped here; the candidate's next read reports the error.
                    let Ok(lease) = object.try_parse() else { return };
                    Some(lease)
                }
                WatchEvent::Failed | WatchEvent::Resumed | WatchEvent::Rewound => return,
                WatchEvent::InitDone if present.load(Ordering::Relaxed) => return,
                WatchEvent::InitDone | WatchEvent::Delete(_) => None,
            };
            // The receiver is dropped once this process holds the Lease.
            let _ = tell.send(seen);
        };
        watch::run_supervised(&Plane::Hub, &plane, &selection, &status, sink, |_| {}, || {}).await;
    }
}
