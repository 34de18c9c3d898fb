//! Events that several controllers make alike. Values only.

use fedgate_engine::{
    key::Plane,
    plan::{Event, ObjectRef},
};
use kube::core::ApiResource;

/// An object as an Event refers to it.
pub fn about(resource: &ApiResource, namespace: &str, name: &str, uid: &str) -> ObjectRef {
    ObjectRef {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    }
}

/// An Event on an object of a plane, a warning or not.
pub fn event(
    plane: Plane,
    about: ObjectRef,
    warning: bool,
    [reason, action]: [&str; 2],
    message: String,
) -> Event {
    Event {
        plane,
        about,
        warning,
        reason: reason.to_owned(),
        action: action.to_owned(),
        message,
    }
}
