//! The Lease as its watch tells it to a standby. The watch is one of the plane's: while the plane is away it asks in turn
//! with them.

use crate::{
    engine::key::Plane,
    plane::{
        client::Connection,
        watch::{self, Event, Health, Selection},
    },
};
use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use kube::core::ApiResource;
use std::cell::Cell;
use tokio::sync::mpsc::UnboundedSender;

/// Tells the Lease at each change, `None` while it does not exist, until the future is dropped; with the plane's present
/// credential.
pub(super) fn watch(
    plane: Connection,
    namespace: &str,
    name: &str,
    tell: UnboundedSender<Option<LeaseObject>>,
) -> impl Future<Output = ()> + use<> {
    let selection = Selection {
        resource: ApiResource::erase::<LeaseObject>(&()),
        namespace: Some(namespace.to_owned()),
        labels: None,
        fields: Some(format!("metadata.name={name}")),
        page: watch::SMALL_OBJECTS,
        unread: &[],
    };
    async move {
        let (health, mut generation) = (Health::default(), plane.generation());
        loop {
            generation.hear();
            let (tell, present) = (tell.clone(), Cell::new(false));
            let sink = move |event| {
                let seen = match event {
                    Event::Began => return present.set(false),
                    Event::Listed(object) | Event::Applied(object) | Event::Answered(object) => {
                        present.set(true);
                        // One that cannot be read is found out by whoever looks.
                        let Ok(lease) = object.try_parse() else { return };
                        Some(lease)
                    }
                    Event::Failed | Event::Resumed | Event::Rewound => return,
                    Event::Complete if present.get() => return,
                    Event::Complete | Event::Deleted(_) => None,
                };
                // Nobody listens any more when the Lease is ours.
                let _ = tell.send(seen);
            };
            tokio::select! {
                biased;
                () = watch::run(&Plane::Hub, plane.current(), &selection, &health, plane.reach(), sink, |_| {}) => {}
                _ = generation.news() => {}
            }
        }
    }
}
